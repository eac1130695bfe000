/* test_picture.c - the map of the heap in cells, and the pictures drawn from it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/cell_layout.h"
#include "drivers/base/islands.h"
#include "drivers/film/heapmap.h"
#include "drivers/film/look.h"
#include "drivers/film/sites.h"
#include "drivers/painter/axis.h"
#include "drivers/painter/frame.h"
#include "drivers/painter/legend.h"
#include "drivers/painter/yuv.h"
#include "drivers/test/test_units.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 100, EXTENT = 100 * 64 };

static float share(const struct heapmap *m, uint64_t cell, enum heap_layer layer)
{
    return m->cell[cell].share[layer];
}

static void test_map_covers_cells(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    assert_int_equal(m.cell_bytes, 64);
    heapmap_add(&m, LAYER_USED, 32, 128, 1); /* half of 0, all of 1, half of 2 */
    heapmap_frame(&m);
    assert_true(share(&m, 0, LAYER_USED) == 0.5f && share(&m, 1, LAYER_USED) == 1.0f);
    assert_true(share(&m, 2, LAYER_USED) == 0.5f && share(&m, 3, LAYER_USED) == 0.0f);
    heapmap_add(&m, LAYER_USED, 32, 128, -1);
    heapmap_frame(&m);
    for (uint64_t i = 0; i < CELLS; i++)
        assert_true(share(&m, i, LAYER_USED) == 0.0f);
}

/* Random blocks, compared with a byte array. */
static void test_map_equals_bytes(void **state)
{
    static unsigned char bytes[EXTENT];
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    srand(7);
    for (int i = 0; i < 400; i++) {
        uint64_t at = (uint64_t)rand() % EXTENT, n = (uint64_t)rand() % 1000;
        if (at + n > EXTENT || memchr(bytes + at, 1, n))
            continue;
        memset(bytes + at, 1, n);
        heapmap_add(&m, LAYER_USED, at, n, 1);
    }
    heapmap_frame(&m);
    for (uint64_t cell = 0; cell < CELLS; cell++) {
        int sum = 0;
        for (int i = 0; i < 64; i++)
            sum += bytes[cell * 64 + (uint64_t)i];
        assert_true(share(&m, cell, LAYER_USED) == (float)sum / 64);
    }
}

static void test_map_cuts_off(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    heapmap_add(&m, LAYER_USED, EXTENT - 32, 1000, 1);
    heapmap_add(&m, LAYER_USED, EXTENT + 5, 10, 1);
    heapmap_add(&m, LAYER_USED, UINT64_MAX - 5, 3, 1);
    heapmap_frame(&m);
    assert_true(share(&m, CELLS - 1, LAYER_USED) == 0.5f);
}

static void test_glow_fades(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    heapmap_add(&m, LAYER_FRESH, 0, 64, 1);
    heapmap_frame(&m);
    assert_int_equal(m.cell[0].glow[0], HEAT_FULL);
    assert_true(m.cell[0].seen && !m.cell[1].seen);
    heapmap_frame(&m);
    assert_int_equal(m.cell[0].glow[0], HEAT_FULL - 1);
    for (int i = 0; i < 2 * HEAT_FULL; i++)
        heapmap_frame(&m);
    assert_int_equal(m.cell[0].glow[0], 0);
    assert_true(m.cell[0].seen);
}

static const struct scene_head s_head = {
    .name = "test",
    .heap = EXTENT,
    .total_ops = 2,
    .film = {.width = 640, .height = 360, .extent = EXTENT, .most = EXTENT, .layout = CELLS_ROWS}};

/* Open a frame and a map of as many cells. */
static void open_both(struct frame *f, struct heapmap *m)
{
    assert_true(frame_open(f, &s_head));
    assert_true(heapmap_open(m, EXTENT, frame_cells(f)));
}

/* Paint the map, as camera.c and the painter do together. */
static void paint(struct frame *f, const struct heapmap *m)
{
    uint32_t *looks = calloc(m->cells, sizeof *looks);
    struct scene s = {.kind = SCENE_SHOWN, .op = 1, .cells = m->cells, .cell_bytes = m->cell_bytes};
    assert_non_null(looks);
    for (uint64_t i = 0; i < m->cells; i++)
        looks[i] = look_of_cell(&m->cell[i], (struct look_by){FILM_STATE, 0}, f->at.cell);
    frame_paint(f, &s, looks);
    free(looks);
}

