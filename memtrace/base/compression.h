/* compression.h - the level of zstd for everything that this library writes.
 *
 * Traces are compressed while the program runs, so speed is most important; users choose another level by --compress.
 * Binary ops files are made of data like that of traces. Text of operations is compressed better by level 1, too: at
 * level 3, files are 1 to 18% larger and take 1.2 to 1.7 times as long (mkload's trace, and 59 million operations).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_BASE_COMPRESSION_H
#define MEMTRACE_BASE_COMPRESSION_H

enum { COMPRESSION_LEVEL = 1 };

#endif
