/* lua_calibrate.c - measure the offsets of LuaJIT's structures with a scratch state. (in the program)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A small script runs in a scratch state. It brings the state into situations in which the value of a field
 * is known: which thread is running, what the virtual machine does, where the bytecode is. In each situation
 * the global state is sampled. The offset of a field is the one that has the right value in all samples;
 * unless exactly one offset fits, the layout counts as not known. The result is then tested: an allocation by
 * the interpreter, one by a fast function and one by a trace have to be attributed to their lines of the
 * script.
 *
 * Nothing is derived from version numbers or sizes, because builds in which these are equal still differ.
 * Nothing but the scratch state is changed. Memory at a guessed address is read by lua_peek.
 *
 * Start reading at lua_calibrate, at the end.
 */
#include "ljtrace/calibrate/lua_calibrate.h"
#include "ljtrace/protocol/lua_layout.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

const char *const lua_api_names[LUA_API_FUNCTIONS] = {"luaL_newstate",   "lua_getallocf", "lua_close",
                                                      "luaJIT_setmode",  "lua_setallocf", "luaL_openlibs",
                                                      "luaL_loadbuffer", "lua_pcall",     "lua_pushcclosure",
                                                      "lua_topointer",   "lua_settop",    "lua_tointeger"};

enum { STACK_WORDS = 128, SAMPLE = 1024, GLOBAL_MAX = 16384, FRAME_MAX = 128, GCT_PROTO = 7, GCT_TRACE = 9 };
enum { STRINGS = 3, STATE = 256 }; /* of the lexer */

/* The situations in which the state is sampled. The script's calls of `at` pass these numbers. */
enum situation {
    NONE,
    IN_C,
    IN_COROUTINE,
    IN_INTERPRETER,
    IN_GC,
    IN_FAST,
    ON_TRACE,
    IN_NESTED,
    IN_RECORDER,
    SITUATIONS
};

/* The LINE_ constants below are the lines at which this script allocates. */
static const char s_script[] = "local at, collect, wrap, rep, keep = ...\n"
                               "at(1)\n"
                               "wrap(function() at(2) end)()\n"
                               "local function nested() at(7); keep[1] = {7} end\n"
                               "local function interpreted() at(3)\n"
                               "  keep[1] = {}\n"
                               "end\n"
                               "interpreted()\n"
                               "at(4); collect()\n"
                               "local function fast() at(5)\n"
                               "  keep[2] = rep('ljtrace ', 40)\n"
                               "end\n"
                               "fast()\n"
                               "at(0, nested)\n"
                               "local function hot(n) at(6)\n"
                               "  for i = 1, n do\n"
                               "    keep[1] = {i}\n"
                               "  end\n"
                               "end\n"
                               "hot(300)\n"
                               "at(9)\n"
                               "return interpreted, hot, function(a) glob(a) a.field(a) a:meth() keep(a) a = "
                               "{} a = {1} a = a .. a a = function() end a.x = a end, fast\n";
enum { LINE_INTERPRETED = 6, LINE_FAST = 11, LINE_HOT = 17 };

struct seen {
    int taken;
    uint8_t g[SAMPLE];
    uint64_t L, cframe;
    uint64_t stack[STACK_WORDS]; /* the C stack, from the allocation upwards */
    uint64_t link;               /* the link word of the innermost frame on the Lua stack */
    uint8_t frame[FRAME_MAX];    /* the interpreter's frame on the C stack */
};

struct calibration {
    const struct lua_api *api;
    struct lua_layout *to;
    void *main;
    uint64_t g;
    alloc_function *f;
    void *ud;
    enum situation armed;
    struct seen seen[SITUATIONS];
    uint32_t trace;                 /* number of the trace that was sampled */
    uint64_t script[4];             /* prototypes of the functions that the script returns */
    uint8_t global[GLOBAL_MAX + 8]; /* the global state and what follows it */
    uint64_t lexer_at[STRINGS];     /* address of the lexer's state at each string; 0 = not seen */
    uint8_t lexer[STRINGS][STATE];
    size_t string_bytes; /* of the first of these strings, as allocated */
};
LASTING_TABLE(struct calibration, s, 1);

