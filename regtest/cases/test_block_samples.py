"""test_block_samples - `valgrind --tool=ljtrace --sample-blocks=1/N` records every Nth block on average with all its
events.

Estimates from many seeds are compared with the truth; memtrace/test/test_sample.c does the same for the writer with
more seeds. Sums over recorded blocks must be those of a whole recording, and views must say that they estimate.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
import re
import statistics
from pathlib import Path

import numpy as np
import pytest

from steve.commands.summary import of_large_blocks
from steve.trace._memtrace import FREE, NEW, RESIZE
from steve.trace._memtrace import Trace as Reader
from support import good, record, recorder, run, steve

SEEDS = 20
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#define OWN __attribute__((noinline)) static void *
OWN small(void) { return malloc(48); }
OWN large(void) { return malloc(9000); }
OWN grown(void *p, size_t n) { return realloc(p, n); }
static void *volatile s_kept;
int main(void)
{
    volatile long sum = 0;
    for (int i = 0; i < 4000; i++) {
        volatile char *p = small();
        for (int k = 0; k < 8 + i % 8; k++) p[k] = k;
        for (int k = 0; k < 4; k++) sum += p[k];
        if (i % 10) free((void *)p); else s_kept = (void *)p;
    }
    for (int i = 0; i < 300; i++) { volatile char *p = large(); p[i] = 1; free((void *)p); }
    for (int i = 0; i < 300; i++) {
        char *p = malloc(100);
        for (int k = 1; k <= 6; k++) { p = grown(p, 100 + 400 * k * k); ((volatile char *)p)[k] = 1; }
        free(p);
    }
    return 0;
}
"""
ONE_LARGE = r"""
#include <stdlib.h>
int main(void)
{
    volatile char *large = malloc(400000);
    for (int i = 0; i < 20000; i++) { large[i] = 1; free(malloc(480)); }
    free((void *)large);
    return 0;
}
"""
LUA = """
local kept = {}
for i = 1, 8000 do
  local t = {i, i}
  t[3] = ("x"):rep(i % 50) .. i
  if i % 10 == 0 then kept[#kept + 1] = t end
  if i % 2000 == 0 then collectgarbage() end
end
for i = 1, 3000 do
  kept[i % 100 + 1] = function() return i end
end
"""


def sampled(path: Path, argv: list[object], part: str, seed: int) -> Path:
    return record(path, argv, f"--sample-blocks={part}", f"--sample-seed={seed}").path


def summary(path: Path) -> dict:
    return json.loads(steve("summary", "--json", path).text)


def events_of(path: Path) -> np.ndarray:
    return np.concatenate([batch.copy() for batch in Reader(str(path)).batches()])


