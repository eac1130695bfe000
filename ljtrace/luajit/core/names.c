/* names.c - give keys to frames of Lua, and write the names and lines that belong to them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Here are the prototypes that were seen, the lines of their instructions, the search for a function's name
 * in the code that calls it, and the records that carry all this to the collector.
 */
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/base/set.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"
#include <string.h>

enum {
    WRITTEN_SLOTS = 1 << 14,
    PLACE_SLOTS = 1 << 12,
    NAME_LIMIT = 400,
    CHUNK_LIMIT = 4096, /* the longest path; also the limit for source text that is its chunk's name */
    MOST_PAIRS = 4096,  /* of a table that is searched for a function */
    PAIR_BYTES = 24,
    SHOWN_LIMIT = 60, /* of names that Lua shortens, with the NUL: LUA_IDSIZE */
    LINES_AT_ONCE = 4096,
    SEARCH_LIMIT = 250,
    RECENT_SLOTS = 512,
    COUNT_SLOTS = 4096,
    MISSED_SLOTS = 256,
    MOST_SEARCHED = 8192
};

/* A live prototype. */
struct proto {
    uint64_t addr;
    uint64_t bytes;
    bool written;       /* it was written into the ring, with its lines */
    uint32_t nth;       /* how many functions that begin on the same line precede it in its chunk */
    char *name, *chunk; /* name: NULL until it is known */
};

/* How many functions of the current chunk begin on a line. */
struct beginnings {
    uint64_t line;
    uint32_t functions;
};

static struct lt_set s_protos; /* of struct proto, by address; they do not overlap */
TABLE(struct proto *, s_recent, RECENT_SLOTS);
LASTING_TABLE(uint32_t, s_starts, COUNT_SLOTS); /* number of prototypes by the hash of their address */
TABLE(uint64_t, s_written, WRITTEN_SLOTS);
struct place {
    uint64_t exact, key; /* of an instruction, and of the line that it is in */
};
TABLE(struct place, s_places, PLACE_SLOTS);
static uint32_t s_generation;

static struct proto *proto_at(uint64_t a)
{
    struct proto *p = lt_set_below(&s_protos, a);
    return p && a < p->addr + p->bytes ? p : NULL;
}

/* Forget which keys were written: a prototype is gone, so a key may get another meaning. */
static void forget_places(void)
{
    memset(s_written, 0, TABLE_BYTES(s_written));
    memset(s_places, 0, TABLE_BYTES(s_places));
    s_generation++;
}

uint32_t lt_places_generation(void)
{
    return s_generation;
}

/* Copy a text that ends in NUL, cut to the limit. */
static void copy_text(uint64_t from, char *to, uint32_t limit)
{
    uint32_t n = 0;
    char c;
    while (n + 1 < limit && program_read(from + n, &c, 1) && c)
        to[n++] = c;
    to[n] = 0;
}

static void copy_string(const struct lt_vm *vm, uint64_t string, char *to, uint32_t limit)
{
    copy_text(string + vm->layout->string_header, to, limit);
}

