"""steve tune: the tables of options, the statistics, the program of a trace, and predictions that a real program confirms.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from steve.allocstats.medians import Median, difference, median, ratio
from steve.allocstats.replay import Replay
from steve.analysis import opsarrays
from steve.system.errors import SteveError
from steve.tune.budget import Budget
from steve.tune.bindings import Image, images_of
from steve.tune.measure import Bench, missing_library
from steve.tune.options import Allocator, OptionSet, find_tables, read_table
from steve.tune.search import singles
from steve.tune.program import Program, recorded_program
from steve.tune.text import Result, text_of
from steve.tune.verify import Check, Verification, obstacle, run_program
from test_tune_search import chosen, misleading

SOURCE = Path(os.environ["LJTRACE_SRCDIR"])
TABLES = sorted((SOURCE / "drivers" / "allocators").glob("*.toml"))

# a program whose memory is that of its heap: sizes from a fixed sequence, every third block is kept
PROGRAM = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    static char *kept[20000];
    uint32_t x = 1;
    for (int i = 0; i < 60000; i++) {
        x = x * 1664525u + 1013904223u;
        size_t size = 16 + (x >> 8) % 1500;
        int slot = i % 20000;
        if (argc > 1)
            printf("%d N 0 %zu\n", i, size);
        char *p = malloc(size);
        memset(p, 1, size);
        char *old = kept[slot];
        kept[slot] = p;
        if (old && argc > 1)
            printf("%d F 0 0\n", i - 20000);
        free(old);
    }
    return 0;
}
"""


def allocators() -> dict[str, Allocator]:
    """Those that have a table and whose library is installed."""
    found = find_tables(Replay().ask("--list", "--json"))
    return {one.name: one for one in found if not missing_library(one)}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program `grow` and of the ops file `grow-ops`, which has exactly its operations."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "grow.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-fno-builtin-malloc", "-o", "grow", "grow.c"], cwd=folder, check=True)
    with open(folder / "grow-ops", "w") as out:
        subprocess.run(["./grow", "text"], cwd=folder, check=True, stdout=out)
    return folder


