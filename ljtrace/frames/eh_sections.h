/* eh_sections.h - the sections of an object's call frame information, as its program headers in memory say.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * It allocates nothing and calls no other code.
 */
#ifndef LJTRACE_FRAMES_EH_SECTIONS_H
#define LJTRACE_FRAMES_EH_SECTIONS_H

#include "ljtrace/frames/eh_frame.h"

/* An object in memory. Its first page is readable, and so is what it says to be loaded and readable. */
struct eh_image {
    const uint8_t *begin, *end;
    uint64_t bias; /* address in memory less address in the file */
};

/* Find the bias of the object that begins at `begin`. False: it is no object, or its first page does not say that it is
 * loaded. */
bool eh_image_bias(const uint8_t *begin, uint64_t *bias);
/* Where its .eh_frame_hdr is. NULL: it has none, or its first page does not say where. */
const uint8_t *eh_header_of(const struct eh_image *image);
/* Find the sections, if the object's .eh_frame_hdr is at `header`. False: they are not readable. */
bool eh_sections_at(const struct eh_image *image, const uint8_t *header, struct eh_sections *sections);

#endif
