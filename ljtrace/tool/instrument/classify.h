/* classify.h - where a superblock's accesses will go. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * To look up where an access goes (ljtrace/tool/ring/block_filter.h) takes five instructions a word and four an exit. That is
 * worth while for code that works on the stack or on static data, and wasted on code that nearly always works
 * on blocks. Which of the two a superblock is need not be counted: it is translated right before it is run
 * for the first time, so registers and memory say where it goes then, and mostly it goes there again. A wrong
 * forecast costs time or room in the ring and no event.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_CLASSIFY_H
#define LJTRACE_TOOL_INSTRUMENT_CLASSIFY_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* Where the accesses of a superblock go, as far as memory and the registers of the thread that is about to
 * run it tell. */
enum lt_forecast {
    LT_TO_BLOCKS, /* one of them to where blocks may be: with it the whole segment is recorded */
    LT_ELSEWHERE, /* all of them to where there are none */
    LT_UNFORESEEN
};
enum lt_forecast lt_forecast(ThreadId tid, const IRSB *in);

#endif
