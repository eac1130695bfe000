"""leftovers - find the processes that remain after tests, and end them.

Each process of a test run carries a mark in its environment, whatever became of its parents. The recorder's
collector outlives its program for the moment it takes to end the file, so processes get some
time before they count as left over. Processes that cleared their environment are not found. The runner decides
whether a remaining process is a failure.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import signal
import time
from pathlib import Path

MARK = "LJTRACE_CHECK_RUN"
PATIENCE = float(os.environ.get("LJTRACE_CHECK_PATIENCE") or 600)


def marked_environment(base: dict[str, str]) -> tuple[dict[str, str], bytes]:
    """An environment with a unique mark, and the mark."""
    text = f"{MARK}={os.getpid()}-{time.monotonic_ns()}"
    return {**base, MARK: text.partition("=")[2]}, text.encode()


def words_of(pid: int) -> str:
    """A process's command line, its state and its parent, as text; nothing for a process that has ended."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        state, parent = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    except OSError:
        return ""
    return f"{line} (state {state}, child of {parent})" if line else ""


def living(mark: bytes) -> dict[int, str]:
    """Processes with the mark, with their command lines; those that have ended but were not waited for have
    none."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            marked = mark in entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if marked and (words := words_of(int(entry.parent.name))):
            found[int(entry.parent.name)] = words
    return found


def collect(mark: bytes, patience: float = PATIENCE) -> list[str]:
    """Command lines of the marked processes that do not end by themselves in time; they are killed."""
    end = time.monotonic() + patience
    while (found := living(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    end_all(mark)
    return list(found.values())


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended meanwhile


def end_all(mark: bytes) -> None:
    """Kill the marked processes, including those that they start meanwhile, and wait until they have ended,
    at most a minute."""
    end = time.monotonic() + 60
    while (found := living(mark)) and time.monotonic() < end:
        for pid in found:
            kill(pid)
        time.sleep(0.01)