static uint32_t pixel_of(const struct canvas *c, int x, int y)
{
    return c->pixels[y * c->width + x] & 0xffffff;
}

/* The pixel of a cell that is this far from its corner. */
static uint32_t pixel_in_cell(const struct frame *f, int cell, int inwards)
{
    return pixel_of(&f->canvas, f->at.left + cell % f->at.columns * f->at.cell + inwards,
                    f->at.top + cell / f->at.columns * f->at.cell + inwards);
}

/* Used, locked, overhead, free and never used are five different colours. */
static void test_states_differ(void **state)
{
    struct frame f;
    struct heapmap m;
    uint32_t seen[5];
    open_both(&f, &m);
    uint64_t c = m.cell_bytes;
    heapmap_add(&m, LAYER_USED, 0, 2 * c, 1);
    heapmap_add(&m, LAYER_LOCKED, c, c, 1);
    heapmap_add(&m, LAYER_OVERHEAD, 2 * c, c, 1);
    heapmap_add(&m, LAYER_FRESH, 3 * c, c, 1);
    for (int i = 0; i <= HEAT_FULL; i++) /* until the glow of new blocks has faded */
        heapmap_frame(&m);
    paint(&f, &m);
    for (int i = 0; i < 5; i++) {
        seen[i] = pixel_in_cell(&f, i, 0);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
}

/* Each position of the grid occurs once, and each step of the Hilbert curve is to a neighbour. */
static void check_layout(enum cell_layout layout, int columns, int rows)
{
    struct cell_spot *s = cell_layout_make(layout, columns, rows);
    unsigned char *seen = calloc((size_t)columns * (size_t)rows, 1);
    assert_true(s && seen);
    for (int i = 0; i < columns * rows; i++) {
        assert_true(s[i].column < columns && s[i].row < rows);
        assert_int_equal(seen[s[i].row * columns + s[i].column]++, 0);
        int dx = i ? abs(s[i].column - s[i - 1].column) : 0, dy = i ? abs(s[i].row - s[i - 1].row) : 0;
        if (layout == CELLS_HILBERT)
            assert_true(dx <= 1 && dy <= 1 && (columns % 2 || rows % 2 || dx + dy <= 1));
    }
    free(seen);
}

static void test_layouts_cover_the_grid(void **state)
{
    static const int sizes[][2] = {{64, 64}, {180, 78}, {316, 150}, {78, 180},
                                   {37, 20}, {1, 9},    {8, 1},     {3, 3}};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_layout(CELLS_ROWS, sizes[i][0], sizes[i][1]);
        check_layout(CELLS_HILBERT, sizes[i][0], sizes[i][1]);
    }
}

/* Read and written memory glows in colours of its own; a locked cell has an outline, and its colour inside. */
static void test_accesses_and_outlines(void **state)
{
    struct frame f;
    struct heapmap m;
    open_both(&f, &m);
    uint64_t c = m.cell_bytes;
    heapmap_add(&m, LAYER_USED, 0, 4 * c, 1);
    heapmap_add(&m, LAYER_READ, c, c, 1);
    heapmap_add(&m, LAYER_WRITTEN, 2 * c, c, 1);
    heapmap_add(&m, LAYER_LOCKED, 3 * c, c, 1);
    heapmap_frame(&m);
    paint(&f, &m);
    uint32_t plain = pixel_in_cell(&f, 0, 0), read = pixel_in_cell(&f, 1, 0),
             written = pixel_in_cell(&f, 2, 0);
    assert_true(plain != read && plain != written && read != written);
    uint32_t edge = pixel_in_cell(&f, 3, 0);
    assert_true(f.at.cell >= 5 && edge != plain && pixel_in_cell(&f, 3, f.at.cell / 2) == plain);
    canvas_close(&f.canvas);
}

/* Live bytes are 1/4 and resident bytes 1/2 of the full height: the curve is filled to there, and there is a line
 * at twice that. */
