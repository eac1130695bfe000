/* pattern.c - known loads, stores and read-modify-writes of known blocks; prints the events they must give.
 *
 * The instructions are written in assembler where the compiler could choose others (it splits a volatile `+=`
 * into load and store), so that each line below is one memory operand of one width. Expected events are kept
 * in a static array and printed at the end: the chosen blocks are touched by nothing else.
 *
 *     pattern plain      sizes 1, 2, 4, 8, 16: store, load, modify; loads whose value is not used; block ends
 *     pattern atomic     lock add, xadd, cmpxchg (that succeeds and that fails), xchg
 *     pattern copy       memcpy and memset of a whole block (the case checks the bytes covered)
 *
 * Output: `B block address size` for each block, then `LETTER block offset size` for each event in order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "expected.h"
#include <string.h>

/* -- one access each -------------------------------------------------------------------------- */

/* The loaded value is not used: the asm has no output. */
static void load(int b, size_t at, int size)
{
    const char *p = s_block[b] + at;
    if (size == 1)
        __asm__ volatile("movb (%0), %%al" ::"r"(p) : "rax");
    else if (size == 2)
        __asm__ volatile("movw (%0), %%ax" ::"r"(p) : "rax");
    else if (size == 4)
        __asm__ volatile("movl (%0), %%eax" ::"r"(p) : "rax");
    else if (size == 8)
        __asm__ volatile("movq (%0), %%rax" ::"r"(p) : "rax");
    else
        __asm__ volatile("movdqu (%0), %%xmm0" ::"r"(p) : "xmm0");
    expect('L', b, at, size);
}

static void store(int b, size_t at, int size)
{
    char *p = s_block[b] + at;
    if (size == 1)
        __asm__ volatile("movb %%al, (%0)" ::"r"(p), "a"(1) : "memory");
    else if (size == 2)
        __asm__ volatile("movw %%ax, (%0)" ::"r"(p), "a"(1) : "memory");
    else if (size == 4)
        __asm__ volatile("movl %%eax, (%0)" ::"r"(p), "a"(1) : "memory");
    else if (size == 8)
        __asm__ volatile("movq %%rax, (%0)" ::"r"(p), "a"(1L) : "memory");
    else
        __asm__ volatile("movdqu %%xmm0, (%0)" ::"r"(p) : "memory");
    expect('S', b, at, size);
}

/* No instruction modifies 16 bytes of memory but cmpxchg16b, which `atomic` has. */
static void modify(int b, size_t at, int size)
{
    char *p = s_block[b] + at;
    if (size == 1)
        __asm__ volatile("incb (%0)" ::"r"(p) : "memory", "cc");
    else if (size == 2)
        __asm__ volatile("xorw $5, (%0)" ::"r"(p) : "memory", "cc");
    else if (size == 4)
        __asm__ volatile("addl $5, (%0)" ::"r"(p) : "memory", "cc");
    else
        __asm__ volatile("negq (%0)" ::"r"(p) : "memory", "cc");
    expect('M', b, at, size);
}

static void volatile_load(int b, size_t at)
{
    (void)*(volatile uint32_t *)(s_block[b] + at);
    expect('L', b, at, 4);
}

/* -- patterns --------------------------------------------------------------------------------- */

static void plain_sizes(int b, size_t at)
{
    for (int size = 1; size <= 16; size *= 2) {
        store(b, at, size);
        load(b, at, size);
        if (size <= 8)
            modify(b, at, size);
        load(b, at + 3, size); /* not aligned */
    }
}

static void plain(void)
{
    for (int b = 0; b < BLOCKS; b++) {
        for (size_t at = 0; at < 40000; at += 9973)
            plain_sizes(b, at);
        store(b, s_size[b] - 8, 8); /* the last bytes */
        load(b, s_size[b] - 1, 1);
    }
    for (int i = 0; i < 8; i++)
        volatile_load(1, 64);
    for (int i = 0; i < 64; i++) { /* one site, many addresses */
        store(i % BLOCKS, (size_t)i * 128, 4);
        modify((i + 1) % BLOCKS, (size_t)i * 64, 8);
    }
}

static void cmpxchg(int b, size_t at, uint32_t old)
{
    __asm__ volatile("lock cmpxchgl %%ecx, (%0)" ::"r"(s_block[b] + at), "a"(old), "c"(7) : "memory", "cc");
    expect('M', b, at, 4);
}

static void atomic(void)
{
    store(0, 4096, 8);
    __asm__ volatile("lock addl $1, (%0)" ::"r"(s_block[0] + 4096) : "memory", "cc");
    expect('M', 0, 4096, 4);
    __asm__ volatile("lock xaddq %%rax, (%0)" ::"r"(s_block[0] + 4096), "a"(2L) : "memory", "cc");
    expect('M', 0, 4096, 8);
    __asm__ volatile("xchgl %%eax, (%0)" ::"r"(s_block[0] + 4096), "a"(5) : "memory");
    expect('M', 0, 4096, 4);
    cmpxchg(0, 4096, 5);  /* succeeds */
    cmpxchg(0, 4096, 99); /* fails: it still read, and locked the bytes for writing */
    load(0, 4096, 8);
}

static void copy(void)
{
    memset(s_block[0], 1, s_size[0]);
    memcpy(s_block[1], s_block[0], s_size[0]);
    expect('S', 0, 0, (int)s_size[0]);
    expect('L', 0, 0, (int)s_size[0]);
    expect('S', 1, 0, (int)s_size[0]);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    for (int i = 0; i < BLOCKS; i++)
        if ((s_block[i] = malloc(s_size[i])) == NULL)
            return 1;
    if (strcmp(mode, "plain") == 0)
        plain();
    else if (strcmp(mode, "atomic") == 0)
        atomic();
    else if (strcmp(mode, "copy") == 0)
        copy();
    else
        return fputs("usage: pattern plain|atomic|copy\n", stderr), 2;
    report();
    for (int i = 0; i < BLOCKS; i++)
        free(s_block[i]);
    return 0;
}
