/* trace.c - find the Lua lines of a trace's machine code and of the blocks that it allocates. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * How to get from a code address in a trace to a Lua line, with the files that do it:
 *
 * assembler.c maps the machine code to an intermediate instruction. If the loop optimisation made that
 * instruction, loop_copies.c finds the recorded instruction that it copies. recorder.c maps this to the
 * bytecode it was recorded from, and so to its line and the functions inlined around it. recorded_places,
 * here, is this sequence. ir.c helps where one instruction contains the load of another.
 *
 * If the assembler was not observed (the build has another layout, or the trace is older than the recording),
 * two things are left. For an allocation, find_allocation searches the recorded steps near the code for a
 * bytecode that creates such a block; ir.c counts those that create strings. Otherwise the line is that of
 * the trace's last snapshot before the code, which is approximate: a trace has a snapshot of the
 * interpreter's state at each of its guards, with an offset in the machine code, the address of the bytecode
 * and the frames of inlined functions.
 *
 * calls.c records calls of C functions from traces; machine_code.c avoids translating unchanged code again.
 */
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/jit/loop_copies.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/ring/records.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"

enum {
    CACHE_SLOTS = 4096,
    SNAP_BYTES = 12,
    SNAP_FRAME = 0x10000,
    MAX_TRACES = 65536,
    MOST_SNAPSHOTS = 600,
    MAX_CALLS = 16,
    CALL_SLOTS = 1024,
    MAKER_SLOTS = 4096,
    MET_SLOTS = 1024,
    MET_PLACES = 8
};

/* A cache of spots, by code address. */
TABLE(struct lt_spot, s_cache, CACHE_SLOTS);
TABLE(Addr, s_spot_ip, CACHE_SLOTS);
/* By number: the machine code of the trace that was written into the ring. */
TABLE(Addr, s_written, MAX_TRACES);

static Addr code_of(const struct lt_vm *vm, Addr trace, UInt *bytes)
{
    *bytes = lt_vm_u32(trace + vm->at->trace_code_bytes);
    return lt_guest_number(trace + vm->at->trace_code, sizeof(Addr));
}

static Bool is_trace(const struct lt_vm *vm, Addr trace, UInt number)
{
    return trace && lt_vm_gct(vm, trace) == GCT_TRACE &&
           lt_guest_number(trace + vm->at->trace_number, 2) == number;
}

static Addr trace_by_number(const struct lt_vm *vm, UInt number)
{
    Addr table = lt_guest_number(vm->g + vm->layout->traces, 8);
    return lt_vm_ref(vm, table + (Addr)number * vm->at->ref);
}

static Addr find_trace(const struct lt_vm *vm, Addr ip, UInt *number)
{
    UInt count = lt_vm_u32(vm->g + vm->layout->traces + 12), bytes;
    for (UInt n = 1; n < count && n < MAX_TRACES; n++) {
        Addr trace = trace_by_number(vm, n);
        if (trace && ip - code_of(vm, trace, &bytes) < bytes && is_trace(vm, trace, n)) {
            *number = n;
            return trace;
        }
    }
    return 0;
}

/* The last snapshot whose code begins at or before the offset. */
static Addr snapshot_at(const struct lt_vm *vm, Addr trace, UInt offset)
{
    UInt count = (UInt)lt_guest_number(trace + vm->at->trace_nsnap, 2);
    Addr snaps = lt_vm_ref(vm, trace + vm->at->trace_snap), found = snaps;
    for (UInt i = 0; i < count && i < MOST_SNAPSHOTS; i++) {
        Addr snap = snaps + (Addr)i * SNAP_BYTES;
        if (lt_guest_number(snap + 6, 2) <= offset)
            found = snap;
    }
    return found;
}

static void write_trace(const struct lt_vm *vm, const struct lt_spot *spot)
{
    UInt bytes;
    Addr code = code_of(vm, spot->trace, &bytes), pc = lt_vm_ref(vm, spot->trace + vm->at->trace_startpc);
    if (s_written[spot->number] == code)
        return;
    s_written[spot->number] = code;
    struct lt_place start = {.proto = lt_proto_holding(vm, pc), .pc = pc, .trace = spot->number};
    Addr key = lt_name_place(vm, &start);
    RING_PUT(trace, .heap = lt_vm_heap(vm), .number = spot->number, .addr = code, .size = bytes,
             .instructions = lt_ring->instructions, .start = key);
}

