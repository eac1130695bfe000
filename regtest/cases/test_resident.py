"""test_resident - `ljtrace run --pages` and `steve resident`: the owners of pages add up to what the kernel says.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from steve.analysis import chunks_of_blocks, live_at, looks
from steve.terminal.units import human_bytes
from steve.trace._memtrace import Trace as Reader
from support import NATIVE, Done, Trace, good, native, natively, run, started, steve, wait_for

RESIDENT = NATIVE / "resident"
PIPES = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
MB = 1 << 20
PAGE = 4096
# programs that most machines have, and whose runtimes have allocators of their own
PROGRAMS = {
    "python3": ("/usr/bin/python3", "-c", "import json; x = [str(i) * 10 for i in range(100000)]"),
    "perl": ("perl", "-e", 'my %h; $h{$_} = "x" x 50 for 1..50000;'),
    "nvim": ("nvim", "--headless", "-u", "NONE", "-c", "call append(0, range(1, 20000))", "-c", "qa!"),
    "luajit": ("luajit", "-e", "local t = {} for i = 1, 1e5 do t[i] = {i} end"),
    "node": ("node", "-e", "const t = []; for (let i = 0; i < 3e5; i++) t.push({i, s: 'x' + i});"),
    "java": ("java", "-Xms100m", "-Xmx100m", "-XX:+AlwaysPreTouch", "-version"),
}


def look(trace: Trace, *options: str) -> dict:
    return json.loads(steve("resident", "--json", trace.path, *options).text)


def by_kind(found: dict) -> dict[str, int]:
    return {row["kind"]: row["bytes"] for row in found["rows"]}


def check_sum(found: dict) -> None:
    """The rows add up to the kernel's sum of all mappings, and that is its count of the process within 1%."""
    assert sum(row["bytes"] for row in found["rows"]) == found["rss"]
    low, high = sorted((found["before"], found["after"]))
    assert 0.99 * low <= found["rss"] <= 1.01 * high
    changed = abs(by_kind(found).get("changed", 0))
    assert changed <= 0.01 * found["rss"] + high - low


def test_all_parts(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "parts", tmp_path / "model"], "--pages")
    assert trace.run.status == 0, trace.run.complaint
    full = look(trace, "--at", "full")
    check_sum(full)
    kinds = by_kind(full)
    assert kinds["own"] == 24 * MB and 12 * MB <= kinds["files"] < 13 * MB
    assert 40 * 300000 <= kinds["live"] < 1.02 * 40 * 300000
    assert 8 * 300000 <= kinds["stacks"] < 8 * 300000 + 9 * 64 * 1024
    assert full["threads"] == 9 and kinds["libraries"] > 1 * MB and kinds["recorder"] > 0
    assert kinds["other"] < MB and kinds["free"] < MB
    rows = {row["kind"]: row["detail"] for row in full["rows"]}
    assert rows["own"].startswith("picture (resident.c:") and rows["files"].startswith("model")
    assert rows["stacks"].startswith("of 9 threads, ")
    sites = {row["site"].split(" (")[0]: row for row in look(trace, "--at", "full", "--by", "site")["rows"]}
    assert sites["picture"]["mapped"] == 24 * MB and sites["model"]["mapped"] == 12 * MB
    assert sites["filled"]["live"] == 40 * 300000
    emptied = look(trace, "--at", "emptied")
    check_sum(emptied)
    assert "own" not in by_kind(emptied) and by_kind(emptied)["live"] < MB


