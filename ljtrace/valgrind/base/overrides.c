/* overrides.c - functions that replace Valgrind's own, by the linker's --wrap. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Some of them do the same as Valgrind's at less cost, where that cost is highest: at the start of a program,
 * when thousands of superblocks are translated and thousands of symbols are compared, they took a sixth of
 * the time.
 */
#include "ljtrace/valgrind/base/options.h"
#include "libvex_ir.h"
#include "pub_tool_seqmatch.h"

void __real_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word);
void __wrap_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word);
Bool __real_vgPlain_string_match(const HChar *pattern, const HChar *text);
Bool __wrap_vgPlain_string_match(const HChar *pattern, const HChar *text);
void *__real_vgPlain_memset(void *to, Int c, SizeT n);
void *__wrap_vgPlain_memset(void *to, Int c, SizeT n);
void *__real_vgPlain_memcpy(void *to, const void *from, SizeT n);
void *__wrap_vgPlain_memcpy(void *to, const void *from, SizeT n);

/* VEX checks each superblock three times. These checks can only fail if VEX or a tool has an error. */
void __wrap_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word)
{
    if (lt_options.check_ir)
        __real_sanityCheckIRSB(bb, caller, flat, word);
}

/* Each symbol is compared with the name of each function to be replaced, and most of them differ in the first
 * letter. */
Bool __wrap_vgPlain_string_match(const HChar *pattern, const HChar *text)
{
    HChar c = pattern[0];
    Bool literal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return !(literal && c != text[0]) && __real_vgPlain_string_match(pattern, text);
}

/* From this many bytes on, the processor's string instructions are faster than a loop over words. */
enum { MANY_BYTES = 64 };

void *__wrap_vgPlain_memset(void *to, Int c, SizeT n)
{
    void *at = to;
    if (n < MANY_BYTES)
        return __real_vgPlain_memset(to, c, n);
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(c) : "memory");
    return to;
}

void *__wrap_vgPlain_memcpy(void *to, const void *from, SizeT n)
{
    void *at = to;
    if (n < MANY_BYTES)
        return __real_vgPlain_memcpy(to, from, n);
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}
