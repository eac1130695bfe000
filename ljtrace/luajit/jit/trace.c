/* trace.c - find the Lua lines of a trace's machine code and of the blocks that it allocates.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * How to get from a code address in a trace to a Lua line, with the files that do it:
 *
 * assembler.c maps the machine code to an intermediate instruction. If the loop optimisation made that
 * instruction, loop_copy_of and its like find the recorded instruction that it copies. recorder.c maps this to the
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
 * machine_code.c records calls of C functions from traces, and avoids translating unchanged code again.
 */
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/jit/ir.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"
#include <stdint.h>
#include <string.h>

/* -- copies of a loop -- */

/* The loop optimisation processes the recorded instructions again, in order, replaces their operands by the
 * numbers of the operands' copies, and emits the instructions that are still needed. The copies are found by
 * repeating this: each instruction after the loop's start is a copy of the next recorded instruction with the
 * same opcode, the same type and, as far as their copies are known, the same operands. An instruction that
 * was folded into something else matches none; it belongs between its neighbours. */

enum { IR_BYTES = 8, FIRST_REF = 0x8000, MAX_REFS = 0x8000, TYPE = 0x1f };
enum { COMPARISONS = 8, MIRRORED = 3 }; /* the first opcodes are <, >=, <=, >, twice */

/* An intermediate instruction, without the registers assigned to it. */
struct instruction {
    uint16_t operand[2];
    uint8_t type, opcode;
};

/* The result for the trace that was analysed last. */
struct result {
    const struct lt_vm *vm;
    uint64_t trace, code;
    uint32_t loop, end;
    uint16_t copy[MAX_REFS];     /* by recorded instruction; 0 = not known */
    uint16_t original[MAX_REFS]; /* by instruction after the loop's start; 0 = not known */
};
TABLE(struct result, s_last, 1);

static struct instruction instruction(const struct lt_ir *ir, uint32_t number)
{
    uint64_t word = program_number(ir->at + IR_BYTES * (uint64_t)number, IR_BYTES);
    return (struct instruction){
        {(uint16_t)word, (uint16_t)(word >> 16)}, word >> 32 & TYPE, (uint8_t)(word >> 40)};
}

static uint16_t copy_of(uint16_t operand)
{
    return operand > FIRST_REF ? s_last->copy[operand - FIRST_REF] : 0;
}

/* Can `copied` be the copy of the operand `recorded`? If the recorded instruction was folded, its copy may be
 * anything, even a constant. */
static bool becomes(uint16_t recorded, uint16_t copied)
{
    uint16_t copy = copy_of(recorded);
    return recorded == copied || (recorded > FIRST_REF && (!copy || copy == copied));
}

static bool become(const struct instruction *recorded, uint16_t first, uint16_t second)
{
    return becomes(recorded->operand[0], first) && becomes(recorded->operand[1], second);
}

/* Can `to` be a copy of `from`? Operands may have been swapped; then a comparison is mirrored. */
static bool is_copy(const struct instruction *from, const struct instruction *to)
{
    uint32_t changed = from->opcode < COMPARISONS ? from->opcode ^ MIRRORED : from->opcode;
    if (from->type != to->type)
        return false;
    return (from->opcode == to->opcode && become(from, to->operand[0], to->operand[1])) ||
           (changed == to->opcode && become(from, to->operand[1], to->operand[0]));
}

/* The next recorded instruction of which this may be a copy; 0 = there is none. */
static uint32_t next_original(const struct lt_ir *ir, uint32_t from, const struct instruction *copy)
{
    for (uint32_t i = from; i < s_last->loop; i++) {
        struct instruction recorded = instruction(ir, i);
        if (is_copy(&recorded, copy))
            return i;
    }
    return 0;
}

static void learn(uint16_t recorded, uint16_t copied)
{
    if (recorded > FIRST_REF && recorded != copied && !copy_of(recorded))
        s_last->copy[recorded - FIRST_REF] = copied;
}

