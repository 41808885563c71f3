# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of grouped.h; _grouped.pyi documents them."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport ENOMEM
from libc.stdint cimport uintptr_t

from pyarrow import allocate_buffer as _new

include "grouped_api.pxi"

ROWS_MOST = GROUPED_ROWS_MOST
LOW_BYTES = GROUPED_LOW_BYTES

cdef extern from "<malloc.h>" nogil:
    int M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
    int mallopt(int what, int bytes)


def keep_freed_memory():
    mallopt(M_MMAP_THRESHOLD, 32 << 20)
    mallopt(M_TRIM_THRESHOLD, 64 << 20)


cdef class _Borrowed:
    """The memory of a buffer, which has `nr` elements of `bits` bits from element `offset` on."""
    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, buffer, size_t offset, size_t nr, int bits):
        if buffer is None:
            return
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.held = True
        if <size_t>self.view.len * 8 < (offset + nr) * bits:
            raise ValueError("a buffer is shorter than its rows")

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef void *at(self, size_t byte) noexcept:
        return <char *>self.view.buf + byte if self.held else NULL


cdef void *_at(made):
    """The memory of a new buffer. Those of Arrow are used again: others are new pages each time."""
    return <void *><uintptr_t>made.address


cdef int _check(int ret, error *err) except -1:
    if ret:
        raise (MemoryError if ret == -ENOMEM else ValueError)(err.msg.decode())
    return 0


def picked(buffer, int width, size_t offset, size_t nr_from, at, size_t nr):
    made = _new(nr * width)
    cdef _Borrowed values = _Borrowed(buffer, offset, nr_from, 8 * width)
    pick_values(width, values.at(offset * width), <uint16_t *>_at(at), nr, _at(made))
    return made


