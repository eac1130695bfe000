/* lines.h - the blocks that each line of the program makes, and its accesses to its own blocks and to others.
 *
 * Lines are dense numbers from 0. The caller gives the line of each stack, site and instruction of a Lua prototype
 * (a place of struct luacode). A block is the *own* block of the line of its New's stack; a Resize does not change
 * that. An access counts for the line of the Lua instruction, if luacode knows one, else for the line of the site.
 *
 * Distinct blocks are pairs of a line and a block that it accessed. The number is exact, because the pairs of a
 * block are dropped when it is freed, and its handle never occurs again. A block keeps the few lines that touched it
 * first. Further lines are in a table, with a memo of recent pairs before it. Distinct cache lines are pairs of a
 * line of the program and 64 bytes of the address space; the number is exact too: line_pages.h. An access across
 * borders touches all its cache lines. For the accesses of segments see line_segments.h.
 *
 * The blocks that live at the beginning of a shard are entered first, with the stacks of their News
 * (lines_shard_enter). The caller gets these, and what the struct luacode must know of threads, from a checkpoint. The
 * shard counts all accesses, and the pairs of a line and a block whose life lies in the shard. For a block that
 * crosses a border, it reports a piece: the lines that accessed the block. Pieces are added in the order of the
 * shards (linework_merge) to a struct linework of the whole trace, which keeps the lines of blocks that live between
 * two shards, and counts each pair once. Of cache lines, a shard reports all pairs (linepages_copy). A piece consists
 * of words of 32 bits: slot, LINEPARTS_ flags, number of lines, the lines. A shard has O(live blocks x lines that touch
 * them) of these.
 *
 * Memory: O(lines + live blocks x lines that touch them + pages x lines that touch them).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LINES_H
#define STEVE_KERNELS_LINES_LINES_H

#include "memtrace/base/array.h"
#include "steve/kernels/base/prefetch.h"
#include "steve/kernels/base/segment_sums.h"
#include "steve/kernels/lines/line_pages.h"
#include "steve/kernels/lines/lua_lines.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LINEWORK_FEW 7
#define LINEWORK_MEMO 4096
#define LINEWORK_MANY_MEMO 1024
#define LINEWORK_LATE 32
#define LINEWORK_REACH 64 /* bytes of a cache line */
#define LINEWORK_NONE UINT32_MAX
#define LINEPARTS_EARLIER 1u /* of a piece: the block was made before the shard */
#define LINEPARTS_ENDED 2u   /* it ended in the shard; else it lives on */

/* A live block, by slot. */
struct linework_block {
    uint32_t own; /* line; plus 1, 0 = no block lives here */
    /* lines that touched it first, then LINEWORK_NONE; the last element: of the other lines, the latest */
    uint32_t few[LINEWORK_FEW + 1];
    uint32_t many; /* index + 1 of one of the others, in the table of pairs; 0 = there is none */
    uint8_t n;     /* lines in `few`, without its last */
    bool earlier;  /* made before this shard */
};

/* Four lines, to be compared at once. */
typedef uint32_t linework_lanes __attribute__((vector_size(16), aligned(4), may_alias));

/* What a segment does with one word at one line, within a cache line: see line_segments.h. */
struct linework_touch {
    /* that it touched a block of others, of its own line's, as its sites' own; the rows do not know yet */
    uint64_t times[2];
    uint64_t blocks; /* and how many of these its line had not touched before */
    uint32_t line;   /* of its sites */
    uint32_t extent; /* bytes from the lowest access's first to the highest one's last */
    uint32_t site;   /* of the last one */
    uint16_t from;   /* of the lowest, from the place of its word */
    uint8_t word;
    bool jitted, fetch; /* is it by machine code of a trace; might it fetch an instruction: one access */
};

/* A segment, by id: its touches, in program order. */
struct linework_segment {
    uint32_t first;
    uint8_t n;
    bool jitted; /* are all by machine code of traces? */
};

/* The lines of stacks, sites and places, and how many of each there are; the caller's. */
struct linework_map {
    const uint32_t *stacks, *sites, *places; /* of all places; of some stacks and sites, at least number 0 */
    uint64_t n_stacks, n_sites, n_lines;
};

