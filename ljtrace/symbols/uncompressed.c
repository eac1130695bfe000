/* uncompressed.c - see uncompressed.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The copy is the file as it is, followed by the contents of the sections. Their headers are changed to refer to these.
 */
#define _GNU_SOURCE /* memfd_create */
#include "ljtrace/symbols/uncompressed.h"
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { BY_ZSTD = 2 }; /* ELFCOMPRESS_ZSTD */
/* A section that claims to be larger is damaged. */
#define MOST_BYTES (UINT64_C(1) << 33)

/* An object file that is mapped into memory. */
struct file {
    const uint8_t *bytes;
    uint64_t size;
    Elf64_Ehdr header;
    Elf64_Shdr *sections; /* a copy */
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

/* Is the section compressed by zstd? Then read the header of its contents. */
static bool is_compressed(const struct file *f, const Elf64_Shdr *section, Elf64_Chdr *header)
{
    if (!(section->sh_flags & SHF_COMPRESSED) || section->sh_type == SHT_NOBITS ||
        section->sh_size < sizeof *header || !contains(f, section->sh_offset, section->sh_size))
        return false;
    memcpy(header, f->bytes + section->sh_offset, sizeof *header);
    return header->ch_type == BY_ZSTD && header->ch_size <= MOST_BYTES;
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

/* Append the contents of a section to the copy, whose size is *end. */
static bool decompress(const struct file *f, Elf64_Shdr *section, const Elf64_Chdr *header, int fd,
                       uint64_t *end)
{
    void *contents = malloc(header->ch_size ? header->ch_size : 1);
    const size_t size =
        contents ? ZSTD_decompress(contents, header->ch_size, f->bytes + section->sh_offset + sizeof *header,
                                   section->sh_size - sizeof *header)
                 : 0;
    const bool ok = contents && size == header->ch_size && write_at(fd, contents, size, *end);
    free(contents);
    if (!ok)
        return false;
    section->sh_offset = *end;
    section->sh_size = size;
    section->sh_addralign = header->ch_addralign;
    section->sh_flags &= ~(uint64_t)SHF_COMPRESSED;
    *end += (size + 15) / 16 * 16;
    return true;
}

static bool write_copy(struct file *f, int fd)
{
    uint64_t end = (f->size + 15) / 16 * 16;
    if (!write_at(fd, f->bytes, f->size, 0))
        return false;
    for (unsigned i = 0; i < f->header.e_shnum; i++) {
        Elf64_Chdr header;
        if (is_compressed(f, &f->sections[i], &header) && !decompress(f, &f->sections[i], &header, fd, &end))
            return false;
    }
    return write_at(fd, f->sections, f->header.e_shnum * sizeof *f->sections, f->header.e_shoff);
}

static bool has_compressed(const struct file *f)
{
    Elf64_Chdr header;
    for (unsigned i = 0; i < f->header.e_shnum; i++)
        if (is_compressed(f, &f->sections[i], &header))
            return true;
    return false;
}

/* Returns a descriptor, or -1. */
static int copy(struct file *f)
{
    if (!read_sections(f) || !has_compressed(f))
        return -1;
    const int fd = memfd_create("uncompressed", MFD_CLOEXEC);
    if (fd >= 0 && write_copy(f, fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int uncompressed_copy(int fd)
{
    struct stat status;
    struct file f = {0};
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size <= 0)
        return -1;
    f.size = (uint64_t)status.st_size;
    void *bytes = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -1;
    f.bytes = bytes;
    const int made = copy(&f);
    free(f.sections);
    munmap(bytes, f.size);
    return made;
}
