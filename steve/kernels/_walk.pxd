# _walk.pxd - what other Cython modules may use of steve.kernels._walk.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from libc.stdint cimport uint8_t, uint64_t

from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport mt_batch, mt_event, mt_live_block_t

cdef extern from "steve/kernels/base/walk.h" nogil:
    struct walk:
        const uint8_t *selected
        const uint8_t *mine
        uint64_t since
    void walk_init(walk *w, const uint8_t *selected, uint64_t n_selected)
    void walk_free(walk *w)
    const mt_event *walk_filter(walk *w, const mt_event *events, size_t n)
    size_t walk_pack(walk *w, size_t n)
    void walk_hide_blockless(walk *w, size_t n)
    bint walk_is_operation(const mt_event *e)
    bint walk_enter(walk *w, const mt_live_block_t *live)


cdef class Walk:
    cdef walk w
    cdef readonly Trace trace
    cdef readonly object window, tick
    cdef object bits, state
    cdef uint64_t begun  # time of the mark where the window begins
    cdef bint filters
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned walked
    cdef uint64_t live_bytes
    cdef mt_batch batch  # that advance() has read

    cdef int enter(self) except -1
    cdef bint next(self, const mt_event **events, size_t *n) except -1
    cdef bint step(self, const mt_event **events, const mt_event **shown, size_t *n) except -1
    cdef bint advance_to_mark(self, const mt_event **events, size_t *n, bint *counts) except -1
    cdef int meet(self, const mt_event *mark) except -1
    cdef bint read(self) except -1
    cdef bint advance(self) except -1
    cdef int count(self) except -1


cdef class Analysis:
    cdef object merged

    cdef int begin_shard(self, checkpoint) except -1
    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1
    cdef bint is_done(self)
    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil


cdef class BatchAnalysis(Analysis):
    cdef bint feed_batch(self, const mt_batch *batch) noexcept nogil
