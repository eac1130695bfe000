# _parts.pxi - the part of _kernels.pyx that works on a part of a trace; steve.parts joins the results.
#
# SPDX-License-Identifier: GPL-2.0-or-later

def survey_of(Trace trace, *, bint resizes=True, tick=None):
    """(operations, handles given out, array by slot of what it holds at the end: see steve/kernels/survey.h)."""
    import numpy as np
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
        return s.operations + trace.stats()["passed"], s.handles, records(s.slots, s.n_slots, np.dtype("u8"))
    finally:
        survey_free(&s)


def write_ops_piece(Trace trace, int fd, handles, uint64_t next_handle, uint64_t skip, uint64_t count, *,
                    piece, str form="text", bint resizes=False):
    """Write `count` operations of what the trace will deliver, after `skip` that another piece holds.

    handles: by slot, plus 1, of the blocks that live here (0 = none); next_handle: of the next New. piece:
    (operations in the pieces before, is it the first, the last). There may be fewer: then the trace ended before.
    Returns how many accesses to no block it met."""
    cdef Operations source = Operations(trace, None, resizes)
    cdef OpsWriter writer = OpsWriter(fd, form, False, piece)
    cdef const uint64_t[::1] known = handles
    cdef op_quota quota
    quota.skip, quota.left = skip, count
    enough(op_source_begin(source.s, &known[0] if len(known) else NULL, len(known), next_handle))
    while source.write(writer.w, writer.form, &quota):
        pass
    if piece[2]:
        source.tell_unfreed(writer)
    writer.finish()
    return op_source_stray(source.s)


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
