/* numbers.c - reads numbers of the command line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool read_digits(const char *text, uint64_t *out, char **end)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *out = strtoull(text, end, 10);
    return errno == 0;
}

bool number_read(const char *text, uint64_t *out)
{
    char *end;
    return read_digits(text, out, &end) && *end == 0;
}

bool bytes_read(const char *text, uint64_t *out)
{
    static const char units[] = "KMG";
    char *end;
    if (!read_digits(text, out, &end))
        return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (!unit)
        return *end == 0;
    unsigned shift = 10 * (unsigned)(unit - units + 1);
    if (end[1] || *out > UINT64_MAX >> shift)
        return false;
    *out <<= shift;
    return true;
}

bool factor_read(const char *text, double *out)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    *out = strtod(text, &end);
    bool good = (*end == 'x' || *end == 'X') && end[1] == 0 && *out > 0 && *out <= 1000000;
    if (!good)
        *out = 0;
    return good;
}
