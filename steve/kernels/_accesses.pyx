# cython: language_level=3, boundscheck=False
"""The analyses of accesses for Python (steve.kernels._walk has the protocol), and traces of chosen blocks.

A Chosen is a Trace that delivers only chosen events, for functions that read a Trace. The headers fields.h,
workingset.h, reuse.h, sharing.h, states.h and gc_time.h in steve/kernels/accesses/ define what is counted.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport UINT16_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from steve.kernels._walk cimport Analysis, BatchAnalysis, Walk, walk_pack
from steve.kernels.records cimport array_of, data_of, distance, enough
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

from steve.kernels._sums import GC_TIME, SIDE, WINDOW, dtype_of, merged
from steve.trace._memtrace import VM_NAMES

cdef extern from "steve/kernels/accesses/fields.h" nogil:
    struct fields_cell:
        pass
    struct fields_map:
        fields_cell *cells
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
    struct handle_map:
        size_t live

cdef extern from "steve/kernels/accesses/reuse.h" nogil:
    struct reuse:
        handle_map map
        uint64_t touches, cold
        uint64_t bins[65]
        uint64_t *lines
    bint reuse_init(reuse *r, uint8_t shift, uint64_t rate)
    void reuse_free(reuse *r)
    bint reuse_feed(reuse *r, const mt_event *events, size_t n)
    void reuse_order(const reuse *r, uint64_t *to)
    bint reuse_merge(reuse *r, const uint64_t *firsts, const uint64_t *lasts, size_t n)

cdef extern from "steve/kernels/accesses/sharing_lines.h" nogil:
    struct sharing_use:
        pass
    struct sharing_side:
        pass
    struct sharing_found:
        uint64_t line, interleaved, at_once, late, threads
        double chance
        sharing_side sides[2]
    struct sharinglines:
        handle_map map
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

cdef extern from "steve/kernels/accesses/gc_time.h" nogil:
    enum:
        GC_TIME_BINS
        GC_TIME_COLLECTS
        GC_TIME_BEFORE
    struct gc_time_row:
        pass
    struct gc_time:
        uint64_t *bins
        uint64_t operations, width, time, first_time, first_operations
        gc_time_row *before
        size_t n
        uint8_t *now
        uint16_t thread
        bint began
    bint gc_time_init(gc_time *g)
    void gc_time_free(gc_time *g)
    void gc_time_begin_shard(gc_time *g, uint64_t operations, uint64_t total)
    bint gc_time_feed(gc_time *g, const mt_batch *batch)
    void gc_time_add(gc_time *g, uint64_t operation, uint64_t time)
    bint gc_time_finish(gc_time *g, uint64_t time)

cdef extern from "steve/kernels/accesses/sharing.h" nogil:
    struct sharing_reported:
        pass
    struct sharing_piece:
        pass
    struct sharing_part_report "sharing_part":
        const sharing_reported *reported
        size_t n_reported
        const sharing_use *uses
        const sharing_piece *pieces
        size_t n_pieces
        const uint64_t *clocks
        size_t n_clocks
        uint64_t changes
        uint16_t first_thread, thread
    bint sharing_shard_enter(sharing *s, const mt_live_block_t *live, uint32_t stack)
    bint sharing_shard_finish(sharing *s)
    size_t sharing_shard_report(const sharing *s, sharing_reported *reported, sharing_use *uses)
    bint sharing_merge(sharing *whole, const sharing_part_report *part)

CELL, SHARING, STATE = dtype_of("fields_cell"), dtype_of("sharing_row"), dtype_of("states_row")
# struct sharing_found has structs in an array, of which Cython makes no view
cdef sharing_found a_line
SHARED_LINE = np.dtype({
    "names": ["line", "interleaved", "at_once", "late", "threads", "chance", "sides"],
    "formats": ["u8", "u8", "u8", "u8", "u8", "f8", (SIDE, 2)],
    "offsets": [distance(&a_line, &a_line.line), distance(&a_line, &a_line.interleaved),
                distance(&a_line, &a_line.at_once), distance(&a_line, &a_line.late), distance(&a_line, &a_line.threads),
                distance(&a_line, &a_line.chance), distance(&a_line, &a_line.sides[0])],
    "itemsize": sizeof(sharing_found)})


cdef class ChosenTrace(Trace):
    """A Trace, or a shard of it, that delivers only the events of chosen blocks, or those between two marks, as if there
    were no others.

    It is made like a Trace. choose() has to be called before it is read, and after read_range(). Events that belong to
    no block (marks, lost events) are delivered too."""
    cdef Walk walk
    cdef object window, bits
    cdef bint shard
    cdef readonly uint64_t unmatched_frees, mismatched_frees
    cdef uint64_t last_time
    cdef list points
    cdef const mt_event *waiting  # delivered by next() and not yet by next_batch()
    cdef size_t n_waiting
    cdef mt_step step

    def choose(self, window=None, selected=None, *, bint shard=False, uint64_t since=0):
        """window: as for steve.kernels._lives.Lives, with verify(name); selected, shard, since: as for Walk."""
        self.walk = Walk(self, window, selected, None, shard, since)
        self.walk.filters = True
        self.window, self.shard, self.points = window, shard, [(0, 0)]

    cdef bint live_block(self, uint32_t slot, mt_live_block_t *block):
        return Trace.live_block(self, slot, block) and (self.walk is None or self.walk.w.mine[slot])

    cdef int next(self, const mt_event **events, size_t *n) except -1:
        """As Trace.next. SteveError if a mark of the window did not occur."""
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
        """The same in a batch, as single events, because not all accesses of a segment may be chosen."""
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
        """Note events that are delivered."""
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
            if events[i].kind == MT_BADFREE:
                if events[i].how == MT_BADFREE_MISMATCH:
                    self.mismatched_frees += 1
                else:
                    self.unmatched_frees += 1

    def stats(self):
        """As of a Trace, but unmatched_* and mismatched_free are those of what was chosen. Between marks, see
        stats_between(); a shard has `clock`, what that function needs of each shard."""
        result = Trace.stats(self)
        result["unmatched_free"], result["unmatched_access"] = self.unmatched_frees, 0
        result["mismatched_free"] = self.mismatched_frees
        clock = self.walk.begun, self.last_time, self.points
        if self.shard:
            result["clock"] = clock
        elif self.window is not None:
            stats_between(result, [clock], self.walk.state == "after")
        return result


def stats_between(stats, clocks, ended):
    """Make stats of a trace those of the time between marks: there is `between`, true, with instructions and
    nanoseconds of the time between, and the ending is "mark" if a mark ended it (ended).

    clocks: of each shard (time of the mark where the window begins, 0 if that is not in the shard; time of the last
    event, 0 if there is none; pairs of instructions and nanoseconds)."""
    begun, last = max(clock[0] for clock in clocks), max(clock[1] for clock in clocks)
    points = [(0, 0)]
    for _, _, more in clocks:
        points += [point for point in more if point[0] > points[-1][0]]
    whole = stats["totals"]["instructions"], stats["totals"]["nanoseconds"]
    if not ended:
        points += [whole] if whole > points[-1] else []
        last = whole[0] or last
    begin, end = np.interp((begun, last), *zip(*points))
    stats["instructions"], stats["nanoseconds"] = last - begun, round(end - begin)
    stats["totals"]["dropped"], stats["between"] = 0, True
    if ended:
        stats["ending"] = "mark"


# -- Fields of blocks. ---------------------------------------------------------------------------------------

cdef class Fields(Analysis):
    """Which parts of the blocks of each group are accessed: a list of (bytes of a cell, blocks, array of CELL).

    group_of: an array (u4) with the group of each stack, 2^32 - 1 for none; largest: an array (u8) with the size of the
    largest block of each group."""
    cdef fields f
    cdef object group_of
    cdef size_t n_groups
    cdef object known  # by slot: group + 1 of the block that lives where the shard begins
    needs = ("owners",)

    def __cinit__(self, group_of, largest):
        self.group_of, self.n_groups = np.require(group_of, "u4", "C"), len(largest)
        sizes = np.require(largest, "u8", "C")
        enough(fields_init(&self.f, <const uint32_t *>data_of(self.group_of), len(group_of),
                           <const uint64_t *>data_of(sizes), self.n_groups))

    def __dealloc__(self):
        fields_free(&self.f)

    cdef int begin_shard(self, checkpoint) except -1:
        self.known = groups_by_slot(checkpoint.owners, self.group_of)
        return 0

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        cdef const uint32_t *known = <const uint32_t *>data_of(self.known)
        return enough(fields_enter(&self.f, block, known[block.slot] if block.slot < <size_t>len(self.known) else 0))

    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil:
        return fields_feed(&self.f, events, n)

    def partial(self):
        cdef size_t i
        return [(1 << self.f.maps[i].shift, self.f.maps[i].blocks,
                 array_of(self.f.maps[i].cells, self.f.maps[i].n, CELL)) for i in range(self.n_groups)]

    def merge(self, shard):
        self.merged = shard if self.merged is None else [merged_maps(*both) for both in zip(self.merged, shard)]


def groups_by_slot(owners, group_of):
    """The group + 1 of the block in each slot, 0 for none. 2^32 - 1 is no group."""
    groups = np.zeros(max(len(group_of), int(owners.max(initial=0))) + 1, "u4")
    groups[1:len(group_of) + 1] = group_of + np.uint32(1)
    return groups[owners]


def merged_maps(one, other):
    """The maps of one group in two shards."""
    cell, made, cells = one
    return cell, made + other[1], merged("fields_cell", cells, other[2])


# -- The working set. ----------------------------------------------------------------------------------------

cdef class WorkingSet(Analysis):
    """An array of WINDOW, one for each `length` operations. Windows are counted from the beginning of the trace. A
    shard makes those that begin in it, and reads on to the end of the last one."""
    cdef workingset w
    cdef uint64_t length
    needs = ("operations",)
    onward = True

    def __cinit__(self, uint64_t length):
        self.length = length
        enough(workingset_init(&self.w, length))

    def __dealloc__(self):
        workingset_free(&self.w)

    def begin(self, Walk walk, checkpoint):
        cdef uint64_t length = self.length, first, end
        if checkpoint is not None:
            first, end = checkpoint.operations, checkpoint.operations + checkpoint.count
            workingset_begin(&self.w, walk.live_bytes, first, (length - first % length) % length,
                             (end + length - 1) // length - (first + length - 1) // length)

    cdef bint is_done(self):
        return workingset_is_done(&self.w)

    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil:
        return workingset_feed(&self.w, events, n)

    def partial(self):
        enough(workingset_finish(&self.w))
        return array_of(self.w.windows, self.w.n_windows, WINDOW)

    def merge(self, shard):
        self.merged = shard if self.merged is None else np.concatenate([self.merged, shard])


# -- Reuse distances. ----------------------------------------------------------------------------------------

cdef class Reuse(Analysis):
    """{"touches", "cold", "bins"}: bins[0] counts distance 0, bins[i] 2^(i-1) to 2^i - 1 lines. A shard reports the
    lines in the order of their first touches and of their last."""
    cdef reuse r

    def __cinit__(self, int line_shift=6, uint64_t rate=1):
        enough(reuse_init(&self.r, line_shift, rate))

    def __dealloc__(self):
        reuse_free(&self.r)

    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil:
        return reuse_feed(&self.r, events, n)

    def partial(self):
        lasts = np.zeros(self.r.map.live, "u8")
        reuse_order(&self.r, <uint64_t *>data_of(lasts))
        return self.result(), array_of(self.r.lines, self.r.map.live, np.dtype("u8")), lasts

    def merge(self, shard):
        counts, firsts, lasts = shard
        enough(reuse_merge(&self.r, <const uint64_t *>data_of(firsts), <const uint64_t *>data_of(lasts), len(firsts)))
        self.r.touches += counts["touches"]
        for i, touches in enumerate(counts["bins"]):
            self.r.bins[i] += touches

    def result(self):
        return {"touches": self.r.touches, "cold": self.r.cold, "bins": [self.r.bins[i] for i in range(65)]}


# -- Sharing between threads. --------------------------------------------------------------------------------

cdef class Sharing(Analysis):
    """An array of SHARING by stack id; an array of SHARED_LINE, in no order; the number of lines that were examined for
    false sharing; how often the next access was made by another thread. steve/kernels/accesses/sharing.h
    defines what a shard reports."""
    cdef sharing s
    cdef object rows
    cdef list found
    cdef uint64_t tests
    cdef object owners  # of a checkpoint
    needs = ("owners",)

    def __cinit__(self):
        enough(sharing_init(&self.s))
        self.rows, self.found, self.tests = np.zeros(0, SHARING), [], 0

    def __dealloc__(self):
        sharing_free(&self.s)

    cdef int begin_shard(self, checkpoint) except -1:
        self.owners = checkpoint.owners
        self.s.part = self.s.lines.part = True
        return 0

    cdef int enter(self, Walk walk, const mt_live_block_t *block) except -1:
        cdef const uint32_t *owners = <const uint32_t *>data_of(self.owners)
        cdef uint32_t slot = block.slot
        if slot < <size_t>len(self.owners) and owners[slot] and walk.w.mine[slot]:
            enough(sharing_shard_enter(&self.s, block, owners[slot] - 1))
        return 0

    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil:
        return sharing_feed(&self.s, events, n)

    def partial(self):
        cdef sharing *s = &self.s
        cdef size_t n_uses
        enough(sharing_shard_finish(s))
        reported = np.empty(s.lines.map.live * sizeof(sharing_reported) // 8, "u8")
        uses = np.empty(s.lines.n_uses * sizeof(sharing_use) // 8, "u8")
        n_uses = sharing_shard_report(s, <sharing_reported *>data_of(reported), <sharing_use *>data_of(uses))
        return {"rows": array_of(s.rows, s.rows_room, SHARING),
                "found": array_of(s.lines.found, s.lines.n_found, SHARED_LINE), "tests": s.lines.tests,
                "reported": reported, "uses": uses[:n_uses * sizeof(sharing_use) // 8],
                "pieces": array_of(s.pieces, s.n_pieces * sizeof(sharing_piece) // 8, np.dtype("u8")),
                "clocks": array_of(s.lines.clocks, s.lines.clocks_room, np.dtype("u8")),
                "changes": (s.lines.changes, s.lines.first_thread, s.lines.thread)}

    def merge(self, shard):
        cdef sharing_part_report p
        reported, uses, pieces, clocks = (np.require(shard[name], "u8", "CA") for name in (
            "reported", "uses", "pieces", "clocks"))
        p.reported = <const sharing_reported *>data_of(reported)
        p.n_reported = 8 * len(reported) // sizeof(sharing_reported)
        p.uses = <const sharing_use *>data_of(uses)
        p.pieces = <const sharing_piece *>data_of(pieces)
        p.n_pieces = 8 * len(pieces) // sizeof(sharing_piece)
        p.clocks = <const uint64_t *>data_of(clocks)
        p.n_clocks = len(clocks)
        p.changes, p.first_thread, p.thread = shard["changes"]
        self.rows = merged("sharing_row", self.rows, shard["rows"])
        self.found.append(shard["found"])
        self.tests += shard["tests"]
        enough(sharing_merge(&self.s, &p))

    def end(self, uint64_t time, bint between):
        enough(sharing_finish(&self.s))

    def result(self):
        return (merged("sharing_row", self.rows, array_of(self.s.rows, self.s.rows_room, SHARING)),
                np.concatenate([*self.found, array_of(self.s.lines.found, self.s.lines.n_found, SHARED_LINE)]),
                self.tests + self.s.lines.tests, self.s.lines.changes)


# -- States of virtual machines. -----------------------------------------------------------------------------

cdef class States(Analysis):
    """An array of STATE; the first row is of no state.

    At the beginning of a shard, the states of threads are not known. Until an event sets the state of a thread, the
    shard counts for this thread in a row of its own. The time up to the first event of a shard belongs to the thread
    that ran last before it."""
    cdef states s
    cdef bint from_mark  # the time begins with the first event, which has not come yet
    cdef dict rows       # of what was merged, by (heap, vm, trace)
    cdef dict now        # by thread: key of its row
    cdef object first_time, time, thread

    def __cinit__(self):
        enough(states_init(&self.s))
        self.rows, self.now = {}, {}

    def __dealloc__(self):
        states_free(&self.s)

    def begin(self, Walk walk, checkpoint):
        self.s.part = checkpoint is not None
        self.from_mark = walk.window is not None

    cdef bint take(self, const mt_event *events, size_t n) noexcept nogil:
        if self.from_mark:
            self.s.time, self.from_mark = events[0].time, False
        return states_feed(&self.s, events, n)

    def partial(self):
        """(array of STATE, see steve/kernels/accesses/states.h; {thread: row of its state at the end}, times of the
        first and the last event, thread of the last event), or None if there are no events."""
        if not self.s.began:
            return None
        now = {thread: self.s.now[thread] for thread in range(UINT16_MAX + 1) if self.s.now[thread]}
        return array_of(self.s.rows, self.s.n, STATE), now, self.s.first_time, self.s.time, self.s.thread

    def merge(self, shard):
        self.rows.setdefault(NO_STATE, [0] * (len(STATE.names) - 3))
        if shard is not None:
            self.add(*shard)

    def add(self, found, now, first, last, thread):
        """Add the next shard."""
        if self.time is None:
            self.first_time = self.time = first
        self.pass_time(first)
        keys = [self.now.get(row[0], NO_STATE) if row[1] == STATES_BEFORE else row[:3] for row in found.tolist()]
        for key, row in zip(keys[1:], found.tolist()[1:]):
            self.rows[key] = [a + b for a, b in zip(self.rows.get(key, [0] * len(row)), row[3:])]
        self.now.update((number, keys[row]) for number, row in now.items())
        self.time, self.thread = last, thread

    def pass_time(self, time):
        """Add the time until then to the thread that ran last."""
        if self.time is not None and time > self.time:
            self.rows[self.now.get(self.thread, NO_STATE)][INSTRUCTIONS] += time - self.time
            self.time = time

    def end(self, uint64_t time, bint between):
        if between:
            return
        if self.rows:
            self.rows[NO_STATE][INSTRUCTIONS] += self.first_time or 0
            self.time = self.time or 0
            self.pass_time(time)
        elif time:
            states_finish(&self.s, time)

    def result(self):
        if self.rows:
            return np.array([(*key, *row) for key, row in self.rows.items()], STATE)
        return array_of(self.s.rows, self.s.n, STATE)


NO_STATE = (0, len(VM_NAMES), 0)
INSTRUCTIONS = STATE.names.index("instructions") - 3


# -- The course of a run. ------------------------------------------------------------------------------------

cdef class Course(BatchAnalysis):
    """What a timeline shows besides the heap: instructions of Lua's garbage collectors by bin of operations
    (steve/kernels/accesses/gc_time.h), and the wall clock, which the trace has at the end of each chunk. The result is the
    object itself."""
    cdef gc_time g
    cdef uint64_t nanoseconds  # at the end of the chunk that is read
    cdef list points           # pairs of operations and nanoseconds
    cdef dict collects         # of what was merged: does a thread collect?
    cdef object last           # of what was merged: time of the last event, and its thread
    needs = ("operations",)

    def __cinit__(self):
        enough(gc_time_init(&self.g))
        self.points, self.collects = [], {}

    def __dealloc__(self):
        gc_time_free(&self.g)

    cdef int begin_shard(self, checkpoint) except -1:
        gc_time_begin_shard(&self.g, checkpoint.operations, checkpoint.total)
        return 0

    def take_batch(self, Walk walk):
        cdef mt_reader_stats_t stats
        mt_get_stats(walk.trace.r, &stats)
        self.note(stats.nanoseconds)
        BatchAnalysis.take_batch(self, walk)

    cdef bint feed_batch(self, const mt_batch *batch) noexcept nogil:
        return gc_time_feed(&self.g, batch)

    cdef int note(self, uint64_t nanoseconds) except -1:
        """A chunk with this clock is read; that before it is at its end."""
        if nanoseconds != self.nanoseconds:
            if self.nanoseconds:
                self.points.append((self.g.operations, self.nanoseconds))
            self.nanoseconds = nanoseconds
        return 0

    def partial(self):
        """(operations, points, None or what add() needs)"""
        self.note(0)
        if not self.g.began:
            return self.g.operations, self.points, None
        states = array_of(self.g.now, UINT16_MAX + 1, np.dtype("u1"))
        known = np.flatnonzero(states != GC_TIME_BEFORE)
        return self.g.operations, self.points, (
            self.g.width, self.bins(), array_of(self.g.before, self.g.n, GC_TIME),
            dict(zip(known.tolist(), (states[known] == GC_TIME_COLLECTS).tolist())),
            self.g.first_time, self.g.first_operations, self.g.time, self.g.thread)

    def merge(self, shard):
        operations, points, found = shard
        self.points += points
        if found is not None:
            self.add(*found)
        self.g.operations = operations

    def add(self, width, bins, before, states, first_time, first_operations, time, thread):
        """Add the next shard."""
        self.pass_time(first_time, first_operations)
        for i in np.flatnonzero(bins).tolist():
            gc_time_add(&self.g, i * width, bins[i])
        for row in before.tolist():
            if self.collects.get(row[0]):
                gc_time_add(&self.g, row[1] * width, row[2])
        self.collects.update(states)
        self.last = time, thread

    def pass_time(self, time, operations):
        """Add the time until then to the thread that ran last."""
        if self.last is not None and time > self.last[0] and self.collects.get(self.last[1]):
            gc_time_add(&self.g, operations, time - self.last[0])

    def end(self, uint64_t time, bint between):
        self.note(0)
        if not between and time:
            self.pass_time(time, self.g.operations)
        enough(gc_time_finish(&self.g, 0 if between or self.last is not None else time))

    def result(self):
        return self

    def bins(self):
        """Array of the instructions of garbage collectors, by bin."""
        return array_of(self.g.bins, GC_TIME_BINS, np.dtype("u8"))

    def collected(self, uint64_t width, size_t n):
        """The same in n bins of a width in operations that is a multiple of the own one; what is after them is in the
        last."""
        bins = np.minimum(np.arange(GC_TIME_BINS, dtype="u8") * self.g.width // width, max(n, 1) - 1)
        return np.array(np.bincount(bins.astype("i8"), self.bins().astype("f8"), n), "u8") if n else np.zeros(0, "u8")

    def clock(self):
        """Pairs of operations and nanoseconds, in order; [] if the trace has no clock."""
        return [point for point, after in zip(self.points, [*self.points[1:], None]) if after is None or after[0] > point[0]]
