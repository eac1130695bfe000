/* names.c - names of objects and references.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A name is written once, with a key (RAW_NAME): the address of the object that has the name or, for C types,
 * a small number. Which keys were written is kept in a table of fixed size; a key that was evicted is written
 * again, which is harmless.
 */
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "ljtrace/protocol/table.h"
#include <string.h>

enum { WRITTEN_SLOTS = 1 << 15, KEY_TEXT = 120, METATABLES = 256, REGISTERED = 1 << 12 };

/* Keys that are not addresses. C types have smaller ones; no state has so many types. */
enum { BUILTINS = 0x100000, OWN_UDATA = 0x200000 };

TABLE(uint64_t, s_written, WRITTEN_SLOTS);

/* A cache of what was found in a metatable. */
struct metatable {
    uint64_t table, name;
    uint32_t mode;
};
TABLE(struct metatable, s_metatable, METATABLES);

/* The names of tables in the registry, where luaL_newmetatable stores metatables. */
struct registered {
    uint64_t table, name;
};
TABLE(struct registered, s_registered, REGISTERED);

static struct registered *registered(uint64_t table)
{
    uint32_t i = lt_hash_slot(table, 12);
    for (uint32_t tries = 0; tries < 16; tries++, i = (i + 1) % REGISTERED)
        if (!s_registered[i].table || s_registered[i].table == table)
            return &s_registered[i];
    return NULL;
}

static void note_registered(const struct snapshot *u, uint64_t node)
{
    uint32_t key_type, type;
    uint64_t key = object_value(u, node + 8, &key_type), table = object_value(u, node, &type);
    struct registered *r;
    if (key && key_type == GCT_STR && table && type == GCT_TAB && (r = registered(table)) && !r->table)
        *r = (struct registered){table, key};
}

