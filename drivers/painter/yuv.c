/* yuv.c - converts frames to the format of video encoders.
 *
 * Numbers are integers with 8 bits of fraction. The loops are simple, so that the compiler vectorizes them, for the
 * processor at run time where the system supports that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/yuv.h"

#define VECTORS __attribute__((target_clones("avx2", "default"), optimize("O3")))

size_t yuv_bytes(int width, int height)
{
    return (size_t)width * (size_t)height * 3 / 2;
}

VECTORS static void luma(unsigned char *restrict out, const uint32_t *restrict in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t p = in[i], r = p >> 16 & 0xff, g = p >> 8 & 0xff, b = p & 0xff;
        out[i] = (unsigned char)((66 * r + 129 * g + 25 * b + 128 + 16 * 256) >> 8);
    }
}

/* Convert two rows of n pixels. Red and blue are summed in one number, because no sum of four values exceeds 16
 * bits. */
VECTORS static void chroma(unsigned char *restrict u, unsigned char *restrict v, const uint32_t *restrict up,
                           const uint32_t *restrict down, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        uint32_t a = up[2 * i], b = up[2 * i + 1], c = down[2 * i], d = down[2 * i + 1];
        uint32_t rb = (a & 0xff00ff) + (b & 0xff00ff) + (c & 0xff00ff) + (d & 0xff00ff);
        int red = (int)(rb >> 16), blue = (int)(rb & 0xffff);
        int green = (int)((a >> 8 & 0xff) + (b >> 8 & 0xff) + (c >> 8 & 0xff) + (d >> 8 & 0xff));
        u[i] = (unsigned char)((-38 * red - 74 * green + 112 * blue + 512 + 128 * 1024) >> 10);
        v[i] = (unsigned char)((112 * red - 94 * green - 18 * blue + 512 + 128 * 1024) >> 10);
    }
}

void yuv_from_canvas(unsigned char *out, const struct canvas *c)
{
    size_t width = (size_t)c->width, height = (size_t)c->height, pixels = width * height;
    unsigned char *u = out + pixels, *v = u + pixels / 4;
    luma(out, c->pixels, pixels);
    for (size_t y = 0; y + 1 < height; y += 2, u += width / 2, v += width / 2)
        chroma(u, v, c->pixels + y * width, c->pixels + (y + 1) * width, width);
}
