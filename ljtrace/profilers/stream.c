/* stream.c - write the streams of memprof and sysprof.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/profilers/stream.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/profilers/functions.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum { TABLE_VERSION = 3 };

void stream_begin(struct stream *s, uint8_t *buffer, size_t room,
                  size_t (*write)(const void **data, size_t size, void *argument), void *argument)
{
    memset(s, 0, sizeof *s);
    s->buffer = buffer;
    s->room = room;
    s->write = write;
    s->argument = argument;
    s->process = kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* -- bytes -- */

void stream_flush(struct stream *s)
{
    const void *data = s->buffer;
    size_t left = s->used;
    s->used = 0;
    if (kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0) != s->process)
        return;
    errno = 0;
    while (left && !s->failed && !s->ended) {
        const size_t done = s->write(&data, left, s->argument);
        s->ended = !data;
        s->failed = !done || done > left;
        s->error = s->failed ? errno : 0;
        left -= s->failed ? 0 : done;
        if (!s->failed && left && data == s->buffer)
            memmove(s->buffer, s->buffer + done, left);
    }
    if (data)
        s->buffer = (uint8_t *)(uintptr_t)data;
}

void stream_byte(struct stream *s, uint8_t byte)
{
    if (s->used == s->room)
        stream_flush(s);
    s->buffer[s->used++] = byte;
}

void stream_number(struct stream *s, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        stream_byte(s, (uint8_t)(number | 0x80));
    stream_byte(s, (uint8_t)number);
}

void stream_text(struct stream *s, const char *text, size_t size)
{
    stream_number(s, size);
    for (size_t i = 0; i < size; i++)
        stream_byte(s, (uint8_t)text[i]);
}

void stream_head(struct stream *s, const char *letters, uint8_t version)
{
    for (; *letters; letters++)
        stream_byte(s, (uint8_t)*letters);
    stream_byte(s, version);
    for (int i = 0; i < 3; i++)
        stream_byte(s, 0);
}

/* -- symbols -- */

static uint32_t slot_of(uint64_t key)
{
    return (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> 52) % STREAM_SYMBOLS;
}

/* Is it known that the key stands for this? From now on it is. */
static bool is_known(struct stream *s, uint64_t key, uint64_t what, uint64_t what2)
{
    const uint32_t i = slot_of(key);
    if (s->known[i].key == key && s->known[i].what[0] == what && s->known[i].what[1] == what2)
        return true;
    s->known[i].key = key;
    s->known[i].what[0] = what;
    s->known[i].what[1] = what2;
    return false;
}

void stream_forget(struct stream *s, uint64_t address)
{
    const uint32_t i = slot_of(address);
    if (s->known[i].key == address)
        s->known[i].key = 0;
}

void stream_proto(struct stream *s, const struct lt_vm *vm, uint64_t proto)
{
    const char *text;
    const uint64_t name = lt_vm_ref(vm, proto + vm->at->proto_chunk), first = machine_first_line(vm, proto);
    if (is_known(s, proto, name, first))
        return;
    const uint32_t size = machine_chunk(vm, proto, &text);
    stream_byte(s, s->symbol[SYMBOL_LUA]);
    stream_number(s, proto);
    stream_text(s, text, size);
    stream_number(s, first);
}

void stream_function(struct stream *s, uint64_t code)
{
    Dl_info found;
    char name[PATH_MAX];
    if (is_known(s, code, 1, 0) || !dladdr((void *)(uintptr_t)code, &found) || !found.dli_fname)
        return;
    const char *slash = strrchr(found.dli_fname, '/');
    if (found.dli_sname && found.dli_saddr == (void *)(uintptr_t)code)
        snprintf(name, sizeof name, "%s", found.dli_sname);
    else
        snprintf(name, sizeof name, "%s+%#lx", slash ? slash + 1 : found.dli_fname,
                 (unsigned long)(code - (uint64_t)(uintptr_t)found.dli_fbase));
    stream_byte(s, s->symbol[SYMBOL_C]);
    stream_number(s, code);
    stream_text(s, name, strlen(name));
}

void stream_trace(struct stream *s, const struct lt_vm *vm, uint32_t trace)
{
    uint64_t proto;
    uint32_t line;
    if (!machine_trace(vm, trace, &proto, &line) || is_known(s, trace, proto, line))
        return;
    stream_proto(s, vm, proto);
    stream_byte(s, s->symbol[SYMBOL_TRACE]);
    stream_number(s, trace);
    stream_number(s, proto);
    stream_number(s, line);
}

static void put_first(const char *name, uint64_t code, void *stream)
{
    struct stream *s = stream;
    stream_byte(s, SYMBOL_C);
    stream_number(s, code);
    stream_text(s, name, strlen(name));
}

static void put_later(const char *name, uint64_t code, void *stream)
{
    struct stream *s = stream;
    stream_byte(s, s->symbol[SYMBOL_C]);
    stream_number(s, code);
    stream_text(s, name, strlen(name));
}

void stream_table(struct stream *s, bool with_functions)
{
    stream_head(s, "ljs", TABLE_VERSION);
    if (with_functions) {
        functions_forget();
        functions_report(put_first, s);
    }
    stream_byte(s, STREAM_FINAL);
}

void stream_new_functions(struct stream *s)
{
    functions_report(put_later, s);
}
