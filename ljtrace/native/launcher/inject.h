/* inject.h - have a running process load the library and call one of its functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LAUNCHER_INJECT_H
#define LJTRACE_NATIVE_LAUNCHER_INJECT_H

#include "ljtrace/native/launcher/target.h"

/* Have a thread of the process load the library and call `function` at a safe point. Its
 * argument is the text, a colon, and the address at which the thread was interrupted, in hexadecimal. *result: what it has
 * returned. Returns NULL, or why it was not called; then the process goes on as before. */
const char *inject(const struct target *t, const char *library, const char *function, const char *text,
                   long *result);

#endif
