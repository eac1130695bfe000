/* roots.c - find the lists and roots from which a snapshot starts. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * In all builds the collector's counters have the same structure, but not the same offset in the global
 * state. This is also true of the string table, the FFI's state and the roots. Each of them is found by a
 * property that nothing else has: the list of all objects contains the main thread; the string table contains
 * as many strings as it counts; the FFI's state points back to the global state; the names of metamethods
 * begin with __index.
 *
 * The offsets are searched for at each snapshot until the sums of one were right. After that they are only
 * checked: if something is wrong then, the state is not consistent at this moment.
 */
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "pub_tool_libcbase.h"

enum {
    SEARCHED = 1024,
    LEAST_TOTAL = 2048,
    LAST_STATE = 8,
    LEAST_STRING_MASK = 31,
    MOST_ROOTS = 64,
    LEAST_OBJECT = 16
};
/* The most bytes of a heap. This limits the time of the walks if the number read is wrong. */
#define LARGEST (1ULL << 36)

static UInt root_offset(const struct snapshot *u)
{
    return 2 * u->at->ref + 8;
}

static Bool is_object(const struct snapshot *u, Addr o)
{
    UInt gct;
    if (o < 4096 || o & 3 || !lt_guest_readable(o, 16))
        return False;
    gct = lt_vm_gct(u->vm, o);
    return gct >= GCT_STR && gct <= GCT_UDATA;
}

/* -- the counters of LuaJIT's garbage collector -- */

/* The most objects that a heap of this size can contain. */
static ULong most_objects(ULong bytes)
{
    return (bytes < LARGEST ? bytes : LARGEST) / LEAST_OBJECT + 1024;
}

static Bool list_holds(const struct snapshot *u, Addr first, ULong most, Addr wanted)
{
    ULong n = 0;
    for (Addr o = first; is_object(u, o) && n++ < most; o = lt_vm_ref(u->vm, o))
        if (o == wanted)
            return True;
    return False;
}

static Bool are_counters(const struct snapshot *u, Addr gc)
{
    UInt white = (UInt)lt_guest_number(gc + 2 * u->at->ref, 1) & 3;
    UInt state = (UInt)lt_guest_number(gc + 2 * u->at->ref + 1, 1);
    ULong total = lt_guest_number(gc, u->at->ref);
    return (white == 1 || white == 2) && state <= LAST_STATE && total >= LEAST_TOTAL &&
           list_holds(u, lt_vm_ref(u->vm, gc + root_offset(u)), most_objects(total), snapshot_main(u));
}

static Bool find_counters(struct snapshot *u)
{
    struct lt_vm *vm = u->vm;
    if (vm->places_sure)
        return are_counters(u, u->gc = vm->gc);
    for (UInt o = 0; o < SEARCHED; o += u->at->ref)
        if (are_counters(u, vm->g + o))
            return (u->gc = vm->gc = vm->g + o) != 0;
    return False;
}

/* -- the string table -- */

/* The first string of a chain. The lowest bit of the pointer says how its strings were hashed. */
static Addr chain(const struct snapshot *u, UInt i)
{
    return lt_vm_ref(u->vm, u->strings + (Addr)i * u->at->ref) & ~(Addr)1;
}

static Bool strings_agree(const struct snapshot *u)
{
    UInt n = 0;
    for (UInt i = 0; i <= u->string_mask; i++)
        for (Addr o = chain(u, i); o; o = lt_vm_ref(u->vm, o))
            if (!is_object(u, o) || lt_vm_gct(u->vm, o) != GCT_STR || n++ == u->string_count)
                return False;
    return n == u->string_count;
}

static Bool is_string_table(struct snapshot *u, Addr at)
{
    u->strings = lt_guest_number(at, 8);
    u->string_mask = lt_vm_u32(at + 8);
    u->string_count = lt_vm_u32(at + 12);
    return u->string_mask >= LEAST_STRING_MASK && (u->string_mask & (u->string_mask + 1)) == 0 &&
           u->string_count > 0 && u->string_count <= u->limit &&
           lt_guest_readable(u->strings, ((SizeT)u->string_mask + 1) * u->at->ref) && strings_agree(u);
}

static Bool find_strings(struct snapshot *u)
{
    struct lt_vm *vm = u->vm;
    if (vm->places_sure)
        return is_string_table(u, vm->string_table);
    for (UInt o = 0; o < SEARCHED; o += 8)
        if (is_string_table(u, vm->g + o))
            return (vm->string_table = vm->g + o) != 0;
    return False;
}

/* -- the FFI's state: its fourth pointer is to the global state -- */

static void find_ctypes(struct snapshot *u)
{
    u->ctypes = 0;
    for (UInt o = 0; o < SEARCHED && !u->ctypes; o += u->at->ref) {
        Addr p = lt_vm_ref(u->vm, u->vm->g + o);
        if (p > 4096 && !(p & 7) && lt_guest_number(p + 24, 8) == u->vm->g &&
            lt_vm_u32(p + 8) <= lt_vm_u32(p + 12) && lt_vm_u32(p + 12) <= 65536)
            u->ctypes = p;
    }
}

