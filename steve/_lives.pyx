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
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from steve._memtrace cimport Trace
from steve.cmemtrace cimport *

cdef extern from "steve/kernels/luacode.h" nogil:
    struct luacode_proto:
        uint32_t offset, count, first
    struct luacode:
        luacode_proto *protos
        uint32_t n_protos, n_places
    bint luacode_init(luacode *c, const mt_reader *reader)
    void luacode_free(luacode *c)

cdef extern from "steve/kernels/lives.h" nogil:
    struct life:
        uint64_t handle
    struct lives_accesses:
        uint64_t counts[3]
    struct lives_totals:
        uint64_t operations, news, frees, resizes, accesses, allocated, live_bytes, live_blocks, peak
        uint64_t peak_bytes, time
    struct lives:
        lives_totals totals
        life *out
        size_t n_out
        lives_accesses *sites
        lives_accesses *threads
        lives_accesses *places
        size_t sites_room, threads_room, places_room
        luacode *code
    void lives_init(lives *l, const uint8_t *selected, uint64_t n_selected)
    void lives_free(lives *l)
    size_t lives_feed(lives *l, const mt_event *events, size_t n, uint32_t sites)
    bint lives_finish(lives *l)
    void lives_mark(uint8_t *set, uint64_t n_bits, const life *lives, const uint8_t *keep, size_t n)

cdef extern from "steve/kernels/groups.h" nogil:
    enum groups_key:
        GROUPS_BY_STACK, GROUPS_BY_THREAD, GROUPS_BY_FREE_THREAD, GROUPS_BY_TYPE
    struct group:
        uint64_t blocks
    struct groups:
        group *rows
        size_t n
    void groups_init(groups *g)
    void groups_free(groups *g)
    bint groups_add(groups *g, groups_key key, const life *lives, const uint8_t *keep, size_t n)
    void groups_settle(groups *g, uint64_t peak)


def columns(str words, str form):
    return [(name, form) for name in words.split()]


LIFE = np.dtype(columns("handle size bytes resizes first_size most moves copied born_allocated "
                        "died_allocated born died born_time died_time first_use last_use loads "
                        "stores modifies bytes_read bytes_written used news peak peak_bytes", "u8")
                + columns("stack heap", "u4") + columns("thread free_thread", "u2")
                + columns("how freed shared type", "u1"))
GROUP = np.dtype(columns("blocks resizes bytes size frees foreign live_blocks live_bytes loads stores "
                         "modifies bytes_read bytes_written used shared lifetimes most_bytes most "
                         "resized moves copied first_size last_size most_resizes peak peak_bytes", "u8"))
ACCESSES = np.dtype(columns("loads stores modifies bytes_read bytes_written", "u8"))
assert LIFE.itemsize == sizeof(life) and GROUP.itemsize == sizeof(group)
BY_KIND = np.dtype([("counts", "u8", 3), ("bytes", "u8", 3)])
assert BY_KIND.itemsize == sizeof(lives_accesses)

KEYS = {"stack": GROUPS_BY_STACK, "thread": GROUPS_BY_THREAD, "free_thread": GROUPS_BY_FREE_THREAD,
        "type": GROUPS_BY_TYPE}

cdef enum:
    ENOUGH = 8192  # records worth handing out
    TICK = 256     # batches of events between two calls of tick


cdef object view_of(const void *data, size_t n, object dtype):
    if n == 0:
        return np.empty(0, dtype)
    return np.frombuffer(PyMemoryView_FromMemory(<char *>data, n * dtype.itemsize, PyBUF_READ), dtype)


def accesses_of(by_kind):
    """An array of ACCESSES from one of BY_KIND: a modification reads and writes."""
    result = np.empty(len(by_kind), ACCESSES)
    for i, name in enumerate(("loads", "stores", "modifies")):
        result[name] = by_kind["counts"][:, i]
    result["bytes_read"] = by_kind["bytes"][:, 0] + by_kind["bytes"][:, 2]
    result["bytes_written"] = by_kind["bytes"][:, 1] + by_kind["bytes"][:, 2]
    return result


