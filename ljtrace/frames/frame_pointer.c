/* frame_pointer.c - see frame_pointer.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Instructions are those of the Intel manual: a direct call is E8 with four bytes; an indirect one FF /2, of two to seven
 * bytes. An entry of a PLT is a jump through memory, FF /4, after endbr64 and a prefix if there are any.
 */
#include "ljtrace/frames/frame_pointer.h"

enum { CALL_BYTES = 7, START_BYTES = 12, LARGEST_FRAME = 1 << 20, LARGEST_FUNCTION = 1 << 20 };

/* The length of an indirect call from its second byte on, less that byte. */
static unsigned operand_bytes(uint8_t modrm, uint8_t sib)
{
    const unsigned mode = modrm >> 6, base = modrm & 7;
    const unsigned has_sib = mode != 3 && base == 4;
    if (mode == 1)
        return has_sib + 1;
    if (mode == 2 || (mode == 0 && (base == 5 || (has_sib && (sib & 7) == 5))))
        return has_sib + 4;
    return has_sib;
}

/* Does an indirect call end at the end of these bytes? */
static bool ends_with_indirect_call(const uint8_t *bytes)
{
    for (unsigned size = 2; size <= CALL_BYTES; size++) {
        const uint8_t *at = bytes + CALL_BYTES - size;
        if (at[0] == 0xff && (at[1] >> 3 & 7) == 2 && 2 + operand_bytes(at[1], size > 2 ? at[2] : 0) == size)
            return true;
    }
    return false;
}

/* The bytes after endbr64, if there is one. */
static const uint8_t *after_landing(const uint8_t *code)
{
    const bool is_landing = code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa;
    return is_landing ? code + 4 : code;
}

static bool is_plt_entry(const uint8_t *code)
{
    const uint8_t *at = after_landing(code);
    at += at[0] == 0xf2;
    return at[0] == 0xff && (at[1] >> 3 & 7) == 4;
}

/* push %rbp; mov %rsp,%rbp */
static bool sets_frame_pointer(const uint8_t *code)
{
    const uint8_t *at = after_landing(code);
    return at[0] == 0x55 && at[1] == 0x48 &&
           ((at[2] == 0x89 && at[3] == 0xe5) || (at[2] == 0x8b && at[3] == 0xec));
}

static int64_t displacement(const uint8_t *at)
{
    return (int32_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

/* Can the function with the code at `ip` have been called from where it returns to? */
static bool is_call(uint64_t ip, uint64_t back, frame_pointer_read *read, void *context)
{
    uint8_t call[CALL_BYTES], code[START_BYTES];
    if (!read(context, back - CALL_BYTES, call, sizeof call))
        return false;
    if (call[CALL_BYTES - 5] == 0xe8) {
        const uint64_t target = back + (uint64_t)displacement(call + CALL_BYTES - 4);
        if (read(context, target, code, sizeof code) &&
            (is_plt_entry(code) || (ip - target < LARGEST_FUNCTION && sets_frame_pointer(code))))
            return true;
    }
    return ends_with_indirect_call(call);
}

bool frame_pointer_after_call(uint64_t address, frame_pointer_read *read, void *context)
{
    uint8_t call[CALL_BYTES];
    return read(context, address - CALL_BYTES, call, sizeof call) &&
           (call[CALL_BYTES - 5] == 0xe8 || ends_with_indirect_call(call));
}

bool frame_pointer_step(struct frame_pointer *at, frame_pointer_read *read, void *context)
{
    uint64_t saved[2]; /* the caller's rbp, and the return address */
    if (at->bp % sizeof *saved != 0 || at->bp < at->sp || at->bp - at->sp > LARGEST_FRAME ||
        !read(context, at->bp, saved, sizeof saved) || saved[1] < CALL_BYTES ||
        !is_call(at->ip, saved[1], read, context))
        return false;
    *at = (struct frame_pointer){saved[1] - 1, at->bp + sizeof saved, saved[0]};
    return true;
}