/* -- roots -- */

static Bool is_text(const struct snapshot *u, Addr string, const HChar *text)
{
    HChar there[16];
    SizeT n = VG_(strlen)(text) + 1;
    return is_object(u, string) && lt_vm_gct(u->vm, string) == GCT_STR &&
           lt_guest_read(string + u->vm->layout->string_header, there, n) && VG_(memcmp)(there, text, n) == 0;
}

static void find_roots(struct snapshot *u)
{
    UInt ref = u->at->ref, end = u->vm->layout->recorder ? u->vm->layout->recorder : SEARCHED;
    u->root_count = 0;
    for (UInt o = 0; o < end && !u->root_count; o += ref) {
        Addr at = u->vm->g + o;
        if (!is_text(u, lt_vm_ref(u->vm, at), "__index") ||
            !is_text(u, lt_vm_ref(u->vm, at + ref), "__newindex"))
            continue;
        u->roots = at;
        for (UInt i = 0; i < MOST_ROOTS && o + i * ref < end; i++, u->root_count++) {
            Addr object = lt_vm_ref(u->vm, at + (Addr)i * ref);
            if (object && !is_object(u, object))
                break;
        }
    }
}

const HChar *snapshot_find(struct snapshot *u, struct lt_vm *vm)
{
    *u = (struct snapshot){.vm = vm, .at = vm->at};
    if (!find_counters(u))
        return "the collector's list of objects was not found";
    u->limit = most_objects(lt_guest_number(u->gc, u->at->ref));
    if (!find_strings(u))
        return "the string table was not found";
    find_ctypes(u);
    find_roots(u);
    return NULL;
}

/* -- the registry and the other roots in the global state -- */

static Bool is_registry(const struct snapshot *u, Addr slot)
{
    UInt gct;
    Addr table = object_value(u, slot, &gct);
    return table && gct == GCT_TAB && is_object(u, table) && lt_vm_gct(u->vm, table) == GCT_TAB &&
           table_field(u, table, "_LOADED");
}

void snapshot_roots(struct snapshot *u, Addr *root, UInt *count, UInt most)
{
    UInt gct;
    *count = 0;
    for (UInt o = 0; o < SEARCHED && !u->registry; o += 8)
        if (is_registry(u, u->vm->g + o))
            root[(*count)++] = u->registry = object_value(u, u->vm->g + o, &gct);
    for (UInt i = 0; i < u->root_count && *count < most; i++) {
        Addr object = lt_vm_ref(u->vm, u->roots + (Addr)i * u->at->ref);
        if (object)
            root[(*count)++] = object;
    }
}

/* -- the walk -- */

static Bool visit_one(struct snapshot *u, Addr o, object_visitor *visit)
{
    if (!is_object(u, o) || u->seen++ > u->limit)
        return False;
    visit(u, o);
    return True;
}

/* Open upvalues, which refer to a thread's stack, are in a list of that thread. */
static Bool walk_open(struct snapshot *u, Addr thread, object_visitor *visit)
{
    for (Addr o = lt_vm_ref(u->vm, thread + u->at->thread_open); o; o = lt_vm_ref(u->vm, o))
        if (!visit_one(u, o, visit))
            return False;
    return True;
}

static Bool walk_list(struct snapshot *u, Addr first, object_visitor *visit)
{
    for (Addr o = first; o; o = lt_vm_ref(u->vm, o)) {
        if (!visit_one(u, o, visit))
            return False;
        if (lt_vm_gct(u->vm, o) == GCT_THREAD && !walk_open(u, o, visit))
            return False;
    }
    return True;
}

static Bool walk_strings(struct snapshot *u, object_visitor *visit)
{
    for (UInt i = 0; i <= u->string_mask; i++)
        for (Addr o = chain(u, i); o; o = lt_vm_ref(u->vm, o))
            if (!visit_one(u, o, visit))
                return False;
    return True;
}

/* Objects that wait for their finaliser are in a ring; the collector has a pointer to the last one. */
static Bool walk_finalised(struct snapshot *u, object_visitor *visit)
{
    Addr last = lt_vm_ref(u->vm, u->gc + root_offset(u) + 5 * u->at->ref), o = last;
    Bool whole = True;
    if (!last)
        return True;
    u->finalised = True;
    do {
        o = lt_vm_ref(u->vm, o);
        whole = visit_one(u, o, visit);
    } while (whole && o != last);
    u->finalised = False;
    return whole;
}

Bool snapshot_walk(struct snapshot *u, object_visitor *visit)
{
    u->seen = 0;
    return walk_list(u, lt_vm_ref(u->vm, u->gc + root_offset(u)), visit) && walk_strings(u, visit) &&
           walk_finalised(u, visit);
}
