/* app.c - a small C program with a heap worth looking at; the sister of app.lua.
 *
 * It reads made-up log lines, counts their words in a hash map, keeps sessions in a linked list and builds
 * an index in a growing array. All numbers come from a fixed seed, so every run prints the same line and
 * allocates the same blocks. `app N` handles N lines (default 20000).
 *
 * What a report of this program should show:
 *   map_add        nodes and words that live to the end and are freed there; the table itself by calloc;
 *   session_*      a list with middle lifetimes: blocks die in the order they came;
 *   index_add      one array grown by realloc: few resizes, many bytes;
 *   make_line      temporaries: a line and its copy (memcpy) live for one turn of the loop;
 *   audit          blocks that are written and never read, and never freed: waste and leak at once.
 *
 * It does not use files, the clock or threads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define SESSIONS 200

static uint32_t s_seed = 20120823;

static uint32_t random_below(uint32_t n)
{
    s_seed = (uint32_t)((uint64_t)s_seed * 16807 % 2147483647);
    return s_seed % n;
}

static void *need(void *p)
{
    if (p == NULL) {
        fputs("app: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

/* -- words in a hash map ---------------------------------------------------------------------- */

struct node {
    struct node *next;
    char *word;
    uint64_t count;
};

static uint32_t hash(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static void map_add(struct node **map, const char *word, size_t n)
{
    struct node **slot = &map[hash(word, n) % BUCKETS];
    for (struct node *p = *slot; p != NULL; p = p->next) {
        if (strncmp(p->word, word, n) == 0 && p->word[n] == '\0') {
            p->count++;
            return;
        }
    }
    struct node *node = need(malloc(sizeof *node));
    *node = (struct node){.next = *slot, .word = need(malloc(n + 1)), .count = 1};
    memcpy(node->word, word, n);
    node->word[n] = '\0';
    *slot = node;
}

static uint64_t map_free(struct node **map)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct node *p = map[i], *next; p != NULL; p = next) {
            next = p->next;
            sum = sum * 31 + p->count;
            free(p->word);
            free(p);
        }
    }
    free(map);
    return sum;
}

/* -- sessions in a list ----------------------------------------------------------------------- */

struct session {
    struct session *next;
    uint64_t id;
    uint8_t state[80];
};

static struct session *s_first, **s_last = &s_first;
static size_t s_sessions;

static void session_end(void)
{
    struct session *old = s_first;
    s_first = old->next;
    if (s_first == NULL)
        s_last = &s_first;
    s_sessions--;
    free(old);
}

static void session_begin(uint64_t id)
{
    struct session *s = need(calloc(1, sizeof *s));
    s->id = id;
    memset(s->state, (int)(id & 0xff), sizeof s->state / 2);
    *s_last = s;
    s_last = &s->next;
    if (++s_sessions > SESSIONS)
        session_end();
}

/* -- an index that grows ---------------------------------------------------------------------- */

struct index {
    uint64_t *item;
    size_t used, room;
};

static void index_add(struct index *x, uint64_t item)
{
    if (x->used == x->room) {
        x->room = x->room ? 2 * x->room : 16;
        x->item = need(realloc(x->item, x->room * sizeof *x->item));
    }
    x->item[x->used++] = item;
}

/* -- lines ------------------------------------------------------------------------------------ */

static char *make_line(void)
{
    static const char *const part[] = {"open", "close", "read", "write", "seek", "sync", "lock", "stat"};
    size_t room = 96, used = 0;
    char *line = need(malloc(room));
    for (uint32_t words = 3 + random_below(5); words > 0; words--)
        used += (size_t)snprintf(line + used, room - used, "%s%u ", part[random_below(8)], random_below(40));
    return line;
}

/* written, kept by nobody, read by nobody */
static void audit(uint64_t id)
{
    uint64_t *record = need(malloc(6 * sizeof *record));
    for (volatile uint64_t *p = record; p < record + 6; p++)
        *p = id;
}

static void split(struct node **map, const char *line)
{
    size_t n = strlen(line) + 1;
    char *copy = need(malloc(n));
    memcpy(copy, line, n);
    for (const char *word = copy; *word != '\0';) {
        size_t len = strcspn(word, " ");
        map_add(map, word, len);
        word += len + (word[len] == ' ');
    }
    free(copy);
}

static void handle(struct node **map, struct index *x, uint64_t id)
{
    char *line = make_line();
    split(map, line);
    index_add(x, hash(line, strlen(line)));
    free(line);
    session_begin(id);
    if (id % 16 == 0)
        audit(id);
}

int main(int argc, char **argv)
{
    uint64_t lines = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, check = 0;
    struct node **map = need(calloc(BUCKETS, sizeof(struct node *)));
    struct index x = {0};
    for (uint64_t id = 1; id <= lines; id++)
        handle(map, &x, id);
    for (size_t i = 0; i < x.used; i++)
        check = check * 31 + x.item[i];
    while (s_first != NULL)
        session_end();
    free(x.item);
    check ^= map_free(map);
    printf("lines %llu check %016llx\n", (unsigned long long)lines, (unsigned long long)check);
    return 0;
}