cdef class Lives:
    """One walk over a Trace.

    window: None, or an object whose state(mark name) says after each named point whether events count from
    there on: "before", "within" or "after" (then the walk ends); `begins_within` says how it begins.
    selected: None, or a Selection: the other blocks do not exist. tick: as everywhere. lua: lead accesses of
    interpreted Lua code to its instructions, for lua_accesses(), and not to their sites."""
    cdef lives l
    cdef luacode code
    cdef Trace trace
    cdef object window, tick, selected
    cdef readonly object state
    cdef unsigned walked

    def __cinit__(self, Trace trace, window=None, Selection selected=None, tick=None, *, bint lua=False):
        self.trace, self.window, self.selected, self.tick = trace, window, selected, tick
        self.state = "within" if window is None else window.begin()
        if selected is None:
            lives_init(&self.l, NULL, 0)
        else:
            lives_init(&self.l, selected.bits(), selected.n_bits)
        if lua:
            self.l.code = &self.code
            if not luacode_init(&self.code, trace.r):
                raise MemoryError

    def __dealloc__(self):
        lives_free(&self.l)
        luacode_free(&self.code)

    def batches(self):
        """Iterate over the lives as arrays of LIFE, each good until the next is asked for; blocks come when
        they are freed, the others at the end."""
        while self.walk():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0
        yield view_of(self.l.out, self.l.n_out, LIFE)
        self.l.n_out = 0
        while self.finish():
            yield view_of(self.l.out, self.l.n_out, LIFE)
            self.l.n_out = 0

    cdef bint finish(self) except -1:
        """Have records of blocks that live at the end; false when there are no more."""
        if not lives_finish(&self.l):
            raise MemoryError
        return self.l.n_out > 0

    cdef bint walk(self) except -1:
        """Read on until there are enough records; false at the end."""
        cdef const mt_event *events
        cdef size_t n
        while self.l.n_out < ENOUGH:
            if self.state == "after" or not self.trace.next(&events, &n):
                return False
            self.feed(events, n)
            self.walked += 1
            if self.tick is not None and self.walked % TICK == 0:
                self.tick(*self.trace.progress())
        return True

    cdef int feed(self, const mt_event *events, size_t n) except -1:
        cdef size_t used
        cdef uint32_t sites = mt_count_sites(self.trace.r)
        while n > 0 and self.state != "after":
            if self.state == "within":
                with nogil:
                    used = lives_feed(&self.l, events, n, sites)
            else:
                used = to_mark(events, n)
            if used > n:
                raise MemoryError
            if events[used - 1].kind == MT_MARK and self.window is not None:
                self.state = self.window.state(self.trace.string(events[used - 1].ref))
            events += used
            n -= used
        return 0

    def totals(self):
        """The fields of struct lives_totals."""
        return dict(self.l.totals)

    def site_accesses(self):
        """An array of ACCESSES by site id, of the blocks that were walked over."""
        return accesses_of(view_of(self.l.sites, self.l.sites_room, BY_KIND))

    def lua_accesses(self):
        """A list of (prototype id, array of ACCESSES by its instructions), of those that made any."""
        places = accesses_of(view_of(self.l.places, self.l.places_room, BY_KIND))
        protos = [(i, self.code.protos[i].first, self.code.protos[i].count) for i in range(self.code.n_protos)]
        found = [(i, places[first:first + count]) for i, first, count in protos]
        return [(i, rows) for i, rows in found if rows["loads"].any() or rows["stores"].any()
                or rows["modifies"].any()]

    def thread_accesses(self):
        """The same by thread number."""
        return accesses_of(view_of(self.l.threads, self.l.threads_room, BY_KIND))


cdef size_t to_mark(const mt_event *events, size_t n) nogil:
    """How many events there are up to and with the next mark."""
    cdef size_t i = 0
    while i < n and events[i].kind != MT_MARK:
        i += 1
    return i + 1 if i < n else n


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

    def reach(self, handle):
        """Make the set large enough for a handle."""
        size = len(self.array)
        while handle >= 8 * size:
            size *= 2
        self.array = np.concatenate((self.array, np.zeros(size - len(self.array), "u1")))
        self.n_bits = 8 * size


cdef class Groups:
    """Sums of lives by "stack", "thread" (of the New) or "free_thread"."""
    cdef groups g
    cdef groups_key key

    def __cinit__(self, str key):
        groups_init(&self.g)
        self.key = KEYS[key]

    def __dealloc__(self):
        groups_free(&self.g)

    def add(self, batch, keep=None):
        """Add a batch of Lives.batches(), or those of it for which the array `keep` is true."""
        cdef const uint8_t[::1] raw, kept
        cdef const uint8_t *keep_at = NULL
        cdef size_t n = len(batch)
        cdef bint ok
        if n == 0:
            return
        raw = batch.view(np.uint8)
        if keep is not None:
            kept = np.ascontiguousarray(keep, bool).view(np.uint8)
            keep_at = &kept[0]
        with nogil:
            ok = groups_add(&self.g, self.key, <const life *>&raw[0], keep_at, n)
        if not ok:
            raise MemoryError

    def rows(self, uint64_t peak):
        """An array of GROUP by key; peak: the number of the heap's last peak, from Lives.totals()."""
        groups_settle(&self.g, peak)
        return view_of(self.g.rows, self.g.n, GROUP).copy()
