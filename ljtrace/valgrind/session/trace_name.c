/* trace_name.c - make the name of a process's trace from --out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/session/trace_name.h"
#include "ljtrace/valgrind/base/options.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"

static Bool begins_with(const HChar *name, const HChar *start)
{
    return VG_(strncmp)(name, start, VG_(strlen)(start)) == 0;
}

/* Does the name mean a descriptor of the program? The collector understands these names (sink_descriptor). */
static Bool is_descriptor(const HChar *name)
{
    return VG_(strcmp)(name, "-") == 0 || begins_with(name, "/dev/std") || begins_with(name, "/dev/fd/") ||
           begins_with(name, "/proc/self/fd/");
}

/* Is the output a stream that the program that started this one writes to? Their traces would be mixed. */
static Bool is_taken_stream(const HChar *name)
{
    return lt_options.successor && (name[0] == '|' || is_descriptor(name)) &&
           !VG_(strstr)(lt_options.out, "%p");
}

/* Can the trace be a file with variants of its name beside it? Not if it is a command, a device or a pipe. */
static Bool is_file(const HChar *name)
{
    struct vg_stat st;
    if (name[0] == '|' || is_descriptor(name))
        return False;
    return sr_isError(VG_(stat)(name, &st)) || VKI_S_ISREG(st.mode);
}

/* Expand %p, %n and %q. The core's function puts relative names into the working directory, so a command gets
 * a "/" in front for the call. */
static const HChar *expand(void)
{
    const HChar *out = lt_options.out;
    if (VG_(strcmp)(out, "-") == 0)
        return out;
    if (out[0] != '|')
        return VG_(expand_file_name)("--out", out);
    HChar *rooted = VG_(malloc)("ljtrace.name", VG_(strlen)(out) + 2);
    VG_(sprintf)(rooted, "/%s", out);
    const HChar *name = VG_(expand_file_name)("--out", rooted) + 1;
    VG_(free)(rooted);
    return name;
}

/* The offset of the file type (.ljt or .txt) in a trace's name; the name's length if it has neither. */
static UInt ending_of(const HChar *name)
{
    static const HChar *const endings[] = {".ljt", ".txt"};
    UInt length = VG_(strlen)(name);
    for (UInt i = 0; i < 2; i++)
        if (length > 4 && VG_(strcmp)(name + length - 4, endings[i]) == 0)
            return length - 4;
    return length;
}

/* Insert a number: app.ljt becomes app.2.ljt. */
static const HChar *with_number(const HChar *name, UInt number)
{
    UInt stem = ending_of(name);
    HChar *longer = VG_(malloc)("ljtrace.name", VG_(strlen)(name) + 16);
    VG_(memcpy)(longer, name, stem);
    VG_(sprintf)(longer + stem, ".%u%s", number, name + stem);
    return longer;
}

/* The name from --out in the process in which this image began. */
static const HChar *s_first;
/* The name into which numbers are inserted. */
static const HChar *s_base;

const HChar *lt_name_first(void)
{
    s_base = s_first = expand();
    if (!is_taken_stream(s_first))
        return s_first;
    VG_(fmsg)
    ("%s has the trace of the program that started this one; with %%p in its name each process gets a file "
     "of its own\n",
     s_first);
    return NULL;
}

const HChar *lt_name_next(Bool busy)
{
    static UInt images = 1;
    const HChar *name = expand();
    if (!is_file(name))
        return NULL;
    if (busy && s_base == s_first)
        return s_base = with_number(s_first, VG_(getpid)());
    if (s_base == s_first && VG_(strcmp)(name, s_first) != 0)
        return name;
    return with_number(s_base, ++images);
}

const HChar *lt_name_child(void)
{
    const HChar *name = expand();
    if (VG_(strcmp)(name, s_first) != 0)
        return name;
    return is_file(name) ? with_number(s_first, VG_(getpid)()) : NULL;
}
