/* glibc_heap.c - walks the heap of glibc's malloc: arenas, chunks, thread caches and mapped chunks. (see glibc_heap.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The main arena has no symbol in a stripped libc. It is found by its form: the heads of its bins are lists, most of which are
 * empty and so point to themselves. malloc's parameters are found by the sum that must hold: where the heap begins, and how
 * large it is, give where it ends. Other arenas are in the main arena's list.
 *
 * A chunk is free if the chunk after it says so. It is free, too, if it is in a list of a fast bin or of a thread's cache,
 * although the chunk after it does not say so; these are marked, in a table of bits: a mark in the chunk itself would make the
 * kernel copy its page. A thread's
 * cache is a chunk of a known size itself. It is recognised by its lists: each number is the length of a list of chunks of one
 * size, all with the same key. The cache of a thread other than the first of its arena is not recognised while it is empty, and
 * counts as a block.
 *
 * A chunk that is a mapping of its own is in no list. It begins at a page with a header that says so. The number of them and
 * their bytes, which glibc counts, must be the same as found.
 *
 * Everything is checked before any of it is believed: chunks follow one another to the end of each heap, free ones are in the
 * lists of a bin, marked ones are met on the way, arenas have as many bytes as they count. glibc's structures were the same
 * from 2.35 to 2.41, and other versions are refused.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/glibc_heap.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/writable.h"
#include "ljtrace/protocol/kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 35, NEWEST = 41 /* of glibc 2 */ };
/* Offsets in an arena (struct malloc_state), and its size. */
enum {
    ARENA_FLAGS = 4,
    ARENA_HAS_FAST = 8,
    ARENA_FAST = 16,
    FAST_BINS = 10,
    ARENA_TOP = 96,
    ARENA_BINS = 112,
    BINS = 127,
    ARENA_NEXT = 2160,
    ARENA_BYTES_HELD = 2184,
    ARENA_BYTES = 2200,
    NOT_CONTIGUOUS = 2 /* a flag */
};
/* Offsets in the head of a heap of an arena that is not the main one (struct _heap_info), and its size. */
enum { HEAP_ARENA = 0, HEAP_PREVIOUS = 8, HEAP_SIZE = 16, HEAP_HEAD = 48 };
/* Where other parameters are (struct malloc_par), from where the beginning of the heap is. */
enum { MAPPED_CHUNKS = -36, MAPPED_BYTES = -16, CACHE_BINS = 8, CACHE_LARGEST = 16, CACHE_MOST = 24 };
#define HEAP_ALIGNMENT (64ULL << 20)
/* A chunk begins with the size of the one before, if that is free, and its own size with these bits. */
enum { USED_BEFORE = 1, MAPPED = 2, NOT_MAIN = 4, BITS = 15 };
enum { ALIGNMENT = 16, HEADER = 16, LEAST = 32, OF_NEXT = 8 /* a block has these bytes of the next chunk */ };
/* A thread's cache (struct tcache_perthread_struct). */
enum { CACHE_LISTS = 64, CACHE_BYTES = 640, CACHE_CHUNK = CACHE_BYTES + HEADER, LARGEST_CACHED = 1032 };
enum {
    REGIONS = 1 << 21 /* of HEAP_ALIGNMENT in the address space */,
    REGION_MARKS = HEAP_ALIGNMENT / ALIGNMENT / 8
};
enum { MOST_ARENAS = 1 << 14, LEAST_EMPTY = 8, WINDOW = 1 << 16 /* pages */ };

/* What the program's libc has. */
static struct {
    uint64_t arena;      /* the main arena */
    uint64_t parameters; /* where the beginning of the heap is */
} s_libc;

/* What the copy has found. */
static struct {
    uint64_t start, end; /* of the main heap: of its first chunk, and after the top chunk */
    uint64_t key;        /* in chunks of threads' caches; 0 = none was seen */
    uint8_t **marks;     /* [REGIONS], a bit for each place of a chunk; NULL = there are none */
    uint64_t marked, met;
    uint64_t mapped, mapped_bytes;
    const char *wrong;
    uint8_t *present; /* [WINDOW] */
} s_heap;

