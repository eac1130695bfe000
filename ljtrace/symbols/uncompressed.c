/* uncompressed.c - see uncompressed.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The copy is the file as it is, followed by the contents of the sections. Their headers are changed to refer to these.
 */
#define _GNU_SOURCE /* memfd_create */
#include "ljtrace/symbols/uncompressed.h"
#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* -- a section that is decompressed as far as it is read -- */

/* The bytes are written into a shared mapping of the file, so that whoever has mapped the file sees them. */

/* zlib is called for at least so many bytes. */
enum { STEP = 1 << 16 };

/* Where compressed bytes are in a file, and where the decompressed ones come in another. */
struct inflating_place {
    int from_fd, to_fd;        /* need not stay open */
    uint64_t from, compressed; /* offset and size of the compressed bytes */
    uint64_t to, size;         /* offset, a multiple of the page size, and size of the others */
};

struct inflating {
    z_stream stream;
    uint8_t *to;
    uint64_t size, done;
    void *source; /* the mapping with the compressed bytes */
    size_t source_bytes;
};

static void unmap(struct inflating *i)
{
    if (i->source != MAP_FAILED)
        munmap(i->source, i->source_bytes);
    if (i->to != MAP_FAILED)
        munmap(i->to, i->size);
    free(i);
}

/* Returns NULL if the files cannot be mapped or there is no memory. */
static struct inflating *inflating_new(const struct inflating_place *place)
{
    struct inflating *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    const uint64_t before = place->from % (uint64_t)sysconf(_SC_PAGESIZE);
    i->size = place->size;
    i->source_bytes = before + place->compressed;
    i->source =
        mmap(NULL, i->source_bytes, PROT_READ, MAP_PRIVATE, place->from_fd, (off_t)(place->from - before));
    i->to = mmap(NULL, i->size, PROT_READ | PROT_WRITE, MAP_SHARED, place->to_fd, (off_t)place->to);
    if (i->source == MAP_FAILED || i->to == MAP_FAILED || place->compressed > UINT_MAX ||
        inflateInit(&i->stream) != Z_OK) {
        unmap(i);
        return NULL;
    }
    i->stream.next_in = (Bytef *)i->source + before;
    i->stream.avail_in = (uInt)place->compressed;
    return i;
}

void inflating_free(struct inflating *i)
{
    if (!i)
        return;
    inflateEnd(&i->stream);
    unmap(i);
}

bool inflating_to(struct inflating *i, uint64_t end)
{
    if (end > i->size)
        return false;
    if (end <= i->done)
        return true;
    uint64_t room = end - i->done < STEP ? STEP : end - i->done;
    room = room < i->size - i->done ? room : i->size - i->done;
    if (room > UINT_MAX)
        return false;
    i->stream.next_out = i->to + i->done;
    i->stream.avail_out = (uInt)room;
    const int result = inflate(&i->stream, Z_SYNC_FLUSH);
    i->done += room - i->stream.avail_out;
    return (result == Z_OK || result == Z_STREAM_END) && i->done >= end;
}

bool inflating_read(struct inflating *i, uint64_t offset, void *to, uint64_t bytes)
{
    if (!inflating_to(i, offset + bytes))
        return false;
    memcpy(to, i->to + offset, bytes);
    return true;
}

bool inflating_is(const struct inflating *i, const void *bytes, uint64_t size)
{
    return size == i->size && memcmp(bytes, i->to, i->done) == 0;
}

/* -- copies of files -- */

enum { BY_ZLIB = 1, BY_ZSTD = 2 }; /* ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD */
/* A smaller .debug_info is left to libelf. Decompressing this takes 2 ms. */
enum { LARGE = 512 << 10 };
/* A section that claims to be larger is damaged. */
#define MOST_BYTES (UINT64_C(1) << 33)

/* An object file that is mapped into memory. */
struct file {
    const uint8_t *bytes;
    uint64_t size;
    Elf64_Ehdr header;
    Elf64_Shdr *sections; /* a copy */
    int fd;
    bool by_parts;                  /* sections are decompressed as far as they are read */
    const Elf64_Shdr *parts[PARTS]; /* these, NULL = there is no such section */
    struct inflating_place places[PARTS];
};

static bool contains(const struct file *f, uint64_t offset, uint64_t size)
{
    return offset <= f->size && size <= f->size - offset;
}

