"""The documentation of the commands is complete and correct: the manual page describes every column, key and
option; --help and the page name the same commands.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import csv
import io
import json
import os
import re
from pathlib import Path
from collections.abc import Iterator
from typing import Any

import pytest

from allocstats_files import OLD
from conftest import Steve, make_trace
from ljbytes import record, stream, symtab
from steve.command import COMMANDS, GROUPS, Command
from steve.trace._memtrace import KIND_NAMES

SCRIPT = """\
info command luajit app.lua
stack main parse@parser.lua:10 malloc
stack main f@@app.lua:3/1 draw@ui.c:5
heap 0x1234 lua
thread 1
N 4096 64 1
N 8192 300 2 1
at draw@ui.c:5
S 4096 8
thread 2
L 4156 16
L 4104 4
mark a
M 8208 8
R 4096 12288 256 1
L 12288 4
sample 40 2 1 0
F 8192 2 1
F 8192 2 1
F 21845
snapshot one 1 100 20
object tab 40 - root
endsnapshot
snapshot two 1 200 20
object tab 40 - root
object str 40 name
link 0 1 value 1
endsnapshot
time 900
end exit
"""
JSON = {
    "diff": ("t.ljt", "u.ljt"),
    "lockops": ("--full", "--stats", "t.ljt"),
    "histogram": ("--parts", "none", "t.ljt"),
    "graphs": ("a-allocstats", "-o", "out.png"),
    "memprof": ("a.memprof",),
    "sysprof": ("t.ljt",),
    "globals": ("--share", "1", "t.ljt"),
    "symbolize": ("-o", "named.ljt", "t.ljt"),
}
NO_JSON = {
    "dump",
    "memtrace",
    "ops",
    "export",
    "flame",
    "serve",
    "top",
    "import",
}  # their output has a format of its own
# these need steve-replay; their output is tested with it
DRIVEN = {"allocstats", "animate", "compare", "pins", "tune", "synth"}
PAGE = Path(os.environ["LJTRACE_SRCDIR"], "docs", "steve.1")
# keys that are data, not fields: facts of the recording
DATA = re.compile(r"\d+|command")


def plain(page: str) -> str:
    """The text of a page without the quoting of macros."""
    return page.replace("\\&", "").replace("\\-", "-")


def sections() -> dict[str, str]:
    """The text of the page about each command."""
    found: dict[str, str] = {}
    for part in re.split(r"^\.It Nm Cm ", plain(PAGE.read_text()), flags=re.MULTILINE)[1:]:
        name = part.split()[0]
        found[name] = found.get(name, "") + re.split(r"^\.Sh ", part, flags=re.MULTILINE)[0]
    return found


SECTIONS = sections()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documented")
    make_trace(folder / "t.ljt", SCRIPT)
    make_trace(folder / "u.ljt", SCRIPT.replace("N 8192 300", "N 8192 400"))
    (folder / "a-allocstats").write_text(OLD)
    (folder / "a.memprof").write_bytes(
        symtab(3, record(0, 64, "@t.lua", 0))
        + stream(
            b"ljm",
            3,
            record(0x09, 64, 10, 0x1000, 100),
            record(0x0B, 64, 12, 0x1000, 100, 0x6000, 300),
            record(0x06, 0x6000, 300),
        )
    )
    return folder


def keys(value: Any) -> Iterator[str]:
    """All keys of an object and of the objects within it."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from keys(item)


def undocumented(command: str, names: set[str]) -> list[str]:
    words = {*re.findall(r"[A-Za-z_][\w-]*", SECTIONS.get(command, "")), *KIND_NAMES}
    return sorted(name for name in names if name not in words and not DATA.fullmatch(name))


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in NO_JSON | DRIVEN])
def test_keys_of_json(files: Path, command: str) -> None:
    result = Steve(files)(command, "--json", *JSON.get(command, ("t.ljt",)))
    assert result.returncode == 0, result.err
    found = set(keys(json.loads(result.out)))
    missing = undocumented(command, found)
    assert found and not missing, " ".join(missing)


