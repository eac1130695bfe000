/* host.h - what the reader of LuaJIT needs from the recorder that it is a part of, its host.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The files of ljtrace/luajit/ are compiled for each recorder, which implements these functions: the Valgrind tool in
 * ljtrace/valgrind/host.c and the files that it names, the native recorder in ljtrace/native/inside/host/. Some of the files
 * are also in the profilers' library, which needs host_readable only. They use nothing else from outside, and no C library
 * except memcpy, memmove and memset, which compilers call anyway.
 */
#ifndef LJTRACE_LUAJIT_HOST_H
#define LJTRACE_LUAJIT_HOST_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/protocol/ring.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- memory of the program -- */

/* Is the range readable? If it is, [*from, *to) is a readable range around `a`; it is empty if none is known. */
bool host_readable(uint64_t a, size_t n, uint64_t *from, uint64_t *to);
/* Is each change of the mappings known, so that a result holds until lt_guest_forget is called? */
extern const bool host_mappings_are_known;

/* -- memory of the recorder -- */

/* Memory for n bytes, which are 0. There always is some: else the recording ends. */
void *host_new(size_t n);
/* Make room for n bytes. p: from these functions, or NULL. What is added is not 0. */
void *host_resize(void *p, size_t n);
void host_free(void *p);

/* -- the running thread -- */

/* Its number; 0 is none. */
uint32_t host_thread(void);
/* The memory that is its stack: where it begins, and where it ends. */
uint64_t host_stack_begin(uint32_t thread);
uint64_t host_stack_end(uint32_t thread);
/* Its program counter and its stack pointer. */
uint64_t host_code_pointer(uint32_t thread);
uint64_t host_stack_pointer(uint32_t thread);
/* Copy some of its registers. They are in this order wherever several are passed. */
enum host_register {
    HOST_RAX,
    HOST_RCX,
    HOST_RDX,
    HOST_RBX,
    HOST_RSP,
    HOST_RBP,
    HOST_RSI,
    HOST_RDI,
    HOST_R8
};
enum { HOST_REGISTERS = HOST_R8 + 8 };
void host_registers(uint32_t thread, enum host_register first, uint32_t count, uint64_t *to);

/* -- C stacks -- */

/* Unwind the stack of a thread and name its frames. If it has more frames than --stack-depth, it is cut there and ends
 * with RAW_CUT. If not all callers can be found, it ends with RAW_UNKNOWN_CALLER. */
void host_take_stack(uint32_t thread, struct lt_stack *stack);
/* The same with at most `limit` frames, not marked as cut, and only as far as call frame information leads: the stack
 * ends at the first frame in code generated at run time (by a JIT compiler). */
void host_take_stack_to(uint32_t thread, struct lt_stack *stack, uint32_t limit);
/* Continue after the last frame of the stack, up to one frame more than --stack-depth. The next frame is one whose
 * caller's stack pointer is `sp`: its return address and the saved frame pointer are just below that. */
void host_resume_stack(uint32_t thread, struct lt_stack *stack, uint64_t sp);
/* How often code was mapped or unmapped, so that a code address may have another name. */
uint32_t host_code_generation(void);

/* -- objects of the program -- */

/* The file from which an image of LuaJIT was loaded, or "?". */
const char *host_image_file(uint32_t image);
/* Is this address in the code of an image? */
bool host_is_lua_code(uint64_t ip);
/* The name of the C function that begins here; NULL = not known here, but perhaps by the collector. */
const char *host_function_name(uint64_t code);

/* -- the recording -- */

/* Is anything recorded? Not if the collector is gone. */
bool host_records(void);
/* The time of an event. */
uint64_t host_time(void);

/* Append a record: HOST_PUT(mark, .instructions = n, .name = host_text(name)). Fields not given are 0. */
#define HOST_PUT(name, ...) host_put_##name(&(struct ring_##name){__VA_ARGS__})
#define RECORD(NAME, name, fields) void host_put_##name(const struct ring_##name *r);
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"
struct raw_text host_text(const char *text);
static inline struct raw_text host_text_of(const void *text, uint32_t bytes)
{
    return (struct raw_text){text, bytes};
}

/* Write events of a heap: RAW_HEAP_C, or the number of an allocator's. */
void host_block_new(uint64_t addr, size_t size, uint64_t heap, uint32_t how, const struct lt_stack *stack);
void host_block_free(uint64_t addr, uint64_t heap, uint32_t how, const struct lt_stack *stack);
void host_block_resize(uint64_t old, uint64_t addr, size_t size, uint64_t heap, uint32_t how,
                       const struct lt_stack *stack);
/* What the block holds: enum mt_type. */
void host_block_type(uint64_t addr, uint64_t heap, uint32_t type);
/* The end of this block must be seen: what is known of its contents is not true of the next block there. */
void host_await_free(uint64_t addr);

/* -- messages -- */

/* Show a text to the user. */
void host_say(const char *text);
/* End the program, after a message: the recorder has an error. */
_Noreturn void host_panic(const char *why);
#define host_assert(condition) ((condition) ? (void)0 : host_panic(__FILE__ ": " #condition))

#endif
