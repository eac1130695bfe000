/* classic_text.c - events as classic text; see classic_text.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/classic_text.h"

static void line(struct textout *out, char letter, uint64_t addr, uint64_t size)
{
    textout_reserve(out);
    textout_put_string(out, ">>> ", 4);
    textout_put_char(out, letter);
    textout_put_char(out, ' ');
    textout_put_number(out, addr);
    textout_put_char(out, ' ');
    textout_put_number(out, size);
    textout_put_char(out, '\n');
}

void classic_write(struct textout *out, const struct mt_event *events, size_t n,
                   struct classic_counts *counts)
{
    for (size_t i = 0; i < n; i++) {
        const struct mt_event *e = &events[i];

        counts->lines++;
        switch (e->kind) {
        case MT_NEW:
            line(out, 'N', e->addr, e->size);
            break;
        case MT_FREE:
            line(out, 'F', e->addr, 0);
            break;
        case MT_RESIZE:
            line(out, 'F', e->old_addr, 0);
            line(out, 'N', e->addr, e->size);
            counts->lines++;
            break;
        case MT_LOAD:
        case MT_STORE:
        case MT_MODIFY:
            line(out, "LSM"[e->kind - MT_LOAD], e -> addr, e -> size);
            break;
        default:
            counts->lines--;
            counts->bad_frees += e->kind == MT_BADFREE;
            counts->others += e->kind != MT_BADFREE;
        }
    }
}
