/* lua_allocator.c - observes the calls of a Lua allocator function.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The function's entry is patched (code_patch.h), so LuaJIT's own allocator remains the one that lua_getallocf returns and
 * lua_close compares, and the blocks from before a state is known are recorded like all others. What an event is, is
 * decided by the code that the Valgrind tool uses, too: ljtrace/luajit/heap/allocator.c.
 *
 * LuaJIT's own allocator calls nothing but the kernel, so the ring is locked during the call, once for entry and return.
 * An allocator of the program may wait for locks of the program, so the ring is not locked during its calls.
 *
 * In a sample, a call of LuaJIT's own allocator that neither makes nor ends a recorded block takes a few instructions. So
 * does every call after the recording.
 */
#include "ljtrace/native/inside/lua_allocator.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/native/inside/lua_event.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/native/inside/usual.h"
#include <stddef.h>
#include <string.h>

enum { MOST_FUNCTIONS = 16 };
/* Why calls need attention: a state is being closed; the last recorded block has no type yet. */
enum { CLOSES = 1, SETTLES = 2 };

/* A watched function; patch comes first. */
struct watched {
    struct code_patch patch;
    bool is_own;
};

static struct watched s_watched[MOST_FUNCTIONS];
static uint32_t s_count;

/* The state that this thread closes. */
NATIVE_THREAD_LOCAL struct {
    uint64_t stack; /* 0 = none */
    uint32_t size;
    bool is_freed; /* of the stack */
} t_closing;

typedef void *allocate_function(void *ud, void *ptr, size_t osize, size_t nsize);

/* The registers that a function preserves, and its return address, as they are on the stack. */
struct saved {
    uint64_t rbx, rbp, r12_to_r15[4], return_address;
};

void lua_allocator_closing(uint64_t stack, uint32_t size)
{
    native_countdown.attends = stack ? native_countdown.attends | CLOSES : native_countdown.attends & ~CLOSES;
    t_closing.stack = stack;
    t_closing.size = size;
    t_closing.is_freed = false;
}

/* While a state is closed it uses memory that it has freed: what was readable may not be so any more. */
static void note_end_of_stack(const void *ptr, size_t nsize)
{
    if (t_closing.is_freed)
        program_forget();
    else if (nsize == 0 && ptr && program_number(t_closing.stack, t_closing.size) == (uint64_t)ptr)
        t_closing.is_freed = true;
}

void lua_allocator_unloaded(uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < s_count; i++)
        if ((uint64_t)s_watched[i].patch.function >= from && (uint64_t)s_watched[i].patch.function < to)
            s_watched[i].patch.function = NULL;
}

static void set_registers(const struct watched *w, const struct saved *s)
{
    uint64_t *r = event_registers;
    event_at_entry = true;
    event_ip = (uint64_t)w->patch.function;
    r[HOST_RSP] = (uint64_t)&s->return_address;
    r[HOST_RBX] = s->rbx;
    r[HOST_RBP] = s->rbp;
    memcpy(r + HOST_R8 + 4, s->r12_to_r15, sizeof s->r12_to_r15);
}

/* Returns false if the return of this call is not awaited. */
static bool enter(const struct watched *w, void *ud, void *ptr, size_t osize, size_t nsize)
{
    event_registers[HOST_RDI] = (uint64_t)ud;
    event_registers[HOST_RSI] = (uint64_t)ptr;
    event_registers[HOST_RDX] = osize;
    event_registers[HOST_RCX] = nsize;
    return lt_lua_enter(host_thread(), event_registers, w->patch.image) != LT_CALL_IGNORED;
}

static void leave(void *result)
{
    event_registers[HOST_RAX] = (uint64_t)result;
    lt_lua_return(host_thread(), event_registers);
    if (block_sample_mean && native_countdown.chosen)
        native_countdown.attends |= SETTLES;
}

static void *call_own(allocate_function *original, void *ud, void *ptr, size_t osize, size_t nsize,
                      bool awaited)
{
    stack_sampler_lend();
    void *result = original(ud, ptr, osize, nsize);
    stack_sampler_return();
    if (awaited)
        leave(result);
    lua_event_end();
    return result || !nsize || !native_gives_way(nsize) ? result : original(ud, ptr, osize, nsize);
}

/* The call of an allocator of the program, without recording. */
static void *call_programs(allocate_function *original, void *ud, void *ptr, size_t osize, size_t nsize)
{
    native_hide(NATIVE_OF_CALLER);
    void *result = original(ud, ptr, osize, nsize);
    native_show(NATIVE_OF_CALLER);
    return result;
}

/* Does the call free the stack of the state that is being closed, or come after that? LuaJIT itself still uses the memory
 * where the pointer to the stack is. */
