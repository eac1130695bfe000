/* program_memory.h - read the program's memory, which may not be readable.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * All structures of LuaJIT are read by these functions: if a pointer is not what the reader assumes, the
 * result is zero and not a fault. They are also used for texts in requests and system calls.
 */
#ifndef LJTRACE_LUAJIT_BASE_PROGRAM_MEMORY_H
#define LJTRACE_LUAJIT_BASE_PROGRAM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROGRAM_PAGE_BITS = 12, PROGRAM_PAGES = 512, PROGRAM_TURN_BITS = 12, PROGRAM_FROZEN_PAGES = 1 << 18 };

/* A cache of readable pages (program_page_entry), indexed by the low bits of their numbers; 0 = none. */
extern uint64_t program_pages[PROGRAM_PAGES];

/* Forget which memory is readable. It changes only in system calls, so call this whenever the program's code
 * has run. */
void program_forget(void);
/* How often that was called: memory found readable is readable as long as this number is the same. */
extern uint32_t program_turn;
/* The entry of a page that was found readable: its number, which has 52 bits, and when. */
static inline uint64_t program_page_entry(uint64_t page)
{
    return page << PROGRAM_TURN_BITS | (program_turn & ((1 << PROGRAM_TURN_BITS) - 1));
}
/* In a copy of the process, which unmaps nothing: what is readable remains so, and a walk over a heap asks the system once
 * for each page. pages: PROGRAM_FROZEN_PAGES zeros, which stay mapped. */
void program_freeze(uint64_t *pages);
/* A pointer is only a guess: do not rely on what was found earlier about its page, if that may have changed. */
void program_doubt(uint64_t a);
/* Is this range readable? */
bool program_readable(uint64_t a, size_t n);
/* Are these n bytes in one page that is known to be readable? */
static inline bool program_is_known(uint64_t a, uint32_t n)
{
    uint64_t page = a >> PROGRAM_PAGE_BITS;
    return program_pages[page % PROGRAM_PAGES] == program_page_entry(page) &&
           (a & ((1 << PROGRAM_PAGE_BITS) - 1)) + n <= 1 << PROGRAM_PAGE_BITS;
}
/* Copy from the program's memory. Returns false, and copies nothing, if not all of it is readable. */
bool program_read(uint64_t a, void *to, size_t n);
/* The length of a text: up to its terminating zero, to the first byte that is not readable, or `most`. */
size_t program_text_length(uint64_t a, size_t most);
/* Copy a text, cut to fit into `room` bytes with its terminating zero. Returns its length; 0 at a bad
 * address. */
size_t program_text(uint64_t a, char *to, size_t room);
/* Read an unsigned number of `size` bytes; 0 if it is not readable. */
uint64_t program_number_slowly(uint64_t a, uint32_t size);
/* The same, and fast if the page is known. */
static inline uint64_t program_number(uint64_t a, uint32_t size)
{
    if (!program_is_known(a, size))
        return program_number_slowly(a, size);
    if (size == 8) /* the most frequent size first */
        return *(const uint64_t *)a;
    if (size == 4)
        return *(const uint32_t *)a;
    return size == 1 ? *(const uint8_t *)a : *(const uint16_t *)a;
}

#endif
