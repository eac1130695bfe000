/* eh_sections.c - see eh_sections.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/frames/eh_sections.h"
#include <elf.h>
#include <stddef.h>

enum { PAGE = 4096 };

/* The program headers, *count of them. NULL: the first page does not have them. */
static const Elf64_Phdr *segments_of(const uint8_t *begin, unsigned *count)
{
    const Elf64_Ehdr *elf = (const void *)begin;
    const uint8_t *ident = elf->e_ident;
    if (ident[EI_MAG0] != ELFMAG0 || ident[EI_MAG1] != ELFMAG1 || ident[EI_MAG2] != ELFMAG2 ||
        ident[EI_MAG3] != ELFMAG3 || elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phoff > PAGE ||
        elf->e_phoff + (size_t)elf->e_phnum * sizeof(Elf64_Phdr) > PAGE)
        return NULL;
    *count = elf->e_phnum;
    return (const void *)(begin + elf->e_phoff);
}

bool eh_image_bias(const uint8_t *begin, uint64_t *bias)
{
    unsigned count = 0;
    const Elf64_Phdr *segment = segments_of(begin, &count);
    for (unsigned i = 0; i < count; i++)
        if (segment[i].p_type == PT_LOAD && segment[i].p_offset == 0) {
            *bias = (uint64_t)(uintptr_t)begin - segment[i].p_vaddr;
            return true;
        }
    return false;
}

const uint8_t *eh_header_of(const struct eh_image *image)
{
    unsigned count = 0;
    const Elf64_Phdr *segment = segments_of(image->begin, &count);
    for (unsigned i = 0; i < count; i++)
        if (segment[i].p_type == PT_GNU_EH_FRAME)
            return (const uint8_t *)(uintptr_t)(image->bias + segment[i].p_vaddr);
    return NULL;
}

/* The loaded and readable segment that contains an address: from *begin to *end. */
static bool find_segment(const struct eh_image *image, const uint8_t *at, const uint8_t **begin,
                         const uint8_t **end)
{
    unsigned count = 0;
    const Elf64_Phdr *segment = segments_of(image->begin, &count);
    for (unsigned i = 0; i < count; i++, segment++) {
        *begin = (const uint8_t *)(uintptr_t)(image->bias + segment->p_vaddr);
        *end = *begin + segment->p_filesz;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && at >= *begin && at < *end)
            return *begin >= image->begin && *end <= image->end;
    }
    return false;
}

bool eh_sections_at(const struct eh_image *image, const uint8_t *header, struct eh_sections *s)
{
    const uint8_t *begin;
    s->header = header;
    if (!find_segment(image, header, &begin, &s->header_end))
        return false;
    const uint8_t *frames = eh_frames_of(header, s->header_end);
    if (!frames || !find_segment(image, frames, &s->frames_begin, &s->frames_end))
        return false;
    if (s->frames_end - s->frames_begin > INT32_MAX)
        s->frames_end = s->frames_begin + INT32_MAX;
    return true;
}
