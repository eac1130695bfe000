/* json.c - writes text in quotes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"

void json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }
    putc('"', out);
}
