/* unwind.h - the C stack of the calling thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Works for code without frame pointers, by the tables in .eh_frame. The stack ends at the first frame whose code has no
 * such table, for instance code that was made at run time; that frame is still in it. A caller that knows how to get
 * across such a frame continues with the registers of the frame outside of it.
 *
 * No locks, no memory, no call of libc that may use either: it may be called within malloc and in signal handlers. It
 * never faults.
 */
#ifndef LJTRACE_NATIVE_UNWIND_UNWIND_H
#define LJTRACE_NATIVE_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Registers of a frame. `ip` is the address of an instruction in it: of a frame that has called another, the return
 * address - 1; of the frame that a signal has interrupted, the address of the next instruction. */
struct native_registers {
    uint64_t ip, sp, bp;
};

/* Unwind the stack of the calling thread from a frame (NULL: the caller of this function). ips: for each frame the
 * address of an instruction as above, the innermost frame first. sps: the stack pointer in each frame; of a frame that
 * has called another, after that call returns (the canonical frame address of the other). Returns the number of frames,
 * which is at most `most`. */
uint32_t native_unwind(const struct native_registers *from, uint64_t *ips, uint64_t *sps, uint32_t most);
/* The same from given registers. *lost: the stack ends although its last frame has a caller, which cannot be found.
 * plausible: where there is no table, go on by the frame pointer if what it leads to is plausible (frame_pointer.h). */
uint32_t native_unwind_from(const struct native_registers *from, bool plausible, uint64_t *ips, uint64_t *sps,
                            uint32_t most, bool *lost);

/* Memory of the calling thread, for what is kept of its stacks; all 0 at first. It stays for the life of the process: a thread
 * at the address of one that has ended, with the same stack, gets it as that one has left it. NULL = there is none before the
 * thread's first walk, or no memory. */
enum { NATIVE_UNWIND_SPARE = 128 << 10 };
void *native_unwind_spare(void);

/* A word on the stack, and its value. */
struct native_word {
    uint64_t at, value;
};
/* On what the last walk of native_unwind_from depends, besides ip and sp and, if *uses_bp, bp: if this thread comes to the
 * same registers and these words are the same, and code_objects_mistakes() (frame_rules.h) is, so is the stack. The words are
 * on the thread's own stack, which stays readable. Returns their number; 0 = that walk did not begin at these registers, or
 * depends on more than `most` words or on something else. */
uint32_t native_unwind_words(const struct native_registers *from, struct native_word *words, uint32_t most,
                             bool *uses_bp);

#endif