static bool concerns_end_of_stack(const void *ptr)
{
    if (!t_closing.stack)
        return false;
    const uint64_t stack = t_closing.size == sizeof(uint64_t) ? *(const uint64_t *)t_closing.stack
                                                              : *(const uint32_t *)t_closing.stack;
    return t_closing.is_freed || (ptr && (uint64_t)ptr == stack);
}

/* In a sample: is it certain, without the ring's lock, that the call is not recorded and need not be seen? entry_own has
 * decided this for most calls of LuaJIT's own allocator. */
static bool is_passed(const void *ptr, size_t nsize)
{
    return block_sample_mean && !(native_countdown.attends & SETTLES) &&
           (!ptr || block_sample_lacks((uint64_t)ptr)) && !concerns_end_of_stack(ptr) &&
           block_sample_passes(nsize);
}

/* The state's last recorded block has been filled in by now, and gets its type. */
static void settle(void *ud, const void *ptr, size_t osize, size_t nsize)
{
    struct lt_vm *vm = lt_vm_caller(host_thread(), lt_lua_heap((uint64_t)ud), event_registers[HOST_RSP]);
    if (vm)
        lt_types_settle(vm, nsize ? 0 : (uint64_t)ptr, osize);
    native_countdown.attends &= ~SETTLES;
}

/* In a sample: is the call recorded? */
static bool is_sampled(void *ud, void *ptr, size_t osize, size_t nsize)
{
    const bool made = block_sample_draw(nsize), ends = ptr && block_sample_holds((uint64_t)ptr);
    if (native_countdown.attends & SETTLES)
        settle(ud, ptr, osize, nsize);
    if (!made && !ends && ptr && !nsize) {
        lt_proto_gone((uint64_t)ptr);
        block_sample_remove((uint64_t)ptr);
    }
    return made || ends;
}

/* Is the call dropped, since the ring is full? No stack is taken then, because its names would need room as well. */
static bool is_dropped(void *ud, const void *ptr, size_t osize, size_t nsize)
{
    if (!native_ring_is_dropping() || (!ptr && !nsize))
        return false;
    settle(ud, ptr, osize, nsize);
    if (ptr && !nsize)
        lt_proto_gone((uint64_t)ptr);
    if (!block_sample_mean)
        native_ring_lose(!nsize ? RING_LOST_FREE : ptr ? RING_LOST_RESIZE : RING_LOST_NEW);
    if (block_sample_mean && ptr && block_sample_remove((uint64_t)ptr))
        native_ring_lose(RING_LOST_FREE);
    if (block_sample_mean && nsize && native_countdown.chosen)
        native_ring_lose(RING_LOST_NEW);
    return true;
}

static void *call_passed(const struct watched *w, void *ud, void *ptr, size_t osize, size_t nsize)
{
    allocate_function *original = (allocate_function *)w->patch.original;
    return w->is_own ? original(ud, ptr, osize, nsize) : call_programs(original, ud, ptr, osize, nsize);
}

__attribute__((used)) static void *on_call(void *ud, void *ptr, size_t osize, size_t nsize,
                                           const struct watched *w, const struct saved *s)
{
    allocate_function *original = (allocate_function *)w->patch.original;
    if (is_passed(ptr, nsize))
        return call_passed(w, ud, ptr, osize, nsize);
    if (!lua_event_begin())
        return original(ud, ptr, osize, nsize);
    set_registers(w, s);
    if (t_closing.stack)
        note_end_of_stack(ptr, nsize);
    if ((block_sample_mean && !is_sampled(ud, ptr, osize, nsize)) || is_dropped(ud, ptr, osize, nsize)) {
        lua_event_end();
        return call_passed(w, ud, ptr, osize, nsize);
    }
    const bool chosen = native_countdown.chosen, awaited = enter(w, ud, ptr, osize, nsize);
    if (w->is_own)
        return call_own(original, ud, ptr, osize, nsize, awaited);
    lua_event_end();
    void *result = call_programs(original, ud, ptr, osize, nsize);
    if (awaited && lua_event_begin()) {
        set_registers(w, s);
        native_countdown.chosen = chosen;
        leave(result);
        lua_event_end();
    }
    return result;
}

/* A usual call of LuaJIT's own allocator: all blocks are recorded, and it is known which state calls. Everything else is
 * on_call's. */
