/* futex.c - report which words a futex call reads and writes. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * futex(2) of the Linux manual pages says which words a call reads and writes. One write is not reported: a
 * lock that the kernel hands over to a waiting thread (FUTEX_WAIT_REQUEUE_PI) is written during another
 * thread's call.
 */
#include "ljtrace/valgrind/syscalls/futex.h"
#include "ljtrace/valgrind/syscalls/syscalls.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { COMMANDS = 127, LOCK_PI2 = 13, WORD_BYTES = 4 }; /* the other bits are flags */

static Addr s_word[2];

/* The word that a successful call writes; 0 = none. */
static Addr written(const UWord *args)
{
    switch (args[1] & COMMANDS) {
    case VKI_FUTEX_WAKE_OP:
        return args[4];
    case VKI_FUTEX_LOCK_PI:
    case VKI_FUTEX_TRYLOCK_PI:
    case VKI_FUTEX_UNLOCK_PI:
    case LOCK_PI2:
        return args[0];
    default:
        return 0;
    }
}

/* The word that a call reads; 0 = none. */
static Addr read(const UWord *args)
{
    switch (args[1] & COMMANDS) {
    case VKI_FUTEX_WAKE:
    case VKI_FUTEX_WAKE_BITSET:
    case VKI_FUTEX_REQUEUE:
        return 0;
    case VKI_FUTEX_WAKE_OP:
        return args[4];
    default:
        return args[0];
    }
}

void lt_futex_before(UInt number, const UWord *args)
{
    Bool is_futex = number == __NR_futex;
    s_word[0] = is_futex ? args[0] : 0;
    s_word[1] = is_futex ? args[4] : 0;
    if (is_futex && read(args))
        lt_syscall_access(RAW_LOAD, read(args), WORD_BYTES);
}

void lt_futex_after(UInt number, const UWord *args, SysRes result)
{
    if (number == __NR_futex && !sr_isError(result) && written(args))
        lt_syscall_access(RAW_STORE, written(args), WORD_BYTES);
}

Bool lt_futex_reports(Addr addr)
{
    return addr && (addr == s_word[0] || addr == s_word[1]);
}
