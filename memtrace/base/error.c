/* error.c - stores the first error in a `struct mt_error`.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"

#include <stdarg.h>
#include <stdio.h>

int mt_fail(struct mt_error *err, enum mt_error_code code, uint64_t offset, const char *format, ...)
{
    if (!err || err->code != MT_E_NONE)
        return MT_ERROR;
    err->code = code;
    err->offset = offset;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return MT_ERROR;
}

int mt_fail_memory(struct mt_error *err)
{
    return mt_fail(err, MT_E_MEMORY, 0, "out of memory: close other programs or raise the limit (ulimit -v)");
}
