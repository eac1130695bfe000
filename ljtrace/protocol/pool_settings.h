/* pool_settings.h - environment variables that switch off pools of language runtimes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A runtime that hands out memory from pools of its own can often be made to use malloc instead, so that all blocks are
 * recorded. Which of these variables are set is a fact of the trace. What each means is in steve/trace/runtimes.py.
 */
#ifndef LJTRACE_PROTOCOL_POOL_SETTINGS_H
#define LJTRACE_PROTOCOL_POOL_SETTINGS_H

static const char *const pool_settings[] = {"PYTHONMALLOC", "USE_ZEND_ALLOC", "G_SLICE"};
enum { POOL_SETTINGS = sizeof pool_settings / sizeof *pool_settings };

/* The fact that has the value of each is named with this prefix. */
#define POOL_SETTING_FACT "setting "

#endif