static uint64_t word(uint64_t at)
{
    return *(const uint64_t *)at;
}

static uint32_t half(uint64_t at)
{
    return *(const uint32_t *)at;
}

static uint64_t size_of(uint64_t chunk)
{
    return word(chunk + 8) & ~(uint64_t)BITS;
}

/* A pointer in a list of free chunks is combined with its own address. */
static uint64_t revealed(uint64_t at)
{
    return at >> 12 ^ word(at);
}

/* -- libc's data -- */

/* Bins are lists with the pointers where a chunk has them. */
static uint64_t bin_of(uint64_t arena, uint32_t i)
{
    return arena + ARENA_BINS + 16ULL * i - HEADER;
}

static bool looks_like_arena(uint64_t at)
{
    uint32_t empty = 0;
    if (half(at) > 2 || half(at + ARENA_FLAGS) > BITS || half(at + ARENA_HAS_FAST) > 1 ||
        !word(at + ARENA_TOP) || word(at + ARENA_TOP) % ALIGNMENT)
        return false;
    for (uint32_t i = 0; i < BINS; i++) {
        const uint64_t bin = bin_of(at, i), next = word(bin + 16), previous = word(bin + 24);
        if (!next || !previous || next % ALIGNMENT || previous % ALIGNMENT ||
            (next == bin) != (previous == bin))
            return false;
        empty += next == bin;
    }
    return empty >= LEAST_EMPTY && word(at + ARENA_NEXT);
}

/* Where the top chunk ends; 0 while the arena has no memory. */
static uint64_t top_end(uint64_t arena)
{
    const uint64_t top = word(arena + ARENA_TOP);
    return top == bin_of(arena, 0) ? 0 : top + size_of(top);
}

static bool looks_like_parameters(uint64_t at)
{
    const uint64_t lists = word(at + CACHE_BINS), largest = word(at + CACHE_LARGEST);
    const uint64_t begin = word(at), end = top_end(s_libc.arena);
    return lists >= 1 && lists <= CACHE_LISTS && largest <= LARGEST_CACHED &&
           word(at + CACHE_MOST) <= UINT16_MAX &&
           (end ? begin && begin + word(s_libc.arena + ARENA_BYTES_HELD) == end : !begin);
}

/* Search the writable segments of libc, from `below` bytes after their beginning to `above` bytes before their end. */
static uint64_t search(const struct dl_find_object *libc, uint64_t below, uint64_t above,
                       bool (*is_it)(uint64_t))
{
    const uint64_t base = (uint64_t)libc->dlfo_map_start, bias = libc->dlfo_link_map->l_addr;
    const Elf64_Ehdr *file = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(base + file->e_phoff);
    for (uint32_t i = 0; i < file->e_phnum; i++) {
        const uint64_t start = bias + segment[i].p_vaddr, end = start + segment[i].p_memsz;
        if (segment[i].p_type != PT_LOAD || !(segment[i].p_flags & PF_W))
            continue;
        for (uint64_t at = (start + below + 7) & ~7ULL; at + above <= end; at += 8)
            if (is_it(at))
                return at;
    }
    return 0;
}

/* Is this version's heap known? */
static bool is_known_version(void)
{
    const char *version = gnu_get_libc_version();
    const unsigned long minor = strncmp(version, "2.", 2) == 0 ? strtoul(version + 2, NULL, 10) : 0;
    return minor >= OLDEST && minor <= NEWEST;
}

const char *glibc_heap_find(void)
{
    struct dl_find_object libc, other;
    void *allocator = got_function("malloc");
    if (_dl_find_object((void *)gnu_get_libc_version, &libc) != 0 || !allocator ||
        _dl_find_object(allocator, &other) != 0)
        return "its allocator was not found";
    if (other.dlfo_link_map != libc.dlfo_link_map)
        return "its malloc is not that of the C library, which is the only one that can be read";
    if (!is_known_version())
        return "the heap of this version of glibc is not known (2.35 to 2.41 are)";
    s_libc.arena = search(&libc, 0, ARENA_BYTES, looks_like_arena);
    s_libc.parameters =
        s_libc.arena ? search(&libc, -MAPPED_CHUNKS, CACHE_MOST + 8, looks_like_parameters) : 0;
    return s_libc.parameters ? NULL : "the arenas of its C library were not found";
}

