/* names.c - give keys to frames of Lua, and write the names and lines that belong to them. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Here are the prototypes that were seen, the lines of their instructions, the search for a function's name
 * in the code that calls it, and the records that carry all this to the collector.
 */
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/records.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_oset.h"

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
    Addr addr;
    UWord bytes;
    Bool written;        /* it was written into the ring, with its lines */
    UInt nth;            /* how many functions that begin on the same line precede it in its chunk */
    HChar *name, *chunk; /* name: NULL until it is known */
};

/* How many functions of the current chunk begin on a line. */
struct beginnings {
    UWord line;
    UInt functions;
};

static OSet *s_protos; /* ordered by address */
TABLE(struct proto *, s_recent, RECENT_SLOTS);
LASTING_TABLE(UInt, s_starts, COUNT_SLOTS); /* number of prototypes by the hash of their address */
TABLE(Addr, s_written, WRITTEN_SLOTS);
struct place {
    Addr exact, key; /* of an instruction, and of the line that it is in */
};
TABLE(struct place, s_places, PLACE_SLOTS);
static UInt s_generation;

static Word holds(const void *key, const void *elem)
{
    Addr a = *(const Addr *)key;
    const struct proto *p = elem;
    return a < p->addr ? -1 : a >= p->addr + p->bytes ? 1 : 0;
}

static struct proto *proto_at(Addr a)
{
    return s_protos ? VG_(OSetGen_LookupWithCmp)(s_protos, &a, holds) : NULL;
}

/* Forget which keys were written: a prototype is gone, so a key may get another meaning. */
static void forget_places(void)
{
    VG_(memset)(s_written, 0, TABLE_BYTES(s_written));
    VG_(memset)(s_places, 0, TABLE_BYTES(s_places));
    s_generation++;
}

UInt lt_places_generation(void)
{
    return s_generation;
}

/* Copy a text that ends in NUL, cut to the limit. */
static void copy_text(Addr from, HChar *to, UInt limit)
{
    UInt n = 0;
    HChar c;
    while (n + 1 < limit && lt_guest_read(from + n, &c, 1) && c)
        to[n++] = c;
    to[n] = 0;
}

static void copy_string(const struct lt_vm *vm, Addr string, HChar *to, UInt limit)
{
    copy_text(string + vm->layout->string_header, to, limit);
}

