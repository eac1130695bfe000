# cython: language_level=3, boundscheck=False
"""The lives of blocks for Python: records of struct life as numpy arrays, and sums by stack or thread.

    lives = Lives(trace)
    by_stack = Groups("stack")
    for batch in lives.batches():
        by_stack.add(batch, batch["size"] >= 1024)
    rows = by_stack.rows(lives.totals()["peak"])

The walk and the sums run outside Python; steve/kernels/lives.h and groups.h say what each field means.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from steve._memtrace cimport Trace
from steve.cmemtrace cimport *

from steve._memtrace import event_dtype

cdef extern from "steve/kernels/luacode.h" nogil:
    struct luacode_proto:
        uint32_t offset, count, first
    struct luacode_thread:
        pass
    struct luacode:
        luacode_proto *protos
        uint32_t n_protos, n_places
        luacode_thread *threads
    bint luacode_init(luacode *c, const mt_reader *reader)
    void luacode_free(luacode *c)
    bint luacode_learn(luacode *c)
    bint luacode_pass(luacode *c, const mt_event *events, size_t n)

cdef extern from "steve/kernels/linepages.h" nogil:
    struct linepages:
        pass

cdef extern from "steve/kernels/linework.h" nogil:
    enum:
        LINEWORK_KINDS
    struct linework_row:
        uint64_t blocks
    struct linework_made:
        uint64_t blocks[1]
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

cdef extern from "steve/kernels/linepatterns.h" nogil:
    void linepatterns_settle(linework *w)

cdef extern from "steve/kernels/life.h" nogil:
    struct life:
        uint64_t handle

cdef extern from "steve/kernels/groups.h" nogil:
    enum groups_key:
        GROUPS_BY_STACK, GROUPS_BY_THREAD, GROUPS_BY_FREE_THREAD, GROUPS_BY_TYPE
    struct group:
        uint64_t blocks
    struct groups:
        group *rows
        uint32_t *keys
        size_t n
    void groups_init(groups *g, groups_key key)
    void groups_free(groups *g)
    bint groups_add(groups *g, const life *lives, const uint8_t *keep, size_t n)
    bint groups_merge(groups *g, const uint32_t *keys, const group *rows, size_t n, uint64_t peak)
    void groups_settle(groups *g, uint64_t peak)

cdef extern from "steve/kernels/lives.h" nogil:
    struct access_sums:
        uint64_t counts[3]
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
        size_t sites_room, threads_room
        linework *lines
        uint64_t before, since
        lives_piece *pieces
        size_t n_pieces
    void lives_init(lives *l, const uint8_t *selected, uint64_t n_selected)
    void lives_free(lives *l)
    size_t lives_feed(lives *l, const mt_event *events, size_t n, uint32_t sites)
    bint lives_feed_packed(lives *l, const mt_packed *packed, uint32_t sites)
    void lives_end(lives *l, uint64_t time)
    bint lives_finish(lives *l)
    bint lives_is_selected(const lives *l, uint64_t handle)
    void lives_mark(uint8_t *set, uint64_t n_bits, const life *lives, const uint8_t *keep, size_t n)

cdef extern from "steve/kernels/livesparts.h" nogil:
    bint livesparts_enter(lives *l, const mt_live_block_t *live)
    bint livesparts_finish(lives *l)
    bint livesparts_add(lives *whole, const lives_piece *pieces, size_t n, const lives_totals *part,
                        const lives_totals *began)

cdef extern from "steve/kernels/faults.h" nogil:
    struct faults:
        mt_event *first
        uint64_t *counts
        size_t n
    bint faults_init(faults *f)
    void faults_free(faults *f)
    bint faults_add(faults *f, const mt_event *events, size_t n)


def columns(str words, str form):
    return [(name, form) for name in words.split()]


LIFE = np.dtype(columns("handle size bytes resizes first_size most moves copied born_allocated "
                        "died_allocated born died born_time died_time first_use last_use loads "
                        "stores modifies bytes_read bytes_written used news peak peak_bytes", "u8")
                + columns("stack heap", "u4") + columns("thread free_thread", "u2")
                + columns("how freed shared type inherited reach", "u1"), align=True)
GROUP = np.dtype(columns("blocks resizes bytes size frees foreign live_blocks live_bytes loads stores "
                         "modifies bytes_read bytes_written used shared lifetimes most_bytes most "
                         "resized moves copied first_size last_size most_resizes peak peak_bytes", "u8"))
ACCESSES = np.dtype(columns("loads stores modifies bytes_read bytes_written", "u8"))
assert LIFE.itemsize == sizeof(life) and GROUP.itemsize == sizeof(group)
BY_KIND = np.dtype([("counts", "u8", 3), ("bytes", "u8", 3)])
assert BY_KIND.itemsize == sizeof(access_sums)

KEYS = {"stack": GROUPS_BY_STACK, "thread": GROUPS_BY_THREAD, "free_thread": GROUPS_BY_FREE_THREAD,
        "type": GROUPS_BY_TYPE}

LINEWORK = np.dtype([("others_counts", "u8", 3), ("others_bytes", "u8", 3), ("own_counts", "u8", 3),
                     ("own_bytes", "u8", 3), ("blocks", "u8"), ("cache_lines", "u8")])
MADE = np.dtype([("blocks", "u8", LINEWORK_KINDS), ("bytes", "u8", LINEWORK_KINDS)])
assert LINEWORK.itemsize == sizeof(linework_row) and MADE.itemsize == sizeof(linework_made)

cdef enum:
    ENOUGH = 8192  # records worth handing out
    TICK = 256     # batches of events between two calls of tick


cdef object view_of(const void *data, size_t n, object dtype):
    if n == 0:
        return np.empty(0, dtype)
    return np.frombuffer(PyMemoryView_FromMemory(<char *>data, n * dtype.itemsize, PyBUF_READ), dtype)


def accesses_of(counts, sizes):
    """An array of ACCESSES from arrays by loads, stores, modifies: a modification reads and writes."""
    result = np.empty(len(counts), ACCESSES)
    for i, name in enumerate(("loads", "stores", "modifies")):
        result[name] = counts[:, i]
    result["bytes_read"] = sizes[:, 0] + sizes[:, 2]
    result["bytes_written"] = sizes[:, 1] + sizes[:, 2]
    return result


def end_of(trace):
    """When the program of a trace that was read to its end ended, in instructions; 0 if that is not known."""
    return 0 if trace.problem is not None else trace.stats()["totals"]["instructions"]


cdef class Lives:
    """One walk over a Trace.

    window: None, or an object whose state(mark name) says after each named point whether events count from
    there on: "before", "within" or "after" (then the walk ends); `begins_within` says how it begins.
    selected: None, or a Selection: the other blocks do not exist. tick: as everywhere. lines: None, or a
    steve.linenumbers.LineNumbers: count for lines, see line_work(), and not for sites. errors: None, or a
    function that at the end of the walk is given the cases of errors of the program (steve/kernels/faults.h), an array
    of the first event of each and one of how many there are; those to freed memory only if the trace was opened so.
    It needs a walk without window and lines.
    part: None, or the operations before the part of the trace that is to be read, which then neither begins with
    an empty heap nor ends the lives of blocks that live on; see piece(). begins: of such a part with lines, what
    enter_lines() needs to know. since: of such a part, the first handle that counts. sums: None, or Groups that all
    lives are added to as they end: batches() then has none of them."""
    cdef lives l
    cdef lives_totals began
    cdef bint is_part
    cdef luacode code
    cdef linework work
    cdef faults met
    cdef Trace trace
    cdef object window, tick, selected, lines, errors
    cdef Groups sums
    cdef const uint32_t[::1] of_stacks, of_sites, of_places  # the kernel's
    cdef readonly object state
    cdef unsigned walked

    def __cinit__(self, Trace trace, window=None, Selection selected=None, tick=None, lines=None,
                  errors=None, part=None, begins=None, uint64_t since=0, Groups sums=None):
        self.errors, self.sums = errors, sums
        self.trace, self.window, self.selected, self.tick, self.lines = trace, window, selected, tick, lines
        self.state = "within" if window is None else window.begin()
        if selected is None:
            lives_init(&self.l, NULL, 0)
        else:
            lives_init(&self.l, selected.bits(), selected.n_bits)
        self.l.since = since
        if sums is not None:
            self.l.sums = &sums.g
        if lines is not None:
            self.l.lines = &self.work
            if not luacode_init(&self.code, trace.r) or not linework_init(&self.work, &self.code):
                raise MemoryError
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
        """Iterate over the lives as arrays of LIFE, each good until the next is asked for; blocks come when
        they are freed, the others at the end."""
        while self.walk():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0
        self.tell_errors()
        yield view_of(self.l.out, self.l.n_out, LIFE)
        self.l.n_out = 0
        if self.state != "after":
            lives_end(&self.l, end_of(self.trace))
        while not self.is_part and self.finish():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0

    def take(self, batch):
        """Walk over a batch of events that the caller has read: an array of the lives that end in it, good until the
        next call."""
        cdef const uint8_t[::1] raw = batch.view(np.uint8)
        self.l.n_out = 0
        if len(batch):
            self.feed(<const mt_event *>&raw[0], len(batch))
        return view_of(self.l.out, self.l.n_out, LIFE)

    def rest(self):
        """Iterate over the other lives when all was taken, as batches() does."""
        self.l.n_out = 0
        lives_end(&self.l, end_of(self.trace))
        while self.finish():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0

    cdef int enter(self) except -1:
        """Know the blocks that live where the part begins."""
        cdef mt_live_block_t block
        cdef uint32_t slot
        mt_read_live(self.trace.r)
        for slot in range(mt_count_slots(self.trace.r)):
            if mt_get_live_block(self.trace.r, slot, &block) and not livesparts_enter(&self.l, &block):
                raise MemoryError
        self.began = self.l.totals
        return 0

    def piece(self):
        """What batches() of a part did not tell, for WholeLives.add(): bytes, of no use but that."""
        if not livesparts_finish(&self.l):
            raise MemoryError
        return (PyBytes_FromStringAndSize(<char *>self.l.pieces, self.l.n_pieces * sizeof(lives_piece)),
                PyBytes_FromStringAndSize(<char *>&self.l.totals, sizeof(lives_totals)),
                PyBytes_FromStringAndSize(<char *>&self.began, sizeof(lives_totals)))

    cdef bint finish(self) except -1:
        """Have records of blocks that live at the end; false when there are no more."""
        if not lives_finish(&self.l):
            raise MemoryError
        return self.l.n_out > 0

    cdef bint walk(self) except -1:
        """Read on until there are enough records; false at the end."""
        cdef const mt_event *events
        cdef size_t n
        if self.window is None:
            return self.walk_packed()
        while self.l.n_out < ENOUGH:
            if self.state == "after" or not self.trace.next(&events, &n):
                return False
            self.feed(events, n)
            self.pause()
        return True

    cdef bint walk_packed(self) except -1:
        """The same, without marks that count."""
        cdef mt_packed packed
        cdef uint32_t sites
        cdef bint ok, seek_errors = self.errors is not None
        while self.l.n_out < ENOUGH:
            if not self.trace.next_packed(&packed):
                return False
            sites = mt_count_sites(self.trace.r)
            if self.lines is not None:
                self.learn()
            with nogil:
                ok = lives_feed_packed(&self.l, &packed, sites)
                if ok and seek_errors:
                    ok = faults_add(&self.met, packed.events, packed.n_events)
            if not ok:
                raise MemoryError
            self.pause()
        return True

    cdef int pause(self) except -1:
        """A batch of events is done: now and then tell of it, and look for interrupts."""
        self.walked += 1
        if self.walked % TICK == 0:
            PyErr_CheckSignals()
            if self.tick is not None:
                self.tick(*self.trace.progress())
        return 0

    cdef int tell_errors(self) except -1:
        """Hand on what was met of errors of the program."""
        if self.errors is not None:
            self.errors(view_of(self.met.first, self.met.n, event_dtype()).copy(),
                        view_of(self.met.counts, self.met.n, np.dtype("u8")).copy())
        return 0

    cdef int feed(self, const mt_event *events, size_t n) except -1:
        cdef size_t used
        cdef uint32_t sites = mt_count_sites(self.trace.r)
        if self.lines is not None:
            self.learn()
        while n > 0 and self.state != "after":
            if self.state == "within":
                with nogil:
                    used = lives_feed(&self.l, events, n, sites)
            else:
                used = to_mark(events, n)
                if self.lines is not None and not luacode_pass(&self.code, events, used):
                    raise MemoryError
            if used > n:
                raise MemoryError
            if events[used - 1].kind == MT_MARK and self.window is not None:
                self.state = self.window.state(self.trace.string(events[used - 1].ref))
                if self.state == "after":
                    lives_end(&self.l, events[used - 1].time)
            events += used
            n -= used
        return 0

    cdef int learn(self) except -1:
        """Number the lines of what the reader has defined by now."""
        cdef uint32_t stacks = mt_count_stacks(self.trace.r), sites = mt_count_sites(self.trace.r)
        cdef uint32_t protos = self.code.n_protos
        cdef linework_map known
        if not luacode_learn(&self.code):
            raise MemoryError
        if (self.work.map.n_lines and stacks == self.work.map.n_stacks and sites == self.work.map.n_sites
                and protos == self.code.n_protos):
            return 0
        self.of_stacks, self.of_sites, self.of_places = self.lines.reach(stacks, sites, self.code.n_protos)
        known = linework_map(&self.of_stacks[0], &self.of_sites[0], &self.of_places[0], stacks, sites,
                             self.lines.count())
        if not linework_learn(&self.work, &known):
            raise MemoryError
        return 0

    def totals(self):
        """The fields of struct lives_totals."""
        return dict(self.l.totals)

    def site_accesses(self):
        """An array of ACCESSES by site id, of the blocks that were walked over."""
        rows = view_of(self.l.sites, self.l.sites_room, BY_KIND)
        return accesses_of(rows["counts"], rows["bytes"])

    def line_work(self):
        """Arrays of LINEWORK and of MADE by number of the line."""
        cdef size_t n = self.work.map.n_lines
        linepatterns_settle(&self.work)
        if not linework_catch_up(&self.work):
            raise MemoryError
        return view_of(self.work.rows, n, LINEWORK), view_of(self.work.made, n, MADE)

    def thread_accesses(self):
        """The same by thread number."""
        rows = view_of(self.l.threads, self.l.threads_room, BY_KIND)
        return accesses_of(rows["counts"], rows["bytes"])


cdef size_t to_mark(const mt_event *events, size_t n) nogil:
    """How many events there are up to and with the next mark."""
    cdef size_t i = 0
    while i < n and events[i].kind != MT_MARK:
        i += 1
    return i + 1 if i < n else n


include "_lineparts.pxi"
include "_livesparts.pxi"


cdef class Selection:
    """A set of blocks: a bit for each handle."""
    cdef object array
    cdef readonly uint64_t n_bits

    def __cinit__(self):
        self.array = np.zeros(1 << 16, "u1")
        self.n_bits = 8 << 16

    cdef const uint8_t *bits(self) except NULL:
        cdef const uint8_t[::1] view = self.array
        return &view[0]

    def add(self, batch, keep):
        """Take in the blocks of a batch of lives for which `keep` is true."""
        if len(batch) == 0:
            return
        self.reach(int(batch["handle"].max()))
        cdef const uint8_t[::1] raw = batch.view(np.uint8)
        cdef const uint8_t[::1] kept = np.ascontiguousarray(keep, bool).view(np.uint8)
        cdef uint8_t[::1] bits = self.array
        lives_mark(&bits[0], self.n_bits, <const life *>&raw[0], &kept[0], len(batch))

    def as_bits(self):
        """(array of bits by handle, how many bits), for steve._analyses.Walk."""
        return self.array, self.n_bits

    def part(self):
        """(place, array), for join(): what there is of the set, without the empty ends."""
        held = np.flatnonzero(self.array)
        first, end = (int(held[0]), int(held[-1]) + 1) if len(held) else (0, 0)
        return first, self.array[first:end].copy()

    def join(self, part):
        """Take in the part() of another set."""
        first, bits = part
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


include "_livesums.pxi"
include "_findings.pxi"
