/* options.c - the options of the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/options.h"

struct luajit_options luajit_options;