static const struct luajit_offsets *offsets(void)
{
    return luajit_offsets(s->to->gc64);
}

static uint32_t word_size(void)
{
    return offsets()->ref;
}

static uint64_t word_at(const void *at, uint32_t size)
{
    uint64_t v = 0;
    __builtin_memcpy(&v, at, size);
    return v;
}

static uint64_t peek_word(uint64_t at, uint32_t size)
{
    uint64_t v = 0;
    return lua_peek(at, &v, size) ? v : 0;
}

/* Copy memory, as far as it is mapped. The caller has set the rest to 0. It is asked for each page only once, since this
 * costs a system call or, under Valgrind, a request. */
static void peek_pages(uint64_t at, uint8_t *to, size_t n)
{
    enum { PAGE = 4096 };
    for (size_t done = 0, piece; done < n; done += piece) {
        piece = PAGE - (at + done) % PAGE;
        if (piece > n - done)
            piece = n - done;
        lua_peek(at + done, to + done, piece);
    }
}

/* -- sampling -- */

static void sample(enum situation in, void *L)
{
    struct seen *seen = &s->seen[in];
    seen->L = (uint64_t)L;
    lua_peek(s->g, seen->g, SAMPLE);
    seen->cframe = peek_word((uint64_t)L + offsets()->thread_cframe, 8) & ~3ULL;
    uint64_t base = peek_word((uint64_t)L + offsets()->thread_base, word_size());
    seen->link = peek_word(base - word_size(), word_size());
    peek_pages((uint64_t)__builtin_frame_address(0), (uint8_t *)seen->stack, sizeof seen->stack);
    lua_peek(seen->cframe, seen->frame, FRAME_MAX);
    seen->taken = 1;
}

static int32_t state_now(void)
{
    return (int32_t)peek_word(s->g + s->to->vmstate, 4);
}

static int32_t state_in(enum situation in, uint32_t o)
{
    return (int32_t)word_at(s->seen[in].g + o, 4);
}

/* The C function `at` of the script: its argument is the situation to sample next. */
static int on_at(void *L)
{
    enum situation in = (enum situation)s->api->tointeger(L, 1);
    s->armed = NONE;
    if (in == NONE)
        s->api->settop(L, 2), s->api->pcall(L, 0, 0, 0);
    else if (in == IN_C || in == IN_COROUTINE)
        sample(in, L);
    else if (in < SITUATIONS)
        s->armed = in;
    return 0;
}

static int find_vmstate(void);

/* While the compiler records a trace it allocates, and its own fields have known values: sample them then. */
static void sample_recorder(void)
{
    if (s->armed != ON_TRACE || s->seen[IN_RECORDER].taken || !s->seen[IN_GC].taken || !find_vmstate())
        return;
    int32_t state = ~state_now(), recording = ~state_in(IN_C, s->to->vmstate) == 3 ? 6 : 4;
    if (state == recording)
        sample(IN_RECORDER, s->main);
}

/* Is this allocation the one to sample at? */
static int is_awaited(const void *ptr, size_t nsize)
{
    if (s->armed == IN_GC)
        return nsize == 0;
    if (s->armed == ON_TRACE)
        return s->seen[IN_GC].taken && !ptr && find_vmstate() && state_now() > 0;
    return s->armed != NONE && !ptr;
}

static void *on_allocation(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    sample_recorder();
    if (is_awaited(ptr, nsize)) {
        sample(s->armed, s->main);
        if (s->armed == ON_TRACE)
            s->trace = (uint32_t)state_now();
        s->armed = NONE;
    }
    return s->f(s->ud, ptr, osize, nsize);
}

/* -- solving -- */

