/* system_files.h - which files belong to the system.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Files of the system seldom change while a program runs. Any other file may be removed or built again as soon as it is
 * mapped, so the recorders wait until the collector has opened it.
 */
#ifndef LJTRACE_PROTOCOL_SYSTEM_FILES_H
#define LJTRACE_PROTOCOL_SYSTEM_FILES_H

/* Does a path begin with this folder? */
static inline int system_path_begins(const char *path, const char *folder)
{
    while (*folder && *path == *folder)
        path++, folder++;
    return !*folder;
}

static inline int system_has_file(const char *path)
{
    return system_path_begins(path, "/lib") ||
           (system_path_begins(path, "/usr/") && !system_path_begins(path, "/usr/local/"));
}

#endif
