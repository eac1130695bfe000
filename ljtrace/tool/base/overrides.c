/* overrides.c - functions that the linker puts in the place of Valgrind's own (--wrap). (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Some do what Valgrind's do, at less cost where it is most: of the start of a program, which translates
 * thousands of superblocks and looks at thousands of symbols, they were a sixth. The last ones leave out what
 * the collector does instead.
 */
#include "ljtrace/tool/base/options.h"
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

/* VEX checks each superblock three times for what can only be wrong if a program that makes them is. */
void __wrap_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word)
{
    if (lt_options.check_ir)
        __real_sanityCheckIRSB(bb, caller, flat, word);
}

/* Every symbol is compared with the name of each function to be replaced, and most differ in the first
 * letter. */
Bool __wrap_vgPlain_string_match(const HChar *pattern, const HChar *text)
{
    HChar c = pattern[0];
    Bool literal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return !(literal && c != text[0]) && __real_vgPlain_string_match(pattern, text);
}

/* From how many bytes on the processor's own loop is quicker than one of words. */
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
