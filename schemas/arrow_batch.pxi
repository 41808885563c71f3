# SPDX-License-Identifier: Apache-2.0
"""Code shared by the bindings. Each defines the exception `Refused`."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdlib cimport calloc, free, malloc

cdef int check(int ret, error *err) except -1 nogil:
    if ret < 0:
        with gil:
            raise Refused(-ret, err.msg.decode(errors="replace"))
    return ret


cdef class Strings:
    """A C array of strings, and NULL; valid as long as this object lives."""

    cdef list strings
    cdef const char **c

    def __cinit__(self, list strings):
        self.strings = strings
        self.c = <const char **>calloc(len(strings) + 1, sizeof(char *))
        if not self.c:
            raise MemoryError
        for i, string in enumerate(strings):
            self.c[i] = string

    def __dealloc__(self):
        free(self.c)


cdef void free_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release:
        schema.release(schema)
    free(schema)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release:
        array.release(array)
    free(array)


cdef class ArrowBatch:
    cdef ArrowArray array
    cdef const table *table

    def __cinit__(self):
        self.array.release = NULL

    def __dealloc__(self):
        if self.array.release:
            self.array.release(&self.array)

    def __arrow_c_array__(self, requested_schema=None):
        cdef error err
        cdef ArrowSchema *schema
        cdef ArrowArray *array
        if not self.array.release:
            raise ValueError("this batch was handed out before")
        schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        array = <ArrowArray *>malloc(sizeof(ArrowArray))
        if not schema or not array:
            free(schema)
            free(array)
            raise MemoryError
        array[0] = self.array
        self.array.release = NULL
        array_capsule = PyCapsule_New(array, "arrow_array", free_array)
        schema_capsule = PyCapsule_New(schema, "arrow_schema", free_schema)
        check(table_export_schema(self.table, schema, &err), &err)
        return schema_capsule, array_capsule


cdef tuple exported(batch *c):
    """The name of its table and the rows of a batch, which stays the engine's; None for NULL."""
    cdef ArrowBatch rows = ArrowBatch()
    cdef error err
    if not c:
        return None
    rows.table = c.table
    check(batch_export(c, &rows.array, &err), &err)
    return c.table.name.decode(), rows


cdef ArrowBatch owned(batch *c):
    """The rows of a batch; the batch is freed with them."""
    try:
        return exported(c)[1]
    finally:
        batch_free(c)