def tune(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run steve tune in the folder."""
    return subprocess.run(
        ["steve", "tune", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_tables_can_be_read_and_name_no_option_twice(path: Path) -> None:
    table = read_table(str(path), path.stem)
    names = [option.name for option in table.options]
    assert names and len(set(names)) == len(names)
    for option in table.options:
        assert option.values and option.default not in option.values and option.meaning
        assert option.environment or table.variable
        assert not option.call or "{value}" in option.call


def test_options_that_no_allocator_knows_are_not_in_the_tables(program: Path) -> None:
    """jemalloc reports unknown options; mimalloc lists the known ones; the others have them in their libraries."""
    known = allocators()
    if "jemalloc" in known:
        for one in singles(known["jemalloc"], True):
            env = {"LD_PRELOAD": one.allocator.library, **one.environment()}
            assert subprocess.run(["/bin/true"], env=env, capture_output=True, check=True).stderr == b"", one.name
    if "mimalloc" in known:
        env = {"LD_PRELOAD": known["mimalloc"].library, "MIMALLOC_VERBOSE": "1"}
        text = subprocess.run(["/bin/true"], env=env, capture_output=True, check=True).stderr.decode()
        for option in known["mimalloc"].options:
            assert f"'{option.name}': {option.default}" in text
    text = subprocess.run(
        ["/lib64/ld-linux-x86-64.so.2", "--list-tunables"], capture_output=True, check=True
    ).stdout.decode()
    for option in known["glibc"].options:
        assert f"glibc.malloc.{option.name}:" in text


def test_environment_and_calls_of_an_option_set() -> None:
    jemalloc = read_table(str(SOURCE / "drivers/allocators/jemalloc.toml"), "jemalloc")
    one = OptionSet(jemalloc).with_setting("narenas", "1").with_setting("dirty_decay_ms", "0")
    assert one.name == "jemalloc dirty_decay_ms=0 narenas=1"
    assert one.shell() == "LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=dirty_decay_ms:0,narenas:1"
    assert one.timed == ["dirty_decay_ms"] and not one.is_default
    assert one.with_setting("narenas", "2").settings == (("dirty_decay_ms", "0"), ("narenas", "2"))
    mimalloc = read_table(str(SOURCE / "drivers/allocators/mimalloc.toml"), "mimalloc")
    one = OptionSet(mimalloc).with_setting("allow_decommit", "0")
    assert one.shell() == "LD_PRELOAD=libmimalloc.so.2.0 MIMALLOC_ALLOW_DECOMMIT=0"
    assert one.calls() == ["mi_option_set(mi_option_allow_decommit, 0);"]


def test_intervals_contain_the_median_and_shrink_with_more_values() -> None:
    source = random.Random(1)
    few, many = ([source.gauss(100, 5) for _ in range(n)] for n in (5, 200))
    for values in (few, many):
        found = median(values)
        assert found.low <= found.value <= found.high
    assert median(many).high - median(many).low < median(few).high - median(few).low
    assert median(few) == median(few)  # a fixed seed
    half = ratio([value / 2 for value in many], many)
    assert half.low < 0.5 < half.high < 0.6


HOLDS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    static char *large[60], *small[60], *cells[60][400];
    int n = 0, large_id[60], cell_id[60][400];
    for (int k = -1; k < 60; k++) {
        size_t size = k < 0 ? 4 << 20 : 400000;
        char *p = malloc(size);
        memset(p, 1, size);
        if (argc > 1) printf("%d N 0 %zu\n", n, size);
        if (k < 0) { free(p); if (argc > 1) printf("%d F 0 0\n", n); n++; continue; }
        large[k] = p; large_id[k] = n++;
        for (int j = 0; j < 400; j++) {
            cells[k][j] = memset(malloc(200), 1, 200);
            if (argc > 1) printf("%d N 0 200\n", n);
            cell_id[k][j] = n++;
        }
        small[k] = strdup("a name");
        if (argc > 1) printf("%d N 0 7\n", n);
        n++;
    }
    for (int k = 0; k < 60; k++) {
        free(large[k]);
        if (argc > 1) printf("%d F 0 0\n", large_id[k]);
        for (int j = 0; j < 400; j++) {
            free(cells[k][j]);
            if (argc > 1) printf("%d F 0 0\n", cell_id[k][j]);
        }
    }
    for (int k = 0; argc < 2 && k < 2000000; k++)
        *(volatile char *)small[k % 60] = (char)k;
    return 0;
}
"""


def test_memory_that_stays_at_the_end(tmp_path: Path) -> None:
    """Large blocks are freed, below blocks that live: their threshold is tried first, is recommended, and the program
    confirms what is resident at its end. top_pad has the same effect: glibc no longer adapts the threshold."""
    (tmp_path / "holds.c").write_text(HOLDS)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-o", "holds", "holds.c"], cwd=tmp_path, check=True)
    with open(tmp_path / "ops", "w") as out:
        subprocess.run(["./holds", "text"], cwd=tmp_path, check=True, stdout=out)
    options = ("--goal=end", "--replays=90", "--allocators=glibc", "--json", "--verify=./holds")
    result = json.loads(tune(tmp_path, "ops", *options).stdout)
    assert result["goal"] == "end" and result["suggested"]["large_freed_bytes"] >= 24_000_000
    assert result["recommended"]["options"].keys() & {"mmap_threshold", "trim_threshold", "top_pad"}, result[
        "recommended"
    ]
    assert result["recommended"]["ratio"]["median"] < 0.7
    memory = result["verified"][0]
    assert memory["quantity"] == "resident memory at the end"
    assert memory["measured"]["median"] < 0.7 * memory["reference"]["median"], memory


def test_threads_are_alive_at_the_end_of_a_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What glibc keeps for threads counts, and what is there when they have ended has a column of its own."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=4000")
    with open(tmp_path / "ops", "w") as out:
        for text in ("N 0 1000", "F 0 0"):
            for n in range(60):  # the threads take turns, and all of them work until near the end
                block = range(n // 3 * 100, n // 3 * 100 + 100)
                out.write(f"# thread {n % 3 + 1}\n" + "".join(f"{n % 3}{i:04} {text}\n" for i in block))
    options = ("--goal=end", "--replays=3", "--allocators=glibc")
    row = json.loads(tune(tmp_path, "ops", *options, "--json").stdout)["rows"][0]
    assert row["resident"]["median"] > 4_000_000 > 2 * row["ended_resident"]["median"], row
    text = tune(tmp_path, "ops", *options).stdout
    assert "  threads ended  " in text and "with all threads alive that worked in the last tenth" in text, text


def test_run_measures_what_is_resident_at_the_end_and_on_average(tmp_path: Path) -> None:
    script = "x = bytearray(50_000_000)\nimport time\ntime.sleep(0.3)\ndel x\ntime.sleep(0.3)"
    words = ["sh", "-c", f"/usr/bin/python3 -c '{script}'; true"]
    subprocess.run(["steve-replay", "--run", "-o", "result", "--", *words], cwd=tmp_path, check=True)
    found = json.loads((tmp_path / "result").read_text())
    assert found["peak_resident"] > 50_000_000 > found["end_resident"] > 4_000_000
    assert found["end_resident"] < found["mean_resident"] < found["peak_resident"]


def test_the_second_half_begins_with_the_blocks_that_live_then(tmp_path: Path) -> None:
    (tmp_path / "ops").write_text("0 N 0 10\n1 N 0 20\n0 R 0 30\n1 F 0 0\n2 N 0 5\n0 F 0 0\n2 F 0 0\n3 N 0 1\n")
    first, second = opsarrays.halves(opsarrays.read(str(tmp_path / "ops")))
    assert first.handle.tolist() == [0, 1, 0, 1]
    assert list(zip(second.code.tolist(), second.handle.tolist(), second.size.tolist())) == [
        (opsarrays.NEW, 0, 30),
        (opsarrays.NEW, 2, 5),
        (opsarrays.FREE, 0, 0),
        (opsarrays.FREE, 2, 0),
        (opsarrays.NEW, 3, 1),
    ]
    for write in (opsarrays.write, opsarrays.write_binary):
        write(str(tmp_path / "second"), second)
        again = opsarrays.read(str(tmp_path / "second"))
        assert all((a == b).all() for a, b in zip(again, second))


def test_whether_an_ops_file_has_other_operations(tmp_path: Path) -> None:
    """A file with accesses is not replayed as it is."""
    for name, access in (("plain", ""), ("accesses", "0 L 0 4\n")):
        (tmp_path / name).write_text(f"0 N 4096 10\n{access}0 F 4096 10\n")
        operations, is_all = opsarrays.read_all(str(tmp_path / name))
        assert operations.code.tolist() == [opsarrays.NEW, opsarrays.FREE] and is_all == (name == "plain")


def test_the_replay_on_the_system_shows_what_options_do(program: Path) -> None:
    """A heap that asks for 16 MiB more each time touches no more; without thread caches jemalloc is slower, not larger;
    a preloaded library is what is measured."""
    known, replay = allocators(), Replay()
    bench = Bench(replay, str(program / "grow-ops"), "p99", Budget())
    glibc = OptionSet(known["glibc"])
    candidates = [glibc, glibc.with_setting("mmap_threshold", "131072"), *(OptionSet(a) for a in known.values())]
    assert bench.measure(dict.fromkeys(candidates), 3, 1e18, lambda: None) == list(dict.fromkeys(candidates))
    peak = replay.live_peak(str(program / "grow-ops"))
    for samples in bench.samples.values():
        assert len(samples.resident) == len(samples.cpu) == len(samples.p99) == 3 and not samples.failure
        assert all(value > peak for value in samples.resident)
    assert len({round(median(bench.samples[OptionSet(a)].resident).value / 2**18) for a in known.values()}) > 1


def test_a_pace_makes_the_replay_last(program: Path) -> None:
    done = subprocess.run(
        ["steve-replay", "--system", str(program / "grow-ops"), "--pace=700"],
        capture_output=True,
        text=True,
        check=True,
    )
    slow = json.loads(done.stdout)
    assert slow["wall_ns"] < 700e6 and slow["operations"] == 100000  # the waits are not in it


def test_run_measures_the_program_and_not_steve(program: Path) -> None:
    peaks = []
    for words in (["/bin/true"], ["./grow"]):
        subprocess.run(["steve-replay", "--run", "-o", "result", "--", *words], cwd=program, check=True)
        found = json.loads((program / "result").read_text())
        assert found["status"] == 0
        peaks.append(found["peak_resident"])
    assert peaks[0] < 4 << 20 < 14 << 20 < peaks[1]
    subprocess.run(["steve-replay", "--run", "-o", "result", "--", "sh", "-c", "exit 3"], cwd=program, check=True)
    assert json.loads((program / "result").read_text())["status"] == 3


def test_prediction_is_confirmed_by_the_program(program: Path) -> None:
    """The whole way, with a budget that is too short for all candidates."""
    done = tune(program, "grow-ops", "--replays=130", "--json", "--verify=./grow", "-o", "frontier.png")
    result = json.loads(done.stdout)
    memory = result["verified"][0]
    assert result["not_tried"]
    assert memory["quantity"] == "peak resident memory"
    change = memory["predicted_change"]
    is_certain = (
        not change["low"] <= 0 <= change["high"]
    )  # else the defaults are kept, and the best other row is no better
    assert memory["outcome"] == ("confirmed" if is_certain else "no certain difference measured"), memory
    recommended = result["recommended"]
    assert result["reference"] == "glibc" and recommended["verdict"] == "recommended"
    if recommended["allocator"] != "glibc" or recommended["options"]:
        assert recommended["ratio"]["high"] < 1 and recommended["held_out"]["high"] < 1
    defaults = {row["allocator"] for row in result["rows"] if not row["options"]}
    assert set(allocators()) - set(result["not_replayed"]) == defaults >= {"glibc"}
    assert all(row["resident"]["low"] <= row["resident"]["median"] <= row["resident"]["high"] for row in result["rows"])
    assert (program / "frontier.png").read_bytes().startswith(b"\x89PNG")
    cpu = result["verified"][1]
    assert cpu["quantity"] == "CPU time" and done.returncode in ((0,) if cpu["outcome"] != "not confirmed" else (0, 1))


# -- the allocator that the program has ---------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program `grow` as `dynamic`, which is linked with jemalloc, as `within`, which contains it, and as
    `static`, which is linked statically; and of memtraces of the first two."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "grow.c").write_text(PROGRAM)
    compiler = ["cc", "-O1", "-fno-builtin-malloc", "grow.c", "-o"]
    subprocess.run([*compiler, "static", "-static"], cwd=folder, check=True)
    for name, words in (
        ("dynamic", ["-Wl,--no-as-needed", "-l:libjemalloc.so.2"]),
        ("within", ["-l:libjemalloc.a", "-lstdc++", "-lm", "-lpthread"]),
    ):
        built = subprocess.run([*compiler, name, *words], cwd=folder, capture_output=True, text=True, check=False)
        if built.returncode:
            pytest.skip(f"no program with jemalloc: {built.stderr.splitlines()[0]}")
        record = ["ljtrace", "run", f"--out={name}.ljt", f"./{name}"]
        subprocess.run(record, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


def test_the_trace_says_on_which_allocator_the_program_ran(own: Path, program: Path) -> None:
    libraries = {driver.name: driver.library for driver in Replay().drivers()}
    dynamic, within = (recorded_program(str(own / f"{name}.ljt"), libraries) for name in ("dynamic", "within"))
    assert (dynamic.allocator, dynamic.is_within, within.allocator, within.is_within) == (
        "jemalloc",
        False,
        "jemalloc",
        True,
    )
    assert os.path.basename(dynamic.object) == "libjemalloc.so.2" and os.path.basename(within.object) == "within"
    assert dynamic.asks == within.asks == (), "the allocator within has the names, the program calls none"
    assert dynamic.names == {"dynamic"} and 0 < dynamic.seconds < 300
    assert recorded_program(str(program / "grow-ops"), libraries) == Program()
    subprocess.run(["steve", "ops", "dynamic.ljt", "-q"], cwd=own, check=True)
    (own / "dynamic.ljt-ops").rename(own / "dynamic-ops")
    assert recorded_program(str(own / "dynamic-ops"), libraries) == dynamic
    subprocess.run(["steve", "ops", "dynamic.ljt", "-q"], cwd=own, check=True)
    assert recorded_program(str(own / "dynamic.ljt-ops"), libraries) == dynamic
    # one that is preloaded has malloc, not the one that the program is linked with
    record = ["ljtrace", "run", "--out=preloaded.ljt", "./dynamic"]
    env = {**os.environ, "LD_PRELOAD": "libc.so.6"}
    subprocess.run(record, cwd=own, check=True, capture_output=True, env=env, timeout=300)
    preloaded = recorded_program(str(own / "preloaded.ljt"), libraries)
    assert preloaded.allocator == "glibc" and os.path.basename(preloaded.object) == "libc.so.6"


def test_the_library_that_the_program_is_linked_with_stays(own: Path) -> None:
    """Another allocator replaces its malloc; its code and data are in memory as before, so that is no difference."""
    result = json.loads(tune(own, "dynamic.ljt", "--allocators=glibc,jemalloc", "--replays=8", "--json").stdout)
    assert result["reference"] == "jemalloc"
    glibc = next(row for row in result["rows"] if row["allocator"] == "glibc" and not row["options"])
    subprocess.run(["steve", "ops", "dynamic.ljt", "-q", "-o", "dynamic-ops"], cwd=own, check=True)
    alone = subprocess.run(
        ["steve-replay", "--system", "dynamic-ops", "-q"], cwd=own, check=True, capture_output=True, text=True
    )
    expected = json.loads(alone.stdout)["peak_resident"]
    assert abs(glibc["resident"]["median"] - expected) < 700_000, (glibc["resident"], expected)


def test_the_cpu_time_of_the_program(tmp_path: Path) -> None:
    """It waits longer than it works; without samples of stacks, only the elapsed time is known."""
    script = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(1)"
    for options in ((), ("--sample-stacks=1ms",)):
        record = ["ljtrace", "run", "--out=t.ljt", *options, "/usr/bin/python3", "-S", "-c", script]
        subprocess.run(record, cwd=tmp_path, check=True, capture_output=True, timeout=300)
        found = recorded_program(str(tmp_path / "t.ljt"), {})
        assert found.seconds > 1.4
        if options:
            assert 0.25 < found.cpu_seconds < found.seconds - 0.9, found
            assert re.fullmatch(r"\d+\.\d% of its CPU time of [\d.]+ s", found.parts([1e6]))
        else:
            assert found.cpu_seconds == 0 and found.as_dict()["cpu_seconds"] is None
            assert found.parts([1e6, 2e6]).endswith(" s that elapsed, with all waits")
    assert Program().parts([1e6]) == ""


def test_how_the_program_gets_another_allocator() -> None:
    tables = {path.stem: OptionSet(read_table(str(path), path.stem)) for path in TABLES}
    glibc, jemalloc = tables["glibc"], tables["jemalloc"].with_setting("narenas", "1")
    linked, within = Program("jemalloc", "/lib/libjemalloc.so.2"), Program("jemalloc", "/bin/app", True)
    assert linked.environment(glibc) == {"LD_PRELOAD": "libc.so.6"}
    assert Program().environment(glibc) == Program("glibc", "/lib/libc.so.6").environment(glibc) == {}
    assert linked.environment(jemalloc) == {"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "narenas:1"}
    assert within.environment(glibc) is None and within.environment(jemalloc) == {"MALLOC_CONF": "narenas:1"}


def test_the_processes_of_a_command_have_the_allocator_or_it_is_said(own: Path) -> None:
    known = allocators()
    glibc, jemalloc = OptionSet(known["glibc"]), OptionSet(known["jemalloc"])
    linked, within = Program("jemalloc", "/lib/libjemalloc.so.2"), Program("jemalloc", "/bin/app", True)
    dynamic = str(own / "dynamic")
    for one in (glibc, jemalloc):
        assert obstacle(linked, dynamic, one) == obstacle(linked, f"true; {dynamic}; true", one) == ""
    assert f"{dynamic} has the malloc of " in obstacle(Program(), dynamic, glibc)  # nothing known: nothing preloaded
    assert "libjemalloc.so.2, and not that of libc.so.6" in obstacle(Program(), dynamic, glibc)
    assert "has the malloc of" in obstacle(Program(), str(own / "within"), jemalloc)
    assert "LD_PRELOAD has no effect on this program" in obstacle(within, str(own / "within"), glibc)
    assert obstacle(within, str(own / "within"), jemalloc) == ""
    assert "no program that is linked dynamically" in obstacle(Program(), str(own / "static"), jemalloc)
    command = f"{dynamic}; {own / 'within'}"  # the recorded one is judged, not what it works with
    assert "within has the malloc of" in obstacle(linked, command, glibc)
    assert obstacle(Program("jemalloc", "libjemalloc.so.2", names=frozenset({"dynamic"})), command, glibc) == ""


def test_the_lines_of_the_dynamic_linker() -> None:
    line = "     9:\tbinding file {} [0] to {} [0]: normal symbol `{}' [GLIBC_2.2.5]\n"
    libc = "/lib/x86_64-linux-gnu/libc.so.6"
    text = [
        line.format(libc, libc, "malloc"),
        line.format("sh", libc, "malloc"),
        line.format(libc, libc, "malloc"),  # the process starts another program
        line.format("/lib/libpthread.so.0", "/lib/libmi malloc.so.2", "malloc"),
        "     9:\tsomething else\n",
        line.format("./an app", libc, "puts"),
    ]
    assert images_of(text) == [Image("sh", libc), Image("./an app", libc)]
    assert images_of(text[4:]) == []
    fixed = [line.format(libc, "python3", "malloc"), line.format("python3", "python3", "malloc")]
    assert images_of(fixed) == [Image("python3", "python3")]
    fixed.append(line.format("python3", "/lib/libjemalloc.so.2", "malloc"))
    assert images_of(fixed) == [Image("python3", "/lib/libjemalloc.so.2")]


def test_verify_of_a_program_that_contains_its_allocator(own: Path) -> None:
    """Its own allocator is the reference, and nothing about another one is confirmed."""
    options = ("--replays=30", "--allocators=glibc", "--verify=./within", "-q")
    done = tune(own, "within.ljt", *options, "--json")
    result = json.loads(done.stdout)
    assert result["reference"] == "jemalloc" and result["program"]["in_executable"]
    assert result["verified"] == [] and "LD_PRELOAD has no effect" in result["not_verified"] and done.returncode == 1
    assert {row["allocator"]: row["environment"] for row in result["rows"] if not row["options"]} == {
        "jemalloc": "",
        "glibc": None,
    }
    text = tune(own, "within.ljt", *options).stdout
    assert "the program ran on jemalloc, which is in its executable (" in text
    assert "the replay uses the jemalloc of this machine, which may have another version" in " ".join(text.split())
    assert "\n--verify: no verdict: LD_PRELOAD has no effect on this program" in text
    assert "confirmed:" not in text


def test_a_command_of_verify_that_fails(own: Path) -> None:
    """What is wrong with it is said before the replays; if it fails after them, what they found is printed."""
    options = ("--replays=20", "--allocators=glibc,jemalloc", "-q")
    done = tune(own, "dynamic.ljt", *options, "--verify=exit 3")
    assert done.returncode == 1 and not done.stdout and "the command ended with status 3; it is to end" in done.stderr
    done = tune(own, "dynamic.ljt", *options, '--verify=./dynamic; case "$LD_PRELOAD" in *libc.so*) exit 1;; esac')
    assert done.returncode == 1 and not done.stderr, done.stderr
    assert "\n--verify: no verdict: the command ended with status 1; it is to end with 0" in done.stdout
    assert " jemalloc " in done.stdout and " glibc " in done.stdout


def test_verify_of_a_program_that_is_linked_with_another_allocator(own: Path) -> None:
    """Against its own allocator, and the C library's is really used."""
    done = tune(own, "dynamic.ljt", "--replays=30", "--allocators=glibc", "--verify=./dynamic", "--json", "-q")
    result = json.loads(done.stdout)
    assert result["reference"] == result["program"]["allocator"] == "jemalloc" and result["not_verified"] is None
    row = next(row for row in result["rows"] if row["allocator"] == "glibc")
    assert row["environment"].startswith("LD_PRELOAD=libc.so.6")
    memory = result["verified"][0]
    assert memory["options"].startswith("glibc") and memory["reference"]["median"] > 1.05 * memory["measured"]["median"]


def test_the_program_itself_with_the_defaults_of_each_allocator(own: Path) -> None:
    """One with which the command fails is named with the reason, and the others are ranked all the same."""
    command = './dynamic; case "$LD_PRELOAD" in *mimalloc*) exit 3;; esac'
    words = ["dynamic.ljt", "--allocators=glibc,mimalloc", "-q", "--verify-all", "--replays=30"]
    done = tune(own, *words, f"--verify={command}", "--json")
    result = json.loads(done.stdout)
    by_name = {row["options"]: row for row in result["program_runs"]}
    assert {"jemalloc", "glibc"} <= by_name.keys() and "mimalloc" not in by_name
    if result["not_verified"] is None:  # what is checked is not mimalloc
        assert result["verified"][0]["options"] in by_name
    assert "the command ended with status 3" in result["program_not_run"]["mimalloc"]
    least = [row["resident"]["median"] for row in result["program_runs"]]
    assert least == sorted(least) and by_name["jemalloc"]["resident_change"]["median"] == 0
    assert by_name["glibc"]["resident"]["median"] < 0.95 * by_name["jemalloc"]["resident"]["median"]
    assert all(row["resident"]["count"] == 5 for row in result["program_runs"])
    done = tune(own, "dynamic.ljt", "--verify-all")
    assert done.returncode == 2 and "--verify-all needs --verify=COMMAND" in done.stderr


def test_a_replay_that_is_too_short_for_what_is_returned_later(own: Path, tmp_path: Path) -> None:
    script = "import time\nx = [bytes(1000) for n in range(20000)]\ndel x\ntime.sleep(8)"
    record = ["ljtrace", "run", "--out=slow.ljt", "/usr/bin/python3", "-S", "-c", script]
    subprocess.run(record, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    options = ("--replays=12", "--allocators=glibc,jemalloc", "-q")
    text = tune(tmp_path, "slow.ljt", *options).stdout
    found = re.search(
        r"\nthe program took ([\d.]+) s, a replay [\d.]+ s: what jemalloc returns after some time is not seen; "
        r"--duration=(\d+)s replays it in this time\n",
        text,
    )
    assert found and 8 < float(found[1]) <= int(found[2]) < float(found[1]) + 1.1, text
    assert "not seen" not in tune(tmp_path, "slow.ljt", *options, "--duration=1").stdout
    assert "not seen" not in tune(tmp_path, "slow.ljt", "--replays=12", "--allocators=glibc", "-q").stdout


SQL = """
create table t(id integer primary key, k text, v text);
with recursive c(x) as (select 1 union all select x+1 from c where x<5000)
    insert into t select x, hex(x*2654435761 % 4294967296), hex(zeroblob(x%1200)) from c;
create index tk on t(k);
delete from t where id%3=0;
select count(*) from t a join t b on a.k=b.k;
"""
PYTHON = """
texts = ["x" * (600 + 37 * i % 5000) for i in range(4000)]
kept = {i: text for i, text in enumerate(texts) if i % 3}
del texts
joined = "".join(kept.values())
more = [joined[i:i + 900 + i % 700] for i in range(0, len(joined), 1500)]
"""
PROGRAMS = {
    "sqlite3": "sqlite3 :memory: '.read q.sql'",
    "python3": "/usr/bin/python3 w.py",
    "luajit": f"luajit {SOURCE / 'examples' / 'cache_server.lua'} 8000",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_predictions_for_real_programs_are_confirmed(name: str, tmp_path: Path) -> None:
    """Each is recorded, and tuned from an allocator that needs much more memory than the C library."""
    command = PROGRAMS[name]
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{name} is not installed")
    (tmp_path / "q.sql").write_text(SQL)
    (tmp_path / "w.py").write_text(PYTHON)
    recorder = "exec valgrind --tool=ljtrace --out=t.ljt"
    subprocess.run(["sh", "-c", f"{recorder} {command}"], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    names = [name for name in ("jemalloc", "tcmalloc") if name in allocators()]
    if not names:
        pytest.skip("neither libjemalloc2 nor libtcmalloc-minimal4 is installed")
    options = ("--replays=60", "--json", "--allocators=glibc", f"--reference={names[0]}")
    memory = json.loads(tune(tmp_path, "t.ljt", *options, f"--verify={command}").stdout)["verified"][0]
    assert memory["options"].startswith("glibc")
    assert memory["reference"]["median"] > 1.1 * memory["measured"]["median"], memory  # else any prediction holds
    assert memory["confirmed"], memory


def checked(reference: list[float], measured: list[float], predicted: float, decides: bool = True) -> Check:
    """What becomes of a prediction, in MiB, whose interval is a tenth of it to either side."""
    values, base, glibc = [n * 2**20 for n in measured], [n * 2**20 for n in reference], allocators()["glibc"]
    ends = sorted((0.9 * predicted * 2**20, 1.1 * predicted * 2**20))
    change = Median(predicted * 2**20, *ends, 11)
    options = OptionSet(glibc).with_setting("mxfast", "0")
    return Check("memory", options, median(base), median(values), change, difference(values, base), decides)


def test_the_verdict_is_about_the_change_against_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prediction of the whole memory is within 5% of what was measured."""
    base = [100.0, 100.2, 100.4, 99.8, 100.6]
    for measured, outcome in (
        ([96.6, 99.2, 99.7, 99.1, 100.3], "no certain difference measured"),  # a run is above one of the reference
        ([95.5, 95.7, 95.8, 95.2, 96], "confirmed"),
        ([94.3, 94.2, 94.5, 94.1, 94.0], "confirmed"),  # -6 for -4.5
        ([98.9, 99.0, 98.8, 99.1, 98.7], "not confirmed"),  # less than predicted
        ([92.0, 92.1, 92.2, 91.9, 92.3], "not confirmed"),  # more
        ([101.0, 101.2, 101.4, 101.3, 101.5], "not confirmed"),  # the other direction
    ):
        check = checked(base, measured, -4.5)
        assert check.outcome == outcome and check.is_good == (outcome == "confirmed"), (measured, check)
        assert check.as_dict()["confirmed"] == (outcome == "confirmed")
        other = checked(base, measured, -4.5, decides=False)
        assert other.is_good == (outcome != "not confirmed")
    refuted = [99.9, 100.1, 100.3, 99.7, 100.5]  # no certain difference, and certainly not the predicted one
    assert (checked(base, refuted, -4.5).outcome, checked(base, refuted, -4.5).is_good) == ("not confirmed", False)
    other = checked(base, refuted, -4.5, decides=False)
    assert (other.outcome, other.is_good) == ("no certain difference measured", True)
    choice, _ = chosen(monkeypatch, misleading, 2000)
    for measured, is_good in (
        (base, True),
        ([99.9, 100.1, 100.3, 99.7, 100.5], True),
        ([96.0, 96.1, 96.2, 96.3, 96.4], False),
    ):
        assert replace(checked(base, measured, 0), predicted_change=Median(0, -4096, 4096, 11)).is_good == is_good
    found = checked(base, [96.6, 99.2, 99.7, 99.1, 100.3], -4.5)
    text = text_of(Result(choice, verification=Verification([found])))
    assert (
        "\nmemory of the program with glibc mxfast=0: no certain difference measured: predicted -4.5 MiB (-4.95 MiB to "
        "-4.05 MiB), measured -1 MiB ("
    ) in text
    assert "; that is 99.2 MiB (96.6 MiB to 100 MiB) against 100 MiB (99.8 MiB to 101 MiB) with glibc" in text
    (line,) = (one for one in text.splitlines() if one.startswith("memory of the program with"))
    assert not Verification([found]).confirmed and "%" not in line


def test_a_prediction_that_does_not_hold_is_not_confirmed(program: Path) -> None:
    """The blocks of the trace are three times as large as those of the program, and so is what glibc saves there."""
    if "jemalloc" not in allocators():
        pytest.skip("libjemalloc2 is not installed")
    words = (line.split() for line in (program / "grow-ops").read_text().splitlines())
    (program / "other-ops").write_text("".join(f"{handle} {code} 0 {3 * int(n)}\n" for handle, code, _, n in words))
    options = ("--replays=60", "--allocators=glibc", "--reference=jemalloc", "--json", "--verify=./grow")
    done = tune(program, "other-ops", *options)
    memory = json.loads(done.stdout)["verified"][0]
    assert memory["options"].startswith("glibc") and not memory["confirmed"], memory
    assert memory["outcome"] == "not confirmed" and memory["measured_change"]["high"] < 0, memory
    assert memory["predicted_change"]["median"] < 1.5 * memory["measured_change"]["median"], memory
    assert done.returncode == 1


def test_the_reference_does_not_confirm_itself(program: Path) -> None:
    """The budget is over before anything but the reference is replayed."""
    done = tune(program, "grow-ops", "--budget=0.001", "--allocators=glibc", "--json", "--verify=./grow")
    result = json.loads(done.stdout)
    assert [row["allocator"] for row in result["rows"]] == ["glibc"] and result["verified"] == []
    assert "--verify: nothing to check" in done.stderr and done.returncode == 0


def test_a_failing_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SteveError, match="the command ended with status 4"):
        run_program(Replay(), "exit 4", OptionSet(allocators()["glibc"]), str(tmp_path / "result"))


def test_wrong_usage(program: Path, tmp_path: Path) -> None:
    (tmp_path / "none-ops").write_text("# thread 1\n")
    assert "no table of options" in tune(program, "grow-ops", "--allocators=bump").stderr
    assert "no such file" in tune(program, "missing").stderr
    assert "malloc has no blocks" in tune(tmp_path, "none-ops").stderr
    assert "is not a time" in tune(program, "grow-ops", "--budget=soon").stderr
    assert "is not a number from 1" in tune(program, "grow-ops", "--replays=0").stderr
    assert "not allowed with" in tune(program, "grow-ops", "--replays=9", "--budget=1m").stderr


@pytest.mark.skipif(not shutil.which("luajit"), reason="luajit is not installed")
def test_the_cache_server_answers() -> None:
    done = subprocess.run(
        ["luajit", SOURCE / "examples/cache_server.lua", "3000"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("3000 requests, ")