static Bool still_holds(const struct lt_vm *vm, const struct lt_spot *spot, Addr ip)
{
    UInt bytes;
    return spot->trace && trace_by_number(vm, spot->number) == spot->trace &&
           is_trace(vm, spot->trace, spot->number) && code_of(vm, spot->trace, &bytes) == spot->code &&
           ip - spot->code < bytes;
}

Bool lt_trace_still(const struct lt_vm *vm, const struct lt_spot *spot)
{
    return still_holds(vm, spot, spot->ip);
}

Bool lt_trace_spot(const struct lt_vm *vm, Addr ip, struct lt_spot *spot)
{
    UInt slot = lt_hash_slot(ip, 12), bytes;
    if (!vm->layout->traces)
        return False;
    spot->ip = ip;
    if (s_spot_ip[slot] == ip && still_holds(vm, &s_cache[slot], ip)) {
        *spot = s_cache[slot];
        return True;
    }
    spot->trace = find_trace(vm, ip, &spot->number);
    if (!spot->trace)
        return False;
    spot->code = code_of(vm, spot->trace, &bytes);
    spot->snap = snapshot_at(vm, spot->trace, (UInt)(ip - spot->code));
    s_cache[slot] = *spot;
    s_spot_ip[slot] = ip;
    write_trace(vm, spot);
    return True;
}

/* Find the state and the trace that contain a code address; NULL = none. */
static struct lt_vm *owner_of(Addr ip, struct lt_spot *spot)
{
    struct lt_vm *vm = lt_vm_first();
    while (vm && !lt_trace_spot(vm, ip, spot))
        vm = vm->next;
    return vm;
}

/* The link of the frame below a slot. The snapshot has it as a constant in the slot before. 0 = there is
 * none. */
static ULong frame_link(const struct lt_vm *vm, Addr trace, Addr map, UInt entries, UInt slot)
{
    for (UInt i = 0; i < entries; i++) {
        UInt entry = lt_vm_u32(map + 4 * (Addr)i);
        if (entry >> 24 == slot && entry & SNAP_FRAME)
            return lt_guest_number(lt_vm_ref(vm, trace + vm->at->trace_ir) + 8 * (Addr)((entry & 0xffff) + 1),
                                   8);
    }
    return 0;
}

/* The places according to the snapshot: the place of the code (approximate, since the snapshot precedes it),
 * and those of the functions inlined around it, innermost first. The last one runs at the base of the trace.
 * Returns their number. */
static UInt snapshot_places(const struct lt_vm *vm, const struct lt_spot *spot, struct lt_place *to, UInt max)
{
    Addr map = lt_vm_ref(vm, spot->trace + vm->at->trace_snapmap) + 4 * (Addr)lt_vm_u32(spot->snap);
    UInt entries = (UInt)lt_guest_number(spot->snap + 10, 1), n = 0;
    Addr end = map + 4 * (Addr)entries;
    ULong last = lt_guest_number(end, vm->at->ref);
    Bool wide = vm->layout->gc64;
    UInt slot = wide ? (UInt)(last & 0xff) + 2 : 0; /* 2: the base of the trace */
    Addr pc = wide ? last >> 8 : last;
    for (;;) {
        Addr proto = lt_proto_holding(vm, pc);
        if (n == max || !proto)
            return n;
        to[n] = (struct lt_place){.proto = proto, .pc = pc, .trace = spot->number, .approximate = n == 0};
        n++;
        ULong link = slot > 2 ? frame_link(vm, spot->trace, map, entries, slot - 1) : 0;
        if (link == 0 || link & 3)
            return n;
        to[n - 1].inlined = True;
        pc = link - 4; /* the call */
        slot -= 2 + (lt_vm_u32(pc) >> 8 & 0xff);
    }
}

/* The interpreter's state according to a snapshot: the bytecode's address and the slot of the base. */
static ULong snapshot_key(const struct lt_vm *vm, Addr trace, Addr snap)
{
    Addr map = lt_vm_ref(vm, trace + vm->at->trace_snapmap) + 4 * (Addr)lt_vm_u32(snap);
    return lt_guest_number(map + 4 * lt_guest_number(snap + 10, 1), vm->at->ref);
}

/* The slot of the base where a trace starts. */
static Int base_slot(const struct lt_vm *vm, Addr trace)
{
    Addr first = lt_vm_ref(vm, trace + vm->at->trace_snap);
    return vm->layout->gc64 ? (Int)(snapshot_key(vm, trace, first) & 0xff) + 2 : 1;
}

/* The places of the bytecode from which the code was recorded; 0 = not known for sure. Code around the trace
 * or around its loop belongs to the snapshot at the trace's start or end. */
