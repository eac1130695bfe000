/* vex_settings.c - set the options of Valgrind's translator that this tool needs. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Superblocks end at calls and jumps (guest_chase is off). So the code that follows is translated once, and
 * not again in each of its callers. Programs start sooner, and the longer superblocks were not faster. It
 * also means that a watched function always begins a superblock of its own, so that its arguments are in the
 * guest's registers, whatever the precision of registers.
 *
 * Full precision of registers keeps loads whose value is not used. If no accesses are recorded, these loads
 * are not needed, and the precision that unwinding needs is enough, as with other tools. Superblocks are cut
 * after a store (ljtrace/valgrind/instrument/instrument.c), where all registers have to be up to date, only if
 * accesses are recorded.
 */
#include "ljtrace/valgrind/base/vex_settings.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "pub_tool_options.h"

void lt_vex_defaults(void)
{
    VG_(clo_vex_control).guest_chase = False;
    VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

void lt_vex_be_precise(void)
{
    VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    vex_control.iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

void lt_vex_init(void)
{
    if (lt_options.trace_mem || VG_(clo_vex_control).guest_chase)
        return;
    if (!lt_option_given("--px-file-backed"))
        VG_(clo_px_file_backed) = VexRegUpdUnwindregsAtMemAccess;
    if (!lt_option_given("--vex-iropt-register-updates"))
        VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdUnwindregsAtMemAccess;
}
