/* line_of.c - the collector's look-up of source lines as a program, for regtest/cases/test_c_lines.py.
 *
 *     line_of OBJECT ADDRESS [OTHER]
 *
 * Prints FILE:LINE, or `unknown`, with the inlined functions before it: `inner FILE:LINE < outer FILE:LINE <
 * FILE:LINE`. With OTHER it prints once more, after that file was moved to OBJECT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/debuginfo.h"
#include <stdio.h>
#include <stdlib.h>

static void tell(struct debuginfo *d, const char *object, uint64_t address)
{
    const struct debuginfo_frame *frames;
    size_t count = debuginfo_find(d, debuginfo_at(d, object), address, &frames);
    for (size_t i = 0; i < count; i++) {
        if (frames[i].function)
            printf("%s ", frames[i].function);
        if (frames[i].line)
            printf("%s:%u%s", frames[i].file, frames[i].line, i + 1 < count ? " < " : "\n");
        else
            printf("unknown%s", i + 1 < count ? " < " : "\n");
    }
    if (!count)
        puts("unknown");
}

int main(int argc, char **argv)
{
    struct debuginfo *d = debuginfo_new();
    if (!d || argc < 3)
        return 2;
    uint64_t address = strtoull(argv[2], NULL, 16);
    tell(d, argv[1], address);
    if (argc > 3 && rename(argv[3], argv[1]) == 0)
        tell(d, argv[1], address);
    debuginfo_free(d);
    return 0;
}
