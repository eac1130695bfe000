# _ops.pxd - what other Cython modules may use of steve.kernels._ops.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from steve.kernels.ckernels cimport op_quota, op_source, textout
from steve.trace._memtrace cimport OpsFile, Trace
from steve.trace.cops cimport op, ops_form, ops_writer


cdef class Operations:
    cdef op_source *s
    cdef object origin
    cdef Trace trace
    cdef OpsFile file
    cdef object tick
    cdef unsigned batches
    cdef bint given, by_batch

    cdef int enter(self, checkpoint) except -1
    cdef int next(self, const op **ops, size_t *n) except -1
    cdef int write(self, ops_writer *w, ops_form form, op_quota *q) except -1
    cdef int write_each(self, ops_writer *w, op_quota *q) except -1
    cdef int write_unfreed(self, OpsWriter writer) except -1
    cdef int failed(self) except -1
    cdef int expect_accesses(self) except -1
    cdef int count(self, unsigned batches) except -1


cdef class OpsWriter:
    cdef ops_writer *w
    cdef ops_form form

    cdef finish(self)


cdef class TextFile:
    cdef textout *out

    cdef int verify(self) except -1
    cdef int finish(self) except -1


cdef int ticked(object source, object tick, unsigned *batches) except -1