static void test_strip_to_scale(void **state)
{
    struct canvas c;
    struct strip s;
    struct geometry g = {.width = 200 + 2 * PICTURE_MARGIN,
                         .left = PICTURE_MARGIN,
                         .columns = 200,
                         .cell = 1,
                         .strip = 40,
                         .strip_height = 100,
                         .text = 11,
                         .line = 13,
                         .strip_lines = 1};
    assert_true(canvas_open(&c, g.width, 200, g.text));
    strip_begin(&s, &c, &g, 1000);
    strip_add(&s, &c, 0.5, 250, 500);
    int x = 50, bottom = s.top + s.height - 1, room = s.height - 2;
    assert_int_equal(s.drawn, 100);
    int next = s.left + s.drawn; /* the first column of the second moment */
    assert_int_equal(pixel_of(&c, x, bottom - room / 4 + 2), pixel_of(&c, x, bottom));
    assert_int_not_equal(pixel_of(&c, x, bottom - room / 4 - 2), pixel_of(&c, x, bottom));
    assert_int_not_equal(pixel_of(&c, x, bottom - room / 2 - 1), pixel_of(&c, x, bottom - room / 3));
    assert_int_equal(pixel_of(&c, next - 1, bottom - room / 2),
                     pixel_of(&c, next - 1, bottom - room / 2 - 1));
    strip_add(&s, &c, 0.6, 250, 750);
    uint32_t line = pixel_of(&c, next + 5, bottom - room * 3 / 4);
    for (int y = bottom - room * 3 / 4; y < bottom - room / 2 - 1; y++) /* from one height to the other */
        assert_int_equal(pixel_of(&c, next, y), line);
    assert_int_not_equal(pixel_of(&c, next + 5, bottom - room * 5 / 8), line);
    canvas_close(&c);
    assert_true(strip_fragmentation(250, 500) == 1.0 && strip_fragmentation(0, 9) == 0);
}

/* Compared with the formula of BT.601 in floating point; each pixel of 2 x 2 counts a quarter. */
static void test_yuv_of_colours(void **state)
{
    static const uint32_t colours[] = {0x000000, 0xffffff, 0xff0000, 0x00ff00, 0x0000ff, 0xd0463b, 0x2c7a45};
    struct canvas c;
    unsigned char out[4 * 2 * 3 / 2];
    assert_true(canvas_open(&c, 4, 2, 11) && yuv_bytes(4, 2) == sizeof out);
    for (unsigned i = 0; i < sizeof colours / sizeof colours[0]; i++) {
        double r = colours[i] >> 16, g = colours[i] >> 8 & 0xff, b = colours[i] & 0xff;
        double y = 0.299 * r + 0.587 * g + 0.114 * b;
        canvas_fill(&c, 0, 0, 4, 2, colours[i]);
        yuv_from_canvas(out, &c);
        for (int at = 0; at < 8; at++)
            assert_true(abs(out[at] - (int)(16.5 + y * 219 / 255)) <= 1);
        for (int at = 0; at < 2; at++) {
            assert_true(abs(out[8 + at] - (int)(128.5 + (b - y) / 1.772 * 224 / 255)) <= 1);
            assert_true(abs(out[10 + at] - (int)(128.5 + (r - y) / 1.402 * 224 / 255)) <= 1);
        }
    }
}

/* The number of pixels in a rectangle that are not black. */
static int marked(const struct canvas *c, int x, int y, int width, int height)
{
    int count = 0;
    for (int row = y; row < y + height; row++)
        for (int column = x; column < x + width; column++)
            count += pixel_of(c, column, row) != 0;
    return count;
}

/* Text lies between the x where it begins and the x that is returned, in its line; its colour is the given one. */
static void test_text_fills_its_place(void **state)
{
    struct canvas c;
    bool has_colour = false;
    assert_true(canvas_open(&c, 300, 40, 16));
    canvas_fill(&c, 0, 0, 300, 40, 0);
    int end = canvas_text(&c, 20, 10, 0xd8dce6, "Hilbert, page 17");
    assert_int_equal(end, 20 + canvas_text_width(&c, "Hilbert, page 17"));
    assert_true(end > 100 && end < 200);
    int all = marked(&c, 0, 0, 300, 40);
    assert_true(all > 100);
    assert_int_equal(all, marked(&c, 20, 10, end - 20, 16 * 5 / 4));
    assert_true(marked(&c, 20, 10 + c.ascent, end - 20, 4) > 0); /* below the line: the g of page */
    for (int x = 20; x < end; x++)
        for (int y = 10; y < 30; y++)
            has_colour = has_colour || pixel_of(&c, x, y) == 0xd8dce6;
    assert_true(has_colour);
    canvas_text(&c, 290, 30, 0xffffff, "cut off at the edges"); /* without harm */
    canvas_close(&c);
}

