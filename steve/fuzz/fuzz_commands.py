"""fuzz_commands.py - damaged files of every kind through the commands of steve, in one process.

    in-place python3 steve/fuzz/fuzz_commands.py [--seconds N] [--seed N] [--keep FOLDER] SEEDS

A file of the folder SEEDS is changed in a few places (bytes, numbers, pieces of other seeds) and given to a
command that reads its kind. Whatever is in a file, a command ends with status 0 or 1 and one line about it,
in short time: an exception that gets through, or a death by signal or sanitizer, is a finding. The input is
written to the folder of --keep before it is tried, so that it is there after a death. Chunks of memtraces get
their checksums set right. Run it with modules built with the sanitizers: steve/fuzz/sanitized. Not guided by
coverage: that is what the targets in C are for.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import contextlib
import ctypes
import ctypes.util
import io
import os
import random
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Dict, List, Tuple

from steve import cli
from steve.command import COMMANDS as ALL, Command

OF_TRACES = (
    ("info",),
    ("summary", "--json"),
    ("sites", "--json"),
    ("lines",),
    ("types", "--csv"),
    ("states",),
    ("threads", "--where", "size > 8 and site ~ 'a'"),
    ("leaks",),
    ("leaks", "--from", "a"),
    ("lines", "--from", "a", "--to", "b"),
    ("workingset", "--window", "2", "--to", "b"),
    ("temporaries",),
    ("resizes",),
    ("globals", "--share", "1"),
    ("lifetimes", "--by-size", "--unit", "nanoseconds"),
    ("heat",),
    ("fields",),
    ("sharing",),
    ("workingset", "--window", "3"),
    ("reuse",),
    ("findings", "--json"),
    ("check", "--csv"),
    ("check", "--where", "stores > 0", "--from", "a"),
    ("dump",),
    ("symbolize",),
    ("memtrace",),
    ("ops", "--threads", "--times"),
    ("ops", "--binary", "--where", "freed"),
    ("lockops", "--stack", "--stats"),
    ("lockops", "--full"),
    ("lockops", "--simple"),
    ("universe",),
    ("resident",),
    ("resident", "--by", "site", "--at", "end", "--json"),
    ("resident", "--by", "mapping", "--csv"),
    ("resident", "--by", "look"),
    ("map", "--json", "--color", "site"),
    ("map", "--json", "--at", "end"),
    ("export", "--format", "pprof"),
    ("export", "--format", "heaptrack"),
    ("export", "--format", "massif"),
    ("export", "--format", "dhat"),
    ("export", "--format", "callgrind"),
    ("export", "--format", "memprof"),
    ("export", "--format", "sysprof"),
    ("export", "--format", "sqlite"),
    ("export", "--format", "perfetto"),
    ("flame",),
    ("report",),
    ("top", "--accesses"),
    ("serve", "--until-end", "--dump-every", "64", "--dump-high-water", "64"),
    ("memprof",),
    ("sysprof",),
)
# of traces, with -j
IN_PARTS = [name for name in ALL if Command(name).has_option("--jobs") and Command(name).reads("trace")]
OF_OPS = (
    ("histogram", "--parts", "none", "--json"),
    ("lockops", "--full"),
    ("lockops", "--simple", "--compat"),
    ("lockops", "--full", "--stats", "--json"),
    ("ops", "--text"),
    ("ops", "--binary"),
)
COMMANDS: Dict[str, Tuple[Tuple[str, ...], ...]] = {
    ".ljt": OF_TRACES,
    ".txt": OF_TRACES,
    "-ops": OF_OPS,
    "-lockops": (("ops",), ("lockops", "--stats"), ("lockops", "--stats", "--json")),
    ".memprof": (("memprof",), ("memprof", "--json"), ("memprof", "--dump")),
    ".sysprof": (("sysprof",), ("sysprof", "--states", "--json"), ("flame",)),
    ".folded": (("flame",),),
    "-allocstats": (("graphs", "--format", "svg", "--tables", "text"),),
}
HEADER, CHUNK = 16, 72  # bytes of a memtrace's header and of that of a chunk; see docs/memtrace-format.md
SLOW = 60  # seconds that no small file may take
STUCK = 5 * SLOW  # after which it is not waited for


def hasher() -> "ctypes._NamedFuncPointer":
    """XXH3_64bits."""
    function = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_64bits
    function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
    return function


def repaired(data: bytearray) -> bytes:
    """A memtrace with the checksums of its chunks set right."""
    digest, at = hasher(), HEADER
    while at + CHUNK <= len(data):
        stored = min(struct.unpack_from("<I", data, at + 16)[0], len(data) - at - CHUNK)
        body = bytes(data[at + CHUNK : at + CHUNK + stored])
        struct.pack_into("<Q", data, at + 56, digest(body, len(body)))
        struct.pack_into("<Q", data, at + 64, digest(bytes(data[at : at + 64]), 64))
        at += CHUNK + stored
    return bytes(data)


NUMBERS = (b"0", b"-1", b"18446744073709551615", b"99999999999999999999", b"1e9", b"nan", b"'", b"[", b"\n", b" ")


def changed(data: bytes, others: List[bytes], dice: random.Random) -> bytes:
    """The data with one to six changes."""
    result = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at, how = dice.randrange(len(result) + 1), dice.randrange(6)
        if how == 0:
            del result[at : at + dice.choice((1, 1, 2, 8, 64, 1 << 20))]
        elif how == 1:
            result[at:at] = dice.choice(NUMBERS)
        elif how == 2 and len(result) > at:
            result[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        elif how == 3 and len(result) > at:
            result[at] ^= 1 << dice.randrange(8)
        elif how == 4:
            other = dice.choice(others)
            begin = dice.randrange(len(other) + 1)
            result[at : at + dice.choice((0, 8, 64))] = other[begin : begin + dice.choice((4, 16, 256))]
        else:
            result[at:at] = result[at : at + dice.choice((1, 8, 64))]
    return bytes(result)


def output_of(command: Tuple[str, ...], path: Path) -> Tuple[str, ...]:
    """Options that keep what it writes out of the way; standard output is gone anyhow."""
    if command[0] == "graphs":
        return ("-o", str(path.with_name("plot.svg")))
    if "sqlite" in command:
        return ("-o", str(path.with_name("database.sqlite")))
    if command[0] == "serve":
        return ("--dump-to", str(path.with_name("dump")))
    only_prints = command[0] in ("histogram", "memprof", "top") or command[:2] == ("lockops", "--stats")
    return () if only_prints else ("-o", os.devnull)


def give_up(*_: object) -> None:
    raise RuntimeError(f"still at work after {STUCK} s")


def try_command(command: Tuple[str, ...], path: Path) -> str:
    """Run it; what is wrong with how it ended ("": nothing)."""
    began, complaints = time.monotonic(), io.StringIO()
    signal.alarm(STUCK)
    try:
        with contextlib.redirect_stderr(complaints):
            status = cli.guarded(command[0], [*command[1:], "-q", *output_of(command, path), str(path)])
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # whatever it is, it was to be a line and a status
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    if status not in (0, 1) or "worker process was killed" in complaints.getvalue():
        return f"status {status}: {complaints.getvalue()}"
    if time.monotonic() - began > SLOW:
        return f"took {time.monotonic() - began:.0f} s"
    return ""


def with_jobs(command: Tuple[str, ...], ending: str, dice: random.Random) -> Tuple[str, ...]:
    """The command, sometimes by two processes if it reads traces in parts."""
    if ending != ".ljt" or command[0] not in IN_PARTS or dice.random() < 0.75:
        return command
    return (*command, "-j", "2")


def kind_of(path: Path) -> str:
    """The ending in COMMANDS that fits best."""
    return max((ending for ending in COMMANDS if path.name.endswith(ending)), key=len)


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged files through the commands of steve.")
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="of the random numbers (default: another each time)")
    parser.add_argument("--keep", type=Path, default=Path("found-commands"))
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, give_up)
    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    dice, seeds = random.Random(seed), sorted(args.seeds.iterdir())
    data, runs, found = {path: path.read_bytes() for path in seeds}, 0, 0
    args.keep.mkdir(parents=True, exist_ok=True)
    output, nowhere = os.fdopen(os.dup(1), "w"), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        path = dice.choice(seeds)
        ending = kind_of(path)
        alike = [data[other] for other in seeds if kind_of(other) == ending]
        made = changed(data[path], alike, dice)
        made = repaired(bytearray(made)) if ending == ".ljt" and dice.random() < 0.9 else made
        command, trial = with_jobs(dice.choice(COMMANDS[ending]), ending, dice), args.keep / f"trial{ending}"
        trial.write_bytes(made)
        (args.keep / "command").write_text(" ".join(command) + "\n")
        wrong = try_command(command, trial)
        runs += 1
        for dump in args.keep.glob("dump.*"):
            dump.unlink()
        if wrong:
            found += 1
            trial.rename(args.keep / f"{found}{ending}")
            print(f"FOUND by steve {' '.join(command)} on {args.keep}/{found}{ending}: {wrong}", file=sys.stderr)
    print(
        f"commands: {runs} inputs in {args.seconds:g} s (seed {seed}): {found or 'nothing'} found",
        file=output,
        flush=True,
    )
    return 1 if found else 0


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.exit(main())
