# cython: language_level=3, boundscheck=False
"""Is a trace, or a part of one, consistent? steve/kernels/totals/check.h says what is verified.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from steve.kernels._walk cimport Analysis, Walk, walk_hide_blockless
from steve.kernels.records cimport array_of, enough
from steve.trace.cmemtrace cimport *

from steve.trace._memtrace import KIND_NAMES

cdef extern from "steve/kernels/totals/check.h" nogil:
    enum: CHECK_RULES
    uint64_t CHECK_BEFORE
    struct check_finding:
        uint64_t count, event
        mt_event first
    struct check_block:
        uint64_t handle, addr, size, ordinal
        uint8_t live
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


cdef check_block a_block
cdef check_block[::1] block_layout = <check_block[:1]>&a_block
BLOCK = np.asarray(block_layout).dtype

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
            return merged(self.shards) if is_sound(self.shards) else None
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


# -- Shards of a trace. --------------------------------------------------------------------------------------

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


def merged(parts):
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
