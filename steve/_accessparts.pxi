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


# ---- reuse ------------------------------------------------------------------------------------


cdef extern from "steve/kernels/reuse.h" nogil:
    void reuse_order(const reuse *r, uint64_t *to)
    bint reuse_add(reuse *r, const uint64_t *firsts, const uint64_t *lasts, size_t n)


cdef int walk_reuse(reuse *r, Walk walk) except -1:
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok
    while walk.next(&events, &n):
        with nogil:
            ok = reuse_feed(r, events, n)
        enough(ok)
    return 0


cdef object told_reuse(const reuse *r):
    return {"touches": r.touches, "cold": r.cold, "bins": [r.bins[i] for i in range(65)]}


def reuse_part(Walk walk, int line_shift, uint64_t rate):
    """What reuse_distances() tells of a part, lines in the order of their first and of their last touches."""
    cdef reuse r
    cdef uint64_t[::1] lasts
    try:
        enough(reuse_init(&r, line_shift, rate))
        walk_reuse(&r, walk)
        lasts = np.zeros(r.map.live + 1, "u8")
        reuse_order(&r, &lasts[0])
        return told_reuse(&r), array_of(r.lines, r.map.live, np.dtype("u8")), np.asarray(lasts)[:r.map.live]
    finally:
        reuse_free(&r)


cdef class WholeReuse:
    """Reuse distances of a trace, of reuse_part()s added in their order; found(): as of reuse_distances()."""
    cdef reuse r

    def __cinit__(self, int line_shift, uint64_t rate):
        enough(reuse_init(&self.r, line_shift, rate))

    def __dealloc__(self):
        reuse_free(&self.r)

    def add(self, part):
        cdef const uint64_t[::1] firsts = np.append(part[1], np.uint64(0)), lasts = np.append(part[2], np.uint64(0))
        enough(reuse_add(&self.r, &firsts[0], &lasts[0], len(firsts) - 1))
        self.r.touches += part[0]["touches"]
        for i, touches in enumerate(part[0]["bins"]):
            self.r.bins[i] += touches

    def found(self):
        return told_reuse(&self.r)


# ---- sharing ----------------------------------------------------------------------------------


cdef extern from "steve/kernels/sharinglines.h" nogil:
    struct sharing_use:
        pass

cdef extern from "steve/kernels/sharingparts.h" nogil:
    struct sharing_told:
        pass
    struct sharing_piece:
        pass
    struct sharing_part_told "sharing_part":
        const sharing_told *told
        size_t n_told
        const sharing_use *uses
        const sharing_piece *pieces
        size_t n_pieces
        const uint64_t *clocks
        size_t n_clocks
        uint64_t changes
        uint16_t first_thread, thread
    bint sharingparts_enter(sharing *s, const mt_live_block_t *live, uint32_t stack)
    bint sharingparts_finish(sharing *s)
    size_t sharingparts_tell(const sharing *s, sharing_told *told, sharing_use *uses)
    bint sharingparts_add(sharing *whole, const sharing_part_told *part)


cdef int walk_sharing(sharing *s, Walk walk) except -1:
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok
    while walk.next(&events, &n):
        with nogil:
            ok = sharing_feed(s, events, n)
        enough(ok)
    return 0


cdef int enter_sharing(sharing *s, Walk walk, owners) except -1:
    """Know the chosen blocks that live where a part begins; owners: by slot the stack + 1."""
    cdef mt_live_block_t block
    cdef uint32_t slot
    cdef const uint32_t[::1] known = owners
    s.part = s.lines.part = True
    for slot in range(min(mt_count_slots(walk.trace.r), <uint32_t>len(known))):
        if known[slot] and mt_get_live_block(walk.trace.r, slot, &block) and walk.w.mine[slot]:
            enough(sharingparts_enter(s, &block, known[slot] - 1))
    return 0


def sharing_part(Walk walk, owners):
    """What a part tells for WholeSharing.add(); owners: by slot the stack + 1 of the blocks that live where it
    begins."""
    cdef sharing s
    cdef size_t n_uses
    try:
        enough(sharing_init(&s))
        enter_sharing(&s, walk, owners)
        walk_sharing(&s, walk)
        enough(sharingparts_finish(&s))
        told = np.empty(s.lines.map.live * sizeof(sharing_told) // 8, "u8")
        uses = np.empty(s.lines.n_uses * sizeof(sharing_use) // 8, "u8")
        n_uses = sharingparts_tell(&s, <sharing_told *>data_of(told), <sharing_use *>data_of(uses))
        return {"rows": array_of(s.rows, s.rows_room, SHARING),
                "found": array_of(s.lines.found, s.lines.n_found, SHARED_LINE), "tests": s.lines.tests,
                "told": told, "uses": uses[:n_uses * sizeof(sharing_use) // 8],
                "pieces": array_of(s.pieces, s.n_pieces * sizeof(sharing_piece) // 8, np.dtype("u8")),
                "clocks": array_of(s.lines.clocks, s.lines.clocks_room, np.dtype("u8")),
                "changes": (s.lines.changes, s.lines.first_thread, s.lines.thread)}
    finally:
        sharing_free(&s)


cdef void *data_of(array) except? NULL:
    """Where the elements are."""
    return <void *><uintptr_t>array.ctypes.data


cdef class WholeSharing:
    """Sharing in a trace, of sharing_part()s added in their order; result(): as of sharing_by_stack()."""
    cdef sharing s
    cdef object sums, found, tests

    def __cinit__(self):
        enough(sharing_init(&self.s))
        self.sums = np.zeros(0, SHARING)
        self.found = []
        self.tests = 0

    def __dealloc__(self):
        sharing_free(&self.s)

    def add(self, part):
        cdef sharing_part_told p
        told, uses, pieces, clocks = (np.require(part[name], "u8", "CA") for name in (
            "told", "uses", "pieces", "clocks"))
        p.told = <const sharing_told *>data_of(told)
        p.n_told = 8 * len(told) // sizeof(sharing_told)
        p.uses = <const sharing_use *>data_of(uses)
        p.pieces = <const sharing_piece *>data_of(pieces)
        p.n_pieces = 8 * len(pieces) // sizeof(sharing_piece)
        p.clocks = <const uint64_t *>data_of(clocks)
        p.n_clocks = len(clocks)
        p.changes, p.first_thread, p.thread = part["changes"]
        self.sums = summed(self.sums, part["rows"])
        self.found.append(part["found"])
        self.tests += part["tests"]
        enough(sharingparts_add(&self.s, &p))

    def result(self):
        enough(sharing_finish(&self.s))
        return (summed(self.sums, array_of(self.s.rows, self.s.rows_room, SHARING)),
                np.concatenate([*self.found, array_of(self.s.lines.found, self.s.lines.n_found, SHARED_LINE)]),
                self.tests + self.s.lines.tests, self.s.lines.changes)


def summed(one, other):
    """Rows by number added up, as many as the longer has."""
    rows = np.zeros(max(len(one), len(other)), one.dtype)
    for array in (one, other):
        for name in rows.dtype.names:
            rows[name][:len(array)] += array[name]
    return rows
