/* luacode.h - which Lua instruction makes an access.
 *
 * Each instruction that LuaJIT's interpreter executes is loaded, 4 bytes, from the block of its prototype.
 * That load and what its thread does to blocks of Lua heaps until the next such load belong to the
 * instruction: also what library functions, the collector's steps and the compiler do on its behalf. In
 * machine code of a trace the site itself has a Lua frame, and counts as it is; what C does then belongs to
 * the call (MT_CALL), or, if none was told since, to the trace's last access. The collector's steps on traces
 * belong to what the thread made last in that heap: the check for them stands at the start of a trace or
 * loop, where nothing is made. What a thread does to blocks of other heaps stays with its site.
 *
 * A place is an instruction of a prototype: first place of the prototype + number of the instruction. Memory:
 * O(live blocks + instructions).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_LUACODE_H
#define STEVE_LUACODE_H

#include "memtrace/memtrace.h"
#include "steve/kernels/livemap.h"

#define LUACODE_NONE UINT32_MAX

struct luacode_proto {
    uint32_t offset, count; /* as of struct mt_proto */
    uint32_t first;         /* place of its first instruction */
};

/* Whose an access is: its own site's, that of an instruction (a place), of a call on a trace or of what was
 * made (a stack), or of the last access of a trace (a site). */
enum luacode_by { LUACODE_OWN, LUACODE_PLACE, LUACODE_STACK, LUACODE_SITE };
struct luacode_at {
    uint32_t by; /* enum luacode_by */
    uint32_t id;
};

struct luacode_thread {
    struct luacode_at now;
    struct luacode_at before; /* a step of the collector began on a trace; LUACODE_OWN: none goes on */
    uint32_t made, heap;      /* stack and heap of its last New */
};

/* A block by slot, as its latest New or Resize said. */
struct luacode_block {
    uint64_t base;
    uint32_t heap;
    uint32_t held; /* id of the prototype that it holds plus 1; 0 = none */
};

struct luacode {
    const struct mt_reader *reader;
    struct luacode_proto *protos; /* by prototype id */
    uint32_t n_protos, n_places;
    size_t protos_room;
    struct livemap handles; /* of the blocks of prototypes */
    uint32_t *proto_of;     /* by index of the handle */
    size_t proto_of_room;
    uint64_t *live;               /* by slot: handle of the live block plus 1 */
    struct luacode_block *blocks; /* by slot */
    size_t live_room, blocks_room;
    struct luacode_thread *threads; /* by thread */
    uint8_t *jitted;                /* by site: is it in a trace? */
    size_t jitted_room;
    uint32_t n_sites;
    bool *lua; /* by heap */
    size_t lua_room;
};

bool luacode_init(struct luacode *c,
                  const struct mt_reader *reader); /* false: out of memory; free it then, too */
void luacode_free(struct luacode *c);
/* Take over what the reader has defined; before each batch. False: out of memory. */
bool luacode_learn(struct luacode *c);
/* A load from a prototype: if it is of an instruction, the thread is there now. */
static inline void luacode_fetch(struct luacode *c, const struct luacode_proto *p, const struct mt_event *e)
{
    uint64_t at = e->offset - p->offset;

    if (e->kind == MT_LOAD && e->size == 4 && e->offset >= p->offset && at / 4 < p->count && at % 4 == 0)
        c->threads[e->thread].now = (struct luacode_at){LUACODE_PLACE, p->first + (uint32_t)(at / 4)};
}

static inline bool luacode_is_jitted(const struct luacode *c, const struct mt_event *e)
{
    return e->ref < c->n_sites && c->jitted[e->ref];
}

/* Follow an access. */
static inline void luacode_access(struct luacode *c, const struct mt_event *e)
{
    if (luacode_is_jitted(c, e))
        c->threads[e->thread].now = (struct luacode_at){LUACODE_SITE, e->ref};
    else if (e->slot < c->blocks_room && c->blocks[e->slot].held)
        luacode_fetch(c, &c->protos[c->blocks[e->slot].held - 1], e);
}

/* Follow an event. False: out of memory. */
bool luacode_follow(struct luacode *c, const struct mt_event *e);
/* Follow n events that do not count, such as those before a mark. */
bool luacode_pass(struct luacode *c, const struct mt_event *events, size_t n);

/* Whose an access just followed is. */
static inline struct luacode_at luacode_at(const struct luacode *c, const struct mt_event *e)
{
    if (e->heap >= c->lua_room || !c->lua[e->heap] || luacode_is_jitted(c, e))
        return (struct luacode_at){LUACODE_OWN, 0};
    return c->threads[e->thread].now;
}

#endif
