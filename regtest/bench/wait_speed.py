"""How long a program waits for what `ljtrace run` and `attach` look at while it runs.

    ./in-place python3 regtest/bench/wait_speed.py [--runs N] [--only WORD] [--quick] [--json FILE]

A mark with --pages, with 1 GB resident: in one mapping (`mapping`), the same without huge pages (`small pages`), in blocks of
1000 bytes (`blocks`), and every second page of 2 GB (`every second page`). `ljtrace attach --universe` to a Lua program with
a million tables: one that makes 20 tables each millisecond and sleeps, without and with LuaJIT's compiler (`interpreted`,
`compiled`), and one that does nothing but make tables (`allocating`), which may also wait because the collector reads the
snapshot before what follows.

The programs measure it themselves, in milliseconds of wall clock: the call of the mark, or the largest gap between two turns
of a loop. Beside it are the same without a recorder, which is what the machine does to them, and of an attach what the
recorder says: the fact snapshot_stop. Printed are the least, the median and the largest of all runs, and what it should
be at most. The first mark of each run does not count: the recorder looks at the end of the growth then, too.

--quick takes a hundredth of the memory and of the objects, to see that all works. Nothing here passes or fails: the
numbers are for people.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
MARKS, SECONDS = 6, 1.5
BYTES, OBJECTS, QUICK = 1 << 30, 1000000, 100
LIMITS = {"mark": 50.0, "attach": 300.0}  # milliseconds
LAYOUTS = ("mapping", "small pages", "blocks", "every second page")
STATES = ("interpreted", "compiled", "allocating")
MARKER = r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "ljtrace/ljtrace.h"
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
static char *mapped(size_t size, int advice)
{
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    madvise(at, size, advice);
    return at;
}
int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const int layout = atoi(argv[1]);
    const size_t all = strtoul(argv[3], NULL, 10) & ~(size_t)4095;
    if (layout < 2)
        memset(mapped(all, layout ? MADV_NOHUGEPAGE : MADV_NORMAL), 1, all);
    else if (layout == 2)
        for (size_t i = 0; i < all / 1008; i++)
            memset(malloc(1000), 1, 1000);
    else
        for (char *at = mapped(2 * all, MADV_NOHUGEPAGE), *end = at + 2 * all; at < end; at += 8192)
            *at = 1;
    for (int i = 0; i < atoi(argv[2]); i++) {
        const double start = now();
        LJTRACE_MARK("mark");
        printf("%.3f\n", now() - start);
    }
    return 0;
}
"""
# It prints the largest gap since the last line that it was sent. Numbers of 32 bits need no memory.
LOOP = """
local ffi = require "ffi"
ffi.cdef [[ struct timespec { uint32_t s, high, ns, none; }; int clock_gettime(int, struct timespec *);
            struct pollfd { int fd; short events, revents; }; int poll(struct pollfd *, unsigned long, int); ]]
local how, objects = ...
local sleep = how == "allocating" and 0 or 1
if how ~= "compiled" then jit.off() end
local t, p = ffi.new("struct timespec"), ffi.new("struct pollfd", { 0, 1, 0 })
local function now() ffi.C.clock_gettime(1, t) return t.s * 1e3 + t.ns * 1e-6 end
held = {}
for i = 1, tonumber(objects) do held[i] = {} end
collectgarbage()
io.write("ready\\n") io.flush()
while true do
  local largest, last = 0, now()
  repeat
    local next = now()
    if next - last > largest then largest = next - last end
    last = next
    for i = 1, 20 do held[i] = {} end
  until ffi.C.poll(p, 1, sleep) ~= 0
  if not io.read() then break end
  io.write(("%.3f\\n"):format(largest)) io.flush()
end
"""


class Found:
    """Milliseconds of each row: with a recorder, without, and as the recorder says."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[float]]] = {}

    def add(self, name: str, what: str, milliseconds: list[float]) -> None:
        self.rows.setdefault(name, {}).setdefault(what, []).extend(milliseconds)


def text_of(command: list[str]) -> str:
    """What a program prints. A failure ends the benchmark."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-1000:]}")
    return done.stdout


def numbers_of(command: list[str]) -> list[float]:
    return [float(line) for line in text_of(command).split()]


def marks(folder: Path, layout: str, part: int, found: Found) -> None:
    program, trace = folder / "marker", folder / "t.ljt"
    if not program.exists():
        source = folder / "marker.c"
        source.write_text(MARKER)
        subprocess.run(["cc", "-O2", f"-I{SOURCE}", "-o", program, source], check=True)
    command = [str(program), str(LAYOUTS.index(layout)), str(MARKS), str(BYTES // part)]
    name = f"mark, {layout}"
    found.add(name, "alone", numbers_of(command)[1:])
    found.add(name, "recorded", numbers_of(["ljtrace", "run", "--pages", f"--out={trace}", *command])[1:])


def attach(folder: Path, how: str, part: int, found: Found) -> None:
    script, trace, name = folder / "loop.lua", folder / "a.ljt", f"attach, {how}"
    script.write_text(LOOP)
    with subprocess.Popen(
        ["luajit", str(script), how, str(OBJECTS // part)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == "ready\n"

        def largest_gap() -> float:
            assert process.stdin and process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        largest_gap()
        text_of(["sleep", str(SECONDS)])
        found.add(name, "alone", [largest_gap()])
        text_of(["ljtrace", "attach", "--universe", f"--seconds={SECONDS}", f"--out={trace}", str(process.pid)])
        found.add(name, "recorded", [largest_gap()])
        process.stdin.close()
        process.wait()
    facts = json.loads(text_of(["steve", "info", "--json", str(trace)]))["recording"]
    if "snapshot_stop" not in facts:
        sys.exit(f"{name}: {facts.get('problems', 'there is no snapshot')}")
    found.add(name, "said", [int(facts["snapshot_stop"]) / 1e6])


def show(found: Found) -> None:
    print(f"{'milliseconds':26s} {'least':>9s} {'median':>9s} {'largest':>9s} {'at most':>9s}   alone: median, largest")
    for name, row in found.rows.items():
        times, alone = row["recorded"], row["alone"]
        numbers = [min(times), statistics.median(times), max(times), LIMITS[name.partition(",")[0]]]
        said = f"   it says {statistics.median(row['said']):.1f}" if "said" in row else ""
        print(
            f"{name:26s} {' '.join(f'{n:9.1f}' for n in numbers)}   "
            f"{statistics.median(alone):.1f}, {max(alone):.1f}{said}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="rounds (3)")
    parser.add_argument("--only", default="", metavar="WORD", help="only rows with this in their names")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the memory and of the objects")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all milliseconds to FILE as well")
    args = parser.parse_args()
    found, part = Found(), QUICK if args.quick else 1
    with tempfile.TemporaryDirectory() as text:
        for _ in range(args.runs):
            for layout in LAYOUTS:
                if args.only in f"mark, {layout}":
                    marks(Path(text), layout, part, found)
            for how in STATES:
                if args.only in f"attach, {how}":
                    attach(Path(text), how, part, found)
    print(f"{os.cpu_count()} processors, Linux {os.uname().release}")
    show(found)
    if args.json:
        args.json.write_text(json.dumps(found.rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
