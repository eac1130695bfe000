"""Remove the accesses from an ops file that will be replayed many times.

Replays ignore loads, stores and modifies, but each replay would have to read them again, and they are most of a file.
The other operations (N, F and R: New, Free and Resize, with threads and times) are written in the binary form. A
lockops file is used unchanged, because it has no accesses, and replays need its locks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os

from steve.system.output import Output


def heap_events_only(ops: str, folder: str) -> str:
    """Write the N, F and R of the file `ops` to a file of the same name in `folder`.

    Returns the absolute path of the file to replay: the new one, or `ops` if it is a lockops file. TraceError if the
    file cannot be read."""
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