static UInt recorded_places(const struct lt_vm *vm, const struct lt_spot *spot, Bool accesses,
                            struct lt_place *to, UInt max)
{
    struct lt_ir ir = lt_ir_of(vm, spot->trace);
    UInt number = lt_asm_ref(vm, spot), n;
    if (number == LT_ASM_AROUND || (number != LT_ASM_UNKNOWN && number == lt_ir_loop(&ir))) {
        n = snapshot_places(vm, spot, to, max);
        to[0].approximate = False;
        return n;
    }
    if (number != LT_ASM_UNKNOWN)
        number = lt_copied_from(vm, spot, accesses ? lt_ir_accessing(&ir, number) : number);
    return number ? lt_recording_of(vm, spot->number, number, base_slot(vm, spot->trace), to, max) : 0;
}

/* If the code address is in a trace, write its Lua line into the ring, else return false. */
static Bool name_code(Addr ip, Bool accesses)
{
    struct lt_spot spot;
    struct lt_place place;
    const struct lt_vm *vm = owner_of(ip, &spot);
    if (!vm ||
        (recorded_places(vm, &spot, accesses, &place, 1) == 0 && snapshot_places(vm, &spot, &place, 1) == 0))
        return False;
    lt_name_code(vm, ip, &place);
    return True;
}

static Bool name_access(Addr ip)
{
    return name_code(ip, True);
}

Bool lt_trace_name_call(Addr ip)
{
    return name_code(ip, False);
}

/* -- allocations -- */

static UInt snapshot_ref(Addr snap)
{
    return (UInt)lt_guest_number(snap + 4, 2);
}

/* The loop optimisation repeats the recorded instructions except those that are no longer needed. Find the
 * first one recorded for the bytecode of a snapshot. Returns false if there is none. */
static Bool original_of(const struct lt_vm *vm, const struct lt_spot *spot, Addr snap, Int base_slot,
                        UInt *first)
{
    ULong key = snapshot_key(vm, spot->trace, snap);
    Bool wide = vm->layout->gc64;
    return lt_recording_first(vm, spot->number, wide ? key >> 8 : key,
                              wide ? (Int)(key & 0xff) + 2 - base_slot : 0, first);
}

/* The calls that have allocated blocks, by the snapshot in whose range they are. The code of a range runs
 * straight on, so all calls before one that is executed were seen before it. */
struct calls {
    Addr snap, code;
    UInt kind;
    UInt count;
    UInt changes; /* of this entry, whatever was in it */
    Addr ip[MAX_CALLS];
};
TABLE(struct calls, s_calls, CALL_SLOTS);

/* What a call has created. */
struct maker {
    Addr ip, trace, code;
    UInt types; /* a bit for each type */
};
TABLE(struct maker, s_makers, MAKER_SLOTS);

static struct maker *maker_of(const struct lt_spot *spot)
{
    struct maker *m = &s_makers[lt_hash_slot(spot->ip, 12)];
    if (m->ip != spot->ip || m->trace != spot->trace || m->code != spot->code)
        *m = (struct maker){.ip = spot->ip, .trace = spot->trace, .code = spot->code};
    return m;
}

static enum lt_makes makes(const struct maker *m)
{
    if (m->types & 1U << MT_TYPE_TAB)
        return LT_MAKES_TABLES;
    if (m->types & (1U << MT_TYPE_TAB_ARRAY | 1U << MT_TYPE_TAB_HASH))
        return LT_MAKES_ROOM;
    if (m->types & 1U << MT_TYPE_STR)
        return LT_MAKES_STRINGS;
    return m->types & 1U << MT_TYPE_FUNC ? LT_MAKES_FUNCTIONS : LT_MAKES_ANYTHING;
}

void lt_trace_made(const struct lt_spot *spot, UInt type)
{
    maker_of(spot)->types |= 1U << type;
}

Bool lt_trace_is_sure(const struct lt_spot *spot)
{
    return makes(maker_of(spot)) != LT_MAKES_ANYTHING;
}

/* The kind of call: only calls of the same kind are counted for the rank. */
static UInt kind_of(const struct lt_vm *vm, const struct lt_spot *spot, SizeT size)
{
    enum lt_makes made = makes(maker_of(spot));
    return 2 * made + (!made && lt_recording_is_table(vm, size));
}

static struct calls *calls_at(const struct lt_spot *spot, UInt kind)
{
    return &s_calls[lt_hash_slot(spot->snap ^ spot->code * 3 ^ (Addr)kind << 40, 10)];
}

