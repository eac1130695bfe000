/* cell_layout.c - assigns positions in a grid to the cells of a heap.
 *
 * The Hilbert curve fills squares whose side is a power of two. The generalised curve (J. Cerveny's "gilbert") fills
 * any rectangle. A long rectangle is divided in two along its length. Any other is divided in three: across its foot,
 * along it, and back. Each part is again a rectangle with a direction. Halves have an even size if possible, so that
 * steps lead to neighbours; in a grid of odd width, one step may be diagonal.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/cell_layout.h"
#include "drivers/heap/raw_syscalls.h"

#include <stddef.h>
#include <stdlib.h>

const char *const cell_layout_names[CELL_LAYOUTS] = {[CELLS_ROWS] = "rows", [CELLS_HILBERT] = "hilbert"};

struct vector {
    int x, y;
};

static struct vector sum(struct vector a, struct vector b)
{
    return (struct vector){a.x + b.x, a.y + b.y};
}

static struct vector minus(struct vector a)
{
    return (struct vector){-a.x, -a.y};
}

static struct vector unit(struct vector a)
{
    return (struct vector){(a.x > 0) - (a.x < 0), (a.y > 0) - (a.y < 0)};
}

static int length(struct vector a)
{
    return abs(a.x + a.y);
}

/* Half of a side. An odd half is made even if the side is long enough. */
static struct vector half(struct vector a)
{
    struct vector h = {a.x / 2, a.y / 2};
    return length(h) % 2 && length(a) > 2 ? sum(h, unit(a)) : h;
}

/* Add a straight line of cells. */
static struct cell_spot *line(struct cell_spot *out, struct vector at, struct vector along)
{
    for (int i = length(along); i > 0; i--, at = sum(at, unit(along)))
        *out++ = (struct cell_spot){(uint16_t)at.x, (uint16_t)at.y};
    return out;
}

/* Add the rectangle with sides a, in the direction of the curve, and b, from the corner `at`. The depth of the
 * recursion is log2 of its size. */
static struct cell_spot *curve(struct cell_spot *out, struct vector at, struct vector a, struct vector b)
{
    struct vector a2 = half(a), b2 = half(b);
    if (length(b) == 1)
        return line(out, at, a);
    if (length(a) == 1)
        return line(out, at, b);
    if (2 * length(a) > 3 * length(b)) {
        out = curve(out, at, a2, b);
        return curve(out, sum(at, a2), sum(a, minus(a2)), b);
    }
    a2 = (struct vector){a.x / 2, a.y / 2};
    out = curve(out, at, b2, a2);
    out = curve(out, sum(at, b2), a, sum(b, minus(b2)));
    struct vector last = sum(sum(at, sum(a, minus(unit(a)))), sum(b2, minus(unit(b))));
    return curve(out, last, minus(b2), minus(sum(a, minus(a2))));
}

static void rows_of(struct cell_spot *out, int columns, int rows)
{
    for (int y = 0; y < rows; y++)
        out = line(out, (struct vector){0, y}, (struct vector){columns, 0});
}

struct cell_spot *cell_layout_make(enum cell_layout layout, int columns, int rows)
{
    struct vector across = {columns, 0}, down = {0, rows};
    struct cell_spot *spots = raw_map((size_t)columns * (size_t)rows * sizeof *spots);
    if (!spots)
        return NULL;
    if (layout == CELLS_ROWS)
        rows_of(spots, columns, rows);
    else if (columns >= rows)
        curve(spots, (struct vector){0, 0}, across, down);
    else
        curve(spots, (struct vector){0, 0}, down, across);
    return spots;
}