/* Note why the layout is not known: `what` and `why`. Returns 0. */
static int wrong(const char *what, const char *why)
{
    char *to = s->to->text;
    uint32_t n = 0;
    while (what[n] && n < LUA_LAYOUT_TEXT - 24)
        to[n] = what[n], n++;
    for (uint32_t i = 0; why[i] && n < LUA_LAYOUT_TEXT - 1; i++)
        to[n++] = why[i];
    to[n] = 0;
    return 0;
}

/* Find the only offset in [from, end) for which `fits` holds. Returns 0, and notes a reason, if there is none
 * or several. */
static int solve(int (*fits)(uint32_t), uint32_t from, uint32_t end, uint32_t step, const char *what,
                 uint32_t *to)
{
    uint32_t found = 0;
    for (uint32_t o = from; o + step <= end; o += step)
        if (fits(o)) {
            *to = o;
            found++;
        }
    return found == 1 || wrong(what, found ? ": several offsets fit" : ": no offset fits");
}

/* LuaJIT numbers the states of its machine in one of two ways: with and without a state for each kind of
 * function. */
static int fits_vmstate(uint32_t o)
{
    int32_t c = ~state_in(IN_C, o), lua = ~state_in(IN_INTERPRETER, o), gc = ~state_in(IN_GC, o);
    return (c == 1 && lua == 0 && gc == 2) || (c == 3 && lua == 1 && gc == 4);
}

static int find_vmstate(void)
{
    return s->to->vmstate || solve(fits_vmstate, 0, SAMPLE, 4, "state of the machine", &s->to->vmstate);
}

static void number_states(void)
{
    static const uint8_t usual[] = {MT_VM_INTERP, MT_VM_C,   MT_VM_GC, MT_VM_EXIT,
                                    MT_VM_RECORD, MT_VM_OPT, MT_VM_ASM};
    static const uint8_t fine[] = {MT_VM_INTERP, MT_VM_INTERP, MT_VM_FAST, MT_VM_C,  MT_VM_GC,
                                   MT_VM_EXIT,   MT_VM_RECORD, MT_VM_OPT,  MT_VM_ASM};
    int is_fine = state_in(IN_C, s->to->vmstate) == ~3;
    for (uint32_t i = 0; i < sizeof fine; i++)
        s->to->vm[i] = is_fine ? fine[i] : i < sizeof usual ? usual[i] : MT_VM_C;
}

static int fits_cur_l(uint32_t o)
{
    uint32_t size = word_size();
    return word_at(s->seen[IN_C].g + o, size) == s->seen[IN_C].L &&
           word_at(s->seen[IN_COROUTINE].g + o, size) == s->seen[IN_COROUTINE].L;
}

static int fits_jit_base(uint32_t o)
{
    uint32_t size = word_size();
    uint64_t v = word_at(s->seen[ON_TRACE].g + o, size);
    if (o <= s->to->cur_l || o > s->to->cur_l + 16)
        return 0;
    uint64_t stack = peek_word((uint64_t)s->main + offsets()->thread_stack, size);
    uint64_t last = peek_word((uint64_t)s->main + offsets()->thread_last, size);
    return v > stack && v <= last && !word_at(s->seen[IN_C].g + o, size) &&
           !word_at(s->seen[IN_INTERPRETER].g + o, size) && !word_at(s->seen[IN_GC].g + o, size);
}

/* The table of traces: its entry of the sampled number is a trace with that number. */
static int fits_traces(uint32_t o)
{
    uint64_t table = word_at(s->global + o, 8), sizes = word_at(s->global + o + 8, 8);
    if (table < 65536 || table & 7 || sizes >> 32 <= s->trace || sizes >> 32 > 65536)
        return 0;
    uint64_t trace = peek_word(table + (uint64_t)s->trace * word_size(), word_size());
    return trace && peek_word(trace + offsets()->gct, 1) == GCT_TRACE &&
           peek_word(trace + offsets()->trace_number, 2) == s->trace;
}

/* -- the script's own bytecode -- */

