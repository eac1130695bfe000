/* wide.c - accesses that are not plain loads and stores of a register: vectors, masks, strings, states,
 * kernel.
 *
 *     wide MODE     vector part mask gather lanes8 string runs far border both turns state x87 atomic16 kernel
 *
 * Prints the events that the instruction set (or the system call) defines, in the form of pattern.c: `B block
 * address size` for each block, then `LETTER block offset size`. Needs AVX2; exit status 77 without it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "expected.h"
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* A 64-byte boundary in a block. */
static size_t aligned(int block)
{
    return 64 - (uintptr_t)s_block[block] % 64;
}

static int vector(void)
{
    for (size_t at = 3; at < 200; at += 61) {
        __asm__ volatile("vmovdqu %%ymm0, (%0)\n\tvmovdqu (%0), %%ymm1" ::"r"(s_block[0] + at)
                         : "memory", "xmm0", "xmm1");
        expect('S', 0, at, 32);
        expect('L', 0, at, 32);
    }
    __asm__ volatile(
        "vbroadcastss (%0), %%ymm0\n\tmovlps %%xmm0, (%1)\n\tpextrw $3, %%xmm0, 2(%1)" ::"r"(s_block[1] + 8),
        "r"(s_block[2] + 8)
        : "memory", "xmm0");
    expect('L', 1, 8, 4);
    expect('S', 2, 8, 8);
    expect('S', 2, 10, 2);
    return 0;
}

/* Lanes whose mask is off are not accessed. */
static int mask(void)
{
    static const int lanes[8] = {-1, 0, -1, 0, 0, 0, 0, -1};
    __asm__ volatile("vmovdqu (%2), %%ymm2\n\t"
                     "vmaskmovps (%0), %%ymm2, %%ymm1\n\t"
                     "vpmaskmovd %%ymm1, %%ymm2, (%1)" ::"r"(s_block[0] + 100),
                     "r"(s_block[1] + 200), "r"(lanes)
                     : "memory", "xmm1", "xmm2");
    for (size_t lane = 0; lane < 8; lane++)
        if (lanes[lane])
            expect('L', 0, 100 + 4 * lane, 4);
    for (size_t lane = 0; lane < 8; lane++)
        if (lanes[lane])
            expect('S', 1, 200 + 4 * lane, 4);
    return 0;
}

static int gather(void)
{
    static const int lanes[4] = {-1, 0, -1, -1};
    static const int index[4] = {7, 8, 100, 3};
    __asm__ volatile("vmovdqu (%1), %%xmm2\n\tvmovdqu (%2), %%xmm3\n\t"
                     "vpgatherdd %%xmm2, (%0,%%xmm3,4), %%xmm1" ::"r"(s_block[0] + 40),
                     "r"(lanes), "r"(index)
                     : "memory", "xmm1", "xmm2", "xmm3");
    for (size_t lane = 0; lane < 4; lane++)
        if (lanes[lane])
            expect('L', 0, 40 + 4 * (size_t)index[lane], 4);
    return 0;
}

/* Masks and gathers of lanes of 8 bytes. */
static int lanes8(void)
{
    static const int64_t lanes[4] = {-1, 0, 0, -1}, index[4] = {3, 5, 7, 100};
    __asm__ volatile("vmovdqu (%2), %%ymm2\n\t"
                     "vpmaskmovq (%0), %%ymm2, %%ymm1\n\t"
                     "vmaskmovpd %%ymm1, %%ymm2, (%1)" ::"r"(s_block[0] + 64),
                     "r"(s_block[1] + 64), "r"(lanes)
                     : "memory", "xmm1", "xmm2");
    expect('L', 0, 64, 8);
    expect('L', 0, 88, 8);
    expect('S', 1, 64, 8);
    expect('S', 1, 88, 8);
    __asm__ volatile("vmovdqu (%1), %%ymm2\n\tvmovdqu (%2), %%ymm3\n\t"
                     "vgatherqpd %%ymm2, (%0,%%ymm3,8), %%ymm1" ::"r"(s_block[0]),
                     "r"(lanes), "r"(index)
                     : "memory", "xmm1", "xmm2", "xmm3");
    expect('L', 0, 24, 8);
    expect('L', 0, 800, 8);
    return 0;
}