/* Note the copies of a recorded instruction and of its operands, for the instructions that use them. */
static void learn_all(const struct lt_ir *ir, uint32_t found, uint32_t number, const struct instruction *copy)
{
    struct instruction recorded = instruction(ir, found);
    uint32_t first =
        recorded.opcode == copy->opcode && become(&recorded, copy->operand[0], copy->operand[1]) ? 0 : 1;
    learn(recorded.operand[0], copy->operand[first]);
    learn(recorded.operand[1], copy->operand[1 - first]);
    s_last->copy[found - FIRST_REF] = (uint16_t)number;
}

static void find_all(const struct lt_ir *ir)
{
    uint32_t next = FIRST_REF + 1;
    for (uint32_t i = s_last->loop + 1; i < s_last->end; i++) {
        struct instruction copy = instruction(ir, i);
        uint32_t found = next_original(ir, next, &copy);
        s_last->original[i - FIRST_REF] = (uint16_t)found;
        if (!found)
            continue;
        learn_all(ir, found, i, &copy);
        next = found + 1;
    }
}

static void look_at(const struct lt_vm *vm, const struct lt_spot *spot)
{
    struct lt_ir ir = lt_ir_of(vm, spot->trace);
    if (s_last->vm == vm && s_last->trace == spot->trace && s_last->code == spot->code)
        return;
    s_last->vm = vm;
    s_last->trace = spot->trace;
    s_last->code = spot->code;
    s_last->loop = lt_ir_loop(&ir);
    s_last->end = s_last->loop && ir.end < FIRST_REF + MAX_REFS ? ir.end : s_last->loop;
    for (uint32_t i = 0; i < MAX_REFS; i++)
        s_last->copy[i] = 0;
    if (s_last->loop)
        find_all(&ir);
}

/* The recorded instruction of which instruction `number` of a trace is a copy, or in place of whose copy it
 * was made. The same number if it was recorded itself; 0 = not known, or the loop's start. */
static uint32_t copied_from(const struct lt_vm *vm, const struct lt_spot *spot, uint32_t number)
{
    look_at(vm, spot);
    if (s_last->loop == 0 || number < s_last->loop)
        return number;
    if (number == s_last->loop || number >= s_last->end)
        return 0;
    return s_last->original[number - FIRST_REF];
}

/* -- traces -- */

enum {
    CACHE_SLOTS = 4096,
    SNAP_BYTES = 12,
    SNAP_FRAME = 0x10000,
    SNAP_CONTINUED = 0x20000,
    BASE_SLOT = 2, /* of the base of a trace, with references of 8 bytes */
    MAX_TRACES = 65536,
    MOST_SNAPSHOTS = 600,
    MAX_CALLS = 16,
    CALL_SLOTS = 1024,
    MAKER_SLOTS = 4096,
    WAYS = 4, /* in how many entries of these tables a key may be */
    MET_SLOTS = 1024,
    MET_PLACES = 8
};

/* A cache of spots, by code address. */
TABLE(struct lt_spot, s_cache, CACHE_SLOTS);
TABLE(uint64_t, s_spot_ip, CACHE_SLOTS);
/* By number: the machine code of the trace that was written into the ring. */
TABLE(uint64_t, s_written, MAX_TRACES);

static uint64_t code_of(const struct lt_vm *vm, uint64_t trace, uint32_t *bytes)
{
    *bytes = lt_vm_u32(trace + vm->at->trace_code_bytes);
    return program_number(trace + vm->at->trace_code, sizeof(uint64_t));
}

static bool is_trace(const struct lt_vm *vm, uint64_t trace, uint32_t number)
{
    return trace && lt_vm_gct(vm, trace) == GCT_TRACE &&
           program_number(trace + vm->at->trace_number, 2) == number;
}