/* Returns false if the file is no object file for this processor. */
static bool read_sections(struct file *f)
{
    if (f->size < sizeof f->header)
        return false;
    memcpy(&f->header, f->bytes, sizeof f->header);
    const uint64_t size = (uint64_t)f->header.e_shnum * sizeof *f->sections;
    if (memcmp(f->header.e_ident, ELFMAG, SELFMAG) != 0 || f->header.e_ident[EI_CLASS] != ELFCLASS64 ||
        f->header.e_shentsize != sizeof *f->sections || !size || !contains(f, f->header.e_shoff, size) ||
        !(f->sections = malloc(size)))
        return false;
    memcpy(f->sections, f->bytes + f->header.e_shoff, size);
    return true;
}

/* Is the section compressed? Then read the header of its contents. */
static bool is_compressed(const struct file *f, const Elf64_Shdr *section, Elf64_Chdr *header)
{
    if (!(section->sh_flags & SHF_COMPRESSED) || section->sh_type == SHT_NOBITS ||
        section->sh_size < sizeof *header || !contains(f, section->sh_offset, section->sh_size))
        return false;
    memcpy(header, f->bytes + section->sh_offset, sizeof *header);
    return (header->ch_type == BY_ZSTD || header->ch_type == BY_ZLIB) && header->ch_size <= MOST_BYTES;
}

static bool has_name(const struct file *f, const Elf64_Shdr *section, const char *name)
{
    if (f->header.e_shstrndx >= f->header.e_shnum)
        return false;
    const Elf64_Shdr *names = &f->sections[f->header.e_shstrndx];
    const size_t size = strlen(name) + 1;
    return contains(f, names->sh_offset, names->sh_size) && section->sh_name <= names->sh_size &&
           size <= names->sh_size - section->sh_name &&
           memcmp(f->bytes + names->sh_offset + section->sh_name, name, size) == 0;
}