/* Parts of vectors, and stores past the cache. */
static int part(void)
{
    size_t a = aligned(1);
    __asm__ volatile(
        "pinsrb $3, (%0), %%xmm0\n\tpinsrq $1, 8(%0), %%xmm0\n\tmovhps 16(%0), %%xmm0\n\t"
        "movhps %%xmm0, 24(%0)\n\textractps $2, %%xmm0, 40(%0)\n\t"
        "vextractf128 $1, %%ymm0, 48(%0)\n\tvinsertf128 $1, 64(%0), %%ymm0, %%ymm0" ::"r"(s_block[0])
        : "memory", "xmm0");
    expect('L', 0, 0, 1);
    expect('L', 0, 8, 8);
    expect('L', 0, 16, 8);
    expect('S', 0, 24, 8);
    expect('S', 0, 40, 4);
    expect('S', 0, 48, 16);
    expect('L', 0, 64, 16);
    __asm__ volatile(
        "movntdq %%xmm0, (%0)\n\tmovnti %%rax, 16(%0)\n\tmovntdqa (%0), %%xmm1" ::"r"(s_block[1] + a)
        : "memory", "xmm0", "xmm1");
    expect('S', 1, a, 16);
    expect('S', 1, a + 16, 8);
    expect('L', 1, a, 16);
    return 0;
}

static int string(void)
{
    const char *from = s_block[0] + 10;
    char *to = s_block[1] + 20;
    size_t count = 5;
    size_t words = 4;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    for (size_t i = 0; i < 5; i++) {
        expect('L', 0, 10 + i, 1);
        expect('S', 1, 20 + i, 1);
    }
    __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(words)::"memory");
    for (size_t i = 0; i < 4; i++) {
        expect('L', 0, 15 + 8 * i, 8);
        expect('S', 1, 25 + 8 * i, 8);
    }
    to = s_block[2] + 8;
    count = 3;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0L) : "memory");
    for (size_t i = 0; i < 3; i++)
        expect('S', 2, 8 + 8 * i, 8);
    from = s_block[2] + 8;
    count = 2;
    __asm__ volatile("repne scasb" : "+D"(from), "+c"(count) : "a"(1L) : "cc", "memory");
    expect('L', 2, 8, 1);
    expect('L', 2, 9, 1);
    return 0;
}

/* A run of stores of this many elements of 4 bytes, up or down from `at` in block 2. */
static void fill(size_t at, size_t n, bool down)
{
    char *to = s_block[2] + at;
    size_t count = n;
    unsigned long flags = down ? 0x402 : 0x2; /* in a register, so that the translator does not know it */
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpush %2\n\tpopf\n\tlea 128(%%rsp), %%rsp\n\trep stosl\n\tcld"
                     : "+D"(to), "+c"(count)
                     : "r"(flags), "a"(7)
                     : "cc", "memory");
    for (size_t i = 0; i < n; i++)
        expect('S', 2, down ? at - 4 * i : at + 4 * i, 4);
}

