/* stack_memory.h - reads of a thread's stack that cannot fault.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Wrong unwinding information leads to any address. So each address that is read is first compared with the part of the
 * thread's own stack that is known to be there: from the innermost frame seen so far to its end, which the thread keeps
 * for its life. Any other memory (a signal's alternate stack, the stack of a coroutine) may be unmapped at any time.
 * There the kernel is asked once for each page in each walk, which costs a system call.
 *
 * No locks, no memory, no call of libc: it works in signal handlers.
 */
#ifndef LJTRACE_NATIVE_UNWIND_STACK_MEMORY_H
#define LJTRACE_NATIVE_UNWIND_STACK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The memory that one walk may read. */
struct stack_memory {
    uint64_t low, high; /* the known part of the thread's stack; high 0: none */
    uint64_t page;      /* another page that is readable; 0: none */
};

/* What the calling thread may read when the walk begins at stack pointer `sp`. */
struct stack_memory stack_memory_from(uint64_t sp);

/* Read a word outside of the known part. False: it cannot be read. */
bool stack_memory_ask(struct stack_memory *memory, uint64_t address, uint64_t *word);

/* Is the word within the known part? */
static inline bool stack_memory_knows(const struct stack_memory *memory, uint64_t address)
{
    return address >= memory->low && address + 8 <= memory->high && address + 8 > 8;
}

static inline bool stack_memory_read(struct stack_memory *memory, uint64_t address, uint64_t *word)
{
    if (!stack_memory_knows(memory, address))
        return stack_memory_ask(memory, address, word);
    memcpy(word, (const void *)(uintptr_t)address, sizeof *word);
    return true;
}

#endif
