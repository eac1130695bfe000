/* sums.h - the rows of sums.def as structs, how a row of a shard is merged with that of the shards before it (ROW_merge),
 * and how a life is added to a row of sums over lives (ROW_add) and to its variances (ROW_vary).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_SUMS_H
#define STEVE_KERNELS_BASE_SUMS_H

#include "steve/kernels/base/life.h"
#include "steve/kernels/base/sums.def"

#include <stddef.h>

#define SITE_RULES_PARTS 32
#define SUMS_THREADS 65536 /* numbers of threads */
/* Kinds of blocks: those of Lua heaps by enum mt_type, others by their heap's enum mt_heap_kind. */
#define LINEWORK_KINDS (MT_TYPES + MT_HEAP_KINDS)

#define SUMS_NOTHING(...)

/* ---- the structs --------------------------------------------------------------------------- */

#define SUMS_U uint64_t
#define SUMS_I int64_t
#define SUMS_D double

#define SUMS_FIELD_L(name, ...) uint64_t name;
#define SUMS_FIELD_S(name, type, ...) SUMS_##type name;
#define SUMS_FIELD_A(name, type, n, ...) SUMS_##type name[n];
#define SUMS_FIELD_R(name, row) struct row name;

#define SUMS_STRUCT(row)                                                                                     \
    struct row {                                                                                             \
        SUMS_OF_##row(SUMS_FIELD_L, SUMS_FIELD_S, SUMS_FIELD_A, SUMS_FIELD_R)                                \
    };
SUMS_ROWS(SUMS_STRUCT)

/* variance(...), for each sum that has one */
#define SUMS_IF_VARIED_SCALED(variance, ...)
#define SUMS_IF_VARIED_TIMES(variance, ...)
#define SUMS_IF_VARIED_OWN(variance, ...)
#define SUMS_IF_VARIED_VARIED(variance, ...) variance(__VA_ARGS__)
#define SUMS_FIELD_VARIANCE(name) double name;
#define SUMS_FIELD_VARIANCE_L(name, unit, merge, estimate, x)                                                \
    SUMS_IF_VARIED_##estimate(SUMS_FIELD_VARIANCE, name)
#define SUMS_FIELD_VARIANCE_S(name, type, unit, merge, estimate)                                             \
    SUMS_IF_VARIED_##estimate(SUMS_FIELD_VARIANCE, name)

/* The variances of the sums of a row. */
#define SUMS_VARIANCES(row)                                                                                  \
    struct row##_variances {                                                                                 \
        SUMS_OF_##row(SUMS_FIELD_VARIANCE_L, SUMS_FIELD_VARIANCE_S, SUMS_NOTHING, SUMS_NOTHING)              \
    };
SUMS_VARIED_ROWS(SUMS_VARIANCES)

/* ---- merged -------------------------------------------------------------------------------- */

#define SUMS_MERGE_ADD(to, from) (to) += (from);
#define SUMS_MERGE_MOST(to, from) (to) = (from) > (to) ? (from) : (to);
#define SUMS_MERGE_LAST(to, from) (to) = (from);
#define SUMS_MERGE_BITS(to, from) (to) |= (from);
#define SUMS_MERGE_KERNEL(to, from)

#define SUMS_MERGE_L(name, unit, merge, estimate, x) SUMS_MERGE_##merge(to->name, from->name)
#define SUMS_MERGE_S(name, type, unit, merge, estimate) SUMS_MERGE_##merge(to->name, from->name)
#define SUMS_MERGE_A(name, type, n, unit, merge)                                                             \
    for (size_t i = 0; i < (n); i++) {                                                                       \
        SUMS_MERGE_##merge(to->name[i], from->name[i])                                                       \
    }
#define SUMS_MERGE_R(name, row) row##_merge(&to->name, &from->name);

/* from: of the shard that follows those of `to`. */
#define SUMS_MERGE(row)                                                                                      \
    static inline void row##_merge(struct row *to, const struct row *from)                                   \
    {                                                                                                        \
        SUMS_OF_##row(SUMS_MERGE_L, SUMS_MERGE_S, SUMS_MERGE_A, SUMS_MERGE_R)                                \
    }
SUMS_ROWS(SUMS_MERGE)

/* ---- sums over lives ------------------------------------------------------------------------ */

#define SUMS_COUNT(name, unit, merge, estimate, x) SUMS_MERGE_##merge(to->name, (uint64_t)(x))

#define SUMS_ESTIMATE(name, unit, merge, estimate, x) SUMS_ESTIMATE_##estimate(name, merge, (uint64_t)(x))
#define SUMS_ESTIMATE_OWN(name, merge, x) SUMS_MERGE_##merge(to->name, x)
#define SUMS_ESTIMATE_SCALED(name, merge, x) SUMS_MERGE_##merge(to->name, life_scaled(l, x))
#define SUMS_ESTIMATE_TIMES(name, merge, x) SUMS_MERGE_##merge(to->name, life_scaled(l, 1) * x)
#define SUMS_ESTIMATE_VARIED(name, merge, x) SUMS_ESTIMATE_SCALED(name, merge, x)
#define SUMS_VARY_SUM(name, x) to->name += life_variance(l, (uint64_t)(x));
#define SUMS_VARY_L(name, unit, merge, estimate, x) SUMS_IF_VARIED_##estimate(SUMS_VARY_SUM, name, x)

#define SUMS_ADD(row)                                                                                        \
    static inline void row##_add(struct row *to, const struct life *l)                                       \
    {                                                                                                        \
        if (l->weight == 0) {                                                                                \
            SUMS_OF_##row(SUMS_COUNT, SUMS_NOTHING, SUMS_NOTHING, SUMS_NOTHING)                              \
        } else {                                                                                             \
            SUMS_OF_##row(SUMS_ESTIMATE, SUMS_NOTHING, SUMS_NOTHING, SUMS_NOTHING)                           \
        }                                                                                                    \
    }
/* Add the variances of a life of a sample. */
#define SUMS_VARY(row)                                                                                       \
    static inline void row##_vary(struct row##_variances *to, const struct life *l)                          \
    {                                                                                                        \
        SUMS_OF_##row(SUMS_VARY_L, SUMS_NOTHING, SUMS_NOTHING, SUMS_NOTHING)                                 \
    }
SUMS_LIVES_ROWS(SUMS_ADD)
SUMS_VARIED_ROWS(SUMS_VARY)

/* ---- described, for Python ------------------------------------------------------------------ */

/* A sum. Those of a row that is contained in another one have their names after its name and a point. */
struct sum {
    const char *name, *unit, *merge, *estimate; /* as in sums.def; of a variance, "" but the name */
    char type;                                  /* u, i or f, as of numpy */
    size_t n;                                   /* of an array; else 0 */
    const struct sums *row;                     /* of R; else NULL */
};

struct sums {
    const char *name;
    size_t size; /* bytes of a row */
    const struct sum *sums;
    size_t n;
    void (*merge)(void *to, const void *from); /* ROW_merge; of variances NULL */
};

/* All rows of sums.def, and the variances of those that have any, by the name of the row; these are not merged. */
extern const struct sums *const sums_rows[], *const sums_variances[];
extern const size_t sums_n_rows, sums_n_variances;
/* Merge n rows with others of the same kind. */
void sums_merge(const struct sums *sums, void *to, const void *from, size_t n);

#endif
