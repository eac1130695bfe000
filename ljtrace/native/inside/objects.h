/* objects.h - reports the object files that are mapped into the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_OBJECTS_H
#define LJTRACE_NATIVE_INSIDE_OBJECTS_H

/* Report all that are mapped and were not reported, and wait until the collector has opened their files. Call it while the
 * ring is not locked: when the recording begins, and when the dynamic linker has mapped objects. */
void native_objects_update(void);
/* Write which of the reported objects are no longer mapped. Only while the ring is locked. */
void native_objects_unmapped(void);
/* Another recording begins: nothing was reported. */
void native_objects_restart(void);

#endif
