/* programs.c - small programs whose heap accesses the benchmark records.
 *
 * They are real algorithms that use real blocks, because artificial patterns are much better or much worse predicted.
 * Sites are numbered by hand, one for each place in the code that accesses memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/bench/recorder.h"

#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

/* a[i] = b[i] + c[i], over arrays of 8 MB */
static void sweep(struct recording *r, size_t n)
{
    enum { LENGTH = 1 << 20 };
    double *a = record_malloc(r, LENGTH * 8), *b = record_malloc(r, LENGTH * 8),
           *c = record_malloc(r, LENGTH * 8);
    for (size_t i = 0; r->count < n; i = (i + 1) % LENGTH) {
        record(r, 9, &b[i]);
        record(r, 11, &c[i]);
        record(r, 10, &a[i]);
    }
    record_free(r, a);
    record_free(r, b);
    record_free(r, c);
}

/* matrix product of rows that are blocks of their own */
static void matrix(struct recording *r, size_t n)
{
    enum { SIZE = 200 };
    double **m[3];
    for (int k = 0; k < 3; k++) {
        m[k] = record_malloc(r, SIZE * sizeof(double *));
        for (int i = 0; i < SIZE; i++)
            m[k][i] = record_malloc(r, SIZE * sizeof(double));
    }
    while (r->count < n)
        for (int i = 0; i < SIZE; i++)
            for (int j = 0; j < SIZE; j++) {
                for (int k = 0; k < SIZE; k++) {
                    record(r, 21, &m[0][i][k]);
                    record(r, 23, &m[1][k]);
                    record(r, 25, &m[1][k][j]);
                }
                record(r, 22, &m[2][i][j]);
            }
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < SIZE; i++)
            record_free(r, m[k][i]);
        record_free(r, m[k]);
    }
}

struct node {
    struct node *left, *right;
    uint64_t key;
};

/* walking a list whose order in memory is random */
static void chase(struct recording *r, size_t n)
{
    enum { NODES = 100000 };
    struct node **all = malloc(NODES * sizeof *all);
    for (int i = 0; i < NODES; i++)
        all[i] = record_malloc(r, sizeof **all);
    for (int i = NODES - 1; i > 0; i--) {
        size_t j = next_random() % (size_t)(i + 1);
        struct node *swap = all[i];
        all[i] = all[j];
        all[j] = swap;
    }
    for (size_t i = 0; r->count < n; i = (i + 1) % NODES) {
        record(r, 31, &all[i]->key);
        record(r, 33, &all[i]->left);
    }
    for (int i = 0; i < NODES; i++)
        record_free(r, all[i]);
    free(all);
}

static struct node *make_tree(struct recording *r, int depth)
{
    struct node *t = record_malloc(r, sizeof *t);
    t->left = depth ? make_tree(r, depth - 1) : NULL;
    record(r, 42, &t->left);
    t->right = depth ? make_tree(r, depth - 1) : NULL;
    record(r, 44, &t->right);
    return t;
}

static void walk_tree(struct recording *r, struct node *t)
{
    record(r, 45, &t->left);
    if (!t->left)
        return;
    walk_tree(r, t->left);
    record(r, 47, &t->right);
    walk_tree(r, t->right);
}

static void free_tree(struct recording *r, struct node *t)
{
    record(r, 49, &t->left);
    if (t->left)
        free_tree(r, t->left);
    record(r, 51, &t->right);
    if (t->right)
        free_tree(r, t->right);
    record_free(r, t);
}

/* building, walking and freeing binary trees */
static void trees(struct recording *r, size_t n)
{
    for (int depth = 4; r->count < n; depth = depth == 16 ? 4 : depth + 2)
        for (int i = 0; i < 1 << (16 - depth); i++) {
            struct node *t = make_tree(r, depth);
            for (int k = 0; k < 4; k++)
                walk_tree(r, t);
            free_tree(r, t);
        }
}

