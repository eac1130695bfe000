/* main.c - film-painter: reads scenes of a replay and writes frames for ffmpeg.
 *
 * It is a program of its own, because the process of a replay must not call a library that allocates memory. It also
 * draws while the replay goes on. A film is written as yuv420p, a picture as bgr0.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/frame.h"
#include "drivers/painter/poster.h"
#include "drivers/painter/yuv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct painter {
    struct scene_head head;
    struct frame frame;
    struct poster poster;
    uint32_t *looks;
    uint64_t cells;     /* room in `looks` */
    unsigned char *yuv; /* a frame of a film */
};

/* False: the input ends before. */
static bool read_bytes(void *to, size_t size)
{
    for (char *at = to; size;) {
        ssize_t n = read(STDIN_FILENO, at, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* If ffmpeg has ended, so does this process, by SIGPIPE. */
static bool write_bytes(const void *from, size_t size)
{
    for (const char *at = from; size;) {
        ssize_t n = write(STDOUT_FILENO, at, size);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool open_picture(struct painter *p)
{
    bool poster = p->head.film.kind == FILM_POSTER;
    if (poster ? !poster_open(&p->poster, &p->head) : !frame_open(&p->frame, &p->head))
        return false;
    p->cells = poster ? (uint64_t)p->poster.at.rows : frame_cells(&p->frame);
    p->looks = calloc(p->cells, sizeof *p->looks);
    p->yuv = malloc(yuv_bytes((int)p->head.film.width, (int)p->head.film.height));
    return p->looks && p->yuv;
}

static bool write_frame(struct painter *p, bool again)
{
    const struct canvas *c = p->head.film.kind == FILM_POSTER ? &p->poster.canvas : &p->frame.canvas;
    if (p->head.film.kind != FILM_MOVIE)
        return write_bytes(c->pixels, (size_t)c->width * (size_t)c->height * sizeof *c->pixels);
    if (!again)
        yuv_from_canvas(p->yuv, c);
    return write_bytes(p->yuv, yuv_bytes(c->width, c->height));
}

static bool draw(struct painter *p, const struct scene *s)
{
    if (p->head.film.kind == FILM_POSTER)
        poster_add(&p->poster, s, p->looks);
    else if (s->kind == SCENE_SHOWN)
        frame_paint(&p->frame, s, p->looks);
    else if (s->kind == SCENE_STEP)
        frame_pass(&p->frame, s);
    return s->kind == SCENE_STEP || write_frame(p, s->kind == SCENE_AGAIN);
}

int main(void)
{
    static struct painter p;
    struct scene s;
    if (!read_bytes(&p.head, sizeof p.head))
        return 0;
    if (!open_picture(&p)) {
        fprintf(stderr, "steve-replay: out of memory for the picture\n");
        return 1;
    }
    while (read_bytes(&s, sizeof s) && s.cells <= p.cells && read_bytes(p.looks, s.cells * sizeof *p.looks))
        if (!draw(&p, &s))
            return 1;
    return 0;
}
