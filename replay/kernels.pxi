# SPDX-License-Identifier: Apache-2.0
# The kernel rows and their features; part of _replay.pyx.

def kernels():
    cdef list rows = []
    cdef dict row
    cdef const kernel *k = kernel_rows
    cdef const feature *f
    while k.name:
        row = {"name": k.name.decode(), "doc": k.doc.decode()}
        f = feature_table
        while f.name:
            value = (<const uint8_t *>k)[f.offset]
            words = strings(f.words)
            row[f.name.decode()] = words[value] if words else value
            f += 1
        rows.append(row)
        k += 1
    return rows


def kernel_rules(str name):
    cdef const kernel *k
    cdef const feature *f = feature_table
    cdef dict found = {}
    cdef error err
    check(kernel_find(&k, name.encode(), &err), &err)
    while f.name:
        value = (<const uint8_t *>k)[f.offset]
        constants = strings(f.constants)
        if constants and constants[0] in ("false", "true"):
            found[f.name.decode()] = bool(value)
        else:
            found[f.name.decode()] = constants[value] if constants else value
        f += 1
    return found


def features():
    cdef list out = []
    cdef const feature *f = feature_table
    while f.name:
        out.append({"name": f.name.decode(), "doc": f.doc.decode()})
        f += 1
    return out


def kernel_for_release(str release):
    cdef const kernel *k
    cdef error err
    check(c_kernel_for_release(&k, release.encode(), &err), &err)
    return k.name.decode()
