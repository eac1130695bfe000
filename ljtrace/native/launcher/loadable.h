/* loadable.h - will the dynamic loader of a program load the recorder's library?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LAUNCHER_LOADABLE_H
#define LJTRACE_NATIVE_LAUNCHER_LOADABLE_H

/* Why the program that execvp would execute for this name does not load this library when it is preloaded, or would fail to,
 * and what to do instead. NULL = it loads it, as far as can be seen; also if the program does not exist. The text is valid
 * until the next call. */
const char *loadable_refusal(const char *name, const char *library);

#endif
