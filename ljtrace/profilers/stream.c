/* stream.c - write the streams of memprof and sysprof.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/profilers/stream.h"
#include "ljtrace/profilers/machine.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/table.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -- names of C functions -- */

/* The table of all symbols is used if the file has one, else that of the dynamic linker. The list of objects is the one
 * that debuggers read. Another thread may change it meanwhile, so memory that it points to is read only if it is mapped.
 *
 * The path of a library may lead to another file by now. A file is read only if it begins as the object in memory does;
 * otherwise all of the object has one name, that of the object. */

/* What functions_report does with the name and address of a function. */
typedef void functions_found(const char *name, uint64_t code, void *argument);

/* An object's file, mapped. */
struct file {
    const uint8_t *bytes;
    size_t size;
};

/* To whom functions are reported. */
struct list {
    functions_found *found;
    void *argument;
};

enum { MOST_OBJECTS = 1024, COMPARED_BYTES = 4096 };

/* The objects that were reported. */
struct known {
    uint64_t bias, dynamic;
};
LASTING_TABLE(struct known, s_known, MOST_OBJECTS);
static unsigned s_count;

static const void *part(const struct file *f, uint64_t at, uint64_t size)
{
    return at <= f->size && size <= f->size - at ? f->bytes + at : NULL;
}

/* The order of symbols: by address; of several at one, global ones come first. */
static bool is_before(const Elf64_Sym *a, const Elf64_Sym *b)
{
    if (a->st_value != b->st_value)
        return a->st_value < b->st_value;
    return ELF64_ST_BIND(a->st_info) == STB_GLOBAL && ELF64_ST_BIND(b->st_info) != STB_GLOBAL;
}

/* Move element i of a heap down to its place among the first n. */
static void sift(Elf64_Sym *heap, size_t i, size_t n)
{
    const Elf64_Sym moved = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&moved, &heap[child]))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

/* qsort may allocate. */
static void sort(Elf64_Sym *all, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(all, i, n);
    for (size_t last = n; last-- > 1;) {
        const Elf64_Sym largest = all[0];
        all[0] = all[last];
        all[last] = largest;
        sift(all, 0, last);
    }
}

static bool is_function(const Elf64_Sym *s)
{
    const unsigned type = ELF64_ST_TYPE(s->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && s->st_shndx != SHN_UNDEF && s->st_value;
}

/* Report the functions of a sorted table, and the gaps between them. */
static void functions_report_all(const Elf64_Sym *all, size_t n, const char *texts, uint64_t texts_size,
                                 uint64_t bias, const char *gap, const struct list *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t end = all[i].st_value + all[i].st_size;
        if (all[i].st_name >= texts_size || (i && all[i].st_value == all[i - 1].st_value))
            continue;
        to->found(texts + all[i].st_name, bias + all[i].st_value, to->argument);
        if (all[i].st_size && (i + 1 == n || end < all[i + 1].st_value))
            to->found(gap, bias + end, to->argument);
    }
}

static void read_table(const struct file *f, const Elf64_Shdr *table, const Elf64_Shdr *texts, uint64_t bias,
                       const char *gap, const struct list *to)
{
    const Elf64_Sym *all = part(f, table->sh_offset, table->sh_size);
    const char *text = part(f, texts->sh_offset, texts->sh_size);
    const size_t count = table->sh_size / sizeof *all;
    if (!all || !text || !texts->sh_size || text[texts->sh_size - 1])
        return;
    Elf64_Sym *sorted =
        mmap(NULL, table->sh_size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sorted == MAP_FAILED)
        return;
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (is_function(&all[i]))
            sorted[n++] = all[i];
    sort(sorted, n);
    functions_report_all(sorted, n, text, texts->sh_size, bias, gap, to);
    munmap(sorted, table->sh_size + 1);
}

/* The part of the file that is mapped first and never changed. NULL: there is none. */
static const Elf64_Phdr *first_segment(const struct file *f)
{
    const Elf64_Ehdr *e = part(f, 0, sizeof *e);
    const Elf64_Phdr *all = e ? part(f, e->e_phoff, (uint64_t)e->e_phnum * sizeof *all) : NULL;
    for (unsigned i = 0; all && e->e_phentsize == sizeof *all && i < e->e_phnum; i++)
        if (all[i].p_type == PT_LOAD && all[i].p_offset == 0 && !(all[i].p_flags & PF_W))
            return &all[i];
    return NULL;
}

