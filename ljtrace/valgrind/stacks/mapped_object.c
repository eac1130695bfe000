/* mapped_object.c - see mapped_object.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/stacks/mapped_object.h"
#include "ljtrace/frames/eh_sections.h"
#include "ljtrace/luajit/base/guest_memory.h"
#include "pub_tool_aspacemgr.h"

enum { PAGE = 4096, MOST_BETWEEN = 64 };

static Bool is_same_file(const NSegment *a, const NSegment *b)
{
    return b->kind == SkFileC && b->dev == a->dev && b->ino == a->ino;
}

/* The next part of the same file after a part, or before it. Between them may be gaps, in which other memory may be mapped.
 * NULL: there is none. */
static const NSegment *next_part(const NSegment *part, Bool after)
{
    const NSegment *at = part;
    for (UInt i = 0; i < MOST_BETWEEN && at; i++) {
        at = VG_(am_find_nsegment)(after ? at->end + 1 : at->start - 1);
        if (at && is_same_file(part, at))
            return at;
    }
    return NULL;
}

/* The parts of a file lie one after the other in memory, in their order in the file. */
Bool lt_mapped_object_of(Addr code, struct lt_mapped_object *object)
{
    const NSegment *first = VG_(am_find_nsegment)(code), *last = first, *next;
    if (!first || first->kind != SkFileC)
        return False;
    while (first->offset != 0 && (next = next_part(first, False)) && next->offset <= first->offset)
        first = next;
    while ((next = next_part(last, True)) && next->offset && next->offset >= last->offset)
        last = next;
    *object = (struct lt_mapped_object){first->start, last->end + 1, 0};
    return first->offset == 0 && lt_guest_readable(first->start, PAGE) &&
           eh_image_bias((const uint8_t *)first->start, &object->bias);
}
