# cython: language_level=3, boundscheck=False
"""Totals for Python: the summary of a trace, what blocks live through, counted and written as text, and whether a trace is
consistent.

The headers in steve/kernels/totals/ say what is counted how. tick: as of steve.kernels._ops.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from steve.kernels._walk cimport Analysis, BatchAnalysis, Walk, walk_hide_blockless
from steve.kernels._ops cimport Operations, TextFile
from steve.kernels.ckernels cimport *
from steve.kernels.records cimport array_of, data_of, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *
from steve.trace.cops cimport *

from steve.kernels._sums import BLOCK, LIFETIME, dtype_of
from steve.trace._memtrace import KIND_NAMES

STACK, TOTALS = dtype_of("summary_stack"), dtype_of("summary_totals")
LIVE_AT = np.dtype((np.void, sizeof(live_at)))


cdef class Summary(BatchAnalysis):
    """Totals of a trace; steve/kernels/totals/summary.h defines them. The result is the object itself."""
    cdef summary s

    def __cinit__(self):
        summary_init(&self.s)

    def __dealloc__(self):
        summary_free(&self.s)

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        return enough(summary_enter(&self.s, block))

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
        live_bytes, peak_bytes (u8)."""
        return (array_of(self.s.of_stacks.keys, self.s.of_stacks.n, np.dtype("u4")),
                array_of(self.s.stacks, self.s.of_stacks.n, STACK))

    def used_stacks(self):
        """Those whose rows are not all 0, by stack id; without the epochs."""
        stacks, rows = self.rows()
        used = np.zeros(len(rows), bool)
        for name in STACK.names:
            used |= (rows[name] != 0) & (name != "epoch")
        kept = np.flatnonzero(used)
        kept = kept[np.argsort(stacks[kept])]
        found = rows[kept]
        found["epoch"] = 0
        return stacks[kept], found


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
        cdef const uint64_t *known = <const uint64_t *>data_of(handles)
        cdef op born
        cdef size_t i
        memset(&born, 0, sizeof(born))
        born.code = OP_NEW
        for i in range(<size_t>len(handles)):
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
    cdef TextFile text = TextFile(fd)
    cdef const lifetime *rows = <const lifetime *>data_of(blocks)
    cdef size_t n = len(blocks), at = 0, some
    while at < n:
        some = rows_left(at, n)
        PyErr_CheckSignals()
        with nogil:
            lifetext_pairs(text.out, rows + at, some, at > 0)
        at += some
        text.verify()
    text.finish()


def write_lifetime_lines(int fd, blocks, order, *, bint compat, bint macro, uint64_t accesses):
    """Write a line of the first Steve's statistics for each of the numbers `order` (i8) of blocks, an array of
    LIFETIME: its macro or its micro lifetime. compat, accesses: of struct lifetext."""
    cdef TextFile text = TextFile(fd)
    cdef lifetext t
    cdef const int64_t *numbers = <const int64_t *>data_of(order)
    cdef size_t n = len(order), at = 0, some
    if n == 0:
        return
    t.out = text.out
    t.blocks, t.compat, t.accesses = <const lifetime *>data_of(blocks), compat, accesses
    t.kind = LIFETEXT_MACRO if macro else LIFETEXT_MICRO
    while at < n:
        some = rows_left(at, n)
        PyErr_CheckSignals()
        with nogil:
            lifetext_lines(&t, numbers + at, some)
        at += some
        text.verify()
    text.finish()


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


# -- Is a trace, or a part of one, consistent? ----------------------------------------------------------------

cdef extern from "steve/kernels/totals/check.h" nogil:
    enum: CHECK_RULES
    uint64_t CHECK_BEFORE
    struct check_finding:
        uint64_t count, event
        mt_event first
    struct check_block:
        pass
    struct check:
        check_finding findings[9]
        check_finding crossing
        uint64_t events[12]
        uint64_t n_events, n_shown, next_handle, ordinals, time, first_time, live
        bint began
        check_block *blocks
        size_t room
    void check_init(check *c)
    struct check_ids:
        uint32_t stacks, sites, heaps
    bint check_enter(check *c, const mt_live_block_t *live, bint shown)
    bint check_feed(check *c, check_ids ids, const mt_event *events, const mt_event *shown, size_t n)
    void check_free(check *c)


RULES = ("overlap", "handle", "slot", "block", "place", "inside", "time", "id", "kind")
assert len(RULES) == CHECK_RULES
LIVED_BEFORE = CHECK_BEFORE


cdef object finding_dict(const check_finding *finding):
    """count, and of the first event: its ordinal and what it is."""
    if finding.count == 0:
        return {"count": 0}
    event = finding.first
    kind = KIND_NAMES[event.kind] if event.kind < MT_KINDS else str(event.kind)
    return {"count": finding.count, "event": finding.event, "kind": kind, "handle": event.handle,
            "addr": event.addr, "size": event.size, "offset": event.offset, "time": event.time, "ref":
            event.ref}