def picked_bits(buffer, size_t offset, size_t nr_from, at, size_t nr):
    made = _new((nr + 7) // 8)
    cdef _Borrowed bits = _Borrowed(buffer, offset, nr_from, 1)
    if pick_bits(<uint8_t *>bits.at(0), offset, nr_from, <uint16_t *>_at(at), nr,
                 <uint8_t *>_at(made)):
        raise MemoryError(f"no memory for {nr_from} bits")
    return made


def rows_of(number, valid, size_t nr, wanted):
    made = _new(nr * sizeof(uint16_t))
    cdef _Borrowed numbers = _Borrowed(number, 0, nr, 16), bits = _Borrowed(valid, 0, nr, 1)
    cdef _Borrowed bytes = _Borrowed(wanted, 0, 0, 8)
    nr = find_rows(<const uint16_t *>numbers.at(0), <const uint8_t *>bits.at(0), nr,
                   <const uint8_t *>bytes.at(0), <uint16_t *>_at(made))
    return made, nr


cdef class Groups:
    cdef groups to
    cdef readonly object number, place
    cdef object _first, _rows

    def __cinit__(self, list keys, size_t nr):
        cdef error err
        cdef group_key of[GROUPED_KEYS_MOST]
        cdef _Borrowed values, valid
        held = []
        if nr > GROUPED_ROWS_MOST or len(keys) > GROUPED_KEYS_MOST:
            raise ValueError(f"{nr} rows with {len(keys)} keys")
        for i, (buffer, width, bits, offset) in enumerate(keys):
            values, valid = _Borrowed(buffer, offset, nr, 8 * width), _Borrowed(bits, offset, nr, 1)
            held += [values, valid]
            of[i].values, of[i].width = values.at(0), width
            of[i].valid, of[i].offset = <const uint8_t *>valid.at(0), offset
        self.number, self.place = _new(nr * sizeof(uint16_t)), _new(nr * sizeof(uint16_t))
        self._first, self._rows = _new(nr * sizeof(uint16_t)), _new(nr * sizeof(uint32_t))
        self.to.nr = nr
        self.to.number, self.to.place = <uint16_t *>_at(self.number), <uint16_t *>_at(self.place)
        self.to.first, self.to.rows = <uint16_t *>_at(self._first), <uint32_t *>_at(self._rows)
        _check(group_rows(of, <int>len(keys), &self.to, &err), &err)

    def __len__(self):
        return self.to.nr_groups

    @property
    def first(self):
        return self._first.slice(0, self.to.nr_groups * sizeof(uint16_t))

    @property
    def rows(self):
        return self._rows.slice(0, self.to.nr_groups * sizeof(uint32_t))

    def numbers(self):
        low, high = _new(self.to.nr), _new(self.to.nr)
        split_numbers(self.to.number, self.to.nr, <uint8_t *>_at(low), <uint8_t *>_at(high))
        return low, high

    def differences(self, buffer, size_t offset, valid):
        cdef differences to
        cdef size_t nr = self.to.nr
        values = picked(buffer, sizeof(uint64_t), offset, nr, self.place, nr)
        cdef _Borrowed bits = _Borrowed(valid, 0, nr, 1)
        high = _new(nr * sizeof(uint32_t))
        made = [_new(nr) for _ in range(GROUPED_LOW_BYTES)]
        for i, one in enumerate(made):
            to.low[i] = <uint8_t *>_at(one)
        to.high = <uint32_t *>_at(high)
        to.valid = <const uint8_t *>bits.at(0)
        group_differences(<uint64_t *>_at(values), self.to.rows, self.to.nr_groups, nr, &to)
        return [*made, high]


cdef class Order:
    cdef size_t nr_stored
    cdef readonly size_t nr, nr_groups
    cdef groups of
    cdef readonly object number, place
    cdef _Borrowed rows

    def __cinit__(self, low, high, rows, size_t nr_groups, size_t nr):
        cdef error err
        cdef _Borrowed low_of = _Borrowed(low, 0, nr, 8), high_of = _Borrowed(high, 0, nr, 8)
        for each, what in ((nr, "rows"), (nr_groups, "groups")):
            if each > GROUPED_ROWS_MOST:
                raise ValueError(f"{each:,} {what} in one batch; the limit is {GROUPED_ROWS_MOST:,}")
        self.nr, self.nr_stored, self.nr_groups = nr, nr, nr_groups
        self.rows = _Borrowed(rows, 0, nr_groups, 32)
        self.number, self.place = _new(nr * sizeof(uint16_t)), _new(nr * sizeof(uint16_t))
        self.of.nr, self.of.nr_groups = nr, nr_groups
        self.of.rows = <uint32_t *>self.rows.at(0)
        self.of.number, self.of.place = <uint16_t *>_at(self.number), <uint16_t *>_at(self.place)
        _check(order_rows(<uint8_t *>low_of.at(0), <uint8_t *>high_of.at(0), &self.of, &err), &err)

    def choose(self, wanted):
        cdef _Borrowed bytes = _Borrowed(wanted, 0, self.nr_groups, 8)
        self.nr = choose_rows(&self.of, <uint8_t *>bytes.at(0))

    def sums(self, list stored, valid):
        cdef differences of
        cdef size_t nr = self.nr_stored
        made = _new(nr * sizeof(uint64_t))
        cdef _Borrowed bits = _Borrowed(valid, 0, nr, 1), one
        held = []
        for i in range(GROUPED_LOW_BYTES):
            one = _Borrowed(stored[i], 0, nr, 8)
            held.append(one)
            of.low[i] = <uint8_t *>one.at(0)
        one = _Borrowed(stored[GROUPED_LOW_BYTES], 0, nr, 32)
        of.high = <uint32_t *>one.at(0)
        of.valid = <const uint8_t *>bits.at(0)
        ungroup_differences(&of, <uint32_t *>self.rows.at(0), self.nr_groups, nr,
                            <uint64_t *>_at(made))
        return picked(made, sizeof(uint64_t), 0, nr, self.place, self.nr)
