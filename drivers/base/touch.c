/* touch.c - the names of the ways to touch a new block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/touch.h"

const char *const touch_names[TOUCHES] = {
    [TOUCH_NONE] = "none", [TOUCH_FIRST] = "first", [TOUCH_PAGES] = "pages", [TOUCH_ALL] = "all"};