/* -- arenas -- */

static uint64_t heap_of(uint64_t at)
{
    return at & ~(HEAP_ALIGNMENT - 1);
}

/* The arena after this one; 0 = this is the last, or the list is not as it should be, which *broken says. can_read: may this be
 * read? */
static uint64_t next_arena(uint64_t arena, bool (*can_read)(uint64_t), bool *broken)
{
    const uint64_t next = word(arena + ARENA_NEXT), heap = heap_of(next);
    if (next == s_libc.arena)
        return 0;
    *broken = next != heap + HEAP_HEAD || !can_read(heap) || word(heap + HEAP_ARENA) != next;
    return *broken ? 0 : next;
}

bool glibc_heap_is_quiet(void)
{
    bool broken = false;
    uint64_t arena = s_libc.arena;
    for (uint32_t i = 0; arena && i < MOST_ARENAS; i++) {
        if (__atomic_load_n((const uint32_t *)arena, __ATOMIC_ACQUIRE) != 0)
            return false;
        arena = next_arena(arena, kernel_can_read, &broken);
    }
    return true;
}

static bool is_main(uint64_t arena)
{
    return arena == s_libc.arena;
}

/* Is there a chunk of this arena at this address, as far as that is certain without a walk? */
static bool may_be_chunk(uint64_t arena, uint64_t at)
{
    const uint64_t heap = heap_of(at);
    if (at % ALIGNMENT)
        return false;
    if (is_main(arena))
        return at >= s_heap.start && at + LEAST <= s_heap.end;
    return writable_has(heap) && word(heap + HEAP_ARENA) == arena && at >= heap + HEAP_HEAD &&
           at + LEAST <= heap + word(heap + HEAP_SIZE);
}

/* The same of any arena. */
static bool may_be_any_chunk(uint64_t at)
{
    const uint64_t heap = heap_of(at);
    if (may_be_chunk(s_libc.arena, at))
        return true;
    const uint64_t arena = writable_has(heap) ? word(heap + HEAP_ARENA) : 0;
    return arena && writable_has(arena) && heap_of(arena) + HEAP_HEAD == arena && may_be_chunk(arena, at);
}

/* -- free chunks that are not in bins -- */

static const char s_no_memory[] = "there is no memory to take note of its free chunks";

static uint8_t **marks_of(uint64_t chunk)
{
    return &s_heap.marks[chunk / HEAP_ALIGNMENT % REGIONS];
}

static uint64_t mark_number(uint64_t chunk)
{
    return chunk % HEAP_ALIGNMENT / ALIGNMENT;
}

static bool is_marked(uint64_t chunk)
{
    const uint8_t *marks = *marks_of(chunk);
    const uint64_t i = mark_number(chunk);
    return marks && marks[i / 8] >> i % 8 & 1;
}

/* Returns false if it is marked already, or if there is no memory: then `wrong` says so. */
static bool mark(uint64_t chunk)
{
    uint8_t **marks = marks_of(chunk);
    const uint64_t i = mark_number(chunk);
    if (is_marked(chunk) || (!*marks && !(*marks = native_memory(REGION_MARKS)))) {
        s_heap.wrong = *marks ? s_heap.wrong : s_no_memory;
        return false;
    }
    (*marks)[i / 8] |= (uint8_t)(1 << i % 8);
    s_heap.marked++;
    return true;
}

static const char *mark_fast_bins(uint64_t arena)
{
    for (uint64_t i = 0; i < FAST_BINS; i++)
        for (uint64_t chunk = word(arena + ARENA_FAST + 8 * i); chunk; chunk = revealed(chunk + HEADER))
            if (!may_be_chunk(arena, chunk) || size_of(chunk) != LEAST + ALIGNMENT * i || !mark(chunk))
                return s_heap.wrong ? s_heap.wrong
                                    : "a list of free chunks is not as it should be (fast bins)";
    return NULL;
}

