/* names.c - names of objects and references. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A name is written once, with a key (RAW_NAME): the address of the object that has the name or, for C types,
 * a small number. Which keys were written is kept in a table of fixed size; a key that was evicted is written
 * again, which is harmless.
 */
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/ring/records.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"

enum { WRITTEN_SLOTS = 1 << 15, KEY_TEXT = 120, METATABLES = 256, REGISTERED = 1 << 12 };

/* Keys that are not addresses. C types have smaller ones; no state has so many types. */
enum { BUILTINS = 0x100000, OWN_UDATA = 0x200000 };

TABLE(Addr, s_written, WRITTEN_SLOTS);

/* A cache of what was found in a metatable. */
struct metatable {
    Addr table, name;
    UInt mode;
};
TABLE(struct metatable, s_metatable, METATABLES);

/* The names of tables in the registry, where luaL_newmetatable stores metatables. */
struct registered {
    Addr table, name;
};
TABLE(struct registered, s_registered, REGISTERED);

static struct registered *registered(Addr table)
{
    UInt i = lt_hash_slot(table, 12);
    for (UInt tries = 0; tries < 16; tries++, i = (i + 1) % REGISTERED)
        if (!s_registered[i].table || s_registered[i].table == table)
            return &s_registered[i];
    return NULL;
}

static void note_registered(const struct snapshot *u, Addr node)
{
    UInt key_type, type;
    Addr key = object_value(u, node + 8, &key_type), table = object_value(u, node, &type);
    struct registered *r;
    if (key && key_type == GCT_STR && table && type == GCT_TAB && (r = registered(table)) && !r->table)
        *r = (struct registered){table, key};
}

