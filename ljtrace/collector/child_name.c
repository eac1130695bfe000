/* child_name.c - the names of the traces of forked children; see child_name.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/child_name.h"
#include "ljtrace/collector/sink.h"
#include "ljtrace/protocol/trace_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *trace_name_of_child(const char *pattern, const char *parents, int pid)
{
    char word[16];
    if (parents[0] == '|' || sink_descriptor(parents) >= 0)
        return NULL;
    /* Only a pattern with %p is different for another id. The parent's name does not show it: a child's has the id. */
    char *name = trace_name_expand(pattern, pid), *others = trace_name_expand(pattern, 0);
    const bool has_id = name && others && strcmp(name, others) != 0;
    free(others);
    if (!name || has_id)
        return name;
    snprintf(word, sizeof word, "%d", pid);
    char *variant = sink_variant(name, word);
    free(name);
    return variant;
}
