/* stack_memory.c - which memory the walk of a stack may read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A stack ends at an address that is known without locks: the stack of the first thread at __libc_stack_end, the stack
 * of another thread at its control block, which glibc puts at the end of the memory it runs on, and to which %fs points.
 * What lies between that and the stack pointer is the thread's stack if all of its pages are readable: below each stack
 * is a guard page or a gap.
 *
 * Is a page readable? rt_sigprocmask copies its set from the program before it looks at its other arguments, so with an
 * invalid first argument the error tells it and nothing is changed. Nearly every sandbox permits this call. For one that does
 * not, and that the program enters by an instruction of its own, a thread asks for some pages ahead when it begins.
 */
#include "ljtrace/native/unwind/stack_memory.h"
#include "ljtrace/protocol/kernel.h"
#include <errno.h>
#include <sys/syscall.h>

enum {
    FARTHEST = 64 << 20, /* of a stack pointer from the end of its stack when it is first seen */
    AHEAD = 64 << 10,    /* below the first stack pointer: the stack's pages stay until the thread ends */
};

extern void *__libc_stack_end; /* of the dynamic linker */

/* The known part of this thread's stack. */
static __thread __attribute__((tls_model("initial-exec"))) uint64_t t_low, t_high;
/* Where the thread's stack ends; 0 = not yet known. */
static __thread __attribute__((tls_model("initial-exec"))) uint64_t t_end;

static uint64_t end_of_stack(void)
{
    const bool is_first =
        kernel_call(SYS_gettid, 0, 0, 0, 0, 0, 0) == kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return is_first ? (uint64_t)(uintptr_t)__libc_stack_end : kernel_thread();
}

/* Are all pages from the one of `sp` to that before `low` readable? From the top: a guard page is found at once. */
static bool all_readable(uint64_t sp, uint64_t low)
{
    for (uint64_t page = low - KERNEL_PAGE; page + KERNEL_PAGE > sp; page -= KERNEL_PAGE)
        if (!kernel_can_read(page))
            return false;
    return true;
}

/* Extend the known part down to the page of `sp`; false if that is not one stack. */
static bool extend_to(uint64_t sp)
{
    const uint64_t top = t_high ? t_low : (t_end & ~(uint64_t)(KERNEL_PAGE - 1)) + KERNEL_PAGE;
    if (sp >= top || top - sp > FARTHEST || !all_readable(sp, top))
        return false;
    /* a signal handler between these lines sees a part that is too small */
    t_low = sp & ~(uint64_t)(KERNEL_PAGE - 1);
    __asm__ volatile("" ::: "memory");
    t_high = t_end;
    return true;
}

struct stack_memory stack_memory_from(uint64_t sp)
{
    if (sp < t_low || sp >= t_high) {
        if (!t_end)
            t_end = end_of_stack();
        if (sp < t_end && (t_high || !extend_to(sp - AHEAD)))
            extend_to(sp);
    }
    return (struct stack_memory){t_low, t_high, 0};
}

bool stack_memory_ask(struct stack_memory *memory, uint64_t address, uint64_t *word)
{
    const uint64_t first = address & ~(uint64_t)(KERNEL_PAGE - 1),
                   last = (address + 7) & ~(uint64_t)(KERNEL_PAGE - 1);
    if (first != last || address < KERNEL_PAGE)
        return false; /* no word of a frame crosses a page, because stacks are aligned */
    if (memory->page != first && !kernel_can_read(address))
        return false;
    memory->page = first;
    memcpy(word, (const void *)(uintptr_t)address, sizeof *word);
    return true;
}
