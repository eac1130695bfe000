# cython: language_level=3, boundscheck=False
"""Totals for Python: the summary of a trace, and what blocks live through, counted and written as text.

The headers in steve/kernels/totals/ say what is counted how. tick: as of steve.kernels._ops.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from steve.kernels._ops cimport Operations, system_ok, ticked
from steve.kernels.ckernels cimport *
from steve.kernels.records cimport array_of, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *
from steve.trace.cops cimport *

from steve.trace._memtrace import KIND_NAMES

# Cython compares the offsets of all fields with those of the struct.
cdef summary_block a_block
cdef summary_stack a_stack
cdef lifetime a_lifetime
cdef summary_block[::1] block_layout = <summary_block[:1]>&a_block
cdef summary_stack[::1] stack_layout = <summary_stack[:1]>&a_stack
cdef lifetime[::1] lifetime_layout = <lifetime[:1]>&a_lifetime
BLOCK = np.asarray(block_layout).dtype
STACK = np.asarray(stack_layout).dtype
LIFETIME = np.asarray(lifetime_layout).dtype


cdef class Summary:
    """Totals of a trace, from one walk over it; see steve/kernels/totals/summary.h for what is counted how."""
    cdef summary s

    def __cinit__(self, Trace trace, tick=None):
        cdef mt_batch batch
        cdef uint32_t stacks
        cdef unsigned batches = 0
        cdef bint ok
        summary_init(&self.s)
        if trace.midway:
            self.enter(trace)
        while trace.next_batch(&batch):
            stacks = mt_count_stacks(trace.r)
            with nogil:
                ok = summary_feed_batch(&self.s, &batch, stacks)
            enough(ok)
            ticked(trace, tick, &batches)
        summary_finish(&self.s)

    def __dealloc__(self):
        summary_free(&self.s)

    cdef int enter(self, Trace trace) except -1:
        """Take the blocks that live where the trace is read from."""
        cdef mt_live_block_t block
        cdef uint32_t slot
        mt_read_checkpoint(trace.r)
        for slot in range(mt_count_slots(trace.r)):
            if mt_get_live_block(trace.r, slot, &block):
                enough(summary_enter(&self.s, &block))
        return 0

    @property
    def threads(self):
        """How many threads made events."""
        return summary_threads(&self.s)

    @property
    def events(self):
        """Events by kind name."""
        return {name: self.s.events[i] for i, name in enumerate(KIND_NAMES)}

    @property
    def totals(self):
        """allocated, freed, read, written, live_bytes, live_blocks, peak_bytes, peak_blocks, lost,
        last_event."""
        cdef summary *s = &self.s
        return {"allocated": s.allocated, "freed": s.freed,
                "read": s.accessed[<int>MT_LOAD] + s.accessed[<int>MT_MODIFY],
                "written": s.accessed[<int>MT_STORE] + s.accessed[<int>MT_MODIFY],
                "live_bytes": s.live_bytes, "live_blocks": s.live_blocks, "peak_bytes": s.peak_bytes,
                "peak_blocks": s.peak_blocks, "lost": s.lost, "last_event": s.last_event}

    def part(self):
        """What a summary of a part of a trace has to tell, all in one dictionary; see steve.parallel.rounds."""
        blocks = array_of(self.s.blocks, self.s.room, BLOCK)
        live = np.flatnonzero(blocks["state"] == <int>SUMMARY_LIVE)
        return {"events": self.events, "totals": self.totals, "stacks": self.stacks(),
                "threads": array_of(self.s.threads, 1024, np.dtype("u8")), "live": live,
                "blocks": blocks[live], "ended": array_of(self.s.ended, self.s.n_ended, np.dtype("u4"))}

    def stacks(self):
        """An array with a row for each stack id: news, resizes, bytes, live_blocks, live_bytes (u8)."""
        return array_of(self.s.stacks, self.s.n_stacks, STACK)


# -- What blocks live through: counted, and written. ---------------------------------------------------------

cdef object feed_lifetimes(Operations source, lifetimes *l):
    """What lifetimes_of returns."""
    cdef const op *ops
    cdef size_t n
    cdef bint ok
    while source.next(&ops, &n):
        with nogil:
            ok = lifetimes_feed(l, ops, n)
        enough(ok)
    lifetimes_finish(l)
    return l.accesses, l.unmatched, array_of(l.blocks, l.n, LIFETIME)


def lifetimes_of(origin, tick=None):
    """Own and other accesses of each block.

    Returns (accesses, unmatched, array); the array has the fields handle, own, other (u8), one element for
    each block in the order of their N."""
    cdef Operations source = Operations(origin, tick)
    cdef lifetimes l
    enough(lifetimes_init(&l))
    try:
        return feed_lifetimes(source, &l)
    finally:
        lifetimes_free(&l)


cdef size_t rows_left(size_t at, size_t n):
    """How many rows to write until signals are looked at again."""
    return min(n - at, <size_t>1 << 16)


def write_lifetime_pairs(int fd, blocks):
    """Write an array of LIFETIME as the inside of a JSON object, `"HANDLE": [own, other], ...`."""
    cdef textout *out = <textout *>malloc(sizeof(textout))
    cdef const uint8_t[::1] raw = blocks.view("u1")
    cdef size_t n = len(blocks), at = 0, some
    enough(out != NULL)
    try:
        textout_init(out, fd)
        while at < n:
            some = rows_left(at, n)
            PyErr_CheckSignals()
            with nogil:
                lifetext_pairs(out, <const lifetime *>&raw[0] + at, some, at > 0)
            at += some
            system_ok(out.error)
        system_ok(textout_finish(out))
    finally:
        free(out)


def write_lifetime_lines(int fd, blocks, order, *, bint compat, bint macro, uint64_t accesses):
    """Write a line of the first Steve's statistics for each of the numbers `order` (i8) of blocks, an array of
    LIFETIME: its macro or its micro lifetime. compat, accesses: of struct lifetext."""
    cdef lifetext t
    cdef const uint8_t[::1] raw = blocks.view("u1")
    cdef const int64_t[::1] numbers = order
    cdef size_t n = len(order), at = 0, some
    if n == 0:
        return
    t.out = <textout *>malloc(sizeof(textout))
    enough(t.out != NULL)
    t.blocks, t.compat, t.accesses = <const lifetime *>&raw[0], compat, accesses
    t.kind = LIFETEXT_MACRO if macro else LIFETEXT_MICRO
    try:
        textout_init(t.out, fd)
        while at < n:
            some = rows_left(at, n)
            PyErr_CheckSignals()
            with nogil:
                lifetext_lines(&t, &numbers[at], some)
            at += some
            system_ok(t.out.error)
        system_ok(textout_finish(t.out))
    finally:
        free(t.out)


def lifetimes_piece(Trace trace, handles, uint64_t next_handle):
    """As lifetimes_of, of a part of a trace: of its own blocks and of those that live where it begins, each with what
    it and others are accessed within the part. handles, next_handle: as of write_ops_piece."""
    cdef Operations source = Operations(trace, None)
    cdef const uint64_t[::1] known = handles
    cdef lifetimes l
    cdef op born
    cdef size_t i
    cdef bint ok = True
    enough(op_source_begin(source.s, &known[0] if len(known) else NULL, len(known), next_handle))
    memset(&born, 0, sizeof(born))
    born.code = OP_NEW
    enough(lifetimes_init(&l))
    try:
        for i in range(len(known)):
            born.handle = known[i] - 1
            if known[i]:
                ok = ok and lifetimes_feed(&l, &born, 1)
        enough(ok)
        return feed_lifetimes(source, &l)
    finally:
        lifetimes_free(&l)


# -- What has to be known of a part before those after it can be read alone. ---------------------------------

def survey_of(Trace trace, *, bint resizes=True, tick=None):
    """(operations, handles given out, array by slot of what it holds at the end: see steve/kernels/totals/part_sizes.h)."""
    cdef survey s
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint ok
    mt_pass_accesses(trace.r)
    survey_init(&s, resizes)
    try:
        while trace.next(&events, &n):
            with nogil:
                ok = survey_feed(&s, events, n)
            enough(ok)
            ticked(trace, tick, &batches)
        return s.operations + trace.stats()["passed"], s.handles, array_of(s.slots, s.n_slots, np.dtype("u8"))
    finally:
        survey_free(&s)
