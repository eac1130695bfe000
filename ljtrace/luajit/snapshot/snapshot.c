/* snapshot.c - walk over all objects of a state, and write them and their references.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sums are checked. The bytes of all objects, computed from their contents, plus those of the internal
 * blocks, known from the allocator's calls, must equal the number of bytes that the state counts itself. If
 * they do not, the user is informed, and the snapshot contains both numbers.
 */
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

enum { MOST_ROOTS = 80 };

static uint64_t s_root[MOST_ROOTS];
static uint32_t s_roots;
static uint64_t s_bytes; /* bytes of the objects */

/* The name of the postponed snapshots. */
enum { DUE_NAME = 1024 };
TABLE(char, s_due_name, DUE_NAME);
uint32_t lt_snapshot_waiting;

static uint32_t type_of(uint32_t gct)
{
    static const uint8_t types[] = {
        [GCT_STR] = MT_TYPE_STR,     [GCT_UPVAL] = MT_TYPE_UPVAL, [GCT_THREAD] = MT_TYPE_THREAD,
        [GCT_PROTO] = MT_TYPE_PROTO, [GCT_FUNC] = MT_TYPE_FUNC,   [GCT_TRACE] = MT_TYPE_TRACE,
        [GCT_CDATA] = MT_TYPE_CDATA, [GCT_TAB] = MT_TYPE_TAB,     [GCT_UDATA] = MT_TYPE_UDATA};
    return types[gct];
}

/* Fixed strings are never collected, and objects that wait for their finaliser not before it has run. */
static bool is_root(const struct snapshot *u, uint64_t o)
{
    enum { FIXED = 0x60 };
    if (u->finalised || o == snapshot_main(u) || o == lt_vm_ref(u->vm, snapshot_main(u) + u->at->thread_env))
        return true;
    for (uint32_t i = 0; i < s_roots; i++)
        if (s_root[i] == o)
            return true;
    return lt_vm_gct(u->vm, o) == GCT_STR && program_number(o + u->at->gct - 1, 1) & FIXED;
}

/* Add an object to the sum. The main thread is a part of the state's own block. */
static void count_object(struct snapshot *u, uint64_t o)
{
    uint64_t part[2];
    object_parts(u, o, part);
    if (o != snapshot_main(u))
        lt_accounting_claim(u->vm, o);
    lt_accounting_claim(u->vm, part[0]);
    lt_accounting_claim(u->vm, part[1]);
    s_bytes += object_bytes(u, o);
}

static void write_object(struct snapshot *u, uint64_t o)
{
    bool dead = object_is_dead(u, o);
    uint32_t flags =
        type_of(lt_vm_gct(u->vm, o)) | (dead ? RAW_OBJECT_DEAD : 0) | (is_root(u, o) ? RAW_OBJECT_ROOT : 0);
    uint64_t name = dead ? 0 : snapshot_name(u, o);
    HOST_PUT(object, .flags = flags, .addr = o, .size = object_bytes(u, o), .name = name);
}

/* Objects to which garbage refers may have been freed. */
static void write_links(struct snapshot *u, uint64_t o)
{
    if (!object_is_dead(u, o))
        snapshot_links(u, o);
}

/* If the allocator's calls were not seen from the beginning, assume that the sums are right: these are the
 * bytes that remain. */
static uint64_t internal_bytes(const struct snapshot *u)
{
    uint64_t total = program_number(u->gc, u->at->ref);
    if (u->vm->counted)
        return lt_accounting_internal_bytes(u->vm);
    return total > s_bytes ? total - s_bytes : 0;
}

static void snapshot_begin(struct snapshot *u, const char *name)
{
    snapshot_roots(u, s_root, &s_roots, MOST_ROOTS);
    snapshot_begin_names(u, u->registry);
    HOST_PUT(snapshot, .heap = lt_vm_heap(u->vm), .instructions = host_time(),
             .total = program_number(u->gc, u->at->ref), .internal = internal_bytes(u),
             .name = host_text(name));
}

static bool adds_up(const struct snapshot *u)
{
    return s_bytes + internal_bytes(u) == program_number(u->gc, u->at->ref);
}

