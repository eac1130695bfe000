/* classic_text.h - events as classic text, `>>> N 69586984 352`.
 *
 * A Resize is written as Free and New. Events that the classic form does not know (marks, lost events) are
 * left out; so are frees of addresses where no block of their heap begins, since a reader that knows no heaps
 * might take them for a free of something else. Both are counted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_CLASSIC_TEXT_H
#define STEVE_KERNELS_TOTALS_CLASSIC_TEXT_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/text_writer.h"

struct classic_counts {
    uint64_t lines, bad_frees, others;
};

void classic_write(struct textout *out, const struct mt_event *events, size_t n,
                   struct classic_counts *counts);

#endif