/* Is it the file that is mapped with this bias? */
static bool is_mapped(const struct file *f, uint64_t bias)
{
    const Elf64_Phdr *first = first_segment(f);
    const uint64_t n = first && first->p_filesz < COMPARED_BYTES ? first->p_filesz : COMPARED_BYTES;
    uint64_t word;
    for (uint64_t at = 0; first && at + sizeof word <= n && at + sizeof word <= f->size; at += sizeof word) {
        memcpy(&word, f->bytes + at, sizeof word);
        if (program_number(bias + first->p_vaddr + at, sizeof word) != word)
            return false;
    }
    return first != NULL;
}

static void read_file(const struct file *f, uint64_t bias, const char *gap, const struct list *to)
{
    const Elf64_Ehdr *e = part(f, 0, sizeof *e);
    const Elf64_Shdr *sections = e ? part(f, e->e_shoff, (uint64_t)e->e_shnum * sizeof *sections) : NULL;
    const Elf64_Shdr *best = NULL;
    if (!sections || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_shentsize != sizeof *sections)
        return;
    for (unsigned i = 0; i < e->e_shnum; i++)
        if ((sections[i].sh_type == SHT_SYMTAB || (sections[i].sh_type == SHT_DYNSYM && !best)) &&
            sections[i].sh_link < e->e_shnum)
            best = &sections[i];
    if (best)
        read_table(f, best, &sections[best->sh_link], bias, gap, to);
}

/* Copy a text that may not be mapped, cut to the room. */
static void copy_text(char *to, size_t room, uint64_t from)
{
    size_t n = 0;
    while (n + 1 < room && (to[n] = (char)program_number(from + n, 1)))
        n++;
    to[n] = 0;
}

static void read_object(const char *path, uint64_t bias, const struct list *to)
{
    char name[PATH_MAX] = "", gap[NAME_MAX + 3] = "[";
    struct stat about;
    const int fd = open(*path ? path : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (!*path && readlink("/proc/self/exe", name, sizeof name - 1) < 0)
        name[0] = 0;
    const char *shown = *path ? path : name, *slash = strrchr(shown, '/');
    copy_text(gap + 1, sizeof gap - 2, (uint64_t)(uintptr_t)(slash ? slash + 1 : shown));
    strcat(gap, "]");
    struct file f = {MAP_FAILED, 0};
    if (fd >= 0 && fstat(fd, &about) == 0 && about.st_size > 0) {
        f.size = (size_t)about.st_size;
        f.bytes = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0)
        close(fd);
    if (f.bytes != MAP_FAILED && is_mapped(&f, bias))
        read_file(&f, bias, gap, to);
    else if (bias)
        to->found(gap, bias, to->argument);
    if (f.bytes != MAP_FAILED)
        munmap((void *)(uintptr_t)f.bytes, f.size);
}

/* Was the object reported? `guess`: its likely index. From now on it was. */
static bool is_reported(uint64_t bias, uint64_t dynamic, unsigned guess)
{
    for (unsigned i = 0; i < s_count; i++) {
        const unsigned at = (guess + i) % s_count;
        if (s_known[at].bias == bias && s_known[at].dynamic == dynamic)
            return true;
    }
    if (s_count == MOST_OBJECTS)
        return true;
    s_known[s_count].bias = bias;
    s_known[s_count++].dynamic = dynamic;
    return false;
}

/* Forget which objects were reported. */
static void functions_forget(void)
{
    s_count = 0;
}

/* Report the functions of all objects that were not reported yet, as their symbol tables have them. What lies between two
 * functions and belongs to neither gets the name of the object, such as [luajit], because readers take the nearest symbol
 * before an address. It works in signal handlers: while objects are being loaded or unloaded it does nothing. */
static void functions_report(functions_found *found, void *argument)
{
    const struct list to = {found, argument};
    char path[PATH_MAX];
    uint64_t at = (uint64_t)(uintptr_t)_r_debug.r_map;
    for (unsigned i = 0; at && i < MOST_OBJECTS && _r_debug.r_state == RT_CONSISTENT; i++) {
        const uint64_t bias = program_number(at + offsetof(struct link_map, l_addr), 8);
        const uint64_t dynamic = program_number(at + offsetof(struct link_map, l_ld), 8);
        if (!is_reported(bias, dynamic, i)) {
            copy_text(path, sizeof path, program_number(at + offsetof(struct link_map, l_name), 8));
            read_object(path, bias, &to);
        }
        at = program_number(at + offsetof(struct link_map, l_next), 8);
    }
}

/* -- streams -- */

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
