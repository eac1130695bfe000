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

from steve.kernels._walk cimport Analysis, Walk
from steve.kernels._ops cimport Operations, system_ok
from steve.kernels.ckernels cimport *
from steve.kernels.records cimport array_of, data_of, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *
from steve.trace.cops cimport *

from steve.kernels._sums import dtype_of
from steve.kernels._walk import feed_together
from steve.trace._memtrace import KIND_NAMES

# Cython compares the offsets of all fields with those of the struct.
cdef lifetime a_lifetime
cdef lifetime[::1] lifetime_layout = <lifetime[:1]>&a_lifetime
STACK, TOTALS = dtype_of("summary_stack"), dtype_of("summary_totals")
LIVE_AT = np.dtype((np.void, sizeof(live_at)))
LIFETIME = np.asarray(lifetime_layout).dtype


cdef class Summary(Analysis):
    """Totals of a trace; steve/kernels/totals/summary.h defines them. The result is the object itself."""
    cdef summary s

    def __cinit__(self):
        summary_init(&self.s)

    def __dealloc__(self):
        summary_free(&self.s)

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        return enough(summary_enter(&self.s, block))

    def feed(self, Walk walk):
        feed_together(walk, [self])

    def take_batch(self, Walk walk):
        cdef uint32_t stacks = mt_count_stacks(walk.trace.r)
        cdef bint ok
        with nogil:
            ok = summary_feed(&self.s, &walk.batch, stacks)
        enough(ok)

    def fed(self, Walk walk):
        summary_finish(&self.s)

    def partial(self):
        """The fields of struct summary_partial, as arrays."""
        enough(live_blocks_list(&self.s.blocks))
        return (array_of(&self.s.totals, 1, TOTALS), *self.rows(),
                array_of(self.s.blocks.ended, self.s.blocks.n_ended, np.dtype("u4")),
                array_of(self.s.blocks.list, self.s.blocks.n_list, LIVE_AT))

    def merge(self, shard):
        cdef summary_partial to
        totals, stacks, rows, ended, blocks = shard
        to.totals = <const summary_totals *>data_of(totals)
        to.stacks, to.of_rows = <const summary_stack *>data_of(rows), <const uint32_t *>data_of(stacks)
        to.n_stacks = len(rows)
        to.ended, to.n_ended = <const uint32_t *>data_of(ended), len(ended)
        to.list, to.n_list = <const live_at *>data_of(blocks), len(blocks)
        enough(summary_merge(&self.s, &to))

    def result(self):
        return self

    @property
    def threads(self):
        """Number of threads with events."""
        return summary_threads(&self.s)

    @property
    def events(self):
        """Events by kind name."""
        return {name: self.s.totals.events[i] for i, name in enumerate(KIND_NAMES)}

    @property
    def totals(self):
        """allocated, freed, read, written, live_bytes, live_blocks, peak_bytes, peak_blocks, lost,
        last_event."""
        cdef summary_totals *t = &self.s.totals
        return {"allocated": t.allocated, "freed": t.freed,
                "read": t.accessed[<int>MT_LOAD] + t.accessed[<int>MT_MODIFY],
                "written": t.accessed[<int>MT_STORE] + t.accessed[<int>MT_MODIFY],
                "live_bytes": t.live_bytes, "live_blocks": t.live_blocks, "peak_bytes": t.peak_bytes,
                "peak_blocks": t.peak_blocks, "lost": t.lost, "last_event": t.last_event}

    @property
    def variances(self):
        """The fields of struct summary_variances."""
        return dict(self.s.variances)

    def rows(self):
        """The ids of stacks where blocks were made, as u4, and their rows: news, resizes, bytes, live_blocks,
        live_bytes (u8)."""
        return (array_of(self.s.of_stacks.keys, self.s.of_stacks.n, np.dtype("u4")),
                array_of(self.s.stacks, self.s.of_stacks.n, STACK))

    def used_stacks(self):
        """Those whose rows are not all 0, by stack id."""
        stacks, rows = self.rows()
        used = np.zeros(len(rows), bool)
        for name in STACK.names:
            used |= rows[name] != 0
        kept = np.flatnonzero(used)
        kept = kept[np.argsort(stacks[kept])]
        return stacks[kept], rows[kept]


