"""Operations of an ops file as arrays, for programs that make ops files of others or of nothing.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from steve.system.output import Output
from steve.system.tempfiles import scratch_folder

if TYPE_CHECKING:
    import numpy as np

NEW, FREE, RESIZE = 0, 1, 8  # enum ops_code of memtrace/ops.h
LETTERS = {NEW: "N", FREE: "F", RESIZE: "R"}
ALIGNMENT = 16
AT_ONCE = 1 << 16  # operations that are Python objects at a time


class Ops(NamedTuple):
    """The N, F and R of a program in order. thread and time are 0 where they are not known."""

    code: np.ndarray  # u1
    handle: np.ndarray  # i8
    size: np.ndarray  # i8; of F 0
    thread: np.ndarray  # i8
    time: np.ndarray  # i8

    def part(self, chosen: np.ndarray | slice) -> Ops:
        """Some of the operations."""
        return Ops(*(column[chosen] for column in self))


def rows(*columns: np.ndarray) -> Iterator[tuple[int, ...]]:
    """What arrays of one length have at each index, as Python objects, of which there are never many at a time."""
    for begin in range(0, len(columns[0]), AT_ONCE):
        yield from zip(*(column[begin : begin + AT_ONCE].tolist() for column in columns))


def read(path: str) -> Ops:
    """Read the N, F and R of an ops or lockops file. TraceError if it cannot be read."""
    return _read(path, accesses=False)[0]


def read_all(path: str) -> tuple[Ops, bool]:
    """The same, and whether the file has no other operations."""
    return _read(path, accesses=True)


def _read(path: str, accesses: bool) -> tuple[Ops, bool]:
    """accesses: read these, too, so that it is known whether there are any."""
    import numpy as np

    from steve.trace._memtrace import OpsFile

    file = OpsFile(path, accesses=accesses)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in Ops._fields}
    is_all = True
    for batch in file.batches():
        code = batch["code"]
        chosen = batch[(code == NEW) | (code == FREE) | (code == RESIZE)]
        is_all = is_all and len(chosen) == len(batch)
        for name, parts in columns.items():
            parts.append(chosen[name].astype("u1" if name == "code" else "i8"))
    if file.problem is not None:
        raise file.problem
    joined = []
    for name in Ops._fields:
        parts = columns.pop(name)  # so that its memory is free before the next one is joined
        joined.append(np.concatenate(parts) if parts else np.zeros(0, "i8"))
    return Ops(*joined), is_all


def made(code: list[int] | np.ndarray, handle: list[int] | np.ndarray, size: list[int] | np.ndarray) -> Ops:
    """Operations without threads and times."""
    import numpy as np

    nothing = np.zeros(len(code), "i8")
    return Ops(np.asarray(code, "u1"), np.asarray(handle, "i8"), np.asarray(size, "i8"), nothing, nothing)


def _lines(ops: Ops) -> Iterator[str]:
    """The lines of the text form. Every N and R has an address of its own."""
    import numpy as np

    room = np.where(ops.code == FREE, 0, -(-np.maximum(ops.size, 1) // ALIGNMENT) * ALIGNMENT)
    address = np.cumsum(room) - room + ALIGNMENT
    address[ops.code == FREE] = 0
    thread = time = 0
    for row in rows(ops.code, ops.handle, address, ops.size, ops.thread, ops.time):
        if row[4] != thread:
            thread = row[4]
            yield f"# thread {thread}\n"
        if row[5] != time:
            time = row[5]
            yield f"# time {time}\n"
        yield f"{row[1]} {LETTERS[row[0]]} {row[2]} {row[3]}\n"


def write(path: str, ops: Ops, comments: list[str] | None = None) -> None:
    """Write an ops file in the text form, after lines of comments."""
    with Output(path) as out:
        out.write("".join(f"# {line}\n" for line in comments or []))
        lines = _lines(ops)
        while some := list(itertools.islice(lines, AT_ONCE)):
            out.write("".join(some))


def write_binary(path: str, ops: Ops) -> None:
    """Write an ops file in the binary form, which is read faster."""
    from steve.kernels import _ops
    from steve.trace._memtrace import OpsFile

    with scratch_folder("steve-ops-") as folder, Output(path) as out:
        text = os.path.join(folder, "text")
        write(text, ops)
        _ops.copy_ops(OpsFile(text, kind="ops"), out.fd, form="binary")


def halves(ops: Ops) -> tuple[Ops, Ops]:
    """The first and the second half of the operations. The second begins with N of the blocks that are live then."""
    import numpy as np

    middle = len(ops.code) // 2
    first, second = ops.part(slice(0, middle)), ops.part(slice(middle, None))
    last: dict[int, int] = {}
    for index, (code, handle) in enumerate(rows(first.code, first.handle)):
        if code == FREE:
            last.pop(handle, None)
        else:
            last[handle] = index
    live = first.part(np.fromiter(last.values(), "i8", len(last)))
    live = live._replace(code=np.full(len(live.code), NEW, "u1"))
    return first, Ops(*(np.concatenate(pair) for pair in zip(live, second)))
