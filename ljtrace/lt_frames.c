/* lt_frames.c - unwinding and naming. (host side, no libc; see lt_frames.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_frames.h"
#include "lt_options.h"
#include "lt_ring.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_stacktrace.h"

enum { NAMED_SLOTS = 1 << 15, NAME_LIMIT = 4000 };

/* Direct-mapped: the code address last named in each slot, and whether it lies in a known object. */
static struct named {
    Addr ip;
    Bool known;
} s_named[NAMED_SLOTS];

static UInt slot_of(Addr ip)
{
    return (UInt)((ip * 0x9e3779b97f4a7c15ULL) >> 49);
}

void lt_forget_frames(void)
{
    VG_(memset)(s_named, 0, sizeof s_named);
}

static UInt limited_length(const HChar *s)
{
    SizeT n = VG_(strlen)(s);
    return n < NAME_LIMIT ? (UInt)n : NAME_LIMIT;
}

static void put_frame(Addr ip, UInt line, const HChar *const text[3])
{
    UInt size[3] = {limited_length(text[0]), limited_length(text[1]), limited_length(text[2])};
    uint64_t words[4] = {ip, line, raw_pair(size[0], size[1]), size[2]};
    lt_ring_put_text(RAW_FRAME, words, 4, text, size, 3);
}

/* The debug information's answers live in its own buffers until the next question: copy. */
static void copy_name(HChar *to, const HChar *directory, const HChar *name)
{
    if (directory && directory[0])
        VG_(snprintf)(to, NAME_LIMIT, "%s/%s", directory, name);
    else
        VG_(snprintf)(to, NAME_LIMIT, "%s", name);
}

/* Returns whether the address lies in an object that Valgrind knows. */
static Bool describe_frame(Addr ip)
{
    static HChar function[NAME_LIMIT], file[NAME_LIMIT], object[NAME_LIMIT];
    DiEpoch epoch = VG_(current_DiEpoch)();
    const HChar *name, *directory;
    UInt line = 0;
    function[0] = file[0] = object[0] = 0;
    if (VG_(get_fnname)(epoch, ip, &name))
        copy_name(function, NULL, name);
    if (VG_(get_filename_linenum)(epoch, ip, &name, &directory, &line))
        copy_name(file, directory, name);
    if (VG_(get_objname)(epoch, ip, &name))
        copy_name(object, NULL, name);
    const HChar *text[3] = {function, file, object};
    put_frame(ip, line, text);
    return object[0] != 0;
}

Bool lt_name_frame(Addr ip)
{
    struct named *named = &s_named[slot_of(ip)];
    if (named->ip != ip) {
        named->ip = ip;
        named->known = describe_frame(ip);
    }
    return named->known;
}

/* Code outside all objects was made at run time: it has no unwind information, and what the unwinder guesses
 * beyond it are numbers that happen to lie on the stack. */
void lt_take_stack(ThreadId tid, struct lt_stack *stack)
{
    UInt depth = 0;
    stack->depth = 0;
    if (lt_options.stack_depth == 0)
        return;
    UInt found = VG_(get_StackTrace)(tid, stack->ips, lt_options.stack_depth, NULL, NULL, 0);
    while (depth < found && lt_name_frame(stack->ips[depth++]))
        ;
    stack->depth = depth;
}
