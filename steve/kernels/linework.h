/* linework.h - what each line of the program does with blocks: makes them, and touches its own and others'.
 *
 * Lines are numbers from 0, dense, given by the caller: which line a stack, a site and an instruction of a
 * Lua prototype (a place of struct luacode) is at. A block is its line's *own*: the line of the stack that
 * made it, which a Resize does not change. An access counts for the line that makes it: that of the Lua
 * instruction, where luacode knows one, else that of the site.
 *
 * Distinct blocks: pairs of a line and a block that it accessed; exact, since a block is forgotten when it
 * dies and its handle never comes again. A block remembers the few lines that touched it, the line that did
 * so last foremost; those of a block that many lines touch stand in a table. Distinct cache lines: pairs of a
 * line of the program and a line of 64 bytes of the address space; exact: linepages.h. An access over a
 * border touches all the cache lines it lies in.
 *
 * Memory: O(lines + live blocks x lines that touch them + pages x lines that touch them).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_LINEWORK_H
#define STEVE_LINEWORK_H

#include "steve/kernels/linepages.h"
#include "steve/kernels/luacode.h"

/* Kinds of blocks: those of Lua heaps by enum mt_type, others by their heap's enum mt_heap_kind. */
#define LINEWORK_KINDS (MT_TYPES + MT_HEAP_KINDS)
#define LINEWORK_FEW 6
#define LINEWORK_MEMO 4096
#define LINEWORK_NONE UINT32_MAX

/* Accesses by kind, from MT_LOAD: how many, of how many bytes. */
struct linework_accesses {
    uint64_t counts[3], bytes[3];
};

/* Only uint64_t, so that it can be seen as an array with named columns. */
struct linework_row {
    struct linework_accesses others, own;
    uint64_t blocks, cache_lines; /* distinct ones */
};

/* Blocks made by a line, and the bytes that their News and Resizes asked for; not with its accesses, which
 * are counted far more often. */
struct linework_made {
    uint64_t blocks[LINEWORK_KINDS], bytes[LINEWORK_KINDS];
};

/* A live block, by slot. */
struct linework_block {
    uint32_t own;  /* line; plus 1, 0 = no block lives here */
    uint32_t last; /* line that touched it last; LINEWORK_NONE */
    uint32_t few[LINEWORK_FEW];
    uint32_t many; /* index + 1 of one of the others, in the table of pairs; 0 = there is none */
    uint8_t n;     /* lines in `few` */
    bool earlier;  /* made before this part of a trace: see lineparts.h */
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
    struct livemap pairs; /* slot << 32 | line */
    uint32_t *next;       /* by index of a pair: the block's next, plus 1 */
    uint64_t *key;        /* of the pair */
    size_t next_room, key_room;
    struct linepages pages;
    struct {
        uint64_t cache_line; /* plus 1; 0 = none */
        uint32_t line;
    } memo[LINEWORK_MEMO]; /* pairs met lately */
    uint32_t *pieces;      /* of a part of a trace: see lineparts.h */
    size_t n_pieces, pieces_room;
};

/* All that return false are out of memory. The luacode stays the caller's. */
bool linework_init(struct linework *w, struct luacode *code);
void linework_free(struct linework *w);
/* What is known by now; before each batch. */
bool linework_learn(struct linework *w, const struct linework_map *map);

/* A block is made by a stack, in a slot where none lives. */
bool linework_begin(struct linework *w, uint32_t slot, uint32_t stack);
/* A block's life is over: what is known of its lines is forgotten, if anything is. */
void linework_forget(struct linework *w, uint32_t slot);
/* Count a block whose life is over: its New's stack, what it held (enum mt_type), how many bytes its News and
 * Resizes asked for. */
void linework_count_made(struct linework *w, uint32_t stack, uint32_t heap, uint8_t type, uint64_t bytes);
bool linework_met_block(struct linework *w, uint32_t slot, uint32_t line);
/* Cache lines of one page: a bit for each. */
bool linework_met_page(struct linework *w, uint64_t page, uint64_t bits, uint32_t line);
bool linework_met_memory(struct linework *w, uint64_t addr, uint64_t size, uint32_t line);

/* What is not known is where number 0 is. */
static inline uint32_t linework_line(const uint32_t *lines, uint64_t n, uint64_t i)
{
    return i < n ? lines[i] : lines[0];
}

/* The line that makes an access which the luacode has followed. */
static inline uint32_t linework_maker(const struct linework *w, const struct mt_event *e)
{
    struct luacode_at at = luacode_at(w->code, e);

    if (at.by == LUACODE_PLACE)
        return w->map.places[at.id];
    if (at.by == LUACODE_STACK)
        return linework_line(w->map.stacks, w->map.n_stacks, at.id);
    return linework_line(w->map.sites, w->map.n_sites, at.by == LUACODE_SITE ? at.id : e->ref);
}

/* Is the access in one cache line, and was it met lately that this line touches it? It is from now on. */
static inline bool linework_recall(struct linework *w, const struct mt_event *e, uint32_t line)
{
    uint64_t cache_line = e->addr >> 6;
    size_t i = (cache_line ^ (uint64_t)line * 0x9E3779B1u) % LINEWORK_MEMO;

    if (w->memo[i].cache_line == cache_line + 1 && w->memo[i].line == line)
        return (e->addr & 63) + e->size <= 64;
    w->memo[i].cache_line = cache_line + 1;
    w->memo[i].line = line;
    return false;
}

/* An access. Blocks that do not live, and those whose New was not told, do not count. Always inline, so that
 * an event made for it is never written out. */
__attribute__((always_inline)) static inline bool linework_access(struct linework *w,
                                                                  const struct mt_event *e)
{
    struct linework_block *b = e->slot < w->blocks_room ? &w->blocks[e->slot] : NULL;
    struct linework_accesses *a;
    uint32_t line;

    luacode_access(w->code, e);
    if (!b || !b->own)
        return true;
    line = linework_maker(w, e);
    a = b->own == line + 1 ? &w->rows[line].own : &w->rows[line].others;
    a->counts[e->kind - MT_LOAD]++;
    a->bytes[e->kind - MT_LOAD] += e->size;
    if (b->last != line && !linework_met_block(w, e->slot, line))
        return false;
    return linework_recall(w, e, line) || linework_met_memory(w, e->addr, e->size, line);
}

/* One that a pattern made, whose word lies at a place. */
static inline bool linework_pattern_access(struct linework *w, const struct mt_pattern_access *a,
                                           const struct mt_place *place, uint16_t thread)
{
    struct mt_event e;

    if (place->slot >= w->code->blocks_room)
        return true;
    luacode_event(w->code, a, place, thread, &e);
    return linework_access(w, &e);
}

#endif
