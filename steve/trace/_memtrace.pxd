# _memtrace.pxd - the part of steve.trace._memtrace that other Cython modules may use.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint32_t

from steve.trace.cmemtrace cimport mt_error, mt_event, mt_batch, mt_live_block_t, mt_reader
from steve.trace.cops cimport op, ops_reader


cdef class Trace:
    cdef mt_reader *r
    cdef readonly str path, name, every_block
    cdef readonly object problem, growing
    cdef bint midway
    cdef int next(self, const mt_event **events, size_t *n) except -1
    cdef int next_batch(self, mt_batch *batch) except -1
    cdef int verify_sample(self) except -1
    cdef int next_shown(self, const mt_event **events, const mt_event **shown, size_t *n) except -1
    cdef bint live_block(self, uint32_t slot, mt_live_block_t *block)
    cdef int failed(self) except -1


cdef class OpsFile:
    cdef ops_reader *r
    cdef readonly str path, name
    cdef readonly object problem
    cdef bint delivered
    cdef int next(self, const op **ops, size_t *n) except -1
    cdef int next_batch(self, mt_batch *batch) except -1
    cdef int failed(self) except -1


cdef object trace_error(str path, str name, const mt_error *err, bint is_text)