/* look-ups of random keys in a chained hash table */
static void hash(struct recording *r, size_t n)
{
    enum { BUCKETS = 1 << 16 };
    struct node **table = record_malloc(r, BUCKETS * sizeof *table);
    memset(table, 0, BUCKETS * sizeof *table);
    for (uint64_t i = 0; i < BUCKETS; i++) {
        uint64_t key = next_random();
        struct node *e = record_malloc(r, sizeof *e);
        *e = (struct node){table[key % BUCKETS], NULL, key};
        table[key % BUCKETS] = e;
        record(r, 62, &table[key % BUCKETS]);
    }
    while (r->count < n) {
        size_t b = next_random() % BUCKETS;
        record(r, 63, &table[b]);
        for (struct node *e = table[b]; e; e = e->left) {
            record(r, 65, &e->key);
            record(r, 67, &e->left);
        }
    }
    for (size_t b = 0; b < BUCKETS; b++)
        for (struct node *e = table[b], *next; e; e = next) {
            next = e->left;
            record_free(r, e);
        }
    record_free(r, table);
}

/* a bytecode interpreter: instruction fetch, then operands on its stack, in a table, in an upvalue */
static void interpreter(struct recording *r, size_t n)
{
    enum { CODE = 64, FRAME = 32, TABLE = 1 << 12 };
    uint32_t *code = record_malloc(r, CODE * 4);
    uint64_t *stack = record_malloc(r, FRAME * 64 * 8), *table = record_malloc(r, TABLE * 8),
             *up = record_malloc(r, 16);
    for (int i = 0; i < CODE; i++)
        code[i] = (uint32_t)next_random();
    for (size_t step = 0; r->count < n; step++) {
        size_t at = step % CODE, base = step / CODE % 8 * FRAME;
        uint32_t op = code[at] % 5, arg = code[at] / 5;
        record(r, 101 + 2 * op, &code[at]);
        record(r, 121 + 2 * op, &stack[base + arg % FRAME]);
        if (op < 2)
            record(r, 140 + 2 * op, &stack[base + arg / FRAME % FRAME]);
        else if (op == 2)
            record(r, 151, &table[step % TABLE]);
        else
            record(r, 161, up);
    }
    record_free(r, code);
    record_free(r, stack);
    record_free(r, table);
    record_free(r, up);
}

/* quicksort of random numbers */
static void sort_part(struct recording *r, uint64_t *a, long low, long high)
{
    while (low < high) {
        long i = low, j = high;
        uint64_t pivot = a[(low + high) / 2];
        record(r, 71, &a[(low + high) / 2]);
        while (i <= j) {
            for (; record(r, 73, &a[i]), a[i] < pivot; i++)
                continue;
            for (; record(r, 75, &a[j]), a[j] > pivot; j--)
                continue;
            if (i <= j) {
                uint64_t swap = a[i];
                record(r, 74, &a[i]);
                record(r, 76, &a[j]);
                a[i++] = a[j];
                a[j--] = swap;
            }
        }
        sort_part(r, a, low, j);
        low = i;
    }
}

static void sort(struct recording *r, size_t n)
{
    enum { LENGTH = 1 << 16 };
    uint64_t *a = record_malloc(r, LENGTH * sizeof *a);
    while (r->count < n) {
        for (int i = 0; i < LENGTH; i++)
            a[i] = next_random();
        sort_part(r, a, 0, LENGTH - 1);
    }
    record_free(r, a);
}

/* three accesses of four to globals, as in a C program */
static void globals(struct recording *r, size_t n)
{
    static uint64_t data[4096];
    uint64_t *block = record_malloc(r, 4096);
    for (size_t i = 0; r->count < n; i++) {
        for (unsigned k = 0; k < 3; k++)
            record(r, 81 + 2 * k, &data[(i * 7 + k * 100) % 4096]);
        record(r, 87, &block[i % 512]);
    }
    record_free(r, block);
}

/* nothing but allocations, of random sizes and lifetimes */
static void churn(struct recording *r, size_t n)
{
    enum { LIVE = 10000 };
    void **live = calloc(LIVE, sizeof *live);
    while (r->count < n) {
        size_t i = next_random() % LIVE;
        if (live[i])
            record_free(r, live[i]);
        live[i] = record_malloc(r, 16 << next_random() % 6);
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i])
            record_free(r, live[i]);
    free(live);
}

const struct program programs[] = {
    {"sweep", sweep}, {"matrix", matrix},           {"chase", chase}, {"trees", trees},     {"hash", hash},
    {"sort", sort},   {"interpreter", interpreter}, {"churn", churn}, {"globals", globals}, {NULL, NULL}};
