/* sample.h - --sample-stacks: where the program is, every so many instructions. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The instructions executed are counted at each point where control may leave a superblock, and compared
 * where the next begins: a sample comes at the first superblock after the interval, at the same one in every
 * run. A sample weighs the instructions since the one before. Without the option no code is added.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_SAMPLE_H
#define LJTRACE_TOOL_INSTRUMENT_SAMPLE_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* Code for a superblock's start: is a sample due? */
void lt_sample_check(IRSB *out);
/* Code that counts n instructions. */
void lt_sample_count(IRSB *out, UInt n);
/* What runs between pause and the end of it is the recorder's own: it does not count. */
void lt_sample_pause(Bool pause);
/* Called from generated code. */
void lt_sample_take(void);

#endif