static bool write_at(int fd, const void *bytes, uint64_t size, uint64_t offset)
{
    const char *from = bytes;
    while (size) {
        const ssize_t n = pwrite(fd, from, size, (off_t)offset);
        if (n <= 0)
            return false;
        from += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* Decompress bytes. Returns false if their size is not that of the header. */
static bool unpack(void *to, const Elf64_Chdr *header, const uint8_t *from, uint64_t bytes)
{
    if (header->ch_type == BY_ZSTD)
        return ZSTD_decompress(to, header->ch_size, from, bytes) == header->ch_size;
    uLongf size = header->ch_size;
    return uncompress(to, &size, from, bytes) == Z_OK && size == header->ch_size;
}

/* Give a section its contents in the copy, at *end, which becomes their end. */
static void place_section(Elf64_Shdr *section, const Elf64_Chdr *header, uint64_t size, uint64_t *end)
{
    section->sh_offset = *end;
    section->sh_size = size;
    section->sh_addralign = header->ch_addralign;
    section->sh_flags &= ~(uint64_t)SHF_COMPRESSED;
    *end += (size + 15) / 16 * 16;
}

/* Append room for a section that is decompressed later. */
static void reserve(struct file *f, Elf64_Shdr *section, const Elf64_Chdr *header,
                    struct inflating_place *place, uint64_t *end)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *end = (*end + page - 1) / page * page;
    *place = (struct inflating_place){.from_fd = f->fd,
                                      .from = section->sh_offset + sizeof *header,
                                      .compressed = section->sh_size - sizeof *header,
                                      .to = *end,
                                      .size = header->ch_size};
    place_section(section, header, header->ch_size, end);
}

/* Append the contents of a section to the copy, whose size is *end. */
static bool decompress(const struct file *f, Elf64_Shdr *section, const Elf64_Chdr *header, int fd,
                       uint64_t *end)
{
    void *contents = malloc(header->ch_size ? header->ch_size : 1);
    const bool ok = contents &&
                    unpack(contents, header, f->bytes + section->sh_offset + sizeof *header,
                           section->sh_size - sizeof *header) &&
                    write_at(fd, contents, header->ch_size, *end);
    free(contents);
    if (ok)
        place_section(section, header, header->ch_size, end);
    return ok;
}

/* The same for a section of whatever meaning. Lists of locations, which are never looked up, are left out if time is to be
 * saved. */
static bool write_section(struct file *f, Elf64_Shdr *section, int fd, uint64_t *end)
{
    Elf64_Chdr header;
    if (!is_compressed(f, section, &header))
        return true;
    for (int i = 0; i < PARTS; i++)
        if (section == f->parts[i]) {
            reserve(f, section, &header, &f->places[i], end);
            return true;
        }
    if (!f->by_parts || !has_name(f, section, ".debug_loclists"))
        return decompress(f, section, &header, fd, end);
    place_section(section, &header, 0, end);
    return true;
}

/* Write the file without the bytes of the compressed .debug_info. */
static bool write_as_it_is(const struct file *f, int fd)
{
    const Elf64_Shdr *info = f->parts[PART_INFO];
    if (!info)
        return write_at(fd, f->bytes, f->size, 0);
    const uint64_t from = info->sh_offset, to = from + info->sh_size;
    return write_at(fd, f->bytes, from, 0) && write_at(fd, f->bytes + to, f->size - to, to);
}

static bool write_copy(struct file *f, int fd)
{
    uint64_t end = (f->size + 15) / 16 * 16;
    if (!write_as_it_is(f, fd))
        return false;
    for (unsigned i = 0; i < f->header.e_shnum; i++)
        if (!write_section(f, &f->sections[i], fd, &end))
            return false;
    return write_at(fd, f->sections, f->header.e_shnum * sizeof *f->sections, f->header.e_shoff) &&
           ftruncate(fd, (off_t)end) == 0;
}

/* The section of this name, if it is compressed by zlib and has at least so many bytes. */
static const Elf64_Shdr *part_named(const struct file *f, const char *name, uint64_t least)
{
    for (unsigned i = 0; i < f->header.e_shnum; i++) {
        Elf64_Chdr header;
        const Elf64_Shdr *s = &f->sections[i];
        if (is_compressed(f, s, &header) && header.ch_type == BY_ZLIB && header.ch_size >= least &&
            has_name(f, s, name))
            return s;
    }
    return NULL;
}

/* Find the sections to decompress as far as they are read. Returns false if that is not worth it. */
static bool find_parts(struct file *f)
{
    f->parts[PART_INFO] = part_named(f, ".debug_info", LARGE);
    if (f->parts[PART_INFO])
        f->parts[PART_LINES] = part_named(f, ".debug_line", 1);
    return f->parts[PART_INFO];
}

/* Is there a section that libelf may not be able to read? */
static bool has_zstd(const struct file *f)
{
    for (unsigned i = 0; i < f->header.e_shnum; i++) {
        Elf64_Chdr header;
        if (is_compressed(f, &f->sections[i], &header) && header.ch_type == BY_ZSTD)
            return true;
    }
    return false;
}

/* Returns false if a part cannot be mapped. */
static bool begin_parts(struct file *f, int fd, struct inflating *parts[PARTS])
{
    bool ok = true;
    for (int i = 0; ok && i < PARTS; i++)
        if (f->parts[i]) {
            f->places[i].to_fd = fd;
            parts[i] = inflating_new(&f->places[i]);
            ok = parts[i];
        }
    for (int i = 0; !ok && i < PARTS; i++) {
        inflating_free(parts[i]);
        parts[i] = NULL;
    }
    return ok;
}

/* Returns a descriptor, or -1. */
static int copy(struct file *f, struct inflating *parts[PARTS])
{
    if (!read_sections(f))
        return -1;
    f->by_parts = parts && find_parts(f);
    if (!f->by_parts && !has_zstd(f))
        return -1;
    const int fd = memfd_create("uncompressed", MFD_CLOEXEC);
    if (fd >= 0 && write_copy(f, fd) && (!f->by_parts || begin_parts(f, fd, parts)))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int uncompressed_copy(int fd, struct inflating *parts[PARTS])
{
    struct stat status;
    struct file f = {.fd = fd};
    for (int i = 0; parts && i < PARTS; i++)
        parts[i] = NULL;
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size <= 0)
        return -1;
    f.size = (uint64_t)status.st_size;
    void *bytes = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -1;
    f.bytes = bytes;
    const int made = copy(&f, parts);
    free(f.sections);
    munmap(bytes, f.size);
    return made;
}
