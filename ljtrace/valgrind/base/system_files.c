/* system_files.c - see system_files.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/base/system_files.h"
#include "ljtrace/protocol/system_files.h"
#include "pub_tool_vkiscnums.h"

static Bool s_elsewhere; /* the program's paths may lead to other files than the collector's */

Bool lt_system_has(const HChar *path)
{
    return !s_elsewhere && system_has_file(path);
}

void lt_system_before(UInt number)
{
    s_elsewhere |=
        number == __NR_chroot || number == __NR_pivot_root || number == __NR_setns || number == __NR_unshare;
}
