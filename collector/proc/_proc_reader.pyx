# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of proc_reader.h; _proc_reader.pyi documents them."""

from libc.stdlib cimport free, malloc

import errno
import os

include "_proc_reader_api.pxi"

cdef int _ECANCELED = errno.ECANCELED

_GUARDS = (
    (PROC_READER_LOCKED, "locked"),
    (PROC_READER_REALTIME, "realtime"),
    (PROC_READER_NOIO, "noio"),
)
_MISSED = (
    (PROC_MISSED_LATE, "late"),
    (PROC_MISSED_FULL, "full"),
    (PROC_MISSED_THINNED, "thinned"),
)


cdef class ProcReader:
    cdef proc_reader *reader
    cdef unsigned nr_files

    def __cinit__(self, files, unsigned slots):
        cdef error err
        cdef int ret
        cdef proc_file *array = <proc_file *>malloc((len(files) + 1) * sizeof(proc_file))
        if not array:
            raise MemoryError
        try:
            for i, (fd, size, sysctl) in enumerate(files):
                array[i].fd, array[i].size, array[i].sysctl = fd, size, sysctl
            self.nr_files = len(files)
            with nogil:
                ret = proc_reader_new(&self.reader, array, self.nr_files, slots, &err)
            if ret:
                raise OSError(-ret, err.msg.decode())
        finally:
            free(array)

    def __dealloc__(self):
        proc_reader_free(self.reader)

    cdef proc_reader *opened(self) except NULL:
        if not self.reader:
            raise ValueError("the reader is closed")
        return self.reader

    @property
    def guards(self):
        cdef unsigned has = proc_reader_guards(self.opened())
        return [name for bit, name in _GUARDS if has & bit]

    def start(self, double period_s, double share):
        proc_reader_start(self.opened(), <uint64_t>(period_s * 1e9), <uint32_t>(share * 1e6))

    def charge(self, uint64_t ns):
        proc_reader_charge(self.opened(), ns)

    def hold(self, bint held):
        proc_reader_hold(self.opened(), held)

    def ask(self):
        cdef proc_reader *r = self.opened()
        cdef int ret
        with nogil:
            ret = proc_reader_ask(r)
        if ret:
            raise OSError(-ret, os.strerror(-ret))

    def wait(self, double seconds):
        cdef proc_reader *r = self.opened()
        cdef int ms = <int>min(seconds * 1000, 1e9)
        with nogil:
            proc_reader_wait(r, ms)

    def nudge(self):
        proc_reader_nudge(self.opened())

    def take(self):
        cdef const proc_reading *reading = proc_reader_peek(self.opened())
        cdef const proc_text *text
        if not reading:
            return None
        missed = {name: reading.missed[<int>nr] for nr, name in _MISSED if reading.missed[<int>nr]}
        texts = []
        for i in range(self.nr_files):
            text = &reading.texts[i]
            found = text.bytes[:text.length] if text.length >= 0 else None
            texts.append(
                None if text.length == -_ECANCELED else (text.began, text.ended, found)
            )
        proc_reader_drop(self.reader)
        return missed, texts

    @property
    def busy_since(self):
        return proc_reader_busy_since(self.opened()) or None

    def close(self):
        cdef proc_reader *r = self.reader
        self.reader = NULL
        with nogil:
            proc_reader_free(r)