def test_what_a_trim_returns(tmp_path: Path) -> None:
    """Free memory between a few live blocks: as much as malloc_trim returns, within 5%."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "kept"], "--pages")
    freed, trimmed = look(trace, "--at", "freed"), look(trace, "--at", "trimmed")
    check_sum(freed)
    check_sum(trimmed)
    returned = freed["rss"] - trimmed["rss"]
    (free,) = (row for row in freed["rows"] if row["kind"] == "free")
    assert returned > 20 * MB and abs(free["whole"] - returned) < 0.05 * returned
    assert abs(int(trace.run.text) - returned) < 0.05 * returned
    assert free["whole"] - MB < free["whole_below"] <= free["whole"]
    text = steve("resident", trace.path, "--at", "freed").text
    assert f"malloc_trim(0) can return up to {human_bytes(free['returnable'])}" in text
    assert "the caches of threads (tcache)" in text and "glibc.malloc.mmap_threshold" in text
    assert "arena_max" not in text and "trim_threshold" not in text, "no arenas of threads, little free at the end"
    (pinned,) = (row for row in look(trace, "--at", "freed", "--by", "site")["rows"] if row["blocks"] == 30)
    assert 30 * 3000 < pinned["pinned"] < 40 * PAGE


def test_much_free_memory_is_a_finding(tmp_path: Path) -> None:
    """The command and the page say how much of what is resident late in the program the allocators keep."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "arenas"], "--pages")
    reader = Reader(str(trace.path))
    reader.skim()
    at_end = look(trace, "--at", str(looks.last_at_work(looks.of_trace(reader)) + 1))
    (found,) = json.loads(steve("findings", "--json", "--rules", "kept_free", trace.path).text)
    (free,) = (row for row in at_end["rows"] if row["kind"] == "free")
    assert (found["bytes"], found["whole"], found["resident"]) == (free["bytes"], free["whole"], at_end["rss"])
    assert found["bytes"] > 0.2 * at_end["rss"]
    text = steve("findings", trace.path).text
    assert text.splitlines()[2].startswith("Free, kept by the allocator: ")
    good(["steve", "report", "-q", trace.path, "-o", tmp_path / "page.html"])
    page = (tmp_path / "page.html").read_text()
    first = page.partition('<ol class="first"')[2].partition("</li>")[0]
    assert "are free memory that the allocator keeps" in first and 'href="#resident"' in first
    kinds = dict(re.findall(r'<tr data-kind="(\w+)"><td>[^<]*</td><td class="n" data-v="(\d+)"', page))
    assert kinds == {row["kind"]: str(row["bytes"]) for row in look(trace, "--at", "peak")["rows"]}
    section = page.partition('id="resident">')[2].partition("</section>")[0]
    assert "whole pages" in section and "malloc_trim(0)" in section
    assert 0 < section.find("malloc_trim(0) returns whole free pages of all arenas") < section.index("arena_max")
    findings = page.partition('id="findings">')[2].partition("</section>")[0]
    assert f"Free, kept by the allocator: {human_bytes(found['bytes'])} of the" in findings


@pytest.mark.parametrize("allocator", ["LuaJIT", "glibc"])
def test_chunks_of_blocks_touch(allocator: str, tmp_path: Path) -> None:
    """What is computed of a block with its overhead does not reach into the next one, and mostly up to it."""
    objects = "local t = {} for i = 1, 3000 do t[i] = {i, tostring(i) .. ('x'):rep(i % 97)} end os.exit(0)"
    command = {"LuaJIT": ["luajit", "-joff", "-e", objects], "glibc": PROGRAMS["perl"]}[allocator]
    trace = natively(tmp_path / "t.ljt", command)
    reader = Reader(str(trace.path))
    live = live_at.live_at(reader, (1 << 64) - 1, lambda done, total: None)
    lua = {heap for heap in set(live.heap.tolist()) if (known := reader.heap(heap)) and known.kind == "lua"}
    chosen = [heap in lua for heap in live.heap.tolist()] if allocator == "LuaJIT" else live.heap == 0
    addr, size = live.addr[chosen], live.size[chosen]
    starts, ends = chunks_of_blocks.with_overhead(allocator, addr, size, PAGE)
    near = starts[1:] - addr[:-1] - size[:-1] < PAGE
    assert len(addr) > 1000 and (ends[:-1] <= starts[1:]).all()
    assert (ends[:-1] == starts[1:])[near].mean() > 0.6


def test_little_free_memory_is_none(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "maps"], "--pages")
    text = steve("findings", trace.path).text
    assert "Free, kept by the allocator" in text.partition("found nothing: ")[2].splitlines()[0]
    (found,) = json.loads(steve("findings", "--json", "--rules", "kept_free", trace.path).text)
    assert (found["bytes"], found["not_judged"]) == (0, None)