@pytest.mark.parametrize("command", [name for name in COMMANDS if hasattr(Command(name).module, "COLUMNS")])
def test_columns(files: Path, command: str) -> None:
    """CSV and JSON have the same columns, which --help and the page explain."""
    parser = Command(command).parser
    if "--csv" not in parser.format_help():
        pytest.fail("has columns and no --csv")
    arguments = {"diff": ("t.ljt", "u.ljt"), "lockops": ("--full", "--stats", "t.ljt"), "universe": ("t.ljt",)}.get(
        command, ("t.ljt",)
    )
    head = next(csv.reader(io.StringIO(Steve(files)(command, "--csv", *arguments).out)))
    explained = parser.format_help()
    assert head and undocumented(command, set(head)) == []
    for name in head:
        assert re.search(rf"^  {name}\b", explained, re.MULTILINE) or name == "finding", name


@pytest.mark.parametrize("command", COMMANDS)
def test_options(command: str) -> None:
    """The page documents every option of a command and no others."""
    text = Command(command).parser.format_help().split("\n\n")
    options = set(
        re.findall(
            r"(?<![\w-])--([a-z][a-z-]*)", "\n".join(part for part in text if part.startswith(("options:", "usage:")))
        )
    )
    shared = set(
        re.findall(
            r"(?:Fl|,) -([a-z][a-z-]*)", re.split(r"^\.It Nm Cm ", plain(PAGE.read_text()), flags=re.MULTILINE)[0]
        )
    )
    shared |= {"csv", "top", "sort", "jobs", "scheduler", "text"}
    # options of the recorder and of Valgrind
    others = {
        "stack-depth",
        "sample-stacks",
        "universe",
        "pages",
        "existing-blocks",
        "tool",
        "fair-sched",
        "trace-malloc",
    }
    known = set(re.findall(r"(?:Fl -|--)([a-z][a-z-]*)", SECTIONS[command]))
    missing, strange = options - shared - known, known - shared - options - others
    assert not missing and not strange, (missing, strange)


def test_the_page_has_every_command() -> None:
    """In the groups of --help, and in their order."""
    text = PAGE.read_text()
    assert set(SECTIONS) == set(COMMANDS)
    for heading, names in GROUPS.items():
        section = re.search(rf"^\.Sh {heading.upper()}$(.*?)^\.Sh ", text, re.M | re.S)
        assert section, heading
        assert tuple(dict.fromkeys(re.findall(r"^\.It Nm Cm (\w+)", section[1], re.M))) == names


def test_the_page_says_what_reads_samples() -> None:
    """Two lists: what shows the file, and what estimates."""
    part = re.search(r"Accesses are not counted exactly\.(.*?)^estimate\.$", PAGE.read_text(), re.M | re.S)
    assert part
    named = set(re.findall(r"[a-z]+", " ".join(re.findall(r"^(?:\.Cm (.*)|and)$", part[1], re.M))))
    assert named == {name for name in COMMANDS if Command(name).reads_samples}


def glossary() -> list[tuple[str, str, str]]:
    """The rows of docs/glossary.md: term, file and identifier ("" if the file as a whole defines it)."""
    rows = []
    for line in (PAGE.parent / "glossary.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in ("term", "---"):
            assert len(cells) == 3, line
            named = re.fullmatch(r"`([^`]+)`(?: `([^`]+)`)?", cells[2])
            assert named, line
            rows.append((cells[0], named[1], named[2] or ""))
    return rows


@pytest.mark.parametrize("term, file, identifier", glossary(), ids=lambda value: str(value).split(",")[0])
def test_glossary_names_what_is_there(term: str, file: str, identifier: str) -> None:
    text = (PAGE.parents[1] / file).read_text()
    assert re.search(rf"(?<!\w){re.escape(identifier)}(?!\w)", text), f"{term}: no {identifier} in {file}"


def test_glossary_has_each_term_once() -> None:
    terms = [term for term, _, _ in glossary()]
    assert len(terms) > 40 and len(set(terms)) == len(terms)
