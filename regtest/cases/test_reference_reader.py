"""test_reference_reader - the reader that was written from docs/memtrace-format.md alone reads what libmemtrace reads.

examples/readers/reference.py shares no code with the library and prints the same lines as `steve dump`: all definitions,
events and totals. So a part of the format that the document has wrong, or that only the library knows, is found here.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import contextlib
import difflib
import functools
import importlib.util
import io
import json
import random
import re
import struct
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import warm
from support import APP_LUA, BUILD, SOURCE, Done, good, record, run, steve

READER = SOURCE / "examples/readers/reference.py"
LUA = """\
local words = {}
for i = 1, 60 do words[#words + 1] = ("w"):rep(i % 40) .. i end
for word in table.concat(words, " "):gmatch("%S+") do words[word] = coroutine.wrap(function() return {word} end)() end
local sum = 0
for i = 1, 100 do local t = {i, x = i} sum = sum + t[1] + t.x end
require "ljtrace".mark("sum")
collectgarbage()
"""
C = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long *shared;
static void *work(void *number)
{
    char *kept = 0;
    for (long i = 0; i < 300; i++) {
        char *m = memset(malloc(1 + i % 700), 1, 1 + i % 700);
        shared[(long)number] += m[i % 7 % (1 + i % 700)];
        m = i % 3 ? m : realloc(m, 900 + 100 * i);
        if (i % 50) free(m); else { free(kept); kept = m; }
    }
    return kept;
}
int main(void)
{
    pthread_t t[3];
    void *left;
    shared = calloc(8, sizeof *shared);
    for (long i = 0; i < 3; i++) pthread_create(t + i, 0, work, (void *)i);
    for (int i = 0; i < 3; i++) { pthread_join(t[i], &left); if (i) free(left); }
    char *volatile gone = malloc(40);
    if (write(1, gone, 40) < 0) gone[0] = gone[41];
    free(gone);
    gone[3] = 1;
    free(gone);
    free(malloc(0));
    return 0;
}
"""
FORK = """\
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    char *volatile before = malloc(70);
    int child = fork();
    char *volatile after = malloc(child ? 80 : 90);
    if (child) waitpid(child, 0, 0);
    free(before);
    free(after);
    return 0;
}
"""


def loaded() -> ModuleType:
    found = importlib.util.spec_from_file_location("reference", READER)
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    sys.modules["reference"] = module
    found.loader.exec_module(module)
    return module


reference = loaded()


@functools.cache
def read(path: Path, *options: str) -> Done:
    """What the reader prints, in this process. No test changes a file that was read."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = reference.main([*options, str(path)])
    return Done(status, out.getvalue().encode(), err.getvalue().encode())


@functools.cache
def dump(path: Path, *options: str) -> Done:
    done = warm.steve(["dump", *options, str(path)])
    return Done(done.returncode, done.stdout, done.stderr)


def lines(done: Done) -> list[str]:
    """The lines of a dump."""
    return done.text.splitlines()


def differences(path: Path) -> str:
    """The lines in which both readers differ, at most 20, and errors of which only one is aware."""
    mine, theirs = read(path), dump(path)
    if (mine.status, lines(mine)) == (theirs.status, lines(theirs)):
        return ""
    different = difflib.unified_diff(lines(theirs), lines(mine), "dump", "reference", lineterm="", n=1)
    errors = (
        "" if mine.status == theirs.status else f"{theirs.status}, {mine.status}: {theirs.complaint}{mine.complaint}"
    )
    return "\n".join([*(line for line, _ in zip(different, range(20))), errors]).strip()


@pytest.fixture(scope="module", name="lua")
def recorded_lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lua with accesses, states, samples and a snapshot."""
    folder = tmp_path_factory.mktemp("lua")
    (folder / "t.lua").write_text(LUA)
    options = ("--universe=at-exit", "--sample-stacks=50k")
    trace = record(folder / "t.ljt", ["luajit", folder / "t.lua"], *options)
    assert trace.run.status == 0, trace.run.complaint
    return trace.path


@pytest.fixture(scope="module", name="threads")
def recorded_threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("threads")
    (folder / "t.c").write_text(C)
    good(["gcc", "-g", "-w", "-O1", "-pthread", "-o", folder / "t", folder / "t.c"])
    return record(folder / "t.ljt", [folder / "t"]).path


def test_lua(lua: Path) -> None:
    assert differences(lua) == ""
    kinds = Counter(line.split(" ", 1)[0] for line in read(lua).text.splitlines())
    wanted = "new free resize load store type state sample mark luaframe proto segment module object link".split()
    assert [kind for kind in wanted if not kinds[kind]] == []


def test_threads_and_errors(threads: Path) -> None:
    assert differences(threads) == ""
    text = read(threads).text
    assert " thread=4 " in text and " freed=1" in text and "\nbadfree " in text and " kernel=1" in text


def test_totals(lua: Path, threads: Path) -> None:
    """Sums of its events are those of `steve summary`."""
    for path in (lua, threads):
        events: Counter[str] = Counter()
        allocated = 0
        for line in read(path).text.splitlines():
            kind, _, rest = line.partition(" ")
            if " freed=1" in rest or " beside=1" in rest:
                continue
            events[kind] += 1
            if kind in ("new", "resize"):
                allocated += int(dict(word.split("=") for word in rest.split())["size"])
        found = json.loads(steve("summary", "--json", path).text)
        assert found["events"] == {kind: events[kind] for kind in found["events"]}
        assert found["bytes"]["allocated"] == allocated


def test_native(tmp_path: Path) -> None:
    path = tmp_path / "t.ljt"
    good(["ljtrace", "run", f"--out={path}", "luajit", APP_LUA, "0.05"])
    assert differences(path) == ""


POOLS = """\
#include <stdlib.h>
__attribute__((noipa)) char *pool_make(void) { return malloc(4096); }
__attribute__((noipa)) void *pool_piece(char *pool, size_t n) { return pool + n; }
__attribute__((noipa)) void pool_end(char *pool) { free(pool); }
int main(void) {
    char *freed = pool_make(), *kept = pool_make();
    pool_piece(freed, 100), pool_piece(kept, 100), pool_end(freed);
    return 0;
}
"""


def test_divided_blocks(tmp_path: Path) -> None:
    """Of two blocks that pools divide, one is not freed."""
    path, program = tmp_path / "t.ljt", tmp_path / "p"
    (tmp_path / "p.c").write_text(POOLS)
    good(["gcc", "-O1", "-o", program, tmp_path / "p.c"])
    functions = [f"--pool-fn={each}" for each in ("pool_make:make", "pool_piece:alloc", "pool_end:end")]
    good(["ljtrace", "run", *functions, f"--out={path}", program])
    containers = [line for line in lines(dump(path)) if line.startswith("container ")]
    assert len(containers) == 2 and sum("kept" in line for line in containers) == 1
    assert differences(path) == ""


def test_children(tmp_path: Path) -> None:
    """A forked child's file begins with the blocks that it inherits."""
    (tmp_path / "t.c").write_text(FORK)
    good(["gcc", "-O1", "-o", tmp_path / "t", tmp_path / "t.c"])
    record(tmp_path / "t.ljt", [tmp_path / "t"])
    paths = sorted(tmp_path.glob("*.ljt"))
    assert len(paths) == 2
    for path in paths:
        assert differences(path) == ""


def test_compressed(threads: Path, tmp_path: Path) -> None:
    """The whole file in two zstd frames."""
    data = threads.read_bytes()
    for name, part in (("a", data[:999]), ("b", data[999:])):
        (tmp_path / name).write_bytes(part)
        good(["zstd", "-q", tmp_path / name])
    (tmp_path / "t.zst").write_bytes((tmp_path / "a.zst").read_bytes() + (tmp_path / "b.zst").read_bytes())
    assert lines(read(tmp_path / "t.zst")) == lines(read(threads))


# -- cut and damaged files --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="long")
def made_long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many chunks, with checkpoints and the list of survivors."""
    path = tmp_path_factory.mktemp("long") / "t.ljt"
    number = random.Random(1)
    script, blocks = ["stack main f@a.c:1", "heap 0x1234 lua"], [4096]
    for i in range(6000):
        chosen = number.choice(blocks[-20:])
        if i % 500 == 0:
            script += [f"at f{i}@a.c:{i + 1}", f"mark m{i}", f"time {10 * i}", f"thread {1 + i % 3}"]
        if i % 7 == 0:
            blocks.append(blocks[-1] + 256)
            script.append(f"N {blocks[-1]} {number.randrange(1, 200)} {i % 2} {i % 2}")
        elif i % 23 == 0 and chosen != blocks[-1]:
            blocks.remove(chosen)
            script.append(f"F {chosen}" if chosen > 4096 else f"mark n{i}")
        else:
            script.append(f"{number.choice('LSM')} {chosen + number.randrange(64)} {number.choice((1, 4, 8))}")
    script += ["time 60000", "end exit"]
    done = run([BUILD / "steve/test/mktrace", path, 300, 3], stdin="\n".join(script).encode())
    assert done.status == 0, done.complaint
    return path


def chunks(data: bytes) -> list[tuple[int, int, int]]:
    """Type, offset and size of each chunk of a file."""
    found, at = [], 16
    while data[at : at + 4] == b"\xabljt" and data[at + 4 : at + 7] == b"CHK":
        size = 72 + struct.unpack_from("<I", data, at + 16)[0]
        found.append((data[at + 8], at, size))
        at += size
    return found


def test_many_chunks(long: Path) -> None:
    assert differences(long) == ""
    assert good([sys.executable, READER, long]).text == read(long).text
    kinds = Counter(kind for kind, _, _ in chunks(long.read_bytes()))
    assert kinds[2] > 10 and kinds[5] > 2 and kinds[7] == 1  # EVENTS, CHECKPOINT, SURVIVORS


def test_cut_files(long: Path, tmp_path: Path) -> None:
    """All before the cut is read, then there is an error, wherever the cut is."""
    data = long.read_bytes()
    found = chunks(data)
    ends = [at for _, at, _ in found]
    whole = next(at + size for kind, at, size in found if kind == 3)
    for size in (0, 5, 17, ends[5], ends[6] + 30, ends[7] + 200, whole - 1, whole, whole + 5, len(data) - 1):
        cut = tmp_path / str(size)
        cut.write_bytes(data[:size])
        if size >= 17:
            assert differences(cut) == "", size
        assert (read(cut).status == 0) == (size == whole), size


@pytest.mark.parametrize("harm", ("payload", "header"))
def test_damaged_files(long: Path, tmp_path: Path, harm: str) -> None:
    """Nothing of a damaged chunk is used. With --salvage, all before it and all after the next checkpoint is as
    libmemtrace reads it, and the events between are counted."""
    data = bytearray(long.read_bytes())
    found = chunks(bytes(data))
    events = [i for i, (kind, _, _) in enumerate(found) if kind == 2]
    victim = found[events[5]]
    data[victim[1] + (72 + 9 if harm == "payload" else 20)] ^= 1
    (tmp_path / "t.ljt").write_bytes(data)
    assert differences(tmp_path / "t.ljt") == ""
    assert read(tmp_path / "t.ljt").status == 1
    mine, theirs = lines(read(tmp_path / "t.ljt", "--salvage")), lines(dump(tmp_path / "t.ljt", "--salvage"))
    (place,) = (i for i, line in enumerate(mine) if line.startswith("lost "))
    assert mine[:place] == theirs[:place]
    after = mine[place + 1 :]
    assert len(after) > 1000 and after == theirs[-len(after) :]
    kinds = r"(new|free|resize|load|store|modify|mark|badfree) "
    (lost,) = re.findall(r"^lost events=(\d+)", mine[place])
    total = sum(bool(re.match(kinds, line)) for line in lines(read(long)))
    assert sum(bool(re.match(kinds, line)) for line in mine) + int(lost) == total


# -- is it independent, and does it check? ----------------------------------------------------------------------------


def test_it_uses_no_code_of_the_project() -> None:
    imports = set(re.findall(r"^(?:import|from) (\w+)", READER.read_text(), re.MULTILINE))
    assert imports <= {"__future__", "collections", "ctypes", "dataclasses", "struct", "sys", "typing"}
    assert re.findall(r"CDLL\(\"([^\"]*)", READER.read_text()) == ["libzstd.so.1", "libxxhash.so.0"]


def test_the_table_of_records_is_that_of_the_library() -> None:
    """Codes, fields and codings are those of records.def, but for the name of BADFREE's reasons and LOST's, and END's
    counts, which have the names of kinds.def."""
    text = re.sub(r"/\*.*?\*/", "", (SOURCE / "memtrace/format/records.def").read_text(), flags=re.DOTALL)
    kinds = re.findall(r"^MT_KIND\(\w+, (\w+),", (SOURCE / "memtrace/kinds.def").read_text(), re.MULTILINE)
    text = text.replace("F(events, COUNTS)", " ".join(f"F({kind}, U)" for kind in kinds))
    table = {}
    for name, code, fields in re.findall(r"(?:RECORD|EVENT)\(\w+, (\w+), (\d+),((?:\s*[EF]\([^)]*\))*)\s*\)", text):
        table[int(code)] = (name, re.findall(r"[EF]\((\w+), (\w+)", fields))
    mine = {
        code: (name, [(field, "U" if coding == "REASON" else coding) for field, coding in fields])
        for code, (name, fields) in reference.FIELDS.items()
    }
    assert mine == table


def test_a_change_of_the_reader_is_found(lua: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison notices a reader that learns one thing of the predictor in another way."""
    wanted = lines(dump(lua))
    learn = reference.Predictor.place

    def forget(self: object, addr: int, slot: int) -> None:
        if slot % 50:
            learn(self, addr, slot)

    monkeypatch.setattr(reference.Predictor, "place", forget)
    with open(lua, "rb") as file, pytest.raises(reference.Damage):
        assert lines(Done(0, "\n".join(reference.Reader(file).lines()).encode(), b"")) == wanted
