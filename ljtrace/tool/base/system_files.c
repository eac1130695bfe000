/* system_files.c - make the path by which the collector finds a file of the system. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/tool/base/system_files.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vkiscnums.h"

static Bool s_elsewhere; /* the program's paths may lead to other files than the collector's */

static Bool begins(const HChar *text, const HChar *with)
{
    return VG_(strncmp)(text, with, VG_(strlen)(with)) == 0;
}

Bool lt_system_has(const HChar *path)
{
    return !s_elsewhere && (begins(path, "/lib") || (begins(path, "/usr/") && !begins(path, "/usr/local/")));
}

void lt_system_path(HChar *to, SizeT room, const HChar *path)
{
    if (s_elsewhere)
        VG_(snprintf)(to, room, "/proc/%d/root%s", VG_(getpid)(), path);
    else
        VG_(snprintf)(to, room, "%s", path);
}

void lt_system_before(UInt number)
{
    s_elsewhere |=
        number == __NR_chroot || number == __NR_pivot_root || number == __NR_setns || number == __NR_unshare;
}
