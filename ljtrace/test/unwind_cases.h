/* unwind_cases.h - what test_unwind.c and its code in C++ share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TEST_UNWIND_CASES_H
#define LJTRACE_TEST_UNWIND_CASES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Compare the stack of the caller with libgcc's. */
void unwind_compare(void);
/* Throw exceptions, and compare within destructors, handlers and the functions that throw. */
void unwind_exceptions(void);

#ifdef __cplusplus
}
#endif

#endif
