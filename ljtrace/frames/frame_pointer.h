/* frame_pointer.h - step from a frame to its caller by the frame pointer, where there is no call frame information.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Code without .eh_frame may keep the address of its frame in rbp, or use rbp for anything. So the step is done only if
 * what is found is plausible: there is a return address, right after a call; and if that is a direct call, the function
 * that it calls contains the frame's code and begins by setting up rbp.
 *
 * Both recorders use it. It allocates nothing; all memory is read by the function that is given.
 */
#ifndef LJTRACE_FRAMES_FRAME_POINTER_H
#define LJTRACE_FRAMES_FRAME_POINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The registers of a frame. ip: the address of an instruction in it; of a frame that has called another, the return
 * address - 1. */
struct frame_pointer {
    uint64_t ip, sp, bp;
};

/* Copy n bytes, at most 16, from an address. False: they cannot be read. */
typedef bool frame_pointer_read(void *context, uint64_t address, void *to, size_t n);

/* Is there a call right before this address, so that it can be a return address? */
bool frame_pointer_after_call(uint64_t address, frame_pointer_read *read, void *context);
/* Step from *at to its caller. False: there is no plausible one, and *at is unchanged. */
bool frame_pointer_step(struct frame_pointer *at, frame_pointer_read *read, void *context);

#endif
