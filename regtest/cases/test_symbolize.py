"""test_symbolize - code addresses are named after the recording, from files that have the recorded build ids.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import good, record, run

CHUNK = b"\xabljtCHK\n"  # begins each chunk
PROGRAM = """\
#include <stdlib.h>
#define INLINE __attribute__((always_inline)) static inline
#define FAR __attribute__((noinline)) static

INLINE char *made(int n)
{
    char *block = malloc(n); // made
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

FAR char *first(int n)
{
    return made(n); // first
}

int main(void)
{
    char *a = first(100), *b = made(200); // main
    free(a);
    free(b);
    return 0;
}
"""


def compiled(folder: Path, *options: str, source: str = PROGRAM) -> Path:
    (folder / "app.c").write_text(source)
    subprocess.run([shutil.which("cc") or "cc", "-O1", *options, "-o", "app", "app.c"], cwd=folder, check=True)
    return folder / "app"


def build_id(path: Path) -> str:
    return re.findall(r"Build ID: ([0-9a-f]+)", good(["readelf", "-n", path]).text)[0]


def stripped(program: Path, debug: Path) -> None:
    """Move the debug information and symbols of a program into a folder, where its build id is the name."""
    name = build_id(program)
    (debug / ".build-id" / name[:2]).mkdir(parents=True)
    good(["objcopy", "--only-keep-debug", program, debug / ".build-id" / name[:2] / f"{name[2:]}.debug"])
    good(["strip", program])


def symbolize(trace: Path, out: Path, *options: object) -> dict[str, Any]:
    return json.loads(good(["steve", "symbolize", "-q", "--json", *options, "-o", out, trace]).text)


def sites(trace: Path) -> dict[int, str]:
    """The site of each size of block of the program."""
    rows = json.loads(good(["steve", "sites", "--json", trace]).text)
    return {row["bytes"] // row["blocks"]: row["site"] for row in rows}


def place(text: str) -> str:
    """`(app.c:LINE)` of the line with a comment."""
    lines = PROGRAM.splitlines()
    return f"(app.c:{next(i for i, line in enumerate(lines, 1) if line.endswith(f'// {text}'))})"


def assert_named(trace: Path) -> None:
    found = sites(trace)
    assert found[100].startswith(f"made {place('made')} < first {place('first')}"), found
    assert found[200].startswith(f"made {place('made')} < main {place('main')}"), found


def same_events(one: Path, other: Path) -> bool:
    """Are the totals, and the life of each block, those of the other?"""
    commands = (["summary", "--json", "--top=0"], ["lifetimes", "--json"], ["memtrace"], ["check"])
    return all(
        re.sub(r'"?file"?.*', "", good(["steve", *words, one]).text.replace(one.name, ""))
        == re.sub(r'"?file"?.*', "", good(["steve", *words, other]).text.replace(other.name, ""))
        for words in commands
    )


@pytest.mark.parametrize("gone", [False, True], ids=["there", "gone"])
def test_a_stripped_program_is_named_from_its_debug_file(tmp_path: Path, gone: bool) -> None:
    """The program itself need not be there any more."""
    program, debug = compiled(tmp_path, "-g"), tmp_path / "debug"
    stripped(program, debug)
    trace = record(tmp_path / "t.ljt", [program]).path
    assert "made" not in sites(trace)[100]
    if gone:
        program.unlink()
    facts = symbolize(trace, tmp_path / "named.ljt", "--debug-dir", debug)
    app = next(module for module in facts["modules"] if module["object"] == str(program))
    assert app["file"].startswith(str(debug)) and app["named"] == app["addresses"] > 0
    assert_named(tmp_path / "named.ljt")
    assert same_events(trace, tmp_path / "named.ljt")


@pytest.mark.parametrize(
    "options", [["-g"], ["-g", "-gz=zlib"], ["-g", "-gsplit-dwarf"], ["-gdwarf-4"]], ids=lambda options: options[-1]
)
def test_a_trace_that_is_named_again_has_the_same_names(tmp_path: Path, options: list[str]) -> None:
    program = compiled(tmp_path, *options)
    trace = record(tmp_path / "t.ljt", [program]).path
    symbolize(trace, tmp_path / "named.ljt")
    assert_named(trace)
    assert_named(tmp_path / "named.ljt")
    assert same_events(trace, tmp_path / "named.ljt")


def test_another_object_at_the_same_path_is_not_used(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-g")
    stripped(program, tmp_path / "debug")
    trace = record(tmp_path / "t.ljt", [program]).path
    compiled(tmp_path, "-g", source=PROGRAM.replace("made", "changed"))
    done = good(["steve", "symbolize", "-o", tmp_path / "named.ljt", trace])
    assert f"{program}: no file with the build id" in done.complaint and "--debug-dir" in done.complaint
    assert "changed" not in str(sites(tmp_path / "named.ljt"))
    assert same_events(trace, tmp_path / "named.ljt")


def test_a_trace_that_was_cut_off_is_copied_as_far_as_it_goes(tmp_path: Path) -> None:
    trace = record(tmp_path / "t.ljt", [compiled(tmp_path, "-g")]).path
    data = trace.read_bytes()
    trace.write_bytes(data[: data.rindex(CHUNK, 0, data.rindex(CHUNK)) + 10])  # within the END chunk
    done = run(["steve", "symbolize", "-o", tmp_path / "named.ljt", trace])
    assert done.status == 1 and "cut off" in done.complaint
    cut = run(["steve", "sites", "--json", tmp_path / "named.ljt"])
    assert cut.status == 1 and "made" in cut.text


@pytest.mark.parametrize(
    "words, status, text",
    [
        (["-o", "t.ljt", "t.ljt"], 2, "t.ljt"),
        (["-o", "x.ljt", "--debug-dir", "nowhere", "t.ljt"], 2, "no such folder"),
        (["-o", "x.ljt", "-"], 2, "must be a file"),
        (["-o", "x.ljt", "text"], 1, "classic text"),
        (["t.ljt"], 2, "-o"),
    ],
)
def test_wrong_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, text: str
) -> None:
    record(tmp_path / "t.ljt", [compiled(tmp_path, "-g")])
    (tmp_path / "text").write_text(">>> N 4096 8\n>>> F 4096 0\n")
    monkeypatch.chdir(tmp_path)
    before = (tmp_path / "t.ljt").read_bytes()
    done = run(["steve", "symbolize", *words])
    assert done.status == status and text in done.complaint
    assert (tmp_path / "t.ljt").read_bytes() == before and not (tmp_path / "x.ljt").exists()


# -- forms of debug information, and files that are missing ----------------------------------------


def objcopy_can(folder: Path, option: str) -> bool:
    shutil.copy(folder / "app", folder / "copy")
    return run(["objcopy", option, folder / "copy"]).status == 0


@pytest.mark.parametrize("form", ["zlib", "zlib-gnu", "zstd"])
@pytest.mark.parametrize("separate", [False, True], ids=["within", "separate"])
def test_compressed_sections(tmp_path: Path, form: str, separate: bool) -> None:
    """libelf before 0.189 cannot read sections compressed by zstd. Neither can Valgrind 3.19, which then has no symbols
    of the object either, so that its names are known only afterwards."""
    program, debug = compiled(tmp_path, "-g"), tmp_path / "debug"
    option = f"--compress-debug-sections={form}"
    if not objcopy_can(tmp_path, option):
        pytest.skip(f"objcopy has no {option} (package binutils)")
    good(["objcopy", option, program])
    if separate:
        stripped(program, debug)
    trace = record(tmp_path / "t.ljt", [program])
    assert "missing, as debug information" not in trace.run.complaint
    debug.mkdir(exist_ok=True)
    facts = symbolize(trace.path, tmp_path / "named.ljt", "--debug-dir", debug)
    assert facts["problems"] == {}
    assert_named(tmp_path / "named.ljt")
    if not separate and form != "zstd":
        assert_named(trace.path)


def test_damaged_compressed_sections(tmp_path: Path) -> None:
    """Whatever such a section contains, the program is recorded, and its symbols are known."""
    program = compiled(tmp_path, "-g")
    if not objcopy_can(tmp_path, "--compress-debug-sections=zstd"):
        pytest.skip("objcopy has no --compress-debug-sections=zstd (package binutils)")
    good(["objcopy", "--compress-debug-sections=zstd", program])
    header = next(row for row in good(["readelf", "-SW", program]).text.splitlines() if " .debug_info " in row)
    offset, size = (int(word, 16) for word in header.split(" PROGBITS ")[1].split()[1:3])
    data = bytearray(program.read_bytes())
    data[offset + 24 : offset + size] = bytes(size - 24)
    program.write_bytes(data)
    trace = record(tmp_path / "t.ljt", [program]).path
    facts = symbolize(trace, tmp_path / "named.ljt")
    assert list(facts["problems"]) == [str(program)]
    assert sites(tmp_path / "named.ljt")[100].startswith("first (app)")


def test_files_of_split_debug_information_that_are_missing_are_named(tmp_path: Path) -> None:
    """The lines are in the program itself, but not the inlined functions."""
    program = compiled(tmp_path, "-g", "-gsplit-dwarf")
    names = [path.name for path in tmp_path.glob("*.dwo")]
    for name in names:
        (tmp_path / name).rename(tmp_path / f"{name}.away")
    trace = record(tmp_path / "t.ljt", [program])
    missing = f"{program} (its file {tmp_path / names[0]} is missing)"
    assert len(names) == 1 and missing in trace.run.complaint
    done = good(["steve", "symbolize", "-o", tmp_path / "one.ljt", trace.path])
    assert f"its file {tmp_path / names[0]} is missing" in done.complaint
    assert sites(tmp_path / "one.ljt")[100].startswith(f"first {place('made')} < main"), sites(tmp_path / "one.ljt")
    (tmp_path / f"{names[0]}.away").rename(tmp_path / names[0])
    assert symbolize(trace.path, tmp_path / "two.ljt")["problems"] == {}
    assert_named(tmp_path / "two.ljt")


def test_the_common_file_of_dwz(tmp_path: Path) -> None:
    if not shutil.which("dwz"):
        pytest.skip("dwz is not installed (package dwz)")
    program = compiled(tmp_path, "-g", "-gdwarf-4")
    shutil.copy(program, tmp_path / "other")
    good(["dwz", "-m", "common", "app", "other"], cwd=tmp_path)
    assert " .gnu_debugaltlink " in good(["readelf", "-SW", program]).text
    trace = record(tmp_path / "t.ljt", [program]).path
    assert symbolize(trace, tmp_path / "one.ljt")["problems"] == {}
    assert_named(trace)
    assert_named(tmp_path / "one.ljt")
    (tmp_path / "common").unlink()
    facts = symbolize(trace, tmp_path / "two.ljt")
    assert list(facts["problems"]) == [str(program)] and "common is missing" in facts["problems"][str(program)]


def test_an_object_that_is_gone_is_named(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-g")
    trace = record(tmp_path / "t.ljt", [program]).path
    wanted = build_id(program)
    program.unlink()
    done = good(["steve", "symbolize", "-o", tmp_path / "named.ljt", trace])
    assert f"{program}: no file with the build id {wanted} was found; --debug-dir" in done.complaint
    assert_named(tmp_path / "named.ljt")