def test_without_looks_free_memory_is_not_judged(tmp_path: Path) -> None:
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "maps"])
    (found,) = json.loads(steve("findings", "--json", "--rules", "kept_free", trace.path).text)
    assert (found["bytes"], found["not_judged"]) == (0, "no look at the pages of the process: ljtrace run --pages")


def test_arenas_of_threads(tmp_path: Path) -> None:
    """17 threads on glibc."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "arenas"], "--pages")
    found = look(trace, "--at", "all ran")
    check_sum(found)
    kinds = by_kind(found)
    assert kinds["free"] > 0.9 * (
        found["rss"] - sum(kinds.get(k, 0) for k in ("recorder", "libraries", "stacks", "live"))
    )
    # what the recorder keeps of the stack of each thread, about 50 KiB, is the recorder's
    assert found["threads"] == 17 and kinds["live"] < MB and kinds["other"] < 128 * 1024
    (free,) = (row for row in found["rows"] if row["kind"] == "free")
    assert "arenas of threads" in free["detail"]


def test_what_a_trim_returns_of_arenas(tmp_path: Path) -> None:
    """The ends of arenas of threads stay; without the caches of threads, all else that is said to be returned is."""
    trace = natively(
        tmp_path / "t.ljt", [RESIDENT, "arenas"], "--pages", env={"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    )
    (before,), (after,) = (
        [row for row in look(trace, "--at", at)["rows"] if row["kind"] == "free"] for at in ("all ran", "trimmed")
    )
    returned = int(trace.run.text)
    assert returned > 10 * MB and abs(before["returnable"] - returned) < 0.05 * returned
    assert after["returnable"] < 0.02 * returned and after["whole"] > 4 * after["returnable"]


def test_what_a_trim_returns_is_between_two_sizes(tmp_path: Path) -> None:
    """With caches of threads, which hold blocks everywhere."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "arenas"], "--pages")
    (before,) = (row for row in look(trace, "--at", "all ran")["rows"] if row["kind"] == "free")
    assert 0.5 * before["returnable"] < int(trace.run.text) <= before["whole"] > before["returnable"]
    sizes = f"{human_bytes(before['returnable'])} to {human_bytes(before['whole'])}"
    assert f"malloc_trim(0) can return {sizes})" in steve("resident", trace.path, "--at", "all ran").text