/* Keys that do not fit are counted at the end; a key that is too long for a line shows its end. */
static void test_legend_says_what_is_missing(void **state)
{
    static const struct keys keys = {.of = {{"used", 0xe0650a, 0},
                                            {"a name that is too long for the rest", 0x0072b2, 0},
                                            {"free", 0x2fd6a8, 0}},
                                     .count = 3};
    struct canvas c;
    assert_true(canvas_open(&c, 220, 60, 16));
    canvas_fill(&c, 0, 0, 220, 60, 0);
    assert_int_equal(legend_paint(&c, 8, 4, 16, 1, keys), 2);
    assert_int_equal(pixel_of(&c, 8 + 2, 4 + c.ascent - 2), 0xe0650a);
    int end = 8 + key_side(16) + 3 * key_space(16) + canvas_text_width(&c, "used");
    assert_true(marked(&c, end, 0, canvas_text_width(&c, "+2 more"), 30) > 0);
    assert_int_equal(marked(&c, 220 - PICTURE_MARGIN, 0, PICTURE_MARGIN, 60), 0);
    canvas_fill(&c, 0, 0, 220, 60, 0);
    assert_int_equal(legend_paint(&c, 8, 4, 16, 3, keys), 0);
    assert_int_equal(pixel_of(&c, 8 + 2, 4 + 20 + c.ascent - 2), 0x0072b2);
    assert_int_equal(pixel_of(&c, 8 + 2, 4 + 40 + c.ascent - 2), 0x2fd6a8);
    assert_int_equal(marked(&c, 220 - PICTURE_MARGIN, 0, PICTURE_MARGIN, 60), 0);
    canvas_close(&c);
}

/* Of a text that is too long the end is seen: another end looks different, another beginning does not. */
static void test_text_shows_its_end(void **state)
{
    static const char *const texts[] = {"/opt/a\xc3\xa4o\xc3\xbc/allocators/mine.so",
                                        "/usr/b\xc3\xb6o\xc3\xbc/allocators/mine.so",
                                        "/opt/a\xc3\xa4o\xc3\xbc/allocators/mine.sa"};
    struct canvas c[3];
    size_t bytes = 100 * 20 * sizeof *c->pixels;
    for (int i = 0; i < 3; i++) {
        assert_true(canvas_open(&c[i], 100, 20, 11));
        assert_true(canvas_text_end(&c[i], 0, 2, 100, 0xffffff, texts[i]) <= 100);
    }
    assert_memory_equal(c[0].pixels, c[1].pixels, bytes);
    assert_memory_not_equal(c[0].pixels, c[2].pixels, bytes);
    for (int i = 0; i < 3; i++)
        canvas_close(&c[i]);
}

static void test_numbers_as_text(void **state)
{
    char out[TIME_TEXT];
    assert_string_equal(legend_bytes(out, 1023), "1023 B");
    assert_string_equal(legend_bytes(out, 10650000), "10.1 MiB");
    assert_string_equal(legend_tick_bytes(out, 2359296), "2.25 MiB");
    assert_string_equal(legend_tick_bytes(out, 524288), "512 KiB");
    assert_string_equal(legend_tick_bytes(out, 0), "0 B");
    assert_string_equal(legend_tick_count(out, 150000), "150 k");
    assert_string_equal(legend_tick_count(out, 2500000), "2.5 M");
    assert_string_equal(legend_tick_count(out, 500), "500");
    assert_string_equal(legend_count(out, 1500000), "1,500,000");
    assert_string_equal(legend_time(out, FILM_OPS, 1500), "1,500 operations");
    assert_string_equal(legend_time(out, FILM_BYTES, 2048), "2.0 KiB allocated");
    assert_string_equal(legend_time(out, FILM_INSTRUCTIONS, 7), "7 instructions");
}

static const uint32_t s_sizes[][2] = {{320, 200},  {480, 270},   {640, 200},   {640, 360},  {960, 540},
                                      {1280, 720}, {1920, 1080}, {3840, 2160}, {320, 4320}, {7680, 200}};
enum { SIZES = sizeof s_sizes / sizeof s_sizes[0] };