static void snapshot_check(const struct snapshot *u, const char *name, bool whole)
{
    uint64_t total = program_number(u->gc, u->at->ref), internal = internal_bytes(u);
    if (!whole)
        text_say("ljtrace: snapshot '%s': a list of objects is broken; it holds those before\n", name);
    if (!u->vm->counted)
        text_say("ljtrace: snapshot '%s': the state's allocator was not seen: "
                 "bytes in no object are not checked\n",
                 name);
    if (adds_up(u))
        return;
    text_say("ljtrace: snapshot '%s': objects of %lu bytes and %lu internal bytes are not the %lu bytes\n",
             name, s_bytes, internal, total);
    text_say("ljtrace: that the Lua state counts (%lu were allocated)\n", u->vm->live_bytes);
}

static void set_due(struct lt_vm *vm, bool due)
{
    lt_snapshot_waiting += (uint32_t)due - (uint32_t)vm->snapshot_due;
    vm->snapshot_due = due;
}

/* Take a snapshot in three walks: one for the sums, with which a snapshot begins; one for the objects, which
 * get numbers; one for the references. With may_wait, it is postponed if the lists or the sums are not
 * consistent. */
static bool take_here(struct lt_vm *vm, const char *name, bool may_wait)
{
    struct snapshot u;
    const char *wrong = snapshot_find(&u, vm);
    set_due(vm, false);
    s_bytes = 0;
    bool whole = !wrong && snapshot_walk(&u, count_object);
    if (may_wait && (!whole || !adds_up(&u))) {
        set_due(vm, true);
        return false;
    }
    if (wrong) {
        text_say("ljtrace: snapshot '%s': %s; none is taken\n", name, wrong);
        HOST_PUT(info, .key = host_text("snapshot_problem"), .value = host_text(wrong));
        return false;
    }
    vm->places_sure |= whole && adds_up(&u);
    snapshot_begin(&u, name);
    snapshot_walk(&u, write_object);
    snapshot_walk(&u, write_links);
    HOST_PUT(snapshot_end);
    snapshot_check(&u, name, whole);
    return true;
}

/* The bytes that the state counts, of a snapshot that was taken; 0 = none was. */
static uint64_t total_of(const struct lt_vm *vm)
{
    return vm->gc ? program_number(vm->gc, vm->at->ref) : 0;
}

/* The bytes of the heap of a state that is older than the recording become known by its first snapshot, and live_bytes
 * counts what comes and goes after that. So the heap is as large as the state says at the snapshot, and then as the calls of
 * the allocator say. A recording of such a state may be short, so that the next snapshots are taken when it has grown by an eighth
 * and a quarter; all others wait until it has grown by half. */
static void set_growth(struct lt_vm *vm, uint64_t total)
{
    uint64_t parts = 2;
    if (!vm->counted) {
        vm->older_bytes += total;
        parts = vm->growths == 0 ? 8 : vm->growths == 1 ? 4 : 2;
    }
    vm->grown_at = total + total / parts;
    vm->last_total = total;
}

/* Until the copy is complete, older_bytes is what has to be added to its number. */
static void await_growth(struct lt_vm *vm)
{
    vm->grown_at = 0;
    vm->older_bytes = -vm->live_bytes;
}

/* With may_wait, the snapshot is postponed if the state is busy. A copy of the process cannot postpone anything: it is only
 * made where the state is consistent. */
static bool snapshot_take(struct lt_vm *vm, const char *name, bool may_wait)
{
    lt_types_settle(vm, 0, 0);
    if (!vm->counted)
        await_growth(vm);
    host_stop_begins();
    const enum host_copy copy = host_copy_begin();
    bool taken = true;
    if (copy == HOST_COPY_TAKES)
        set_due(vm, false);
    else
        taken = take_here(vm, name, may_wait && copy == HOST_COPY_NONE);
    if (copy == HOST_COPY_IS)
        host_copy_end(vm->g, taken ? total_of(vm) : 0);
    host_stop_ends();
    if (vm->counted)
        set_growth(vm, vm->live_bytes);
    else if (copy == HOST_COPY_NONE && taken)
        set_growth(vm, total_of(vm));
    return taken;
}

