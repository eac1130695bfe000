/* child_name.c - the names of the traces of forked children; see child_name.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/child_name.h"
#include "ljtrace/collector/sink.h"
#include "ljtrace/protocol/trace_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *trace_name_of_child(const char *pattern, const char *parents, int pid)
{
    char word[16];
    if (parents[0] == '|' || sink_descriptor(parents) >= 0)
        return NULL;
    char *name = trace_name_expand(pattern, pid);
    if (!name || strcmp(name, parents) != 0)
        return name;
    free(name);
    snprintf(word, sizeof word, "%d", pid);
    return sink_variant(parents, word);
}
