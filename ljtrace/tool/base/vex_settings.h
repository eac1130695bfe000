/* vex_settings.h - how Valgrind's translator works for this tool. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_VEX_SETTINGS_H
#define LJTRACE_TOOL_BASE_VEX_SETTINGS_H

/* Set the defaults, before the command line is read: its --vex-... options go over them. */
void lt_vex_defaults(void);
/* After it was read: heap events alone need less of the translator. */
void lt_vex_init(void);
/* From the next translation on, all registers are in their places at each memory access,
 * for all that the translator does. */
void lt_vex_be_precise(void);

#endif
