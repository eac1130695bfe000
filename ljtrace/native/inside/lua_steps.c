/* lua_steps.c - notices each bytecode that LuaJIT's compiler records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * LuaJIT runs its compiler by a protected call, in which a function changes the state of the compiler. For each bytecode
 * there is one such call, before the bytecode is recorded. The address of that function is loaded by the code that makes
 * the protected call. To find it, a scratch state records a trace while a function of ours is attached to the event
 * "record": the frames on the C stack are then, from the innermost, those of our function, of the compiler, and of the
 * code that has called it.
 */
#include "ljtrace/native/inside/lua_steps.h"
#include "ljtrace/frames/eh_frame.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/lua_event.h"
#include <stddef.h>
#include <string.h>

/* MOST_STACK: bytes of the stack between the compiler's frame and that of the event. */
enum { MOST_STACK = 4096, OPCODE_AND_OPERANDS = 2 };

/* Code between two addresses. */
struct code {
    uint64_t begin, end;
};

static struct code_patch s_patches[LUA_MAX_IMAGES];

/* -- the patched function -- */

/* L, unused, and compiler are the arguments of the patched function. */
__attribute__((used)) static void on_compiler(void *L, void *unused, uint64_t compiler)
{
    (void)L, (void)unused;
    if (!native_is_on() || !lua_event_begin())
        return;
    struct lt_vm *vm = lt_vm_first();
    while (vm && (!vm->layout->recorder || vm->g + vm->layout->recorder != compiler))
        vm = vm->next;
    if (vm)
        lt_recording_entered(vm);
    lua_event_end();
}

_Static_assert(offsetof(struct code_patch, original) == 8, "this number is in the code below");

/* Call on_compiler and go on to the original function, whose arguments are unchanged. */
/* clang-format off */
__attribute__((naked)) static void entry(void)
{
    __asm__("push %rdi\n push %rsi\n push %rdx\n push %r8\n sub $8, %rsp\n"
            ".cfi_adjust_cfa_offset 40\n"
            "call on_compiler\n"
            "add $8, %rsp\n pop %r8\n pop %rdx\n pop %rsi\n pop %rdi\n"
            ".cfi_adjust_cfa_offset -40\n"
            "jmp *8(%r8)\n");
}
/* clang-format on */

/* -- finding it -- */

/* What the handler of the event needs, and what it has found. */
NATIVE_THREAD_LOCAL const struct lua_layout *t_layout;
NATIVE_THREAD_LOCAL struct code t_found; /* begin 0 = nothing */

static bool find_code(uint64_t ip, struct code *code)
{
    struct eh_sections sections;
    return code_object_sections(ip, &sections) != CODE_NO_OBJECT &&
           eh_frame_function(&sections, ip, &code->begin, &code->end);
}

/* Is one of the words on the stack a return address in this code? */
static bool has_called(const struct code *code, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to && to - from < MOST_STACK; at += sizeof(uint64_t)) {
        const uint64_t word = *(const uint64_t *)at;
        if (word > code->begin && word <= code->end)
            return true;
    }
    return false;
}

/* The address that the code at `at` loads into a register; 0 = none. Its forms, each with 4 bytes of a number from at + 2 on:
 *     8d, then 00 reg 101 in bits    lea relative(%rip), register
 *     c7, then 11 000 reg            mov $absolute, register
 *     any byte, then b8 + register   mov $absolute, register; it may have a prefix, which is the byte */
static uint64_t loaded_at(const uint8_t *at)
{
    int32_t number;
    memcpy(&number, at + OPCODE_AND_OPERANDS, sizeof number);
    if (at[0] == 0x8d && (at[1] & 0xc7) == 0x05)
        return (uint64_t)at + OPCODE_AND_OPERANDS + sizeof number + (uint64_t)(int64_t)number;
    return (at[0] == 0xc7 && (at[1] & 0xf8) == 0xc0) || (at[1] & 0xf8) == 0xb8 ? (uint64_t)(uint32_t)number
                                                                               : 0;
}

/* Find the function that the code before `ip` loads, and that has made calls between these places on the stack. */
static void find_loaded(uint64_t ip, uint64_t inner, uint64_t outer)
{
    struct code caller, loaded;
    if (!find_code(ip - 1, &caller))
        return;
    for (uint64_t at = caller.begin; at + OPCODE_AND_OPERANDS + sizeof(int32_t) <= ip; at++) {
        const uint64_t address = loaded_at((const uint8_t *)at);
        if (address && find_code(address, &loaded) && loaded.begin == address &&
            has_called(&loaded, inner, outer))
            t_found = loaded;
    }
}

/* A C function of Lua: the compiler is about to record a bytecode. */
static int on_record(void *L)
{
    const struct luajit_offsets *at = luajit_offsets((int)t_layout->gc64);
    const uint64_t inner = *(const uint64_t *)((const char *)L + at->thread_cframe) & ~(uint64_t)3,
                   compiler = *(const uint64_t *)(inner + t_layout->cframe_prev) & ~(uint64_t)3,
                   outer = compiler + t_layout->cframe_size;
    if (compiler > inner && !t_found.begin)
        find_loaded(*(const uint64_t *)(outer - sizeof(uint64_t)), inner, compiler);
    return 0;
}

/* Patch the function, if that was not done in an earlier recording. */
static const char *patch(void *function)
{
    struct code_patch *free_one = NULL;
    for (uint32_t i = 0; i < LUA_MAX_IMAGES; i++) {
        if (s_patches[i].function == function)
            return NULL;
        if (!s_patches[i].function)
            free_one = &s_patches[i];
    }
    if (!free_one)
        return "there are too many";
    free_one->function = function;
    const char *why = code_patch(free_one, (void *)entry);
    if (why)
        free_one->function = NULL;
    return why;
}

const char *lua_steps_find(const struct lua_api *api, void *L, const struct lua_layout *layout)
{
    static const char script[] = "local f = ... jit.attach(f, 'record') "
                                 "local n = 0 for i = 1, 200 do n = n + i end "
                                 "jit.attach(f)";
    if (!layout->known || !layout->recorder)
        return NULL;
    t_layout = layout;
    t_found = (struct code){0};
    if (api->loadbuffer(L, script, sizeof script - 1, "=ljtrace"))
        return "there is no memory";
    api->pushcclosure(L, on_record, 0);
    if (api->pcall(L, 1, 0, 0))
        return "jit.attach does not work";
    return t_found.begin ? patch((void *)t_found.begin) : "its function for a bytecode was not found";
}

void lua_steps_unloaded(uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < LUA_MAX_IMAGES; i++)
        if ((uint64_t)s_patches[i].function >= from && (uint64_t)s_patches[i].function < to)
            s_patches[i].function = NULL;
}