/* Go through a list of a thread's cache. marks: mark the chunks. Returns false if it is none. */
static bool go_through(uint64_t first, uint64_t length, uint64_t size, bool marks, uint64_t *key)
{
    uint64_t block = first;
    for (; block && length; length--) {
        const uint64_t chunk = block - HEADER;
        if (!may_be_any_chunk(chunk) || size_of(chunk) != size || (word(chunk + 8) & MAPPED) ||
            is_marked(chunk))
            return false;
        *key = *key ? *key : word(block + 8);
        if (!*key || word(block + 8) != *key)
            return false;
        if (marks)
            mark(chunk);
        block = revealed(block);
    }
    return !block && !length;
}

/* If this is the cache of a thread, mark its chunks and itself. is_first: it is the first chunk of its arena. */
static bool mark_cache(uint64_t chunk, bool is_first)
{
    const uint16_t *lengths = (const uint16_t *)(chunk + HEADER);
    const uint64_t *firsts = (const uint64_t *)(lengths + CACHE_LISTS);
    uint64_t key = s_heap.key;
    bool is_empty = true;
    for (uint64_t i = 0; i < CACHE_LISTS; i++) {
        if (!go_through(firsts[i], lengths[i], LEAST + ALIGNMENT * i, false, &key))
            return false;
        is_empty &= !lengths[i];
    }
    for (uint64_t i = 0; i < CACHE_LISTS; i++)
        go_through(firsts[i], lengths[i], LEAST + ALIGNMENT * i, true, &key);
    s_heap.key = key;
    return is_empty && !is_first ? true : mark(chunk);
}

/* -- the walk -- */

struct walk {
    uint64_t arena, first; /* the first chunk of the arena */
    void (*used)(const struct walk *w, uint64_t chunk, uint64_t size);
    void (*visit)(uint64_t addr, uint64_t size);
};

/* Is a free chunk in a list of the arena, and does the one after it know its size? */
static bool is_in_bin(uint64_t arena, uint64_t chunk, uint64_t size)
{
    const uint64_t next = word(chunk + 16), previous = word(chunk + 24);
    const uint64_t bins = bin_of(arena, 0), last = bin_of(arena, BINS - 1);
    const bool good =
        word(chunk + size) == size && ((next >= bins && next <= last) || may_be_chunk(arena, next)) &&
        ((previous >= bins && previous <= last) || may_be_chunk(arena, previous)) && next % ALIGNMENT == 0;
    return good && word(next + 24) == chunk && word(previous + 16) == chunk;
}

/* Go through chunks from `chunk` to `end`, which is the top chunk or, if ends, the last word of a heap: before that, there is
 * a chunk that is none. */
static const char *walk_chunks(const struct walk *w, uint64_t chunk, uint64_t end, bool ends)
{
    bool used_before = true;
    while (chunk < end) {
        const uint64_t size = size_of(chunk), head = word(chunk + 8);
        if (size < (ends ? LEAST / 2 : LEAST) || size > end - chunk || (head & MAPPED) ||
            !!(head & USED_BEFORE) != used_before)
            return "chunks do not follow one another";
        if (ends && chunk + size == end)
            return NULL;
        const bool used = word(chunk + size + 8) & USED_BEFORE;
        if (used && is_main(w->arena) == !!(head & NOT_MAIN))
            return "a chunk is of another arena";
        if (size < LEAST || (!used && (!used_before || !is_in_bin(w->arena, chunk, size))))
            return "a free chunk is in no list";
        if (used)
            w->used(w, chunk, size);
        used_before = used;
        chunk += size;
    }
    return chunk == end && !ends && used_before ? NULL : "chunks do not end where the heap does";
}

static const char *walk_main(struct walk *w)
{
    w->first = s_heap.start;
    return s_heap.end ? walk_chunks(w, s_heap.start, word(w->arena + ARENA_TOP), false) : NULL;
}