void snapshot_begin_names(const struct snapshot *u, Addr registry)
{
    VG_(memset)(s_written, 0, TABLE_BYTES(s_written));
    VG_(memset)(s_metatable, 0, TABLE_BYTES(s_metatable));
    VG_(memset)(s_registered, 0, TABLE_BYTES(s_registered));
    if (!registry)
        return;
    UInt mask = lt_vm_u32(registry + u->at->tab_asize + 4);
    Addr node = lt_vm_ref(u->vm, registry + u->at->tab_node);
    for (UInt i = 0; i <= mask && lt_guest_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        note_registered(u, node);
}

static Bool is_written(Addr key)
{
    Addr *slot = &s_written[lt_hash_slot(key, 15)];
    Bool was = *slot == key;
    *slot = key;
    return was;
}

static Addr write_name(Addr key, const HChar *text, UInt size)
{
    RING_PUT(name, .key = key, .text = lt_text_of(text, size));
    return key;
}

static Addr name_plain(Addr key, const HChar *text)
{
    return is_written(key) ? key : write_name(key, text, VG_(strlen)(text));
}

Addr snapshot_string(const struct snapshot *u, Addr string)
{
    HChar text[KEY_TEXT];
    if (is_written(string))
        return string;
    UInt size = string_length(u->vm, string);
    if (size > sizeof text)
        size = sizeof text;
    if (!lt_guest_read(string + u->vm->layout->string_header, text, size))
        size = 0;
    return write_name(string, text, size);
}

Addr snapshot_text(Addr at)
{
    HChar text[KEY_TEXT];
    UInt n = 0;
    if (is_written(at))
        return at;
    while (n < sizeof text && lt_guest_read(at + n, &text[n], 1) && text[n])
        n++;
    return write_name(at, text, n);
}

/* -- keys that are not objects -- */

/* Is the value an integer, stored as a double? Values of other types have a tag in the highest bits. */
static Bool is_integer(ULong v, Long *integer)
{
    enum { FIRST_TAG = 0xfff9 };
    union {
        ULong bits;
        Double number;
    } as = {.bits = v};
    if (v >> 48 >= FIRST_TAG || !(as.number > -9e15 && as.number < 9e15))
        return False;
    *integer = (Long)as.number;
    return (Double)*integer == as.number;
}

static const HChar *boolean_name(const struct snapshot *u, ULong v)
{
    enum { FALSE_TAG = 1, TRUE_TAG = 2 };
    UInt tag = u->vm->layout->gc64 ? (UInt) ~((Long)v >> 47) : ~(UInt)(v >> 32);
    return tag == TRUE_TAG ? "[true]" : tag == FALSE_TAG ? "[false]" : NULL;
}

Addr snapshot_plain_key(const struct snapshot *u, Addr slot)
{
    Long integer;
    HChar text[40];
    ULong v = lt_guest_number(slot, 8);
    if (is_integer(v, &integer)) {
        VG_(snprintf)(text, sizeof text, "[%lld]", integer);
        return name_plain(slot, text);
    }
    const HChar *name = boolean_name(u, v);
    return name ? name_plain(slot, name) : 0;
}

/* -- metatables -- */

static Bool is_key(const struct snapshot *u, Addr slot, const HChar *name, UInt length)
{
    UInt gct;
    HChar text[32];
    Addr string = object_value(u, slot, &gct);
    return string && gct == GCT_STR && string_length(u->vm, string) == length && length < sizeof text &&
           lt_guest_read(string + u->vm->layout->string_header, text, length) &&
           VG_(memcmp)(text, name, length) == 0;
}

Addr table_field(const struct snapshot *u, Addr table, const HChar *name)
{
    UInt mask = lt_vm_u32(table + u->at->tab_asize + 4), length = VG_(strlen)(name);
    Addr node = lt_vm_ref(u->vm, table + u->at->tab_node);
    for (UInt i = 0; i <= mask && lt_guest_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        if (is_key(u, node + 8, name, length))
            return node;
    return 0;
}

static Addr string_field(const struct snapshot *u, Addr table, const HChar *name)
{
    UInt gct;
    Addr slot = table_field(u, table, name), string = slot ? object_value(u, slot, &gct) : 0;
    return string && gct == GCT_STR ? string : 0;
}

static UInt mode_of(const struct snapshot *u, Addr table)
{
    HChar c;
    UInt mode = 0;
    Addr string = string_field(u, table, "__mode");
    UInt length = string ? string_length(u->vm, string) : 0;
    for (UInt i = 0; i < length && i < KEY_TEXT; i++)
        if (lt_guest_read(string + u->vm->layout->string_header + i, &c, 1))
            mode |= c == 'k' ? 1 : c == 'v' ? 2 : 0;
    return mode;
}

/* The name in its own field __name or, if there is none, its name in the registry. */
static Addr metatable_name(const struct snapshot *u, Addr table)
{
    Addr own = string_field(u, table, "__name");
    const struct registered *r = own ? NULL : registered(table);
    return r ? r->name : own;
}

static const struct metatable *metatable(const struct snapshot *u, Addr table)
{
    struct metatable *m = &s_metatable[table / 16 % METATABLES];
    if (m->table != table)
        *m = (struct metatable){table, metatable_name(u, table), mode_of(u, table)};
    return m;
}

UInt table_mode(const struct snapshot *u, Addr table)
{
    return table ? metatable(u, table)->mode : 0;
}

/* -- objects -- */

static Addr name_ctype(const struct snapshot *u, Addr cdata)
{
    HChar text[SNAPSHOT_TEXT];
    UInt id = (UInt)lt_guest_number(cdata + u->at->ffid, 2);
    Addr key = (Addr)id + 1;
    if (is_written(key))
        return key;
    ctype_name(u, id, text);
    return write_name(key, text, VG_(strlen)(text));
}

/* LuaJIT's own userdata are named by their kind, others by their metatable. */
static Addr name_udata(const struct snapshot *u, Addr o)
{
    static const HChar *const own[] = {
        [UDATA_FILE] = "FILE*", [UDATA_LIBRARY] = "ffi.clib", [UDATA_BUFFER] = "string.buffer"};
    UInt kind = (UInt)lt_guest_number(o + u->at->ffid, 1);
    Addr table = lt_vm_ref(u->vm, o + u->at->tab_meta); /* at the same offset as a table's */
    Addr name = table ? metatable(u, table)->name : 0;
    if (name)
        return snapshot_string(u, name);
    return kind >= UDATA_FILE && kind <= UDATA_BUFFER ? name_plain(OWN_UDATA + kind, own[kind]) : 0;
}

/* The tables that every user knows by name. */
static Addr name_table(const struct snapshot *u, Addr o)
{
    if (o == u->registry)
        return name_plain(o, "registry");
    return o == lt_vm_ref(u->vm, snapshot_main(u) + u->at->thread_env) ? name_plain(o, "_G") : 0;
}

static Addr name_proto(const struct snapshot *u, Addr proto)
{
    if (is_written(proto))
        return proto;
    const HChar *title = lt_proto_title(u->vm, proto);
    return write_name(proto, title, VG_(strlen)(title));
}

/* The name of a Lua function is its prototype's; that of a C function is the symbol of its code. */
static Addr name_function(const struct snapshot *u, Addr o)
{
    HChar text[KEY_TEXT];
    const HChar *name;
    Addr proto = lt_proto_of(u->vm, o);
    UInt ffid = (UInt)lt_guest_number(o + u->at->ffid, 1);
    if (proto)
        return name_proto(u, proto);
    Addr code = lt_guest_number(o + u->at->func_c, 8), key = ffid > FFID_C ? BUILTINS + ffid : code;
    if (ffid == FFID_LUA || is_written(key))
        return ffid == FFID_LUA ? 0 : key;
    if (ffid > FFID_C)
        VG_(snprintf)(text, sizeof text, "builtin#%u", ffid);
    else if (VG_(get_fnname)(VG_(current_DiEpoch)(), code, &name))
        VG_(snprintf)(text, sizeof text, "C function %s", name);
    else
        VG_(snprintf)(text, sizeof text, "C function %#lx", code);
    return write_name(key, text, VG_(strlen)(text));
}

Addr snapshot_name(const struct snapshot *u, Addr o)
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
