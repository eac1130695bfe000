/* functions.h - the names of the C functions of all loaded objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROFILERS_FUNCTIONS_H
#define LJTRACE_PROFILERS_FUNCTIONS_H

#include <stdint.h>

/* What functions_report does with the name and address of a function. */
typedef void functions_found(const char *name, uint64_t code, void *argument);

/* Forget which objects were reported. */
void functions_forget(void);
/* Report the functions of all objects that were not reported yet, as their symbol tables have them. What lies between two
 * functions and belongs to neither gets the name of the object, such as [luajit], because readers take the nearest symbol
 * before an address. It works in signal handlers: while objects are being loaded or unloaded it does nothing. */
void functions_report(functions_found *found, void *argument);

#endif