/* The heaps of another arena, from that of the top chunk back to the first. */
static const char *walk_other(struct walk *w)
{
    const char *wrong = NULL;
    const uint64_t arena = w->arena, top = word(arena + ARENA_TOP), all = word(arena + ARENA_BYTES_HELD);
    uint64_t heap = heap_of(top), bytes = 0;
    w->first = (arena + ARENA_BYTES + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    for (bool is_last = true; heap && !wrong && bytes <= all;
         heap = word(heap + HEAP_PREVIOUS), is_last = false) {
        const uint64_t size = writable_has(heap) ? word(heap + HEAP_SIZE) : 0;
        if (size < KERNEL_PAGE || size > HEAP_ALIGNMENT || heap != heap_of(heap) ||
            !writable_has_all(heap, heap + size) || word(heap + HEAP_ARENA) != arena)
            return "a heap of an arena is not as it should be";
        bytes += size;
        const uint64_t first = heap == heap_of(arena) ? w->first : heap + HEAP_HEAD;
        if (is_last && (!may_be_chunk(arena, top) || top + size_of(top) != heap + size))
            return "a top chunk does not end where its heap does";
        wrong = walk_chunks(w, first, is_last ? top : heap + size - HEADER, !is_last);
    }
    return wrong || bytes == all ? wrong : "an arena has not as many bytes as it counts";
}

static const char *walk_all(void (*used)(const struct walk *w, uint64_t chunk, uint64_t size),
                            void (*visit)(uint64_t addr, uint64_t size))
{
    struct walk w = {.arena = s_libc.arena, .used = used, .visit = visit};
    const char *wrong = walk_main(&w);
    bool broken = false;
    while (!wrong && (w.arena = next_arena(w.arena, writable_has, &broken)))
        wrong = walk_other(&w);
    return broken ? "the list of arenas is not as it should be" : wrong;
}

static void find_cache(const struct walk *w, uint64_t chunk, uint64_t size)
{
    const bool is_first = chunk == w->first;
    if (size == CACHE_CHUNK && !is_marked(chunk) && !mark_cache(chunk, is_first) && is_first && !s_heap.wrong)
        s_heap.wrong = "the cache of a thread is not as it should be";
}

static void count_marked(const struct walk *w, uint64_t chunk, uint64_t size)
{
    (void)w, (void)size;
    s_heap.met += is_marked(chunk);
}

static void visit_block(const struct walk *w, uint64_t chunk, uint64_t size)
{
    if (!is_marked(chunk))
        w->visit(chunk + HEADER, size - HEADER + OF_NEXT);
}

/* -- chunks that are mappings -- */

static bool counts_are_met(void)
{
    return s_heap.mapped == half(s_libc.parameters + MAPPED_CHUNKS) &&
           s_heap.mapped_bytes == word(s_libc.parameters + MAPPED_BYTES);
}

/* The chunk in the mapping at `page`, which memalign may have moved to where a block is aligned; *bytes: of the mapping. 0 =
 * there is none. */
static uint64_t mapped_chunk(uint64_t page, uint64_t end, uint64_t *bytes)
{
    const uint64_t head = word(page + 8);
    *bytes = head & ~(uint64_t)BITS;
    if (word(page) || (head & BITS) != MAPPED || *bytes % KERNEL_PAGE || !*bytes || *bytes > end - page)
        return 0;
    for (uint64_t to = 2 * ALIGNMENT; to < *bytes; to *= 2) {
        uint64_t chunk = ((page + HEADER + to - 1) & ~(to - 1)) - HEADER;
        chunk += chunk - page < LEAST ? to : 0;
        const uint64_t before = chunk - page;
        if (before + LEAST > *bytes)
            break;
        if (word(chunk) != before || (word(chunk + 8) & BITS) != MAPPED)
            continue;
        const uint64_t all = before + size_of(chunk); /* realloc may have changed it */
        if (all % KERNEL_PAGE || all > end - page)
            continue;
        *bytes = all;
        return chunk;
    }
    return page;
}

/* If this page is in a heap, the end of that; else 0. */
static uint64_t end_of_heap(uint64_t page)
{
    const uint64_t heap = heap_of(page);
    if (page + KERNEL_PAGE > s_heap.start && page < s_heap.end)
        return (s_heap.end + KERNEL_PAGE - 1) & ~(uint64_t)(KERNEL_PAGE - 1);
    return may_be_any_chunk(page + HEAP_HEAD) ? heap + word(heap + HEAP_SIZE) : 0;
}

/* Look at the pages of [from, to) that are in memory; the chunks end at `end` at the latest. Returns where to go on. */
static uint64_t look_for_mapped(uint64_t from, uint64_t to, uint64_t end,
                                void (*visit)(uint64_t addr, uint64_t size))
{
    uint64_t page = from;
    const bool known =
        kernel_call(SYS_mincore, (long)from, (long)(to - from), (long)s_heap.present, 0, 0, 0) == 0;
    while (known && page < to && !counts_are_met()) {
        uint64_t bytes = 0;
        const bool present = s_heap.present[(page - from) / KERNEL_PAGE] & 1;
        const uint64_t in_heap = present ? end_of_heap(page) : 0,
                       chunk = present && !in_heap ? mapped_chunk(page, end, &bytes) : 0;
        if (chunk) {
            s_heap.mapped++;
            s_heap.mapped_bytes += bytes;
            if (visit)
                visit(chunk + HEADER, size_of(chunk) - HEADER);
        }
        page = in_heap ? in_heap : page + (chunk ? bytes : KERNEL_PAGE);
    }
    return page > to ? page : to;
}

static void find_mapped(void (*visit)(uint64_t addr, uint64_t size))
{
    uint32_t n = 0;
    const struct writable_range *range = writable_ranges(&n);
    s_heap.mapped = s_heap.mapped_bytes = 0;
    for (uint32_t i = 0; i < n && !counts_are_met(); i++)
        for (uint64_t at = range[i].from; range[i].anonymous && at < range[i].to && !counts_are_met();) {
            const uint64_t left = range[i].to - at, most = (uint64_t)WINDOW * KERNEL_PAGE;
            at = look_for_mapped(at, at + (left < most ? left : most), range[i].to, visit);
        }
}

/* -- all of it -- */

static const char *prepare(void)
{
    const uint64_t arena = s_libc.arena, end = top_end(arena);
    memset(&s_heap, 0, sizeof s_heap);
    s_heap.present = native_memory(WINDOW);
    s_heap.marks = native_memory(REGIONS * sizeof *s_heap.marks);
    if (!s_heap.marks)
        return s_no_memory;
    if (!s_heap.present || !writable_read())
        return "its mappings cannot be read";
    if (half(arena + ARENA_FLAGS) & NOT_CONTIGUOUS)
        return "its heap is not contiguous";
    if (!end)
        return NULL;
    s_heap.start = (word(s_libc.parameters) + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    s_heap.end = end;
    return end > s_heap.start && writable_has_all(s_heap.start, end) &&
                   may_be_chunk(arena, word(arena + ARENA_TOP))
               ? NULL
               : "its heap is not where it should be";
}

const char *glibc_heap_check(void)
{
    bool broken = false;
    uint32_t arenas = 0;
    const char *wrong = prepare();
    for (uint64_t arena = s_libc.arena; arena && !wrong; arena = next_arena(arena, writable_has, &broken))
        wrong =
            half(arena) != 0 || ++arenas > MOST_ARENAS ? "a thread was inside malloc" : mark_fast_bins(arena);
    wrong = wrong ? wrong : walk_all(find_cache, NULL);
    wrong = wrong ? wrong : s_heap.wrong;
    wrong = wrong ? wrong : walk_all(count_marked, NULL);
    if (!wrong && s_heap.met != s_heap.marked)
        wrong = "a chunk in a list of free ones does not exist";
    if (!wrong)
        find_mapped(NULL);
    return wrong;
}

void glibc_heap_walk(void (*visit)(uint64_t addr, uint64_t size))
{
    const bool all = counts_are_met();
    walk_all(visit_block, visit);
    if (all)
        find_mapped(visit);
}

uint64_t glibc_heap_missing(void)
{
    return counts_are_met() ? 0 : half(s_libc.parameters + MAPPED_CHUNKS);
}
