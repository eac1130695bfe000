/* parser.c - find the line of a chunk that Lua's parser is at.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * While a chunk is parsed, the lexer's state is on the C stack, in the frame of the function that loads the
 * chunk. That function calls the VM, which calls the parser. So the lexer's state is a little above the VM's
 * innermost C frame. It begins with pointers to the state of the function being parsed and to the thread.
 * That function state is further down, in the parser's frame, and has pointers back to both as its second and
 * third field. It is hardly possible that these four words agree by accident. The offset of the line was
 * found by calibration, or is not known.
 *
 * The line is the lexer's: an object for the last token of a line may be created when the first token of the
 * next line has been read.
 */
#include "ljtrace/luajit/stack/parser.h"
#include "ljtrace/luajit/core/names.h"

enum { SEARCHED_WORDS = 64 };

static bool is_lexer(uint64_t at, uint64_t L, uint64_t cframe)
{
    const uint64_t *word = (const uint64_t *)at;
    uint64_t function = word[0];
    return word[1] == L && function < cframe && cframe - function < 1 << 20 &&
           program_number(function + 8, 8) == at && program_number(function + 16, 8) == L;
}

uint64_t lt_parser_key(const struct lt_vm *vm, uint64_t L, uint64_t cframe)
{
    uint64_t from = cframe + vm->layout->cframe_size, line = vm->layout->parser_line;
    if (!line || !cframe || !program_readable(from, (SEARCHED_WORDS + 1) * sizeof(uint64_t)))
        return 0;
    for (uint64_t at = from; at < from + SEARCHED_WORDS * sizeof(uint64_t); at += sizeof(uint64_t))
        if (is_lexer(at, L, cframe))
            return lt_name_compiled(vm, program_number(at + line + 8, 8), lt_vm_u32(at + line));
    return 0;
}
