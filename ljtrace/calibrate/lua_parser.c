/* lua_parser.c - find the field of Lua's lexer that holds the current line. (in the program)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A chunk is compiled in which strings of known lengths are the first tokens of known lines. When the lexer
 * allocates one of these strings, its state is on the C stack (ljtrace/luajit/stack/parser.c says how it
 * is recognised). The current line is the one field of it that has the right value for all strings. The lexer
 * also has the line of the previous token, but that has other values, as each string begins a line.
 *
 * In a build for which this fails, allocations of the parser are attributed to the line that called load.
 */
#include "ljtrace/calibrate/lua_parser.h"
#include "ljtrace/protocol/table.h"

enum { STRINGS = 3, PIECE = 512, PIECES = 32, STATE = 256, FIRST_LENGTH = 500, LENGTH_STEP = 100 };

static const char s_lines[STRINGS] = {3, 4, 7};

static struct {
    const struct lua_layout *known;
    void *L;
    alloc_function *f;
    void *ud;
    uint64_t at[STRINGS]; /* address of the lexer's state at each string; 0 = not seen */
    uint8_t state[STRINGS][STATE];
} s;

static uint64_t peek_word(uint64_t at)
{
    uint64_t v = 0;
    return lua_peek(at, &v, sizeof v) ? v : 0;
}

static int is_lexer(uint64_t at, uint64_t function, uint64_t L)
{
    return L == (uint64_t)s.L && function < at && at - function < 1 << 20 && peek_word(function + 8) == at &&
           peek_word(function + 16) == L;
}

/* Find the lexer's state on the C stack above an address; 0 = none. The stack is read in pieces that overlap
 * by one word. */
static uint64_t find_lexer(uint64_t from)
{
    uint64_t word[PIECE / 8 + 1];
    for (int piece = 0; piece < PIECES && lua_peek(from, word, sizeof word); piece++, from += PIECE)
        for (int i = 0; i < PIECE / 8; i++)
            if (is_lexer(from + 8 * (uint64_t)i, word[i], word[i + 1]))
                return from + 8 * (uint64_t)i;
    return 0;
}

static void *on_allocation(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    for (int i = 0; i < STRINGS; i++) {
        size_t least = s.known->string_header + FIRST_LENGTH + LENGTH_STEP * (size_t)i + 1;
        if (!ptr && nsize >= least && nsize < least + 8 && !s.at[i]) {
            s.at[i] = find_lexer((uint64_t)__builtin_frame_address(0));
            if (!s.at[i] || !lua_peek(s.at[i], s.state[i], STATE))
                s.at[i] = 0;
        }
    }
    return s.f(s.ud, ptr, osize, nsize);
}

/* Write "return {" and the strings on their lines. */
static size_t write_chunk(char *to)
{
    static const char begin[] = "return {\n";
    size_t n = sizeof begin - 1;
    __builtin_memcpy(to, begin, n);
    for (int i = 0, line = 2; i < STRINGS; i++) {
        for (; line < s_lines[i]; line++)
            to[n++] = '\n';
        to[n++] = '"';
        for (int k = 0; k < FIRST_LENGTH + LENGTH_STEP * i; k++)
            to[n++] = (char)('a' + i);
        to[n++] = '"', to[n++] = ',', to[n++] = '}';
        n -= i + 1 < STRINGS;
    }
    return n;
}

static int is_line(uint32_t o)
{
    for (int i = 0; i < STRINGS; i++) {
        uint32_t line;
        __builtin_memcpy(&line, s.state[i] + o, sizeof line);
        if (line != (uint32_t)s_lines[i])
            return 0;
    }
    return 1;
}

/* The name of the chunk follows the line. */
static int has_name(uint32_t o)
{
    static const char name[8] = "=ljtrace";
    uint64_t string, expected;
    __builtin_memcpy(&string, s.state[0] + o + 8, sizeof string);
    __builtin_memcpy(&expected, name, sizeof expected);
    return peek_word(string + s.known->string_header) == expected;
}

static uint32_t solve(void)
{
    uint32_t found = 0, n = 0;
    for (uint32_t o = 16; o + 16 <= STATE; o += 4)
        if (is_line(o)) {
            found = o;
            n++;
        }
    return n == 1 && has_name(found) ? found : 0;
}

uint32_t lua_find_parser_line(const struct lua_api *api, void *L, const struct lua_layout *known,
                              alloc_function *f, void *ud)
{
    LASTING_TABLE(char, chunk, STRINGS *(FIRST_LENGTH + LENGTH_STEP * STRINGS) + 100);
    __builtin_memset(&s, 0, sizeof s);
    s.known = known;
    s.L = L;
    s.f = f;
    s.ud = ud;
    size_t n = write_chunk(chunk);
    api->setallocf(L, on_allocation, 0);
    int failed = api->loadbuffer(L, chunk, n, "=ljtrace");
    api->setallocf(L, f, ud);
    return !failed && s.at[0] && s.at[1] && s.at[2] ? solve() : 0;
}
