# SPDX-License-Identifier: Apache-2.0
# The start of a tape from its later events; part of _replay.pyx.

cdef class Hindsight:
    cdef hindsight *c
    cdef run_config config
    cdef Machine machine
    cdef Trace trace
    cdef uint64_t nr_rows

    def __cinit__(self, str kernel, **given):
        cdef error err
        cdef dict config = keywords(given, HINDSIGHT)
        cdef Strings specs = Strings(mainline_spec(config))
        self.machine = Machine(config)
        self.trace = Trace(None)
        self.nr_rows = config["nr_rows"]
        fill_run(&self.config, kernel, config, specs, self.machine, self.trace)
        check(hindsight_new(&self.c, &self.config, &err), &err)

    def __dealloc__(self):
        hindsight_free(self.c)

    def load(self, str table, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        check(hindsight_load(self.c, table.encode(), rows.schema, rows.array, &err), &err)

    def preview(self, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        with nogil:
            check(hindsight_preview(self.c, self.nr_rows, rows.schema, rows.array, &err), &err)

    def feed(self, batch):
        cdef error err
        cdef Rows rows = Rows(batch)
        with nogil:
            check(hindsight_feed(self.c, rows.schema, rows.array, &err), &err)

    def finish(self):
        cdef error err
        with nogil:
            check(hindsight_finish(self.c, &err), &err)

    def read(self):
        return exported(hindsight_read(self.c))

    @property
    def free_counts(self):
        cdef uint32_t counts[HINDSIGHT_COUNTS]
        cdef int nr
        found = []
        while (nr := hindsight_free_counts(self.c, len(found), counts)) >= 0:
            found.append([counts[i] for i in range(nr)])
        return found

    @property
    def coverage(self):
        cdef const hindsight_coverage_c *c = hindsight_coverage(self.c)
        cdef dict counts = c[0]
        cdef dict found = {}
        guessed = counts.pop("guessed")
        contradictions = counts.pop("contradictions")
        for name, nr in counts.items():
            found[name], found[f"{name}_proven"] = nr["nr"], nr["proven"]
        return found | {"free_blocks_guessed": guessed, "contradictions": contradictions}
