# SPDX-License-Identifier: GPL-2.0-or-later
"""Leave the accesses out of an ops file that is going to be replayed many times.

Replays skip loads, stores and modifies, but each would have to read them again, and they are most of a file.
A lockops file is taken as it is: there every line counts.
"""
from __future__ import annotations

import os

from steve.output import Output

LETTERS = "NF"
FIRST_ACCESS = len(LETTERS)


def heap_events_only(ops: str, folder: str) -> str:
    """Write the N and F of `ops` into `folder` under its own name; the path of what to replay, absolute.

    TraceError if the file cannot be read."""
    from steve._memtrace import OpsFile

    source, reduced = OpsFile(ops), os.path.join(os.path.abspath(folder), os.path.basename(ops))
    with Output(reduced) as out:
        for batch in source.batches():
            if source.kind == "lockops":
                break
            kept = batch[batch["code"] < FIRST_ACCESS]
            rows = zip(*(kept[name].tolist() for name in ("handle", "code", "addr", "size")))
            out.write(
                "".join(f"{handle} {LETTERS[code]} {addr} {size}\n" for handle, code, addr, size in rows)
            )
    if source.problem is not None:
        raise source.problem
    return os.path.abspath(ops) if source.kind == "lockops" else reduced
