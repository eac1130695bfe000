/* symbols.c - the functions of an object, by the tables in memory and by those in its file only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/inside/host/symbols.h"
#include "ljtrace/protocol/kernel.h"
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* The tables of an object. */
struct tables {
    const ElfW(Sym) * symbol;
    const char *text;
    const uint32_t *gnu_hash, *hash; /* NULL = there is none */
};

/* The dynamic linker has relocated the addresses in most objects. */
static const void *address(const struct link_map *object, ElfW(Addr) a)
{
    return (const void *)(a < object->l_addr ? a + object->l_addr : a);
}

static struct tables tables_of(const struct link_map *object)
{
    struct tables t = {0};
    for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
        const void *at = address(object, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            t.symbol = at;
        else if (d->d_tag == DT_STRTAB)
            t.text = at;
        else if (d->d_tag == DT_GNU_HASH)
            t.gnu_hash = at;
        else if (d->d_tag == DT_HASH)
            t.hash = at;
    }
    return t;
}

static int is_exported(const struct tables *t, uint32_t i, uint32_t type, const char *name)
{
    const ElfW(Sym) *s = &t->symbol[i];
    return s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == type &&
           strcmp(t->text + s->st_name, name) == 0;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (uint8_t)*name;
    return h;
}

/* Index of the symbol; 0 = there is none. */
static uint32_t by_gnu_hash(const struct tables *t, uint32_t type, const char *name)
{
    const uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2],
                   h = gnu_hash_of(name);
    const uint32_t *bucket = t->gnu_hash + 4 + 2 * words, *chain = bucket + buckets;
    uint32_t i = bucket[h % buckets];
    if (i < first)
        return 0;
    for (;; i++) {
        if ((chain[i - first] | 1) == (h | 1) && is_exported(t, i, type, name))
            return i;
        if (chain[i - first] & 1)
            return 0;
    }
}

/* The table's second word is the number of symbols. */
static uint32_t by_hash(const struct tables *t, uint32_t type, const char *name)
{
    for (uint32_t i = 1; i < t->hash[1]; i++)
        if (is_exported(t, i, type, name))
            return i;
    return 0;
}

static const ElfW(Sym) * exported(const struct link_map *object, uint32_t type, const char *name)
{
    const struct tables t = tables_of(object);
    if (!t.symbol || !t.text || (!t.gnu_hash && !t.hash))
        return NULL;
    const uint32_t i = t.gnu_hash ? by_gnu_hash(&t, type, name) : by_hash(&t, type, name);
    return i ? &t.symbol[i] : NULL;
}

const ElfW(Sym) * host_symbol_entry(const struct link_map *object, const char *name)
{
    return exported(object, STT_FUNC, name);
}

uint64_t host_symbol_variable(const struct link_map *object, const char *name)
{
    const ElfW(Sym) *s = exported(object, STT_OBJECT, name);
    return s ? object->l_addr + s->st_value : 0;
}

void *host_symbol(const struct link_map *object, const char *name)
{
    const ElfW(Sym) *s = host_symbol_entry(object, name);
    return s ? (void *)(object->l_addr + s->st_value) : NULL;
}

/* Symbols that are not defined are before those of the GNU hash table. */
bool host_symbol_is_needed(const struct link_map *object, const char *name)
{
    const struct tables t = tables_of(object);
    const uint32_t end = t.gnu_hash ? t.gnu_hash[1] : t.hash ? t.hash[1] : 0;
    for (uint32_t i = 1; t.symbol && t.text && i < end; i++)
        if (t.symbol[i].st_shndx == SHN_UNDEF && strcmp(t.text + t.symbol[i].st_name, name) == 0)
            return true;
    return false;
}

/* -- functions that an object does not export -- */

/* The tables are read with system calls into memory of their own: libc's functions may allocate, and a mapping of a file
 * that is truncated meanwhile would fault. */

enum { MOST_SECTIONS = 256, MOST_SEGMENTS = 64, COMPARED = 16 };
#define LARGEST_TABLE (1ULL << 31)

/* The file of an object. */
struct file {
    long fd;
    const struct link_map *object;
    Elf64_Ehdr header;
    Elf64_Phdr segment[MOST_SEGMENTS];
};

