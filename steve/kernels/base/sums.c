/* sums.c - sums.def as tables that Python reads; see sums.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/sums.h"

#define TYPE_U 'u'
#define TYPE_I 'i'
#define TYPE_D 'f'

#define DESCRIBE_L(name, unit, merge, estimate, x) {#name, #unit, #merge, #estimate, 'u', 0, NULL},
#define DESCRIBE_S(name, type, unit, merge, estimate) {#name, #unit, #merge, #estimate, TYPE_##type, 0, NULL},
#define DESCRIBE_A(name, type, n, unit, merge) {#name, #unit, #merge, "OWN", TYPE_##type, n, NULL},
#define DESCRIBE_R(name, row) {#name, "", "", "", 0, 0, &row##_sums},
#define DESCRIBE_VARIANCE(name) {"variance_" #name, "", "", "", 'f', 0, NULL},
#define DESCRIBE_VARIANCE_L(name, unit, merge, estimate, x) SUMS_IF_VARIED_##estimate(DESCRIBE_VARIANCE, name)
#define DESCRIBE_VARIANCE_S(name, type, unit, merge, estimate)                                               \
    SUMS_IF_VARIED_##estimate(DESCRIBE_VARIANCE, name)

#define DESCRIBE(row)                                                                                        \
    static void merge_##row(void *to, const void *from)                                                      \
    {                                                                                                        \
        row##_merge(to, from);                                                                               \
    }                                                                                                        \
    static const struct sum of_##row[] = {SUMS_OF_##row(DESCRIBE_L, DESCRIBE_S, DESCRIBE_A, DESCRIBE_R)};    \
    static const struct sums row##_sums = {#row, sizeof(struct row), of_##row,                               \
                                           sizeof of_##row / sizeof *of_##row, merge_##row};
SUMS_ROWS(DESCRIBE)

#define DESCRIBE_VARIANCES(row)                                                                              \
    static const struct sum of_##row##_variances[] = {                                                       \
        SUMS_OF_##row(DESCRIBE_VARIANCE_L, DESCRIBE_VARIANCE_S, SUMS_NOTHING, SUMS_NOTHING)};                \
    static const struct sums row##_variances_sums = {                                                        \
        #row, sizeof(struct row##_variances), of_##row##_variances,                                          \
        sizeof of_##row##_variances / sizeof *of_##row##_variances, NULL};
SUMS_VARIED_ROWS(DESCRIBE_VARIANCES)

#define ADDRESS(row) &row##_sums,
const struct sums *const sums_rows[] = {SUMS_ROWS(ADDRESS)};
const size_t sums_n_rows = sizeof sums_rows / sizeof *sums_rows;

#define ADDRESS_OF_VARIANCES(row) &row##_variances_sums,
const struct sums *const sums_variances[] = {SUMS_VARIED_ROWS(ADDRESS_OF_VARIANCES)};
const size_t sums_n_variances = sizeof sums_variances / sizeof *sums_variances;

void sums_merge(const struct sums *sums, void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sums->merge((char *)to + i * sums->size, (const char *)from + i * sums->size);
}