# -- What blocks live through: counted, and written. ---------------------------------------------------------

cdef class Lifetimes(Analysis):
    """Accesses during the life of each block: (accesses, unmatched, array of LIFETIME). The array has the fields
    handle, own, other (u8), and one element for each block in the order of their N.

    A shard counts what is accessed in it during the lives of its blocks; the sums over the shards are those of the
    trace."""
    cdef lifetimes l
    cdef Operations source
    needs = ("split_handles",)

    def __cinit__(self):
        enough(lifetimes_init(&self.l))

    def __dealloc__(self):
        lifetimes_free(&self.l)

    def begin(self, Walk walk, checkpoint):
        self.source = Operations(walk.trace, walk.tick)
        if checkpoint is not None:
            self.source.enter(checkpoint)
            self.enter_blocks(checkpoint.handles)

    cdef int enter_blocks(self, handles) except -1:
        """Make the blocks known that live where the shard begins."""
        cdef const uint64_t[::1] known = handles
        cdef op born
        cdef size_t i
        memset(&born, 0, sizeof(born))
        born.code = OP_NEW
        for i in range(len(known)):
            if known[i]:
                born.handle = known[i] - 1
                enough(lifetimes_feed(&self.l, &born, 1))
        return 0

    def feed(self, Walk walk):
        cdef const op *ops
        cdef size_t n
        cdef bint ok
        while self.source.next(&ops, &n):
            with nogil:
                ok = lifetimes_feed(&self.l, ops, n)
            enough(ok)
        lifetimes_finish(&self.l)

    def partial(self):
        return self.l.accesses, self.l.unmatched, array_of(self.l.blocks, self.l.n, LIFETIME)

    def merge(self, shard):
        accesses, unmatched, before = self.merged or (0, 0, np.zeros(0, LIFETIME))
        rows = np.zeros(max(len(before), int(shard[2]["handle"].max()) + 1 if len(shard[2]) else 0), LIFETIME)
        rows["handle"] = np.arange(len(rows))
        for found in (before, shard[2]):  # a handle occurs only once in each
            for name in ("own", "other"):
                rows[name][found["handle"]] += found[name]
        self.merged = accesses + shard[0], unmatched + shard[1], rows


def lifetimes_of(origin, tick=None):
    """The result of Lifetimes of an OpsFile or a whole Trace."""
    cdef Lifetimes found = Lifetimes()
    found.source = Operations(origin, tick)
    found.feed(None)
    return found.result()


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


# -- What a shard changes that the shards after it need to know. ---------------------------------------------

def survey_of(Trace trace, needs):
    """(operations, handles made, handles by slot, owners by slot) of a trace that is read to its end: see
    steve/kernels/base/survey.h. needs: see steve.parallel.checkpoints; arrays that are not needed are empty. Of a
    ChosenTrace, accesses are read if operations are needed, because only some of them count."""
    cdef survey s
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok
    cdef unsigned wanted = 0
    if "handles" in needs or "split_handles" in needs:
        wanted |= SURVEY_HANDLES
    if "split_handles" in needs:
        wanted |= SURVEY_SPLIT
    if "owners" in needs:
        wanted |= SURVEY_OWNERS
    if type(trace) is Trace or "operations" not in needs:
        mt_pass_accesses(trace.r)
    survey_init(&s, wanted)
    try:
        while trace.next(&events, &n):
            with nogil:
                ok = survey_feed(&s, events, n)
            enough(ok)
        return (s.operations + trace.stats()["passed"], s.handles, array_of(s.handle_of, s.n_handle_of, np.dtype("u8")),
                array_of(s.owner_of, s.n_owner_of, np.dtype("u4")))
    finally:
        survey_free(&s)
