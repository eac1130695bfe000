# cython: language_level=3, boundscheck=False
"""Is a trace, or a part of one, consistent? steve/kernels/totals/check.h says what is verified.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport uint32_t, uint64_t

from steve.kernels._accesses cimport Walk, walk_hide_blockless
from steve.kernels.records cimport array_of, enough
from steve.trace.cmemtrace cimport *

from steve.trace._memtrace import KIND_NAMES

cdef extern from "steve/kernels/totals/check.h" nogil:
    enum: CHECK_RULES
    struct check_finding:
        uint64_t count, event
        mt_event first
    struct check_block:
        uint64_t ordinal
        bint live
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
LIVED_BEFORE = 2 ** 64 - 1  # CHECK_BEFORE of the kernel


cdef object finding_dict(const check_finding *finding):
    """count, and of the first event: its ordinal and what it is."""
    if finding.count == 0:
        return {"count": 0}
    event = finding.first
    kind = KIND_NAMES[event.kind] if event.kind < MT_KINDS else str(event.kind)
    return {"count": finding.count, "event": finding.event, "kind": kind, "handle": event.handle,
            "addr": event.addr, "size": event.size, "offset": event.offset, "time": event.time, "ref":
            event.ref}


cdef int walk_check(check *c, Walk walk) except -1:
    """Verify all events, and tell of those that count."""
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
            ok = check_feed(c, ids, events, shown, n)
        enough(ok)
    return 0


cdef object blocks_of(const check *c, names, dtype):
    """Fields of the blocks by slot, of one type."""
    offsets = {"handle": 0, "addr": 8, "size": 16, "ordinal": 24, "live": 32}
    return array_of(c.blocks, c.room, np.dtype({"names": names, "formats": [dtype] * len(names),
                                                "offsets": [offsets[name] for name in names],
                                                "itemsize": sizeof(check_block)}))


cdef object left_by(const check *c):
    """(News and Resizes, slots of the blocks that live, their ordinals): see struct check_block."""
    slots = np.flatnonzero(blocks_of(c, ["live"], "?")["live"])
    return c.ordinals, slots, blocks_of(c, ["ordinal"], "u8")["ordinal"][slots]


cdef object told_check(const check *c):
    return {"events": c.n_shown, "live": c.live,
            "kinds": {name: c.events[i] for i, name in enumerate(KIND_NAMES)},
            "rules": {name: finding_dict(&c.findings[i]) for i, name in enumerate(RULES)},
            "crossing": finding_dict(&c.crossing)}


def check_of(Walk walk):
    """Verify the invariants of a trace, and tell what events break them that count.

    Returns {"events": n, "live": blocks, "kinds": {kind: n}, "rules": {rule of RULES: finding}, "crossing":
    finding, "left": of a whole trace the bytes of an array as of Trace.survivors()}; a finding is {"count": 0} or the count
    with the first event concerned."""
    cdef check c
    check_init(&c)
    try:
        walk_check(&c, walk)
        return {**told_check(&c), "left": np.sort(left_by(&c)[2]).tobytes()}
    finally:
        check_free(&c)


cdef object state_of(const check *c):
    """What all that follows depends on: (next handle, a digest of the blocks that live)."""
    import hashlib
    names = ["handle", "addr", "size"]
    blocks = blocks_of(c, names, "u8")
    live = np.flatnonzero(blocks_of(c, ["live"], "?")["live"])
    digest = hashlib.blake2b(live.astype("u8").tobytes())
    for name in names:
        digest.update(blocks[name][live].tobytes())
    return c.next_handle, digest.digest()


def check_part(Walk walk, uint64_t handle):
    """The same of a part, which takes the blocks that live where it begins as the trace lists them; handle: of its
    first New. Besides there are "begin" and "end", states that must equal those of the parts before and behind,
    "walked", the events that there are where any counts, and "first_time" and "last_time", of all, None if there are
    none; "left" is (News and Resizes, slots of blocks that live, their ordinals: CHECK_BEFORE if not made nor resized
    here)."""
    cdef check c
    cdef mt_live_block_t block
    cdef uint32_t slot
    check_init(&c)
    c.next_handle = handle
    try:
        for slot in range(mt_count_slots(walk.trace.r)):
            if mt_get_live_block(walk.trace.r, slot, &block):
                enough(check_enter(&c, &block, walk.w.mine[slot]))
        begin = state_of(&c)
        walk_check(&c, walk)
        times = {"first_time": c.first_time, "last_time": c.time} if c.began else {
            "first_time": None, "last_time": None}
        return {**told_check(&c), **times, "left": left_by(&c), "begin": begin, "end": state_of(&c), "walked": c.n_events}
    finally:
        check_free(&c)
