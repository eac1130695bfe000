/* calls.c - calls of allocation functions within one another: only the outermost call of a thread is recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A call may be left by an exception or a long jump. That shows when a later call is above it on the stack, or when its
 * return address is not there any more.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/calls.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/unwind.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

/* MOST_FRAMES: between an allocation function and one that it calls. LEAST_SIGNAL: bytes that a signal takes on the stack
 * at least: the red zone, the frame's fixed part, and the registers of the FPU. */
enum { MOST_FRAMES = 64, LEAST_SIGNAL = 128 + 440 + 512 };

bool native_calls_nest;

NATIVE_THREAD_LOCAL struct native_call t_call;

/* The code to which a signal handler returns: mov $SYS_rt_sigreturn, %rax; syscall. */
static bool is_return_of_handler(uint64_t ip)
{
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    return memcmp((const void *)ip, code, sizeof code) == 0;
}

/* Is there a signal handler between this function and the place `sp` on the stack? */
static bool is_in_handler(uint64_t sp)
{
    uint64_t ips[MOST_FRAMES], sps[MOST_FRAMES];
    const uint32_t n = native_unwind(NULL, ips, sps, MOST_FRAMES);
    for (uint32_t i = 0; i < n && sps[i] < sp; i++)
        if (is_return_of_handler(ips[i] + 1) || is_return_of_handler(ips[i]))
            return true;
    return false;
}

static bool is_on_signal_stack(void)
{
    stack_t alternate;
    return sigaltstack(NULL, &alternate) == 0 && (alternate.ss_flags & SS_ONSTACK);
}

bool native_is_language_library(const char *name)
{
    static const char *const names[] = {"libc.so.", "ld-linux", "libstdc++.so.", "libc++.so.",
                                        "libc++abi.so."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Does a library call here that is not the allocator? */
static bool is_by_library(uint64_t sp)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)(*(const uint64_t *)sp - 1), &found) != 0 ||
        found.dlfo_link_map == t_call.object)
        return false;
    const char *path = found.dlfo_link_map->l_name, *slash = strrchr(path, '/');
    return native_is_language_library(slash ? slash + 1 : path);
}

/* Is the return address of the outermost call still on the stack? What is far away may be a stack that is gone. */
static bool is_where_it_was(const struct native_call *c, uint64_t sp)
{
    return (c->sp - sp < LEAST_SIGNAL || kernel_can_read(c->sp)) && *(const uint64_t *)c->sp == c->back_to;
}

bool native_call_is_inner(uint64_t sp)
{
    const struct native_call *c = &t_call;
    if (!c->sp || sp >= c->sp || !is_where_it_was(c, sp))
        return false;
    if (is_by_library(sp))
        return false;
    return c->sp - sp < LEAST_SIGNAL || (!is_on_signal_stack() && !is_in_handler(c->sp));
}

/* A call that runs on is further up on the stack, or is interrupted by a handler that has a stack of its own. */
static bool runs_on(const struct native_call *c, uint64_t sp)
{
    return c->sp && (sp < c->sp || is_on_signal_stack());
}

bool native_call_begin(uint64_t sp, const struct link_map *object, struct native_call *outer)
{
    if (native_call_is_inner(sp))
        return false;
    *outer = runs_on(&t_call, sp) ? t_call : (struct native_call){0};
    t_call.back_to = *(const uint64_t *)sp;
    t_call.object = object;
    t_call.sp = sp;
    return true;
}

void native_call_end(const struct native_call *outer)
{
    t_call = *outer;
}
