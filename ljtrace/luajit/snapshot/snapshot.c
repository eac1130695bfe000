/* snapshot.c - walk over all objects of a state, and write them and their references. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sums are checked. The bytes of all objects, computed from their contents, plus those of the internal
 * blocks, known from the allocator's calls, must equal the number of bytes that the state counts itself. If
 * they do not, the user is informed, and the snapshot contains both numbers.
 */
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/records.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"

enum { MOST_ROOTS = 80 };

static Addr s_root[MOST_ROOTS];
static UInt s_roots;
static ULong s_bytes; /* bytes of the objects */

/* The name of the postponed snapshots. */
enum { DUE_NAME = 1024 };
TABLE(HChar, s_due_name, DUE_NAME);
UInt lt_snapshot_waiting;

static UInt type_of(UInt gct)
{
    static const UChar types[] = {
        [GCT_STR] = MT_TYPE_STR,     [GCT_UPVAL] = MT_TYPE_UPVAL, [GCT_THREAD] = MT_TYPE_THREAD,
        [GCT_PROTO] = MT_TYPE_PROTO, [GCT_FUNC] = MT_TYPE_FUNC,   [GCT_TRACE] = MT_TYPE_TRACE,
        [GCT_CDATA] = MT_TYPE_CDATA, [GCT_TAB] = MT_TYPE_TAB,     [GCT_UDATA] = MT_TYPE_UDATA};
    return types[gct];
}

/* Fixed strings are never collected, and objects that wait for their finaliser not before it has run. */
static Bool is_root(const struct snapshot *u, Addr o)
{
    enum { FIXED = 0x60 };
    if (u->finalised || o == snapshot_main(u) || o == lt_vm_ref(u->vm, snapshot_main(u) + u->at->thread_env))
        return True;
    for (UInt i = 0; i < s_roots; i++)
        if (s_root[i] == o)
            return True;
    return lt_vm_gct(u->vm, o) == GCT_STR && lt_guest_number(o + u->at->gct - 1, 1) & FIXED;
}

/* Add an object to the sum. The main thread is a part of the state's own block. */
static void count_object(struct snapshot *u, Addr o)
{
    Addr part[2];
    object_parts(u, o, part);
    if (o != snapshot_main(u))
        lt_accounting_claim(u->vm, o);
    lt_accounting_claim(u->vm, part[0]);
    lt_accounting_claim(u->vm, part[1]);
    s_bytes += object_bytes(u, o);
}

static void write_object(struct snapshot *u, Addr o)
{
    Bool dead = object_is_dead(u, o);
    UInt flags =
        type_of(lt_vm_gct(u->vm, o)) | (dead ? RAW_OBJECT_DEAD : 0) | (is_root(u, o) ? RAW_OBJECT_ROOT : 0);
    Addr name = dead ? 0 : snapshot_name(u, o);
    RING_PUT(object, .flags = flags, .addr = o, .size = object_bytes(u, o), .name = name);
}

/* Objects to which garbage refers may have been freed. */
static void write_links(struct snapshot *u, Addr o)
{
    if (!object_is_dead(u, o))
        snapshot_links(u, o);
}

/* If the allocator's calls were not seen from the beginning, assume that the sums are right: these are the
 * bytes that remain. */
static ULong internal_bytes(const struct snapshot *u)
{
    ULong total = lt_guest_number(u->gc, u->at->ref);
    if (u->vm->counted)
        return lt_accounting_internal_bytes(u->vm);
    return total > s_bytes ? total - s_bytes : 0;
}

static void begin(struct snapshot *u, const HChar *name)
{
    snapshot_roots(u, s_root, &s_roots, MOST_ROOTS);
    snapshot_begin_names(u, u->registry);
    RING_PUT(snapshot, .heap = lt_vm_heap(u->vm), .instructions = lt_ring->instructions,
             .total = lt_guest_number(u->gc, u->at->ref), .internal = internal_bytes(u),
             .name = lt_text(name));
}

static Bool adds_up(const struct snapshot *u)
{
    return s_bytes + internal_bytes(u) == lt_guest_number(u->gc, u->at->ref);
}