@pytest.mark.parametrize("options", [[], ["--existing-blocks"]], ids=str)
def test_memory_from_before_the_attach(options: list[str], tmp_path: Path) -> None:
    """Arenas of threads are no stacks, also if nothing in them is live; mappings are said to be from before. The recorder's
    copy of the process is gone at the first look, since it would share all pages."""
    path = tmp_path / "t.ljt"
    with started([RESIDENT, "older"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        ready, arenas = process.stdout.readline().split()
        assert ready == b"ready"
        done = run(["ljtrace", "attach", "--pages", "--seconds=0.5", f"--out={path}", *options, process.pid])
        process.communicate(b"\n")
        assert done.status == 0 and process.returncode == 0, done.complaint
    trace = Trace(path, done).check()
    first = look(trace, "--by", "look")["rows"][0]
    assert first["reason"] == "first" and first["pss"] > 0.9 * first["rss"]
    for at in ("1", "end"):
        found = look(trace, "--at", at)
        check_sum(found)
        rows = {row["kind"]: row for row in found["rows"]}
        assert rows["before"]["bytes"] >= 24 * MB and rows.get("other", {"bytes": 0})["bytes"] < MB
        assert rows["stacks"]["detail"].startswith("of 17 threads, ") and rows["stacks"]["bytes"] < MB
        assert f"with {int(arenas)} arenas of threads" in rows["free"]["detail"]
        assert rows["free"]["bytes"] > 20 * MB
        assert (rows["free"]["whole"] is None) == (not options)
    text = steve("resident", path).text
    assert "start the program with `ljtrace run --pages`" in text
    assert ("malloc_trim" in text) == bool(options)
    (judged,) = json.loads(steve("findings", "--json", "--rules", "kept_free", path).text)
    reason = "blocks from before the attach are not known: ljtrace attach --existing-blocks"
    assert judged["not_judged"] == (None if options else reason) and (judged["bytes"] > 20 * MB) == bool(options)


def test_what_the_program_maps(tmp_path: Path) -> None:
    """Each call that maps memory, with the place of the call; what is unmapped is not there."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "maps"], "--pages")
    printed = [line.split() for line in trace.run.text.splitlines()]
    reader = Reader(str(trace.path))
    reader.skim()
    (mapped,) = (pages for pages in reader.pages() if pages.name == "mapped")
    regions = {region.start: region for region in mapped.regions}
    for start, size in printed:
        region = regions[int(start, 16)]
        assert region.size == int(size)
        assert [frame.function for frame in reader.stack_frames(region.stack)][1:2] == ["maps"]
    of_program = [r for r in mapped.regions if len(reader.stack_frames(r.stack)) > 1]
    assert len(of_program) == len(printed), "what was unmapped is no region"


@pytest.mark.parametrize("library", ["", "libjemalloc.so.2", "libmimalloc.so.2"])
def test_memory_mapped_where_a_block_was(library: str, tmp_path: Path) -> None:
    """What the program maps is its own, also where malloc had a block before. What the allocator mapped stays the
    allocator's if all blocks there are freed. Some allocators keep the memory of the block, so that the program's is elsewhere.
    """
    env = {"LD_PRELOAD": library} if library else {}
    if library and b"cannot be preloaded" in run(["true"], env=env).err:
        pytest.skip(f"no {library}")
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "reused"], "--pages", env=env)
    assert library or trace.run.text == "there\n"
    rows = {row["kind"]: row for row in look(trace, "--at", "end")["rows"]}
    assert 24 * MB <= rows["own"]["bytes"] < 25 * MB and rows["own"]["detail"].startswith("reused (resident.c:")
    assert rows["free"]["bytes"] > 40 * PAGE / 2 and (library or rows["free"]["bytes"] < MB)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path: Path, name: str) -> None:
    if not shutil.which(PROGRAMS[name][0]):
        pytest.skip(f"{PROGRAMS[name][0]} is not installed")
    trace = natively(tmp_path / "t.ljt", PROGRAMS[name], "--pages")
    assert trace.run.status == 0, trace.run.complaint
    looks = look(trace, "--by", "look")["rows"]
    assert looks[0]["reason"] == "first" and looks[-1]["reason"] == "end"
    for at in ("peak", "end"):
        found = look(trace, "--at", at)
        if at == "end":  # the program waits; else its memory may grow and shrink during the look
            check_sum(found)
        assert sum(row["bytes"] for row in found["rows"]) == found["rss"]
        assert by_kind(found).get("other", 0) < 0.05 * found["rss"], "most pages have an owner"


def test_a_program_that_maps_during_looks(tmp_path: Path) -> None:
    """The collector is a whole buffer of records late. Still it knows at each look what the program had mapped by then."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "busy"], "--pages")
    rows = [row for row in look(trace, "--by", "look")["rows"] if row["reason"] == "growth"]
    assert rows
    for row in rows[:2]:
        found = look(trace, "--at", str(row["number"]))
        assert by_kind(found).get("other", 0) < 0.02 * found["rss"], row


def test_pools_of_a_runtime(tmp_path: Path) -> None:
    """What Python has mapped for its pools is said to be in them, with how to see it."""
    code = "import os; x = [[i] for i in range(200000)]; os._exit(0)"  # without freeing them
    trace = natively(tmp_path / "t.ljt", ["/usr/bin/python3", "-c", code], "--pages")
    found = look(trace, "--at", "end")
    (python,) = found["not_seen"]
    kinds = by_kind(found)
    assert python["runtime"] == "Python" and 10 * MB < python["resident_at_most"] <= kinds["own"] + kinds["other"]
    text = steve("resident", "--at", "end", trace.path).text
    assert f"(at most {python['resident_at_most']:,} bytes, which are resident" in text
    assert "PYTHONMALLOC=malloc switches the pools off." in text


@pytest.mark.parametrize("archive, advice", [("libjemalloc.a", "dirty_decay_ms"), ("libtcmalloc_minimal.a", "RELEASE")])
def test_advice_for_an_allocator_in_the_program(archive: str, advice: str, tmp_path: Path) -> None:
    """It is that of this allocator, not that of the C library."""
    path = good(["gcc", f"-print-file-name={archive}"]).text.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"no {archive}")
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) { static char *p[20000]; for (int i = 0; i < 20000; i++) memset(p[i] = malloc(1000), 1, 1000);"
        " for (int i = 0; i < 20000; i++) if (i % 100) free(p[i]); return 0; }\n"
    )
    linked = ["-Wl,--whole-archive", path, "-Wl,--no-whole-archive", "-lstdc++", "-pthread", "-ldl", "-lm"]
    good(["gcc", "-g", "-O1", "-fno-builtin", "-o", program, source, *linked])
    trace = natively(tmp_path / "t.ljt", [program], "--pages")
    text = steve("resident", "--at", "end", trace.path).text
    assert advice in text and "malloc_trim" not in text


