/* stack_sampler.h - --sample-stacks: record the program's stack every so many instructions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Generated code counts the instructions at each exit of a superblock, and compares the count at the start of
 * the next. So the sample is taken at the first superblock after the interval, which is the same in every
 * run. The weight of a sample is the number of instructions since the one before. Without the option, no code
 * is added.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_STACK_SAMPLER_H
#define LJTRACE_VALGRIND_INSTRUMENT_STACK_SAMPLER_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* Add the check for a due sample to a superblock's start. */
void lt_stack_sample_check(IRSB *out);
/* Add code that counts n instructions. */
void lt_stack_sample_count(IRSB *out, UInt n);
/* Begin or end a pause. What runs in between is the recorder's own work and is not counted. */
void lt_stack_sample_pause(Bool pause);

#endif