static void check(const struct snapshot *u, const HChar *name, Bool whole)
{
    ULong total = lt_guest_number(u->gc, u->at->ref), internal = internal_bytes(u);
    if (!whole)
        VG_(umsg)("ljtrace: snapshot '%s': a list of objects is broken; it holds those before\n", name);
    if (!u->vm->counted)
        VG_(umsg)
    ("ljtrace: snapshot '%s': the state's allocator was not seen: bytes in no object are not checked\n",
     name);
    if (adds_up(u))
        return;
    VG_(umsg)
    ("ljtrace: snapshot '%s': objects of %llu bytes and %llu internal bytes are not the %llu bytes\n", name,
     s_bytes, internal, total);
    VG_(umsg)("ljtrace: that the Lua state counts (%llu were allocated)\n", u->vm->live_bytes);
}

static void set_due(struct lt_vm *vm, Bool due)
{
    lt_snapshot_waiting += (UInt)due - (UInt)vm->snapshot_due;
    vm->snapshot_due = due;
}

/* Take a snapshot in three walks: one for the sums, with which a snapshot begins; one for the objects, which
 * get numbers; one for the references. With may_wait, it is postponed if the lists or the sums are not
 * consistent. */
static Bool take(struct lt_vm *vm, const HChar *name, Bool may_wait)
{
    struct snapshot u;
    lt_types_settle(vm, 0, 0);
    const HChar *wrong = snapshot_find(&u, vm);
    set_due(vm, False);
    s_bytes = 0;
    Bool whole = !wrong && snapshot_walk(&u, count_object);
    if (may_wait && (!whole || !adds_up(&u))) {
        set_due(vm, True);
        return False;
    }
    if (wrong) {
        VG_(umsg)("ljtrace: snapshot '%s': %s; none is taken\n", name, wrong);
        return False;
    }
    vm->places_sure |= whole && adds_up(&u);
    begin(&u, name);
    snapshot_walk(&u, write_object);
    snapshot_walk(&u, write_links);
    RING_PUT(snapshot_end);
    check(&u, name, whole);
    return True;
}

/* Inform a user who wants objects although --lua=no is set. Once is enough. */
static void mention_option(void)
{
    static Bool written;
    if (!lt_options.lua && !written)
        VG_(umsg)("ljtrace: with --lua=no, snapshots have no objects\n");
    written = True;
}

UInt lt_snapshot_take(const HChar *name)
{
    UInt n = 0;
    mention_option();
    lt_guest_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        n += !vm->ended && take(vm, name, False);
    return n;
}

Bool lt_snapshot_of(struct lt_vm *vm, const HChar *name)
{
    lt_guest_forget();
    return !vm->ended && take(vm, name, False);
}

/* The mark is for what selects blocks by time: what is alive at it, the program has not released. */
static void take_at_exit(struct lt_vm *vm)
{
    take(vm, "at exit", False);
    RING_PUT(mark, .instructions = lt_ring->instructions, .name = lt_text("at exit"));
}

void lt_snapshot_at_exit(void)
{
    mention_option();
    lt_guest_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (!vm->ended)
            take_at_exit(vm);
}

UInt lt_snapshot_request(const HChar *name)
{
    UInt waiting = 0;
    mention_option();
    lt_snapshot_take_due();
    lt_guest_forget();
    VG_(strncpy)(s_due_name, name, DUE_NAME - 1);
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        waiting += !vm->ended && !take(vm, name, True);
    return waiting;
}

void lt_snapshot_try_due(struct lt_vm *vm)
{
    if (!vm->snapshot_due || !lt_ring_alive())
        return;
    lt_guest_forget();
    take(vm, s_due_name, True);
}

void lt_snapshot_take_due(void)
{
    lt_guest_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->snapshot_due && lt_ring_alive())
            take(vm, s_due_name, False);
}

void lt_snapshot_state_ends(Addr g)
{
    struct lt_vm *vm = lt_vm_with_global(g);
    if (!vm)
        return;
    lt_guest_forget();
    if (vm->snapshot_due && lt_ring_alive())
        take(vm, s_due_name, False);
    if (lt_options.snapshot_at_exit && lt_ring_alive())
        take_at_exit(vm);
    vm->ended = True;
}
