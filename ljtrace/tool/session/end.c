/* end.c - see end.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * When Valgrind tells its tool that the program has ended, it does not say whether a signal has ended it. The last
 * thing that it does then is to end itself in the same way: by one of the functions that are wrapped here (the
 * linker's --wrap).
 */
#include "ljtrace/tool/session/end.h"
#include "ljtrace/tool/session/facts.h"
#include "pub_tool_basics.h"

static void (*s_finish)(void); /* NULL: the program has not ended, or the recording has */

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

static void finish(const HChar *how, Int number)
{
    void (*f)(void) = s_finish;
    s_finish = NULL;
    if (!f)
        return;
    lt_put_number(how, (ULong)number);
    f();
}

void __wrap_vgPlain_exit(Int status)
{
    finish("exit_status", status & 0xff);
    __real_vgPlain_exit(status);
}

void __wrap_vgPlain_client_exit(Int status)
{
    finish("exit_status", status & 0xff);
    __real_vgPlain_client_exit(status);
}

void __wrap_vgPlain_kill_self(Int signal)
{
    finish("signal", signal);
    __real_vgPlain_kill_self(signal);
}
