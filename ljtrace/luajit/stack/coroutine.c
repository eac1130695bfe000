/* coroutine.c - find the thread that has resumed a coroutine, by the next C frame of the VM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The VM stores the thread in its C frame, at an offset that differs between builds, and a thread has the
 * address of its innermost C frame. So a frame on the C stack is the VM's, and a word in it is the thread, if
 * the word points to a thread that points back to the frame. coroutine.resume and the functions made by
 * coroutine.wrap call from the very next frame. With lua_resume there are C frames in between, so all frames
 * of the C stack are tried that may be the VM's: where lua_resume is called by C code alone, as in a server, there
 * is none.
 */
#include "ljtrace/luajit/stack/coroutine.h"
#include "ljtrace/luajit/host.h"

/* Is this word of the VM's frame the thread that runs in it? */
static bool leads_back(const struct lt_vm *vm, uint64_t L, uint64_t cframe)
{
    if (!L || L & 7) /* objects of Lua are aligned */
        return false;
    program_doubt(L);
    return (program_number(L + vm->at->thread_cframe, 8) & ~(uint64_t)3) == cframe &&
           lt_vm_gct(vm, L) == GCT_THREAD;
}

static struct lt_resumer thread_at(const struct lt_vm *vm, uint64_t cframe)
{
    uint32_t step = vm->at->ref;
    for (uint64_t at = cframe; at < cframe + vm->layout->cframe_size; at += step) {
        uint64_t L = program_number(at, step);
        if (leads_back(vm, L, cframe))
            return (struct lt_resumer){L, cframe, at};
    }
    return (struct lt_resumer){0};
}

struct lt_resumer lt_find_resumer(const struct lt_vm *vm, const struct lt_stack *host, uint64_t cframe)
{
    struct lt_resumer found = thread_at(vm, cframe + vm->layout->cframe_size);
    for (uint32_t i = 0; i < host->depth && !found.L; i++)
        if (host->sps[i] > cframe && !host_is_other_code(host->ips[i]))
            found = thread_at(vm, host->sps[i]);
    return found;
}
