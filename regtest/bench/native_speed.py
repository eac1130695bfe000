"""How much `ljtrace run` slows programs down, beside no recorder and beside heaptrack.

    ./in-place python3 regtest/bench/native_speed.py [--runs N] [--only WORD] [--json FILE]

The programs are Lua's of this folder with more work than under Valgrind, Debian's C programs, and two that do nothing but
allocate: `malloc`, in one thread, and `threads`, in eight. In each round every program runs under every tool by turns;
of each the shortest time counts. Printed are seconds without a recorder, and the others as multiples of it: wall clock,
until the file is complete. A recorder needs a free core for its second process. A sample of the blocks (`sample`) hardly
takes longer, so the multiple of the user CPU time of all processes is printed, too (`sample CPU`).

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
}
CPU = "sample CPU"


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


def user_seconds() -> float:
    """The user CPU time of all commands so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def seconds(command: list[str]) -> tuple[float, float]:
    """How long a command runs, and its user CPU time. A failure ends the benchmark."""
    start, cpu = time.monotonic(), user_seconds()
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "DISPLAY": ""},
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr.decode(errors='replace')[-1000:]}")
    return time.monotonic() - start, user_seconds() - cpu


def measure(all_programs: dict[str, list[str]], runs: int, folder: Path) -> dict[str, dict[str, float]]:
    """program -> tool -> least seconds; for CPU, what has the ratio of the user CPU times to those of `none`"""
    found: dict[str, dict[str, float]] = {name: {} for name in all_programs}
    times: dict[str, dict[str, float]] = {name: {} for name in all_programs}
    for _ in range(runs):
        for name, command in all_programs.items():
            for tool, words in TOOLS.items():
                if words and (not shutil.which(words[0]) or (tool == "heaptrack" and command[0] == "luajit")):
                    continue
                out = [word.replace("OUT", str(folder / f"out.{tool.split()[0]}")) for word in words]
                wall, cpu = seconds([*out, *command])
                found[name][tool] = min(found[name].get(tool, 1e9), wall)
                times[name][tool] = min(times[name].get(tool, 1e9), cpu)
    for name, row in found.items():
        if "sample" in row:
            row[CPU] = row["none"] * times[name]["sample"] / max(times[name]["none"], 1e-3)
    return found


def show(found: dict[str, dict[str, float]]) -> None:
    """heaptrack sees nothing of Lua's heaps, so it is left out there."""
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the least seconds to FILE as well")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        chosen = {name: command for name, command in programs(folder).items() if args.only in name}
        found = measure(chosen, args.runs, folder)
    show(found)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