/* Longer than what the translator unrolls, in both directions, to a block's last byte. */
static int runs(void)
{
    const char *from = s_block[0] + 3;
    char *to = s_block[1] + s_size[1] - 37;
    size_t count = 37;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    for (size_t i = 0; i < 37; i++) {
        expect('L', 0, 3 + i, 1);
        expect('S', 1, s_size[1] - 37 + i, 1);
    }
    for (size_t n = 0; n < 40; n += 13)
        for (int down = 0; down < 2; down++)
            fill(200, n, down);
    from = s_block[0] + 160;
    to = s_block[2] + 160;
    count = 21;
    __asm__ volatile("std\n\trep movsq\n\tcld" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    for (size_t i = 0; i < 21; i++) {
        expect('L', 0, 160 - 8 * i, 8);
        expect('S', 2, 160 - 8 * i, 8);
    }
    return 0;
}

/* Constant distances that lead into a block from far outside it; after a jump, so that the translator does
 * not add them to how the pointers were computed. */
static int far(void)
{
    __asm__ volatile(
        "jmp 1f\n1:\tmovb -0x60000(%0), %%al\n\tmovb $1, -0x5ffff(%0)\n\tmovb 0x60000(%1), %%al" ::"r"(
            s_block[0] + 0x60000 + 100),
        "r"(s_block[2] - 0x60000 + 50)
        : "rax", "memory");
    expect('L', 0, 100, 1);
    expect('S', 0, 101, 1);
    expect('L', 2, 50, 1);
    return 0;
}

/* Blocks before which there is address space without blocks. An access to the beginning of one shares its word with an
 * access to the memory below, which comes first. The code is translated when it runs on memory that is no heap. */
static __attribute__((noinline)) void below_first(char *p)
{
    __asm__ volatile("movb -0x7000(%0), %%al\n\tmovb (%0), %%al" ::"r"(p) : "rax", "memory");
}

static int border(void)
{
    static char elsewhere[0x8000];
    for (size_t i = 0; i < 3; i++) {
        below_first(elsewhere + 0x7000);
        below_first(s_block[1] + i);
        expect('L', 1, i, 1);
    }
    return 0;
}

/* Two functions of the same code: whether they are met on the heap first or on the stack, it is the heap's
 * accesses that count. */
static __attribute__((noinline)) void heap_first(char *p)
{
    __asm__ volatile("movb $1, (%0)\n\tmovb 5(%0), %%al" ::"r"(p) : "rax", "memory");
}
static __attribute__((noinline)) void stack_first(char *p)
{
    __asm__ volatile("movb $2, (%0)\n\tmovb 5(%0), %%al" ::"r"(p) : "rax", "memory");
}

static int both(void)
{
    char here[16] = {0};
    for (size_t i = 0; i < 4; i++) {
        heap_first(s_block[0] + i);
        heap_first(here + i);
        stack_first(here + i);
        stack_first(s_block[1] + i);
        for (int block = 0; block < 2; block++) {
            expect('S', block, i, 1);
            expect('L', block, i + 5, 1);
        }
    }
    return 0;
}

/* Runs of instructions with three addresses and with six. */
__attribute__((noinline)) static void three(char *const *p)
{
    __asm__ volatile("movb $1, (%0)\n\tmovb (%1), %%al\n\tincb (%2)" ::"r"(p[0]), "r"(p[1]), "r"(p[2])
                     : "rax", "memory");
}

__attribute__((noinline)) static void six(char *const *p)
{
    __asm__ volatile("movb $1, (%0)\n\tmovb (%1), %%al\n\tincb (%2)\n\t"
                     "movb $1, (%3)\n\tmovb (%4), %%al\n\tincb (%5)" ::"r"(p[0]),
                     "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(p[4]), "r"(p[5])
                     : "rax", "memory");
}

/* They are met on the stack, and then now one of the addresses is a block's, now each. */
static int turns(void)
{
    enum { ALL = 6 };
    char here[ALL] = {0}, *at[ALL];
    for (int turn = -1; turn <= ALL; turn++)
        for (int width = 3; width <= ALL; width += 3) {
            for (int i = 0; i < width; i++) {
                at[i] = i == turn || turn == ALL ? s_block[i % BLOCKS] + i : here + i;
                if (at[i] != here + i)
                    expect("SLM"[i % 3], i % BLOCKS, i, 1);
            }
            width == 3 ? three(at) : six(at);
        }
    return 0;
}

/* Whole processor states: the case asks only which bytes were touched. */
static int state(void)
{
    size_t a = aligned(0);
    __asm__ volatile("fxsave (%0)\n\tfxrstor (%0)" ::"r"(s_block[0] + a) : "memory");
    expect('S', 0, a, 416);
    expect('L', 0, a, 416);
    return 0;
}

static int x87(void)
{
    __asm__ volatile("fld1\n\tfstpt (%0)\n\tfldt (%0)\n\tfstpl 16(%0)\n\tfnstcw 32(%0)\n\tfldcw 32(%0)" ::"r"(
                         s_block[0] + 3)
                     : "memory");
    expect('S', 0, 3, 10);
    expect('L', 0, 3, 10);
    expect('S', 0, 19, 8);
    expect('S', 0, 35, 2);
    expect('L', 0, 35, 2);
    __asm__ volatile("fnstenv (%0)\n\tfldenv (%0)\n\tfnsave 200(%0)\n\tfrstor 200(%0)" ::"r"(s_block[1] + 8)
                     : "memory");
    expect('S', 1, 8, 28);
    expect('L', 1, 8, 28);
    expect('S', 1, 208, 108);
    expect('L', 1, 208, 108);
    __asm__ volatile("stmxcsr (%0)\n\tldmxcsr (%0)" ::"r"(s_block[2] + 8) : "memory");
    expect('S', 2, 8, 4);
    expect('L', 2, 8, 4);
    return 0;
}

static int atomic16(void)
{
    size_t a = aligned(1);
    __asm__ volatile("lock cmpxchg16b (%0)" ::"r"(s_block[1] + a), "a"(0L), "d"(0L), "b"(1L), "c"(2L)
                     : "memory", "cc");
    expect('M', 1, a, 16);
    __asm__ volatile("lock btsl $3, (%0)\n\tlock notb 5(%0)" ::"r"(s_block[1] + a) : "memory", "cc");
    expect('M', 1, a, 4);
    expect('M', 1, a + 5, 1);
    return 0;
}

/* -- the kernel: exactly the bytes that came or went, block by block ------------------------------------- */

static int kernel(void)
{
    int ends[2];
    struct iovec parts[2] = {{s_block[0] + 5, 7}, {s_block[1] + 9, 100}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || write(ends[0], s_block[2] + 1, 30) != 30)
        return 1;
    expect('L', 2, 1, 30);
    if (readv(ends[1], parts, 2) != 30) /* 7, then 23 of 100 */
        return 1;
    expect('S', 0, 5, 7);
    expect('S', 1, 9, 23);
    if (writev(ends[0], parts, 2) != 107)
        return 1;
    expect('L', 0, 5, 7);
    expect('L', 1, 9, 100);
    if (recvmsg(ends[1], &message, 0) != 107)
        return 1;
    expect('S', 0, 5, 7);
    expect('S', 1, 9, 100);
    if (send(ends[0], s_block[2] + 2, 3, 0) != 3 || recv(ends[1], s_block[2] + 50, 50, 0) != 3)
        return 1;
    expect('L', 2, 2, 3);
    expect('S', 2, 50, 3);
    return recv(ends[1], s_block[2] + 50, 50, MSG_DONTWAIT) != -1; /* fails: touches nothing */
}

static const struct {
    const char *name;
    int (*run)(void);
} s_modes[] = {{"vector", vector},     {"part", part},     {"mask", mask},    {"gather", gather},
               {"lanes8", lanes8},     {"string", string}, {"runs", runs},    {"far", far},
               {"both", both},         {"turns", turns},   {"state", state},  {"x87", x87},
               {"atomic16", atomic16}, {"kernel", kernel}, {"border", border}};

int main(int argc, char **argv)
{
    if (!__builtin_cpu_supports("avx2"))
        return 77;
    const bool apart = argc == 2 && strcmp(argv[1], "border") == 0;
    for (int i = 0; i < BLOCKS; i++)
        s_block[i] = apart ? aligned_alloc(1 << 20, s_size[i]) : malloc(s_size[i]);
    for (size_t i = 0; i < sizeof s_modes / sizeof *s_modes; i++)
        if (argc == 2 && strcmp(argv[1], s_modes[i].name) == 0) {
            if (s_modes[i].run() != 0)
                return 1;
            report();
            return 0;
        }
    fprintf(stderr, "usage: wide MODE\n");
    return 2;
}
