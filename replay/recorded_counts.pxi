# SPDX-License-Identifier: Apache-2.0
# The counts of a recording's events; part of _replay.pyx.

cdef class RecordedCounts:
    cdef recorded_counts *c
    cdef Threads recorder

    def __cinit__(self, uint64_t since, uint64_t until, recorder_pids):
        cdef error err
        cdef recorded_counts_config config
        self.recorder = Threads(recorder_pids)
        config = recorded_counts_config(since, until, self.recorder.c)
        check(recorded_counts_new(&self.c, &config, &err), &err)

    def __dealloc__(self):
        recorded_counts_free(self.c)

    def feed(self, batch):
        cdef error err
        cdef uint64_t fallbacks = 0
        cdef Rows rows = Rows(batch)
        with nogil:
            check(recorded_counts_feed(self.c, rows.schema, rows.array, &fallbacks, &err), &err)
        return fallbacks

    def read(self):
        return exported(recorded_counts_read(self.c))

    @property
    def complete(self):
        return recorded_counts_complete(self.c)
