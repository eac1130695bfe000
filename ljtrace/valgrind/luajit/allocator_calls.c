/* allocator_calls.c - observe the calls of Lua allocator functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A call ends when a return leaves the stack pointer just above the return address of the innermost pending call.
 * Generated code compares the stack pointer with return_sp of the shared header, at each return that can be the one.
 */
#include "ljtrace/valgrind/luajit/allocator_calls.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_transtab.h"

enum { MAX_WATCHED = 16 };

/* A watched function. */
struct watched {
    Addr f;
    /* The code that may contain its return; 0, 0 = anywhere. */
    Addr from, to;
    /* The number of the LuaJIT that calls it; 0 = not known. */
    UInt image;
};

static struct watched s_watched[MAX_WATCHED];
static UInt s_count;
/* The outermost call of each thread. */
static struct outermost {
    struct lt_ring_place entered; /* the place in the ring when it began */
    Addr returns_to;              /* the stack pointer after its return */
} * s_outermost;                  /* NULL = there was none yet */

/* NULL = not watched */
static struct watched *watched_at(Addr f)
{
    for (UInt i = 0; i < s_count; i++)
        if (s_watched[i].f == f)
            return &s_watched[i];
    return NULL;
}

Bool lt_lua_is_entry(Addr ip)
{
    return watched_at(ip) != NULL;
}

static UInt image_of(Addr f)
{
    const struct watched *w = watched_at(f);
    return w ? w->image : 0;
}

Bool lt_lua_may_return(Addr ip)
{
    for (UInt i = 0; i < s_count; i++)
        if (s_watched[i].to == 0 || (ip >= s_watched[i].from && ip < s_watched[i].to))
            return True;
    return False;
}

/* Code that was translated before does not observe the function: discard its translations. */
static void retranslate(const struct watched *w)
{
    if (w->to)
        VG_(discard_translations_safely)(w->from, w->to - w->from, "ljtrace");
    else
        VG_(discard_translations_safely)((Addr)0x1000, ~(SizeT)0xfff, "ljtrace");
}

void lt_lua_watch(Addr f, enum lua_allocator whose, UInt image)
{
    struct watched *known = watched_at(f);
    if (known)
        known->image = image; /* perhaps another LuaJIT, loaded later, uses it too */
    if (known || !lt_options.heap_luajit)
        return;
    if (s_count == MAX_WATCHED) {
        VG_(umsg)
        ("ljtrace: more than %d Lua allocator functions: the one at %#lx is not watched\n", MAX_WATCHED, f);
        return;
    }
    struct watched *w = &s_watched[s_count++];
    Addr from, to;
    *w = (struct watched){.f = f, .image = image};
    if (whose != LUA_ALLOCATOR_PROGRAMS && lt_object_code(f, &from, &to)) {
        lt_image_code(from, to);
        if (whose == LUA_ALLOCATOR_OWN)
            w->from = from, w->to = to;
    }
    retranslate(w);
}

void lt_lua_unwatch(Addr from, Addr to)
{
    UInt kept = 0;
    for (UInt i = 0; i < s_count; i++)
        if (s_watched[i].f < from || s_watched[i].f >= to)
            s_watched[kept++] = s_watched[i];
    s_count = kept;
}

void lt_lua_thread(ThreadId tid)
{
    lt_ring->return_sp = lt_lua_returns_to(tid);
}

_Static_assert(offsetof(VexGuestAMD64State, guest_RBX) - offsetof(VexGuestAMD64State, guest_RAX) ==
                       HOST_RBX * sizeof(ULong) &&
                   offsetof(VexGuestAMD64State, guest_RDI) - offsetof(VexGuestAMD64State, guest_RAX) ==
                       HOST_RDI * sizeof(ULong) &&
                   offsetof(VexGuestAMD64State, guest_R15) - offsetof(VexGuestAMD64State, guest_RAX) ==
                       (HOST_REGISTERS - 1) * sizeof(ULong),
               "the general registers have the same order in enum host_register");

static const uint64_t *general(const VexGuestAMD64State *regs)
{
    return (const uint64_t *)&regs->guest_RAX;
}

static struct outermost *outermost_of(ThreadId tid)
{
    if (!s_outermost)
        s_outermost = VG_(calloc)("ljtrace.calls", VG_N_THREADS, sizeof *s_outermost);
    return &s_outermost[tid];
}

void lt_lua_entered(const VexGuestAMD64State *regs)
{
    ThreadId tid = VG_(get_running_tid)();
    struct outermost *o = outermost_of(tid);
    if (lt_is_hiding(tid))
        return; /* a call by the preload's scratch state */
    if (lt_ring->return_sp && lt_lua_drop_stale(tid, regs->guest_RSP))
        lt_rollback_drop(&o->entered);
    enum lt_lua_call call = lt_lua_enter(tid, general(regs), image_of(regs->guest_RIP));
    if (call == LT_CALL_IGNORED)
        return;
    lt_ring->return_sp = regs->guest_RSP + sizeof(Addr);
    if (call == LT_CALL_OUTERMOST) {
        o->returns_to = lt_ring->return_sp;
        lt_rollback_enter(&o->entered);
    }
}

void lt_lua_returned(const VexGuestAMD64State *regs)
{
    ThreadId tid = VG_(get_running_tid)();
    struct outermost *o = outermost_of(tid);
    if (lt_ring->return_sp == o->returns_to)
        lt_rollback_return(&o->entered);
    lt_ring->return_sp = lt_lua_return(tid, general(regs));
}
