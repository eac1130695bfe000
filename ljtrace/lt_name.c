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

static const HChar *s_first; /* what --out says, in the process that this image began in */
static const HChar *s_base;  /* what numbers are put behind */

const HChar *lt_name_first(void)
{
    return s_base = s_first = expand();
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
