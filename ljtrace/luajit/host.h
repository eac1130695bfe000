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
/* Is each change of the mappings known, so that a result holds until program_forget is called? */
bool host_mappings_are_known(void);

/* -- memory of the recorder -- */

/* Make room for n bytes; 0 = free p. There always is some: else the recording ends. p: from this function, or NULL. What is
 * added is not 0. */
void *host_resize(void *p, size_t n);
static inline void *host_new(size_t n) /* all 0 */
{
    return __builtin_memset(host_resize(NULL, n), 0, n);
}
static inline void host_free(void *p)
{
    if (p)
        host_resize(p, 0);
}

/* -- the running thread -- */

/* Its number; 0 is none. */
uint32_t host_thread(void);
/* The memory that is its stack. */
struct host_range {
    uint64_t begin, end;
};
struct host_range host_stack_range(uint32_t thread);
/* Copy some of its registers. They are in this order wherever several are passed, except the program counter, HOST_RIP. */
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
enum { HOST_REGISTERS = HOST_R8 + 8, HOST_RIP = HOST_REGISTERS };
void host_registers(uint32_t thread, uint32_t first, uint32_t count, uint64_t *to);
static inline uint64_t host_register(uint32_t thread, uint32_t which)
{
    uint64_t value;
    host_registers(thread, which, 1, &value);
    return value;
}

/* Where it is: HOST_RIP and HOST_RSP, which each event needs. */
struct host_here {
    uint64_t ip, sp;
};
struct host_here host_here(uint32_t thread);

/* -- C stacks -- */

/* A frame of C, by its registers. */
struct host_frame {
    uint64_t ip, sp, bp;
};
/* Unwind the stack of the thread from this frame on, NULL = from its registers on; name the frames, at most `limit`, and
 * append them. certain: only as far as call frame information leads; the stack then ends at the first frame in code
 * generated at run time (by a JIT compiler). */
void host_unwind(uint32_t thread, const struct host_frame *from, bool certain, uint32_t limit,
                 struct lt_stack *stack);
/* How often code was mapped or unmapped, so that a code address may have another name. */
uint32_t host_code_generation(void);

/* -- objects of the program -- */

/* Is this address in the code of an image? */
bool host_is_lua_code(uint64_t ip);
/* Is this address in the code of an object that is no image? False if it is not known. */
bool host_is_other_code(uint64_t ip);
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
static inline struct raw_text host_text_of(const void *text, uint32_t bytes)
{
    return (struct raw_text){text, bytes};
}
static inline struct raw_text host_text(const char *text)
{
    uint32_t bytes = 0;
    while (text[bytes])
        bytes++;
    return host_text_of(text, bytes);
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

/* -- a copy of the process -- */

/* A snapshot is long. Let a copy of the process take it, whose memory remains as it is now, so that the program need not
 * wait. Records that the copy puts go to the collector as if they were put here. */
enum host_copy {
    HOST_COPY_NONE,  /* there can be none: the snapshot is to be taken here */
    HOST_COPY_TAKES, /* the copy was made and takes it */
    HOST_COPY_IS     /* this is the copy */
};
enum host_copy host_copy_begin(void);
/* A key that is no address of a Lua state. */
#define HOST_COPY_OTHER 1ULL
/* Leave a number for the process under this key. And: end the copy as well. */
void host_copy_leave(uint64_t key, uint64_t number);
_Noreturn void host_copy_end(uint64_t key, uint64_t number);
/* Take the number that a copy has left. Returns false if there is none yet. */
bool host_copy_result(uint64_t key, uint64_t *number);
/* Does a copy run? */
bool host_copy_runs(void);
/* The program waits for a snapshot from the first call to the second. */
void host_stop_begins(void);
void host_stop_ends(void);

/* -- messages -- */

/* Show a text to the user. */
void host_say(const char *text);
/* End the program, after a message: the recorder has an error. */
_Noreturn void host_panic(const char *why);
#define host_assert(condition) ((condition) ? (void)0 : host_panic(__FILE__ ": " #condition))

#endif
