#!/usr/bin/env python3
"""parts.py - writes parts.am: each FOLDER/part.am, with names of files in place of patterns.

    python3 parts.py [SOURCE-FOLDER]

automake wants every source by its name. So that nobody keeps these lists, a part.am has patterns, and this script
writes what automake reads. configure.ac runs it, so autoreconf does, and so does each make, since the Makefile depends
on parts.am. It changes parts.am only if that would have another text: when files came or went, or a part.am changed. A
distribution contains parts.am. What is written depends on the names of files alone, not on git or the time.

    $(FILES memtrace/*/*.c !memtrace/test/*)

stands for the files of all patterns without those of the patterns after `!`. `*` is any text without `/`, `**/` is any
number of folders. Each pattern must find something, so that a misspelt one is an error.

    #each memtrace/test/test_*.c !memtrace/test/test_slow.c
    check_PROGRAMS += $(EACH)
    $(EACH_NAME)_LDADD = $(MEMTRACE_LIBS)
    #end

writes the lines between once for each file: $(EACH) is its path without the ending, $(EACH_NAME) is that path as in the
names of automake's variables.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
import re
import sys
from pathlib import Path

# in this order, since one part uses variables of another one
PARTS = ("memtrace", "ljtrace", "drivers", "steve", "examples", "docs", "regtest")
HEAD = "# Written by parts.py from every FOLDER/part.am: change those.\n"
FILES = re.compile(r"\$\(FILES\s([^()]*)\)")
EACH = re.compile(r"^#each[ \t]((?:.*\\\n)*.*)\n((?:(?!#end$).*\n)*)#end\n", re.MULTILINE)
WIDTH = 120


class Wrong(Exception):
    """A pattern that finds nothing."""


def is_built(path: Path) -> bool:
    """Python's own files, which a build in the tree writes beside the sources."""
    return "__pycache__" in path.parts


def found(source: Path, pattern: str) -> set[str]:
    """The files of one pattern, by their names from the source folder."""
    names = {
        path.relative_to(source).as_posix() for path in source.glob(pattern) if path.is_file() and not is_built(path)
    }
    if not names:
        raise Wrong(f"the pattern {pattern} finds no file")
    return names


def files(source: Path, patterns: str) -> list[str]:
    """The files of all patterns, sorted."""
    words = patterns.replace("\\\n", " ").split()
    wanted: set[str] = set()
    for word in words:
        if not word.startswith("!"):
            wanted |= found(source, word)
    for word in words:
        if word.startswith("!"):
            wanted -= found(source, word[1:])
    if not wanted:
        raise Wrong(f"the patterns leave no file: {' '.join(words)}")
    return sorted(wanted)


def in_lines(names: list[str]) -> str:
    """As a list of make, in lines that continue."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > WIDTH - 12:
            lines.append("")
        lines[-1] += f" {name}"
    return " \\\n\t".join(line.strip() for line in lines)


def expanded(source: Path, text: str) -> str:
    """The text of a part.am without patterns."""

    def repeated(block: re.Match[str]) -> str:
        paths = [os.path.splitext(name)[0] for name in files(source, block[1])]
        return "".join(
            block[2].replace("$(EACH)", path).replace("$(EACH_NAME)", re.sub(r"[^A-Za-z0-9_@]", "_", path))
            for path in paths
        )

    return FILES.sub(lambda use: in_lines(files(source, use[1])), EACH.sub(repeated, text))


def parts(source: Path) -> str:
    """The text of parts.am."""
    text = HEAD
    for part in PARTS:
        path = source / part / "part.am"
        try:
            text += f"\n# ==== {part}/part.am\n{expanded(source, path.read_text())}"
        except Wrong as wrong:
            raise SystemExit(f"{path}: {wrong}") from wrong
    return text


def main() -> None:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    made, text = source / "parts.am", parts(source)
    if made.exists() and made.read_text() == text:
        return
    draft = source / f"parts.am.{os.getpid()}"
    draft.write_text(text)
    draft.replace(made)


if __name__ == "__main__":
    main()