/* At most `limit` bytes of a text, without a part of a character of UTF-8 at the end. */
static uint32_t fitting(const char *text, uint32_t bytes, uint32_t limit)
{
    if (bytes <= limit)
        return bytes;
    while (limit && (text[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

/* The name of a chunk as Lua shows it: of a file its name, here the whole of it, which has the mark '@'; of any other chunk
 * what follows the mark '='; without a mark it is source text, of which the beginning of the first line is shown. */
static const char *shown_chunk(const char *name)
{
    static const char before[] = "[string \"", whole[] = "\"]", cut[] = "...\"]";
    static char shown[SHOWN_LIMIT];
    uint32_t n = 0;
    if (name[0] == '@')
        return name + 1;
    if (name[0] == '=') {
        text_print(shown, sizeof shown, "%s", name + 1);
        shown[fitting(name + 1, text_length(name + 1), SHOWN_LIMIT - 1)] = 0;
        return shown;
    }
    while ((uint8_t)name[n] >= ' ' && n < SHOWN_LIMIT - 12)
        n++;
    const bool is_cut = name[n] != 0;
    if (is_cut)
        n = fitting(name, n, SHOWN_LIMIT - 15);
    memcpy(shown, before, sizeof before - 1);
    memcpy(shown + sizeof before - 1, name, n);
    text_copy(shown + sizeof before - 1 + n, is_cut ? cut : whole);
    return shown;
}

/* The name of a prototype's chunk, with its mark. */
static const char *chunk_of(const struct lt_vm *vm, uint64_t proto)
{
    TABLE(char, name, CHUNK_LIMIT);
    copy_string(vm, lt_vm_ref(vm, proto + vm->at->proto_chunk), name, CHUNK_LIMIT);
    return name;
}

static char *chunk_name(const struct lt_vm *vm, uint64_t proto)
{
    TABLE(char, whole, CHUNK_LIMIT + 12);
    const char *name = chunk_of(vm, proto);
    if (!lt_proto_is_built_in(vm, proto))
        return text_duplicate(shown_chunk(name));
    text_print(whole, CHUNK_LIMIT + 12, "[builtin:%s]", name); /* as Lua's traceback has it */
    return text_duplicate(whole);
}

/* Lua creates the prototypes of a chunk in the order in which their functions end, and that of the main chunk
 * last. So a function gets the same number each time its file is loaded. */
static uint32_t number_on_line(const struct lt_vm *vm, uint64_t proto, const char *chunk)
{
    static struct lt_set lines; /* of struct beginnings */
    TABLE(char, last, CHUNK_LIMIT);
    uint64_t line = lt_first_line(vm, proto);
    if (line == 0 || (lines.count && !text_equals(chunk, last)))
        lt_set_clear(&lines);
    if (line == 0)
        return 0;
    if (!lines.count)
        text_print(last, CHUNK_LIMIT, "%s", chunk);
    struct beginnings *b = lt_set_find(&lines, line);
    if (!b) {
        b = host_new(sizeof *b);
        *b = (struct beginnings){line, 0};
        lt_set_add(&lines, b);
    }
    return b->functions < 0xffff ? b->functions++ : 0xffff;
}

static struct proto **recent(uint64_t proto)
{
    return &s_recent[proto / 16 % RECENT_SLOTS];
}

static uint32_t *starts(uint64_t block)
{
    return &s_starts[block / 8 % COUNT_SLOTS];
}

static void drop(struct proto *p)
{
    *recent(p->addr) = NULL;
    --*starts(p->addr);
    lt_set_remove(&s_protos, p);
    host_free(p->chunk);
    host_free(p->name);
    host_free(p);
}

static struct proto *know(const struct lt_vm *vm, uint64_t proto)
{
    struct proto *p = *recent(proto);
    if (p && p->addr == proto)
        return p;
    p = proto_at(proto);
    if (p && p->addr == proto)
        return *recent(proto) = p;
    uint32_t bytes = lt_vm_u32(proto + vm->at->proto_bytes);
    if (lt_vm_gct(vm, proto) != GCT_PROTO || bytes < vm->at->proto_code || !program_readable(proto, bytes))
        return NULL;
    while ((p = lt_set_below(&s_protos, proto + bytes - 1)) && p->addr + p->bytes > proto)
        drop(p);
    p = host_new(sizeof *p);
    *p = (struct proto){.addr = proto, .bytes = bytes, .chunk = chunk_name(vm, proto)};
    p->nth = number_on_line(vm, proto, chunk_of(vm, proto));
    lt_set_add(&s_protos, p);
    ++*starts(proto);
    host_await_free(proto);
    return p;
}

void lt_proto_made(const struct lt_vm *vm, uint64_t proto)
{
    know(vm, proto);
}

void lt_proto_gone(uint64_t block)
{
    struct proto *p = *starts(block) ? proto_at(block) : NULL;
    if (p && p->addr == block) {
        drop(p);
        forget_places();
    }
}

static struct proto *proto_of(const struct lt_vm *vm, uint64_t function)
{
    const uint64_t proto = lt_function_proto(vm, function);
    return proto ? know(vm, proto) : NULL;
}

uint64_t lt_proto_of(const struct lt_vm *vm, uint64_t function)
{
    const struct proto *p = proto_of(vm, function);
    return p ? p->addr : 0;
}

static bool looks_like_proto(const struct lt_vm *vm, uint64_t a, uint64_t pc)
{
    const uint32_t bytes = lt_vm_u32(a + vm->at->proto_bytes);
    if (lt_vm_gct(vm, a) != GCT_PROTO || pc - a >= bytes || bytes < vm->at->proto_code)
        return false;
    const uint64_t chunk = lt_vm_ref(vm, a + vm->at->proto_chunk),
                   lines = lt_vm_ref(vm, a + vm->at->proto_lines);
    program_doubt(chunk);
    return program_readable(chunk, vm->layout->string_header) && lt_vm_gct(vm, chunk) == GCT_STR &&
           (lines == 0 || lines - a < bytes);
}

/* Find the prototype before an instruction in a state that is older than the recording: its prototypes were not seen when
 * they were made. */
static struct proto *search_proto(const struct lt_vm *vm, uint64_t pc)
{
    TABLE(uint64_t, missed, MISSED_SLOTS);
    uint64_t *slot = &missed[lt_hash_slot(pc, 8)], a = (pc - vm->at->proto_code) & ~(uint64_t)7;
    if (*slot == pc)
        return NULL;
    program_doubt(a);
    for (uint32_t i = 0; i < MOST_SEARCHED && program_readable(a, vm->at->proto_code); i++, a -= 8) {
        if (looks_like_proto(vm, a, pc))
            return know(vm, a);
        if ((a & 4095) < 8)
            program_doubt(a - 8);
    }
    *slot = pc;
    return NULL;
}

uint64_t lt_proto_holding(const struct lt_vm *vm, uint64_t pc)
{
    struct proto *p = proto_at(pc);
    if (!p && vm->is_older)
        p = search_proto(vm, pc);
    return p ? p->addr : 0;
}

void lt_protos_forget(void)
{
    struct proto *p;
    while ((p = lt_set_below(&s_protos, ~0ULL)))
        drop(p);
    forget_places();
}

/* -- names -- */

static uint32_t bc_a(uint32_t ins)
{
    return ins >> 8 & 0xff;
}

/* The n-th string constant of a prototype. */
static uint64_t constant(const struct lt_vm *vm, uint64_t proto, uint32_t n)
{
    uint64_t k = lt_vm_ref(vm, proto + vm->at->proto_k);
    return lt_vm_ref(vm, k - (uint64_t)(n + 1) * vm->at->ref);
}

static uint64_t read_uleb(uint64_t *at)
{
    uint64_t v = 0;
    for (uint32_t shift = 0; shift < 35; shift += 7) {
        uint8_t b = (uint8_t)program_number((*at)++, 1);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            break;
    }
    return v;
}

/* The name of the local variable in a slot at an instruction; 0 = it has none. *start: the instruction from which on the
 * variable exists. Internal variables, marked by a small first byte, have no name. */
static uint64_t find_local(const struct lt_vm *vm, uint64_t proto, uint32_t index, uint32_t slot,
                           uint32_t *start_at)
{
    uint64_t at = lt_vm_ref(vm, proto + vm->at->proto_vars);
    uint64_t start = 0;
    for (uint32_t i = 0; at && i < 1000; i++) {
        uint64_t name = at;
        uint8_t first = (uint8_t)program_number(at, 1);
        if (first == 0)
            return 0;
        if (first < 7)
            at++;
        else
            while (program_number(at++, 1))
                ;
        start += read_uleb(&at);
        uint64_t end = start + read_uleb(&at);
        if (start > index)
            return 0;
        *start_at = (uint32_t)start;
        if (index < end && slot-- == 0)
            return first >= 7 ? name : 0;
    }
    return 0;
}

static void local_name(const struct lt_vm *vm, uint64_t proto, uint32_t index, uint32_t slot, char *to,
                       uint32_t limit)
{
    uint32_t start;
    const uint64_t name = find_local(vm, proto, index, slot, &start);
    to[0] = 0;
    if (name)
        copy_text(name, to, limit);
}

static void upvalue_name(const struct lt_vm *vm, uint64_t proto, uint32_t n, char *to, uint32_t limit)
{
    uint64_t at = lt_vm_ref(vm, proto + vm->at->proto_upvalues);
    while (at && n--)
        while (program_number(at++, 1))
            ;
    copy_text(at, to, limit);
}

/* The metamethod that an instruction calls; "" if it calls none. The numbers of instructions are the same in
 * all builds except for those of arithmetic. Comparisons come first. */
static void copy_metamethod(const struct lua_layout *l, uint32_t op, char *to, uint32_t limit)
{
    static const char *const compares[] = {"__lt", "__lt", "__le", "__le", "__eq", "__eq"};
    static const char *const computes[] = {"__add", "__sub", "__mul", "__div", "__mod"};
    enum { COMPUTES = 5, KINDS = 3, UNM = 2, LEN = 3, ADD = 4, POW = ADD + COMPUTES * KINDS };
    uint32_t from_mov = op - l->op_mov;
    bool usual = l->op_cat - l->op_mov == POW + 1;
    const char *name = "";
    if (op < sizeof compares / sizeof *compares)
        name = compares[op];
    else if (op == l->op_cat)
        name = "__concat";
    else if (from_mov == UNM || from_mov == LEN)
        name = from_mov == UNM ? "__unm" : "__len";
    else if (usual && from_mov >= ADD && from_mov <= POW)
        name = from_mov == POW ? "__pow" : computes[(from_mov - ADD) % COMPUTES];
    else if (op == l->op_gget || (op + 1 >= l->op_tgets && op <= l->op_tgets + 2u))
        name = "__index";
    else if (op == l->op_gget + 1u || (op + 1 >= l->op_tsets && op <= l->op_tsets + 1u))
        name = "__newindex";
    text_print(to, limit, "%s", name);
}

/* The name by which the instruction at pc calls: it is found by searching for the instruction that loaded the
 * called function into its slot. */
static void callee_name(const struct lt_vm *vm, uint64_t proto, uint64_t pc, char *to, uint32_t limit)
{
    const struct lua_layout *l = vm->layout;
    uint64_t code = proto + vm->at->proto_code;
    to[0] = 0;
    uint32_t call = lt_vm_u32(pc), slot = bc_a(call), searched = 0;
    if ((call & 0xff) != l->op_call && (call & 0xff) != l->op_call - 1u) {
        copy_metamethod(l, call & 0xff, to, limit);
        return;
    }
    local_name(vm, proto, (uint32_t)(pc - code) / 4, slot, to, limit);
    for (pc -= 4; !to[0] && pc > code && searched++ < SEARCH_LIMIT; pc -= 4) {
        uint32_t ins = lt_vm_u32(pc), op = ins & 0xff;
        if (bc_a(ins) != slot)
            continue;
        if (op == l->op_gget)
            copy_string(vm, constant(vm, proto, ins >> 16), to, limit);
        else if (op == l->op_tgets)
            copy_string(vm, constant(vm, proto, ins >> 16 & 0xff), to, limit);
        else if (op == l->op_uget)
            upvalue_name(vm, proto, ins >> 16, to, limit);
        else if (op == l->op_mov)
            local_name(vm, proto, (uint32_t)(pc - code) / 4, ins >> 16, to, limit);
        else if (op != l->op_call)
            return;
        if (op != l->op_call)
            return;
    }
}

/* Write the meaning of a key, or of a code address of a trace: a place in a Lua function. */
static void put_luaplace(const struct lt_vm *vm, uint64_t key, uint64_t ip, const struct lt_place *at,
                         const struct proto *p, const char *name)
{
    HOST_PUT(luaframe, .key = key, .ip = ip, .line = lt_line_at(vm, at->proto, at->pc),
             .defined = lt_first_line(vm, at->proto), .nth = p->nth,
             .kind = at->inlined ? MT_FRAME_LUA_INLINED : MT_FRAME_LUA, .approximate = at->approximate,
             .trace = at->trace, .function = host_text(name), .file = host_text(p->chunk));
}

static void put_luaframe(uint64_t key, uint64_t ip, uint32_t line, uint32_t kind, const char *function,
                         const char *file)
{
    HOST_PUT(luaframe, .key = key, .ip = ip, .line = line, .kind = kind, .function = host_text(function),
             .file = host_text(file));
}

/* Lua's own name for a function that no caller has named. If others begin on the same line, its number is
 * added. */
static const char *default_name(const struct lt_vm *vm, const struct proto *p)
{
    enum { ROOM = CHUNK_LIMIT + 40 };
    TABLE(char, name, ROOM);
    uint32_t first = lt_first_line(vm, p->addr);
    if (lt_proto_is_built_in(vm, p->addr))
        copy_string(vm, lt_vm_ref(vm, p->addr + vm->at->proto_chunk), name, ROOM);
    else if (first == 0)
        return "main chunk";
    else if (p->nth == 0)
        text_print(name, ROOM, "%s:%u", p->chunk, first);
    else
        text_print(name, ROOM, "%s:%u#%u", p->chunk, first, p->nth + 1);
    return name;
}

static const char *name_of(const struct lt_vm *vm, struct proto *p, uint64_t caller_proto, uint64_t caller_pc)
{
    char name[NAME_LIMIT];
    if (p->name)
        return p->name;
    name[0] = 0;
    if (caller_proto && lt_first_line(vm, p->addr) != 0)
        callee_name(vm, caller_proto, caller_pc, name, sizeof name);
    if (!name[0])
        return default_name(vm, p);
    return p->name = text_duplicate(name);
}

const char *lt_proto_title(const struct lt_vm *vm, uint64_t proto)
{
    enum { ROOM = NAME_LIMIT + CHUNK_LIMIT + 40 };
    TABLE(char, title, ROOM);
    struct proto *p = know(vm, proto);
    if (!p)
        return "";
    if (!p->name)
        return default_name(vm, p);
    text_print(title, ROOM, "%s %s:%u", p->name, p->chunk, lt_first_line(vm, proto));
    return title;
}

/* A variable exists from the instruction after the one that gives it its first value. */
uint64_t lt_local_title(const struct lt_vm *vm, uint64_t proto, uint64_t pc, uint32_t slot, char *to,
                        uint32_t limit)
{
    const struct proto *p = know(vm, proto);
    const uint32_t index = (uint32_t)(pc - proto - vm->at->proto_code) / 4;
    uint32_t start;
    const uint64_t name = p ? find_local(vm, proto, index, slot, &start) : 0;
    to[0] = 0;
    if (!name)
        return 0;
    copy_text(name, to, limit);
    const uint32_t used = text_length(to), line = lt_line_of(vm, proto, start ? start - 1 : 0);
    text_print(to + used, limit - used, " (%s:%u)", p->chunk, line);
    return name;
}

/* -- writing -- */

static void write_lines(const struct lt_vm *vm, uint64_t proto)
{
    TABLE(uint32_t, lines, LINES_AT_ONCE);
    uint32_t count = lt_vm_u32(proto + vm->at->proto_count);
    for (uint32_t done = 0; done < count;) {
        uint32_t n = count - done < LINES_AT_ONCE ? count - done : LINES_AT_ONCE;
        for (uint32_t i = 0; i < n; i++)
            lines[i] = lt_line_of(vm, proto, done + i);
        HOST_PUT(lines, .lines = host_text_of((const char *)lines, n * (uint32_t)sizeof *lines));
        done += n;
    }
}

static void write_proto(const struct lt_vm *vm, struct proto *p, const char *name)
{
    p->written = true;
    write_lines(vm, p->addr);
    HOST_PUT(proto, .nth = p->nth, .addr = p->addr, .heap = lt_vm_heap(vm),
             .defined = lt_first_line(vm, p->addr), .offset = vm->at->proto_code, .function = host_text(name),
             .file = host_text(p->chunk));
}

void lt_function_made(const struct lt_vm *vm, uint64_t function)
{
    struct proto *p = proto_of(vm, function);
    if (p && !p->written)
        write_proto(vm, p, name_of(vm, p, 0, 0));
}

static bool is_written(uint64_t key)
{
    uint64_t *slot = &s_written[lt_hash_slot(key, 14)];
    if (*slot == key)
        return true;
    *slot = key;
    return false;
}

/* Make a key. Code addresses are multiples of 4 below 2^47, which leaves room for the rest. */
static uint64_t key_of(const struct lt_place *at)
{
    return (uint64_t)1 << 63 | (uint64_t)(at->trace & 0xffff) << 47 | at->pc | (at->inlined ? 2 : 0) |
           (at->approximate ? 1 : 0);
}

/* Name the function of a place and write the meaning of its key, if there is such a function. */
static void name_place(const struct lt_vm *vm, uint64_t key, uint64_t ip, const struct lt_place *at)
{
    struct proto *p = know(vm, at->proto);
    if (!p)
        return;
    const char *name = name_of(vm, p, at->caller_proto, at->caller_pc);
    if (!p->written)
        write_proto(vm, p, name);
    put_luaplace(vm, key, ip, at, p, name);
}

/* The first of the instructions before and at `pc` that have the same line without one of another line in between.
 * Calls on one line are one place: of n calls of a recursive function by itself, there would be n^depth different
 * stacks otherwise. */
static uint64_t begin_of_line(const struct lt_vm *vm, uint64_t proto, uint64_t pc)
{
    const uint32_t line = lt_line_at(vm, proto, pc);
    while (line && lt_line_at(vm, proto, pc - 4) == line)
        pc -= 4;
    return pc;
}

/* The key of the line that a place is in, whose meaning is written if it was not; 0 if there is no such place. */
static uint64_t key_of_line(const struct lt_vm *vm, struct lt_place at)
{
    if (!know(vm, at.proto))
        return 0;
    at.pc = begin_of_line(vm, at.proto, at.pc);
    const uint64_t key = key_of(&at);
    if (!is_written(key))
        name_place(vm, key, at.pc, &at);
    return key;
}

uint64_t lt_name_place(const struct lt_vm *vm, const struct lt_place *place)
{
    const uint64_t exact = key_of(place);
    const uint64_t slot = lt_hash_slot(exact, 12);
    if (s_places[slot].exact != exact) {
        const uint64_t key = key_of_line(vm, *place); /* it may forget all places */
        s_places[slot].exact = key ? exact : 0;
        s_places[slot].key = key;
    }
    return s_places[slot].key;
}

void lt_name_code(const struct lt_vm *vm, uint64_t ip, const struct lt_place *at)
{
    name_place(vm, ip, ip, at);
}

/* -- functions of libraries -- */

/* The object of this type that a value refers to; 0 = the value is something else. Its tag is the inverse of the type. */
static uint64_t object_in(const struct lt_vm *vm, uint64_t value, uint32_t gct)
{
    const uint64_t v = program_number(value, 8);
    if (vm->layout->gc64)
        return v >> 47 == (~(uint64_t)gct & 0x1ffff) ? v & (((uint64_t)1 << 47) - 1) : 0;
    return v >> 32 == ~gct ? (uint32_t)v : 0;
}

/* The pairs of a table with keys that are no array's indices. Returns the address of the first, and how many there may be. */
static uint64_t pairs_of(const struct lt_vm *vm, uint64_t table, uint32_t *count)
{
    const uint64_t node = lt_vm_ref(vm, table + vm->at->tab_node);
    *count = lt_vm_u32(table + vm->at->tab_asize + 4) + 1;
    return *count <= MOST_PAIRS && program_readable(node, (size_t)*count * PAIR_BYTES) ? node : 0;
}

/* Find the key of a function in a table. Returns false if it is not there. */
static bool key_in(const struct lt_vm *vm, uint64_t table, uint64_t function, char *name, uint32_t limit)
{
    uint32_t count;
    uint64_t pair = pairs_of(vm, table, &count);
    for (uint32_t i = 0; pair && i < count; i++, pair += PAIR_BYTES)
        if (object_in(vm, pair, GCT_FUNC) == function && object_in(vm, pair + 8, GCT_STR)) {
            copy_string(vm, object_in(vm, pair + 8, GCT_STR), name, limit);
            return true;
        }
    return false;
}

/* Find the name of a function among the globals and in the tables among them, which the libraries are. After a tail call
 * the caller's name for what it called is that of another function. */
static bool library_name(const struct lt_vm *vm, uint64_t function, char *name, uint32_t limit)
{
    const uint64_t globals = lt_vm_ref(vm, vm->g - vm->layout->thread_size + vm->at->thread_env);
    uint32_t count;
    if (key_in(vm, globals, function, name, limit))
        return true;
    uint64_t pair = pairs_of(vm, globals, &count);
    for (uint32_t i = 0; pair && i < count; i++, pair += PAIR_BYTES) {
        const uint64_t table = object_in(vm, pair, GCT_TAB);
        if (table && key_in(vm, table, function, name, limit))
            return true;
    }
    return false;
}

bool lt_fast_is_made(const struct lt_vm *vm, uint64_t function)
{
    return program_number(function + vm->at->ffid, 1) > 1 &&
           program_number(function + vm->at->func_upvalues, 1) > 0;
}

uint64_t lt_name_fast(const struct lt_vm *vm, uint64_t function, uint64_t caller_proto, uint64_t caller_pc)
{
    char name[NAME_LIMIT];
    bool made = lt_fast_is_made(vm, function);
    uint64_t place = caller_pc ? caller_pc : lt_vm_ref(vm, function + vm->at->func_pc);
    uint64_t key = (uint64_t)1 << 63 | (uint64_t)1 << 62 | (made ? (uint64_t)1 << 60 | place : function);
    if (is_written(key))
        return key;
    name[0] = 0;
    if ((made || !library_name(vm, function, name, sizeof name)) && caller_proto)
        callee_name(vm, caller_proto, caller_pc, name, sizeof name);
    if (!name[0])
        text_print(name, sizeof name, "builtin#%lu", program_number(function + vm->at->ffid, 1));
    put_luaframe(key, made ? program_number(function + vm->at->func_c, 8) : function, 0, MT_FRAME_FAST, name,
                 "");
    return key;
}

uint64_t lt_name_part(enum lt_vm_part part)
{
    static const char *const names[] = {
        [LT_PART_GC] = "GC", [LT_PART_JIT] = "JIT compiler", [LT_PART_EXIT] = "trace exit"};
    uint64_t key = (uint64_t)1 << 63 | (uint64_t)1 << 61 | part << 2;
    if (!is_written(key))
        put_luaframe(key, 0, 0, MT_FRAME_VM, names[part], "");
    return key;
}

/* Chunks are numbered in the order in which they are parsed, so keys of different chunks are different. */
uint64_t lt_name_compiled(const struct lt_vm *vm, uint64_t string, uint32_t line)
{
    TABLE(char, last, CHUNK_LIMIT);
    TABLE(char, name, CHUNK_LIMIT);
    static uint32_t chunk;
    copy_string(vm, string, name, CHUNK_LIMIT);
    if (chunk == 0 || !text_equals(name, last)) {
        text_copy(last, name);
        chunk++;
    }
    uint64_t key = (uint64_t)3 << 62 | (uint64_t)1 << 61 | (uint64_t)chunk << 29 | (line & 0x1fffffff);
    if (!is_written(key))
        put_luaframe(key, 0, line, MT_FRAME_VM, "parser", shown_chunk(name));
    return key;
}
