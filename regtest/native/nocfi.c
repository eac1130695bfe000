/* nocfi.c - blocks made under code of which no unwind information says who calls it (regtest/cases/test_cut_stacks.py).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions in assembly have no entries in .eh_frame. `framed` keeps the address of its frame in rbp, so its caller can be
 * found; `bare` does not. `astray` has in rbp the address of a frame that is not its own.
 */
#include <stdlib.h>

void *framed(size_t size);
void *bare(size_t size);
void *astray(size_t size);

__asm__(".text\n"
        ".globl framed, bare, astray\n"
        ".type framed, @function\n"
        "framed:\n\tpush %rbp\n\tmov %rsp, %rbp\n\tsub $48, %rsp\n\tcall malloc@PLT\n\tleave\n\tret\n"
        ".size framed, .-framed\n"
        ".type bare, @function\n"
        "bare:\n\tsub $24, %rsp\n\tcall malloc@PLT\n\tadd $24, %rsp\n\tret\n"
        ".size bare, .-bare\n"
        ".type astray, @function\n"
        "astray:\n\tsub $8, %rsp\n\tcall malloc@PLT\n\tadd $8, %rsp\n\tret\n"
        ".size astray, .-astray\n");

static __attribute__((noinline)) void *from_framed(size_t size)
{
    char *block = framed(size);
    block[0] = 1;
    return block;
}

static __attribute__((noinline)) void *from_bare(size_t size)
{
    char *block = bare(size);
    block[0] = 1;
    return block;
}

/* With a frame pointer of its own, which `astray` finds in rbp: by it, one would get to the caller of this function. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) void *from_astray(size_t size)
{
    char *block = astray(size);
    block[0] = 1;
    return block;
}

int main(void)
{
    for (int i = 0; i < 10; i++) {
        free(from_framed(11));
        free(from_bare(22));
        free(from_astray(33));
    }
    return 0;
}
