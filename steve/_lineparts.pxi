# _lineparts.pxi - the part of _lives.pyx that counts by line in parts of a trace; steve.lineparts asks for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef extern from "steve/kernels/luacode.h" nogil:
    enum:
        LUACODE_BEFORE, LUACODE_NONE, LUACODE_THREADS
    bint luacode_pass_packed(luacode *c, const mt_packed *packed)
    void luacode_begin_part(luacode *c)
    void luacode_lose_place(luacode *c)
    bint luacode_enter(luacode *c, const mt_live_block_t *live)

cdef extern from "steve/kernels/linepages.h" nogil:
    struct linepage:
        uint64_t page
    size_t linepages_count(const linepages *p)
    void linepages_copy(const linepages *p, linepage *to)

cdef extern from "steve/kernels/lineparts.h" nogil:
    bint lineparts_enter(linework *w, uint32_t slot, uint32_t stack)
    bint lineparts_add(linework *whole, const uint32_t *pieces, size_t n)
    bint lineparts_add_pages(linework *whole, const linepage *pages, size_t n)

# Of struct luacode_thread; what AS_BEFORE stands for is as it was before the part
THREAD = np.dtype(columns("by at made_stack made_heap then_stack then_heap collects", "u4"))
AT_BEFORE, AS_BEFORE = LUACODE_BEFORE, <uint32_t>LUACODE_NONE
assert THREAD.itemsize == sizeof(luacode_thread)


cdef int enter_code(luacode *code, Trace trace) except -1:
    """Know the blocks that live where a part begins."""
    cdef mt_live_block_t block
    cdef uint32_t slot
    for slot in range(mt_count_slots(trace.r)):
        if mt_get_live_block(trace.r, slot, &block) and not luacode_enter(code, &block):
            raise MemoryError
    return 0


def followed_threads(Trace trace):
    """What threads did last in a part that is read to its end: an array of THREAD, without the ends of which nothing
    is known. Where accesses are passed over nothing is known of instructions."""
    cdef luacode code
    cdef mt_packed packed
    cdef bint ok, passed = False
    try:
        if not luacode_init(&code, trace.r):
            raise MemoryError
        mt_read_live(trace.r)
        luacode_begin_part(&code)
        if not luacode_learn(&code):
            raise MemoryError
        enter_code(&code, trace)
        while trace.next_packed(&packed):
            if passed and not mt_passes(trace.r):
                luacode_lose_place(&code)
            passed = mt_passes(trace.r)
            with nogil:
                ok = luacode_learn(&code) and luacode_pass_packed(&code, &packed)
            if not ok:
                raise MemoryError
        if passed:
            luacode_lose_place(&code)
        return known_threads(view_of(code.threads, LUACODE_THREADS, THREAD))
    finally:
        luacode_free(&code)


def met_threads(Trace trace):
    """By thread: can it have done something in what was read?"""
    return np.array([mt_met_thread(trace.r, thread) for thread in range(LUACODE_THREADS)], bool)


def known_threads(threads):
    """The rows up to the last of a thread that did anything."""
    known = np.flatnonzero((threads["by"] != AT_BEFORE) | (threads["made_heap"] != AS_BEFORE)
                           | (threads["collects"] != AS_BEFORE))
    return threads[:known[-1] + 1 if len(known) else 0].copy()


cdef int enter_lines(Lives self, begins) except -1:
    """Know what lives where a part begins. begins: of each slot the stack + 1 that made its block, 0 if none; an
    array of THREAD."""
    cdef const uint32_t[::1] owners = np.append(begins[0], np.uint32(0))
    cdef const uint8_t[::1] threads = np.frombuffer(begins[1].tobytes() + b"\0", "u1")
    cdef mt_live_block_t block
    cdef uint32_t slot, stack
    self.learn()
    enter_code(&self.code, self.trace)
    memcpy(self.code.threads, &threads[0], len(begins[1]) * sizeof(luacode_thread))
    for slot in range(mt_count_slots(self.trace.r)):
        if mt_get_live_block(self.trace.r, slot, &block) and lives_is_selected(&self.l, block.handle):
            stack = max(owners[slot], <uint32_t>1) - 1 if slot + 1 < len(owners) else 0
            if not lineparts_enter(&self.work, slot, stack):
                raise MemoryError
    return 0


cdef object pages_of(const linepages *pages):
    cdef size_t n = linepages_count(pages)
    cdef uint8_t[::1] to = np.empty(n * sizeof(linepage) + 1, "u1")
    linepages_copy(pages, <linepage *>&to[0])
    return np.asarray(to)[:n * sizeof(linepage)]


def line_piece(Lives lives):
    """What lines did in a part, after its piece(), for WholeLines.add()."""
    work, made = lives.line_work()
    return (view_of(lives.work.pieces, lives.work.n_pieces, np.dtype("u4")).copy(), pages_of(&lives.work.pages),
            work.copy(), made.copy())


cdef class WholeLines:
    """What lines do in a trace that was read in parts: of line_piece()s, added in the order of the parts.

    trace: one that was read to its end; lines: as of Lives, the same that the parts had."""
    cdef luacode code
    cdef linework work
    cdef Trace trace
    cdef object known, sums

    def __cinit__(self, Trace trace, lines):
        cdef linework_map all_lines
        cdef const uint32_t[::1] stacks, sites, places
        self.trace = trace
        self.known = stacks, sites, places = lines.reach(0, 0, 0)
        all_lines = linework_map(&stacks[0], &sites[0], &places[0], len(stacks), len(sites), lines.count())
        if (not luacode_init(&self.code, trace.r) or not luacode_learn(&self.code)
                or not linework_init(&self.work, &self.code) or not linework_learn(&self.work, &all_lines)):
            raise MemoryError
        self.sums = np.zeros(lines.count(), LINEWORK), np.zeros(lines.count(), MADE)

    def __dealloc__(self):
        luacode_free(&self.code)
        linework_free(&self.work)

    def add(self, piece):
        cdef const uint32_t[::1] pieces = np.append(piece[0], np.uint32(0))
        cdef const uint8_t[::1] pages = np.append(piece[1], np.uint8(0))
        cdef size_t n_pages = len(piece[1]) // sizeof(linepage)
        if (not lineparts_add(&self.work, &pieces[0], len(piece[0]))
                or not lineparts_add_pages(&self.work, <const linepage *>&pages[0], n_pages)):
            raise MemoryError
        for sums, rows in zip(self.sums, piece[2:]):
            for name in sums.dtype.names:
                sums[name] += rows[name]

    def line_work(self):
        """As of Lives, when all lives were told."""
        cdef size_t n = self.work.map.n_lines
        if not linework_catch_up(&self.work):
            raise MemoryError
        work, made = (sums.copy() for sums in self.sums)
        work["blocks"] += view_of(self.work.rows, n, LINEWORK)["blocks"]
        work["cache_lines"] = view_of(self.work.rows, n, LINEWORK)["cache_lines"]
        whole = view_of(self.work.made, n, MADE)
        for name in MADE.names:
            made[name] += whole[name]
        return work, made
