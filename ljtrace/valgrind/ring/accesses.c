/* accesses.c - are accesses recorded now? (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/ring/accesses.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/valgrind/ring/ring.h"

static Bool s_accesses = True; /* the code that is translated now records its accesses */

Bool lt_accesses_recorded(void)
{
    return lt_options.trace_mem && s_accesses;
}

void lt_accesses_follow_ring(void)
{
    Bool wanted = !lt_ring->full && lt_ring_alive();
    if (wanted == s_accesses)
        return;
    s_accesses = wanted;
    if (lt_options.trace_mem)
        lt_smc_translate_again();
}
