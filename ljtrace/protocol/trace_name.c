/* trace_name.c - expands the patterns in --out of `ljtrace run` and `ljtrace attach`.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/protocol/trace_name.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the pattern at `at` stands for. *length: of the pattern. number: room for the text of a number. */
static const char *expand_one(const char *at, int pid, char number[16], int *length)
{
    char variable[256];
    *length = 1;
    if (at[0] == '%' && at[1] == 'p') {
        *length = 2;
        snprintf(number, 16, "%d", pid);
        return number;
    }
    int n = 0;
    if (sscanf(at, "%%q{%255[^}]}%n", variable, &n) == 1 && n) {
        *length = n;
        return getenv(variable) ? getenv(variable) : "";
    }
    snprintf(number, 16, "%c", *at);
    return number;
}

char *trace_name_expand(const char *pattern, int pid)
{
    char name[PATH_MAX] = "", number[16];
    size_t used = 0;
    for (int length; *pattern; pattern += length) {
        const char *text = expand_one(pattern, pid, number, &length);
        const size_t n = strlen(text);
        if (used + n >= sizeof name)
            return NULL;
        memcpy(name + used, text, n + 1);
        used += n;
    }
    return used ? strdup(name) : NULL;
}
