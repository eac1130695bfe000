"""Helpers of the replay tests: random ops files, what they mean, and running steve-replay.

The model here is a second, slow reading of ops files, written apart from the C one, so that sums and peaks
have something to be compared with. It does not model allocators.

SPDX-License-Identifier: GPL-2.0-or-later
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 1800
BUILD = Path(os.environ.get("LJTRACE_BUILDDIR", "."))
SOURCE = Path(os.environ.get("LJTRACE_SRCDIR", "."))
REPLAY = shutil.which("steve-replay") or "steve-replay"
BAD = str(BUILD / "drivers/test/bad.so")
SKELETON = str(BUILD / "drivers/test/skeleton.so")


def allocators(*words: str) -> list[str]:
    """The drivers in drivers/allocators/allocators.def of these groups, or with such calls."""
    text = (SOURCE / "drivers/allocators/allocators.def").read_text()
    return [row[0] for row in re.findall(r'^ALLOCATOR\("(.+?)", (\w+), (\w+),', text, re.M) if {*row} & {*words}]


REAL = allocators("LIBRARY")
TAGGED = allocators("TAGGED")
JEFF = allocators("JEFF")
OWN = [*allocators("REFERENCE", "TAGGED", "JEFF"), "example_user"]
ALL = [*allocators("BOUND"), *OWN, *REAL]


def replay(*args: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run steve-replay and return its output as text. If it does not end in time, all its processes are
    killed."""
    words = [REPLAY, *map(str, args)]
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        process_group=0,
    ) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@dataclass
class Model:
    """Sizes of the live blocks after each N, F and R operation of an ops text."""

    used: list[int] = field(default_factory=list)
    locked: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    ops: list[tuple[str, int]] = field(default_factory=list)
    total: int = 0
    peak: int = 0


def read_model(text: str) -> Model:
    """Compute a Model by simple code. `locked` is the state just before the next N or F."""
    m = Model()
    live: dict[int, int] = {}
    locked: set[int] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        handle, op, _, size = line.split()
        if op == "N":
            live[int(handle)] = int(size)
            m.total += int(size)
            m.ops.append(("N", int(size)))
        elif op == "R":
            m.total += max(0, int(size) - live[int(handle)])
            live[int(handle)] = int(size)
            m.ops.append(("R", int(size)))
        elif op in "SM" or (op == "L" and size != "0"):
            continue
        elif op == "F":
            locked.discard(int(handle))
            m.ops.append(("F", live.pop(int(handle))))
        else:
            (locked.add if op == "L" else locked.discard)(int(handle))
            continue
        m.used.append(sum(live.values()))
        m.locked.append(sum(live[h] for h in locked))
        m.blocks.append(len(live))
        m.peak = max(m.peak, m.used[-1])
    return m


def random_ops(
    count: int, seed: int, most_live: int = 200, locks: bool = False, largest: int = 16, resize: float = 0
) -> str:
    """A valid ops text (with `locks`: lockops) of `count` N, F and (a share `resize`) R operations; sizes
    up to 2^largest."""
    r = random.Random(seed)
    live: list[int] = []
    locked: set[int] = set()
    lines: list[str] = []
    handle = 0
    for _ in range(count):
        if resize and live and r.random() < resize:
            h = r.choice(live)
            lines.append(f"{h} R {4096 + h * 16} {int(2 ** r.uniform(0, 12))}")
        elif live and (len(live) >= most_live or r.random() < 0.45):
            h = live.pop(r.randrange(len(live)))
            locked.discard(h)
            lines.append(f"{h} F {4096 + h * 16} 0")
        else:
            size = int(2 ** r.uniform(0, 11 if r.random() < 0.97 else largest))
            lines.append(f"{handle} N {4096 + handle * 16} {size}")
            live.append(handle)
            handle += 1
        if locks and live and r.random() < 0.5:
            h = r.choice(live)
            lines.append(f"{h} {'U' if h in locked else 'L'} 0 0")
            locked ^= {h}
    return "\n".join(lines) + "\n"


def moving_ops(count: int, seed: int) -> str:
    """Lockops for an allocator that moves blocks: the lowest block is always locked, others for a short
    time."""
    r = random.Random(seed)
    lines = ["0 N 0 100", "0 L 0 0"]
    live: list[int] = []
    for line in random_ops(count, seed, most_live=60, largest=11).splitlines():
        handle, op, _, size = line.split()
        h = int(handle) + 1
        lines.append(f"{h} {op} 0 {size}")
        (live.append if op == "N" else live.remove)(h)
        if live and r.random() < 0.5:
            h = r.choice(live)
            lines += [f"{h} L 0 0", f"{h} U 0 0"]
    return "\n".join(lines) + "\n"


def parse_result(path: Path) -> dict[str, object]:
    """Read an allocstats file as data: one Python literal per name."""
    values: dict[str, object] = {}
    text = path.read_text()
    head, _, rest = text.partition("alloc_stats = ")
    for line in head.splitlines():
        name, _, value = line.partition(" = ")
        values[name] = ast.literal_eval(value)
    values["alloc_stats"] = ast.literal_eval(rest.strip())
    return values


def threaded_ops(count: int, seed: int, threads: int = 4, resize: float = 0.05) -> str:
    """Operations like those of random_ops, done by `threads` threads in turns of random length. Most blocks
    are used only by the thread that allocated them; one operation in ten is by another thread."""
    r = random.Random(seed)
    owner: dict[str, int] = {}
    lines: list[str] = []
    last = 0
    for line in random_ops(count, seed, most_live=400, resize=resize, largest=12).splitlines():
        handle = line.split()[0]
        thread = owner.setdefault(handle, r.randrange(threads) + 1)
        if r.random() < 0.1:
            thread = r.randrange(threads) + 1
        if thread != last:
            lines.append(f"# thread {thread}")
            last = thread
        lines.append(line)
    return "\n".join(lines) + "\n"


def stats(driver: str, ops: Path, out: Path, *args: object, status: int = 0, **kw: object) -> dict[str, object]:
    """Run the modern --allocstats and return the parsed result."""
    p = replay("-a", driver, "--allocstats", ops, "-o", out, "--passes", 1, *args, **kw)
    assert p.returncode == status, p.stderr
    return parse_result(out)
