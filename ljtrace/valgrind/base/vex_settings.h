/* vex_settings.h - settings of Valgrind's translator for this tool. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_BASE_VEX_SETTINGS_H
#define LJTRACE_VALGRIND_BASE_VEX_SETTINGS_H

/* Set defaults. Call it before the command line is read, so that the --vex-... options override them. */
void lt_vex_defaults(void);
/* Call after it was read. If only heap events are recorded, less is requested of the translator. */
void lt_vex_init(void);
/* From the next translation on, all registers are up to date at each memory access, even if other options
 * request less. */
void lt_vex_be_precise(void);

#endif