static bool read_at(long fd, void *to, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        const long n = kernel_call(SYS_pread64, fd, (long)to + (long)done, (long)(bytes - done),
                                   (long)(offset + done), 0, 0);
        if (n <= 0 && n != -EINTR)
            return false;
        done += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

static bool read_headers(struct file *f)
{
    Elf64_Ehdr *h = &f->header;
    return read_at(f->fd, h, sizeof *h, 0) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
           h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_machine == EM_X86_64 &&
           h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum <= MOST_SEGMENTS &&
           h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum <= MOST_SECTIONS &&
           read_at(f->fd, f->segment, h->e_phnum * sizeof(Elf64_Phdr), h->e_phoff);
}

/* Find the symbol table and its names. Returns false if there are none. */
static bool find_tables(const struct file *f, Elf64_Shdr *symbols, Elf64_Shdr *names)
{
    const uint64_t at = f->header.e_shoff, size = sizeof(Elf64_Shdr);
    for (uint32_t i = 0; i < f->header.e_shnum; i++)
        if (!read_at(f->fd, symbols, size, at + i * size))
            return false;
        else if (symbols->sh_type == SHT_SYMTAB)
            return symbols->sh_link < f->header.e_shnum && symbols->sh_size < LARGEST_TABLE &&
                   read_at(f->fd, names, size, at + symbols->sh_link * size) && names->sh_size &&
                   names->sh_size < LARGEST_TABLE;
    return false;
}

/* Is the code at this address of the object in memory that of the file? The dynamic linker calls for debuggers before
 * _dl_find_object knows a new object, so the kernel is asked whether there is memory. */
static bool is_same_code(const struct file *f, uint64_t value)
{
    char code[COMPARED];
    for (uint32_t i = 0; i < f->header.e_phnum; i++) {
        const Elf64_Phdr *s = &f->segment[i];
        if (s->p_type != PT_LOAD || !(s->p_flags & PF_X) || value - s->p_vaddr >= s->p_filesz)
            continue;
        const uint64_t in = value - s->p_vaddr, left = s->p_filesz - in,
                       n = left < COMPARED ? left : COMPARED;
        const uint64_t at = f->object->l_addr + value;
        return kernel_can_read(at) && kernel_can_read(at + n - 1) &&
               read_at(f->fd, code, n, s->p_offset + in) && memcmp((const void *)at, code, n) == 0;
    }
    return false;
}

static bool is_of_kind(const Elf64_Sym *s, enum file_symbol_kind kind, uint64_t names)
{
    return ELF64_ST_TYPE(s->st_info) == (kind == FILE_FUNCTIONS ? STT_FUNC : STT_OBJECT) &&
           s->st_shndx != SHN_UNDEF && s->st_value && s->st_name < names;
}

static void see_all(const struct file *f, const Elf64_Sym *symbol, uint64_t count, const char *names,
                    uint64_t name_bytes, enum file_symbol_kind kind, file_symbol_seen *see, void *any)
{
    for (uint64_t i = 0; i < count; i++) {
        const Elf64_Sym *s = &symbol[i];
        if (!is_of_kind(s, kind, name_bytes))
            continue;
        const struct file_symbol seen = {names + s->st_name, f->object->l_addr + s->st_value, s->st_size,
                                         ELF64_ST_BIND(s->st_info) == STB_LOCAL};
        see(&seen, any);
    }
}

static void read_tables(const struct file *f, enum file_symbol_kind kind, file_symbol_seen *see, void *any)
{
    Elf64_Shdr symbols, names;
    if (!find_tables(f, &symbols, &names))
        return;
    const uint64_t bytes = symbols.sh_size + names.sh_size + 1; /* and a zero after the last name */
    const long at =
        kernel_call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0)
        return;
    const Elf64_Sym *symbol = (const Elf64_Sym *)at;
    char *text = (char *)at + symbols.sh_size;
    if (read_at(f->fd, (void *)at, symbols.sh_size, symbols.sh_offset) &&
        read_at(f->fd, text, names.sh_size, names.sh_offset))
        see_all(f, symbol, symbols.sh_size / sizeof *symbol, text, names.sh_size, kind, see, any);
    kernel_call(SYS_munmap, at, (long)bytes, 0, 0, 0, 0);
}

static bool open_file(struct file *f, const struct link_map *object, const char *path)
{
    f->object = object;
    f->fd = kernel_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    return f->fd >= 0;
}

void file_symbols_each(const struct link_map *object, const char *path, enum file_symbol_kind kind,
                       file_symbol_seen *see, void *any)
{
    struct file f;
    if (!open_file(&f, object, path))
        return;
    if (read_headers(&f))
        read_tables(&f, kind, see, any);
    kernel_call(SYS_close, f.fd, 0, 0, 0, 0, 0);
}

bool file_has_code(const struct link_map *object, const char *path, uint64_t address)
{
    struct file f;
    if (!open_file(&f, object, path))
        return false;
    const bool same = read_headers(&f) && is_same_code(&f, address - object->l_addr);
    kernel_call(SYS_close, f.fd, 0, 0, 0, 0, 0);
    return same;
}
