# cython: language_level=3, boundscheck=False
"""The analyses of accesses for Python: walks over the events of chosen blocks.

    walk = Walk(trace, window, selection, progress)
    windows = working_set(walk, 100000)

A Walk gives the events of a trace, or of a part of it between marks, with those of blocks that were not
selected hidden; each function walks one to its end. A Chosen is a Trace that delivers only what was chosen, for
whatever reads a Trace. steve/kernels/base/walk.h, fields.h, workingset.h, reuse.h,
sharing.h and states.h say what is counted.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport UINT16_MAX, UINT64_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from steve.kernels.records cimport array_of, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

cdef extern from "steve/kernels/accesses/fields.h" nogil:
    struct fields_map:
        void *cells
        size_t n
        uint64_t blocks
        uint8_t shift
    struct fields:
        fields_map *maps
    bint fields_init(fields *f, const uint32_t *group_of, size_t n_stacks, const uint64_t *largest,
                     size_t n_groups)
    void fields_free(fields *f)
    bint fields_enter(fields *f, const mt_live_block_t *live, uint32_t group)
    bint fields_feed(fields *f, const mt_event *events, size_t n)

cdef extern from "steve/kernels/accesses/workingset.h" nogil:
    struct workingset_window:
        pass
    struct workingset:
        workingset_window *windows
        size_t n_windows
    bint workingset_init(workingset *w, uint64_t length)
    void workingset_begin(workingset *w, uint64_t live_bytes, uint64_t operations, uint64_t skip, uint64_t wanted)
    bint workingset_is_done(const workingset *w)
    bint workingset_feed(workingset *w, const mt_event *events, size_t n)
    bint workingset_finish(workingset *w)
    void workingset_free(workingset *w)

cdef extern from "steve/kernels/base/handle_map.h" nogil:
    struct livemap:
        size_t live

cdef extern from "steve/kernels/accesses/reuse.h" nogil:
    struct reuse:
        livemap map
        uint64_t touches, cold
        uint64_t bins[65]
        uint64_t *lines
    bint reuse_init(reuse *r, uint8_t shift, uint64_t rate)
    void reuse_free(reuse *r)
    bint reuse_feed(reuse *r, const mt_event *events, size_t n)

cdef extern from "steve/kernels/accesses/sharing_lines.h" nogil:
    struct sharing_found:
        pass
    struct sharinglines:
        livemap map
        uint64_t *clocks
        size_t clocks_room, n_uses
        uint64_t changes
        uint16_t first_thread, thread
        bint part
        sharing_found *found
        size_t n_found
        uint64_t tests

cdef extern from "steve/kernels/accesses/sharing.h" nogil:
    struct sharing_row:
        pass
    struct sharing:
        sharing_row *rows
        size_t rows_room
        sharinglines lines
        void *pieces
        size_t n_pieces
        bint part
    bint sharing_init(sharing *s)
    void sharing_free(sharing *s)
    bint sharing_feed(sharing *s, const mt_event *events, size_t n)
    bint sharing_finish(sharing *s)

cdef extern from "steve/kernels/accesses/states.h" nogil:
    enum:
        STATES_BEFORE
    struct states_row:
        pass
    struct states:
        uint64_t time, first_time
        states_row *rows
        size_t n
        uint32_t *now
        uint16_t thread
        bint began, part
    bint states_init(states *s)
    void states_free(states *s)
    bint states_feed(states *s, const mt_event *events, size_t n)
    void states_finish(states *s, uint64_t time)


def columns(str words):
    return np.dtype([(name, "u8") for name in words.split()])


CELL = columns("loads stores modifies")
WINDOW = columns("first operations time accesses bytes lines blocks live_bytes")
SHARING = columns("blocks shared shared_bytes accesses")
SIDE = np.dtype([("thread", "u8"), ("stack", "u8"), ("offset", "i8"), ("bytes", "u8"), ("written", "u8")])
SHARED_LINE = np.dtype([*((name, "u8") for name in "line interleaved at_once late threads".split()),
                        ("chance", "f8"), ("sides", SIDE, 2)])
STATE = columns("heap vm trace entries instructions allocs alloc_bytes frees free_bytes loads stores modifies "
                "bytes_read bytes_written")
assert STATE.itemsize == sizeof(states_row)
assert WINDOW.itemsize == sizeof(workingset_window) and SHARING.itemsize == sizeof(sharing_row)
assert SHARED_LINE.itemsize == sizeof(sharing_found)

cdef enum:
    TICK = 256  # batches of events between two calls of tick


cdef class Walk:
    """The events of a Trace that count; to be walked over once.

    window, tick: as of steve.kernels._lives.Lives. selected: None, or (an array of bits by handle, how many). part: a part
    of the trace is to be read, of which blocks count that were made before, from the handle `since` on; live_bytes:
    theirs, where it begins."""
    def __cinit__(self, Trace trace, window=None, selected=None, tick=None, bint part=False,
                  uint64_t since=0):
        cdef const uint8_t[::1] view
        self.trace, self.window, self.tick = trace, window, tick
        self.state = "within" if window is None else window.begin()
        self.filters = window is not None or selected is not None or since > 0
        if selected is None:
            walk_init(&self.w, NULL, 0)
        else:
            self.bits, n_bits = selected
            view = self.bits
            walk_init(&self.w, &view[0], n_bits)
        self.w.since = since
        if part:
            self.enter()

    cdef int enter(self) except -1:
        cdef mt_live_block_t block
        cdef uint32_t slot
        mt_read_checkpoint(self.trace.r)
        for slot in range(mt_count_slots(self.trace.r)):
            if mt_get_live_block(self.trace.r, slot, &block):
                enough(walk_enter(&self.w, &block))
                self.live_bytes += block.size if self.w.mine[slot] else 0
        return 0

    def __dealloc__(self):
        walk_free(&self.w)

    cdef bint next(self, const mt_event **events, size_t *n) except -1:
        """The next events, up to and with a mark if marks matter; false at the end."""
        cdef const mt_event *plain
        while self.step(&plain, events, n):
            if events[0] != NULL:
                return True
        return False

    cdef bint step(self, const mt_event **events, const mt_event **shown, size_t *n) except -1:
        """The same, with events that do not count: `shown` are those with such ones hidden, NULL if none counts."""
        cdef bint counts = self.state == "within"
        if self.state == "after" or not self.read():
            return False
        events[0], n[0] = self.events, self.n if self.window is None else to_mark(self.events, self.n)
        self.events += n[0]
        self.n -= n[0]
        if self.window is not None and events[0][n[0] - 1].kind == MT_MARK:
            self.meet(&events[0][n[0] - 1])
        shown[0] = events[0] if counts else NULL
        if counts and self.filters:
            shown[0] = walk_filter(&self.w, events[0], n[0])
            enough(shown[0] != NULL)
        return True

    def finish(self):
        """Walk on to the end: how many operations there were."""
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
        """Have events at hand; false at the end."""
        if self.n > 0:
            return True
        if not Trace.next(self.trace, &self.events, &self.n):
            return False
        self.walked += 1
        if self.tick is not None and self.walked % TICK == 0:
            self.tick(*self.trace.progress())
        return True


cdef size_t to_mark(const mt_event *events, size_t n) nogil:
    """How many events there are up to and with the next mark."""
    cdef size_t i = 0
    while i < n and events[i].kind != MT_MARK:
        i += 1
    return i + 1 if i < n else n


cdef class Chosen(Trace):
    """A Trace that delivers only the events of some blocks, or those between two marks, as if no others were.

    Made like a Trace; choose() before it is read. Events of no block (marks, lost events) stay."""
    cdef Walk walk
    cdef object window, bits
    cdef readonly uint64_t bad_frees
    cdef uint64_t last_time
    cdef list points
    cdef const mt_event *waiting  # delivered by next() and not yet by next_batch()
    cdef size_t n_waiting
    cdef mt_step step

    def choose(self, window=None, selected=None):
        """window: as of steve.kernels._lives.Lives, with verify(name); selected: as of Walk. One of them is given."""
        self.walk, self.window, self.points = Walk(self, window, selected), window, [(0, 0)]

    cdef int next(self, const mt_event **events, size_t *n) except -1:
        """As Trace.next; SteveError if a mark of the window did not come."""
        while self.walk.next(events, n):
            self.note(events[0], n[0])
            with nogil:
                n[0] = walk_pack(&self.walk.w, n[0])
            if n[0] > 0:
                return 1
        self.verify()
        return 0

    cdef int next_shown(self, const mt_event **events, const mt_event **shown, size_t *n) except -1:
        if not self.walk.step(events, shown, n):
            self.verify()
            return 0
        if shown[0] != NULL:
            self.note(shown[0], n[0])
        return 1

    cdef int verify(self) except -1:
        if self.window is not None and self.problem is None:
            self.window.verify(self.name)
        return 0

    cdef int next_batch(self, mt_batch *batch) except -1:
        """The same in a batch: as events, for what a segment holds is not all chosen."""
        if self.n_waiting == 0 and not self.next(&self.waiting, &self.n_waiting):
            return 0
        memset(batch, 0, sizeof(batch[0]))
        self.step.segment, self.step.count = MT_STEP_EVENTS, <uint16_t>min(self.n_waiting, <size_t>UINT16_MAX)
        batch.steps, batch.n_steps = &self.step, 1
        batch.events, batch.count = self.waiting, self.step.count
        batch.n_events = self.step.count
        self.waiting += self.step.count
        self.n_waiting -= self.step.count
        return 1

    cdef int note(self, const mt_event *events, size_t n) except -1:
        """Events are shown."""
        self.last_time = events[n - 1].time
        stats = Trace.stats(self)
        if stats["instructions"] > self.points[-1][0]:
            self.points.append((stats["instructions"], stats["nanoseconds"]))
        if self.walk.w.selected == NULL:
            self.count_bad_frees(events, n)
        return 0

    cdef void count_bad_frees(self, const mt_event *events, size_t n) noexcept nogil:
        cdef size_t i
        for i in range(n):
            self.bad_frees += events[i].kind == MT_BADFREE

    def stats(self):
        """As of a Trace, but unmatched_* are those of what was chosen. Between marks there is `between`, true, with
        instructions and nanoseconds of the time between, and the ending is "mark" if a mark ended it."""
        result = Trace.stats(self)
        result["unmatched_free"], result["unmatched_access"] = self.bad_frees, 0
        if self.window is not None:
            self.of_window(result)
        return result

    def of_window(self, result):
        ended = self.walk.state == "after"
        whole = [] if ended else [(result["totals"]["instructions"], result["totals"]["nanoseconds"])]
        times, clock = zip(*self.points, *[point for point in whole if point > self.points[-1]])
        last = self.last_time if ended else result["totals"]["instructions"] or self.last_time
        begin, end = np.interp((self.walk.begun, last), times, clock)
        result["instructions"], result["nanoseconds"] = last - self.walk.begun, round(end - begin)
        result["totals"]["dropped"], result["between"] = 0, True
        if ended:
            result["ending"] = "mark"


cdef int enter_fields(fields *f, Walk walk, owners) except -1:
    """Know the blocks that live where a part begins; owners: by slot the group + 1."""
    cdef mt_live_block_t block
    cdef uint32_t slot
    cdef size_t n = len(owners)
    cdef const uint32_t[::1] known = owners
    for slot in range(mt_count_slots(walk.trace.r)):
        if mt_get_live_block(walk.trace.r, slot, &block):
            enough(fields_enter(f, &block, known[slot] if slot < n else 0))
    return 0


cdef int walk_fields(fields *f, Walk walk) except -1:
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok
    while walk.next(&events, &n):
        with nogil:
            ok = fields_feed(f, events, n)
        enough(ok)
    return 0


def field_maps(Walk walk, group_of, largest, *, owners=None):
    """What of each group's blocks is accessed: a list of (bytes of a cell, blocks, array of CELL).

    group_of: an array (u4) with the group of each stack, 2^32 - 1 for none; largest: an array (u8) with the
    most bytes that a block of each group has. owners: None, or of a walk over a part the group + 1 of the block in
    each slot (u4), 0 for none."""
    cdef fields f
    cdef const uint32_t[::1] groups = np.append(group_of, 0).astype("u4")
    cdef const uint64_t[::1] sizes = np.append(largest, 0).astype("u8")
    cdef size_t n_groups = len(largest), i
    try:
        enough(fields_init(&f, &groups[0], len(group_of), &sizes[0], n_groups))
        if owners is not None:
            enter_fields(&f, walk, owners)
        walk_fields(&f, walk)
        return [(1 << f.maps[i].shift, f.maps[i].blocks, array_of(f.maps[i].cells, f.maps[i].n, CELL))
                for i in range(n_groups)]
    finally:
        fields_free(&f)


cdef object windows_of(workingset *w, Walk walk):
    """The windows of what is left of a walk."""
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok
    while not workingset_is_done(w) and walk.next(&events, &n):
        with nogil:
            ok = workingset_feed(w, events, n)
        enough(ok)
    enough(workingset_finish(w))
    return array_of(w.windows, w.n_windows, WINDOW)


def working_set(Walk walk, uint64_t length):
    """An array of WINDOW, one for each `length` operations."""
    cdef workingset w
    try:
        enough(workingset_init(&w, length))
        return windows_of(&w, walk)
    finally:
        workingset_free(&w)


def working_set_part(Walk walk, uint64_t length, uint64_t before, uint64_t wanted):
    """The `wanted` windows, or as many as there are, that begin after `before` operations of the trace, where the
    walk over a part begins."""
    cdef workingset w
    try:
        enough(workingset_init(&w, length))
        workingset_begin(&w, walk.live_bytes, before, (length - before % length) % length, wanted)
        return windows_of(&w, walk)
    finally:
        workingset_free(&w)


def reuse_distances(Walk walk, *, int line_shift=6, uint64_t rate=1):
    """{"touches", "cold", "bins"}: bins[0] counts distance 0, bins[i] 2^(i-1) to 2^i - 1 lines."""
    cdef reuse r
    try:
        enough(reuse_init(&r, line_shift, rate))
        walk_reuse(&r, walk)
        return told_reuse(&r)
    finally:
        reuse_free(&r)


def sharing_by_stack(Walk walk):
    """An array of SHARING by stack id; one of SHARED_LINE, in no order; of how many lines it was examined whether
    they are falsely shared; how often another thread made the next access."""
    cdef sharing s
    try:
        enough(sharing_init(&s))
        walk_sharing(&s, walk)
        enough(sharing_finish(&s))
        return (array_of(s.rows, s.rows_room, SHARING), array_of(s.lines.found, s.lines.n_found, SHARED_LINE),
                s.lines.tests, s.lines.changes)
    finally:
        sharing_free(&s)


cdef int walk_states(states *s, Walk walk) except -1:
    cdef const mt_event *events
    cdef size_t n
    cdef bint ok, first = True
    while walk.next(&events, &n):
        if first and walk.window is not None:
            s.time = events[0].time
        first = False
        with nogil:
            ok = states_feed(s, events, n)
        enough(ok)
    return 0


def states_of(Walk walk):
    """An array of STATE; the first row is of no state."""
    cdef states s
    try:
        enough(states_init(&s))
        walk_states(&s, walk)
        if walk.window is None and walk.trace.problem is None:
            states_finish(&s, walk.trace.stats()["totals"]["instructions"])
        return array_of(s.rows, s.n, STATE)
    finally:
        states_free(&s)


BEFORE = STATES_BEFORE


def states_part(Walk walk):
    """Of a part of a trace: (array of STATE, see steve/kernels/accesses/states.h; {thread: row it is in at the end}, times of
    the first and the last event, thread of the last), or None if nothing happens in it."""
    cdef states s
    try:
        enough(states_init(&s))
        s.part = True
        walk_states(&s, walk)
        if not s.began:
            return None
        now = {thread: s.now[thread] for thread in range(UINT16_MAX + 1) if s.now[thread]}
        return array_of(s.rows, s.n, STATE), now, s.first_time, s.time, s.thread
    finally:
        states_free(&s)


# -- Walks over parts of a trace, and what joins their results. ----------------------------------------------

cdef extern from "steve/kernels/lives/slot_owners.h" nogil:
    struct owners:
        uint32_t *slots
        size_t n_slots
    void owners_init(owners *o)
    void owners_free(owners *o)
    bint owners_feed(owners *o, const mt_event *events, size_t n)


def owners_of(Trace trace):
    """What a part of a trace that is read to its end does to the owners of slots: an array (u4) by slot, as
    steve/kernels/lives/slot_owners.h says."""
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


cdef extern from "steve/kernels/accesses/reuse.h" nogil:
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


cdef extern from "steve/kernels/accesses/sharing_lines.h" nogil:
    struct sharing_use:
        pass

cdef extern from "steve/kernels/accesses/sharing_parts.h" nogil:
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
