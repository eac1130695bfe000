"""programs - what the benchmark runs, and the inputs it makes for them.

The Lua programs are in this folder; each takes one number that sets the amount of work. The C programs are
Debian's; their inputs are made here, from a fixed seed, so that nothing has to be shipped or fetched and
each run of the benchmark does the same. Every program writes its result to stdout, by which runs are
compared. The cost of a run is measured elsewhere.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

HERE = Path(__file__).resolve().parent

# name -> argument for a sanity run; the default of each file is for measuring
LUA_PROGRAMS = {
    "trees": 5,
    "strings": 1,
    "tables": 20,
    "cdata": 12,
    "coroutines": 400,
    "closures": 200,
    "sorting": 100,
    "hashing": 400,
    "parsing": 10,
    "objects": 3,
}

SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "sha", "ti", "vo", "bel", "dor", "an", "es")


@dataclass(frozen=True)
class Program:
    """One program to measure: its kind ("lua" or "c"), its command, and the file it reads, if any."""

    name: str
    kind: str
    command: tuple[str, ...]
    stdin: Path | None = None


def random_numbers(seed: int) -> Iterator[int]:
    """The same numbers, 1 .. 2^31-2, in each run and on each machine."""
    while True:
        seed = seed * 16807 % 2147483647
        yield seed


def prose(lines: int) -> str:
    """Text that compresses as text does: words of syllables, some much more common than others."""
    number = random_numbers(11)
    words = ["".join(SYLLABLES[next(number) % 12] for _ in range(1 + next(number) % 4)) for _ in range(3000)]
    rows = ([words[next(number) % (1 + next(number) % 3000)] for _ in range(12)] for _ in range(lines))
    return "".join(" ".join(row) + "\n" for row in rows)


def c_source(functions: int) -> str:
    """A C file for the compiler: functions with loops, branches and calls of those before them."""
    number, parts = random_numbers(23), ["typedef unsigned long u;\nu f0(u a, u b) { return a ^ b; }\n"]
    for i in range(1, functions):
        a, b, c = (next(number) % 90 + 2 for _ in range(3))
        parts.append(
            f"u f{i}(u a, u b)\n{{\n    u t[{a}], s = b;\n"
            f"    for (u i = 0; i < {a}; i++)\n        t[i] = a * i + {b};\n"
            f"    for (u i = 1; i < {a}; i++)\n"
            f"        s += t[i] > {c} ? f{next(number) % i}(t[i - 1], s) : t[i] / {c};\n"
            f"    switch (s % 4) {{\n    case 0: return s + {b};\n    case 1: return t[0];\n"
            f"    default: return s * {c};\n    }}\n}}\n"
        )
    return "".join(parts)


def sql(rows: int) -> str:
    """Statements for sqlite3: two tables, an index, a join, groups, updates."""
    number = random_numbers(37)
    lines = [
        "create table item(id integer primary key, name text, kind int);",
        "create table sale(item int, amount int);",
        "begin;",
    ]
    for i in range(rows):
        name = "".join(SYLLABLES[next(number) % 12] for _ in range(3))
        lines.append(f"insert into item values({i}, '{name}', {next(number) % 17});")
        lines.append(f"insert into sale values({next(number) % (i + 1)}, {next(number) % 1000});")
    return (
        "\n".join(
            [
                *lines,
                "commit;",
                "create index by_item on sale(item);",
                "select kind, count(*), sum(amount) from item join sale on item = id group by kind;",
                "update item set name = name || kind where id % 3 = 0;",
                "select name, count(*) from item group by name order by 2 desc, 1 limit 10;",
            ]
        )
        + "\n"
    )


def lua_programs(quick: bool) -> list[Program]:
    return [
        Program(name, "lua", ("luajit", str(HERE / f"{name}.lua"), *([str(tiny)] if quick else [])))
        for name, tiny in LUA_PROGRAMS.items()
    ]


def compiler() -> str:
    """gcc's cc1: `gcc` itself only starts it, and a measurement would miss it. "" if there is none."""
    if shutil.which("gcc") is None:
        return ""
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=False)
    return shutil.which(found.stdout.strip()) or ""


def c_commands(folder: Path, quick: bool) -> Iterator[tuple[str, str, list[str], Path | None]]:
    """name, executable ("": not here), arguments, stdin; inputs are written to `folder`"""
    share = 40 if quick else 1
    text, source, statements = folder / "prose.txt", folder / "source.c", folder / "statements.sql"
    text.write_text(prose(12000 // share))
    source.write_text(c_source(3 if quick else 25))
    statements.write_text(sql(8000 // share))
    yield "python3", shutil.which("python3.11", path="/usr/bin") or shutil.which("python3", path="/usr/bin") or "", [
        "-I",
        "-S",
        str(HERE / "words.py"),
        str(text),
    ], None
    yield "perl", shutil.which("perl") or "", [str(HERE / "words.pl"), str(text)], None
    yield "cc1", compiler(), ["-quiet", "-O1", "-o", "-", str(source)], None
    yield "sqlite3", shutil.which("sqlite3") or "", ["-batch", ":memory:"], statements
    yield "gzip", shutil.which("gzip") or "", ["-c", "-n", str(text)], None
    yield "zstd", shutil.which("zstd") or "", ["-q", "-c", "--single-thread", "-9", str(text)], None


def all_programs(folder: Path, quick: bool) -> tuple[list[Program], dict[str, str]]:
    """Programs that can be run here, and the reasons why others cannot: name -> reason."""
    programs, absent = lua_programs(quick), {}
    for name, executable, arguments, stdin in c_commands(folder, quick):
        if executable:
            programs.append(Program(name, "c", (executable, *arguments), stdin))
        else:
            absent[name] = f"{name} is not installed"
    return programs, absent
