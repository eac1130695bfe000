/* lt_name.c - see lt_name.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_name.h"
#include "lt_options.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"

static Bool is_file(const HChar *name)
{
    return name[0] != '|' && VG_(strcmp)(name, "-") != 0;
}

/* The core's expansion puts relative names into the working directory; a command is made to look absolute. */
static const HChar *expand(void)
{
    const HChar *out = lt_options.out;
    if (VG_(strcmp)(out, "-") == 0)
        return out;
    if (is_file(out))
        return VG_(expand_file_name)("--out", out);
    HChar *rooted = VG_(malloc)("ljtrace.name", VG_(strlen)(out) + 2);
    VG_(sprintf)(rooted, "/%s", out);
    const HChar *name = VG_(expand_file_name)("--out", rooted) + 1;
    VG_(free)(rooted);
    return name;
}

static const HChar *with_number(const HChar *name, UInt number)
{
    HChar *longer = VG_(malloc)("ljtrace.name", VG_(strlen)(name) + 16);
    VG_(sprintf)(longer, "%s.%u", name, number);
    return longer;
}

const HChar *lt_name_image(UInt attempt)
{
    static const HChar *first;
    const HChar *name = expand();
    if (attempt == 0)
        return first = name;
    if (!is_file(name))
        return NULL;
    return VG_(strcmp)(name, first) == 0 ? with_number(name, attempt + 1) : name;
}

const HChar *lt_name_child(const HChar *parent)
{
    const HChar *name = expand();
    if (VG_(strcmp)(name, parent) != 0)
        return name;
    return is_file(name) ? with_number(name, VG_(getpid)()) : NULL;
}
