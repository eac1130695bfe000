# cython: language_level=3, boundscheck=False
"""The lives of blocks for Python: records of struct life as numpy arrays, and sums by stack or thread.

    lives = Lives(trace)
    by_stack = Groups("stack")
    for batch in lives.batches():
        by_stack.add(batch, batch["size"] >= 1024)
    rows = by_stack.rows(lives.totals()["peak"])

The walk and the sums run outside Python. steve/kernels/lives/lives.h and groups.h define each field.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from steve.kernels._walk cimport Walk
from steve.kernels.ckernels cimport keyed_rows, life, life_scaled, life_variance
from steve.kernels.records cimport array_of, data_of, distance, enough, view_of
from steve.trace._memtrace cimport Trace
from steve.trace.cmemtrace cimport *

from steve.kernels._sums import LIFE, chosen, dtype_of, merged, variances_of
from steve.trace._memtrace import event_dtype

cdef extern from "steve/kernels/lines/lua_lines.h" nogil:
    struct luacode_proto:
        uint32_t offset, count, first
    struct luacode_at:
        uint32_t by, id
    struct luacode_made:
        uint32_t stack, heap
    struct luacode_thread:
        luacode_at now
        luacode_made made, made_then
        uint32_t collects
    struct luacode:
        luacode_proto *protos
        uint32_t n_protos, n_places
        luacode_thread *threads
        uint32_t n_threads
    bint luacode_init(luacode *c, const mt_reader *reader)
    void luacode_free(luacode *c)
    bint luacode_learn(luacode *c)
    bint luacode_pass(luacode *c, const mt_event *events, size_t n)

cdef extern from "steve/kernels/lines/line_pages.h" nogil:
    struct linepages:
        pass

cdef extern from "steve/kernels/lines/lines.h" nogil:
    enum:
        LINEWORK_KINDS
    struct linework_row:
        pass
    struct linework_made:
        pass
    struct linework_map:
        const uint32_t *stacks
        const uint32_t *sites
        const uint32_t *places
        uint64_t n_stacks, n_sites, n_lines
    struct linework:
        linework_map map
        linework_row *rows
        linework_made *made
        linepages pages
        uint32_t *pieces
        size_t n_pieces
    bint linework_init(linework *w, luacode *code)
    void linework_free(linework *w)
    bint linework_learn(linework *w, const linework_map *map)
    bint linework_catch_up(linework *w)

cdef extern from "steve/kernels/lines/line_segments.h" nogil:
    void line_segments_settle(linework *w)

cdef extern from "steve/kernels/lives/groups.h" nogil:
    struct group:
        pass
    struct group_variances:
        pass
    struct groups:
        group *rows
        keyed_rows of_keys
        group_variances *variances
        size_t variances_room
        groups_key key
    void groups_init(groups *g, groups_key key)
    void groups_free(groups *g)
    bint groups_add(groups *g, const life *lives, const uint8_t *keep, size_t n)
    bint groups_merge(groups *g, const uint32_t *keys, const group *rows, size_t n, uint64_t peak)
    void groups_settle(groups *g, uint64_t peak)

cdef extern from "steve/kernels/base/batch_walk.h" nogil:
    mt_batch batch_of_events(const mt_event *events, size_t n, mt_step *step)

cdef extern from "steve/kernels/lives/lives.h" nogil:
    struct access_sums:
        uint64_t counts[3]
        uint64_t bytes[3]
    struct lives_totals:
        uint64_t operations, news, frees, resizes, accesses, allocated, live_bytes, live_blocks, peak
        uint64_t peak_bytes, time
    struct lives_piece:
        pass
    struct lives:
        lives_totals totals
        groups *sums
        life *out
        size_t n_out
        access_sums *sites
        access_sums *threads
        size_t sites_room
        linework *lines
        uint64_t before, since, times
        lives_piece *pieces
        size_t n_pieces
    void lives_init(lives *l, const uint8_t *selected, uint64_t n_selected)
    void lives_free(lives *l)
    bint lives_feed(lives *l, const mt_batch *batch, uint32_t sites)
    void lives_end(lives *l, uint64_t time)
    bint lives_finish(lives *l)
    bint lives_is_selected(const lives *l, uint64_t handle)
    void lives_mark(uint8_t *set, uint64_t n_bits, const life *lives, const uint8_t *keep, size_t n)

cdef extern from "steve/kernels/lives/lives.h" nogil:
    bint lives_shard_enter(lives *l, const mt_live_block_t *live)
    bint lives_shard_finish(lives *l)
    bint lives_merge(lives *whole, const lives_piece *pieces, size_t n, const lives_totals *part,
                        const lives_totals *began)

cdef extern from "steve/kernels/lives/faults.h" nogil:
    struct faults:
        mt_event *first
        uint64_t *counts
        size_t n
    bint faults_init(faults *f)
    void faults_free(faults *f)
    bint faults_add(faults *f, const mt_event *events, size_t n)


def columns(str words, str form):
    return [(name, form) for name in words.split()]


GROUP, VARIANCES, BY_KIND, TOTALS = dtype_of("group"), variances_of("group"), dtype_of("access_sums"), dtype_of("lives_totals")
LINEWORK, MADE = dtype_of("linework_row"), dtype_of("linework_made")
ACCESSES = np.dtype(columns("loads stores modifies bytes_read bytes_written", "u8"))

KEYS = {"stack": GROUPS_BY_STACK, "thread": GROUPS_BY_THREAD, "free_thread": GROUPS_BY_FREE_THREAD,
        "type": GROUPS_BY_TYPE, "heap": GROUPS_BY_HEAP, "how": GROUPS_BY_HOW}

cdef enum:
    ENOUGH = 8192  # records in a batch
    FEW = 1024     # the same, where several analyses share a walk and its memory


def accesses_of(counts, sizes):
    """An array of ACCESSES from arrays by loads, stores, modifies: a modification reads and writes."""
    result = np.empty(len(counts), ACCESSES)
    for i, name in enumerate(("loads", "stores", "modifies")):
        result[name] = counts[:, i]
    result["bytes_read"] = sizes[:, 0] + sizes[:, 2]
    result["bytes_written"] = sizes[:, 1] + sizes[:, 2]
    return result


def estimated(rows, times):
    """An array of recorded numbers multiplied by the weight of all blocks, in a sample by blocks (lives.h)."""
    if times == 1:
        return rows
    result = rows.copy()
    result.view("u8")[...] *= np.uint64(times)
    return result


def end_of(trace):
    """The time in instructions at which the program of a trace ended, after all was read; 0 if it is not known."""
    return 0 if trace.problem is not None else trace.stats()["totals"]["instructions"]


cdef class Lives:
    """One walk over a Trace.

    window: None, or a steve.parallel.window.Window; the walk ends when its state is "after".
    selected: None, or a Selection; other blocks are treated as if they did not exist.
    tick: None, or a function that is called with the progress from time to time.
    lines: None, or a steve.trace.line_numbers.LineNumbers; then accesses count for lines, see line_work(), and not
    for sites. errors: None, or a function that is called at the end of the walk with the errors of the program
    (steve/kernels/lives/faults.h): an array of the first event of each case, and one of the numbers of events.
    Accesses to freed memory are found if the trace was opened with them. It needs a walk without window and lines.
    part: None, or the number of operations before the shard that is read. A shard begins with the blocks that live
    there, and does not end the lives of those that live on; see partial(). begins: of a shard with lines, the
    arguments of enter_lines(). since: of a shard, the first handle that counts.
    sums: None, or Groups to which all lives are added; batches() is then empty."""
    cdef lives l
    cdef lives_totals began
    cdef bint is_part, handed
    cdef luacode code
    cdef linework work
    cdef faults met
    cdef Trace trace
    cdef Walk walk
    cdef object selected, lines, errors
    cdef Groups sums
    cdef object numbers  # of lines, which the kernel uses

    def __cinit__(self, Trace trace, window=None, Selection selected=None, tick=None, lines=None,
                  errors=None, part=None, begins=None, uint64_t since=0, Groups sums=None):
        self.errors, self.sums = errors, sums
        self.trace, self.selected, self.lines = trace, selected, lines
        self.walk = Walk(trace, window, None, tick)
        if selected is None:
            lives_init(&self.l, NULL, 0)
        else:
            lives_init(&self.l, selected.bits(), selected.n_bits)
        self.l.since = since
        if sums is not None:
            self.l.sums = &sums.g
        if lines is not None:
            self.l.lines = &self.work
            enough(luacode_init(&self.code, trace.r) and linework_init(&self.work, &self.code))
        if errors is not None and not faults_init(&self.met):
            raise MemoryError
        self.is_part = part is not None
        if self.is_part:
            self.l.before = part
            self.enter()
            if lines is not None:
                enter_lines(self, begins)

    def __dealloc__(self):
        lives_free(&self.l)
        luacode_free(&self.code)
        linework_free(&self.work)
        faults_free(&self.met)

    def batches(self):
        """Iterate over the lives as arrays of LIFE, each valid until the next is requested: first blocks that are
        freed, in the order of their Frees, then the others."""
        while self.read():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0
        self.report_errors()
        yield view_of(self.l.out, self.l.n_out, LIFE)
        self.l.n_out = 0
        if self.walk.state != "after":
            lives_end(&self.l, end_of(self.trace))
        while not self.is_part and self.finish():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0

    def take_batch(self, Walk walk):
        """Take the batch that another walk over the trace has read. Returns the lives that have ended when there are
        enough of them, as an array that is valid until the next call; else None."""
        self.drop()
        self.feed_batch(&walk.batch)
        if self.l.n_out < FEW:
            return None
        self.handed = True
        return view_of(self.l.out, self.l.n_out, LIFE)

    def rest(self):
        """Iterate over the other lives, as batches() does, after the last take_batch()."""
        self.drop()
        lives_end(&self.l, end_of(self.trace))
        while True:
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0
            if self.is_part or not self.finish():
                return

    cdef void drop(self):
        """Forget the lives that take_batch() has returned."""
        if self.handed:
            self.l.n_out, self.handed = 0, False

    cdef int enter(self) except -1:
        """Enter the blocks that live at the beginning of the shard."""
        cdef mt_live_block_t block
        cdef uint32_t slot
        mt_read_checkpoint(self.trace.r)
        for slot in range(mt_count_slots(self.trace.r)):
            if self.trace.live_block(slot, &block) and not lives_shard_enter(&self.l, &block):
                raise MemoryError
        self.began = self.l.totals
        return 0

    def partial(self):
        """What is known of the blocks that cross a border of the shard, as bytes, and the totals of the shard and of its
        beginning, for WholeLives.merge()."""
        enough(lives_shard_finish(&self.l))
        return (PyBytes_FromStringAndSize(<char *>self.l.pieces, self.l.n_pieces * sizeof(lives_piece)),
                array_of(&self.l.totals, 1, TOTALS), array_of(&self.began, 1, TOTALS))

    cdef bint finish(self) except -1:
        """Make records of blocks that live at the end. False when there are no more."""
        enough(lives_finish(&self.l))
        return self.l.n_out > 0

    cdef bint read(self) except -1:
        """Read on until there are enough records. False at the end."""
        cdef const mt_event *events
        cdef size_t n
        cdef bint counts
        while self.l.n_out < ENOUGH:
            if self.walk.window is None:
                if not self.walk.advance():
                    return False
                self.feed_batch(&self.walk.batch)
            else:
                if not self.walk.advance_to_mark(&events, &n, &counts):
                    return False
                self.feed(events, n, counts)
        return True

    cdef int feed_batch(self, const mt_batch *batch) except -1:
        cdef uint32_t sites = mt_count_sites(self.trace.r)
        cdef bint ok, seek_errors = self.errors is not None
        if self.lines is not None:
            self.learn()
        with nogil:
            ok = lives_feed(&self.l, batch, sites)
            if ok and seek_errors:
                ok = faults_add(&self.met, batch.events, batch.n_events)
        return enough(ok)

    cdef int report_errors(self) except -1:
        """Report the errors of the program."""
        if self.errors is not None:
            self.errors(view_of(self.met.first, self.met.n, event_dtype()).copy(),
                        view_of(self.met.counts, self.met.n, np.dtype("u8")).copy())
        return 0

    cdef int feed(self, const mt_event *events, size_t n, bint counts) except -1:
        """Feed events up to a mark."""
        cdef uint32_t sites = mt_count_sites(self.trace.r)
        cdef bint ok = True
        cdef mt_step step
        cdef mt_batch batch = batch_of_events(events, n, &step)
        if self.lines is not None:
            self.learn()
        with nogil:
            if counts:
                ok = lives_feed(&self.l, &batch, sites)
            elif self.l.lines != NULL:
                ok = luacode_pass(&self.code, events, n)
        if self.walk.state == "after":
            lives_end(&self.l, events[n - 1].time)
        return enough(ok)

    cdef int learn(self) except -1:
        """Number the lines of what the reader has defined so far."""
        cdef uint32_t stacks = mt_count_stacks(self.trace.r), sites = mt_count_sites(self.trace.r)
        cdef uint32_t protos = self.code.n_protos
        cdef linework_map known
        enough(luacode_learn(&self.code))
        if (self.work.map.n_lines and stacks == self.work.map.n_stacks and sites == self.work.map.n_sites
                and protos == self.code.n_protos):
            return 0
        self.numbers = of_stacks, of_sites, of_places = self.lines.reach(stacks, sites, self.code.n_protos)
        known = linework_map(<const uint32_t *>data_of(of_stacks), <const uint32_t *>data_of(of_sites),
                             <const uint32_t *>data_of(of_places), stacks, sites, self.lines.count())
        return enough(linework_learn(&self.work, &known))

    def totals(self):
        """The fields of struct lives_totals."""
        return dict(self.l.totals)

    def estimated(self, rows):
        """Recorded numbers of accesses, multiplied by the weight of all blocks in a sample."""
        return estimated(rows, self.l.times)

    def site_accesses(self):
        """An array of ACCESSES by site id, to the blocks of this walk."""
        rows = self.estimated(view_of(self.l.sites, self.l.sites_room, BY_KIND))
        return accesses_of(rows["counts"], rows["bytes"])

    def line_work(self):
        """Arrays of LINEWORK and of MADE by number of the line."""
        cdef size_t n = self.work.map.n_lines
        line_segments_settle(&self.work)
        enough(linework_catch_up(&self.work))
        return estimated(view_of(self.work.rows, n, LINEWORK), self.l.times), view_of(self.work.made, n, MADE)

    def thread_accesses(self):
        """The same by thread number, up to the last thread that has any."""
        cdef size_t n = mt_thread_end(self.trace.r) if self.l.threads != NULL else 0
        cdef access_sums *at
        while n:
            at = &self.l.threads[n - 1]
            if at.counts[0] | at.counts[1] | at.counts[2]:
                break
            n -= 1
        rows = estimated(view_of(self.l.threads, n, BY_KIND), self.l.times)
        return accesses_of(rows["counts"], rows["bytes"])


# -- Counts by line, whole and in parts of a trace. ----------------------------------------------------------

cdef extern from "steve/kernels/lines/lua_lines.h" nogil:
    enum:
        LUACODE_BEFORE, LUACODE_NONE
    bint luacode_pass_batch(luacode *c, const mt_batch *batch)
    void luacode_begin_part(luacode *c)
    void luacode_lose_place(luacode *c)
    bint luacode_enter(luacode *c, const mt_live_block_t *live)
    bint luacode_set_threads(luacode *c, const luacode_thread *threads, uint32_t n)

cdef extern from "steve/kernels/lines/line_pages.h" nogil:
    struct linepage:
        uint64_t page
    size_t linepages_count(const linepages *p)
    void linepages_copy(const linepages *p, linepage *to)

cdef extern from "steve/kernels/lines/lines.h" nogil:
    bint lines_shard_enter(linework *w, uint32_t slot, uint32_t stack)
    bint linework_merge(linework *whole, const uint32_t *pieces, size_t n)
    bint linework_merge_pages(linework *whole, const linepage *pages, size_t n)

# Of struct luacode_thread; AS_BEFORE: as it was before the shard
cdef luacode_thread a_thread
THREAD = np.dtype({
    "names": ["by", "at", "made_stack", "made_heap", "then_stack", "then_heap", "collects"], "formats": ["u4"] * 7,
    "offsets": [distance(&a_thread, &a_thread.now.by), distance(&a_thread, &a_thread.now.id),
                distance(&a_thread, &a_thread.made.stack), distance(&a_thread, &a_thread.made.heap),
                distance(&a_thread, &a_thread.made_then.stack), distance(&a_thread, &a_thread.made_then.heap),
                distance(&a_thread, &a_thread.collects)],
    "itemsize": sizeof(luacode_thread)})
AT_BEFORE, AS_BEFORE = LUACODE_BEFORE, <uint32_t>LUACODE_NONE


cdef int enter_code(luacode *code, Trace trace) except -1:
    """Enter the blocks that live at the beginning of a shard."""
    cdef mt_live_block_t block
    cdef uint32_t slot
    for slot in range(mt_count_slots(trace.r)):
        if mt_get_live_block(trace.r, slot, &block) and not luacode_enter(code, &block):
            raise MemoryError
    return 0


def followed_threads(Trace trace):
    """What each thread did last in a shard that is read to its end: an array of THREAD, up to the last thread of which
    anything is known. Where accesses are skipped, the last instructions are not known."""
    cdef luacode code
    cdef mt_batch batch
    cdef bint ok, passed = False
    try:
        enough(luacode_init(&code, trace.r))
        mt_read_checkpoint(trace.r)
        luacode_begin_part(&code)
        enough(luacode_learn(&code))
        enter_code(&code, trace)
        while trace.next_batch(&batch):
            if passed and not mt_passes(trace.r):
                luacode_lose_place(&code)
            passed = mt_passes(trace.r)
            with nogil:
                ok = luacode_learn(&code) and luacode_pass_batch(&code, &batch)
            enough(ok)
        if passed:
            luacode_lose_place(&code)
        return known_threads(view_of(code.threads, code.n_threads, THREAD))
    finally:
        luacode_free(&code)


def met_threads(Trace trace):
    """By thread, as far as there are any: may it have events in what was read?"""
    cdef uint32_t thread
    return np.array([mt_met_thread(trace.r, thread) for thread in range(mt_thread_end(trace.r))], bool)


def known_threads(threads):
    """The rows up to the last thread that did anything."""
    known = np.flatnonzero((threads["by"] != AT_BEFORE) | (threads["made_heap"] != AS_BEFORE)
                           | (threads["collects"] != AS_BEFORE))
    return threads[:known[-1] + 1 if len(known) else 0].copy()


cdef int enter_lines(Lives self, begins) except -1:
    """Enter the blocks that live at the beginning of a shard. begins: the owners and the threads of a checkpoint."""
    owners, threads = begins
    cdef const uint32_t *owner = <const uint32_t *>data_of(owners)
    cdef mt_live_block_t block
    cdef uint32_t slot, stack
    self.learn()
    enter_code(&self.code, self.trace)
    if threads is not None:
        enough(luacode_set_threads(&self.code, <const luacode_thread *>data_of(threads), len(threads)))
    for slot in range(mt_count_slots(self.trace.r)):
        if mt_get_live_block(self.trace.r, slot, &block) and lives_is_selected(&self.l, block.handle):
            stack = max(owner[slot], <uint32_t>1) - 1 if slot < <size_t>len(owners) else 0
            enough(lines_shard_enter(&self.work, slot, stack))
    return 0


cdef object pages_of(const linepages *pages):
    to = np.empty(linepages_count(pages) * sizeof(linepage), "u1")
    linepages_copy(pages, <linepage *>data_of(to))
    return to


def line_partial(Lives lives):
    """The counts by line of a shard, for WholeLines.merge(). To be called after Lives.partial()."""
    work, made = lives.line_work()
    return (view_of(lives.work.pieces, lives.work.n_pieces, np.dtype("u4")).copy(), pages_of(&lives.work.pages),
            work.copy(), made.copy())


cdef class WholeLines:
    """The counts by line of a trace, from the line_partial() of each shard, merged in their order.

    trace: one that was read to its end; lines: as for Lives, the same as for the shards."""
    cdef luacode code
    cdef linework work
    cdef Trace trace
    cdef object known, sums

    def __cinit__(self, Trace trace, lines):
        cdef linework_map all_lines
        self.trace = trace
        self.known = stacks, sites, places = lines.reach(0, 0, 0)
        all_lines = linework_map(<const uint32_t *>data_of(stacks), <const uint32_t *>data_of(sites),
                                 <const uint32_t *>data_of(places), len(stacks), len(sites), lines.count())
        if (not luacode_init(&self.code, trace.r) or not luacode_learn(&self.code)
                or not linework_init(&self.work, &self.code) or not linework_learn(&self.work, &all_lines)):
            raise MemoryError
        self.sums = np.zeros(lines.count(), LINEWORK), np.zeros(lines.count(), MADE)

    def __dealloc__(self):
        luacode_free(&self.code)
        linework_free(&self.work)

    def merge(self, shard):
        pieces, pages, more_work, more_made = shard
        enough(linework_merge(&self.work, <const uint32_t *>data_of(pieces), len(pieces))
               and linework_merge_pages(&self.work, <const linepage *>data_of(pages), len(pages) // sizeof(linepage)))
        work, made = self.sums
        self.sums = merged("linework_row", work, more_work), merged("linework_made", made, more_made)

    def line_work(self):
        """As of Lives, after all lives were added."""
        cdef size_t n = self.work.map.n_lines
        enough(linework_catch_up(&self.work))
        work, made = self.sums[0].copy(), self.sums[1]
        work["blocks"] += view_of(self.work.rows, n, LINEWORK)["blocks"]
        work["cache_lines"] = view_of(self.work.rows, n, LINEWORK)["cache_lines"]
        return work, merged("linework_made", made, view_of(self.work.made, n, MADE))


# -- Shards of a trace merged. -------------------------------------------------------------------------------

cdef class WholeLives:
    """The lives of a trace, from the Lives.partial() of each shard, merged in their order.

    After each merge(), batches() has the blocks of earlier shards that ended in that shard; finish() has those that
    live at the end."""
    cdef lives l
    cdef object threads
    cdef WholeLines lines

    def __cinit__(self):
        lives_init(&self.l, NULL, 0)
        self.threads = np.zeros(0, ACCESSES)

    def count_lines(self, WholeLines lines not None):
        """Also count by line. To be called before the first merge()."""
        self.lines = lines
        self.l.lines = &lines.work

    def __dealloc__(self):
        lives_free(&self.l)

    def merge(self, shard):
        """Add the next shard. Returns the number of the last peak of the heap if it is in this shard, else 0."""
        cdef const char *pieces = shard[0]
        cdef uint64_t peak = self.l.totals.peak
        _, totals, began = shard
        enough(lives_merge(&self.l, <const lives_piece *>pieces, len(shard[0]) // sizeof(lives_piece),
                           <const lives_totals *>data_of(totals), <const lives_totals *>data_of(began)))
        return self.l.totals.peak if self.l.totals.peak != peak else 0

    def batches(self):
        """As of Lives."""
        if self.l.n_out:
            yield view_of(self.l.out, self.l.n_out, LIFE)
        self.l.n_out = 0

    def finish(self, uint64_t end):
        """Batches of the blocks that live at the end. end: of end_of(); 0 between marks."""
        lives_end(&self.l, end)
        while True:
            enough(lives_finish(&self.l))
            if self.l.n_out == 0:
                return
            yield from self.batches()

    def totals(self):
        return dict(self.l.totals)

    def merge_threads(self, rows):
        """Add the Lives.thread_accesses() of a shard."""
        if len(rows) > len(self.threads):
            self.threads, rows = rows.copy(), self.threads
        for name in ACCESSES.names:
            self.threads[name][:len(rows)] += rows[name]

    def merge_lines(self, shard):
        """Add the line_partial() of the shard that was merged last."""
        self.lines.merge(shard)

    def line_work(self):
        """As of Lives, after all lives were added."""
        return self.lines.line_work()

    def thread_accesses(self):
        """As of Lives."""
        return self.threads


def scaled(batch, str name=None):
    """(numbers, variances): a field of lives, None: their number 1, multiplied by the weights that lives have in a sample
    of the blocks, and what each adds to the variance of a sum (memtrace/sample.h). Arrays of u8 and f8."""
    batch = np.ascontiguousarray(batch)
    values = np.ones(len(batch), "u8") if name is None else batch[name].astype("u8")
    variances = np.empty(len(batch))
    cdef const life *lives = <const life *>data_of(batch)
    cdef uint64_t *number = <uint64_t *>data_of(values)
    cdef double *variance = <double *>data_of(variances)
    cdef size_t i
    for i in range(<size_t>len(batch)):
        variance[i] = life_variance(&lives[i], number[i])
        number[i] = life_scaled(&lives[i], number[i])
    return values, variances


cdef class Selection:
    """A set of blocks: a bit for each handle."""
    cdef object array
    cdef readonly uint64_t n_bits

    def __cinit__(self):
        self.array = np.zeros(1 << 16, "u1")
        self.n_bits = 8 << 16

    cdef const uint8_t *bits(self) except NULL:
        return <const uint8_t *>data_of(self.array)

    def add(self, batch, keep):
        """Add the blocks of a batch of lives for which `keep` is true."""
        if len(batch) == 0:
            return
        self.reach(int(batch["handle"].max()))
        kept = np.ascontiguousarray(keep, bool)
        lives_mark(<uint8_t *>data_of(self.array), self.n_bits, <const life *>data_of(batch),
                   <const uint8_t *>data_of(kept), len(batch))

    def as_bits(self):
        """(array of bits by handle, number of bits), for steve.kernels._walk.Walk."""
        return self.array, self.n_bits

    def partial(self):
        """(position, array), for merge(): the bytes of the set without zeros at both ends."""
        held = np.flatnonzero(self.array)
        first, end = (int(held[0]), int(held[-1]) + 1) if len(held) else (0, 0)
        return first, self.array[first:end].copy()

    def merge(self, shard):
        """Add the partial() of another set."""
        first, bits = shard
        if len(bits):
            self.reach(8 * (first + len(bits)) - 1)
            self.array[first:first + len(bits)] |= bits

    def reach(self, handle):
        """Make the set large enough for a handle."""
        size = len(self.array)
        while handle >= 8 * size:
            size *= 2
        self.array = np.concatenate((self.array, np.zeros(size - len(self.array), "u1")))
        self.n_bits = 8 * size


# -- Sums over lives. ----------------------------------------------------------------------------------------

cdef class TakesLives:
    """The base of sums of lives: add() passes them to take()."""

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil:
        """keep: a byte for each life, or NULL: all. False: out of memory."""
        return False

    def add(self, batch, keep=None):
        """Add a batch of Lives.batches(), or those of it for which the array `keep` is true."""
        cdef const life *lives = <const life *>data_of(batch)
        cdef const uint8_t *kept = NULL
        cdef size_t n = len(batch)
        cdef bint ok
        if keep is not None:
            keep = np.ascontiguousarray(keep, bool)
            kept = <const uint8_t *>data_of(keep)
        with nogil:
            ok = self.take(lives, kept, n)
        enough(ok)


cdef class Groups(TakesLives):
    """Sums of lives by "stack", "thread" (of the New), "free_thread", "type" or "how"."""
    cdef groups g

    def __cinit__(self, str key):
        groups_init(&self.g, KEYS[key])

    def __dealloc__(self):
        groups_free(&self.g)

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil:
        return groups_add(&self.g, lives, keep, n)

    def partial(self, uint64_t peak):
        """(keys, rows), for merge(): the result of table()."""
        return self.table(peak)

    def merge(self, shard, uint64_t peak):
        """Add the partial() of the next shard. peak: of WholeLives.merge()."""
        keys, rows = shard
        enough(groups_merge(&self.g, <const uint32_t *>data_of(keys), <const group *>data_of(rows), len(keys), peak))

    def table(self, uint64_t peak):
        """(keys that occur, in order, array of GROUP for them). peak: the number of the last peak of the heap, from
        Lives.totals()."""
        groups_settle(&self.g, peak)
        keys = view_of(self.g.of_keys.keys, self.g.of_keys.n, np.dtype("u4"))
        order = np.argsort(keys, kind="stable")
        return keys[order], view_of(self.g.rows, self.g.of_keys.n, GROUP)[order]

    def drain(self, uint64_t peak, columns=()):
        """The same with few columns. The sums are then empty: both would need much memory where there are many stacks.
        columns: names; (): all, but variances only if the trace is a sample."""
        groups_settle(&self.g, peak)
        keys = view_of(self.g.of_keys.keys, self.g.of_keys.n, np.dtype("u4"))
        order = np.argsort(keys, kind="stable")
        rows = view_of(self.g.rows, self.g.of_keys.n, GROUP)
        names = columns or [*GROUP.names, *(VARIANCES.names if self.g.variances_room else ())]
        taken = chosen(names, rows, view_of(self.g.variances, self.g.variances_room, VARIANCES), order)
        keys = keys[order]
        cdef groups_key key = self.g.key
        groups_free(&self.g)
        groups_init(&self.g, key)
        return keys, taken

    def rows(self, uint64_t peak):
        """An array of GROUP by key, up to the last key that occurs."""
        keys, rows = self.table(peak)
        found = np.zeros(int(keys[-1]) + 1 if len(keys) else 0, GROUP)
        found[keys] = rows
        return found
