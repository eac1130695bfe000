/* options.c - the options of the code that is shared with the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/base/options.h"

struct lt_options lt_options = {.heap_luajit = True, .lua = True};
