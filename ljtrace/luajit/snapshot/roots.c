/* roots.c - find the lists and roots from which a snapshot starts.
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
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"

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

static uint32_t root_offset(const struct snapshot *u)
{
    return 2 * u->at->ref + 8;
}

static bool is_object(const struct snapshot *u, uint64_t o)
{
    uint32_t gct;
    if (o < 4096 || o & 3 || !program_readable(o, 16))
        return false;
    gct = lt_vm_gct(u->vm, o);
    return gct >= GCT_STR && gct <= GCT_UDATA;
}

/* -- the counters of LuaJIT's garbage collector -- */

/* The most objects that a heap of this size can contain. */
static uint64_t most_objects(uint64_t bytes)
{
    return (bytes < LARGEST ? bytes : LARGEST) / LEAST_OBJECT + 1024;
}

static bool list_holds(const struct snapshot *u, uint64_t first, uint64_t most, uint64_t wanted)
{
    uint64_t n = 0;
    for (uint64_t o = first; is_object(u, o) && n++ < most; o = lt_vm_ref(u->vm, o))
        if (o == wanted)
            return true;
    return false;
}

static bool are_counters(const struct snapshot *u, uint64_t gc)
{
    uint32_t white = (uint32_t)program_number(gc + 2 * u->at->ref, 1) & 3;
    uint32_t state = (uint32_t)program_number(gc + 2 * u->at->ref + 1, 1);
    uint64_t total = program_number(gc, u->at->ref);
    return (white == 1 || white == 2) && state <= LAST_STATE && total >= LEAST_TOTAL &&
           list_holds(u, lt_vm_ref(u->vm, gc + root_offset(u)), most_objects(total), snapshot_main(u));
}

static bool find_counters(struct snapshot *u)
{
    struct lt_vm *vm = u->vm;
    if (vm->places_sure)
        return are_counters(u, u->gc = vm->gc);
    for (uint32_t o = 0; o < SEARCHED; o += u->at->ref)
        if (are_counters(u, vm->g + o))
            return (u->gc = vm->gc = vm->g + o) != 0;
    return false;
}

/* -- the string table -- */

/* The first string of a chain. The lowest bit of the pointer says how its strings were hashed. */
static uint64_t chain(const struct snapshot *u, uint32_t i)
{
    return lt_vm_ref(u->vm, u->strings + (uint64_t)i * u->at->ref) & ~(uint64_t)1;
}

static bool strings_agree(const struct snapshot *u)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= u->string_mask; i++)
        for (uint64_t o = chain(u, i); o; o = lt_vm_ref(u->vm, o))
            if (!is_object(u, o) || lt_vm_gct(u->vm, o) != GCT_STR || n++ == u->string_count)
                return false;
    return n == u->string_count;
}

static bool is_string_table(struct snapshot *u, uint64_t at)
{
    u->strings = program_number(at, 8);
    u->string_mask = lt_vm_u32(at + 8);
    u->string_count = lt_vm_u32(at + 12);
    return u->string_mask >= LEAST_STRING_MASK && (u->string_mask & (u->string_mask + 1)) == 0 &&
           u->string_count > 0 && u->string_count <= u->limit &&
           program_readable(u->strings, ((size_t)u->string_mask + 1) * u->at->ref) && strings_agree(u);
}

static bool find_strings(struct snapshot *u)
{
    struct lt_vm *vm = u->vm;
    if (vm->places_sure)
        return is_string_table(u, vm->string_table);
    for (uint32_t o = 0; o < SEARCHED; o += 8)
        if (is_string_table(u, vm->g + o))
            return (vm->string_table = vm->g + o) != 0;
    return false;
}

/* -- the FFI's state: its fourth pointer is to the global state -- */

static void find_ctypes(struct snapshot *u)
{
    u->ctypes = 0;
    for (uint32_t o = 0; o < SEARCHED && !u->ctypes; o += u->at->ref) {
        uint64_t p = lt_vm_ref(u->vm, u->vm->g + o);
        if (p > 4096 && !(p & 7) && program_number(p + 24, 8) == u->vm->g &&
            lt_vm_u32(p + 8) <= lt_vm_u32(p + 12) && lt_vm_u32(p + 12) <= 65536)
            u->ctypes = p;
    }
}

/* -- roots -- */

static bool is_text(const struct snapshot *u, uint64_t string, const char *text)
{
    char there[16];
    size_t n = text_length(text) + 1;
    return is_object(u, string) && lt_vm_gct(u->vm, string) == GCT_STR &&
           program_read(string + u->vm->layout->string_header, there, n) && bytes_equal(there, text, n);
}

