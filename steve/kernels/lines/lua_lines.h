/* lua_lines.h - which Lua instruction makes an access.
 *
 * Before LuaJIT's interpreter executes an instruction, it loads its 4 bytes from the block of its prototype. That
 * load, and all accesses of its thread to blocks of Lua heaps until the next such load, belong to the instruction.
 * They include those of library functions, of steps of the collector and of the compiler.
 *
 * In machine code of a trace, the site itself has a Lua frame, and the access belongs to the site. Accesses by C
 * code that it calls belong to the call (MT_CALL) or, if there is no call since, to the last access of the trace.
 * While the virtual machine of the thread is in the collector's state, they belong instead to the last block that
 * the thread made, if that is in the same heap: the check for a step is at the start of a trace or loop, where no
 * blocks are made. Accesses to blocks of other heaps belong to their sites.
 *
 * So the state of a thread is its last event of each sort. At the beginning of a shard, each of these is as before
 * the shard, until the thread has such an event: luacode_begin_part, luacode_thread.
 *
 * Before the first Lua heap, only News are followed, and each block gets its element, because it may live on.
 * Prototypes are in Lua heaps.
 *
 * A place is an instruction of a prototype: first place of the prototype + number of the instruction. Memory:
 * O(live blocks + instructions).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LUA_LINES_H
#define STEVE_KERNELS_LINES_LUA_LINES_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"

#define LUACODE_NONE UINT32_MAX
#define LUACODE_INSTRUCTION 4 /* bytes of one */

struct luacode_proto {
    uint32_t offset, count; /* as of struct mt_proto */
    uint32_t first;         /* place of its first instruction */
};

/* Whose an access is: its own site's, that of an instruction (a place), of a call on a trace or of what was
 * made (a stack), or of the last access of a trace (a site). LUACODE_BEFORE: of a shard, as before it. */
enum luacode_by { LUACODE_OWN, LUACODE_PLACE, LUACODE_STACK, LUACODE_SITE, LUACODE_BEFORE };
struct luacode_at {
    uint32_t by; /* enum luacode_by */
    uint32_t id;
};

/* A New: stack and heap. Heap LUACODE_NONE: of a part, the last one before it. */
struct luacode_made {
    uint32_t stack, heap;
};

/* Only uint32_t, so that it can be seen as an array with named columns. */
struct luacode_thread {
    struct luacode_at now;
    struct luacode_made made, made_then; /* its last New; its last when the collector's state began */
    /* heap whose collector works, plus 1; 0 = none; LUACODE_NONE: of a shard, as before it */
    uint32_t collects;
};

/* A block by slot, as its latest New or Resize said. Without gaps: there are many of these. */
struct __attribute__((packed, aligned(4))) luacode_block {
    uint64_t live; /* handle of the live block plus 1; 0 = none */
    uint64_t base;
    uint32_t held : 31; /* id of the prototype that it holds plus 1; 0 = none */
    uint32_t lua : 1;   /* is it of a Lua heap? */
};

struct luacode {
    const struct mt_reader *reader;
    struct luacode_proto *protos; /* by prototype id */
    uint32_t n_protos, n_places;
    size_t protos_room;
    struct handle_map handles; /* of the blocks of prototypes */
    uint32_t *proto_of;     /* by index of the handle */
    size_t proto_of_room;
    struct luacode_block *blocks; /* by slot */
    size_t blocks_room;
    struct luacode_thread *threads; /* by thread, as far as the reader has met threads */
    size_t threads_room;
    uint32_t n_threads;
    struct luacode_thread initial;  /* a thread before its first event */
    uint8_t *jitted;                /* by site: is it in a trace? */
    size_t jitted_room;
    uint32_t n_sites;
    uint8_t *kinds; /* by heap: enum mt_heap_kind */
    bool follows;   /* is any of Lua, or code of traces known? */
    size_t kinds_room;
    uint32_t n_heaps;
};

bool luacode_init(struct luacode *c,
                  const struct mt_reader *reader); /* false: out of memory; free it then, too */
void luacode_free(struct luacode *c);
/* Take over what the reader has defined; before each batch. False: out of memory. */
bool luacode_learn(struct luacode *c);
/* The first n threads are as given. False: out of memory. */
bool luacode_set_threads(struct luacode *c, const struct luacode_thread *threads, uint32_t n);
/* Is there an instruction of a prototype at this offset in its block? */
static inline bool luacode_place(const struct luacode_proto *p, uint64_t offset, uint32_t *place)
{
    uint64_t at = offset - p->offset, number = at / LUACODE_INSTRUCTION;

    *place = p->first + (uint32_t)number;
    return offset >= p->offset && number < p->count && at % LUACODE_INSTRUCTION == 0;
}