def sites(path: Path) -> dict[str, dict]:
    """The rows of sites by their innermost function."""
    return {row["site"].split(" ")[0]: row for row in json.loads(steve("sites", "--json", path).text)}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(PROGRAM)
    good(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-o", folder / "p", folder / "p.c"])
    return folder / "p"


@pytest.fixture(scope="module")
def recordings(program: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """The whole recording, and samples with different seeds."""
    folder = tmp_path_factory.mktemp("samples")
    whole = record(folder / "whole.ljt", [program]).path
    return whole, [sampled(folder / f"{seed}.ljt", [program], "1/10", seed) for seed in range(1, SEEDS + 1)]


def test_estimates(recordings: tuple[Path, list[Path]]) -> None:
    """The mean over the seeds is within 3 standard errors of the truth, and most intervals of 1.96 standard errors
    hold it."""
    whole, samples = recordings
    truth, found = summary(whole), [summary(path) for path in samples]
    held = total = 0
    for group, names in (
        ("events", ("new", "free", "resize", "load", "store")),
        ("bytes", ("allocated", "freed", "live_at_end", "read", "written")),
        ("blocks", ("total", "live_at_end")),
    ):
        for name in names:
            values = [one[group][name] for one in found]
            errors = [one["standard_errors"][group][name] for one in found]
            true, mean, spread = truth[group][name], statistics.mean(values), statistics.stdev(values)
            print(f"{group} {name}: truth {true}, mean {mean:.0f}, error of the mean {spread / SEEDS**0.5:.0f}")
            assert abs(mean - true) <= 3 * spread / SEEDS**0.5, f"{group} {name}: {mean} for {true}"
            assert 0.5 < statistics.mean(errors) / spread < 1.8, f"{group} {name}: {errors} for {spread}"
            held += sum(abs(value - true) <= 1.96 * error for value, error in zip(values, errors))
            total += SEEDS
    assert 0.85 <= held / total <= 0.995, f"{held} of {total} intervals hold the truth"


def test_exact_numbers(recordings: tuple[Path, list[Path]]) -> None:
    whole, samples = recordings
    truth = summary(whole)
    for path in samples[:3]:
        assert summary(path)["exact"] == {
            "new_events": truth["events"]["new"],
            "free_events": truth["events"]["free"],
            "resize_events": truth["events"]["resize"],
            "bytes_allocated": truth["bytes"]["allocated"],
            "bytes_freed": truth["bytes"]["freed"],
        }
    assert "exact" not in truth and "estimated" not in truth


def test_a_block_has_all_of_its_events_or_none(recordings: tuple[Path, list[Path]]) -> None:
    """Each site does the same to all of its blocks, so what recorded blocks go through is known."""
    for path in recordings[1][:5]:
        events = events_of(path)
        assert set(events["handle"][events["kind"] == RESIZE]) <= set(events["handle"][events["kind"] == NEW])
        assert set(events["handle"][events["kind"] == FREE]) <= set(events["handle"][events["kind"] == NEW])
        rows = sites(path)
        assert rows["main"]["resizes"] == 6 * rows["main"]["blocks"] > 0
        assert rows["main"]["stores"] == 6 * rows["main"]["blocks"]
        assert rows["main"]["frees"] == rows["main"]["blocks"]
        assert rows["large"]["stores"] == rows["large"]["blocks"]
        assert rows["small"]["loads"] == 4 * rows["small"]["blocks"]


def test_one_of_one_is_a_whole_recording(program: Path, tmp_path: Path) -> None:
    path = sampled(tmp_path / "t.ljt", [program], "1/1", 1)
    assert "estimated" not in summary(path)


def test_seed(program: Path, tmp_path: Path) -> None:
    def news(*options: str) -> list[int]:
        path = record(tmp_path / "t.ljt", [program], "--sample-blocks=1/20", *options).path
        events = events_of(path)
        return events["time"][events["kind"] == NEW].tolist()

    first = news("--sample-seed=5")
    assert first == news("--sample-seed=5")
    assert first != news("--sample-seed=6")
    assert news() != news(), "another seed each time"


def test_what_can_be_reached(recordings: tuple[Path, list[Path]], tmp_path: Path) -> None:
    """What is lost, reachable or garbage is estimated from the same blocks as the bytes of a site."""
    rows = json.loads(steve("leaks", "--json", "--by", "function", recordings[1][0]).text)
    small = next(row for row in rows if row["site"].startswith("small"))
    assert small["lost"] + small["reachable"] == small["bytes"] and small["lost"] > 0.9 * small["bytes"] > 0
    (tmp_path / "p.lua").write_text(LUA)
    options = ("--sample-blocks=1/10", "--sample-seed=3", "--universe=at-exit", "--trace-mem=no")
    path = record(tmp_path / "t.ljt", ["luajit", "-joff", tmp_path / "p.lua"], *options).path
    rows = json.loads(steve("leaks", "--json", "--to", "at exit", "--where", 'type = "tab"', path).text)
    judged = sum((row["reachable"] or 0) + (row["unreachable"] or 0) for row in rows)
    assert judged > 0.5 * sum(row["bytes"] for row in rows) > 0


def test_summary_says_that_large_blocks_are_missing(recordings: tuple[Path, list[Path]], tmp_path: Path) -> None:
    """A block that has 4% of the bytes and all stores is not in the sample."""
    (tmp_path / "p.c").write_text(ONE_LARGE)
    good(["gcc", "-O0", "-o", tmp_path / "p", tmp_path / "p.c"])
    seeds = (sampled(tmp_path / "t.ljt", [tmp_path / "p"], "1/2", seed) for seed in range(1, 40))
    path = next(path for path in seeds if summary(path)["events"]["store"] < 10000)
    remark = (
        b"below the exact number, more than 2 standard errors: most likely, a few large blocks are not in the sample"
    )
    said = steve("summary", path).err
    assert remark in said and b"loads, stores and bytes read and written may be as far off or farther" in said
    assert remark not in steve("summary", path, "--where", "size < 100").err
    assert b"2 standard errors" not in steve("summary", recordings[0]).err


def figures_of(allocated: int, error: float) -> dict:
    """What the remark of `steve summary` is about."""
    errors = {"bytes": {"allocated": error}}
    return {"exact": {"bytes_allocated": 10000}, "bytes": {"allocated": allocated}, "standard_errors": errors}


@pytest.mark.parametrize(
    ("allocated", "error", "remark"),
    [
        (9700, 100, "3% below the exact number, more than 2 standard errors: most likely"),
        (10300, 100, "3% above the exact number, more than 2 standard errors. Then"),
        (9700, 200, None),
        (9950, 1, None),
    ],
)
def test_when_summary_remarks_on_an_estimate(allocated: int, error: float, remark: str | None) -> None:
    said = of_large_blocks(figures_of(allocated, error))
    assert said is None if remark is None else remark in str(said)


@pytest.mark.parametrize("jit", ["-joff", "-jon"])
def test_lua_with_garbage_collection(jit: str, tmp_path: Path) -> None:
    """Estimates are near the exact numbers of the same run; what is collected ends, also in the sample. Bytes are not
    compared: LuaJIT has a few very large blocks, of which most samples have none."""
    (tmp_path / "p.lua").write_text(LUA)
    path = sampled(tmp_path / "t.ljt", ["luajit", jit, tmp_path / "p.lua"], "1/10", 3)
    found = summary(path)
    for key, (group, name) in {
        "new_events": ("events", "new"),
        "free_events": ("events", "free"),
        "resize_events": ("events", "resize"),
    }.items():
        error = found["standard_errors"][group][name]
        assert abs(found[group][name] - found["exact"][key]) <= 4 * error, f"{key}: {found}"
    assert found["events"]["free"] > 0.5 * found["events"]["new"] and found["events"]["load"] > 0
    assert b"accesses by LuaJIT's interpreter have no line" in steve("lines", path).err
    leaks = json.loads(steve("leaks", "--json", path, "--where", 'heap = "lua"').text)
    assert not leaks, "the state is closed"


def test_views_agree_and_say_that_they_estimate(recordings: tuple[Path, list[Path]]) -> None:
    path = recordings[1][0]
    assert b"have no line" not in steve("lines", path).err, "a program in C"
    totals = summary(path)
    views = {
        view: json.loads(steve(view, "--json", *options, path).text)
        for view, *options in (
            ("sites",),
            ("types",),
            ("lines",),
            ("threads",),
            ("lifetimes", "--unit", "instructions"),
        )
    }
    assert sum(row["bytes"] for row in views["sites"]) == totals["bytes"]["allocated"]
    assert sum(row["loads"] for row in views["types"]) == totals["events"]["load"]
    assert sum(row["loads"] for row in views["lines"]) == totals["events"]["load"]
    assert sum(row["stores"] for row in views["threads"]) == totals["events"]["store"]
    for rows in views.values():
        assert all(row["estimated"] is True and row["sample_every"] == 10 and "standard_errors" in row for row in rows)
    error = sum(row["standard_errors"]["loads"] ** 2 for row in views["sites"]) ** 0.5
    assert error == pytest.approx(totals["standard_errors"]["events"]["load"], rel=1e-3)
    for view in (["summary"], ["sites"], ["lines"], ["types"], ["threads"], ["leaks"], ["findings"], ["diff", path]):
        text = steve(*view, path).text
        assert "(estimated from a sample: one of 10 blocks)" in text
        assert "±" in text or view in (["threads"], ["findings"], ["diff", path])


def test_report(recordings: tuple[Path, list[Path]], tmp_path: Path) -> None:
    path = recordings[1][0]
    totals, report = summary(path), json.loads(steve("report", "--json", path).text)
    assert report["estimated"] and report["sample_every"] == 10
    assert report["totals"]["allocated"] == totals["bytes"]["allocated"]
    assert report["totals"]["load"] == totals["events"]["load"]
    assert report["totals"]["resize"] == totals["events"]["resize"]
    errors = report["standard_errors"]
    assert errors["allocated"] == totals["standard_errors"]["bytes"]["allocated"]
    assert errors["new"] == totals["standard_errors"]["events"]["new"]
    assert errors["bytes_read"] == totals["standard_errors"]["bytes"]["read"]
    assert all((site["standard_errors"]["blocks"] > 0) == (site["blocks"] > 0) for site in report["sites"])
    assert all(finding["standard_errors"]["blocks"] > 0 for finding in report["findings"])
    page = steve("report", "-o", tmp_path / "page.html", path)
    assert page.status == 0 and "±" in (tmp_path / "page.html").read_text()


def test_what_is_of_lua_is_estimated_like_the_rest(tmp_path: Path) -> None:
    """The heading of leaks says how many bytes are of Lua: of all blocks, not of the recorded ones."""
    script = tmp_path / "keeps.lua"
    script.write_text("local kept = {}\nfor i = 1, 40000 do kept[i] = { i } end\nos.exit(0)\n")
    good(["ljtrace", "run", "--sample=16k", f"--out={tmp_path / 't.ljt'}", "luajit", script])
    text = steve("leaks", tmp_path / "t.ljt").text
    found = re.search(r" blocks of ([\d,]+) bytes never freed; ([\d,]+) bytes of them are of Lua, ", text)
    assert found, text.splitlines()[0]
    everything, lua = (int(number.replace(",", "")) for number in found.groups())
    assert 2_000_000 < lua <= everything < 8_000_000
    rows = json.loads(steve("leaks", "--json", "--where", 'heap = "lua"', tmp_path / "t.ljt").text)
    assert sum(row["bytes"] for row in rows) == pytest.approx(lua, rel=1e-4)


def test_several_samples_of_one_rate(recordings: tuple[Path, list[Path]]) -> None:
    first, second, *_ = recordings[1]
    totals = json.loads(steve("summary", "--json", first, second).text)
    assert totals["estimated"] is True and totals["sample_every"] == 10
    allocated = [summary(path)["bytes"]["allocated"] for path in (first, second)]
    assert totals["bytes"]["allocated"] == sum(allocated)
    text = steve("sites", first, second).text
    assert "(estimated from a sample: one of 10 blocks)" in text and "±" in text


@pytest.mark.parametrize("command", [["sites"], ["summary"], ["findings"]])
def test_samples_and_whole_recordings_are_not_added_up(command: list[str], recordings: tuple[Path, list[Path]]) -> None:
    whole, sample = recordings[0], recordings[1][0]
    for first, second in ((whole, sample), (sample, whole)):
        done = run(["steve", *command, first, second])
        assert done.status == 1 and f"{second}: is sampled otherwise than the files before it" in done.complaint


def test_diff_of_a_sample_and_a_whole_recording(recordings: tuple[Path, list[Path]]) -> None:
    whole, (sample, *_) = recordings
    for first, second in ((whole, sample), (sample, whole)):
        text = steve("diff", first, second).text
        assert "(estimated from a sample: one of 10 blocks)" in text and "±" in text


@pytest.mark.parametrize("command", [["ops"], ["heat"], ["lockops", "--simple"], ["export", "--format", "perfetto"]])
def test_what_needs_every_block_refuses(
    command: list[str], recordings: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    done = run(["steve", *command, "-o", tmp_path / "out", recordings[1][0]])
    assert done.status == 1 and "record without --sample-blocks" in done.complaint


def test_text_cannot_be_sampled(tmp_path: Path) -> None:
    done = run([*recorder(tmp_path / "t.txt", "--sample-blocks=1/10", "--text=yes"), "/bin/true"])
    assert done.status == 1 and "--sample-blocks cannot be given with --text=yes" in done.complaint