static uint64_t proto_of(const void *function)
{
    uint32_t size = word_size();
    uint64_t proto = peek_word((uint64_t)function + offsets()->func_pc, size) - offsets()->proto_code;
    return peek_word(proto + offsets()->gct, 1) == GCT_PROTO ? proto : 0;
}

/* The source line of a code address in the prototype; 0 if it is outside. */
static uint32_t line_of(uint64_t proto, uint64_t pc)
{
    uint64_t code = proto + offsets()->proto_code;
    uint32_t count = (uint32_t)peek_word(proto + offsets()->proto_count, 4);
    uint64_t lines = peek_word(proto + offsets()->proto_lines, word_size());
    uint32_t first = (uint32_t)peek_word(proto + offsets()->proto_first, 4);
    if (pc <= code + 4 || pc > code + 4ULL * count || pc & 3)
        return 0;
    return first + (uint32_t)peek_word(lines + (pc - code) / 4 - 2, 1);
}

static int fits_cframe_pc(uint32_t o)
{
    const struct seen *seen = &s->seen[IN_INTERPRETER];
    return line_of(s->script[0], word_at(seen->frame + o, word_size())) == LINE_INTERPRETED;
}

static int fits_cframe_prev(uint32_t o)
{
    return (word_at(s->seen[IN_NESTED].frame + o, 8) & ~3ULL) == s->seen[IN_INTERPRETER].cframe;
}

/* The frame's size follows from the offset of the link to the previous C frame. */
static int find_cframe(void)
{
    struct lua_layout *to = s->to;
    if (!solve(fits_cframe_pc, 0, 64, 4, "program counter in the C frame", &to->cframe_pc) ||
        !solve(fits_cframe_prev, 16, 64, 8, "link of C frames", &to->cframe_prev))
        return 0;
    to->cframe_size = to->cframe_prev + 48;
    return 1;
}

static uint8_t op(uint32_t i)
{
    return (uint8_t)peek_word(s->script[2] + offsets()->proto_code + 4 * i, 1);
}

/* The code of the script's third function is known, hence the numbers of the bytecodes in it. */
static int find_opcodes(void)
{
    struct lua_layout *to = s->to;
    to->op_gget = op(1), to->op_mov = op(2), to->op_call = op(3), to->op_tgets = op(4), to->op_uget = op(10),
    to->op_tnew = op(13), to->op_tdup = op(14), to->op_cat = op(17);
    to->op_fnew = op(18), to->op_tsets = op(19);
    return (op(5) == to->op_mov && op(6) == to->op_call && op(7) == to->op_mov && op(8) == to->op_tgets &&
            op(9) == to->op_call && op(12) == to->op_call) ||
           wrong("numbers of bytecodes", ": not as expected");
}

/* The script's name follows the header of the string that every prototype refers to. */
static int fits_string_header(uint32_t o)
{
    static const char name[8] = "=ljtrace";
    uint64_t string = peek_word(s->script[0] + offsets()->proto_chunk, word_size());
    return peek_word(string + o, 8) == word_at(name, 8);
}

/* -- testing what was found -- */

/* The compiler's structure begins with the trace that is being recorded, here of the function `hot`. */
static int fits_recorder(uint32_t o)
{
    uint32_t size = word_size();
    const uint8_t *at = s->seen[IN_RECORDER].g + o;
    if (o + offsets()->recorder_pc + 8 > SAMPLE || word_at(at + offsets()->trace_start, size) != s->script[1])
        return 0;
    return line_of(s->script[1], word_at(at + offsets()->trace_startpc, size) + 4) &&
           line_of(s->script[1], word_at(at + offsets()->recorder_pc, size) + 4);
}

