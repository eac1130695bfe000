/* workers.c - a server of four processes, one of which leaks.
 *
 * As nginx and PostgreSQL do, it reads its settings once and forks a worker for each kind of request. A request has a
 * session, which is freed at its end. Of an upload a note is kept in a list that nothing reads: only the worker for
 * uploads grows.
 *
 *     cc -g -O1 -o workers workers.c && mkdir w && ljtrace run --out=w/workers.%p.ljt ./workers
 *     steve summary w
 *     steve leaks w --by line
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS 500

static const char *const s_kinds[] = {"page", "search", "upload", "login"};

struct note {
    struct note *next;
    char text[48];
};

static struct note *s_notes;
static char *s_settings;

static void remember(const char *kind, int request)
{
    struct note *note = malloc(sizeof *note);

    snprintf(note->text, sizeof note->text, "%s %d", kind, request);
    note->next = s_notes;
    s_notes = note;
}

static void serve(const char *kind, int request)
{
    char *session = malloc(1024);

    snprintf(session, 1024, "%s %d %s", kind, request, s_settings);
    if (!strcmp(kind, "upload"))
        remember(kind, request);
    free(session);
}

static void work(const char *kind)
{
    for (int request = 0; request < REQUESTS; request++)
        serve(kind, request);
}

int main(void)
{
    s_settings = strdup("timeout=60");
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            work(s_kinds[i]);
            return 0;
        }
    while (wait(NULL) > 0)
        ;
    free(s_settings);
    return 0;
}