__attribute__((used)) static void *on_own_call(void *ud, void *ptr, size_t osize, size_t nsize,
                                               const struct watched *w, const struct saved *s)
{
    allocate_function *original = (allocate_function *)w->patch.original;
    struct lt_whole_call call = {
        (uint64_t)&s->return_address, (uint64_t)ud, (uint64_t)ptr, osize, nsize, NULL};
    if (block_sample_mean || !host_thread_number || !usual_begin((uint64_t)__builtin_frame_address(0)))
        return on_call(ud, ptr, osize, nsize, w, s);
    host_set_time();
    set_registers(w, s);
    if (t_closing.stack)
        note_end_of_stack(ptr, nsize);
    event_registers[HOST_RDI] = (uint64_t)ud;
    event_registers[HOST_RSI] = (uint64_t)ptr;
    if (!lt_lua_enter_whole(host_thread_number, &call)) {
        usual_end();
        return on_call(ud, ptr, osize, nsize, w, s);
    }
    void *result = original(ud, ptr, osize, nsize);
    lt_lua_return_whole(&call, (uint64_t)result, event_registers);
    usual_end();
    return result || !nsize || !native_gives_way(nsize) ? result : original(ud, ptr, osize, nsize);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

_Static_assert(offsetof(struct native_countdown, left) == 0 &&
                   offsetof(struct native_countdown, attends) == 8 &&
                   offsetof(struct watched, patch.original) == 8 && SAMPLE_FILTER_BITS == 20,
               "these numbers are in the code below");

/* Go on to the allocator if nothing is recorded. */
#define WHILE_RECORDED                                                                                       \
    "mov native_alive(%rip), %r11\n test %r11, %r11\n je 9f\n"                                               \
    "cmpl $0, (%r11)\n jne 8f\n"                                                                             \
    "9: jmp *8(%r8)\n"                                                                                       \
    "8:\n"

/* A call of LuaJIT's own allocator: go on to it if no attention is needed, the bitmap lacks the block, and the countdown
 * passes over the new size. If all blocks are recorded, each call needs attention. */
/* clang-format off */
__attribute__((naked)) static void entry_own(void)
{
    __asm__(WHILE_RECORDED
            "mov native_countdown@gottpoff(%rip), %r9\n"
            "cmpl $0, %fs:8(%r9)\n jne 2f\n"
            "cmpq $0, block_sample_mean(%rip)\n je 2f\n"
            "test %rsi, %rsi\n je 1f\n"
            "mov %rsi, %rax\n shr $" TEXT(SAMPLE_UNIT_SHIFT) ", %rax\n"
            "mov %rsi, %r10\n shr $" TEXT(SAMPLE_REGION_SHIFT) ", %r10\n"
            "imul $" TEXT(SAMPLE_MIX) ", %r10, %r10\n xor %r10, %rax\n and $0xfffff, %eax\n"
            "mov %eax, %r10d\n shr $6, %r10d\n mov block_sample_filter(%rip), %r11\n"
            "mov (%r11, %r10, 8), %r10\n bt %rax, %r10\n jc 2f\n"
            "1: cmp %fs:(%r9), %rcx\n jae 2f\n sub %rcx, %fs:(%r9)\n jmp *8(%r8)\n"
            "2: jmp entry_own_recorded\n");
}
/* clang-format on */

/* Save the registers, and call this; the function's arguments and the fifth, the patch, stay where they are. */
#define CALL_SAVED(function)                                                                                 \
    "push %r15\n push %r14\n push %r13\n push %r12\n push %rbp\n push %rbx\n"                                \
    ".cfi_adjust_cfa_offset 48\n"                                                                            \
    "mov %rsp, %r9\n"                                                                                        \
    "sub $8, %rsp\n"                                                                                         \
    ".cfi_adjust_cfa_offset 8\n"                                                                             \
    "call " function "\n"                                                                                    \
    "add $56, %rsp\n"                                                                                        \
    ".cfi_adjust_cfa_offset -56\n"                                                                           \
    "ret\n"

__attribute__((naked, used)) static void entry_own_recorded(void)
{
    __asm__(CALL_SAVED("on_own_call"));
}

__attribute__((naked, used)) static void entry_recorded(void)
{
    __asm__(CALL_SAVED("on_call"));
}

/* A call of an allocator of the program. */
__attribute__((naked)) static void entry(void)
{
    __asm__(WHILE_RECORDED "jmp entry_recorded\n");
}

void lua_allocator_watch(void *function, enum lua_allocator whose, uint32_t image)
{
    uint32_t i = 0;
    while (i < s_count && s_watched[i].patch.function != function)
        i++;
    if (i < s_count) {
        s_watched[i].patch.image = image; /* perhaps another LuaJIT, loaded later, uses it too */
        return;
    }
    if (i == MOST_FUNCTIONS) {
        text_say("ljtrace: more than %d Lua allocator functions: the one at %#lx is not watched\n",
                 MOST_FUNCTIONS, (uint64_t)function);
        return;
    }
    struct watched *w = &s_watched[s_count++];
    w->patch = (struct code_patch){.function = function, .image = image};
    w->is_own = whose == LUA_ALLOCATOR_OWN;
    const char *why = code_patch(&w->patch, w->is_own ? (void *)entry_own : (void *)entry);
    if (why)
        text_say("ljtrace: the blocks of a Lua allocator function are not recorded: %s\n", why);
}