static UInt rank_of(const struct lt_spot *spot, Addr ip, UInt kind)
{
    struct calls *c = calls_at(spot, kind);
    UInt rank = 0, i = 0;
    if (c->snap != spot->snap || c->code != spot->code || c->kind != kind)
        *c = (struct calls){.snap = spot->snap, .code = spot->code, .kind = kind, .changes = c->changes + 1};
    while (i < c->count && c->ip[i] != ip)
        i++;
    if (i == c->count && c->count < MAX_CALLS)
        c->ip[c->count++] = ip, c->changes++;
    for (i = 0; i < c->count; i++)
        rank += c->ip[i] < ip;
    return rank;
}

ULong lt_trace_version(const struct lt_vm *vm, const struct lt_spot *spot, SizeT size)
{
    UInt recording = lt_recording_version(vm, spot->number), kind = size ? kind_of(vm, spot, size) : 0;
    return (ULong)recording << 32 | (size ? calls_at(spot, kind)->changes << 4 | kind : 0);
}

static UInt find_allocation(const struct lt_vm *vm, const struct lt_spot *spot, SizeT size,
                            struct lt_place *to, UInt max)
{
    Addr snaps = lt_vm_ref(vm, spot->trace + vm->at->trace_snap), next = spot->snap + SNAP_BYTES;
    Addr end = snaps + SNAP_BYTES * lt_guest_number(spot->trace + vm->at->trace_nsnap, 2);
    UInt recorded = lt_recording_end(vm, spot->number);
    struct lt_wanted wanted = {.trace = spot->number, .from = snapshot_ref(spot->snap), .size = size};
    wanted.to = next < end ? snapshot_ref(next) : 0xffffffff;
    wanted.ir = lt_ir_of(vm, spot->trace);
    wanted.makes = makes(maker_of(spot));
    wanted.rank = rank_of(spot, spot->ip, kind_of(vm, spot, size));
    wanted.base_slot = base_slot(vm, spot->trace);
    if (wanted.from >= recorded && spot->snap > snaps) {
        UInt following;
        Bool is_last = next >= end || !original_of(vm, spot, next, wanted.base_slot, &following);
        if (!original_of(vm, spot, spot->snap, wanted.base_slot, &wanted.from))
            return snapshot_places(vm, spot, to, max);
        wanted.to = is_last || following <= wanted.from ? 0xffffffff : following;
    }
    UInt n = lt_recording_places(vm, &wanted, to, max);
    return n ? n : snapshot_places(vm, spot, to, max);
}

/* A cache of allocations. Its version changes with new calls in the range, with recordings and with freed
 * prototypes. */
struct met {
    struct lt_spot spot;
    const struct lt_vm *vm;
    SizeT size;
    ULong version;
    UInt places, count;
    struct lt_place place[MET_PLACES];
};
TABLE(struct met, s_met, MET_SLOTS);

static Bool holds(const struct met *m, const struct lt_vm *vm, const struct lt_spot *spot, SizeT size)
{
    return m->spot.ip == spot->ip && m->size == size && m->spot.trace == spot->trace &&
           m->spot.code == spot->code && m->spot.snap == spot->snap && m->vm == vm &&
           m->version == lt_trace_version(vm, spot, size) && m->places == lt_places_generation();
}

UInt lt_trace_allocation(const struct lt_vm *vm, const struct lt_spot *spot, SizeT size, struct lt_place *to,
                         UInt max)
{
    struct met *m = &s_met[lt_hash_slot(spot->ip ^ size << 20, 10)];
    if (!holds(m, vm, spot, size)) {
        UInt n = recorded_places(vm, spot, False, to, max);
        if (n == 0)
            n = size ? find_allocation(vm, spot, size, to, max) : snapshot_places(vm, spot, to, max);
        if (n > MET_PLACES)
            return n;
        *m = (struct met){.spot = *spot, .vm = vm, .size = size, .count = n};
        m->version = lt_trace_version(vm, spot, size);
        m->places = lt_places_generation();
        for (UInt i = 0; i < n; i++)
            m->place[i] = to[i];
    }
    for (UInt i = 0; i < m->count && i < max; i++)
        to[i] = m->place[i];
    return m->count < max ? m->count : max;
}

void lt_traces_forget(void)
{
    VG_(memset)(s_written, 0, TABLE_BYTES(s_written));
    VG_(memset)(s_spot_ip, 0, TABLE_BYTES(s_spot_ip));
}

void lt_trace_init(void)
{
    lt_run_time_code_named_by(name_access);
}
