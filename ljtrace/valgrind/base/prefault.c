/* prefault.c - populate the tool's memory in few system calls. (see prefault.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The first access to a page is a fault. It takes half a microsecond on bare metal and ten on some virtual
 * machines, and a run of one second had 20,000 of them, few of them the program's own. If most of a piece of
 * memory will be used (the tool's variables, the ring's slabs, Valgrind's heap, translations and their
 * tables), the kernel is asked to populate all its pages by one call, which takes a tenth of the time.
 * MADV_POPULATE_WRITE exists since Linux 5.14; with older kernels nothing changes. The program's memory is
 * never populated here. Huge pages were tried instead, but the code ran slower.
 */
#include "ljtrace/valgrind/base/prefault.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { POPULATE_WRITE_ADVICE = 23, GET_SECCOMP = 21, SET_SECCOMP = 22 };

/* Larger pieces may remain mostly empty. Translations have 10 MiB; a superblock of Valgrind's heap has 1 or
 * 4. */
#define MOST_NEEDED ((SizeT)16 << 20)

/* A piece of memory that Valgrind has mapped for itself. */
struct piece {
    Addr from;
    SizeT size;
};

static Bool s_started;
static Bool s_forbidden; /* the program has restricted its system calls */
/* Pieces from before the start. If there are more, their pages fault as usual. */
static struct piece s_early[4];
static UInt s_early_count;

extern UChar lt_bss_start[] __asm__("__bss_start");
extern UChar lt_bss_end[] __asm__("_end");

SysRes __real_vgPlain_am_mmap_anon_float_valgrind(SizeT size);
SysRes __wrap_vgPlain_am_mmap_anon_float_valgrind(SizeT size);

/* Restrictions are inherited by the programs that a program starts. */
static void look_for_filters(void)
{
    static Bool looked;
    s_forbidden |= !looked && lt_options.successor && lt_sys(__NR_prctl, GET_SECCOMP, 0, 0, 0, 0, 0) != 0;
    looked = True;
}

void lt_prefault_needed(Addr from, SizeT size)
{
    look_for_filters();
    if (!s_forbidden)
        lt_sys(__NR_madvise, from, size, POPULATE_WRITE_ADVICE, 0, 0, 0);
}

static void prepare(const struct piece *p)
{
    if (p->size <= MOST_NEEDED)
        lt_prefault_needed(p->from, p->size);
}

void lt_prefault_before(UInt number, const UWord *args)
{
    s_forbidden |= number == __NR_seccomp || (number == __NR_prctl && args[0] == SET_SECCOMP);
}

Bool lt_prefault_may_call(void)
{
    look_for_filters();
    return !s_forbidden;
}

void lt_prefault_start(void)
{
    const Addr from = VG_PGROUNDUP((Addr)lt_bss_start), to = VG_PGROUNDDN((Addr)lt_bss_end);
    s_started = True;
    lt_prefault_needed(from, to - from);
    for (UInt i = 0; i < s_early_count; i++)
        prepare(&s_early[i]);
}

/* Maps all memory that Valgrind needs for itself. */
SysRes __wrap_vgPlain_am_mmap_anon_float_valgrind(SizeT size)
{
    const SysRes result = __real_vgPlain_am_mmap_anon_float_valgrind(size);
    if (sr_isError(result))
        return result;
    const struct piece piece = {sr_Res(result), size};
    if (s_started)
        prepare(&piece);
    else if (s_early_count < sizeof s_early / sizeof s_early[0])
        s_early[s_early_count++] = piece;
    return result;
}
