#!/usr/bin/env python3
"""How fast the drivers are: allocstats of every allocator, whole replays, the clock, films.

    ./in-place python3 regtest/bench/drivers_speed.py [--ops N] [--only WORD] [--json FILE]

Four tables. For every allocator, the wall clock and CPU seconds that 3,000 data points of N operations take
(default 3 million), with the operations per second of a whole replay. The cost of the replay itself, compared
with mimalloc. What the clock reads for the null driver and for a driver that takes 20,000 ns. Frames per
second of films. The first and the last table are meaningful only on an idle machine; the CPU times next to
them are meaningful on a busy one too.

Nothing here passes or fails: the numbers are for people.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import ast
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

BAD = Path(os.environ.get("LJTRACE_BUILDDIR", "")) / "drivers" / "test" / "bad.so"
POINTS = 3000
DELAY = 20000
FRAMES = 1000


class Run:
    """A command that was run: status, wall and cpu seconds, those of its children included."""

    def __init__(self, *command: object, **environment: str) -> None:
        start = time.monotonic()
        words = [str(word) for word in command]
        pid = os.posix_spawnp(
            words[0],
            words,
            {**os.environ, **environment},
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
        )
        _, status, usage = os.wait4(pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        self.wall, self.cpu = time.monotonic() - start, usage.ru_utime + usage.ru_stime


def write_ops(path: Path, count: int, live: int) -> Path:
    """New and Free in random order, most sizes below 2 KiB, `live` blocks at most."""
    chance = random.Random(5)
    blocks: List[int] = []
    handle = 0
    with path.open("w") as out:
        for _ in range(count):
            if blocks and (len(blocks) >= live or chance.random() < 0.45):
                i = chance.randrange(len(blocks))
                blocks[i], blocks[-1] = blocks[-1], blocks[i]
                out.write(f"{blocks.pop()} F 0 0\n")
            else:
                out.write(f"{handle} N 0 {int(2 ** chance.uniform(0, 11 if chance.random() < 0.97 else 16))}\n")
                blocks.append(handle)
                handle += 1
    return path


def header(path: Path) -> Dict[str, Any]:
    """What a result file says before its data points."""
    values = {}
    for line in path.read_text().partition("alloc_stats = ")[0].splitlines():
        name, _, value = line.partition(" = ")
        values[name] = ast.literal_eval(value)
    return values


def allocstats(driver: object, ops: Path, out: Path, *options: object, **environment: str) -> Dict[str, Any]:
    """A measurement as the commands do it; the header with `wall` and `cpu`, or `failed`."""
    out.unlink(missing_ok=True)
    run = Run("steve-replay", "-q", "-a", driver, "--allocstats", ops, "-o", out, *options, **environment)
    if run.status != 0:
        why = header(out)["error"] if out.exists() else f"ended with status {run.status}"
        return {"failed": why, "status": run.status, "wall": run.wall, "cpu": run.cpu}
    return {**header(out), "wall": run.wall, "cpu": run.cpu}


def with_room(driver: str, ops: Path, out: Path, *options: object) -> Dict[str, Any]:
    """allocstats in four times the live peak, or, if the allocator reuses nothing, in a heap for all requests."""
    r = allocstats(driver, ops, out, *options)
    if r.get("status") != 2:
        return r
    return {**allocstats(driver, ops, out, *options, "--heap", "2G"), "large_heap": True}


def drivers() -> List[Dict[str, Any]]:
    with os.popen("steve-replay --list --json") as out:
        return json.load(out)


def points_table(folder: Path, ops: Path, count: int, only: str) -> List[Dict[str, Any]]:
    """One row for each allocator, also for those that are missing."""
    print(
        f"\n{POINTS:,} data points of {count:,} operations\n"
        f"{'allocator':<16}{'wall s':>9}{'CPU s':>9}{'M ops/s':>10}{'warm':>9}"
    )
    rows = []
    for driver in drivers():
        if only not in driver["name"]:
            continue
        row = {"allocator": driver["name"]}
        if driver["available"]:
            r = with_room(driver["name"], ops, folder / "result", "--points", POINTS, "--timeout", 300)
            row |= {
                key: r.get(key)
                for key in ("wall", "cpu", "failed", "large_heap", "replay_time_per_op", "warm_time_per_op", "passes")
            }
        else:
            row["failed"] = driver["reason"]
        show_points(row)
        rows.append(row)
    return rows


def rate(nanoseconds: Any) -> str:
    """Million operations a second."""
    return f"{1e3 / nanoseconds:.1f}" if nanoseconds else "-"


def show_points(row: Dict[str, Any]) -> None:
    if row.get("failed"):
        print(f"{row['allocator']:<16}{row['failed']}", flush=True)
        return
    print(
        f"{row['allocator']:<16}{row['wall']:>9.1f}{row['cpu']:>9.1f}{rate(row['replay_time_per_op']):>10}"
        f"{rate(row['warm_time_per_op']):>9}{'  in a heap of 2 GiB' if row['large_heap'] else ''}",
        flush=True,
    )


def alternating(path: Path) -> Path:
    """A block made and freed at once, again and again: the processor foresees every branch."""
    with path.open("w") as out:
        out.writelines(f"{i} N 0 64\n{i} F 0 0\n" for i in range(1_000_000))
    return path


def recorded(folder: Path) -> Path:
    """The operations of a Lua program, recorded by ljtrace."""
    trace, ops = folder / "trees.ljt", folder / "trees-ops"
    program = Path(__file__).parent / "trees.lua"
    Run("valgrind", "-q", "--tool=ljtrace", "--trace-mem=no", f"--out={trace}", "luajit", program)
    Run("steve", "ops", "-q", "-o", ops, trace)
    return ops


def harness_table(folder: Path) -> List[Dict[str, Any]]:
    """What the replay itself costs, and mimalloc with it. By chance: few blocks are live, the allocator answers from
    its caches, and half of the operations come as a surprise to the processor, which costs more than all else."""
    print(f"\n{'whole replay, nothing timed':<30}{'mimalloc, M ops/s':>18}{'ns/op':>8}{'of it the replay':>18}")
    files = (
        ("New or Free by chance", write_ops(folder / "harness-ops", 1_000_000, 1000)),
        ("New and Free alternate", alternating(folder / "steady-ops")),
        ("a recorded program", recorded(folder)),
    )
    rows = []
    for name, ops in files:
        r = allocstats("mimalloc", ops, folder / "result", "--points", 2, "--passes", 9)
        if "failed" in r:
            print(f"{name:<30}{r['failed']}")
            continue
        own, null = r["warm_time_per_op"], r["null_warm_time_per_op"]
        print(f"{name:<30}{rate(own):>18}{own:>8.2f}{null:>18.2f}", flush=True)
        rows.append({"operations": name, "mimalloc": own, "null": null})
    return rows


def clock_table(folder: Path) -> Dict[str, Any]:
    """Medians of single operations that are known: nothing, and a wait."""
    ops = write_ops(folder / "clock-ops", 3000, 200)
    null = allocstats("null", ops, folder / "result", "--points", 3, "--passes", 5)
    wait = allocstats(BAD, ops, folder / "result", "--points", 3, "--heap", "256M", BAD_DRIVER="sleep")
    row = {
        "clock_cost": null["clock_cost"],
        "null_malloc": null["malloc_time_p50"],
        "null_free": null["free_time_p50"],
        "delay": wait["malloc_time_p50"] - DELAY,
    }
    print(
        "\nThe clock costs {clock_cost:.1f} ns, subtracted; malloc and free of the null driver then read "
        "{null_malloc} and {null_free} ns, a wait of 20,000 ns reads {delay:+} ns".format(**row)
    )
    return row


def sink(folder: Path) -> Path:
    """Instead of ffmpeg: takes all frames."""
    path = folder / "sink"
    path.write_text('#!/bin/sh\nfor a; do last=$a; done\ncat >/dev/null\n: >"$last"\n')
    path.chmod(0o755)
    return path


def film(folder: Path, ops: Path, size: str, ending: str, frames: int, **environment: str) -> Run:
    return Run(
        "steve-replay",
        "-q",
        "-a",
        "glibc",
        "--memplot",
        ops,
        "-o",
        folder / f"film{ending}",
        "--size",
        size,
        "--frames",
        frames,
        **environment,
    )


def films_table(folder: Path) -> List[Dict[str, Any]]:
    """What a frame more costs: a film of few frames is subtracted, which leaves out reading and surveying."""
    ops = write_ops(folder / "film-ops", 1_000_000, 20_000)
    print(
        f"\n{'film of 1,000,000 operations':<30}{'wall s':>8}{'frames/s':>10}{'CPU ms/frame':>14}{'of it painting':>16}"
    )
    rows = []
    for size, ending in (("1280x720", ".mp4"), ("1920x1080", ".mp4"), ("1280x720", ".avi"), ("1280x720", ".webm")):
        few, many = (film(folder, ops, size, ending, n) for n in (10, FRAMES))
        idle = [film(folder, ops, size, ending, n, FFMPEG=str(sink(folder))) for n in (10, FRAMES)]
        row = {
            "size": size,
            "ending": ending,
            "wall": many.wall,
            "status": many.status,
            "rate": (FRAMES - 10) / max(many.wall - few.wall, 1e-3),
            "cpu": (many.cpu - few.cpu) / (FRAMES - 10) * 1e3,
            "painting": (idle[1].cpu - idle[0].cpu) / (FRAMES - 10) * 1e3,
        }
        print(
            f"{size + ' ' + ending:<30}{row['wall']:>8.1f}{row['rate']:>10.0f}{row['cpu']:>14.1f}"
            f"{row['painting']:>16.1f}",
            flush=True,
        )
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ops", type=int, default=3_000_000, help="operations of the allocstats")
    parser.add_argument("--only", default="", metavar="WORD", help="allocators with this in their name")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE too")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result: Dict[str, Any] = {
            "clock": clock_table(folder),
            "harness": harness_table(folder),
            "films": films_table(folder),
        }
        ops = write_ops(folder / "some-ops", args.ops, 20_000)
        result["points"] = points_table(folder, ops, args.ops, args.only)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
