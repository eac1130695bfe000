# cython: language_level=3, boundscheck=False
"""Locks guessed, by each of the three ways, and what they mean; steve/kernels/locks/ says how.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc

from steve.kernels._ops cimport Operations, OpsWriter, ticked
from steve.kernels.ckernels cimport *
from steve.kernels.records cimport enough
from steve.trace._memtrace cimport OpsFile, Trace
from steve.trace.cmemtrace cimport *
from steve.trace.cops cimport *

from steve.system.errors import SteveError

cdef enum:
    TICK = 256  # batches between two calls of tick

cdef class Unfreed:
    """The blocks that are never freed: what must be known before full locks are made.

    Of a trace or an ops file. foretold: the file says which they are; else a
    walk over it has found them."""
    cdef unfreed u
    cdef readonly bint foretold

    def __cinit__(self, origin, tick=None):
        enough(unfreed_init(&self.u))
        if isinstance(origin, Trace):
            if not self.read_trace(origin):
                self.walk_events(origin, tick)
        elif isinstance(origin, OpsFile) and not self.read(origin):
            self.walk_operations(Operations(origin, tick))
        enough(unfreed_finish(&self.u))

    cdef int read(self, OpsFile file) except -1:
        """Take what the file says at its end, if it does."""
        cdef bytes path = os.fsencode(file.path)
        cdef const char *c_path = path
        with nogil:
            self.foretold = ops_read_survivors(c_path, &self.u.list, &self.u.n)
        return self.foretold

    cdef int read_trace(self, Trace trace) except -1:
        """The same of a trace that delivers all it has."""
        if type(trace) is Trace:
            with nogil:
                self.foretold = mt_survivors(trace.r, &self.u.list, &self.u.n)
        return self.foretold

    cdef int walk_operations(self, Operations source) except -1:
        cdef const op *ops
        cdef size_t n
        cdef bint ok
        op_source_skip_accesses(source.s)
        while source.next(&ops, &n):
            with nogil:
                ok = unfreed_feed(&self.u, ops, n)
            enough(ok)
        return 0

    cdef int walk_events(self, Trace trace, object tick) except -1:
        cdef const mt_event *events
        cdef size_t n
        cdef unsigned batches = 0
        cdef bint ok
        if type(trace) is Trace:  # one of another class chooses by accesses, too, what it delivers
            mt_pass_accesses(trace.r)
        while trace.next(&events, &n):
            with nogil:
                ok = unfreed_feed_events(&self.u, events, n)
            enough(ok)
            ticked(trace, tick, &batches)
        return 0

    def __dealloc__(self):
        unfreed_free(&self.u)

    def __len__(self):
        return self.u.n


cdef int lock_operations(lockfull *l, OpsFile file, OpsWriter writer, LockStats stats, object tick) except -1:
    """Write the locks of an ops file."""
    cdef Operations source = Operations(file, tick)
    cdef const op *ops
    cdef size_t n
    cdef bint ok
    while source.next(&ops, &n):
        with nogil:
            ok = lockfull_feed(l, ops, n)
            ops_write(writer.w, l.out, l.n_out)
        enough(ok)
        if stats is not None:
            stats.feed(l.out, l.at, l.n_out)
    return 0


cdef bint has_events(object origin):
    """Is it a trace, or an ops file that holds one in which a Resize is an F and an N?"""
    if isinstance(origin, Trace):
        return True
    return ops_reader_trace((<OpsFile>origin).r) != NULL and not ops_reader_resizes((<OpsFile>origin).r)


cdef int next_events(object origin, mt_batch *batch) except -1:
    """The next events of a source that has them."""
    if isinstance(origin, Trace):
        return (<Trace>origin).next_batch(batch)
    return (<OpsFile>origin).next_batch(batch)


cdef int lock_events(lockfull *l, object origin, OpsWriter writer, LockStats stats, object tick) except -1:
    """Write the locks of a source that has events."""
    cdef mt_batch batch
    cdef unsigned batches = 0
    cdef bint ok
    while next_events(origin, &batch):
        with nogil:
            ok = lockfull_feed_batch(l, &batch)
            ops_write(writer.w, l.out, l.n_out)
        enough(ok)
        if stats is not None:
            stats.feed(l.out, l.at, l.n_out)
        ticked(origin, tick, &batches)
    return 0


def write_lockops_full(origin, Unfreed unfreed, int fd, *, rules=(2, 1, 0), bint compat=False,
                       bint unlock_before_free=False, tick=None, str form="text", LockStats stats=None):
    """Write N, F, L and U by the life counter. `unfreed` is of an earlier walk over the same operations.

    rules: gain, decay and threshold of the life counter in any common unit, up to 10^6 each. compat: at most
    one lock event at each index, as the first Steve. unlock_before_free: a block that dies locked is unlocked
    first. Returns counts: ops walked over, blocks, locks, unlocks, unmatched (accesses to handles that are not
    live). SteveError if it turns out that what the file said about blocks that are never freed is wrong."""
    cdef OpsWriter writer = OpsWriter(fd, form, True)
    cdef lockfull l
    cdef lockfull_rules c_rules
    c_rules.gain, c_rules.decay, c_rules.threshold = rules
    c_rules.compat, c_rules.unlock_before_free = compat, unlock_before_free
    enough(lockfull_init(&l, unfreed.u.list, unfreed.u.n, c_rules))
    try:
        if has_events(origin):
            lock_events(&l, origin, writer, stats, tick)
        else:
            lock_operations(&l, origin, writer, stats, tick)
        if unfreed.foretold and origin.problem is None and not mortals_right(&l.mortals):
            raise SteveError(f"{origin.name}: is damaged: the blocks that it says are never freed are others than "
                             "those it never frees; make it again")
        writer.finish()
        if stats is not None:
            stats.finish(l.index)
        return {"ops": l.index, "blocks": l.news, "locks": l.locks, "unlocks": l.unlocks,
                "unmatched": l.unmatched}
    finally:
        lockfull_free(&l)


cdef class LockStats:
    """What locks mean for a compacting allocator, of the operations that a writer of locks makes."""
    cdef lockstats s
    cdef uint64_t end

    def __cinit__(self):
        enough(lockstats_init(&self.s))

    def __dealloc__(self):
        lockstats_free(&self.s)

    cdef int feed(self, const op *ops, const uint64_t *at, size_t n) except -1:
        cdef bint ok
        with nogil:
            ok = lockstats_feed(&self.s, ops, at, n)
        return enough(ok)

    cdef int finish(self, uint64_t end) except -1:
        self.end = end
        lockstats_finish(&self.s, end)
        return 0

    def walk(self, OpsFile file, tick=None):
        """Take the operations of a lockops file, each as one step of time."""
        cdef const op *ops
        cdef size_t n
        cdef unsigned batches = 0
        while file.next(&ops, &n):
            self.feed(ops, NULL, n)
            batches += 1
            if tick is not None and batches % TICK == 0:
                tick(*file.progress())
        self.finish(self.s.fed)

    @property
    def totals(self):
        """operations, blocks, blocks_locked, locks, unlocks, died_locked; held (operations, of all locks),
        longest."""
        cdef lockstats *s = &self.s
        return {"operations": self.end, "blocks": s.blocks_made, "blocks_locked": s.blocks_locked,
                "locks": s.locks, "unlocks": s.unlocks, "died_locked": s.died_locked, "held": s.held,
                "longest": s.longest}

    @property
    def sums(self):
        """live_blocks, live_bytes, locked_blocks, locked_bytes, each added up over all operations."""
        return dict(zip(("live_blocks", "live_bytes", "locked_blocks", "locked_bytes"), self.s.sums))

    @property
    def samples(self):
        """A list of {operation, live_blocks, live_bytes, locked_blocks, locked_bytes}, over time."""
        return [dict(self.s.samples[i]) for i in range(self.s.n_samples)]

    @property
    def holds(self):
        """Locks by how long they were held: 0 operations, then 2^(i-1) to 2^i - 1."""
        return [self.s.holds[i] for i in range(65)]


def write_lockops_stack(Trace trace, int fd, *, bint unlock_before_free=False, tick=None, str form="text",
                        LockStats stats=None):
    """Write N, F, L and U by the call stacks of a memtrace. Returns counts: ops, blocks, locks, unlocks."""
    cdef OpsWriter writer = OpsWriter(fd, form, True)
    cdef lockstack l
    cdef const mt_event *events
    cdef const mt_event *shown
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint ok
    try:
        enough(lockstack_init(&l, trace.r, unlock_before_free))
        while trace.next_shown(&events, &shown, &n):
            with nogil:
                ok = lockstack_feed(&l, events, shown, n)
                ops_write(writer.w, l.out, l.n_out)
            enough(ok)
            if stats is not None:
                stats.feed(l.out, l.at, l.n_out)
            ticked(trace, tick, &batches)
        writer.finish()
        if stats is not None:
            stats.finish(l.now)
        return {"ops": l.now, "blocks": l.next_handle, "locks": l.locks, "unlocks": l.unlocks}
    finally:
        lockstack_free(&l)


cdef class SimplePlan:
    """Which blocks live long enough to stay unlocked: the first walk of the simple locks.

    threshold: the macro lifetime from which a block does, in thousandths."""
    cdef locksimple s

    def __cinit__(self, origin, *, uint64_t threshold=500, bint compat=False, tick=None):
        cdef Operations source = Operations(origin, tick)
        cdef const op *ops
        cdef size_t n
        cdef bint ok
        enough(locksimple_init(&self.s, threshold, compat))
        while source.next(&ops, &n):
            with nogil:
                ok = locksimple_feed(&self.s, ops, n)
            enough(ok)
        enough(locksimple_finish(&self.s))

    def __dealloc__(self):
        locksimple_free(&self.s)


def write_lockops_simple(origin, SimplePlan plan, int fd, tick=None, *, bint unlock_before_free=False,
                         str form="text", LockStats stats=None):
    """Write N, F, and L after the N of each block that `plan` (of the same operations) locks;
    unlock_before_free: and U before its F. Returns counts."""
    cdef Operations source = Operations(origin, tick)
    cdef OpsWriter writer = OpsWriter(fd, form, True)
    cdef locksimple_writer w
    cdef const op *ops
    cdef op *out = NULL
    cdef uint64_t *at = NULL
    cdef size_t n, made, room = 0
    enough(locksimple_writer_init(&w, &plan.s, unlock_before_free))
    try:
        while source.next(&ops, &n):
            if n > room:
                free(out)
                free(at)
                out, at = <op *>malloc(2 * n * sizeof(op)), <uint64_t *>malloc(2 * n * sizeof(uint64_t))
                room = n
                enough(out != NULL and at != NULL)
            with nogil:
                made = locksimple_write(&w, ops, n, out, at)
                ops_write(writer.w, out, made)
            enough(not w.out_of_memory)
            if stats is not None:
                stats.feed(out, at, made)
        writer.finish()
        if stats is not None:
            stats.finish(w.index)
    finally:
        free(out)
        free(at)
        locksimple_writer_free(&w)
    return {"blocks": w.news, "locks": w.locks, "accesses": plan.s.accesses, "unmatched": plan.s.unmatched}
