/* lt_memory.c - memory that the tool takes, in few steps instead of page by page. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The first access to a page is a fault, which takes half a microsecond on bare machines and ten on some
 * virtual ones; a run of a second had 20,000 of them, not counting the program's own. Where most of a piece
 * is going to be used (the tool's variables, the ring's slabs, Valgrind's heap, translations and their
 * tables), the kernel is asked for all of its pages by one call, which takes a tenth of the time.
 * MADV_POPULATE_WRITE is of Linux 5.14; kernels that do not know it do as before. Of the program's memory
 * nothing is touched here. Huge pages instead have been tried: they made the code run slower.
 */
#include "lt_memory.h"
#include "lt_sys.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { POPULATE_WRITE_ADVICE = 23 };

/* Larger pieces may stay empty for the most part; translations have 10 MiB, a superblock of Valgrind's heap
 * 1 or 4. */
#define MOST_NEEDED ((SizeT)16 << 20)

struct piece {
    Addr from;
    SizeT size;
};

static Bool s_started;
static struct piece s_early[4]; /* taken before the start; of others the pages fault once more */
static UInt s_early_count;

extern UChar lt_bss_start[] __asm__("__bss_start");
extern UChar lt_bss_end[] __asm__("_end");

SysRes __real_vgPlain_am_mmap_anon_float_valgrind(SizeT size);
SysRes __wrap_vgPlain_am_mmap_anon_float_valgrind(SizeT size);

void lt_memory_needed(Addr from, SizeT size)
{
    if (size <= MOST_NEEDED)
        lt_sys(__NR_madvise, from, size, POPULATE_WRITE_ADVICE, 0, 0, 0);
}

void lt_memory_start(void)
{
    const Addr from = VG_PGROUNDUP((Addr)lt_bss_start), to = VG_PGROUNDDN((Addr)lt_bss_end);
    s_started = True;
    lt_sys(__NR_madvise, from, to - from, POPULATE_WRITE_ADVICE, 0, 0, 0);
    for (UInt i = 0; i < s_early_count; i++)
        lt_memory_needed(s_early[i].from, s_early[i].size);
}

/* All that Valgrind takes for itself. */
SysRes __wrap_vgPlain_am_mmap_anon_float_valgrind(SizeT size)
{
    const SysRes result = __real_vgPlain_am_mmap_anon_float_valgrind(size);
    if (sr_isError(result))
        return result;
    lt_memory_needed(sr_Res(result), size);
    if (!s_started && s_early_count < sizeof s_early / sizeof s_early[0])
        s_early[s_early_count++] = (struct piece){sr_Res(result), size};
    return result;
}