/* At most `limit` bytes of a text, without a part of a character of UTF-8 at the end. */
static UInt fitting(const HChar *text, UInt bytes, UInt limit)
{
    if (bytes <= limit)
        return bytes;
    while (limit && (text[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

/* The name of a chunk as Lua shows it: of a file its name, here the whole of it, which has the mark '@'; of any other chunk
 * what follows the mark '='; without a mark it is source text, of which the beginning of the first line is shown. */
static const HChar *shown_chunk(const HChar *name)
{
    static const HChar before[] = "[string \"", whole[] = "\"]", cut[] = "...\"]";
    static HChar shown[SHOWN_LIMIT];
    UInt n = 0;
    if (name[0] == '@')
        return name + 1;
    if (name[0] == '=') {
        VG_(snprintf)(shown, sizeof shown, "%s", name + 1);
        shown[fitting(name + 1, VG_(strlen)(name + 1), SHOWN_LIMIT - 1)] = 0;
        return shown;
    }
    while ((UChar)name[n] >= ' ' && n < SHOWN_LIMIT - 12)
        n++;
    const Bool is_cut = name[n] != 0;
    if (is_cut)
        n = fitting(name, n, SHOWN_LIMIT - 15);
    VG_(memcpy)(shown, before, sizeof before - 1);
    VG_(memcpy)(shown + sizeof before - 1, name, n);
    VG_(strcpy)(shown + sizeof before - 1 + n, is_cut ? cut : whole);
    return shown;
}

/* LuaJIT has some library functions in bytecode, which has no lines. */
static Bool is_built_in(const struct lt_vm *vm, Addr proto)
{
    return lt_vm_u32(proto + vm->at->proto_first) == 0xffffffff;
}

/* The name of a prototype's chunk, with its mark. */
static const HChar *chunk_of(const struct lt_vm *vm, Addr proto)
{
    TABLE(HChar, name, CHUNK_LIMIT);
    copy_string(vm, lt_vm_ref(vm, proto + vm->at->proto_chunk), name, CHUNK_LIMIT);
    return name;
}

static HChar *chunk_name(const struct lt_vm *vm, Addr proto)
{
    TABLE(HChar, whole, CHUNK_LIMIT + 12);
    const HChar *name = chunk_of(vm, proto);
    if (!is_built_in(vm, proto))
        return VG_(strdup)("ljtrace.chunk", shown_chunk(name));
    VG_(snprintf)(whole, CHUNK_LIMIT + 12, "[builtin:%s]", name); /* as Lua's traceback has it */
    return VG_(strdup)("ljtrace.chunk", whole);
}

/* The line on which a function begins. It is 0 for main chunks, and for built-in functions, which have
 * none. */
static UInt first_line(const struct lt_vm *vm, Addr proto)
{
    return is_built_in(vm, proto) ? 0 : lt_vm_u32(proto + vm->at->proto_first);
}

/* Lua creates the prototypes of a chunk in the order in which their functions end, and that of the main chunk
 * last. So a function gets the same number each time its file is loaded. */
static UInt number_on_line(const struct lt_vm *vm, Addr proto, const HChar *chunk)
{
    static OSet *lines; /* of struct beginnings */
    TABLE(HChar, last, CHUNK_LIMIT);
    UWord line = first_line(vm, proto);
    if (lines && (line == 0 || VG_(strcmp)(chunk, last))) {
        VG_(OSetGen_Destroy)(lines);
        lines = NULL;
    }
    if (line == 0)
        return 0;
    if (!lines) {
        lines = VG_(OSetGen_Create)(0, NULL, VG_(malloc), "ljtrace.beginnings", VG_(free));
        VG_(snprintf)(last, CHUNK_LIMIT, "%s", chunk);
    }
    struct beginnings *b = VG_(OSetGen_Lookup)(lines, &line);
    if (!b) {
        b = VG_(OSetGen_AllocNode)(lines, sizeof *b);
        *b = (struct beginnings){line, 0};
        VG_(OSetGen_Insert)(lines, b);
    }
    return b->functions < 0xffff ? b->functions++ : 0xffff;
}

static struct proto **recent(Addr proto)
{
    return &s_recent[proto / 16 % RECENT_SLOTS];
}

static UInt *starts(Addr block)
{
    return &s_starts[block / 8 % COUNT_SLOTS];
}

static void drop(struct proto *p)
{
    *recent(p->addr) = NULL;
    --*starts(p->addr);
    VG_(OSetGen_Remove)(s_protos, &p->addr);
    VG_(free)(p->chunk);
    if (p->name)
        VG_(free)(p->name);
    VG_(OSetGen_FreeNode)(s_protos, p);
}

static struct proto *know(const struct lt_vm *vm, Addr proto)
{
    struct proto *p = *recent(proto);
    if (p && p->addr == proto)
        return p;
    p = proto_at(proto);
    if (p && p->addr == proto)
        return *recent(proto) = p;
    UInt bytes = lt_vm_u32(proto + vm->at->proto_bytes);
    if (lt_vm_gct(vm, proto) != GCT_PROTO || bytes < vm->at->proto_code || !lt_guest_readable(proto, bytes))
        return NULL;
    if (!s_protos)
        s_protos = VG_(OSetGen_Create)(0, NULL, VG_(malloc), "ljtrace.protos", VG_(free));
    Addr last = proto + bytes - 1;
    while ((p = proto_at(proto)) || (p = proto_at(last)))
        drop(p);
    p = VG_(OSetGen_AllocNode)(s_protos, sizeof *p);
    *p = (struct proto){.addr = proto, .bytes = bytes, .chunk = chunk_name(vm, proto)};
    p->nth = number_on_line(vm, proto, chunk_of(vm, proto));
    VG_(OSetGen_Insert)(s_protos, p);
    ++*starts(proto);
    lt_await_free(proto);
    return p;
}

void lt_proto_made(const struct lt_vm *vm, Addr proto)
{
    know(vm, proto);
}

void lt_proto_gone(Addr block)
{
    struct proto *p = *starts(block) ? proto_at(block) : NULL;
    if (p && p->addr == block) {
        drop(p);
        forget_places();
    }
}

static struct proto *proto_of(const struct lt_vm *vm, Addr function)
{
    if (lt_vm_gct(vm, function) != GCT_FUNC || lt_guest_number(function + vm->at->ffid, 1) != 0)
        return NULL;
    return know(vm, lt_vm_ref(vm, function + vm->at->func_pc) - vm->at->proto_code);
}

Addr lt_proto_of(const struct lt_vm *vm, Addr function)
{
    const struct proto *p = proto_of(vm, function);
    return p ? p->addr : 0;
}

static Bool looks_like_proto(const struct lt_vm *vm, Addr a, Addr pc)
{
    const UInt bytes = lt_vm_u32(a + vm->at->proto_bytes);
    if (lt_vm_gct(vm, a) != GCT_PROTO || pc - a >= bytes || bytes < vm->at->proto_code)
        return False;
    const Addr chunk = lt_vm_ref(vm, a + vm->at->proto_chunk), lines = lt_vm_ref(vm, a + vm->at->proto_lines);
    lt_guest_doubt(chunk);
    return lt_guest_readable(chunk, vm->layout->string_header) && lt_vm_gct(vm, chunk) == GCT_STR &&
           (lines == 0 || lines - a < bytes);
}

/* Find the prototype before an instruction in a state that is older than the recording: its prototypes were not seen when
 * they were made. */
static struct proto *search_proto(const struct lt_vm *vm, Addr pc)
{
    TABLE(Addr, missed, MISSED_SLOTS);
    Addr *slot = &missed[lt_hash_slot(pc, 8)], a = (pc - vm->at->proto_code) & ~(Addr)7;
    if (*slot == pc)
        return NULL;
    lt_guest_doubt(a);
    for (UInt i = 0; i < MOST_SEARCHED && lt_guest_readable(a, vm->at->proto_code); i++, a -= 8) {
        if (looks_like_proto(vm, a, pc))
            return know(vm, a);
        if ((a & 4095) < 8)
            lt_guest_doubt(a - 8);
    }
    *slot = pc;
    return NULL;
}

Addr lt_proto_holding(const struct lt_vm *vm, Addr pc)
{
    struct proto *p = proto_at(pc);
    if (!p && vm->is_older)
        p = search_proto(vm, pc);
    return p ? p->addr : 0;
}

static Word any_proto(const void *key, const void *elem)
{
    (void)key, (void)elem;
    return 0;
}

void lt_protos_forget(void)
{
    const Addr any = 0;
    struct proto *p;
    while (s_protos && (p = VG_(OSetGen_LookupWithCmp)(s_protos, &any, any_proto)))
        drop(p);
    forget_places();
}

/* -- lines -- */

/* The line of the i-th instruction. Instruction 0 is the function's header. */
static UInt line_of_index(const struct lt_vm *vm, Addr proto, UInt i)
{
    UInt count = lt_vm_u32(proto + vm->at->proto_line_count), width = count < 256 ? 1 : count < 65536 ? 2 : 4;
    Addr lines = lt_vm_ref(vm, proto + vm->at->proto_lines);
    if (!lines)
        return 0;
    return first_line(vm, proto) + (i ? (UInt)lt_guest_number(lines + (Addr)(i - 1) * width, width) : 0);
}

UInt lt_line_at(const struct lt_vm *vm, Addr proto, Addr pc)
{
    Addr code = proto + vm->at->proto_code;
    UInt count = lt_vm_u32(proto + vm->at->proto_count);
    return pc < code || pc >= code + 4 * (Addr)count ? 0 : line_of_index(vm, proto, (UInt)(pc - code) / 4);
}

/* -- names -- */

static UInt bc_a(UInt ins)
{
    return ins >> 8 & 0xff;
}

/* The n-th string constant of a prototype. */
static Addr constant(const struct lt_vm *vm, Addr proto, UInt n)
{
    Addr k = lt_vm_ref(vm, proto + vm->at->proto_k);
    return lt_vm_ref(vm, k - (Addr)(n + 1) * vm->at->ref);
}

static ULong read_uleb(Addr *at)
{
    ULong v = 0;
    for (UInt shift = 0; shift < 35; shift += 7) {
        UChar b = (UChar)lt_guest_number((*at)++, 1);
        v |= (ULong)(b & 0x7f) << shift;
        if (b < 0x80)
            break;
    }
    return v;
}

/* The name of the local variable in a slot at an instruction. Internal variables, marked by a small first
 * byte, have no name. */
static void local_name(const struct lt_vm *vm, Addr proto, UInt index, UInt slot, HChar *to, UInt limit)
{
    Addr at = lt_vm_ref(vm, proto + vm->at->proto_vars);
    ULong start = 0;
    to[0] = 0;
    for (UInt i = 0; at && i < 1000; i++) {
        Addr name = at;
        UChar first = (UChar)lt_guest_number(at, 1);
        if (first == 0)
            return;
        if (first < 7)
            at++;
        else
            while (lt_guest_number(at++, 1))
                ;
        start += read_uleb(&at);
        ULong end = start + read_uleb(&at);
        if (start > index)
            return;
        if (index < end && slot-- == 0) {
            if (first >= 7)
                copy_text(name, to, limit);
            return;
        }
    }
}

static void upvalue_name(const struct lt_vm *vm, Addr proto, UInt n, HChar *to, UInt limit)
{
    Addr at = lt_vm_ref(vm, proto + vm->at->proto_upvalues);
    while (at && n--)
        while (lt_guest_number(at++, 1))
            ;
    copy_text(at, to, limit);
}

/* The metamethod that an instruction calls; "" if it calls none. The numbers of instructions are the same in
 * all builds except for those of arithmetic. Comparisons come first. */
static void copy_metamethod(const struct lua_layout *l, UInt op, HChar *to, UInt limit)
{
    static const HChar *const compares[] = {"__lt", "__lt", "__le", "__le", "__eq", "__eq"};
    static const HChar *const computes[] = {"__add", "__sub", "__mul", "__div", "__mod"};
    enum { COMPUTES = 5, KINDS = 3, UNM = 2, LEN = 3, ADD = 4, POW = ADD + COMPUTES * KINDS };
    UInt from_mov = op - l->op_mov;
    Bool usual = l->op_cat - l->op_mov == POW + 1;
    const HChar *name = "";
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
    VG_(snprintf)(to, limit, "%s", name);
}

/* The name by which the instruction at pc calls: it is found by searching for the instruction that loaded the
 * called function into its slot. */
static void callee_name(const struct lt_vm *vm, Addr proto, Addr pc, HChar *to, UInt limit)
{
    const struct lua_layout *l = vm->layout;
    Addr code = proto + vm->at->proto_code;
    to[0] = 0;
    UInt call = lt_vm_u32(pc), slot = bc_a(call), searched = 0;
    if ((call & 0xff) != l->op_call && (call & 0xff) != l->op_call - 1u) {
        copy_metamethod(l, call & 0xff, to, limit);
        return;
    }
    local_name(vm, proto, (UInt)(pc - code) / 4, slot, to, limit);
    for (pc -= 4; !to[0] && pc > code && searched++ < SEARCH_LIMIT; pc -= 4) {
        UInt ins = lt_vm_u32(pc), op = ins & 0xff;
        if (bc_a(ins) != slot)
            continue;
        if (op == l->op_gget)
            copy_string(vm, constant(vm, proto, ins >> 16), to, limit);
        else if (op == l->op_tgets)
            copy_string(vm, constant(vm, proto, ins >> 16 & 0xff), to, limit);
        else if (op == l->op_uget)
            upvalue_name(vm, proto, ins >> 16, to, limit);
        else if (op == l->op_mov)
            local_name(vm, proto, (UInt)(pc - code) / 4, ins >> 16, to, limit);
        else if (op != l->op_call)
            return;
        if (op != l->op_call)
            return;
    }
}

/* Write the meaning of a key, or of a code address of a trace: a place in a Lua function. */
static void put_luaplace(const struct lt_vm *vm, Addr key, Addr ip, const struct lt_place *at,
                         const struct proto *p, const HChar *name)
{
    RING_PUT(luaframe, .key = key, .ip = ip, .line = lt_line_at(vm, at->proto, at->pc),
             .defined = first_line(vm, at->proto), .nth = p->nth,
             .kind = at->inlined ? MT_FRAME_LUA_INLINED : MT_FRAME_LUA, .approximate = at->approximate,
             .trace = at->trace, .function = lt_text(name), .file = lt_text(p->chunk));
}

static void put_luaframe(Addr key, Addr ip, UInt line, UInt kind, const HChar *function, const HChar *file)
{
    RING_PUT(luaframe, .key = key, .ip = ip, .line = line, .kind = kind, .function = lt_text(function),
             .file = lt_text(file));
}

/* Lua's own name for a function that no caller has named. If others begin on the same line, its number is
 * added. */
static const HChar *default_name(const struct lt_vm *vm, const struct proto *p)
{
    enum { ROOM = CHUNK_LIMIT + 40 };
    TABLE(HChar, name, ROOM);
    UInt first = first_line(vm, p->addr);
    if (is_built_in(vm, p->addr))
        copy_string(vm, lt_vm_ref(vm, p->addr + vm->at->proto_chunk), name, ROOM);
    else if (first == 0)
        return "main chunk";
    else if (p->nth == 0)
        VG_(snprintf)(name, ROOM, "%s:%u", p->chunk, first);
    else
        VG_(snprintf)(name, ROOM, "%s:%u#%u", p->chunk, first, p->nth + 1);
    return name;
}

static const HChar *name_of(const struct lt_vm *vm, struct proto *p, Addr caller_proto, Addr caller_pc)
{
    HChar name[NAME_LIMIT];
    if (p->name)
        return p->name;
    name[0] = 0;
    if (caller_proto && first_line(vm, p->addr) != 0)
        callee_name(vm, caller_proto, caller_pc, name, sizeof name);
    if (!name[0])
        return default_name(vm, p);
    return p->name = VG_(strdup)("ljtrace.name", name);
}

const HChar *lt_proto_title(const struct lt_vm *vm, Addr proto)
{
    enum { ROOM = NAME_LIMIT + CHUNK_LIMIT + 40 };
    TABLE(HChar, title, ROOM);
    struct proto *p = know(vm, proto);
    if (!p)
        return "";
    if (!p->name)
        return default_name(vm, p);
    VG_(snprintf)(title, ROOM, "%s %s:%u", p->name, p->chunk, first_line(vm, proto));
    return title;
}

/* -- writing -- */

static void write_lines(const struct lt_vm *vm, Addr proto)
{
    TABLE(UInt, lines, LINES_AT_ONCE);
    UInt count = lt_vm_u32(proto + vm->at->proto_count);
    for (UInt done = 0; done < count;) {
        UInt n = count - done < LINES_AT_ONCE ? count - done : LINES_AT_ONCE;
        for (UInt i = 0; i < n; i++)
            lines[i] = line_of_index(vm, proto, done + i);
        RING_PUT(lines, .lines = lt_text_of((const HChar *)lines, n * (UInt)sizeof *lines));
        done += n;
    }
}

static void write_proto(const struct lt_vm *vm, struct proto *p, const HChar *name)
{
    p->written = True;
    write_lines(vm, p->addr);
    RING_PUT(proto, .nth = p->nth, .addr = p->addr, .heap = lt_vm_heap(vm),
             .defined = first_line(vm, p->addr), .offset = vm->at->proto_code, .function = lt_text(name),
             .file = lt_text(p->chunk));
}

void lt_function_made(const struct lt_vm *vm, Addr function)
{
    struct proto *p = proto_of(vm, function);
    if (p && !p->written)
        write_proto(vm, p, name_of(vm, p, 0, 0));
}

static Bool is_written(Addr key)
{
    Addr *slot = &s_written[lt_hash_slot(key, 14)];
    if (*slot == key)
        return True;
    *slot = key;
    return False;
}

/* Make a key. Code addresses are multiples of 4 below 2^47, which leaves room for the rest. */
static Addr key_of(const struct lt_place *at)
{
    return (Addr)1 << 63 | (Addr)(at->trace & 0xffff) << 47 | at->pc | (at->inlined ? 2 : 0) |
           (at->approximate ? 1 : 0);
}

/* Name the function of a place and write the meaning of its key, if there is such a function. */
static void name_place(const struct lt_vm *vm, Addr key, Addr ip, const struct lt_place *at)
{
    struct proto *p = know(vm, at->proto);
    if (!p)
        return;
    const HChar *name = name_of(vm, p, at->caller_proto, at->caller_pc);
    if (!p->written)
        write_proto(vm, p, name);
    put_luaplace(vm, key, ip, at, p, name);
}

/* The first of the instructions before and at `pc` that have the same line without one of another line in between.
 * Calls on one line are one place: of n calls of a recursive function by itself, there would be n^depth different
 * stacks otherwise. */
static Addr begin_of_line(const struct lt_vm *vm, Addr proto, Addr pc)
{
    const UInt line = lt_line_at(vm, proto, pc);
    while (line && lt_line_at(vm, proto, pc - 4) == line)
        pc -= 4;
    return pc;
}

/* The key of the line that a place is in, whose meaning is written if it was not; 0 if there is no such place. */
static Addr key_of_line(const struct lt_vm *vm, struct lt_place at)
{
    if (!know(vm, at.proto))
        return 0;
    at.pc = begin_of_line(vm, at.proto, at.pc);
    const Addr key = key_of(&at);
    if (!is_written(key))
        name_place(vm, key, at.pc, &at);
    return key;
}

Addr lt_name_place(const struct lt_vm *vm, const struct lt_place *place)
{
    const Addr exact = key_of(place);
    const UWord slot = lt_hash_slot(exact, 12);
    if (s_places[slot].exact != exact) {
        const Addr key = key_of_line(vm, *place); /* it may forget all places */
        s_places[slot].exact = key ? exact : 0;
        s_places[slot].key = key;
    }
    return s_places[slot].key;
}

void lt_name_code(const struct lt_vm *vm, Addr ip, const struct lt_place *at)
{
    name_place(vm, ip, ip, at);
}

/* -- functions of libraries -- */

/* The object of this type that a value refers to; 0 = the value is something else. Its tag is the inverse of the type. */
static Addr object_in(const struct lt_vm *vm, Addr value, UInt gct)
{
    const ULong v = lt_guest_number(value, 8);
    if (vm->layout->gc64)
        return v >> 47 == (~(ULong)gct & 0x1ffff) ? v & (((Addr)1 << 47) - 1) : 0;
    return v >> 32 == ~gct ? (UInt)v : 0;
}

/* The pairs of a table with keys that are no array's indices. Returns the address of the first, and how many there may be. */
static Addr pairs_of(const struct lt_vm *vm, Addr table, UInt *count)
{
    const Addr node = lt_vm_ref(vm, table + vm->at->tab_node);
    *count = lt_vm_u32(table + vm->at->tab_asize + 4) + 1;
    return *count <= MOST_PAIRS && lt_guest_readable(node, (SizeT)*count * PAIR_BYTES) ? node : 0;
}

/* Find the key of a function in a table. Returns false if it is not there. */
static Bool key_in(const struct lt_vm *vm, Addr table, Addr function, HChar *name, UInt limit)
{
    UInt count;
    Addr pair = pairs_of(vm, table, &count);
    for (UInt i = 0; pair && i < count; i++, pair += PAIR_BYTES)
        if (object_in(vm, pair, GCT_FUNC) == function && object_in(vm, pair + 8, GCT_STR)) {
            copy_string(vm, object_in(vm, pair + 8, GCT_STR), name, limit);
            return True;
        }
    return False;
}

/* Find the name of a function among the globals and in the tables among them, which the libraries are. After a tail call
 * the caller's name for what it called is that of another function. */
static Bool library_name(const struct lt_vm *vm, Addr function, HChar *name, UInt limit)
{
    const Addr globals = lt_vm_ref(vm, vm->g - vm->layout->thread_size + vm->at->thread_env);
    UInt count;
    if (key_in(vm, globals, function, name, limit))
        return True;
    Addr pair = pairs_of(vm, globals, &count);
    for (UInt i = 0; pair && i < count; i++, pair += PAIR_BYTES) {
        const Addr table = object_in(vm, pair, GCT_TAB);
        if (table && key_in(vm, table, function, name, limit))
            return True;
    }
    return False;
}

Bool lt_fast_is_made(const struct lt_vm *vm, Addr function)
{
    return lt_guest_number(function + vm->at->ffid, 1) > 1 &&
           lt_guest_number(function + vm->at->func_upvalues, 1) > 0;
}

Addr lt_name_fast(const struct lt_vm *vm, Addr function, Addr caller_proto, Addr caller_pc)
{
    HChar name[NAME_LIMIT];
    Bool made = lt_fast_is_made(vm, function);
    Addr place = caller_pc ? caller_pc : lt_vm_ref(vm, function + vm->at->func_pc);
    Addr key = (Addr)1 << 63 | (Addr)1 << 62 | (made ? (Addr)1 << 60 | place : function);
    if (is_written(key))
        return key;
    name[0] = 0;
    if ((made || !library_name(vm, function, name, sizeof name)) && caller_proto)
        callee_name(vm, caller_proto, caller_pc, name, sizeof name);
    if (!name[0])
        VG_(snprintf)(name, sizeof name, "builtin#%llu", lt_guest_number(function + vm->at->ffid, 1));
    put_luaframe(key, made ? lt_guest_number(function + vm->at->func_c, 8) : function, 0, MT_FRAME_FAST, name,
                 "");
    return key;
}

Addr lt_name_part(enum lt_vm_part part)
{
    static const HChar *const names[] = {
        [LT_PART_GC] = "GC", [LT_PART_JIT] = "JIT compiler", [LT_PART_EXIT] = "trace exit"};
    Addr key = (Addr)1 << 63 | (Addr)1 << 61 | part << 2;
    if (!is_written(key))
        put_luaframe(key, 0, 0, MT_FRAME_VM, names[part], "");
    return key;
}

/* Chunks are numbered in the order in which they are parsed, so keys of different chunks are different. */
Addr lt_name_compiled(const struct lt_vm *vm, Addr string, UInt line)
{
    TABLE(HChar, last, CHUNK_LIMIT);
    TABLE(HChar, name, CHUNK_LIMIT);
    static UInt chunk;
    copy_string(vm, string, name, CHUNK_LIMIT);
    if (chunk == 0 || VG_(strcmp)(name, last)) {
        VG_(strcpy)(last, name);
        chunk++;
    }
    Addr key = (Addr)3 << 62 | (Addr)1 << 61 | (Addr)chunk << 29 | (line & 0x1fffffff);
    if (!is_written(key))
        put_luaframe(key, 0, line, MT_FRAME_VM, "parser", shown_chunk(name));
    return key;
}