/* Test of a trace: the allocation was called from its machine code, and the trace starts in `hot`. */
static int check_trace(void)
{
    uint32_t size = word_size();
    const struct seen *seen = &s->seen[ON_TRACE];
    uint64_t table = peek_word(s->g + s->to->traces, 8);
    uint64_t trace = peek_word(table + (uint64_t)s->trace * size, size);
    uint64_t code = peek_word(trace + offsets()->trace_code, 8),
             bytes = peek_word(trace + offsets()->trace_code_bytes, 4);
    uint64_t start = peek_word(trace + offsets()->trace_startpc, size);
    if (!line_of(s->script[1], start + 4))
        return wrong("start of a trace", ": not as expected");
    for (uint32_t i = 0; i < STACK_WORDS; i++)
        if (seen->stack[i] - code < bytes)
            return 1;
    return wrong("machine code of a trace", ": not as expected");
}

/* Test of a fast function: its frame links to the line that called it. */
static int check_fast(void)
{
    return line_of(s->script[3], s->seen[IN_FAST].link) == LINE_FAST ||
           wrong("line of a fast function", ": not as expected");
}

/* If no trace was sampled, the JIT is off or not built in. */
static int find_jit(void)
{
    if (!s->seen[ON_TRACE].taken)
        return 1;
    if (s->seen[IN_RECORDER].taken &&
        !solve(fits_recorder, 0, SAMPLE, word_size(), "state of the compiler", &s->to->recorder))
        return 0;
    peek_pages(s->g, s->global, sizeof s->global);
    return solve(fits_jit_base, 0, SAMPLE, word_size(), "base of a running trace", &s->to->jit_base) &&
           solve(fits_traces, 0, GLOBAL_MAX, 8, "table of traces", &s->to->traces) && check_trace();
}

static int find_all(void)
{
    for (int in = IN_C; in <= IN_FAST; in++)
        if (!s->seen[in].taken)
            return wrong("a situation of the script", ": did not occur");
    if (!find_vmstate() || !solve(fits_cur_l, 0, SAMPLE, word_size(), "current thread", &s->to->cur_l))
        return 0;
    number_states();
    return find_cframe() && find_opcodes() && check_fast() &&
           solve(fits_string_header, 8, 40, 4, "text of strings", &s->to->string_header) && find_jit();
}

/* -- running the script -- */

static int find_thread(void)
{
    uint64_t L = (uint64_t)s->main, wide = peek_word(L + 16, 8), narrow = peek_word(L + 8, 4);
    s->to->gc64 = wide > L && wide < L + 512;
    s->g = s->to->gc64 ? wide : narrow;
    s->to->thread_size = (uint32_t)(s->g - L);
    return (s->g > L && s->g < L + 512) || wrong("global state after the main thread", ": not there");
}

static int global(void *L, const char *code)
{
    uint32_t n = 0;
    while (code[n])
        n++;
    return s->api->loadbuffer(L, code, n, "=ljtrace") == 0 && s->api->pcall(L, 0, 1, 0) == 0;
}

static int run_script(void *L)
{
    s->api->openlibs(L);
    if (s->api->loadbuffer(L, s_script, sizeof s_script - 1, "=ljtrace"))
        return wrong("the script", ": does not load");
    s->api->pushcclosure(L, on_at, 0);
    if (!global(L, "return collectgarbage") || !global(L, "return coroutine.wrap") ||
        !global(L, "return string.rep") || !global(L, "return {}"))
        return wrong("the standard library", ": not complete");
    s->api->setallocf(L, on_allocation, 0);
    int failed = s->api->pcall(L, 5, 4, 0);
    s->api->setallocf(L, s->f, s->ud);
    for (int i = 0; i < 4 && !failed; i++)
        s->script[i] = proto_of(s->api->topointer(L, 1 + i));
    return (!failed && s->script[0] && s->script[1] && s->script[2] && s->script[3]) ||
           wrong("the script's functions", ": not returned");
}

/* -- the lexer's line -- */