static struct film_size film_of(unsigned size, enum cell_layout layout, enum film_colour colour)
{
    return (struct film_size){.width = s_sizes[size][0],
                              .height = s_sizes[size][1],
                              .extent = (uint64_t)1 << 30,
                              .layout = layout,
                              .colour = colour,
                              .sites = 2,
                              .site_names = {"remember (server.lua:1234)", "a_longer_name_of_C (app.c:17)"}};
}

/* Whatever the size of a picture: its parts follow each other without overlap. */
static void check_parts(const struct film_size *f)
{
    struct geometry g = geometry_of_frame(f);
    assert_true(g.rows > 0 && g.columns > 0 && g.top >= g.line + PICTURE_MARGIN);
    assert_true(g.top + g.rows * g.cell <= g.strip_keys);
    assert_true(g.strip_keys + g.strip_lines * g.line <= g.strip);
    assert_true(g.left >= PICTURE_MARGIN + g.labels && g.left + g.columns * g.cell <= g.width);
    assert_true(g.strip + g.strip_height <= g.times && g.times + g.line <= g.legend);
    assert_true(g.legend + g.legend_lines * g.line <= g.height);
    g = geometry_of_poster(f);
    assert_true(g.rows > 0 && g.top + g.rows <= g.times && g.left + g.columns <= g.width);
    assert_true(g.times + g.line <= g.legend && g.legend + g.legend_lines * g.line <= g.height);
}

/* No key is missing, and none is cut: the room that the replay leaves is enough for the letters. */
static void check_legends(const struct film_size *f)
{
    struct geometry g = geometry_of_frame(f), p = geometry_of_poster(f);
    struct keys keys = keys_of_frame(f), poster = keys_of_poster(f);
    struct canvas c;
    assert_true(canvas_open(&c, g.width, g.height, g.text));
    canvas_fill(&c, 0, 0, g.width, g.height, 0);
    assert_int_equal(legend_paint(&c, PICTURE_MARGIN, g.legend, g.text, g.legend_lines, keys), 0);
    assert_int_equal(legend_paint(&c, PICTURE_MARGIN, g.strip_keys, g.text, g.strip_lines, keys_of_strip()),
                     0);
    assert_int_equal(legend_paint(&c, PICTURE_MARGIN, 0, p.text, p.legend_lines, poster), 0);
    assert_int_equal(marked(&c, g.width - PICTURE_MARGIN, 0, PICTURE_MARGIN, g.height), 0);
    canvas_close(&c);
}

static void test_all_parts_fit(void **state)
{
    for (unsigned i = 0; i < SIZES; i++)
        for (int layout = 0; layout < CELL_LAYOUTS; layout++)
            for (int colour = 0; colour < FILM_COLOURS; colour++) {
                struct film_size f = film_of(i, (enum cell_layout)layout, (enum film_colour)colour);
                check_parts(&f);
                check_legends(&f);
            }
}

/* The mean of a value over the bytes in use, as blocks come and go. */
static void test_values_of_cells(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    heapmap_add(&m, LAYER_USED, 0, 16, 1);
    heapmap_add(&m, LAYER_VALUE, 0, 16, MOST_VALUE);
    heapmap_add(&m, LAYER_USED, 16, 240, 1); /* to the end of the fourth cell */
    heapmap_add(&m, LAYER_VALUE, 16, 240, 11);
    heapmap_frame(&m);
    assert_true(m.cell[0].value == (MOST_VALUE + 3 * 11) / 4.0f);
    assert_true(m.cell[1].value == 11 && m.cell[3].value == 11);
    heapmap_add(&m, LAYER_USED, 0, 16, -1);
    heapmap_add(&m, LAYER_VALUE, 0, 16, -MOST_VALUE);
    heapmap_frame(&m);
    assert_true(m.cell[0].value == 11);
}

/* The colour of a full cell whose blocks have this value. */
static uint32_t colour_of(enum film_colour by, float now, float value)
{
    struct cell c = {.share = {[LAYER_USED] = 1}, .value = value, .seen = true};
    uint32_t colour = look_of_cell(&c, (struct look_by){by, now}, 4) & LOOK_COLOUR;
    assert_int_equal(look_in_poster(&c, (struct look_by){by, now}) & LOOK_COLOUR, colour);
    return colour;
}

