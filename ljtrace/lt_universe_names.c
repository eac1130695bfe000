/* lt_universe_names.c - names of objects and links. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A name travels once, with a key (RAW_NAME): the address of what bears it, or, of C types, a small number.
 * Which keys were told is kept in a table of fixed size: telling one twice is harmless.
 */
#include "lt_ring.h"
#include "lt_universe_parts.h"
#include "lt_vm_names.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"

enum { TOLD_SLOTS = 1 << 15, KEY_TEXT = 120, METATABLES = 256 };

static Addr s_told[TOLD_SLOTS];

/* What was looked up in a metatable. */
static struct metatable {
    Addr table, name;
    UInt mode;
} s_metatable[METATABLES];

void universe_forget_names(void)
{
    VG_(memset)(s_told, 0, sizeof s_told);
    VG_(memset)(s_metatable, 0, sizeof s_metatable);
}

static Bool is_told(Addr key)
{
    Addr *slot = &s_told[(key * 0x9e3779b97f4a7c15ULL) >> 49];
    Bool was = *slot == key;
    *slot = key;
    return was;
}

static Addr tell(Addr key, const HChar *text, UInt size)
{
    uint64_t words[2] = {key, size};
    lt_ring_put_text(RAW_NAME, words, 2, &text, &size, 1);
    return key;
}

Addr universe_string(const struct universe *u, Addr string)
{
    HChar text[KEY_TEXT];
    if (is_told(string))
        return string;
    UInt size = string_length(u->vm, string);
    if (size > sizeof text)
        size = sizeof text;
    if (!lt_peek(string + u->vm->layout->string_header, text, size))
        size = 0;
    return tell(string, text, size);
}

Addr universe_text(Addr at)
{
    HChar text[KEY_TEXT];
    UInt n = 0;
    if (is_told(at))
        return at;
    while (n < sizeof text && lt_peek(at + n, &text[n], 1) && text[n])
        n++;
    return tell(at, text, n);
}

/* -- metatables -- */

static Bool is_key(const struct universe *u, Addr slot, const HChar *name, UInt length)
{
    UInt gct;
    HChar text[32];
    Addr string = object_value(u, slot, &gct);
    return string && gct == GCT_STR && string_length(u->vm, string) == length && length < sizeof text &&
           lt_peek(string + u->vm->layout->string_header, text, length) &&
           VG_(memcmp)(text, name, length) == 0;
}

Addr table_field(const struct universe *u, Addr table, const HChar *name)
{
    UInt mask = lt_vm_u32(table + u->at->tab_asize + 4), length = VG_(strlen)(name);
    Addr node = lt_vm_ref(u->vm, table + u->at->tab_node);
    for (UInt i = 0; i <= mask && lt_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        if (is_key(u, node + 8, name, length))
            return node;
    return 0;
}

static Addr string_field(const struct universe *u, Addr table, const HChar *name)
{
    UInt gct;
    Addr slot = table_field(u, table, name), string = slot ? object_value(u, slot, &gct) : 0;
    return string && gct == GCT_STR ? string : 0;
}

static UInt mode_of(const struct universe *u, Addr table)
{
    HChar c;
    UInt mode = 0;
    Addr string = string_field(u, table, "__mode");
    UInt length = string ? string_length(u->vm, string) : 0;
    for (UInt i = 0; i < length && i < KEY_TEXT; i++)
        if (lt_peek(string + u->vm->layout->string_header + i, &c, 1))
            mode |= c == 'k' ? 1 : c == 'v' ? 2 : 0;
    return mode;
}

static const struct metatable *metatable(const struct universe *u, Addr table)
{
    struct metatable *m = &s_metatable[table / 16 % METATABLES];
    if (m->table != table)
        *m = (struct metatable){table, string_field(u, table, "__name"), mode_of(u, table)};
    return m;
}

UInt table_mode(const struct universe *u, Addr table)
{
    return table ? metatable(u, table)->mode : 0;
}

/* -- objects -- */

static Addr name_ctype(const struct universe *u, Addr cdata)
{
    HChar text[UNIVERSE_TEXT];
    UInt id = (UInt)lt_peek_number(cdata + u->at->ffid, 2);
    Addr key = (Addr)id + 1;
    if (is_told(key))
        return key;
    ctype_name(u, id, text);
    return tell(key, text, VG_(strlen)(text));
}

static Addr name_udata(const struct universe *u, Addr o)
{
    Addr table = lt_vm_ref(u->vm, o + u->at->tab_meta); /* at the same place as a table's */
    Addr name = table ? metatable(u, table)->name : 0;
    return name ? universe_string(u, name) : 0;
}

static Addr name_proto(const struct universe *u, Addr proto)
{
    if (is_told(proto))
        return proto;
    const HChar *title = lt_proto_title(u->vm, proto);
    return tell(proto, title, VG_(strlen)(title));
}

/* A function written in C has the name that its code has. */
static Addr name_function(const struct universe *u, Addr o)
{
    HChar text[KEY_TEXT];
    const HChar *name;
    Addr proto = lt_proto_of(u->vm, o);
    UInt ffid = (UInt)lt_peek_number(o + u->at->ffid, 1);
    if (proto)
        return name_proto(u, proto);
    Addr code = lt_peek_number(o + u->at->func_c, 8), key = ffid > FFID_C ? 0x100000 + ffid : code;
    if (ffid == FFID_LUA || is_told(key))
        return ffid == FFID_LUA ? 0 : key;
    if (ffid > FFID_C)
        VG_(snprintf)(text, sizeof text, "builtin#%u", ffid);
    else if (VG_(get_fnname)(VG_(current_DiEpoch)(), code, &name))
        VG_(snprintf)(text, sizeof text, "C function %s", name);
    else
        VG_(snprintf)(text, sizeof text, "C function %#lx", code);
    return tell(key, text, VG_(strlen)(text));
}

Addr universe_name(const struct universe *u, Addr o)
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
    default:
        return 0;
    }
}