static uint64_t trace_by_number(const struct lt_vm *vm, uint32_t number)
{
    uint64_t table = program_number(vm->g + vm->layout->traces, 8);
    return lt_vm_ref(vm, table + (uint64_t)number * vm->at->ref);
}

static uint64_t find_trace(const struct lt_vm *vm, uint64_t ip, uint32_t *number)
{
    uint32_t count = lt_vm_u32(vm->g + vm->layout->traces + 12), bytes;
    for (uint32_t n = 1; n < count && n < MAX_TRACES; n++) {
        uint64_t trace = trace_by_number(vm, n);
        if (trace && ip - code_of(vm, trace, &bytes) < bytes && is_trace(vm, trace, n)) {
            *number = n;
            return trace;
        }
    }
    return 0;
}

/* The last snapshot whose code begins at or before the offset. */
static uint64_t snapshot_at(const struct lt_vm *vm, uint64_t trace, uint32_t offset)
{
    uint32_t count = (uint32_t)program_number(trace + vm->at->trace_nsnap, 2);
    uint64_t snaps = lt_vm_ref(vm, trace + vm->at->trace_snap), found = snaps;
    for (uint32_t i = 0; i < count && i < MOST_SNAPSHOTS; i++) {
        uint64_t snap = snaps + (uint64_t)i * SNAP_BYTES;
        if (program_number(snap + 6, 2) <= offset)
            found = snap;
    }
    return found;
}

static void write_trace(const struct lt_vm *vm, const struct lt_spot *spot)
{
    uint32_t bytes;
    uint64_t code = code_of(vm, spot->trace, &bytes), pc = lt_vm_ref(vm, spot->trace + vm->at->trace_startpc);
    if (s_written[spot->number] == code)
        return;
    s_written[spot->number] = code;
    struct lt_place start = {.proto = lt_proto_holding(vm, pc), .pc = pc, .trace = spot->number};
    uint64_t key = lt_name_place(vm, &start);
    HOST_PUT(trace, .heap = lt_vm_heap(vm), .number = spot->number, .addr = code, .size = bytes,
             .instructions = host_time(), .start = key);
}

/* Is this the trace with the number, and is the address in its code? */
static bool has_code(const struct lt_vm *vm, const struct lt_spot *spot, uint64_t ip)
{
    uint32_t bytes;
    return is_trace(vm, spot->trace, spot->number) && code_of(vm, spot->trace, &bytes) == spot->code &&
           ip - spot->code < bytes;
}

/* The same for references of 8 bytes, if all fields are in memory that is known to be readable. */
static inline bool has_code_at_hand(const struct lt_spot *spot, uint64_t ip)
{
    const struct luajit_offsets *at = luajit_offsets(true);
    return *(const uint8_t *)(spot->trace + at->gct) == GCT_TRACE &&
           *(const uint16_t *)(spot->trace + at->trace_number) == spot->number &&
           *(const uint64_t *)(spot->trace + at->trace_code) == spot->code &&
           ip - spot->code < *(const uint32_t *)(spot->trace + at->trace_code_bytes);
}

static bool still_holds(const struct lt_vm *vm, const struct lt_spot *spot, uint64_t ip)
{
    const struct luajit_offsets *at = luajit_offsets(true);
    if (!spot->trace || trace_by_number(vm, spot->number) != spot->trace)
        return false;
    return vm->layout->gc64 && program_is_known(spot->trace, at->trace_number + sizeof(uint16_t))
               ? has_code_at_hand(spot, ip)
               : has_code(vm, spot, ip);
}

bool lt_trace_still(const struct lt_vm *vm, const struct lt_spot *spot)
{
    return still_holds(vm, spot, spot->ip);
}