static void find_roots(struct snapshot *u)
{
    uint32_t ref = u->at->ref, end = u->vm->layout->recorder ? u->vm->layout->recorder : SEARCHED;
    u->root_count = 0;
    for (uint32_t o = 0; o < end && !u->root_count; o += ref) {
        uint64_t at = u->vm->g + o;
        if (!is_text(u, lt_vm_ref(u->vm, at), "__index") ||
            !is_text(u, lt_vm_ref(u->vm, at + ref), "__newindex"))
            continue;
        u->roots = at;
        for (uint32_t i = 0; i < MOST_ROOTS && o + i * ref < end; i++, u->root_count++) {
            uint64_t object = lt_vm_ref(u->vm, at + (uint64_t)i * ref);
            if (object && !is_object(u, object))
                break;
        }
    }
}

const char *snapshot_find(struct snapshot *u, struct lt_vm *vm)
{
    *u = (struct snapshot){.vm = vm, .at = vm->at};
    if (!find_counters(u))
        return "the collector's list of objects was not found";
    u->limit = most_objects(program_number(u->gc, u->at->ref));
    if (!find_strings(u))
        return "the string table was not found";
    find_ctypes(u);
    find_roots(u);
    return NULL;
}

/* -- the registry and the other roots in the global state -- */

static bool is_registry(const struct snapshot *u, uint64_t slot)
{
    uint32_t gct;
    uint64_t table = object_value(u, slot, &gct);
    return table && gct == GCT_TAB && is_object(u, table) && lt_vm_gct(u->vm, table) == GCT_TAB &&
           table_field(u, table, "_LOADED");
}

void snapshot_roots(struct snapshot *u, uint64_t *root, uint32_t *count, uint32_t most)
{
    uint32_t gct;
    *count = 0;
    for (uint32_t o = 0; o < SEARCHED && !u->registry; o += 8)
        if (is_registry(u, u->vm->g + o))
            root[(*count)++] = u->registry = object_value(u, u->vm->g + o, &gct);
    for (uint32_t i = 0; i < u->root_count && *count < most; i++) {
        uint64_t object = lt_vm_ref(u->vm, u->roots + (uint64_t)i * u->at->ref);
        if (object)
            root[(*count)++] = object;
    }
}

/* -- the walk -- */

static bool visit_one(struct snapshot *u, uint64_t o, object_visitor *visit)
{
    if (!is_object(u, o) || u->seen++ > u->limit)
        return false;
    visit(u, o);
    return true;
}

/* Open upvalues, which refer to a thread's stack, are in a list of that thread. */
static bool walk_open(struct snapshot *u, uint64_t thread, object_visitor *visit)
{
    for (uint64_t o = lt_vm_ref(u->vm, thread + u->at->thread_open); o; o = lt_vm_ref(u->vm, o))
        if (!visit_one(u, o, visit))
            return false;
    return true;
}

static bool walk_list(struct snapshot *u, uint64_t first, object_visitor *visit)
{
    for (uint64_t o = first; o; o = lt_vm_ref(u->vm, o)) {
        if (!visit_one(u, o, visit))
            return false;
        if (lt_vm_gct(u->vm, o) == GCT_THREAD && !walk_open(u, o, visit))
            return false;
    }
    return true;
}

static bool walk_strings(struct snapshot *u, object_visitor *visit)
{
    for (uint32_t i = 0; i <= u->string_mask; i++)
        for (uint64_t o = chain(u, i); o; o = lt_vm_ref(u->vm, o))
            if (!visit_one(u, o, visit))
                return false;
    return true;
}

/* Objects that wait for their finaliser are in a ring; the collector has a pointer to the last one. */
static bool walk_finalised(struct snapshot *u, object_visitor *visit)
{
    uint64_t last = lt_vm_ref(u->vm, u->gc + root_offset(u) + 5 * u->at->ref), o = last;
    bool whole = true;
    if (!last)
        return true;
    u->finalised = true;
    do {
        o = lt_vm_ref(u->vm, o);
        whole = visit_one(u, o, visit);
    } while (whole && o != last);
    u->finalised = false;
    return whole;
}

bool snapshot_walk(struct snapshot *u, object_visitor *visit)
{
    u->seen = 0;
    return walk_list(u, lt_vm_ref(u->vm, u->gc + root_offset(u)), visit) && walk_strings(u, visit) &&
           walk_finalised(u, visit);
}