void snapshot_begin_names(const struct snapshot *u, uint64_t registry)
{
    memset(s_written, 0, TABLE_BYTES(s_written));
    memset(s_metatable, 0, TABLE_BYTES(s_metatable));
    memset(s_registered, 0, TABLE_BYTES(s_registered));
    if (!registry)
        return;
    uint32_t mask = lt_vm_u32(registry + u->at->tab_asize + 4);
    uint64_t node = lt_vm_ref(u->vm, registry + u->at->tab_node);
    for (uint32_t i = 0; i <= mask && program_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        note_registered(u, node);
}

static bool is_written(uint64_t key)
{
    uint64_t *slot = &s_written[lt_hash_slot(key, 15)];
    bool was = *slot == key;
    *slot = key;
    return was;
}

static uint64_t write_name(uint64_t key, const char *text, uint32_t size)
{
    HOST_PUT(name, .key = key, .text = host_text_of(text, size));
    return key;
}

static uint64_t name_plain(uint64_t key, const char *text)
{
    return is_written(key) ? key : write_name(key, text, text_length(text));
}

uint64_t snapshot_string(const struct snapshot *u, uint64_t string)
{
    char text[KEY_TEXT];
    if (is_written(string))
        return string;
    uint32_t size = string_length(u->vm, string);
    if (size > sizeof text)
        size = sizeof text;
    if (!program_read(string + u->vm->layout->string_header, text, size))
        size = 0;
    return write_name(string, text, size);
}

uint64_t snapshot_text(uint64_t at)
{
    char text[KEY_TEXT];
    uint32_t n = 0;
    if (is_written(at))
        return at;
    while (n < sizeof text && program_read(at + n, &text[n], 1) && text[n])
        n++;
    return write_name(at, text, n);
}

uint64_t snapshot_local(const struct snapshot *u, uint64_t proto, uint64_t pc, uint32_t slot)
{
    char text[SNAPSHOT_TEXT];
    const uint64_t key = lt_local_title(u->vm, proto, pc, slot, text, sizeof text);
    return !key || is_written(key) ? key : write_name(key, text, text_length(text));
}

/* -- keys that are not objects -- */

/* Is the value a number, stored as a double? Values of other types have a tag in the highest bits. */
static bool is_number(uint64_t v)
{
    enum { FIRST_TAG = 0xfff9 };
    return v >> 48 < FIRST_TAG;
}

/* Is it an integer among these? */
static bool is_integer(uint64_t v, int64_t *integer)
{
    union {
        uint64_t bits;
        double number;
    } as = {.bits = v};
    if (!is_number(v) || !(as.number > -9e15 && as.number < 9e15))
        return false;
    *integer = (int64_t)as.number;
    return (double)*integer == as.number;
}

static const char *boolean_name(const struct snapshot *u, uint64_t v)
{
    enum { FALSE_TAG = 1, TRUE_TAG = 2 };
    uint32_t tag = u->vm->layout->gc64 ? (uint32_t) ~((int64_t)v >> 47) : ~(uint32_t)(v >> 32);
    return tag == TRUE_TAG ? "[true]" : tag == FALSE_TAG ? "[false]" : NULL;
}

uint64_t snapshot_plain_key(const struct snapshot *u, uint64_t slot)
{
    static const char number[] = "[number]"; /* one with a fraction, or a very large one */
    int64_t integer;
    char text[40];
    uint64_t v = program_number(slot, 8);
    if (is_integer(v, &integer)) {
        text_print(text, sizeof text, "[%ld]", integer);
        return name_plain(slot, text);
    }
    if (is_number(v))
        return name_plain((uint64_t)number, number);
    const char *name = boolean_name(u, v);
    return name ? name_plain(slot, name) : 0;
}

/* -- metatables -- */

static bool is_key(const struct snapshot *u, uint64_t slot, const char *name, uint32_t length)
{
    uint32_t gct;
    char text[32];
    uint64_t string = object_value(u, slot, &gct);
    return string && gct == GCT_STR && string_length(u->vm, string) == length && length < sizeof text &&
           program_read(string + u->vm->layout->string_header, text, length) &&
           bytes_equal(text, name, length);
}

uint64_t table_field(const struct snapshot *u, uint64_t table, const char *name)
{
    uint32_t mask = lt_vm_u32(table + u->at->tab_asize + 4), length = text_length(name);
    uint64_t node = lt_vm_ref(u->vm, table + u->at->tab_node);
    for (uint32_t i = 0; i <= mask && program_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        if (is_key(u, node + 8, name, length))
            return node;
    return 0;
}

static uint64_t string_field(const struct snapshot *u, uint64_t table, const char *name)
{
    uint32_t gct;
    uint64_t slot = table_field(u, table, name), string = slot ? object_value(u, slot, &gct) : 0;
    return string && gct == GCT_STR ? string : 0;
}

static uint32_t mode_of(const struct snapshot *u, uint64_t table)
{
    char c;
    uint32_t mode = 0;
    uint64_t string = string_field(u, table, "__mode");
    uint32_t length = string ? string_length(u->vm, string) : 0;
    for (uint32_t i = 0; i < length && i < KEY_TEXT; i++)
        if (program_read(string + u->vm->layout->string_header + i, &c, 1))
            mode |= c == 'k' ? 1 : c == 'v' ? 2 : 0;
    return mode;
}

/* The name in its own field __name or, if there is none, its name in the registry. */
static uint64_t metatable_name(const struct snapshot *u, uint64_t table)
{
    uint64_t own = string_field(u, table, "__name");
    const struct registered *r = own ? NULL : registered(table);
    return r ? r->name : own;
}

static const struct metatable *metatable(const struct snapshot *u, uint64_t table)
{
    struct metatable *m = &s_metatable[table / 16 % METATABLES];
    if (m->table != table)
        *m = (struct metatable){table, metatable_name(u, table), mode_of(u, table)};
    return m;
}

uint32_t table_mode(const struct snapshot *u, uint64_t table)
{
    return table ? metatable(u, table)->mode : 0;
}

/* -- objects -- */

static uint64_t name_ctype(const struct snapshot *u, uint64_t cdata)
{
    char text[SNAPSHOT_TEXT];
    uint32_t id = (uint32_t)program_number(cdata + u->at->ffid, 2);
    uint64_t key = (uint64_t)id + 1;
    if (is_written(key))
        return key;
    ctype_name(u, id, text);
    return write_name(key, text, text_length(text));
}

/* LuaJIT's own userdata are named by their kind, others by their metatable. */
static uint64_t name_udata(const struct snapshot *u, uint64_t o)
{
    static const char *const own[] = {
        [UDATA_FILE] = "FILE*", [UDATA_LIBRARY] = "ffi.clib", [UDATA_BUFFER] = "string.buffer"};
    uint32_t kind = (uint32_t)program_number(o + u->at->ffid, 1);
    uint64_t table = lt_vm_ref(u->vm, o + u->at->tab_meta); /* at the same offset as a table's */
    uint64_t name = table ? metatable(u, table)->name : 0;
    if (name)
        return snapshot_string(u, name);
    return kind >= UDATA_FILE && kind <= UDATA_BUFFER ? name_plain(OWN_UDATA + kind, own[kind]) : 0;
}

/* The tables that every user knows by name. */
static uint64_t name_table(const struct snapshot *u, uint64_t o)
{
    if (o == u->registry)
        return name_plain(o, "registry");
    return o == lt_vm_ref(u->vm, snapshot_main(u) + u->at->thread_env) ? name_plain(o, "_G") : 0;
}

static uint64_t name_proto(const struct snapshot *u, uint64_t proto)
{
    if (is_written(proto))
        return proto;
    const char *title = lt_proto_title(u->vm, proto);
    return write_name(proto, title, text_length(title));
}

/* The name of a Lua function is its prototype's; that of a C function is the symbol of its code. */
static uint64_t name_function(const struct snapshot *u, uint64_t o)
{
    char text[KEY_TEXT];
    const char *name;
    uint64_t proto = lt_proto_of(u->vm, o);
    uint32_t ffid = (uint32_t)program_number(o + u->at->ffid, 1);
    if (proto)
        return name_proto(u, proto);
    uint64_t code = program_number(o + u->at->func_c, 8), key = ffid > FFID_C ? BUILTINS + ffid : code;
    if (ffid == FFID_LUA || is_written(key))
        return ffid == FFID_LUA ? 0 : key;
    if (ffid > FFID_C)
        text_print(text, sizeof text, "builtin#%u", ffid);
    else if ((name = host_function_name(code)) != NULL)
        text_print(text, sizeof text, "C function %s", name);
    else
        text_print(text, sizeof text, "C function %#lx", code);
    return write_name(key, text, text_length(text));
}

uint64_t snapshot_name(const struct snapshot *u, uint64_t o)
{
    switch (lt_vm_gct(u->vm, o)) {
    case GCT_CDATA:
        return name_ctype(u, o);
    case GCT_UDATA:
        return name_udata(u, o);
    case GCT_FUNC:
        return name_function(u, o);
    case GCT_PROTO:
        return name_proto(u, o);
    case GCT_TAB:
        return name_table(u, o);
    case GCT_THREAD:
        return o == snapshot_main(u) ? name_plain(o, "main") : 0;
    default:
        return 0;
    }
}