bool lt_trace_spot(const struct lt_vm *vm, uint64_t ip, struct lt_spot *spot)
{
    uint32_t slot = lt_hash_slot(ip, 12), bytes;
    if (!vm->layout->traces)
        return false;
    spot->ip = ip;
    if (s_spot_ip[slot] == ip && still_holds(vm, &s_cache[slot], ip)) {
        *spot = s_cache[slot];
        return true;
    }
    spot->trace = find_trace(vm, ip, &spot->number);
    if (!spot->trace)
        return false;
    spot->code = code_of(vm, spot->trace, &bytes);
    spot->snap = snapshot_at(vm, spot->trace, (uint32_t)(ip - spot->code));
    s_cache[slot] = *spot;
    s_spot_ip[slot] = ip;
    write_trace(vm, spot);
    return true;
}

/* Find the state and the trace that contain a code address; NULL = none. */
static struct lt_vm *owner_of(uint64_t ip, struct lt_spot *spot)
{
    struct lt_vm *vm = lt_vm_first();
    while (vm && !lt_trace_spot(vm, ip, spot))
        vm = vm->next;
    return vm;
}

/* A constant that the snapshot has for a slot: the link of a frame (SNAP_FRAME) or the address at which a caller
 * goes on after a metamethod (SNAP_CONTINUED). 0 = there is none. */
static uint64_t slot_constant(const struct lt_vm *vm, uint64_t trace, uint64_t map, uint32_t entries,
                              uint32_t slot, uint32_t what)
{
    for (uint32_t i = 0; i < entries; i++) {
        uint32_t entry = lt_vm_u32(map + 4 * (uint64_t)i);
        if (entry >> 24 == slot && entry & what)
            return program_number(
                lt_vm_ref(vm, trace + vm->at->trace_ir) + 8 * (uint64_t)((entry & 0xffff) + 1), 8);
    }
    return 0;
}

/* A frame in a snapshot: the slot of its base, and the bytecode that it executes; 0 = it is that of a built-in
 * function such as pcall, or below the arguments of a function with a variable number of them. */
struct snapped {
    uint32_t slot;
    uint64_t pc;
    bool is_built_in;
};

/* Go to the frame below. Returns false if it is not known. Built-in functions and variable arguments leave no
 * frame of a Lua function; the function that has variable arguments has its own frame twice. */
static bool snapped_below(const struct lt_vm *vm, uint64_t trace, uint64_t map, uint32_t entries,
                          struct snapped *f)
{
    enum { BELOW_BASE = 3 /* slots, from a frame's base to the address at which its caller goes on */ };
    const uint64_t link =
        f->slot > BASE_SLOT ? slot_constant(vm, trace, map, entries, f->slot - 1, SNAP_FRAME) : 0;
    const uint64_t size = link / 8; /* slots to the base below, of a link that is no address */
    if (!link || (link & 3) == LINK_C)
        return false;
    if ((link & 3) == LINK_LUA) {
        f->pc = link - 4; /* the call */
        f->slot -= 2 + (lt_vm_u32(f->pc) >> 8 & 0xff);
        return true;
    }
    const uint64_t pc = (link & 7) == LINK_CONTINUED && f->slot >= BELOW_BASE
                            ? slot_constant(vm, trace, map, entries, f->slot - BELOW_BASE, SNAP_CONTINUED)
                            : 0;
    if (size == 0 || size + BASE_SLOT > f->slot || ((link & 7) == LINK_CONTINUED && !pc))
        return false;
    f->pc = pc ? pc - 4 : 0;
    f->is_built_in = !pc && (link & 7) != LINK_VARG;
    f->slot -= (uint32_t)size;
    return true;
}

/* The places according to the snapshot: the place of the code (approximate, since the snapshot precedes it), and
 * those of the functions inlined around it, innermost first. The last one runs at the base of the trace, unless it
 * is inlined, too: then the functions around it are not known. Returns their number. */
