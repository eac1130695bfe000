/* vmstate.c - watch the words with the states of the VMs, and record their changes. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/luajit/vmstate.h"
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/records.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"

enum { MAX_DISPLACEMENTS = 8 };
/* The number of calls for stores of constants to a state's word, from which displacements are learned. */
enum { LESSONS = 1000 };
/* The states that generated code writes into the ring itself: all traces, and LuaJIT's first few states,
 * which include all frequent ones. */
enum { PLAIN_STATES = 4, MAX_TRACE = 65535 };

UChar lt_watch_table[LT_WATCH_SLOTS];

static Long s_displacements[MAX_DISPLACEMENTS]; /* of stores to a state's word */

static Addr state_word(const struct lt_vm *vm)
{
    return vm->g + vm->layout->vmstate;
}

static Addr recorder_word(const struct lt_vm *vm)
{
    return vm->layout->recorder ? vm->g + vm->layout->recorder + vm->at->recorder_pc : 0;
}

static void mark(Addr a, UChar how)
{
    lt_watch_table[a >> 2 & (LT_WATCH_SLOTS - 1)] |= how;
}

static void write_state(struct lt_vm *vm)
{
    vm->unreported = False;
    lt_ring_put_state(state_word(vm), (Int)lt_vm_u32(state_word(vm)));
}

static void write_states(void)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->unreported)
            write_state(vm);
}

static Bool is_any_assembling(void)
{
    const struct lt_vm *vm = lt_vm_first();
    while (vm && !vm->assembling)
        vm = vm->next;
    return vm != NULL;
}

/* Does the tool have to see all stores of constants to the state? It has to while it learns, and if one of
 * these constants means the assembler. */
static Bool must_see(const struct lt_vm *vm)
{
    Bool assembler = False;
    for (UInt i = 0; i < PLAIN_STATES; i++)
        assembler |= vm->layout->vm[i] == MT_VM_ASM;
    return assembler || vm->stores < LESSONS;
}

static void watch(const struct lt_vm *vm)
{
    if (lt_options.lua_states)
        mark(state_word(vm), must_see(vm) ? LT_WATCH_HIT | LT_WATCH_CALLS : LT_WATCH_HIT);
    if (recorder_word(vm))
        mark(recorder_word(vm), LT_WATCH_HIT);
}

/* Rebuild the table. */
static void watch_all(void)
{
    VG_(memset)(lt_watch_table, is_any_assembling() ? LT_WATCH_CALLS : 0, sizeof lt_watch_table);
    for (const struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        watch(vm);
}

/* Notice when the VM begins or ends to assemble. It is not known where the assembler keeps its count before
 * it stores to it, so all stores are looked up while it assembles. */
static void note_assembly(struct lt_vm *vm)
{
    Bool now = lt_machine_state(vm) == MT_VM_ASM;
    if (now == vm->assembling || !vm->layout->recorder)
        return;
    vm->assembling = now;
    if (now) {
        lt_recording_done(vm);
        lt_asm_begin(vm);
    } else {
        lt_asm_end(vm);
    }
    watch_all();
}

static void note_state(struct lt_vm *vm)
{
    note_assembly(vm);
    if (vm->stores < LESSONS && ++vm->stores == LESSONS)
        watch_all();
    vm->unreported = True;
    if (lt_options.trace_mem)
        lt_ring_call_back(write_states);
    else
        write_state(vm);
}

void lt_watch_report_all(void)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->stores)
            write_state(vm);
}

static void watch_begin(struct lt_vm *vm)
{
    uint64_t states = 0;
    for (UInt i = 0; i < LUA_LAYOUT_VM_STATES; i++)
        states |= (uint64_t)(vm->layout->vm[i] & 15) << 4 * i;
    if (lt_options.lua_states)
        RING_PUT(machine, .count = LUA_LAYOUT_VM_STATES, .addr = state_word(vm), .heap = lt_vm_heap(vm),
                 .states = states);
    watch(vm);
}

static void watch_end(struct lt_vm *vm)
{
    if (lt_options.lua_states)
        RING_PUT(machine, .addr = state_word(vm), .heap = lt_vm_heap(vm));
}

Bool lt_watch_is_state_word(Addr a)
{
    for (const struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (a == state_word(vm))
            return True;
    return False;
}

Bool lt_watch_is_state_displacement(Long displacement)
{
    for (UInt i = 0; displacement && i < MAX_DISPLACEMENTS; i++)
        if (s_displacements[i] == displacement)
            return True;
    return False;
}

static void learn(Long displacement)
{
    static UInt next;
    if (displacement && !lt_watch_is_state_displacement(displacement))
        s_displacements[next++ % MAX_DISPLACEMENTS] = displacement;
}

void lt_watch_hit(Addr a, ULong displacement)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (a == state_word(vm)) {
            learn((Long)displacement);
            note_state(vm);
        } else if (a == recorder_word(vm))
            lt_recording_step(vm);
        else if (vm->assembling)
            lt_asm_store(vm, a);
}

Bool lt_watch_is_state(UInt value)
{
    return (Int)~value >= 0 && ~value < LUA_LAYOUT_VM_STATES;
}

Bool lt_watch_is_plain_state(Int state)
{
    return state > 0 ? state <= MAX_TRACE : ~state >= 0 && ~state < PLAIN_STATES;
}

Bool lt_watch_is_recorder(Long displacement)
{
    for (const struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (displacement == vm->at->recorder_pc)
            return True;
    return !lt_vm_first() &&
           (displacement == luajit_offsets(1)->recorder_pc || displacement == luajit_offsets(0)->recorder_pc);
}

void lt_watch_init(void)
{
    lt_vm_hook(&(struct lt_vm_hooks){.begins = watch_begin, .ends = watch_end, .ended = watch_all});
}
