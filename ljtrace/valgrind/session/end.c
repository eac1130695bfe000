/* end.c - end the recording, and say how the program ended. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind informs the tool that the program has ended, but not whether a signal ended it. The last action of
 * Valgrind is to end itself in the same way, by one of the functions that are wrapped here (the linker's
 * --wrap). They show the exit status or the signal.
 */
#include "ljtrace/valgrind/session/end.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_basics.h"

static void (*s_finish)(void); /* NULL: the program is still running, or the recording has ended */

void __real_vgPlain_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_exit(Int status) __attribute__((noreturn));
void __real_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __real_vgPlain_kill_self(Int signal);
void __wrap_vgPlain_kill_self(Int signal);

void lt_end_when_known(void (*finish)(void))
{
    s_finish = finish;
}

/* status: as waitpid has it. */
static void finish(Int status)
{
    void (*f)(void) = s_finish;
    s_finish = NULL;
    if (!f)
        return;
    lt_ring->status = status;
    lt_ring->ended = RING_EXITED;
    f();
}

void __wrap_vgPlain_exit(Int status)
{
    finish((status & 0xff) << 8);
    __real_vgPlain_exit(status);
}

void __wrap_vgPlain_client_exit(Int status)
{
    finish((status & 0xff) << 8);
    __real_vgPlain_client_exit(status);
}

void __wrap_vgPlain_kill_self(Int signal)
{
    finish(signal);
    __real_vgPlain_kill_self(signal);
}
