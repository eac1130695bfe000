/* modules.c - reports which object files are mapped, and from when to when.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * With the build id and the addresses of an object file, code addresses can be named after the recording, and on
 * another machine. The collector reads the build id, and opens the file for source lines. If it is not one of the system,
 * the program waits for that.
 */
#include "ljtrace/valgrind/stacks/modules.h"
#include "ljtrace/frames/eh_frame.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/protocol/system_files.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vkiscnums.h"

/* -- the object file in memory -- */

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
    return first->offset == 0 && program_readable(first->start, PAGE) &&
           eh_image_bias((const uint8_t *)first->start, &object->bias);
}

/* -- files of the system -- */

static Bool s_elsewhere; /* the program's paths may lead to other files than the collector's */

/* Is this a file of the system, which the collector finds by the same path as the program? */
static Bool system_has(const HChar *path)
{
    return !s_elsewhere && system_has_file(path);
}

void lt_system_before(UInt number)
{
    s_elsewhere |=
        number == __NR_chroot || number == __NR_pivot_root || number == __NR_setns || number == __NR_unshare;
}

/* -- reports -- */

enum { NAME_LIMIT = 4000, IMAGE_BYTES = 4096 };

/* The code of an object file that was reported and is mapped. */
struct module {
    Addr start;
    SizeT size;
    PtrdiffT bias;
};

static struct module *s_modules;
static UInt s_count, s_room;
static Addr s_lowest = ~(Addr)0, s_highest; /* all code begins from the one to the other */

static Bool is_reported(Addr start, SizeT size, PtrdiffT bias)
{
    for (UInt i = 0; i < s_count; i++)
        if (s_modules[i].start == start && s_modules[i].size == size && s_modules[i].bias == bias)
            return True;
    return False;
}

/* Is it the tool itself, which the program does not see? */
static Bool is_tool(Addr start, SizeT size)
{
    return (Addr)&lt_modules_update - start < size;
}

static void module_keep(Addr start, SizeT size, PtrdiffT bias)
{
    if (s_count == s_room) {
        s_room = s_room ? 2 * s_room : 64;
        s_modules = VG_(realloc)("lt.modules", s_modules, s_room * sizeof *s_modules);
    }
    s_modules[s_count++] = (struct module){start, size, bias};
    s_lowest = start < s_lowest ? start : s_lowest;
    s_highest = start > s_highest ? start : s_highest;
}

static void module_report(const HChar *name, Addr start, SizeT size, PtrdiffT bias)
{
    static HChar image[IMAGE_BYTES];
    struct lt_mapped_object mapped;
    const Bool is_read =
        lt_mapped_object_of(start, &mapped) && program_read(mapped.begin, image, sizeof image);
    HOST_PUT(module, .instructions = lt_ring->instructions, .start = start, .size = size, .bias = (ULong)bias,
             .object = host_text_of(name, VG_(strnlen)(name, NAME_LIMIT)),
             .image = host_text_of(image, is_read ? sizeof image : 0));
}

void lt_modules_update(void)
{
    Bool are_systems = True;
    if (!lt_ring || !lt_ring_alive())
        return;
    for (const DebugInfo *object = VG_(next_DebugInfo)(NULL); object; object = VG_(next_DebugInfo)(object)) {
        const Addr start = VG_(DebugInfo_get_text_avma)(object);
        const SizeT size = VG_(DebugInfo_get_text_size)(object);
        const PtrdiffT bias = VG_(DebugInfo_get_text_bias)(object);
        if (size && !is_tool(start, size) && !is_reported(start, size, bias)) {
            lt_modules_unmapped(start, 1); /* what was there before is gone */
            module_keep(start, size, bias);
            module_report(VG_(DebugInfo_get_filename)(object), start, size, bias);
            are_systems &= system_has(VG_(DebugInfo_get_filename)(object));
        }
    }
    if (!are_systems)
        lt_ring_drain(); /* the collector has opened the files when the ring is drained */
}

Addr lt_module_address(Addr code, const HChar *name)
{
    struct lt_mapped_object mapped;
    if (!lt_mapped_object_of(code, &mapped))
        return 0;
    if (!is_reported(mapped.begin, mapped.end - mapped.begin, (PtrdiffT)mapped.bias)) {
        module_keep(mapped.begin, mapped.end - mapped.begin, (PtrdiffT)mapped.bias);
        module_report(name, mapped.begin, mapped.end - mapped.begin, (PtrdiffT)mapped.bias);
        lt_ring_drain();
    }
    return code - mapped.bias;
}

void lt_modules_unmapped(Addr a, SizeT len)
{
    if (a > s_highest || a + len <= s_lowest)
        return;
    for (UInt i = s_count; i-- > 0;) {
        const Addr start = s_modules[i].start;
        if (start - a >= len)
            continue;
        s_modules[i] = s_modules[--s_count];
        if (lt_ring_alive())
            HOST_PUT(unmapped, .instructions = lt_ring->instructions, .start = start);
    }
}

/* -- no source lines -- */

void __wrap_vgModuleLocal_read_debuginfo_dwarf3(const DebugInfo *object);
void __wrap_vgModuleLocal_new_dwarf3_reader(const DebugInfo *object);

/* Reads all source lines of an object when it is mapped. That takes a third of a program's start, and ends the
 * program ("I can't recover") where the debug information has a form that this Valgrind does not know: split
 * DWARF, type units, DWARF 5 of clang. The collector reads lines instead, of what is needed
 * (symbols/debuginfo.h). The object is the first argument; the others are not looked at. */
void __wrap_vgModuleLocal_read_debuginfo_dwarf3(const DebugInfo *object)
{
    (void)object;
}

/* Reads inlined functions and variables, which nothing here asks for, with the same danger. */
void __wrap_vgModuleLocal_new_dwarf3_reader(const DebugInfo *object)
{
    (void)object;
}
