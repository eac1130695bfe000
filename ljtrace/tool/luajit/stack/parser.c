/* parser.c - see parser.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * While a chunk is compiled, the lexer's state lies on the C stack in the frame of the function that loads,
 * and that calls the machine, which calls the parser: so it lies a little above the innermost entry of the
 * machine. It begins with pointers to the state of the function being compiled and to the thread; that
 * state lies below, in the parser's frame, and has pointers back to both as its second and third field. These
 * four words agree by no accident. Where the line stands has been found by the calibration, or is not known.
 *
 * The line is the lexer's: what is made for the last words of a line may be made when the first word of the
 * next has been read.
 */
#include "ljtrace/tool/luajit/stack/parser.h"
#include "ljtrace/tool/luajit/core/names.h"

enum { SEARCHED_WORDS = 64 };

static Bool is_lexer(Addr at, Addr L, Addr cframe)
{
    const Addr *word = (const Addr *)at;
    Addr function = word[0];
    return word[1] == L && function < cframe && cframe - function < 1 << 20 &&
           lt_peek_number(function + 8, 8) == at && lt_peek_number(function + 16, 8) == L;
}

Addr lt_parser_key(const struct lt_vm *vm, Addr L, Addr cframe)
{
    Addr from = cframe + vm->layout->cframe_size, line = vm->layout->parser_line;
    if (!line || !cframe || !lt_readable(from, (SEARCHED_WORDS + 1) * sizeof(Addr)))
        return 0;
    for (Addr at = from; at < from + SEARCHED_WORDS * sizeof(Addr); at += sizeof(Addr))
        if (is_lexer(at, L, cframe))
            return lt_name_compiled(vm, lt_peek_number(at + line + 8, 8), lt_vm_u32(at + line));
    return 0;
}
