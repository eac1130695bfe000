/* vex_settings.c - see vex_settings.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Superblocks that do not go on behind calls and jumps are translated once, and not again in each of their
 * callers: programs start sooner, and the longer superblocks were not faster. A watched function then always
 * begins a superblock of its own, so that its arguments are in the guest's registers whatever precision the
 * translator keeps them in.
 *
 * Full precision keeps loads whose value is not used; without accesses nobody asks for them, and what the
 * unwinder needs is enough, as with other tools: only where accesses are recorded may superblocks be cut
 * behind a store (ljtrace/tool/instrument/instrument.c), where all registers have to be in their places.
 */
#include "ljtrace/tool/base/vex_settings.h"
#include "ljtrace/tool/base/options.h"
#include "pub_tool_options.h"

void lt_vex_defaults(void)
{
    VG_(clo_vex_control).guest_chase = False;
    VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

/* What VEX goes by once it has started, at the first translation; its main_globals.h. */
extern VexControl vex_control;

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
