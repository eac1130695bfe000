# _check.pxi - the part of _kernels.pyx that verifies a trace or a part of it; `steve check` and steve.checkparts ask
# for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef object finding_dict(const check_finding *finding):
    """count, and of the first event: its ordinal and what it is."""
    if finding.count == 0:
        return {"count": 0}
    event = finding.first
    kind = KIND_NAMES[event.kind] if event.kind < MT_KINDS else str(event.kind)
    return {"count": finding.count, "event": finding.event, "kind": kind, "handle": event.handle,
            "addr": event.addr, "size": event.size, "offset": event.offset, "time": event.time, "ref":
            event.ref}


cdef int walk_check(check *c, Trace trace, tick) except -1:
    """Verify all events."""
    cdef check_ids ids
    cdef const mt_event *events
    cdef size_t n
    cdef unsigned batches = 0
    cdef bint ok
    while trace.next(&events, &n):
        ids.stacks, ids.sites = mt_count_stacks(trace.r), mt_count_sites(trace.r)
        ids.heaps = mt_count_heaps(trace.r)
        with nogil:
            ok = check_feed(c, ids, events, n)
        enough(ok)
        ticked(trace, tick, &batches)
    return 0


cdef object told_check(const check *c):
    return {"events": c.n_events, "live": c.live,
            "kinds": {name: c.events[i] for i, name in enumerate(KIND_NAMES)},
            "rules": {name: finding_dict(&c.findings[i]) for i, name in enumerate(RULES)},
            "crossing": finding_dict(&c.crossing)}


def check_trace(Trace trace, tick=None):
    """Verify the invariants of a trace.

    Returns {"events": n, "live": blocks, "kinds": {kind: n}, "rules": {rule of RULES: finding}, "crossing":
    finding}; a finding is {"count": 0} or the count with the first event concerned."""
    cdef check c
    check_init(&c)
    try:
        walk_check(&c, trace, tick)
        return told_check(&c)
    finally:
        check_free(&c)


cdef object state_of(const check *c):
    """What all that follows depends on: (next handle, a digest of the blocks that live)."""
    import hashlib
    import numpy as np
    names = ("handle", "addr", "size", "live")
    blocks = records(c.blocks, c.room, np.dtype({"names": names, "formats": ("u8", "u8", "u8", "?"),
                                                 "offsets": (0, 8, 16, 24), "itemsize": sizeof(check_block)}))
    live = np.flatnonzero(blocks["live"])
    digest = hashlib.blake2b(live.astype("u8").tobytes())
    for name in names[:3]:
        digest.update(blocks[name][live].tobytes())
    return c.next_handle, digest.digest()


def check_part(Trace trace, uint64_t handle):
    """The same of a part, which takes the blocks that live where it begins as the trace lists them; handle: of its
    first New. Besides there are "begin" and "end", states that must equal those of the parts before and behind, and
    "first_time" and "last_time" of its events."""
    cdef check c
    cdef mt_live_block_t block
    cdef uint32_t slot
    check_init(&c)
    c.next_handle = handle
    try:
        mt_read_live(trace.r)
        for slot in range(mt_count_slots(trace.r)):
            if mt_get_live_block(trace.r, slot, &block):
                enough(check_enter(&c, &block))
        begin = state_of(&c)
        walk_check(&c, trace, None)
        return {**told_check(&c), "begin": begin, "end": state_of(&c), "first_time": c.first_time, "last_time": c.time}
    finally:
        check_free(&c)