static uint32_t snapshot_places(const struct lt_vm *vm, const struct lt_spot *spot, struct lt_place *to,
                                uint32_t max)
{
    uint64_t map = lt_vm_ref(vm, spot->trace + vm->at->trace_snapmap) + 4 * (uint64_t)lt_vm_u32(spot->snap);
    uint32_t entries = (uint32_t)program_number(spot->snap + 10, 1), n = 0;
    uint64_t end = map + 4 * (uint64_t)entries;
    uint64_t last = program_number(end, vm->at->ref);
    bool wide = vm->layout->gc64;
    struct snapped f = {wide ? (uint32_t)(last & 0xff) + BASE_SLOT : 0, wide ? last >> 8 : last};
    do {
        uint64_t proto = f.pc ? lt_proto_holding(vm, f.pc) : 0;
        if (n == max || (f.pc && !proto))
            return n;
        if (proto) {
            to[n] = (struct lt_place){.proto = proto, .pc = f.pc, .trace = spot->number};
            to[n].of_snapshot = true;
            to[n].approximate = n == 0;
            to[n++].inlined = f.slot > BASE_SLOT;
        } else if (f.is_built_in)
            to[n - 1].by_built_in = true;
    } while (snapped_below(vm, spot->trace, map, entries, &f));
    return n;
}

/* The interpreter's state according to a snapshot: the bytecode's address and the slot of the base. */
static uint64_t snapshot_key(const struct lt_vm *vm, uint64_t trace, uint64_t snap)
{
    uint64_t map = lt_vm_ref(vm, trace + vm->at->trace_snapmap) + 4 * (uint64_t)lt_vm_u32(snap);
    return program_number(map + 4 * program_number(snap + 10, 1), vm->at->ref);
}

/* The slot of the base where a trace starts. */
static int32_t base_slot(const struct lt_vm *vm, uint64_t trace)
{
    uint64_t first = lt_vm_ref(vm, trace + vm->at->trace_snap);
    return vm->layout->gc64 ? (int32_t)(snapshot_key(vm, trace, first) & 0xff) + 2 : 1;
}

/* The places of the bytecode from which the code was recorded; 0 = not known for sure. Code around the trace
 * or around its loop belongs to the snapshot at the trace's start or end. */
static uint32_t recorded_places(const struct lt_vm *vm, const struct lt_spot *spot, bool accesses,
                                struct lt_place *to, uint32_t max)
{
    struct lt_ir ir = lt_ir_of(vm, spot->trace);
    uint32_t number = lt_asm_ref(vm, spot), n;
    if (number == LT_ASM_AROUND || (number != LT_ASM_UNKNOWN && number == lt_ir_loop(&ir))) {
        n = snapshot_places(vm, spot, to, max);
        to[0].approximate = false;
        return n;
    }
    if (number != LT_ASM_UNKNOWN)
        number = copied_from(vm, spot, accesses ? lt_ir_accessing(&ir, number) : number);
    return number ? lt_recording_of(vm, spot->number, number, base_slot(vm, spot->trace), to, max) : 0;
}

/* If the code address is in a trace, write its Lua line into the ring, else return false. */
static bool name_code(uint64_t ip, bool accesses)
{
    struct lt_spot spot;
    struct lt_place place;
    const struct lt_vm *vm = owner_of(ip, &spot);
    if (!vm ||
        (recorded_places(vm, &spot, accesses, &place, 1) == 0 && snapshot_places(vm, &spot, &place, 1) == 0))
        return false;
    lt_name_code(vm, ip, &place);
    return true;
}

bool lt_trace_name_access(uint64_t ip)
{
    return name_code(ip, true);
}

bool lt_trace_name_call(uint64_t ip)
{
    return name_code(ip, false);
}

/* -- allocations -- */

static uint32_t snapshot_ref(uint64_t snap)
{
    return (uint32_t)program_number(snap + 4, 2);
}

/* The loop optimisation repeats the recorded instructions except those that are no longer needed. Find the
 * first one recorded for the bytecode of a snapshot. Returns false if there is none. */
