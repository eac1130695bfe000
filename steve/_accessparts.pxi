# _accessparts.pxi - the part of _analyses.pyx for parts of a trace; steve.eventparts and steve.lineparts ask for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef extern from "steve/kernels/owners.h" nogil:
    struct owners:
        uint32_t *slots
        size_t n_slots
    void owners_init(owners *o)
    void owners_free(owners *o)
    bint owners_feed(owners *o, const mt_event *events, size_t n)


def owners_of(Trace trace):
    """What a part of a trace that is read to its end does to the owners of slots: an array (u4) by slot, as
    steve/kernels/owners.h says."""
    cdef owners o
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok
    owners_init(&o)
    try:
        while trace.next(&events, &n):
            with nogil:
                ok = owners_feed(&o, events, n)
            enough(ok)
        return array_of(o.slots, o.n_slots, np.dtype("u4"))
    finally:
        owners_free(&o)
