/* instrument.h - rewriting the program's code so that it records itself. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_INSTRUMENT_H
#define LJTRACE_TOOL_INSTRUMENT_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

IRSB *lt_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                    const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                    IRType host_word);

/* Are accesses recorded? Not with --trace-mem=no, nor when the file has reached --max-size. */
Bool lt_instrument_accesses(void);
/* Before code of the program runs on: if the file has become full, or is another one that is not (a forked
 * child's), all code is translated anew, without recording its accesses or with it. */
void lt_instrument_follow_ring(void);

/* The program's own allocator hands out this address. If it is in the data of an object file, accesses to
 * constant addresses there are recorded from now on. */
void lt_instrument_block(Addr addr);

#endif
