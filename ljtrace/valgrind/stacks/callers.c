/* callers.c - see callers.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind does not understand all call frame information. What it has none for is looked up in the object itself,
 * which also says which frames are outermost.
 */
#include "ljtrace/valgrind/stacks/callers.h"
#include "ljtrace/frames/eh_sections.h"
#include "ljtrace/frames/frame_pointer.h"
#include "ljtrace/luajit/base/guest_memory.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/stacks/mapped_object.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"

enum { RED_ZONE = 128 };

/* The rules of code, as its object has them. */
static Bool find_rules(Addr ip, struct eh_rules *rules)
{
    struct lt_mapped_object object;
    struct eh_sections sections;
    if (!lt_mapped_object_of(ip, &object))
        return False;
    const struct eh_image image = {(const uint8_t *)object.begin, (const uint8_t *)object.end, object.bias};
    const uint8_t *header = eh_header_of(&image);
    return header && eh_sections_at(&image, header, &sections) && eh_frame_rules(&sections, ip, rules);
}

static Bool read_word(Addr at, Addr end, Addr *to)
{
    return at + sizeof *to <= end && lt_guest_read(at, to, sizeof *to);
}

/* Step by rules that need rip, rsp and rbp only. */
static enum lt_step follow(const struct eh_rules *rules, struct lt_frame *f, Addr end)
{
    const struct eh_rule *cfa = &rules->cfa, *ip = &rules->registers[rules->return_address],
                         *bp = &rules->registers[EH_RBP];
    Addr top = cfa->reg == EH_RSP ? f->sp : f->bp, back;
    if (ip->how == EH_UNDEFINED)
        return LT_STEP_OUTERMOST;
    if (cfa->how != EH_IN_REGISTER || (cfa->reg != EH_RSP && cfa->reg != EH_RBP) || ip->how != EH_SAVED ||
        rules->is_signal_frame)
        return LT_STEP_LOST;
    top += (Addr)(Word)cfa->offset;
    if (top <= f->sp || !read_word(top + (Addr)(Word)ip->offset, end, &back))
        return LT_STEP_LOST;
    if (bp->how == EH_SAVED && !read_word(top + (Addr)(Word)bp->offset, end, &f->bp))
        return LT_STEP_LOST;
    if (back <= 1)
        return LT_STEP_OUTERMOST;
    *f = (struct lt_frame){back - 1, top, f->bp};
    return LT_STEP_KNOWN;
}

static bool read_for_step(void *end, uint64_t address, void *to, size_t n)
{
    (void)end;
    return lt_guest_read(address, to, n);
}

/* The dynamic linker's first instructions, which start the program, have no call frame information. */
static Bool is_linkers(Addr ip)
{
    const DebugInfo *object = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), ip);
    const HChar *name = object ? VG_(DebugInfo_get_soname)(object) : NULL;
    return name && VG_(strncmp)(name, "ld-linux", 8) == 0;
}

/* Is a return address the beginning of a function? It was not left by a call, but put there for a coroutine, which begins
 * with its caller. */
static Bool is_put_there(Addr ip)
{
    struct eh_rules rules;
    return find_rules(ip + 1, &rules) && !frame_pointer_after_call(ip + 1, read_for_step, NULL);
}

static enum lt_step step_by_frame_pointer(struct lt_frame *f, Addr end)
{
    struct frame_pointer caller = {f->ip, f->sp, f->bp};
    if (is_linkers(f->ip) || is_put_there(f->ip))
        return LT_STEP_OUTERMOST;
    if (f->bp + 2 * sizeof(Addr) > end || !frame_pointer_step(&caller, read_for_step, NULL))
        return LT_STEP_LOST;
    *f = (struct lt_frame){caller.ip, caller.sp, caller.bp};
    return LT_STEP_PLAUSIBLE;
}

enum lt_step lt_step_to_caller(struct lt_frame *f, const struct lt_stack_memory *memory)
{
    struct eh_rules rules;
    struct core_registers r = {f->ip, f->sp, f->bp};
    if (VG_(use_CF_info)(&r, f->sp - RED_ZONE, memory->to - sizeof(Addr))) {
        if (r.ip <= 1)
            return LT_STEP_OUTERMOST;
        if (r.sp <= f->sp && r.sp >= memory->from)
            return LT_STEP_LOST;
        *f = (struct lt_frame){r.ip - 1, r.sp, r.bp};
        return LT_STEP_KNOWN;
    }
    return find_rules(f->ip, &rules) ? follow(&rules, f, memory->to) : step_by_frame_pointer(f, memory->to);
}