def test_times_and_forks(tmp_path: Path) -> None:
    """Looks at regular times; a forked child has its own, and not those of its parent."""
    script = "import os, time\nif not os.fork(): time.sleep(0.3); os._exit(0)\nos.wait()"
    done = run([*native(tmp_path / "t.ljt", "--pages=20ms"), "/usr/bin/python3", "-c", script])
    assert done.status == 0, done.complaint
    (child,) = (path for path in tmp_path.glob("t.*.ljt"))
    for path in (tmp_path / "t.ljt", child):
        looks = look(Trace(path, done), "--by", "look")["rows"]
        assert [row["reason"] for row in looks].count("first") == 1
        assert "time" in [row["reason"] for row in looks]
        reader = Reader(str(path))
        assert sum(map(len, reader.batches())) > 0 and reader.info()["pages_every"] == "20000000"
        check_sum(look(Trace(path, done), "--at", str(len(looks))))


def test_heap_that_grows_during_a_look(tmp_path: Path) -> None:
    """The kernel reports a mapping again that has grown meanwhile. It counts once."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "grows"], "--pages=10ms")
    assert trace.run.status == 0, trace.run.complaint
    reader = Reader(str(trace.path))
    for _ in reader.batches():
        pass
    looks = reader.pages()
    assert len(looks) > 2  # many, where the machine is not busy
    for each in looks:
        rss = sum(mapping.rss for mapping in each.mappings)
        assert 0.98 * each.before - MB <= rss <= 1.02 * each.after + MB
        for one, next_one in zip(each.mappings, each.mappings[1:]):
            assert one.start + one.size <= next_one.start


def test_attach(tmp_path: Path) -> None:
    """What is older than the recording has no owner among the blocks; what comes later has."""
    path = tmp_path / "t.ljt"
    with started([RESIDENT, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline() == b"ready\n"
        with started(
            ["ljtrace", "attach", "--pages-signal=USR1", f"--out={path}", process.pid], stderr=subprocess.PIPE
        ) as recorder:
            wait_for(lambda: path.exists() and b"pages" in run(["steve", "dump", path]).out, "it was looked at")
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"more\n"
            recorder.send_signal(signal.SIGUSR1)
            wait_for(lambda: b"request" in run(["steve", "dump", path]).out, "it was looked at on request")
            assert run(["ljtrace", "detach", process.pid]).status == 0
            recorder.communicate()
        process.communicate(b"\n")
        assert process.returncode == 0
    trace = Trace(path, Done(0, b"", b"")).check()
    assert "request" in {row["reason"] for row in look(trace, "--by", "look")["rows"]}
    found = look(trace, "--at", "end")
    check_sum(found)
    assert found["reason"] == "end" and 24 * MB <= by_kind(found)["live"] < 25 * MB
    assert "Blocks from before the attach are not known" in steve("resident", path).text


@pytest.mark.parametrize("how, status", [("exit", 4), ("handler", 5), ("signal", -signal.SIGKILL)])
def test_the_end_of_a_program(how: str, status: int, tmp_path: Path) -> None:
    """There is a look before _exit, also where a handler calls it that has interrupted anything, but for the recorder itself;
    none in a child of vfork. Of a program that is killed it is said when the last look was, which is of a moment when memory
    did not grow any more."""
    trace = natively(tmp_path / "t.ljt", [RESIDENT, "ends", how], "--pages")
    assert trace.run.status == status, trace.run.complaint
    rows = look(trace, "--by", "look")["rows"]
    reasons = [row["reason"] for row in rows]
    assert "steady" in reasons and reasons.count("end") <= 1
    found, text = look(trace, "--at", "end"), steve("resident", "--at", "end", trace.path).text
    if how == "exit" or reasons[-1] == "end":
        assert found["reason"] == "end" and by_kind(found)["live"] < MB and found["before_end"] < 0.5
        assert "no look at the end" not in text
    elif how == "signal":
        assert found["reason"] in ("steady", "time") and by_kind(found)["live"] >= 40 * 300000
        assert 0.1 < found["before_end"] < 60
        said = "There was no look at the end: the program ended by SIGKILL, the last look is "
        assert said in text and "before its end. --pages=TIME" in text


def test_a_program_that_is_gone_before_the_first_look(tmp_path: Path) -> None:
    """It was recorded with --pages, and that is said."""
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text("#include <signal.h>\nint main(void) { raise(SIGKILL); return 0; }\n")
    good(["gcc", "-o", program, source])
    for attempt in range(20):  # the collector may be fast enough to look
        trace = natively(tmp_path / f"{attempt}.ljt", [program], "--pages")
        found = look(trace)
        if found["rss"] is None:
            assert "recorded with --pages, but the recording was over after " in found["why"]
            assert "(the program ended by SIGKILL), before the first look was taken" in found["why"]
            return
    pytest.skip("the recorder looked at each of 20 programs before they were gone")


def test_other_numbers_are_the_same(tmp_path: Path) -> None:
    """What is mapped is no block."""
    totals = []
    for options in ((), ("--pages",)):
        trace = natively(tmp_path / "t.ljt", [RESIDENT, "parts", tmp_path / "model"], *options)
        totals.append((trace.counts()["new"], trace.counts()["free"], trace.counts()["mark"]))
        has_looks = "\npages " in steve("dump", trace.path).text
        assert has_looks == bool(options)
    assert totals[0] == totals[1]
    text = steve("resident", "--at", "end", tmp_path / "t.ljt").text
    assert "resident" in text


@pytest.mark.parametrize("value", ["1", "0", "9ms", "x", "61s", ""])
def test_wrong_times(tmp_path: Path, value: str) -> None:
    done = run([*native(tmp_path / "t.ljt", f"--pages={value}"), "true"])
    assert done.status == 125 and "--pages takes a time with a unit, 10ms or more" in done.complaint


def test_a_look_on_request(tmp_path: Path) -> None:
    """The signal is the command's; another one is passed on to the program."""
    path = tmp_path / "t.ljt"
    with started([*native(path, "--pages-signal=SIGUSR2"), RESIDENT, "wait"], **PIPES) as launcher:
        assert launcher.stdin and launcher.stdout and launcher.stdout.readline() == b"ready\n"
        launcher.send_signal(signal.SIGUSR2)
        wait_for(
            lambda: path.exists() and b"request" in run(["steve", "dump", path]).out, "it was looked at on request"
        )
        launcher.send_signal(signal.SIGUSR1)
        launcher.communicate()
        assert launcher.returncode == -signal.SIGUSR1
    check_sum(look(Trace(path, Done(0, b"", b"")), "--at", "peak"))
    done = run([*native(tmp_path / "u.ljt", "--pages-signal=KILL"), "true"])
    assert done.status == 125 and "--pages-signal is USR1, USR2 or HUP" in done.complaint


def test_under_valgrind(tmp_path: Path) -> None:
    """The pages are Valgrind's."""
    done = run(["valgrind", "--tool=ljtrace", f"--out={tmp_path / 't.ljt'}", RESIDENT, "kept"])
    assert done.status == 0, done.complaint
    found = look(Trace(tmp_path / "t.ljt", done))
    assert found["rss"] is None and "Valgrind" in found["why"]
    assert sum(row["bytes"] for row in found["rows"]) >= 30 * 20
