/* stacks.h - C stacks for the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_STACKS_H
#define LJTRACE_NATIVE_HOST_STACKS_H

/* Objects were unmapped: code addresses may mean something else from now on. */
void host_forget_frames(void);

#endif