struct linework {
    struct linework_map map;
    struct luacode *code;
    struct linework_row *rows; /* by line; and */
    struct linework_made *made;
    size_t rows_room, made_room;
    struct linework_block *blocks; /* by slot */
    size_t blocks_room;
    struct handle_map pairs; /* slot << 32 | line */
    uint32_t *next;       /* by index of a pair: the block's next, plus 1 */
    uint64_t *key;        /* of the pair */
    size_t next_room, key_room;
    uint64_t many_memo[LINEWORK_MANY_MEMO]; /* pairs met lately, plus 1 */
    struct linepages pages;
    struct linepages_late late[LINEWORK_LATE]; /* not among those pages yet, but on their way: */
    unsigned n_late;                           /* how many */
    uint64_t memo[LINEWORK_MEMO]; /* cache line << LINEWORK_LINE_BITS | line, plus 1, met lately */
    uint64_t memo_end;            /* the memo can only have cache lines below this */
    struct linework_segment *segments;
    struct linework_touch *touches;
    struct access_sums *sums; /* what a touch does in one execution */
    size_t segments_room, touches_room, sums_room;
    uint32_t n_segments, n_touches; /* that are known, */
    bool learned_lua;               /* and was Lua followed when they were learned? */
    uint32_t *pieces;               /* of a shard */
    size_t n_pieces, pieces_room;
};

/* All that return false are out of memory. The luacode stays the caller's. */
bool linework_init(struct linework *w, struct luacode *code);
void linework_free(struct linework *w);
/* What is known by now; before each batch. */
bool linework_learn(struct linework *w, const struct linework_map *map);

/* Forget what is known of the many lines of a block. */
void linework_forget_many(struct linework *w, uint32_t slot);
/* Count a block whose life is over: its New's stack, what it contained (enum mt_type), how many bytes its News and
 * Resizes requested. */
void linework_count_made(struct linework *w, uint32_t stack, uint32_t heap, uint8_t type, uint64_t blocks,
                         uint64_t bytes);
/* A line that is not among the few of a block, nor is there room. */
bool linework_met_many(struct linework *w, struct linework_block *b, uint32_t line, uint64_t *blocks);
/* More than one cache line. */
bool linework_met_memory(struct linework *w, uint64_t addr, uint64_t size, uint32_t line);
/* Before rows and pages are looked at. */
bool linework_catch_up(struct linework *w);

/* Enter a block that lives at the beginning of the shard; stack: of its New. */
bool lines_shard_enter(struct linework *w, uint32_t slot, uint32_t stack);
/* A block made earlier was freed. */
bool lines_shard_end(struct linework *w, uint32_t slot);
/* At the end of the shard: add the pieces of blocks that live on. */
bool lines_shard_finish(struct linework *w);
/* Add the pieces, `n` words, and the pages of the next shard to the whole. Invalid pieces are ignored. */
bool linework_merge(struct linework *whole, const uint32_t *pieces, size_t n);
bool linework_merge_pages(struct linework *whole, const struct linepage *pages, size_t n);

/* What a batch will need of blocks. */
static inline struct ahead linework_ahead(const struct linework *w)
{
    return (struct ahead){
        .array = w->blocks, .room = w->blocks_room, .size = sizeof *w->blocks, .need = sizeof *w->blocks};
}

/* What is not known is where number 0 is. */
static inline uint32_t linework_line(const uint32_t *lines, uint64_t n, uint64_t i)
{
    return i < n ? lines[i] : lines[0];
}

/* A block is made by a stack, in a slot where none lives. */
static inline bool linework_begin(struct linework *w, uint32_t slot, uint32_t stack)
{
    struct linework_block *b;

    if (!array_grow(&w->blocks, &w->blocks_room, (size_t)slot + 1, sizeof *w->blocks))
        return false;
    b = &w->blocks[slot];
    b->own = linework_line(w->map.stacks, w->map.n_stacks, stack) + 1;
    memset(b->few, 0xff, sizeof b->few);
    b->many = b->n = b->earlier = 0;
    return true;
}

/* A block's life is over: what is known of its lines is forgotten, if anything is. */
static inline void linework_forget(struct linework *w, uint32_t slot)
{
    if (slot >= w->blocks_room)
        return;
    w->blocks[slot].own = 0;
    if (w->blocks[slot].many)
        linework_forget_many(w, slot);
}

/* The line that works on a Lua heap in a thread, if the access is not by the machine code of a trace. */
static inline uint32_t linework_lua_line(const struct linework *w, uint16_t thread, uint32_t site)
{
    struct luacode_at at = luacode_now(w->code, thread);

    if (at.by == LUACODE_PLACE)
        return w->map.places[at.id];
    if (at.by == LUACODE_STACK)
        return linework_line(w->map.stacks, w->map.n_stacks, at.id);
    return linework_line(w->map.sites, w->map.n_sites, at.by == LUACODE_SITE ? at.id : site);
}