/* An allocation that the parser makes has no Lua function to belong to; with this offset the tool can name
 * the line of the source text that is being parsed.
 *
 * A chunk is compiled in which strings of known lengths are the first tokens of known lines. When the lexer
 * allocates one of these strings, its state is on the C stack (ljtrace/luajit/stack/parser.c says how it
 * is recognised). The current line is the one field of it that has the right value for all strings. The lexer
 * also has the line of the previous token, but that has other values, as each string begins a line.
 *
 * In a build for which this fails, allocations of the parser are attributed to the line that called load. */

enum { PIECE = 512, PIECES = 32, FIRST_LENGTH = 500, LENGTH_STEP = 100 };

static const char s_lines[STRINGS] = {3, 4, 7};

static int is_lexer(uint64_t at, uint64_t function, uint64_t L)
{
    return L == (uint64_t)s->main && function < at && at - function < 1 << 20 &&
           peek_word(function + 8, 8) == at && peek_word(function + 16, 8) == L;
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

static void *on_string(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    for (int i = 0; i < STRINGS; i++) {
        size_t least = s->to->string_header + FIRST_LENGTH + LENGTH_STEP * (size_t)i + 1;
        if (!ptr && nsize >= least && nsize < least + 8 && !s->lexer_at[i]) {
            s->lexer_at[i] = find_lexer((uint64_t)__builtin_frame_address(0));
            if (i == 0)
                s->string_bytes = nsize;
            if (!s->lexer_at[i] || !lua_peek(s->lexer_at[i], s->lexer[i], STATE))
                s->lexer_at[i] = 0;
        }
    }
    return s->f(s->ud, ptr, osize, nsize);
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
        __builtin_memcpy(&line, s->lexer[i] + o, sizeof line);
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
    __builtin_memcpy(&string, s->lexer[0] + o + 8, sizeof string);
    __builtin_memcpy(&expected, name, sizeof expected);
    return peek_word(string + s->to->string_header, 8) == expected;
}

static uint32_t find_line_field(void)
{
    uint32_t found = 0, n = 0;
    for (uint32_t o = 16; o + 16 <= STATE; o += 4)
        if (is_line(o)) {
            found = o;
            n++;
        }
    return n == 1 && has_name(found) ? found : 0;
}

/* Return the offset of the current line in the lexer's state; 0 = not found. The rest of the layout is known. */
static uint32_t find_parser_line(void)
{
    LASTING_TABLE(char, chunk, STRINGS *(FIRST_LENGTH + LENGTH_STEP * STRINGS) + 100);
    size_t n = write_chunk(chunk);
    s->api->setallocf(s->main, on_string, 0);
    int failed = s->api->loadbuffer(s->main, chunk, n, "=ljtrace");
    s->api->setallocf(s->main, s->f, s->ud);
    return !failed && s->lexer_at[0] && s->lexer_at[1] && s->lexer_at[2] ? find_line_field() : 0;
}

/* -- the size of a string object -- */

/* The length is 4 or 8 bytes before the text, and the size is rounded or not. Both were seen of strings of known lengths. */
static uint32_t find_string_form(void)
{
    enum { NAME = 8 /* the length of "=ljtrace" */ };
    const size_t exact = s->to->string_header + FIRST_LENGTH + 1;
    const uint64_t text =
        peek_word(s->script[0] + offsets()->proto_chunk, word_size()) + s->to->string_header;
    const uint32_t form = s->string_bytes == exact ? 1 : s->string_bytes == exact + 3 ? 2 : 0;
    return peek_word(text - 4, 4) == NAME ? form : peek_word(text - 8, 4) == NAME ? form << 2 : 0;
}

void lua_calibrate(const struct lua_api *api, void *L, struct lua_layout *to)
{
    __builtin_memset(s, 0, TABLE_BYTES(s));
    __builtin_memset(to, 0, sizeof *to);
    s->api = api;
    s->to = to;
    s->main = L;
    s->f = api->getallocf(L, &s->ud);
    to->known = find_thread() && run_script(L) && find_all();
    if (to->known)
        to->parser_line = find_parser_line();
    if (to->known)
        to->string_form = find_string_form();
}