/* A cell has the colour of the site with most of its bytes, which the legend names; the last one is of all others. */
static void test_colours_by_site(void **state)
{
    struct film_size f = {.colour = FILM_SITE, .sites = 2, .site_names = {"first", "second"}};
    const struct look_by by = {FILM_SITE, 0};
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    m.by_site = true;
    heapmap_add(&m, LAYER_USED, 0, 64, 1);
    heapmap_add(&m, LAYER_SITE, 0, 24, 1);
    heapmap_add(&m, LAYER_SITE + 1, 24, 40, 1);
    heapmap_add(&m, LAYER_USED, 64, 64, 1);
    heapmap_add(&m, LAYER_SITE + FILM_SITES, 64, 64, 1);
    heapmap_frame(&m);
    struct keys keys = keys_of_frame(&f), poster = keys_of_poster(&f);
    assert_int_equal(keys.count, 3 + 4);
    assert_string_equal(keys.of[1].name, "second");
    assert_string_equal(keys.of[2].name, "others");
    assert_string_equal(poster.of[2].name, "others");
    assert_int_equal(look_of_cell(&m.cell[0], by, 4) & LOOK_COLOUR, keys.of[1].colour);
    assert_int_equal(look_of_cell(&m.cell[1], by, 4) & LOOK_COLOUR, keys.of[2].colour);
    heapmap_add(&m, LAYER_SITE + 1, 24, 40, -1);
    heapmap_frame(&m);
    assert_int_equal(look_of_cell(&m.cell[0], by, 4) & LOOK_COLOUR, keys.of[0].colour);
    assert_int_equal(site_of_digit('1', &f), 1);
    assert_int_equal(site_of_digit('2', &f), FILM_SITES);
    assert_int_equal(site_of_digit('\n', &f), FILM_SITES);
}

/* The keys of a legend are the colours of the cells: their limits are where the names say. */
static void test_colours_by_age_and_size(void **state)
{
    static const uint64_t sizes[] = {63, 255, 1023, 4095, 65535, UINT64_MAX};
    static const double ages[] = {0.009, 0.049, 0.199, 0.499, 1};
    struct film_size sized = {.colour = FILM_SIZE}, aged = {.colour = FILM_AGE};
    struct keys by_size = keys_of_frame(&sized), by_age = keys_of_poster(&aged);
    float now = (float)value_of_time(1);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(colour_of(FILM_SIZE, 0, (float)value_of_size(sizes[i])), by_size.of[i].colour);
        if (i < 5)
            assert_int_equal(colour_of(FILM_SIZE, 0, (float)value_of_size(sizes[i] + 1)),
                             by_size.of[i + 1].colour);
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(colour_of(FILM_AGE, now, (float)value_of_time(1 - ages[i])), by_age.of[i].colour);
        if (i < 4)
            assert_int_equal(colour_of(FILM_AGE, now, (float)value_of_time(0.998 - ages[i])),
                             by_age.of[i + 1].colour);
    }
    assert_int_equal(value_of_size(0), 0);
    assert_true(value_of_size(UINT64_MAX) <= MOST_VALUE && value_of_time(1) <= MOST_VALUE);
    assert_true(value_of_time(0) > 0);
}

static void test_steps_of_ticks(void **state)
{
    assert_int_equal(axis_step(155266, 10, false), 20000);
    assert_int_equal(axis_step(100, 10, false), 10);
    assert_int_equal(axis_step(3, 10, false), 1);
    assert_int_equal(axis_step(7000000, 10, false), 1000000);
    assert_int_equal(axis_step(3 << 20, 10, true), 512 << 10);
    assert_int_equal(axis_step(0, 0, true), 1);
}

/* Two islands of half the extent: the start of the second, whose offset is another, has a tick at half the height, from
 * above as from below; and half the time one at half the width. */
static void test_ticks_are_at_their_places(void **state)
{
    struct film_size f = film_of(5, CELLS_ROWS, FILM_STATE);
    f.extent = 512 << 20;
    f.total = 1000;
    f.islands.count = 2;
    f.islands.of[0] = (struct island){0, 256 << 20};
    f.islands.of[1] = (struct island){(1000 << 20) + 4096, (1256 << 20) + 4096};
    for (int upwards = 0; upwards < 2; upwards++) {
        struct geometry g = upwards ? geometry_of_poster(&f) : geometry_of_frame(&f);
        struct canvas c;
        int half = g.top + g.rows * g.cell / 2, found = 0;
        assert_true(canvas_open(&c, g.width, g.height, g.text));
        canvas_fill(&c, 0, 0, g.width, g.height, 0);
        axis_addresses(&c, &g, &f, upwards);
        axis_times(&c, &g, &f);
        for (int y = half - g.cell; y <= half + g.cell; y++)
            found += pixel_of(&c, g.left - 2, y) != 0;
        assert_int_equal(found, 1);
        assert_true(pixel_of(&c, g.left + (g.columns * g.cell - 1) / 2, g.times - PICTURE_GAP) != 0);
        assert_int_equal(marked(&c, g.left, g.top, g.columns * g.cell, g.rows * g.cell), 0);
        canvas_close(&c);
    }
}

