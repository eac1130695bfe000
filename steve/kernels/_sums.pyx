# cython: language_level=3, boundscheck=False
"""Records of the kernels for Python: the rows of sums (steve/kernels/base/sums.def), their columns and how those of shards
are merged, and the columns of other structs.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from collections import namedtuple

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t

from steve.kernels.ckernels cimport life, lifetime
from steve.kernels.records cimport data_of

cdef extern from "steve/kernels/base/sums.h" nogil:
    struct sum_t "sum":
        const char *name
        const char *unit
        const char *merge
        const char *estimate
        char type
        size_t n
        const sums *row
    struct sums:
        const char *name
        size_t size
        const sum_t *sums
        size_t n
    const sums *const sums_rows[]
    const sums *const sums_variances[]
    const size_t sums_n_rows, sums_n_variances
    void sums_merge(const sums *sums, void *to, const void *of_shard, size_t n)

cdef extern from "steve/kernels/accesses/gc_time.h" nogil:
    struct gc_time_row:
        uint64_t thread, bin, time

cdef extern from "steve/kernels/accesses/sharing_lines.h" nogil:
    struct sharing_side:
        uint64_t thread, stack
        int64_t offset
        uint64_t bytes, written

cdef extern from "steve/kernels/accesses/workingset.h" nogil:
    struct workingset_window:
        uint64_t first, operations, time, accesses, bytes, lines, blocks, live_bytes

cdef extern from "steve/kernels/lives/holdings.h" nogil:
    struct holding:
        uint64_t bytes, blocks, held, held_blocks, most, most_blocks, peak, peak_blocks, lifetime
        uint64_t bytes_read, bytes_written, seen

cdef extern from "steve/kernels/totals/check.h" nogil:
    struct check_block:
        uint64_t handle, addr, size, ordinal
        uint8_t live

# The other structs. Cython compares the offsets of all fields with those of the struct.
cdef gc_time_row a_time
cdef sharing_side a_side
cdef workingset_window a_window
cdef holding a_holding
cdef check_block a_block
cdef lifetime a_lifetime
cdef life a_life
GC_TIME = np.asarray(<gc_time_row[:1]>&a_time).dtype
SIDE = np.asarray(<sharing_side[:1]>&a_side).dtype
WINDOW = np.asarray(<workingset_window[:1]>&a_window).dtype
HOLDING = np.asarray(<holding[:1]>&a_holding).dtype
BLOCK = np.asarray(<check_block[:1]>&a_block).dtype
LIFETIME = np.asarray(<lifetime[:1]>&a_lifetime).dtype
LIFE = np.asarray(<life[:1]>&a_life).dtype

# a sum as in sums.def; row: the name of the row that it is, if it is one, else ""
Sum = namedtuple("Sum", "name unit merge estimate row")


cdef const sums *found(str name, const sums *const *rows=sums_rows, size_t n=sums_n_rows) except NULL:
    """The row with a name."""
    cdef size_t i
    for i in range(n):
        if rows[i].name == name.encode():
            return rows[i]
    raise KeyError(name)


cdef list columns(const sums *row):
    """The fields of a row, for numpy."""
    cdef const sum_t *one
    cdef size_t i
    fields = []
    for i in range(row.n):
        one = &row.sums[i]
        form = columns(one.row) if one.row != NULL else f"{chr(one.type)}8"
        fields.append((one.name.decode(), form, (one.n,)) if one.n else (one.name.decode(), form))
    return fields


cdef list described(const sums *row):
    cdef const sum_t *one
    cdef size_t i
    found = []
    for i in range(row.n):
        one = &row.sums[i]
        of_row = one.row.name.decode() if one.row != NULL else ""
        found.append(Sum(one.name.decode(), one.unit.decode(), one.merge.decode(), one.estimate.decode(), of_row))
    return found


def table():
    """The sums of each row, by the name of the row."""
    cdef size_t i
    return {sums_rows[i].name.decode(): described(sums_rows[i]) for i in range(sums_n_rows)}


def dtype_of(str name):
    """The numpy type of a row."""
    return type_of(found(name))


def variances_of(str name):
    """The numpy type of the variances of a row; the name of each is that of its sum after `variance_`."""
    return type_of(found(name, sums_variances, sums_n_variances))


cdef object type_of(const sums *row):
    of_row = np.dtype(columns(row))
    if <size_t>of_row.itemsize != row.size:
        raise ImportError(f"steve.kernels._sums: sums.def and struct {row.name.decode()} disagree")
    return of_row


def chosen(names, rows, variances, order):
    """Some columns of rows and their variances, as a new array of the rows with the indices `order`. variances: of the
    first rows; those of the others are 0."""
    forms = {name: array.dtype[name] for array in (rows, variances) for name in array.dtype.names}
    found = np.zeros(len(order), [(name, forms[name]) for name in names])
    varied = np.flatnonzero(order < len(variances))
    for name in names:
        if name in rows.dtype.names:
            found[name] = rows[name][order]
        elif len(varied):
            found[name][varied] = variances[name][order[varied]]
    return found


def merged(str name, rows, of_shard):
    """A copy of rows, merged with those of the next shard: both by number. It is as long as the longer of both."""
    cdef const sums *row = found(name)
    whole = np.zeros(max(len(rows), len(of_shard)), dtype_of(name))
    whole[:len(rows)] = rows
    own = np.ascontiguousarray(of_shard, whole.dtype)
    sums_merge(row, data_of(whole), data_of(own), len(own))
    return whole
