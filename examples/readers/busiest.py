#!/usr/bin/python3
"""busiest.py - an example of a reader in Python: the functions that allocate most bytes in a memtrace.

    python3 busiest.py app.ljt

It prints the ten functions with most bytes, of those that call the allocator, and what is alive at the end. A resize
counts as an allocation of the new size. busiest.c does the same in C.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import sys
from collections import Counter

import memtrace


def main(path: str) -> None:
    size: Counter[int] = Counter()  # by stack
    count: Counter[int] = Counter()
    live = 0
    with memtrace.open(path, accesses=False) as trace:
        for event in trace:
            if event.kind == "new":
                live += event.size
            elif event.kind == "resize":
                live += event.size - event.old_size
            elif event.kind == "free":
                live -= event.size
            if event.kind in ("new", "resize"):
                size[event.stack] += event.size
                count[event.stack] += 1
        functions: dict[str, list[int]] = {}
        for stack in size:
            named = (frame.function for frame in trace.frames(stack) if frame.function)
            sums = functions.setdefault(next(named, "(unknown)"), [0, 0])
            sums[0] += size[stack]
            sums[1] += count[stack]
    for function, (of_bytes, times) in sorted(functions.items(), key=lambda item: (-item[1][0], item[0]))[:10]:
        print(f"{of_bytes:12} bytes {times:9} times  {function}")
    print(f"{live:12} bytes live at the end")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: busiest.py FILE")
    try:
        main(sys.argv[1])
    except memtrace.TraceError as error:
        sys.exit(f"busiest.py: {error}")
