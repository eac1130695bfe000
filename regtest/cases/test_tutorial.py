"""test_tutorial - every command of the tutorial and of the FAQ works, and what the texts show is what it prints.

The commands (documents.py says which they are) are run in their order by one shell, in a folder with a copy of
examples/. A number in a sentence is in an output of the same section, or in a program. Blocks of other languages are
parts of files in examples/.

GOLDEN_UPDATE=1 writes outputs that differ into the document (`make golden-update`).

SPDX-License-Identifier: GPL-2.0-or-later
"""
import difflib
import os
import re
import shutil
from pathlib import Path

import pytest
from documents import FENCE, NUMBER, Command, fenced, same
from support import SOURCE, run

DOCUMENTS = {"tutorial": ("gcc", "patch", "heaptrack", "ffmpeg"), "faq": ("gcc", "sqlite3")}
ALLOCATORS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "musl")
PROGRAMS = [path for path in sorted((SOURCE / "examples").iterdir()) if path.suffix in (".c", ".lua", ".patch")]


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


def wrong_outputs(name: str, folder: Path) -> str:
    """The differences between a document and the outputs of its commands; corrected at GOLDEN_UPDATE."""
    path = SOURCE / "docs" / f"{name}.md"
    text = path.read_text()
    found = fenced(text)
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
    assert same(["process ... ended"], ["process 77 ended"], 0) and not same(["process ... ended"], ["process 77"], 0)
