# cython: language_level=3, boundscheck=False
"""Walks over the events of a trace, and the protocol of the analyses that they feed.

    walk, windows = Walk(trace, window, selection, progress), WorkingSet(100000)
    windows.begin(walk, None)
    windows.feed(walk)
    found = windows.result()

A Walk delivers the events of a trace or a shard, between marks if there are any, and hides those of blocks that are not
selected (steve/kernels/base/walk.h). An Analysis is fed by a Walk. This module does not load numpy, which commands that
only translate a trace do not need.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from steve.kernels.records cimport data_of, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

cdef enum:
    TICK = 256  # batches of events between two calls of tick


cdef class Walk:
    """One walk over the events of a Trace that count.

    window, tick: as for steve.kernels._lives.Lives. selected: None, or (an array of bits by handle, number of bits).
    shard: a shard is read, in which blocks made before it count too, if their handles are at least `since`;
    live_bytes: the bytes of these at its beginning."""
    def __cinit__(self, Trace trace, window=None, selected=None, tick=None, bint shard=False,
                  uint64_t since=0):
        self.trace, self.window, self.tick = trace, window, tick
        self.state = "within" if window is None else window.begin()
        self.filters = window is not None or selected is not None or since > 0
        if selected is None:
            walk_init(&self.w, NULL, 0)
        else:
            self.bits, n_bits = selected
            walk_init(&self.w, <const uint8_t *>data_of(self.bits), n_bits)
        self.w.since = since
        if shard:
            self.enter()

    cdef int enter(self) except -1:
        cdef mt_live_block_t block
        cdef uint32_t slot
        mt_read_checkpoint(self.trace.r)
        for slot in range(mt_count_slots(self.trace.r)):
            if self.trace.live_block(slot, &block):
                enough(walk_enter(&self.w, &block))
                self.live_bytes += block.size if self.w.mine[slot] and not block.container else 0
        return 0

    def __dealloc__(self):
        walk_free(&self.w)

    cdef bint next(self, const mt_event **events, size_t *n) except -1:
        """The next events that count, at most up to and with the next mark if there is a window. False at the end."""
        cdef const mt_event *plain
        while self.step(&plain, events, n):
            if events[0] != NULL:
                return True
        return False

    cdef bint step(self, const mt_event **events, const mt_event **shown, size_t *n) except -1:
        """The same, but all events. shown: these events with those that do not count hidden; NULL if none counts."""
        cdef bint counts
        if not self.advance_to_mark(events, n, &counts):
            return False
        shown[0] = events[0] if counts else NULL
        if counts and self.filters:
            shown[0] = walk_filter(&self.w, events[0], n[0])
            enough(shown[0] != NULL)
        return True

    cdef bint advance_to_mark(self, const mt_event **events, size_t *n, bint *counts) except -1:
        """The same, without regard to the selection. counts: do these events lie in the window?"""
        counts[0] = self.state == "within"
        if self.state == "after" or not self.read():
            return False
        events[0], n[0] = self.events, self.n if self.window is None else to_mark(self.events, self.n)
        self.events += n[0]
        self.n -= n[0]
        if self.window is not None and events[0][n[0] - 1].kind == MT_MARK:
            self.meet(&events[0][n[0] - 1])
        return True

    def finish(self):
        """Walk to the end. Returns the number of operations."""
        cdef const mt_event *events
        cdef size_t n, i
        cdef uint64_t count = 0
        while self.next(&events, &n):
            for i in range(n):
                count += walk_is_operation(&events[i])
        return count

    cdef int meet(self, const mt_event *mark) except -1:
        before = self.state
        self.state = self.window.state(self.trace.string(mark.ref))
        if before == "before" and self.state == "within":
            self.begun = mark.time
        return 0

    cdef bint read(self) except -1:
        """Read events if there are none left. False at the end."""
        if self.n > 0:
            return True
        if not Trace.next(self.trace, &self.events, &self.n):
            return False
        self.count()
        return True

    cdef bint advance(self) except -1:
        """Read the next events as a batch, in a walk without window and selection; false at the end."""
        if not self.trace.next_batch(&self.batch):
            return False
        self.count()
        return True

    cdef int count(self) except -1:
        """Count a batch. From time to time, handle signals and show progress."""
        self.walked += 1
        if self.walked % TICK == 0:
            PyErr_CheckSignals()
            if self.tick is not None:
                self.tick(*self.trace.progress())
        return 0


cdef size_t to_mark(const mt_event *events, size_t n) noexcept nogil:
    """The number of events up to and with the next mark."""
    cdef size_t i = 0
    while i < n and events[i].kind != MT_MARK:
        i += 1
    return i + 1 if i < n else n


cdef class Analysis:
    """What is made of the events of a trace: of the whole trace as one shard, or of several shards.

    begin(walk, checkpoint)  the beginning of a shard; checkpoint: see steve.parallel.checkpoints, None for the
                             whole trace
    feed(walk)               all events of the shard
    partial()                the result of the shard, to be sent to another process
    merge(shard)             called for a new object instead of begin and feed: adds the partial() of the next shard
    end(time, between)       after feed of the whole trace, or after merge. time: when the program ended, in
                             instructions, 0 if that is not known; between: only events between two marks were fed
    result()                 the result of the whole trace

    know(whole)              whole: a trace that was read to its end. Called before merge if definitions are needed, and
                             before end if there were shards

    take_batch(walk), fed(walk)  of an analysis that can be fed together with others: one batch; after the last batch

    needs: what a checkpoint must contain. onward: is a shard read beyond its end? freed: with accesses to freed memory?

    A subclass implements enter() if it needs the blocks that live at the beginning of a shard, take() for events,
    partial() and merge(), which may leave the result in `merged`."""
    needs = ()
    onward = False
    freed = False

    def begin(self, Walk walk, checkpoint):
        cdef mt_live_block_t block
        cdef uint32_t slot
        if checkpoint is None:
            return
        self.begin_shard(checkpoint)
        if not walk.trace.midway:
            return
        for slot in range(mt_count_slots(walk.trace.r)):
            if walk.trace.live_block(slot, &block):
                self.enter(walk, &block)

    cdef int begin_shard(self, checkpoint) except -1:
        return 0

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        """A block lives where the shard begins."""
        return 0

    def feed(self, Walk walk):
        cdef const mt_event *events
        cdef size_t n
        cdef bint ok
        while not self.is_done() and walk.next(&events, &n):
            with nogil:
                ok = self.take(events, n)
            enough(ok)

    cdef bint is_done(self):
        """Are no more events needed?"""
        return False

    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil:
        """The next events; false when out of memory."""
        return True

    def fed(self, Walk walk):
        pass

    def know(self, whole):
        pass

    def end(self, uint64_t time, bint between):
        pass

    def result(self):
        return self.partial() if self.merged is None else self.merged


cdef class BatchAnalysis(Analysis):
    """An analysis that is fed batches, alone or together with others. A subclass implements feed_batch()."""

    def feed(self, Walk walk):
        feed_together(walk, (self,))

    def take_batch(self, Walk walk):
        cdef bint ok
        with nogil:
            ok = self.feed_batch(&walk.batch)
        enough(ok)

    cdef bint feed_batch(self, const mt_batch *batch) noexcept nogil:
        """The next batch; false when out of memory."""
        return False


def feed_together(Walk walk, analyses):
    """Feed analyses with the events of one walk, without window and selection."""
    while walk.advance():
        for analysis in analyses:
            analysis.take_batch(walk)
    for analysis in analyses:
        analysis.fed(walk)
