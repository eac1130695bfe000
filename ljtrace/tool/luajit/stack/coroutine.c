/* coroutine.c - see coroutine.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The machine keeps the thread in its frame, at a place that differs from build to build. A thread keeps the
 * place of its innermost frame. So a frame of the C stack is the machine's, and a word in it is the thread,
 * if it leads to a thread that leads back. coroutine.resume and what coroutine.wrap makes call from the very
 * frame below; with lua_resume there are frames of C between, and those of the host's unwinder are tried one
 * by one.
 */
#include "ljtrace/tool/luajit/stack/coroutine.h"

/* Is that word of the machine's frame the thread that runs in it? */
static Bool leads_back(const struct lt_vm *vm, Addr L, Addr cframe)
{
    return L && (lt_peek_number(L + vm->at->thread_cframe, 8) & ~(Addr)3) == cframe &&
           lt_vm_gct(vm, L) == GCT_THREAD;
}

static struct lt_resumer thread_at(const struct lt_vm *vm, Addr cframe)
{
    UInt step = vm->at->ref;
    for (Addr at = cframe; at < cframe + vm->layout->cframe_size; at += step) {
        Addr L = lt_peek_number(at, step);
        if (leads_back(vm, L, cframe))
            return (struct lt_resumer){L, cframe, at};
    }
    return (struct lt_resumer){0};
}

struct lt_resumer lt_find_resumer(const struct lt_vm *vm, const struct lt_stack *host, Addr cframe)
{
    struct lt_resumer found = thread_at(vm, cframe + vm->layout->cframe_size);
    for (UInt i = 0; i < host->depth && !found.L; i++)
        if (host->sps[i] > cframe)
            found = thread_at(vm, host->sps[i]);
    return found;
}
