"""How much `ljtrace run` slows programs down, beside no recorder, heaptrack, jemalloc's profiler and memprof.

    ./in-place python3 regtest/bench/native_speed.py [--runs N] [--only WORD] [--memprof LUAJIT] [--json FILE]

The programs are Lua's of this folder with more work than under Valgrind, Debian's C programs, and two that do nothing but
allocate: `malloc`, in one thread, and `threads`, in eight. In each round every program runs under every tool by turns;
of each the shortest time counts. Printed are seconds without a recorder, and the others as multiples of it: wall clock,
until the file is complete. A recorder needs a free core for its second process. A sample of the blocks (`sample`) hardly
takes longer, so the multiple of the user CPU time of all processes is printed, too (`sample CPU`). For programs in C there
are also Debian's jemalloc without its profiler and with it (`jeprof`, the default: a sample each 512 KiB).

A second table has CPU seconds, user and system: of the program, with what the recorder does in it, and of all other
processes. With --memprof it has those of Tarantool's profiler as well: LUAJIT is the `luajit` of Tarantool's fork, which runs
the Lua programs alone and with `misc.memprof.start`.

Nothing here passes or fails: the numbers are for people.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from programs import c_source
from table import geometric_mean

HERE = Path(__file__).resolve().parent
WORK = {
    "trees": 17,
    "strings": 200,
    "tables": 1500,
    "cdata": 300,
    "coroutines": 2000000,
    "closures": 1000000,
    "sorting": 200000,
    "hashing": 800000,
    "parsing": 20000,
    "objects": 10000,
}
SOURCE = """#include <pthread.h>
#include <stdlib.h>
static void *work(void *seed) {
    void *p[100] = {0};
    unsigned s = (unsigned)(long)seed;
    for (int i = 0; i < ROUNDS; i++) {
        s = s * 1103515245 + 12345;
        unsigned k = (s >> 16) % 100;
        free(p[k]);
        p[k] = malloc(8 + (s >> 8) % 500);
        for (unsigned j = 0; j < 8; j++) ((volatile char *)p[k])[j] = (char)i;
    }
    for (int i = 0; i < 100; i++) free(p[i]);
    return 0;
}
int main(void) {
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
}
"""
TOOLS = {
    "none": [],
    "run": ["ljtrace", "run", "--out=OUT"],
    "depth 0": ["ljtrace", "run", "--stack-depth=0", "--out=OUT"],
    "sample": ["ljtrace", "run", "--sample", "--out=OUT"],
    "heaptrack": ["heaptrack", "-o", "OUT"],
    "jemalloc": ["env", "LD_PRELOAD=CLOCK:JEMALLOC"],
    "jeprof": ["env", "LD_PRELOAD=CLOCK:JEMALLOC", "MALLOC_CONF=prof:true,prof_final:true,prof_prefix:OUT"],
}
OF_C = ("heaptrack", "jemalloc", "jeprof")  # which do not see the heaps of Lua
JEMALLOC = "libjemalloc.so.2"
CPU = "sample CPU"
FORK, MEMPROF = "fork alone", "memprof"  # Tarantool's LuaJIT

# Loaded into the program: writes the CPU seconds of the process at its end, if it has the program's name.
CLOCK = """#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
__attribute__((destructor)) static void end(void) {
    const char *name = getenv("BENCH_PROGRAM"), *path = getenv("BENCH_CPU");
    struct rusage r;
    if (!name || !path || strcmp(name, program_invocation_short_name)) return;
    getrusage(RUSAGE_SELF, &r);
    FILE *f = fopen(path, "w");
    if (!f) return;
    fprintf(f, "%.6f", (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec));
    fclose(f);
}
"""


def programs(folder: Path) -> dict[str, list[str]]:
    """name -> command"""
    found = {name: ["luajit", str(HERE / f"{name}.lua"), str(work)] for name, work in WORK.items()}
    for name, threads, rounds in (("malloc", 1, 3000000), ("threads", 8, 500000)):
        source, binary = folder / f"{name}.c", folder / name
        source.write_text(SOURCE)
        subprocess.run(
            ["cc", "-O2", "-g", f"-DTHREADS={threads}", f"-DROUNDS={rounds}", "-o", binary, source, "-lpthread"],
            check=True,
        )
        found[name] = [str(binary)]
    rows = folder / "rows.sql"
    rows.write_text(
        "create table t(a,b);\nwith recursive c(x) as (select 1 union all select x+1 from c where x<400000) "
        "insert into t select x, hex(x*x) from c;\nselect count(*) from (select b from t order by b);\n"
        "select sum(length(b)) from t group by a%1000 limit 1;\n"
    )
    found["sqlite3"] = ["sqlite3", ":memory:", f".read {rows}"]
    found["perl"] = ["/usr/bin/perl", "-e", "my %h; $h{$_ % 50000} .= $_ for 1..1500000; print scalar keys %h"]
    code = folder / "code.c"
    code.write_text(c_source(150))
    compiler = subprocess.run(["cc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
    found["cc1"] = [compiler, "-quiet", "-O1", "-o", "/dev/null", str(code)]
    return {name: command for name, command in found.items() if shutil.which(command[0])}


def build_clock(folder: Path) -> Path:
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@dataclass(frozen=True)
class Times:
    """Seconds of a run: wall clock, user CPU time of all processes, all CPU time of them, and of the program."""

    wall: float
    user: float
    all: float
    program: float


def seconds(command: list[str], program: str, clock: Path) -> Times:
    """Run a command. A failure ends the benchmark."""
    own = clock.with_name("cpu")
    own.unlink(missing_ok=True)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "DISPLAY": "",
            "LD_PRELOAD": str(clock),
            "BENCH_CPU": str(own),
            "BENCH_PROGRAM": Path(program).name,
        },
    )
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr.decode(errors='replace')[-1000:]}")
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Times(wall, user, user + system, float(own.read_text()) if own.exists() else user + system)


def has_library(name: str) -> bool:
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    return f"\t{name} " in known


def usable() -> list[str]:
    """The tools that are installed."""
    jemalloc = has_library(JEMALLOC)
    return [
        tool
        for tool, words in TOOLS.items()
        if not words or (shutil.which(words[0]) and (jemalloc or "jemalloc" not in " ".join(words).lower()))
    ]


def commands(
    command: list[str], tools: list[str], memprof: Path | None, folder: Path, clock: Path
) -> dict[str, list[str]]:
    """tool -> how a program runs under it"""
    found = {}
    for tool in tools:
        if tool in OF_C and command[0] == "luajit":
            continue
        words = {"OUT": str(folder / f"out.{tool.split()[0]}"), "CLOCK": str(clock), "JEMALLOC": JEMALLOC}
        filled = TOOLS[tool]
        for name, value in words.items():
            filled = [word.replace(name, value) for word in filled]
        found[tool] = filled + command
    if memprof and command[0] == "luajit":
        found[FORK] = [str(memprof), *command[1:]]
        found[MEMPROF] = [str(memprof), "-e", f"misc.memprof.start('{folder / 'out.memprof'}')", *command[1:]]
    return found


def measure(
    all_programs: dict[str, list[str]], runs: int, folder: Path, memprof: Path | None
) -> dict[str, dict[str, Times]]:
    """program -> tool -> the least of each time"""
    found: dict[str, dict[str, Times]] = {name: {} for name in all_programs}
    clock, tools = build_clock(folder), usable()
    for _ in range(runs):
        for name, command in all_programs.items():
            for tool, words in commands(command, tools, memprof, folder, clock).items():
                now = seconds(words, str(memprof) if tool in (FORK, MEMPROF) else command[0], clock)
                least = found[name].get(tool, now)
                found[name][tool] = Times(*(min(a, b) for a, b in zip(astuple(now), astuple(least))))
    return found


def ratios(found: dict[str, dict[str, Times]]) -> dict[str, dict[str, float]]:
    """program -> tool -> wall clock; for CPU, what has the ratio of the user CPU times to that of `none`"""
    rows = {name: {tool: t.wall for tool, t in row.items() if tool in TOOLS} for name, row in found.items()}
    for name, row in found.items():
        if "sample" in row:
            rows[name][CPU] = row["none"].wall * row["sample"].user / max(row["none"].user, 1e-3)
    return rows


def show_cpu(found: dict[str, dict[str, Times]]) -> None:
    shown = ("none", "run", "sample", *OF_C, FORK, MEMPROF)
    shown = tuple(tool for tool in shown if any(tool in row for row in found.values()))
    print("\nCPU seconds of the program + all other processes")
    print(f"{'program':12s} " + " ".join(f"{tool:>13s}" for tool in shown))
    for name, row in found.items():
        cells = []
        for tool in shown:
            t = row.get(tool)
            rest = f" + {max(t.all - t.program, 0):.2f}" if t and tool in ("run", "sample", "heaptrack") else ""
            cells.append(f"{t.program:.2f}{rest}" if t else "-")
        print(f"{name:12s} " + " ".join(f"{cell:>13s}" for cell in cells))


def show(found: dict[str, dict[str, float]]) -> None:
    """The tools of C see nothing of Lua's heaps, so they are left out there."""
    shown = [*(tool for tool in TOOLS if tool != "none"), CPU]
    print(f"{'program':12s} {'none':>8s} " + " ".join(f"{tool:>10s}" for tool in shown))
    for name, row in found.items():
        print(
            f"{name:12s} {row['none']:7.2f}s "
            + " ".join(f"{row[tool] / row['none']:10.2f}" if tool in row else f"{'-':>10s}" for tool in shown)
        )
    for kind, names in (("Lua", WORK), ("C", set(found) - set(WORK))):
        means = {
            tool: geometric_mean(found[n][tool] / found[n]["none"] for n in names if tool in found.get(n, {}))
            for tool in shown
        }
        print(f"mean of {kind:4s} {'':8s} " + " ".join(f"{m:10.2f}" if m else f"{'-':>10s}" for m in means.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="rounds (3)")
    parser.add_argument("--only", default="", metavar="WORD", help="only programs with this in their names")
    parser.add_argument("--memprof", type=Path, metavar="LUAJIT", help="compare with this LuaJIT's misc.memprof")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the least seconds to FILE as well")
    args = parser.parse_args()
    if args.memprof and not (args.memprof.is_file() and os.access(args.memprof, os.X_OK)):
        parser.error(f"--memprof {args.memprof}: not a program; it is src/luajit of a build of Tarantool's LuaJIT")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        chosen = {name: command for name, command in programs(folder).items() if args.only in name}
        found = measure(chosen, args.runs, folder, args.memprof and args.memprof.absolute())
    show(ratios(found))
    show_cpu(found)
    if args.json:
        least = {name: {tool: asdict(t) for tool, t in row.items()} for name, row in found.items()}
        args.json.write_text(json.dumps(least, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
