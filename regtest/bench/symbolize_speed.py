#!/usr/bin/env python3
"""How fast `steve symbolize` is: a program with 500 MB of debug information, and a trace of 100,000 of its addresses.

    ./in-place python3 regtest/bench/symbolize_speed.py [--megabytes N] [--addresses N] [--folder DIR]

One translation unit of C++ templates is compiled, and linked as often as it takes, each time with its functions under
other names. The trace is made without running the program (regtest/native/addresses.c). Printed are the wall time and
the most memory of `steve symbolize`, how many addresses got names, and what `eu-addr2line` or `addr2line` needs for the
same addresses, if they are installed. It takes some minutes, and twice as much disk as --megabytes. --folder: make the
files there, and use those that are there already.

Nothing here passes or fails: the numbers are for people.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ADDRESSES = Path(os.environ.get("LJTRACE_BUILDDIR", "")) / "regtest/native/addresses"
UNIT = """\
#include <map>
#include <string>
#include <utility>
#include <vector>
namespace {
template <int N> struct row {
    long values[N % 7 + 1];
    std::string text;
};
template <int N> struct table {
    std::vector<row<N>> rows;
    std::map<std::string, row<N>> index;
    row<N> &add(const std::string &text) { rows.push_back({{}, text}); return index[text]; }
};
template <int N> __attribute__((noinline)) long work(int n)
{
    table<N> t;
    for (int i = 0; i < n; i++)
        t.add(std::to_string(i)).values[0] = i;
    return t.index.begin()->second.values[0];
}
template <int... N> long all(int n, std::integer_sequence<int, N...>) { return (work<N>(n) + ...); }
}
extern "C" long run(int n) { return all(n, std::make_integer_sequence<int, 200>()); }
"""


def command(*words: object, stdin: str | None = None) -> str:
    return subprocess.run(list(map(str, words)), input=stdin, check=True, text=True, stdout=subprocess.PIPE).stdout


def debug_bytes(path: Path) -> int:
    """The size of the sections of debug information."""
    rows = re.findall(r" \.debug_\S+ +\S+ +\S+ +\S+ +([0-9a-f]+) ", command("readelf", "-SW", path))
    return sum(int(size, 16) for size in rows)


def compile_unit(folder: Path) -> Path:
    """An object file that exports only the function `run`."""
    (folder / "unit.cc").write_text(UNIT)
    command("g++", "-std=c++17", "-O2", "-g", "-c", "-o", folder / "unit.o", folder / "unit.cc")
    command("objcopy", "--remove-section=.group", "--keep-global-symbol=run", folder / "unit.o")
    return folder / "unit.o"


def make_program(folder: Path, megabytes: float) -> Path:
    unit, program = compile_unit(folder), folder / "program"
    count = max(1, round(megabytes * 1e6 / debug_bytes(unit)))
    for number in range(count):
        command("objcopy", f"--redefine-sym=run=run{number}", unit, folder / f"unit{number}.o")
    calls = "".join(f"long run{number}(int);\n" for number in range(count))
    calls += "int main(void) { return (" + " + ".join(f"run{number}(2)" for number in range(count)) + ") == 1; }\n"
    (folder / "main.c").write_text(calls)
    command("gcc", "-g", "-c", "-o", folder / "main.o", folder / "main.c")
    command(
        "g++",
        "-no-pie",
        "-Wl,--build-id,--allow-multiple-definition",
        "-o",
        program,
        folder / "main.o",
        *(folder / f"unit{number}.o" for number in range(count)),
    )
    for number in range(count):
        (folder / f"unit{number}.o").unlink()
    return program


def code_addresses(program: Path, count: int) -> list[int]:
    """Addresses within the program's functions, at random, each once."""
    rows = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tT] ", command("nm", "-S", program), re.M)
    every = [address for start, size in rows for address in range(int(start, 16), int(start, 16) + int(size, 16), 3)]
    return random.Random(1).sample(sorted(set(every)), count)


def make_trace(folder: Path, program: Path, count: int) -> Path:
    build_id = re.findall(r"Build ID: ([0-9a-f]+)", command("readelf", "-n", program))[0]
    text = "".join(f"{address:x}\n" for address in code_addresses(program, count))
    (folder / "addresses").write_text(text)
    command(ADDRESSES, folder / "trace.ljt", program, build_id, stdin=text)
    return folder / "trace.ljt"


def measured(*words: object) -> tuple[float, int, str]:
    """Seconds, bytes of memory at most, and the output of a command."""
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
    assert process.stdout
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"symbolize_speed.py: {words[0]} ended with status {process.returncode}")
    return time.monotonic() - start, usage.ru_maxrss * 1024, out


def main() -> None:
    parser = argparse.ArgumentParser(description="how fast `steve symbolize` is")
    parser.add_argument("--megabytes", type=float, default=500, help="size of the debug information (default: 500)")
    parser.add_argument("--addresses", type=int, default=100_000, help="number of addresses (default: 100,000)")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        program, trace = folder / "program", folder / "trace.ljt"
        if not program.exists():
            make_program(folder, args.megabytes)
        if not trace.exists():
            make_trace(folder, program, args.addresses)
        print(f"debug information: {debug_bytes(program) / 1e6:,.0f} MB; addresses: {args.addresses:,}")
        seconds, memory, out = measured("steve", "symbolize", "-q", "--json", "-o", folder / "named.ljt", trace)
        facts = json.loads(out)
        print(f"steve symbolize: {seconds:.1f} s, {memory / 1e6:,.0f} MB, {facts['named']:,} names")


if __name__ == "__main__":
    main()
