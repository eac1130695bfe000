"""test_tutorial - every command of the tutorial and of the FAQ works, and what the texts show is what it prints.

The commands of a document are its blocks of the languages sh and sql, run in their order by one shell, in a folder with
a copy of examples/. A block `text` after one has what it prints, where a line `...` stands for any lines, and addresses
may differ. After `text 10%`, numbers may differ by as much. A number in a sentence is in an output of the same section,
or in a program. Blocks of other languages are parts of files in examples/.

GOLDEN_UPDATE=1 writes outputs that differ into the document (`make golden-update`).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import difflib
import os
import re
import shlex
import shutil
from pathlib import Path
from dataclasses import dataclass

import pytest
from support import SOURCE, run

DOCUMENTS = {"tutorial": ("gcc", "patch", "heaptrack", "ffmpeg"), "faq": ("gcc", "sqlite3")}
ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "musl")
FENCE = re.compile(r"^```(\w+)(?: (\d+)%)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"0x[0-9a-f]{5,}")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
PROGRAMS = [path for path in sorted((SOURCE / "examples").iterdir()) if path.suffix in (".c", ".lua", ".patch")]


@dataclass
class Command:
    """Commands of a document, and the output that it shows."""

    script: str
    output: str | None
    tolerance: int
    place: tuple[int, int]
    """Where the output is in the document."""


def commands(text: str) -> list[Command]:
    """The commands of a document."""
    found: list[Command] = []
    last_end = -1
    for block in FENCE.finditer(text):
        language, tolerance, inside = block.groups()
        if language in ("sh", "sql"):
            script = inside if language == "sh" else f"sqlite3 -box app.ljt.sqlite {shlex.quote(inside)}\n"
            found.append(Command(script, None, 0, (0, 0)))
            last_end = block.end()
        elif language == "text":
            assert found and text[last_end : block.start()].strip() == "", f"no command before:\n{inside}"
            found[-1].output, found[-1].tolerance, found[-1].place = inside, int(tolerance or 0), block.span(3)
    return found


def outputs(found: list[Command], folder: Path) -> list[str]:
    """What the commands print, each of which must succeed. They run in one shell."""
    shutil.copytree(SOURCE / "examples", folder / "examples")
    script = "set -eu\n"
    for number, command in enumerate(found):
        script += f"exec >{folder}/{number}.out 2>&1\n{command.script}\n"
    (folder / "script").write_text(script)
    # a path of Lua modules that is the same everywhere, because it is a string of each Lua state
    (folder / "lua").symlink_to(SOURCE / "ljtrace/lua")
    environment = {"LC_ALL": "C.UTF-8", "HOME": str(folder), "LUA_PATH": "../lua/?.lua;;", "LUA_CPATH": ";;"}
    done = run(["bash", folder / "script"], env=environment, cwd=folder)
    printed = [path.read_text() for number in range(len(found)) if (path := folder / f"{number}.out").exists()]
    assert done.status == 0, f"{found[len(printed) - 1].script}\nprinted:\n{printed[-1][-2000:]}"
    return printed


def equal_lines(shown: str, printed: str, tolerance: int) -> bool:
    """Are two lines equal, but for addresses and as far as numbers may differ?"""
    if tolerance == 0:
        return ADDRESS.sub("0x", shown).rstrip() == ADDRESS.sub("0x", printed).rstrip()
    if NUMBER.sub("", shown).split() != NUMBER.sub("", printed).split():
        return False
    pairs = [[float(x.replace(",", "")) for x in NUMBER.findall(line)] for line in (shown, printed)]
    return all(abs(a - b) <= max(a, b) * tolerance / 100 for a, b in zip(*pairs))


def same(shown: list[str], printed: list[str], tolerance: int) -> bool:
    """Does the output fit what the document shows?"""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(same(shown[1:], printed[i:], tolerance) for i in range(len(printed) + 1))
    return bool(printed) and equal_lines(shown[0], printed[0], tolerance) and same(shown[1:], printed[1:], tolerance)


def wrong_outputs(name: str, folder: Path) -> str:
    """The differences between a document and the outputs of its commands; corrected at GOLDEN_UPDATE."""
    path = SOURCE / "docs" / f"{name}.md"
    text = path.read_text()
    found = commands(text)
    assert len(found) > 8
    new, differences, begin = "", [], 0
    for command, printed in zip(found, outputs(found, folder)):
        shown = command.output
        if shown is None or same(shown.splitlines(), printed.splitlines(), command.tolerance):
            continue
        lines = difflib.unified_diff(shown.splitlines(), printed.splitlines(), "document", "output", lineterm="")
        differences.append(command.script + "\n".join(lines))
        new += text[begin : command.place[0]] + "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
        begin = command.place[1]
    if os.environ.get("GOLDEN_UPDATE") and differences:
        path.write_text(new + text[begin:])
    return "\n".join(differences)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_print_what_the_document_shows(name: str, tmp_path: Path) -> None:
    missing = [program for program in DOCUMENTS[name] if not shutil.which(program)]
    listed = run(["steve-replay", "--list"]).text
    missing += [name for name in ALLOCATORS if re.search(rf"^{name} +missing", listed, re.MULTILINE)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    wrong = wrong_outputs(name, tmp_path)
    assert not wrong, wrong


@pytest.mark.parametrize("name", DOCUMENTS)
def test_numbers_in_sentences_are_in_outputs(name: str) -> None:
    programs = " ".join(path.read_text() for path in PROGRAMS)
    for section in re.split(r"^## ", (SOURCE / "docs" / f"{name}.md").read_text(), flags=re.MULTILINE):
        shown = " ".join(block[3] for block in FENCE.finditer(section)) + programs
        known = set(NUMBER.findall(shown))
        sentences = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", FENCE.sub("", section), flags=re.DOTALL)
        numbers = {number.rstrip(",") for number in NUMBER.findall(sentences) if len(number.rstrip(",")) > 1}
        assert numbers <= known, f"{section.splitlines()[0]}: {sorted(numbers - known)}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_code_is_that_of_the_examples(name: str) -> None:
    texts = [path.read_text() for path in PROGRAMS]
    for language, _, inside in FENCE.findall((SOURCE / "docs" / f"{name}.md").read_text()):
        if language not in ("sh", "sql", "text"):
            assert any(inside in text for text in texts), inside


def test_differences_are_found() -> None:
    """The comparison accepts what may differ, and nothing else."""
    assert same(["a", "...", "tab 0x4b5a840"], ["a", "b", "c", "tab 0x4b5a8f0"], 0)
    assert not same(["a", "...", "d"], ["a", "b", "c"], 0) and not same(["12"], ["13"], 0)
    assert same(["jemalloc  100 MiB"], ["jemalloc  99.2 MiB"], 10) and not same(["x 100"], ["x 80"], 10)
    assert not same(["x 100 MiB"], ["y 100 MiB"], 10) and not same([], ["a"], 0)
