/* lt_core.c - functions that the linker puts in the place of Valgrind's own (--wrap). (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Both do what Valgrind's do, at less cost where it is most: of the start of a program, which translates
 * thousands of superblocks and looks at thousands of symbols, they were a tenth.
 */
#include "lt_options.h"
#include "libvex_ir.h"
#include "pub_tool_seqmatch.h"

void __real_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word);
void __wrap_sanityCheckIRSB(const IRSB *bb, const HChar *caller, Bool flat, IRType word);
Bool __real_vgPlain_string_match(const HChar *pattern, const HChar *text);
Bool __wrap_vgPlain_string_match(const HChar *pattern, const HChar *text);

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
