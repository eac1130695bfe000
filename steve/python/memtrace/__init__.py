"""memtrace: read the recorded history of a program's heap.

    import memtrace

    with memtrace.open("app.ljt") as trace:
        print(trace.info["command"])
        for event in trace:
            if event.kind == "new":
                print(event.size, [frame.function for frame in trace.frames(event.stack)])

An event is a named tuple. Programs that read many millions of events use arrays of numpy instead, which are fifty times
faster, and leave out loads and stores if they do not need them:

    with memtrace.open("app.ljt", accesses=False) as trace:
        allocated = sum(int(array["size"][array["kind"] == memtrace.NEW].sum()) for array in trace.arrays())

A trace may be binary (`.ljt`) or classic text, plain or compressed with zstd. An ops file is read with open_ops().
The meaning of events and definitions is in the C header memtrace/memtrace.h; names are the same here. This package
reads; to write files, use the C library libmemtrace. A Trace belongs to one thread.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import sys

try:
    from memtrace._where import STEVE  # written by `make install`
except ModuleNotFoundError:  # in the build tree, where steve is found without it
    pass
else:
    if STEVE not in sys.path:
        sys.path.append(STEVE)

from steve.system.errors import TraceError  # noqa: E402
from steve.trace._memtrace import VERSION  # noqa: E402

from memtrace import kinds  # noqa: E402
from memtrace.kinds import *  # noqa: F401, F403, E402
from memtrace.ops import Op, Ops, open_ops  # noqa: E402
from memtrace.trace import Event, Frame, Heap, Site, Trace, open  # noqa: E402

__version__: str = VERSION
__all__ = [
    "Event",
    "Frame",
    "Heap",
    "Op",
    "Ops",
    "Site",
    "Trace",
    "TraceError",
    "open",
    "open_ops",
]
__all__ += kinds.__all__