static bool original_of(const struct lt_vm *vm, const struct lt_spot *spot, uint64_t snap, int32_t base_slot,
                        uint32_t *first)
{
    uint64_t key = snapshot_key(vm, spot->trace, snap);
    bool wide = vm->layout->gc64;
    return lt_recording_first(vm, spot->number, wide ? key >> 8 : key,
                              wide ? (int32_t)(key & 0xff) + 2 - base_slot : 0, first);
}

/* The calls that have allocated blocks, by the snapshot in whose range they are. The code of a range runs
 * straight on, so all calls before one that is executed were seen before it. */
struct calls {
    uint64_t snap, code;
    uint32_t kind;
    uint32_t count;
    uint32_t change; /* the number of its last change */
    uint64_t ip[MAX_CALLS];
};
TABLE(struct calls, s_calls, CALL_SLOTS);
static uint32_t s_changes; /* of all entries */

/* What a call has created. */
struct maker {
    uint64_t ip, trace, code;
    uint32_t types; /* a bit for each type */
};
TABLE(struct maker, s_makers, MAKER_SLOTS);

/* Of the entries where a key may be, the one to evict. Several, since each eviction makes stacks that were kept invalid. */
static uint32_t victim(uint32_t slot)
{
    static uint32_t s_victims;
    return slot + s_victims++ % WAYS;
}

