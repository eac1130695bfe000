"""test_many_stacks - a program that allocates from very many call stacks: memory that steve's commands use
for each.

The bound is on memory, not on time: bytes for each stack, above what a command takes for a trace of fewer stacks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import subprocess
from pathlib import Path

import pytest

from support import good, record

# levels of the tree: two traces to compare, and two of commands with large buffers
SMALL, LARGE = (10, 14), (13, 15)
# a program whose stacks are the paths of a binary tree, through wrappers that make them longer
TREE = """
#include <stdlib.h>
__attribute__((noinline)) static void walk(int left, unsigned path);
__attribute__((noinline)) static void even(int left, unsigned path) { walk(left, path); __asm__ volatile(""); }
__attribute__((noinline)) static void odd(int left, unsigned path) { walk(left, path); __asm__ volatile(""); }
__attribute__((noinline)) static void walk(int left, unsigned path)
{
    if (left == 0)
        free(malloc(16 + path % 7));
    else if (path >> (left - 1) & 1)
        odd(left - 1, path);
    else
        even(left - 1, path);
    __asm__ volatile("");
}
int main(void)
{
    void *volatile kept = malloc(1);
    for (unsigned path = 0; path < 1u << LEVELS; path++)
        walk(LEVELS, path);
    return kept == 0;
}
"""
COMMANDS = {
    "summary": ("summary",),
    "findings": ("findings",),
    "findings as JSON": ("findings", "--json"),
    "findings as CSV": ("findings", "--csv"),
    "sites": ("sites",),
    "by line": ("sites", "--by", "line"),
    "temporaries": ("temporaries",),
    "resizes": ("resizes",),
    "fields": ("fields",),
    "sharing": ("sharing",),
    "top": ("top", "--once"),
    "leaks": ("leaks",),
    "flame": ("flame", "-o", "-"),
    "lines": ("lines",),
    "folded": ("export", "--format", "folded", "-o", "-"),
    "pprof": ("export", "--format", "pprof", "-o", "-"),
    "callgrind": ("export", "--format", "callgrind", "-o", "-"),
    "speedscope": ("export", "--format", "speedscope", "-o", "-"),
    "csv": ("export", "--format", "csv", "-o", "-"),
    "dhat": ("export", "--format", "dhat", "-o", "-"),
    "massif": ("export", "--format", "massif", "-o", "-"),
    "heaptrack": ("export", "--format", "heaptrack", "-o", "-"),
    "report": ("report", "-o", "/dev/null"),
}
# for each stack, of up to 34 frames; where each was kept as these it was 3,000 to 8,000
MOST_BYTES = 1200
MORE_BYTES = {"sharing": 2000}
OF_COMPARISON = 1800
OF_TABLES = 2000


def stacks(levels: tuple[int, int]) -> int:
    """How many stacks the second trace has more than the first."""
    return (1 << levels[1]) - (1 << levels[0])


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """By levels of the tree."""
    folder, made = tmp_path_factory.mktemp("stacks"), {}
    (folder / "p.c").write_text(TREE)
    flags = ["-g", "-O1", "-w", "-fno-optimize-sibling-calls", "-fno-builtin"]
    for levels in (*SMALL, *LARGE):
        good(["gcc", *flags, f"-DLEVELS={levels}", "-o", folder / "p", folder / "p.c"])
        trace = record(folder / f"{levels}.ljt", [folder / "p"], "--stack-depth=40", "--trace-mem=no")
        assert trace.run.status == 0, trace.run.complaint
        made[levels] = trace.path
    return made


def peak_bytes(*command: object) -> int:
    """Peak memory of a command."""
    process = subprocess.Popen(["steve", *map(str, command)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


@pytest.mark.parametrize("name", COMMANDS)
def test_memory_for_each_stack(name: str, traces: dict[int, Path]) -> None:
    levels = LARGE if name.startswith(("report", "findings")) else SMALL
    few, many = (peak_bytes(*COMMANDS[name], traces[one]) for one in levels)
    assert (many - few) / stacks(levels) < MORE_BYTES.get(name, MOST_BYTES), f"{few:,} and {many:,} bytes"


def test_memory_of_a_comparison(traces: dict[int, Path]) -> None:
    """Of the first trace only what is compared is kept."""
    pair = [traces[one] for one in SMALL]
    for command in (("diff",), ("report", "-o", "/dev/null")):
        few, many = (peak_bytes(*command, path, path) for path in pair)
        every = peak_bytes(*command, *pair)  # all sites differ
        assert (max(many, every) - few) / stacks(
            SMALL
        ) < OF_COMPARISON, f"{command}: {few:,}, {many:,}, {every:,} bytes"


@pytest.mark.parametrize("form", ["sqlite", "tables"])
def test_memory_of_tables(form: str, traces: dict[int, Path], tmp_path: Path) -> None:
    few, many = (peak_bytes("export", "--format", form, "-o", tmp_path / f"{one}", traces[one]) for one in LARGE)
    assert (many - few) / stacks(LARGE) < OF_TABLES, f"{few:,} and {many:,} bytes"