/* A load from a prototype: if it is of an instruction, the thread is there now. */
static inline void luacode_fetch(struct luacode *c, const struct luacode_proto *p, const struct mt_event *e)
{
    uint32_t place;

    if (e->kind == MT_LOAD && e->size == LUACODE_INSTRUCTION && luacode_place(p, e->offset, &place))
        c->threads[e->thread].now = (struct luacode_at){LUACODE_PLACE, place};
}

static inline bool luacode_is_jitted(const struct luacode *c, uint32_t site)
{
    return site < c->n_sites && c->jitted[site];
}

/* Are all accesses of a segment by machine code of traces? */
static inline bool luacode_all_jitted(const struct luacode *c, const struct mt_segment_access *a, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!luacode_is_jitted(c, a[i].site))
            return false;
    return true;
}

/* Such a segment ran: the position of the thread is that of its last access. */
static inline void luacode_stay(struct luacode *c, const struct mt_segment_access *a, unsigned n,
                                const struct mt_place *places, uint16_t thread)
{
    while (n > 0 && places[a[n - 1].word].slot >= c->blocks_room)
        n--;
    if (n > 0)
        c->threads[thread].now = (struct luacode_at){LUACODE_SITE, a[n - 1].site};
}

/* Follow an access. Always inline, as linework_access. */
__attribute__((always_inline)) static inline void luacode_access(struct luacode *c, const struct mt_event *e)
{
    if (luacode_is_jitted(c, e->ref))
        c->threads[e->thread].now = (struct luacode_at){LUACODE_SITE, e->ref};
    else if (e->slot < c->blocks_room && c->blocks[e->slot].held)
        luacode_fetch(c, &c->protos[c->blocks[e->slot].held - 1], e);
}

/* An access that a segment made, whose word lies at a place with a slot below blocks_room: as an event, as
 * far as it matters. Always inline, so that it is never written out. */
__attribute__((always_inline)) static inline void luacode_event(const struct luacode *c,
                                                                const struct mt_segment_access *a,
                                                                const struct mt_place *place, uint16_t thread,
                                                                struct mt_event *e)
{
    e->addr = place->addr + a->offset;
    e->offset = e->addr - c->blocks[place->slot].base;
    e->size = a->size;
    e->ref = a->site;
    e->thread = thread;
    e->kind = a->kind;
    e->slot = place->slot;
}

bool luacode_follow_all(struct luacode *c, const struct mt_event *e);
/* Follow an event; where nothing is Lua's yet there is less to do than luacode_follow_all does. False: out of
 * memory. */
static inline bool luacode_follow(struct luacode *c, const struct mt_event *e)
{
    if (c->follows || e->kind > MT_RESIZE || e->slot >= c->blocks_room)
        return luacode_follow_all(c, e);
    if (e->kind == MT_NEW)
        c->threads[e->thread].made = (struct luacode_made){e->ref, e->heap};
    return true;
}

/* Follow n events that do not count, such as those before a mark. */
bool luacode_pass(struct luacode *c, const struct mt_event *events, size_t n);
/* The same for a batch. */
bool luacode_pass_batch(struct luacode *c, const struct mt_batch *batch);

/* A part of a trace is to be followed, of which nothing is known before: threads are as before it. */
void luacode_begin_part(struct luacode *c);
/* Accesses were passed over: of no thread is it known any more which instruction it executed last. */
void luacode_lose_place(struct luacode *c);
/* A block lives where the part begins. False: out of memory. */
bool luacode_enter(struct luacode *c, const struct mt_live_block *live);

/* Is it an access by code that has no Lua frame of its own to a block of a Lua heap? */
static inline bool luacode_is_lua(const struct luacode *c, const struct mt_event *e)
{
    return e->slot < c->blocks_room && c->blocks[e->slot].lua && !luacode_is_jitted(c, e->ref);
}

/* Whose it is what a thread does to a Lua heap, without a Lua frame of its own. */
static inline struct luacode_at luacode_now(const struct luacode *c, uint16_t thread)
{
    const struct luacode_thread *t = &c->threads[thread];

    if (t->collects && t->now.by >= LUACODE_STACK && t->collects == t->made_then.heap + 1)
        return (struct luacode_at){LUACODE_STACK, t->made_then.stack};
    return t->now;
}

#endif
