/* instrument.h - add code to the program's superblocks that records what they do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The main file of this folder. Begin to read at lt_instrument, in instrument.c.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_INSTRUMENT_H
#define LJTRACE_VALGRIND_INSTRUMENT_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* The tool's function for the core: returns an instrumented copy of the superblock `in`. */
IRSB *lt_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                    const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                    IRType host_word);

#endif