/* The line that makes an access which the luacode has followed. */
static inline uint32_t linework_maker(const struct linework *w, const struct mt_event *e)
{
    if (luacode_is_lua(w->code, e))
        return linework_lua_line(w, e->thread, e->ref);
    return linework_line(w->map.sites, w->map.n_sites, e->ref);
}

/* Is any bit set? */
static inline bool linework_any(linework_lanes lanes)
{
#ifdef __SSE2__
    return _mm_movemask_epi8((__m128i)lanes) != 0;
#else
    union {
        linework_lanes lanes;
        uint64_t words[2];
    } found = {lanes};

    return (found.words[0] | found.words[1]) != 0;
#endif
}

/* Is a line among the few of a block? Without branches: which of them it is cannot be foreseen. */
static inline bool linework_is_few(const struct linework_block *b, uint32_t line)
{
    const linework_lanes *few = (const linework_lanes *)b->few;
    linework_lanes one = {line, line, line, line};

    return linework_any((linework_lanes)((few[0] == one) | (few[1] == one)));
}

/* blocks: counts those that the line had not touched before. */
static inline bool linework_met_block(struct linework *w, struct linework_block *b, uint32_t line,
                                      uint64_t *blocks)
{
    if (linework_is_few(b, line))
        return true;
    if (b->n == LINEWORK_FEW)
        return linework_met_many(w, b, line, blocks);
    b->few[b->n++] = line;
    ++*blocks;
    return true;
}

/* Cache lines of one page: a bit for each. They count when linework_catch_up was called. The table of pages
 * is often too large for the processor's caches, so several entries are prefetched. */
static inline bool linework_met_page(struct linework *w, uint64_t page, uint64_t bits, uint32_t line)
{
    w->late[w->n_late++] = linepages_begin(&w->pages, page, bits, line);
    return w->n_late < LINEWORK_LATE || linework_catch_up(w);
}

/* Was it met lately that a line touches this cache line? It is from now on. */
#define LINEWORK_LINE_BITS 22
static inline bool linework_recall(struct linework *w, uint64_t cache_line, uint32_t line)
{
    uint64_t key = (cache_line << LINEWORK_LINE_BITS) + line + 1;
    uint64_t *memo = w->memo;
    unsigned i = (cache_line ^ linepages_spread(line)) % LINEWORK_MEMO;
    bool recalled = memo[i] == key;

    if (cache_line >= w->memo_end)
        return false;
    memo[i] = key;
    return recalled;
}

/* A line touches a block that lives, at an address; blocks: as above. */
static inline bool linework_touch(struct linework *w, struct linework_block *b, uint64_t addr, uint64_t size,
                                  uint32_t line, uint64_t *blocks)
{
    if (!linework_met_block(w, b, line, blocks))
        return false;
    if ((addr & 63) + size > 64)
        return linework_met_memory(w, addr, size, line);
    return linework_recall(w, addr >> 6, line) ||
           linework_met_page(w, addr >> 12, (uint64_t)1 << (addr >> 6 & 63), line);
}

static inline struct linework_block *linework_block_at(const struct linework *w, uint32_t slot)
{
    return slot < w->blocks_room && w->blocks[slot].own ? &w->blocks[slot] : NULL;
}

/* What counts for a line when it touches a block. */
static inline struct access_sums *linework_accesses_of(struct linework *w, uint32_t line,
                                                       const struct linework_block *b)
{
    return b->own == line + 1 ? &w->rows[line].own : &w->rows[line].others;
}

/* An access. Accesses to blocks that do not live, or whose News were not fed, do not count. */
static inline bool linework_access(struct linework *w, const struct mt_event *e)
{
    struct linework_block *b = linework_block_at(w, e->slot);
    struct access_sums *a;
    uint32_t line;

    luacode_access(w->code, e);
    if (!b)
        return true;
    line = linework_maker(w, e);
    a = linework_accesses_of(w, line, b);
    a->counts[e->kind - MT_LOAD]++;
    a->bytes[e->kind - MT_LOAD] += e->size;
    return linework_touch(w, b, e->addr, e->size, line, &w->rows[line].blocks);
}

#endif
