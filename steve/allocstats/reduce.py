"""Leave the accesses out of an ops file that is going to be replayed many times.

Replays skip loads, stores and modifies, but each would have to read them again, and they are most of a file.
What is left (N, F and R, with threads and times) is written in the binary form. A lockops file is taken as it
is: there every line counts.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os

from steve.system.output import Output


def heap_events_only(ops: str, folder: str) -> str:
    """Write the N, F and R of `ops` into `folder` under its own name; the path of what to replay, absolute.

    TraceError if the file cannot be read."""
    from steve.kernels import _ops
    from steve.trace._memtrace import OpsFile

    source, reduced = OpsFile(ops), os.path.join(os.path.abspath(folder), os.path.basename(ops))
    if source.kind == "lockops":
        return os.path.abspath(ops)
    with Output(reduced) as out:
        _ops.write_heap_ops(source, out.fd)
    if source.problem is not None:
        raise source.problem
    return reduced
