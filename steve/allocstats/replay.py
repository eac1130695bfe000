"""Run the program steve-replay: find it, query its allocators, start replays, and stop them on interrupts.

The program is $STEVE_REPLAY or `steve-replay` on PATH. Each replay is a process of its own, so a crash of an allocator
affects nothing else. This module does not read ops files.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steve.system.errors import SteveError, UsageError
from steve.system.interrupts import held_back

EXAMPLE = "example_user"  # shows how a driver is written, and is no allocator to choose
OUT_OF_MEMORY = 2  # exit status of steve-replay, also that of wrong usage


@dataclass(frozen=True)
class Driver:
    """An allocator that steve-replay knows, or a driver of the user, whose name is the path of its shared object.

    reason: why it cannot be used, if not `available`. least_heap: bytes below which it cannot start. library: with which
    LD_PRELOAD starts a program on this allocator, or ""."""

    name: str
    available: bool = True
    reason: str = ""
    least_heap: int = 0
    library: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a run of steve-replay ended.

    status: the exit status, or minus the number of a signal. output: standard output. message: the line of stderr that
    explains a failure. usage: did it fail because of wrong usage?"""

    status: int
    output: str
    message: str
    usage: bool = False

    @property
    def out_of_memory(self) -> bool:
        """Did it fail because the heap was too small?"""
        return self.status == OUT_OF_MEMORY and not self.usage


class Replay:
    """Runs steve-replay. Methods may be called from several threads. SteveError if the program is not found."""

    def __init__(self) -> None:
        wanted = os.environ.get("STEVE_REPLAY") or "steve-replay"
        program = shutil.which(wanted)
        if program is None:
            raise SteveError(f"{wanted}: no such program; build it (make), use ./in-place, or set STEVE_REPLAY")
        self.program = os.path.abspath(program)
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def kill(self) -> None:
        """Stop all running replays and any that start later. steve-replay removes its incomplete files itself."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.terminate()

    def _started(
        self, arguments: tuple[str, ...], folder: str | None, env: Mapping[str, str] | None
    ) -> subprocess.Popen[str]:
        """Start a process that kill() can stop."""
        with held_back():
            process = subprocess.Popen(
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=folder,
                env={**os.environ, **env} if env else None,
            )
            with self._lock:
                self._running.add(process)
                if self._ended:
                    process.terminate()
        return process

    def run(self, *arguments: str, folder: str | None = None, env: Mapping[str, str] | None = None) -> Outcome:
        """Run steve-replay to its end, in `folder` if given, with `env` added to the environment. A replay that fails
        does not raise; see Outcome."""
        with self._started(arguments, folder, env) as process:
            try:
                output, errors = process.communicate()
            except BaseException:
                process.terminate()
                process.wait()
                raise
            finally:
                with self._lock:
                    self._running.discard(process)
        return _outcome(process.returncode, output, errors)

    def ask(self, *arguments: str) -> Any:
        """Run a query whose answer is JSON; return the decoded answer. SteveError if it fails."""
        outcome = self.run(*arguments)
        if outcome.status != 0:
            raise SteveError(outcome.message)
        try:
            return json.loads(outcome.output)
        except ValueError:
            raise SteveError(
                f"{self.program} {' '.join(arguments)}: the answer is not JSON; "
                "is it the steve-replay of this version?"
            ) from None

    def drivers(self) -> list[Driver]:
        """All allocators that steve-replay knows, usable or not, in its order."""
        return [
            Driver(
                str(e["name"]),
                bool(e["available"]),
                str(e.get("reason") or ""),
                int(e.get("least_heap") or 0),
                str(e.get("library") or ""),
            )
            for e in self.ask("--list", "--json")
        ]

    def live_peak(self, ops: str) -> int:
        """The greatest number of bytes live at once in an ops file."""
        return int(self.ask("--peakmem", ops, "--json")["live_peak"])


def _outcome(status: int, output: str, errors: str) -> Outcome:
    lines = [line for line in errors.splitlines() if line.strip()]
    usage = bool(lines) and lines[-1].startswith("Try 'steve-replay")
    line = lines[-1 - usage] if len(lines) > usage else ""
    return Outcome(status, output, _meaning(status, line), usage)


def _meaning(status: int, line: str) -> str:
    """How a run ended, as one line for the user. line: the last one on its stderr, or ""."""
    if status < 0:
        return f"killed by {signal.Signals(-status).name}" + (f": {line}" if line else "")
    return line.removeprefix("steve-replay: ") or f"exit status {status} without a message"


def plain_name(allocator: str) -> str:
    """The name of the driver, dlmalloc for `./drivers/plot_dlmalloc`, `dlmalloc.so` or `dlmalloc`."""
    return os.path.basename(allocator).removeprefix("plot_").removesuffix(".so")


def _is_own_driver(allocator: str) -> bool:
    return allocator.endswith(".so") and os.path.exists(allocator)


def _chosen(item: str, known: dict[str, Driver]) -> Driver:
    if _is_own_driver(item):
        return Driver(os.path.abspath(item))
    name = plain_name(item)
    if name not in known:
        raise UsageError(f"unknown allocator '{item}'; there are: {', '.join(known)}")
    if not known[name].available:
        raise SteveError(f"allocator {name} cannot be used: {known[name].reason}")
    return known[name]


def choose(wanted: str, drivers: list[Driver]) -> tuple[list[Driver], list[Driver]]:
    """Select allocators by the argument of --allocator, `all` or `a,b`: (those to run, those left out). The example is
    in neither list unless it is named.

    A name may also be the path of a driver's shared object or, as in old scripts, of plot_NAME. UsageError for an
    unknown name; SteveError for a named allocator that cannot be used on this machine."""
    if wanted == "all":
        allocators = [d for d in drivers if d.name != EXAMPLE]
        return [d for d in allocators if d.available], [d for d in allocators if not d.available]
    known = {driver.name: driver for driver in drivers}
    items = [part.strip() for part in wanted.split(",") if part.strip()]
    if not items:
        raise UsageError("no allocator named; use --allocator all, or names with commas")
    return list(dict.fromkeys(_chosen(item, known) for item in items)), []


def left_out(drivers: list[Driver]) -> str:
    """A message: allocators are left out because they cannot be used on this machine."""
    return f"without {', '.join(d.name for d in drivers)}, not available here; `steve-replay --list` says why"