enum { UNIT = 4096, HEAP_UNITS = 16384 };

/* Random ranges, compared with an array of units. */
static void test_islands_equal_units(void **state)
{
    static bool has[HEAP_UNITS];
    struct islands s = {0};
    uint64_t gap = LEAST_GAP / UNIT, islands = 0, empty = gap;
    srand(3);
    memset(has, 0, sizeof has);
    for (int i = 0; i < 60; i++) {
        uint64_t at = (uint64_t)rand() % (HEAP_UNITS - 70), units = 1 + (uint64_t)rand() % 70;
        islands_add(&s, at * UNIT, (at + units) * UNIT);
        memset(has + at, 1, units);
    }
    for (uint64_t i = 0; i < HEAP_UNITS; i++) {
        islands += has[i] && empty >= gap;
        empty = has[i] ? 0 : empty + 1;
        assert_true(!has[i] || islands_place(&s, i * UNIT + 5) != UINT64_MAX);
    }
    assert_int_equal(s.count, islands);
    assert_true(islands_bytes(&s) < (uint64_t)HEAP_UNITS * UNIT);
}

static void test_islands_lie_next_to_each_other(void **state)
{
    struct islands s = {0};
    islands_add(&s, 10 * LEAST_GAP, 11 * LEAST_GAP);
    islands_add(&s, 100, 200);
    islands_add(&s, 10 * LEAST_GAP - 8, 10 * LEAST_GAP);
    assert_int_equal(s.count, 2);
    assert_int_equal(islands_place(&s, 150), 50);
    assert_int_equal(islands_place(&s, 10 * LEAST_GAP), 108);
    assert_true(islands_place(&s, 300) == UINT64_MAX && islands_place(&s, 99) == UINT64_MAX);
    islands_round(&s);
    assert_int_equal(s.of[0].from, 100);
    assert_int_equal(s.of[0].to, 2 * UNIT);
    assert_true(s.of[1].from % UNIT == 0 && s.of[1].to == 11 * LEAST_GAP);
    for (uint64_t i = 0; i < 3 * MOST_ISLANDS; i++)
        islands_add(&s, (20 + 3 * i + i % 2) * LEAST_GAP, (20 + 3 * i + i % 2) * LEAST_GAP + 8);
    assert_int_equal(s.count, MOST_ISLANDS);
    for (uint64_t i = 0; i < 3 * MOST_ISLANDS; i++)
        assert_true(islands_place(&s, (20 + 3 * i + i % 2) * LEAST_GAP) != UINT64_MAX);
}

int run_picture_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_covers_cells),
        cmocka_unit_test(test_map_equals_bytes),
        cmocka_unit_test(test_map_cuts_off),
        cmocka_unit_test(test_glow_fades),
        cmocka_unit_test(test_layouts_cover_the_grid),
        cmocka_unit_test(test_accesses_and_outlines),
        cmocka_unit_test(test_strip_to_scale),
        cmocka_unit_test(test_yuv_of_colours),
        cmocka_unit_test(test_states_differ),
        cmocka_unit_test(test_text_fills_its_place),
        cmocka_unit_test(test_legend_says_what_is_missing),
        cmocka_unit_test(test_text_shows_its_end),
        cmocka_unit_test(test_values_of_cells),
        cmocka_unit_test(test_colours_by_age_and_size),
        cmocka_unit_test(test_colours_by_site),
        cmocka_unit_test(test_steps_of_ticks),
        cmocka_unit_test(test_ticks_are_at_their_places),
        cmocka_unit_test(test_numbers_as_text),
        cmocka_unit_test(test_all_parts_fit),
        cmocka_unit_test(test_islands_equal_units),
        cmocka_unit_test(test_islands_lie_next_to_each_other),
    };
    return cmocka_run_group_tests_name("picture", tests, NULL, NULL);
}
