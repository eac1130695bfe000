/* instrument.h - add code to the program's superblocks that records what they do. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The main file of this folder. Begin to read at lt_instrument, in instrument.c.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_INSTRUMENT_H
#define LJTRACE_TOOL_INSTRUMENT_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* The tool's function for the core: returns an instrumented copy of the superblock `in`. */
IRSB *lt_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                    const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                    IRType host_word);

/* Are accesses recorded? Not with --trace-mem=no, nor after the file has reached --max-size. */
Bool lt_instrument_accesses(void);
/* Call before code of the program runs. Has the file become full, or is it now another one that is not full
 * (a forked child's)? Then all code is translated again, without or with the recording of accesses. */
void lt_instrument_follow_ring(void);

/* The program's own allocator returns this address. If it is in the data of an object file, accesses to
 * constant addresses in such data are recorded from now on. */
void lt_instrument_block(Addr addr);

#endif