static struct maker *maker_of(const struct lt_spot *spot)
{
    const uint32_t slot = lt_hash_slot(spot->ip, 12);
    struct maker *m = NULL;
    for (uint32_t i = 0; i < WAYS && !m; i++) {
        struct maker *at = &s_makers[(slot + i) % MAKER_SLOTS];
        if (at->ip == spot->ip || !at->ip)
            m = at;
    }
    if (!m)
        m = &s_makers[victim(slot) % MAKER_SLOTS];
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

void lt_trace_made(const struct lt_spot *spot, uint32_t type)
{
    maker_of(spot)->types |= 1U << type;
}

bool lt_trace_is_sure(const struct lt_spot *spot)
{
    return makes(maker_of(spot)) != LT_MAKES_ANYTHING;
}

/* The kind of call: only calls of the same kind are counted for the rank. */
static uint32_t kind_of(const struct lt_vm *vm, const struct lt_spot *spot, size_t size)
{
    enum lt_makes made = makes(maker_of(spot));
    return 2 * made + (!made && lt_recording_is_table(vm, size));
}

/* The entry of these calls, or the one to use for them. */
static struct calls *calls_at(const struct lt_spot *spot, uint32_t kind)
{
    const uint32_t slot = lt_hash_slot(spot->snap ^ spot->code * 3 ^ (uint64_t)kind << 40, 10);
    for (uint32_t i = 0; i < WAYS; i++) {
        struct calls *c = &s_calls[(slot + i) % CALL_SLOTS];
        if ((c->snap == spot->snap && c->kind == kind) || !c->snap)
            return c;
    }
    return &s_calls[victim(slot) % CALL_SLOTS];
}

static bool are_of(const struct calls *c, const struct lt_spot *spot, uint32_t kind)
{
    return c->snap == spot->snap && c->code == spot->code && c->kind == kind;
}

static uint32_t rank_of(const struct lt_spot *spot, uint64_t ip, uint32_t kind)
{
    struct calls *c = calls_at(spot, kind);
    uint32_t rank = 0, i = 0;
    if (!are_of(c, spot, kind))
        *c = (struct calls){.snap = spot->snap, .code = spot->code, .kind = kind, .change = ++s_changes};
    while (i < c->count && c->ip[i] != ip)
        i++;
    if (i == c->count && c->count < MAX_CALLS)
        c->ip[c->count++] = ip, c->change = ++s_changes;
    for (i = 0; i < c->count; i++)
        rank += c->ip[i] < ip;
    return rank;
}

uint64_t lt_trace_version(const struct lt_vm *vm, const struct lt_spot *spot, size_t size)
{
    const uint32_t recording = lt_recording_version(vm, spot->number);
    if (!size)
        return (uint64_t)recording << 32;
    const uint32_t kind = kind_of(vm, spot, size);
    const struct calls *c = calls_at(spot, kind);
    return (uint64_t)recording << 32 | (are_of(c, spot, kind) ? c->change << 4 : 0) | kind;
}

static uint32_t find_allocation(const struct lt_vm *vm, const struct lt_spot *spot, size_t size,
                                struct lt_place *to, uint32_t max)
{
    uint64_t snaps = lt_vm_ref(vm, spot->trace + vm->at->trace_snap), next = spot->snap + SNAP_BYTES;
    uint64_t end = snaps + SNAP_BYTES * program_number(spot->trace + vm->at->trace_nsnap, 2);
    uint32_t recorded = lt_recording_end(vm, spot->number);
    struct lt_wanted wanted = {.trace = spot->number, .from = snapshot_ref(spot->snap), .size = size};
    wanted.to = next < end ? snapshot_ref(next) : 0xffffffff;
    wanted.ir = lt_ir_of(vm, spot->trace);
    wanted.makes = makes(maker_of(spot));
    wanted.rank = rank_of(spot, spot->ip, kind_of(vm, spot, size));
    wanted.base_slot = base_slot(vm, spot->trace);
    if (wanted.from >= recorded && spot->snap > snaps) {
        uint32_t following;
        bool is_last = next >= end || !original_of(vm, spot, next, wanted.base_slot, &following);
        if (!original_of(vm, spot, spot->snap, wanted.base_slot, &wanted.from))
            return snapshot_places(vm, spot, to, max);
        wanted.to = is_last || following <= wanted.from ? 0xffffffff : following;
    }
    uint32_t n = lt_recording_places(vm, &wanted, to, max);
    return n ? n : snapshot_places(vm, spot, to, max);
}

/* A cache of allocations. Its version changes with new calls in the range, with recordings and with freed
 * prototypes. */
struct met {
    struct lt_spot spot;
    const struct lt_vm *vm;
    size_t size;
    uint64_t version;
    uint32_t places, count;
    struct lt_place place[MET_PLACES];
};
TABLE(struct met, s_met, MET_SLOTS);

static bool holds(const struct met *m, const struct lt_vm *vm, const struct lt_spot *spot, size_t size)
{
    return m->spot.ip == spot->ip && m->size == size && m->spot.trace == spot->trace &&
           m->spot.code == spot->code && m->spot.snap == spot->snap && m->vm == vm &&
           m->version == lt_trace_version(vm, spot, size) && m->places == lt_places_generation();
}

uint32_t lt_trace_allocation(const struct lt_vm *vm, const struct lt_spot *spot, size_t size,
                             struct lt_place *to, uint32_t max)
{
    struct met *m = &s_met[lt_hash_slot(spot->ip ^ size << 20, 10)];
    if (!holds(m, vm, spot, size)) {
        uint32_t n = recorded_places(vm, spot, false, to, max);
        if (n == 0)
            n = size ? find_allocation(vm, spot, size, to, max) : snapshot_places(vm, spot, to, max);
        if (n > MET_PLACES)
            return n;
        *m = (struct met){.spot = *spot, .vm = vm, .size = size, .count = n};
        m->version = lt_trace_version(vm, spot, size);
        m->places = lt_places_generation();
        for (uint32_t i = 0; i < n; i++)
            m->place[i] = to[i];
    }
    for (uint32_t i = 0; i < m->count && i < max; i++)
        to[i] = m->place[i];
    return m->count < max ? m->count : max;
}

void lt_traces_forget(void)
{
    memset(s_written, 0, TABLE_BYTES(s_written));
    memset(s_spot_ip, 0, TABLE_BYTES(s_spot_ip));
}