cdef class Check(Analysis):
    """The invariants of a trace, and the events that break them.

    The result is {"events": n, "live": blocks, "kinds": {kind: n}, "rules": {rule of RULES: finding}, "crossing":
    finding, "left": the bytes of an array as of Trace.survivors()}; a finding is {"count": 0} or the count with the
    first event concerned.

    A shard begins with the trace's own list of live blocks, and verifies what follows. The blocks that live at its
    end must be those in the list of the next shard. Then every shard has begun in the state that one reader would
    have had, and together they find the same. If anything is broken, in a shard or between two, the result is None,
    because the effects of a breach depend on all events after it; then one reader must read the trace."""
    cdef check c
    cdef object begins
    cdef list shards  # what was merged
    cdef bint of_all  # every event of the trace that the reader delivers is walked over
    cdef Walk walk

    def __cinit__(self):
        check_init(&self.c)
        self.shards = []

    def __dealloc__(self):
        check_free(&self.c)

    def begin(self, Walk walk, checkpoint):
        self.walk = walk
        Analysis.begin(self, walk, checkpoint)
        if checkpoint is not None:
            self.begins = self.state()

    cdef int begin_shard(self, checkpoint) except -1:
        self.c.next_handle = checkpoint.first_handle
        return 0

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        return enough(check_enter(&self.c, block, walk.w.mine[block.slot]))

    def feed(self, Walk walk):
        """Verify all events, and report breaches of those that count."""
        cdef check_ids ids
        cdef const mt_event *events
        cdef const mt_event *shown
        cdef const mt_reader *r = walk.trace.r
        cdef size_t n
        cdef bint ok
        while walk.step(&events, &shown, &n):
            ids.stacks, ids.sites, ids.heaps = mt_count_stacks(r), mt_count_sites(r), mt_count_heaps(r)
            with nogil:
                if shown != NULL:
                    walk_hide_blockless(&walk.w, n)
                ok = check_feed(&self.c, ids, events, shown, n)
            enough(ok)

    def partial(self):
        """The result, with further keys. "begin" and "end": states that must equal those of the neighbouring shards.
        "walked": number of events from the first that counts. "read": number of events that the reader delivered,
        None if not all are walked over. "first_time" and "last_time": of all events, None if there are none. "left":
        (number of News and Resizes, slots of live blocks, their ordinals; LIVED_BEFORE if not made or resized here)."""
        cdef check *c = &self.c
        all_count = self.walk.window is None and self.walk.w.since == 0
        return {**self.findings(), "left": self.left(), "begin": self.begins, "end": self.state(), "walked": c.n_events,
                "read": self.walk.trace.stats()["events"] if all_count else None,
                "first_time": c.first_time if c.began else None, "last_time": c.time if c.began else None}

    def merge(self, shard):
        self.shards.append(shard)

    def result(self):
        if self.shards:
            return merged_checks(self.shards) if is_sound(self.shards) else None
        return {**self.findings(), "left": np.sort(self.left()[2]).tobytes()}

    cdef object findings(self):
        cdef check *c = &self.c
        return {"events": c.n_shown, "live": c.live,
                "kinds": {name: c.events[i] for i, name in enumerate(KIND_NAMES)},
                "rules": {name: finding_dict(&c.findings[i]) for i, name in enumerate(RULES)},
                "crossing": finding_dict(&c.crossing)}

    cdef object left(self):
        """(News and Resizes, slots of the blocks that live, their ordinals): see struct check_block."""
        blocks = array_of(self.c.blocks, self.c.room, BLOCK)
        slots = np.flatnonzero(blocks["live"])
        return self.c.ordinals, slots, blocks["ordinal"][slots]

    cdef object state(self):
        """The state on which all further checks depend: (next handle, a digest of the live blocks)."""
        import hashlib
        blocks = array_of(self.c.blocks, self.c.room, BLOCK)
        live = np.flatnonzero(blocks["live"])
        digest = hashlib.blake2b(live.astype("u8").tobytes())
        for name in ("handle", "addr", "size"):
            digest.update(blocks[name][live].tobytes())
        return self.c.next_handle, digest.digest()


def is_sound(parts):
    """Are all shards, and the borders between them, without breaches?"""
    time = 0
    for part in parts:
        if part["read"] not in (None, part["walked"]) or any(found["count"] for found in part["rules"].values()):
            return False
        if part["first_time"] is not None:
            if part["first_time"] < time:
                return False
            time = part["last_time"]
    return all(one["end"] == other["begin"] for one, other in zip(parts, parts[1:]))


def left_by(parts):
    """The ordinals of the blocks that live at the end. A block that is not made or resized in a shard keeps its
    ordinal."""
    made, slots, ordinals = 0, np.empty(0, int), np.empty(0, "u8")
    for part in parts:
        n, now, found = part["left"]
        known = np.full(max(now.max(initial=-1), slots.max(initial=-1)) + 1, LIVED_BEFORE, "u8")
        known[slots] = ordinals
        slots, ordinals, made = now, np.where(found == LIVED_BEFORE, known[now], found + np.uint64(made)), made + n
    return np.sort(ordinals).tobytes()


def merged_checks(parts):
    """The result of the whole from that of sound shards."""
    walked, crossing = 0, {"count": 0}
    for part in parts:
        found = part["crossing"]
        if found["count"] and not crossing["count"]:
            crossing = {**found, "event": walked + found["event"], "count": 0}
        crossing["count"] += found["count"]
        walked += part["walked"]
    kinds = {name: sum(part["kinds"][name] for part in parts) for name in parts[0]["kinds"]}
    return {"events": sum(part["events"] for part in parts), "live": parts[-1]["live"], "kinds": kinds,
            "rules": parts[-1]["rules"], "crossing": crossing, "left": left_by(parts)}
