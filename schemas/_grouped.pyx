# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Bindings of grouped.h; _grouped.pyi documents them."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AsString, PyByteArray_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

cdef extern from "error.h" nogil:
    struct error:
        char msg[512]

cdef extern from "grouped.h" nogil:
    enum:
        GROUPED_ROWS_MOST
        GROUPED_KEYS_MOST
        GROUPED_LOW_BYTES
    struct group_key:
        const void *values
        int width
        const uint8_t *valid
        size_t offset
    struct differences:
        uint8_t *low[4]
        uint32_t *high
        const uint8_t *valid
    int group_rows(const group_key *keys, int nr_keys, size_t nr, uint8_t *low, uint8_t *high,
                   error *err)
    int group_order(const uint8_t *low, const uint8_t *high, size_t nr, uint16_t *place,
                    uint8_t *first, error *err)
    void group_values(int width, const void *of, const uint16_t *place, size_t nr, void *to)
    void ungroup_values(int width, const void *of, const uint16_t *place, size_t nr, void *to)
    void group_bits(const uint8_t *of, size_t offset, const uint16_t *place, size_t nr, uint8_t *to)
    void ungroup_bits(const uint8_t *of, size_t offset, const uint16_t *place, size_t nr,
                      uint8_t *to)
    void group_differences(const uint64_t *grouped, const uint8_t *first, size_t nr,
                           const differences *to)
    void ungroup_differences(const differences *of, const uint16_t *place, const uint8_t *first,
                             size_t nr, uint64_t *values)

ROWS_MOST = GROUPED_ROWS_MOST
LOW_BYTES = GROUPED_LOW_BYTES


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


cdef bytearray _new(size_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef bytearray _bitmap(size_t nr):
    cdef bytearray made = _new((nr + 7) // 8)
    memset(PyByteArray_AsString(made), 0, len(made))
    return made


cdef int _check(int ret, error *err) except -1:
    if ret:
        raise MemoryError(err.msg.decode())
    return 0


def number(list keys, size_t nr):
    cdef error err
    cdef group_key of[GROUPED_KEYS_MOST]
    cdef bytearray low = _new(nr), high = _new(nr)
    cdef _Borrowed values, valid
    held = []
    assert len(keys) <= GROUPED_KEYS_MOST and nr <= GROUPED_ROWS_MOST
    for i, (buffer, width, bits, offset) in enumerate(keys):
        values, valid = _Borrowed(buffer, offset, nr, 8 * width), _Borrowed(bits, offset, nr, 1)
        held += [values, valid]
        of[i].values, of[i].width = values.at(0), width
        of[i].valid, of[i].offset = <const uint8_t *>valid.at(0), offset
    _check(group_rows(of, <int>len(keys), nr, <uint8_t *>PyByteArray_AsString(low),
                      <uint8_t *>PyByteArray_AsString(high), &err), &err)
    return low, high


cdef class Order:
    cdef size_t nr
    cdef bytearray place, first

    def __cinit__(self, low, high, size_t nr):
        cdef error err
        cdef _Borrowed low_of = _Borrowed(low, 0, nr, 8), high_of = _Borrowed(high, 0, nr, 8)
        if nr > GROUPED_ROWS_MOST:
            raise ValueError(f"{nr:,} rows in one batch; the limit is {GROUPED_ROWS_MOST:,}")
        self.nr = nr
        self.place, self.first = _new(nr * sizeof(uint16_t)), _new(nr)
        _check(group_order(<uint8_t *>low_of.at(0), <uint8_t *>high_of.at(0), nr, self.places(),
                           self.firsts(), &err), &err)

    cdef uint16_t *places(self) noexcept:
        return <uint16_t *>PyByteArray_AsString(self.place)

    cdef uint8_t *firsts(self) noexcept:
        return <uint8_t *>PyByteArray_AsString(self.first)

    def group(self, buffer, int width, size_t offset):
        cdef bytearray made = _new(self.nr * width)
        cdef _Borrowed values = _Borrowed(buffer, offset, self.nr, 8 * width)
        group_values(width, values.at(offset * width), self.places(), self.nr,
                     PyByteArray_AsString(made))
        return made

    def ungroup(self, buffer, int width):
        cdef bytearray made = _new(self.nr * width)
        cdef _Borrowed values = _Borrowed(buffer, 0, self.nr, 8 * width)
        ungroup_values(width, values.at(0), self.places(), self.nr, PyByteArray_AsString(made))
        return made

    def group_bits(self, buffer, size_t offset):
        cdef bytearray made = _bitmap(self.nr)
        cdef _Borrowed bits = _Borrowed(buffer, offset, self.nr, 1)
        group_bits(<uint8_t *>bits.at(0), offset, self.places(), self.nr,
                   <uint8_t *>PyByteArray_AsString(made))
        return made

    def ungroup_bits(self, buffer):
        cdef bytearray made = _bitmap(self.nr)
        cdef _Borrowed bits = _Borrowed(buffer, 0, self.nr, 1)
        ungroup_bits(<uint8_t *>bits.at(0), 0, self.places(), self.nr,
                     <uint8_t *>PyByteArray_AsString(made))
        return made

    def differences(self, bytearray grouped, valid):
        cdef differences to
        cdef _Borrowed bits = _Borrowed(valid, 0, self.nr, 1)
        cdef bytearray high = _new(self.nr * sizeof(uint32_t))
        made = [_new(self.nr) for _ in range(GROUPED_LOW_BYTES)]
        for i, one in enumerate(made):
            to.low[i] = <uint8_t *>PyByteArray_AsString(one)
        to.high = <uint32_t *>PyByteArray_AsString(high)
        to.valid = <const uint8_t *>bits.at(0)
        group_differences(<uint64_t *>PyByteArray_AsString(grouped), self.firsts(), self.nr, &to)
        return [*made, high]

    def values(self, list stored, valid):
        cdef differences of
        cdef bytearray made = _new(self.nr * sizeof(uint64_t))
        cdef _Borrowed bits = _Borrowed(valid, 0, self.nr, 1), one
        held = []
        for i in range(GROUPED_LOW_BYTES):
            one = _Borrowed(stored[i], 0, self.nr, 8)
            held.append(one)
            of.low[i] = <uint8_t *>one.at(0)
        one = _Borrowed(stored[GROUPED_LOW_BYTES], 0, self.nr, 32)
        of.high = <uint32_t *>one.at(0)
        of.valid = <const uint8_t *>bits.at(0)
        ungroup_differences(&of, self.places(), self.firsts(), self.nr,
                            <uint64_t *>PyByteArray_AsString(made))
        return made
