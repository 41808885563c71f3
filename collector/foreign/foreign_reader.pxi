# SPDX-License-Identifier: Apache-2.0
# The binding of foreign/, a part of _collector.pyx.

FOREIGN = ("ftrace", "trace-cmd report", "perf script", "perf.data", "Perfetto")

Found = namedtuple(
    "Found",
    "kind kernel host arch clock began command cpus counts_loss overwritten dropped_chunks without_cpu"
    " without_pid"
    " without_time in_us has_stacks has_symbols is_sampled sample_period unknown_flag",
    module=__name__,
)


cdef class ForeignReader(Source):
    cdef foreign *foreign

    def __init__(self, path):
        cdef bytes name = os.fsencode(path)
        cdef const char *c_name = name
        cdef error err
        if self.foreign:
            raise ValueError("opened before")
        with nogil:
            check(foreign_open(&self.foreign, c_name, &err), &err)
        self.source = foreign_source(self.foreign)

    def __dealloc__(self):
        foreign_close(self.foreign)

    @property
    def found(self):
        self.opened()
        cdef const foreign_facts_c *facts = foreign_facts(self.foreign)
        return Found(
            FOREIGN[facts.kind], text(facts.kernel), text(facts.host), text(facts.arch),
            text(facts.clock), moment(facts.began), text(facts.command), facts.cpus, facts.counts_loss,
            count(facts.overwritten), facts.dropped_chunks, facts.without_cpu, facts.without_pid, facts.without_time,
            facts.in_us, facts.has_stacks, facts.has_symbols, facts.is_sampled, facts.sample_period or None,
            text(facts.unknown_flag),
        )

    def begin(self, migratetypes, groups, bits):
        cdef Names names = Names(migratetypes)
        cdef list texts = [(os.fsencode(name), os.fsencode(of)) for name, of in groups]
        cdef list flags = [os.fsencode(flag) for flag in bits]
        cdef gfp_group *c_groups = <gfp_group *>malloc((len(texts) + 1) * sizeof(gfp_group))
        cdef foreign_names c
        cdef error err
        cdef int ret
        if not c_groups:
            raise MemoryError
        self.opened()
        for i, (name, of) in enumerate(texts):
            c_groups[i].name = <char *>name
            c_groups[i].flags = <char *>of
        for i in range(32):
            c.gfp_bits[i] = NULL
            if i < len(flags) and flags[i]:
                c.gfp_bits[i] = <char *>flags[i]
        c.decoder = names.c
        c.groups = c_groups
        c.nr_groups = len(texts)
        with nogil:
            ret = foreign_begin(self.foreign, &c, &err)
        free(c_groups)
        check(ret, &err)

    @property
    def facts(self):
        found = self.found
        return {
            "kernel": found.kernel,
            "host": found.host,
            "arch": found.arch,
            "clock": found.clock,
            "recorded_at": found.began,
            "cpus": found.cpus,
            "pageblock_order": self.pageblock_order(),
            "gfp_bits": self.gfp_bits() if found.kind == "perf.data" else None,
            "instances": [""],
        }

    @property
    def kallsyms(self):
        self.opened()
        return text(foreign_kallsyms(self.foreign))

    def close(self):
        self.source = NULL
        with nogil:
            foreign_close(self.foreign)
        self.foreign = NULL