/* Inform a user who wants objects although --lua=no is set. Once is enough. */
static void mention_option(void)
{
    static bool written;
    if (!luajit_options.states && !written)
        text_say("ljtrace: with --lua=no, snapshots have no objects\n");
    written = true;
}

uint32_t lt_snapshot_take(const char *name)
{
    uint32_t n = 0;
    mention_option();
    program_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        n += !vm->ended && snapshot_take(vm, name, false);
    return n;
}

bool lt_snapshot_of(struct lt_vm *vm, const char *name)
{
    program_forget();
    return !vm->ended && snapshot_take(vm, name, false);
}

/* The mark is for what selects blocks by time: what is alive at it, the program has not released. */
static void take_at_exit(struct lt_vm *vm)
{
    snapshot_take(vm, "at exit", false);
    HOST_PUT(mark, .instructions = host_time(), .name = host_text("at exit"));
}

void lt_snapshot_at_exit(void)
{
    mention_option();
    program_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (!vm->ended)
            take_at_exit(vm);
}

uint32_t lt_snapshot_request(const char *name)
{
    uint32_t waiting = 0;
    mention_option();
    lt_snapshot_take_due();
    program_forget();
    text_print(s_due_name, DUE_NAME, "%s", name);
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        waiting += !vm->ended && !snapshot_take(vm, name, true);
    return waiting;
}

void lt_snapshot_postpone(const char *name)
{
    mention_option();
    text_print(s_due_name, DUE_NAME, "%s", name);
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (!vm->ended)
            set_due(vm, true);
}

void lt_snapshot_try_due(struct lt_vm *vm)
{
    if (!vm->snapshot_due || !host_records())
        return;
    program_forget();
    snapshot_take(vm, s_due_name, true);
}

/* Has the heap grown as much since the last snapshot as set_growth says? The first one is taken of a heap that is worth
 * one. */
static bool has_grown(struct lt_vm *vm)
{
    enum { WORTH = 256 << 10 };
    if (!vm->grown_at && vm->counted)
        vm->grown_at = WORTH;
    else if (!vm->grown_at) {
        const bool runs = host_copy_runs();
        uint64_t total = 0;
        if (host_copy_result(vm->g, &total) && total)
            set_growth(vm, total);
        else if (!runs) /* the copy was killed, or could not read the state: another one is due soon */
            vm->grown_at = WORTH;
    }
    return vm->grown_at && vm->live_bytes + vm->older_bytes >= vm->grown_at;
}

void lt_snapshot_try(struct lt_vm *vm)
{
    char name[32];
    lt_snapshot_try_due(vm);
    if (!luajit_options.snapshot_growing || !has_grown(vm) || host_copy_runs() || !host_records())
        return;
    program_forget();
    text_print(name, sizeof name, "growing %u", ++vm->growths);
    snapshot_take(vm, name, false);
}

bool lt_snapshot_postpone_grown(const char *name)
{
    enum { WORTH = 64 << 10 };
    if (!luajit_options.snapshot_growing || lt_snapshot_waiting)
        return false;
    text_print(s_due_name, DUE_NAME, "%s", name);
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next) {
        has_grown(vm); /* if a copy took the last snapshot, its size becomes known */
        const uint64_t now = vm->live_bytes + vm->older_bytes;
        /* what had grown may have stopped to grow since, or have shrunk */
        const bool differs = vm->growths ? now != vm->last_total : now >= vm->last_total + WORTH;
        if (!vm->ended && vm->last_total && differs)
            set_due(vm, true);
    }
    return lt_snapshot_waiting;
}

void lt_snapshot_forget_due(void)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        set_due(vm, false);
}

void lt_snapshot_take_due(void)
{
    program_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->snapshot_due && host_records())
            snapshot_take(vm, s_due_name, false);
}

void lt_snapshot_state_ends(uint64_t g)
{
    struct lt_vm *vm = lt_vm_with_global(g);
    if (!vm)
        return;
    program_forget();
    if (vm->snapshot_due && host_records())
        snapshot_take(vm, s_due_name, false);
    if (luajit_options.snapshot_at_exit && host_records())
        take_at_exit(vm);
    vm->ended = true;
}
