"""steve graphs: reading allocstats files, ranking against a simple reference, figures that are really drawn.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import lzma
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from conftest import examples
from allocstats_files import OLD, record, series, write
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from steve.allocstats.medians import median
from steve.allocstats.parse import AllocStats, read_allocstats
from steve.allocstats.ranking import compat_tables, honest_tables, unranked
from steve.allocstats.result import summarise
from steve.allocstats.rounds import combine_rounds
from steve.system.errors import SteveError


def steve(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["steve", *arguments], capture_output=True, text=True, cwd=cwd, check=False)


# -- parsing -----------------------------------------------------------------------------------


def test_old_file_is_sorted_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text(OLD)
    stats = read_allocstats(str(path))
    assert (stats.driver, stats.opsfile, stats.heap_size) == ("dlmalloc", "result.soffice-ops", 270416)
    assert stats.column("op_index").tolist() == [0, 100, 1000]
    assert stats.column("maxmem").tolist() == [262040, 261500, 261000]
    assert "".join(stats.ops) == "NFN"
    assert not stats.warnings
    facts = summarise(stats)
    assert facts.median_ns == (12088 + 520) / 2, "old files time N only, with the handling of out-of-memory"
    assert facts.committed is None and facts.complete and facts.peak_used == 1416


def test_nothing_is_executed(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for line in (f"x = open({str(trap)!r}, 'w')", f"x = [c for c in [open({str(trap)!r}, 'w')]]"):
        path = tmp_path / "hostile"
        path.write_text(line + "\n" + OLD)
        with pytest.raises(SteveError, match="line 1: expected a plain value"):
            read_allocstats(str(path))
    assert not trap.exists()


BAD = {
    "empty": ("", "empty"),
    "foreign": ("hello\nworld\n", "line 1: expected `key = value`"),
    "no points": (OLD[: OLD.index("    {")] + "]\n", "no data points"),
    "no driver": (OLD.replace('driver = "dlmalloc"\n', ""), "lacks 'driver'"),
    "cut in a record": (OLD[: OLD.index("261000") + 4], "line 8: expected a plain value"),
    "no record": (OLD.replace("]\n", ", 5\n]\n"), "line 10: expected a record"),
    "missing key": (OLD.replace("'maxmem': 261500.00,", ""), "line 9: the record lacks 'maxmem'"),
    "text for number": (OLD.replace("261500.00", "'many'"), "line 9: 'maxmem' should be a number"),
    "huge number": (OLD.replace("261500.00", "1e300"), "line 9: 'maxmem' should be a number"),
    "bad heap": (OLD.replace("270416", "0"), "heap_size should be a number above 0"),
    "other mode": (OLD.replace("'allocstats'", "'memplot'"), "only 'allocstats' files"),
    "deep": ("x = " + "(" * 30000 + "\n", "line 1: expected a plain value"),
    "long line": ("x = " + "1" * (1 << 17) + "\n", "line 1: longer than"),
    "text after": (OLD + "{'op_index': 3}\n", "line 11: text after the end"),
    "binary": ("\x7fELF\x02\x01\x00\n", "line 1: expected"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_with_their_line(tmp_path: Path, name: str) -> None:
    text, message = BAD[name]
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(SteveError) as caught:
        read_allocstats(str(path))
    assert message in str(caught.value) and str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_unclosed_list_and_repeats_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_text(
        OLD.removesuffix("]\n") + ", {'op_index': 0, 'used': 1, 'maxmem': 2, 'current_op_time': 3, 'op': 'N'}\n"
    )
    stats = read_allocstats(str(path))
    assert stats.column("maxmem").tolist()[0] == 2
    assert len(stats.warnings) == 2 and "repeat" in stats.warnings[1] and "not closed" in stats.warnings[0]


@examples(60, HealthCheck.function_scoped_fixture)
@given(data=st.binary(max_size=300), at=st.integers(0, len(OLD)))
def test_damaged_files_give_an_error_or_data(tmp_path: Path, data: bytes, at: int) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(OLD[:at].encode() + data + OLD[at:].encode())
    try:
        assert len(read_allocstats(str(path))) > 0
    except SteveError as error:
        assert str(path) in str(error)


# -- ranking -----------------------------------------------------------------------------------


def compat_reference(files: list[AllocStats], space: bool) -> dict[str, tuple]:
    """The ranking by the first Steve's rules, one point at a time."""
    lists = []
    for stats in files:
        values, last = [], None
        for i in range(len(stats)):
            time = stats.column("current_op_time")[i] + stats.column("oom_time")[i]
            last = time if stats.ops[i] == "N" or last is None else last
            maxmem = stats.column("maxmem")[i]
            values.append(100 * maxmem / stats.heap_size if space else last)
            if maxmem == 0:
                break
        lists.append(values)
    m, n = max(map(len, lists)), len(lists)
    lists = [values + [0.0] * (m - len(values)) for values in lists]
    count, weight, first, last_ = [0.0] * n, [0.0] * n, [0] * n, [0] * n
    for i in range(m):
        order = sorted((values[i], index) for index, values in enumerate(lists))
        order = order[::-1] if space else order
        best, worst, column = order[0][0], order[-1][0], [x for x, _ in sorted(order, key=lambda at: at[1])]
        for j, (x, index) in enumerate(order):
            count[index] += j
            weight[index] += j * (abs(x - best) / best if best else abs(x - 1))
        first[column.index(best)] += 1
        last_[column.index(worst)] += 1
    return {
        stats.driver: (
            100 * count[k] / (m * n),
            100 * weight[k] / (m * n),
            100 * first[k] / m,
            100 * last_[k] / m,
            sum(lists[k]) / m,
            sorted(lists[k])[m // 2],
        )
        for k, stats in enumerate(files)
    }


def honest_reference(files: list[AllocStats], space: bool) -> dict[str, tuple]:
    """The ranking by the default rules, one point at a time."""
    values = []
    for stats in files:
        time = stats.column("current_op_time") + stats.column("oom_time")
        x = 100 * stats.column("maxmem") / stats.heap_size if space else time
        values.append({int(i): float(v) for i, v in zip(stats.column("op_index"), x)})
    union = sorted(set().union(*values))
    result = {}
    for k, stats in enumerate(files):
        count = weight = first = last = 0.0
        for i, x in values[k].items():
            there = [v[i] for v in values if i in v]
            better = sum(v > x if space else v < x for v in there)
            place = better + (there.count(x) - 1) / 2
            best, worst = (max(there), min(there)) if space else (min(there), max(there))
            count += place / len(there)
            weight += place * abs(x - best) / (best or 1) / len(there)
            first += x == best
            last += x == worst
        m, own = len(values[k]), sorted(values[k].values())
        median = (own[m // 2] + own[(m - 1) // 2]) / 2
        result[stats.driver] = (
            100 * count / m,
            100 * weight / m,
            100 * first / m,
            100 * last / m,
            sum(own) / m,
            median,
            100 * m / len(union),
        )
    return result


def assert_equal_tables(tables: list, files: list[AllocStats], reference) -> None:
    for table, space in zip(tables, (False, True)):
        expected = reference(files, space)
        assert [row.penalty_count for row in table.rows] == sorted(row.penalty_count for row in table.rows)
        assert {row.allocator for row in table.rows} == set(expected)
        for row in table.rows:
            found = (
                row.penalty_count,
                row.penalty_weighted,
                row.best,
                row.worst,
                row.average,
                row.median,
                row.points,
            )
            wanted = expected[row.allocator]
            assert found[: len(wanted)] == pytest.approx(wanted)


point = st.tuples(st.sampled_from("NF"), st.integers(0, 5), st.sampled_from([0, 100, 200, 300]))


@examples(80, HealthCheck.function_scoped_fixture)
@given(runs=st.lists(st.lists(point, min_size=1, max_size=12), min_size=1, max_size=4))
def test_tables_equal_the_plain_reference(tmp_path: Path, runs: list) -> None:
    files = []
    for k, run in enumerate(runs):
        points = [record(i, op, time, maxmem) for i, (op, time, maxmem) in enumerate(run)]
        files.append(read_allocstats(write(tmp_path, f"a{k}", points)))
    assert_equal_tables(compat_tables(files), files, compat_reference)
    assert_equal_tables(honest_tables(files), files, honest_reference)


def test_tables_worked_out_by_hand(tmp_path: Path) -> None:
    """Four points, two allocators. By the first Steve's rules, the F repeats the N before it, equal times keep
    the order of the files, equal space reverses it, and a file ends with its first maxmem of 0. The default
    rules are tested on the same data."""
    letters = "NNFN"
    a = [record(i, letters[i], t, x) for i, (t, x) in enumerate([(10, 2048), (20, 1024), (999, 2048), (40, 0)])]
    b = [record(i, letters[i], t, x) for i, (t, x) in enumerate([(20, 1024), (10, 2048), (999, 2048), (40, 4096)])]
    files = [read_allocstats(write(tmp_path, "a", a)), read_allocstats(write(tmp_path, "b", b))]

    def rows(tables: list) -> list[dict[str, tuple]]:
        return [
            {
                r.allocator: (r.penalty_count, r.penalty_weighted, r.best, r.worst, r.average, r.median)
                for r in table.rows
            }
            for table in tables
        ]

    assert rows(compat_tables(files)) == [
        {"a": (25, 25, 50, 75, 22.5, 20), "b": (25, 12.5, 50, 25, 20, 20)},
        {"a": (37.5, 18.75, 50, 75, 31.25, 50), "b": (12.5, 6.25, 50, 25, 56.25, 50)},
    ]
    assert rows(honest_tables(files))[0] == {"a": (25, 12.5, 75, 75, 267.25, 30), "b": (25, 12.5, 75, 75, 267.25, 30)}


# penalty(c), penalty(w), best, worst, average, median as published; the first two and the last two as
# integers
PUBLISHED = {
    "rmmalloc": ((23, 18.30, 30.00, 3.22, 209, 171), (46, 6.80, 0.00, 0.00)),
    "rmmalloc-c": ((23, 15.80, 27.29, 1.69, 205, 178), (62, 9.08, 0.00, 0.00)),
    "tcmalloc": ((25, 54.76, 34.07, 6.44, 286, 164), (0, 0.00, 100.00, 0.00)),
    "jemalloc": ((47, 1378.68, 0.34, 10.00, 9751, 228), (83, 78.88, 0.00, 100.00)),
    "dlmalloc": ((54, 87.60, 8.14, 11.86, 372, 370), (28, 1.42, 0.00, 0.00)),
    "rmmalloc-c-m": ((75, 205.50, 0.17, 66.78, 562, 483), (29, 4.36, 0.00, 0.00)),
}


def published_files(folder: Path) -> list[AllocStats]:
    """The measurements of six allocators on a run of soffice, in the order in which they were ranked. The file
    has a line `DRIVER HEAP` for each allocator, followed by lines `INDEX OP TIME OOM_TIME MAXMEM`."""
    files: list[tuple[str, int, list[str]]] = []
    for line in lzma.open(Path(__file__).parent / "data/soffice-allocstats.txt.xz", "rt"):
        fields = line.split()
        if len(fields) == 2:
            files.append((fields[0], int(fields[1]), []))
        else:
            index, op, time, oom_time, maxmem = fields
            files[-1][2].append(record(int(index), op, int(time), int(maxmem), oom_time=int(oom_time)))
    return [read_allocstats(write(folder, name, points, heap=heap)) for name, heap, points in files]


def test_compat_tables_are_the_published_ones(tmp_path: Path) -> None:
    files = published_files(tmp_path)
    assert [len(stats) for stats in files] == [590] * 6
    for table, which, places in zip(compat_tables(files), (0, 1), (6, 4)):
        for row in table.rows:
            found = (
                int(row.penalty_count),
                round(row.penalty_weighted, 2),
                round(row.best, 2),
                round(row.worst, 2),
                int(row.average),
                int(row.median),
            )
            assert found[:places] == PUBLISHED[row.allocator][which], (table.title, row.allocator)
    assert [row.allocator for row in compat_tables(files)[0].rows] == list(PUBLISHED)


def test_the_dead_do_not_win(tmp_path: Path) -> None:
    alive = write(tmp_path, "alive", [record(i, "N", 50) for i in range(10)])
    dead = write(tmp_path, "dead", [record(0, "N", 90), record(1, "N", 90, 0)], complete=False)
    files = [read_allocstats(alive), read_allocstats(dead)]
    speed = {row.allocator: row for row in honest_tables(files)[0].rows}
    assert speed["alive"].best == 100 and speed["dead"].best == 0 and speed["dead"].points == 20
    padded = {row.allocator: row for row in compat_tables(files)[0].rows}
    assert padded["dead"].best == 80, "the original's padding ranks the dead first; --compat keeps that"


def test_what_is_no_allocator_is_not_ranked(tmp_path: Path) -> None:
    names = ("null", "optimal", "glibc", "bump")
    paths = [write(tmp_path, name, series(20, k + 1)) for k, name in enumerate(names)]
    files = [read_allocstats(path) for path in paths]
    for table in honest_tables(files):
        assert {row.allocator for row in table.rows} == {"glibc", "bump"}
    assert {row.allocator for row in compat_tables(files)[0].rows} == set(names)
    assert [row.allocator for row in honest_tables(files[:1])[0].rows] == ["null"]
    assert [sentence.split()[0] for sentence in unranked(files)] == ["null", "optimal"] and not unranked(files[2:])


def test_ties_are_shared(tmp_path: Path) -> None:
    files = [read_allocstats(write(tmp_path, name, [record(0), record(1)])) for name in ("a", "b", "c")]
    for table in honest_tables(files):
        assert [row.penalty_count for row in table.rows] == pytest.approx([100 / 3] * 3)
        assert {row.best for row in table.rows} == {100}


# -- figures and the command -------------------------------------------------------------------


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.rstrip().endswith(b"IEND\xaeB`\x82")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def test_single_figure_in_all_formats(tmp_path: Path) -> None:
    path = write(tmp_path, "jemalloc", series(300, 3))
    result = steve("graphs", path, "--format", "png,svg,pdf", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    stem = tmp_path / "plot-jemalloc-app-ops"
    width, height = png_size(stem.with_suffix(".png"))
    assert width >= 1200 and height >= 1200
    svg = stem.with_suffix(".svg")
    text = "".join(ElementTree.parse(svg).getroot().itertext())
    assert "jemalloc on app-ops" in text and "Largest block still allocatable" in text
    assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")


def test_old_file_can_be_drawn(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(OLD)
    assert steve("graphs", "old", "-q", cwd=tmp_path).returncode == 0
    png_size(tmp_path / "plot-dlmalloc-result.soffice-ops.png")


def test_several_figures_and_tables(tmp_path: Path) -> None:
    files = [write(tmp_path, name, series(200, k + 1)) for k, name in enumerate(("glibc", "mimalloc", "own_one"))]
    result = steve("graphs", "app", *files, "--json", "--format", "png,svg", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["figures"] == ["app.png", "app.svg"]
    assert [table["title"] for table in answer["tables"]] == ["Speed", "Space"]
    assert {row["allocator"] for row in answer["tables"][0]["rows"]} == {"glibc", "mimalloc", "own_one"}
    drawn = "".join(ElementTree.parse(tmp_path / "app.svg").getroot().itertext())
    assert all(name in drawn for name in ("glibc", "mimalloc", "own_one", "% of the heap", "log scale"))
    png_size(tmp_path / "app.png")


@pytest.mark.parametrize(
    "kind,expected",
    [("text", "penalty(c) %"), ("markdown", "| allocator | penalty(c) % |"), ("latex", r"own\_one & ")],
)
def test_forms_of_tables(tmp_path: Path, kind: str, expected: str) -> None:
    files = [write(tmp_path, name, series(50, k + 1)) for k, name in enumerate(("glibc", "own_one"))]
    result = steve("graphs", "app", *files, "--tables", kind, cwd=tmp_path)
    assert result.returncode == 0 and expected in result.stdout
    assert "Speed (honest rules)" in result.stdout
    assert "Speed (compat rules)" in steve("graphs", "app", *files, "--compat", cwd=tmp_path).stdout


def test_same_input_gives_same_figures(tmp_path: Path) -> None:
    path = write(tmp_path, "glibc", series(60, 2))
    pictures = []
    for name in ("one", "two"):
        assert steve("graphs", path, "-o", f"{name}.svg", cwd=tmp_path).returncode == 0
        pictures.append((tmp_path / f"{name}.svg").read_bytes())
    assert pictures[0] == pictures[1]


def test_wrong_usage_and_bad_input(tmp_path: Path) -> None:
    one, other = write(tmp_path, "a", series(9, 1)), write(tmp_path, "b", series(9, 1), ops="other-ops")
    cases = [
        (("graphs",), 2, "usage"),
        (("graphs", "missing"), 1, "No such file"),
        (("graphs", one, "--format", "gif"), 2, "gif"),
        (("graphs", "app", one, other), 1, "different programs"),
        (("graphs", one, other), 2, "name of the figure"),
        (("graphs", one, "-o", "no/such/folder/x.png"), 1, "no/such/folder"),
    ]
    for arguments, status, message in cases:
        result = steve(*arguments, cwd=tmp_path)
        assert (result.returncode, message in result.stderr) == (status, True), (arguments, result.stderr)
        assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("*.png")), "no half figures"


def test_a_crashed_allocator_does_not_block_the_others(tmp_path: Path) -> None:
    """Its file is reported and left out, with or without data points. The others are drawn and ranked, and the
    status is 1."""
    points = [record(i) for i in range(5)]
    good = [write(tmp_path, name, points) for name in ("good", "fine")]
    crashed = write(tmp_path, "bad", [], complete=False, error="bad: at operation 99: crashed: Segmentation fault")
    half = write(tmp_path, "worse", points, complete=False, error="worse: at operation 3: did nothing for 60 s")
    short = write(
        tmp_path,
        "short",
        points[:2],
        complete=False,
        error="short: out of memory at operation 2 in a heap of 4096 bytes: give a larger one (--heap)",
    )

    def graphs(*files: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["steve", "graphs", str(tmp_path / "app"), *files, "--json"], capture_output=True, text=True, check=False
        )

    done = graphs(crashed, good[0], half, good[1], short)
    assert done.returncode == 1, done.stderr
    assert f"{crashed}: no data points: bad: at operation 99: crashed: Segmentation fault" in done.stderr
    assert f"left out: {half}: worse: at operation 3: did nothing" in done.stderr
    answer = json.loads(done.stdout)
    assert [file["allocator"] for file in answer["files"]] == ["good", "fine", "short"]
    assert sorted(row["allocator"] for row in answer["tables"][0]["rows"]) == ["fine", "good", "short"]
    assert (tmp_path / "app.png").stat().st_size > 10000
    assert graphs(good[0], short).returncode == 0, "running out of memory is a finding"
    alone = graphs(crashed, half)
    assert alone.returncode == 1 and "no data points: bad" in alone.stderr and alone.stdout == ""


def test_titles_and_legends_do_not_meet(tmp_path: Path) -> None:
    """The title of a panel and its legend share a line; the names of what is off the picture are elsewhere."""
    from steve.plots import allocators

    boxes = {}

    def keep(figure: object, stem: str, formats: list[str]) -> list[str]:
        figure.canvas.draw()
        for axes in figure.axes:
            legend = axes.get_legend()
            if legend is not None:
                boxes[axes.get_title("left")] = (axes._left_title.get_window_extent(), legend.get_window_extent())
        return []

    names = ["glibc", "jemalloc", "mimalloc", *(f"a-long-name-{i}" for i in range(4))]
    files = [
        read_allocstats(write(tmp_path, name, [record(i, resident=9 << (8 * (n > 3) + 10)) for i in range(9)]))
        for n, name in enumerate(names)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocators, "save", keep)
        allocators.draw_multiple("app", files, "app", ["png"])
        allocators.draw_single(files[0], "one", ["png"])
    assert len(boxes) >= 3
    for title, (one, other) in boxes.items():
        assert not one.overlaps(other), title


@pytest.mark.parametrize(
    ("maxmem", "title"), [(900, "Resident beyond the live bytes"), (400, "Largest block still allocatable")]
)
def test_a_flat_panel_is_replaced(maxmem: int, title: str, tmp_path: Path) -> None:
    """If the largest block hardly changes, its panel shows the resident bytes beyond the live ones, and says so."""
    from steve.plots import allocators

    figures = []
    points = [record(i, resident=9 << 10, maxmem=920 if i < 4 else maxmem) for i in range(9)]
    files = [read_allocstats(write(tmp_path, name, points, heap=1000)) for name in ("glibc", "musl")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocators, "save", lambda figure, *_: figures.append(figure) or [])
        allocators.draw_multiple("app", files, "app", ["png"])
    middle = figures[0].axes[1]
    assert middle.get_title("left") == title and len(middle.lines) >= 2
    notes = [text.get_text() for text in middle.texts]
    assert any("90% (glibc)" in note for note in notes) == (maxmem == 900)


def test_speed_is_that_of_batches_where_all_have_them(tmp_path: Path) -> None:
    """Single operations below the clock's resolution rank by chance; means over many operations do not."""
    quick = [record(i * 10, time=10, batch_ops=10, batch_time=100) for i in range(5)]
    slow = [record(i * 10, time=0, batch_ops=10, batch_time=300) for i in range(5)]
    files = [
        read_allocstats(write(tmp_path, name, points, clock_step=10.014))
        for name, points in (("quick", quick), ("slow", slow))
    ]
    speed = {row.allocator: row for row in honest_tables(files)[0].rows}
    assert (speed["quick"].average, speed["slow"].average) == (10, 30)
    assert (speed["quick"].best, speed["slow"].best) == (100, 0)
    facts = summarise(files[1])
    assert (facts.mean_ns, facts.median_ns, facts.median_below_step, facts.clock_step) == (30, 0, True, 10.014)
    assert not summarise(files[0]).median_below_step
    old = read_allocstats(write(tmp_path, "old", [record(i * 10, time=5) for i in range(5)]))
    mixed = {row.allocator: row.average for row in honest_tables([*files, old])[0].rows}
    assert mixed == {"quick": 10, "slow": 0, "old": 5}, "one file without batches: single operations of all"


def test_dots_only_above_the_step(tmp_path: Path) -> None:
    from steve.plots import allocators

    drawn = []
    points = [record(i, time=time, batch_ops=1, batch_time=7) for i, time in enumerate((0, 10, 10, 20, 500))]
    stats = read_allocstats(write(tmp_path, "one", points, clock_step=10.014))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocators, "save", lambda figure, *_: drawn.extend(figure.axes[0].lines) or [])
        allocators.draw_multiple("app", [stats], "app", ["png"])
    dots = [line for line in drawn if line.get_marker() == "."]
    lines = [line for line in drawn if line.get_marker() != "."]
    assert [list(line.get_ydata()) for line in dots] == [[20, 500]]
    assert [list(line.get_ydata()) for line in lines] == [[7] * 5]


def rounds_of(tmp_path: Path, driver: str, base: float, count: int = 7) -> list[str]:
    """Files of repeated replays, whose times between data points are base, base + 1, ..., in no order."""
    paths = []
    for number in range(count):
        folder = tmp_path / f"round{number}"
        folder.mkdir(exist_ok=True)
        mean = base + number * 3 % count
        points = [record(i * 10, time=0, batch_ops=10, batch_time=10 * mean) for i in range(300)]
        paths.append(write(folder, driver, points, clock_step=10.014, replay_time_per_op=mean))
    return paths


def test_rounds_are_combined_to_medians_with_intervals(tmp_path: Path) -> None:
    files = [read_allocstats(path) for path in rounds_of(tmp_path, "glibc", 20)]
    (one,) = combine_rounds(files)
    facts = summarise(one)
    assert (facts.rounds, facts.replay_ns, facts.mean_ns, len(one)) == (7, 23, 23, 300)
    assert facts.replay_interval is not None and facts.replay_interval[0] == 23
    ends = (one.column("batch_low")[0], one.column("batch_high")[0])
    assert ends == tuple(facts.replay_interval[1:]) and 20 <= ends[0] <= 21 and 25 <= ends[1] <= 26
    assert ends == tuple(median([float(n) for n in range(20, 27)]).as_list()[1:]), "the same rule as for one number"


def test_files_of_other_replays_are_not_combined(tmp_path: Path) -> None:
    points = [record(i) for i in range(5)]
    folders = [tmp_path / name for name in ("a", "b", "c", "d")]
    for folder in folders:
        folder.mkdir()
    paths = [
        write(folders[0], "glibc", points),
        write(folders[1], "glibc", points, heap=8192),
        write(folders[2], "glibc", points[:4]),
        write(folders[3], "jemalloc", points),
    ]
    files = [read_allocstats(path) for path in paths]
    assert [id(one) for one in combine_rounds(files)] == [id(one) for one in files]


def test_figures_of_rounds_have_bands_and_mark_the_step_of_the_clock(tmp_path: Path) -> None:
    from steve.plots import allocators

    figures = []
    files = [
        read_allocstats(path)
        for name, base in (("glibc", 5), ("jemalloc", 20))
        for path in rounds_of(tmp_path, name, base)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocators, "save", lambda figure, *_: figures.append(figure) or [])
        allocators.draw_multiple("app", combine_rounds(files), "app", ["png"])
        allocators.draw_single(combine_rounds(files)[0], "one", ["png"])
    for figure, bands in zip(figures, (2, 1)):
        times = figure.axes[0]
        assert len(times.collections) == bands
        (step,) = [text for text in times.texts if "below the step of the clock, 10 ns" in text.get_text()]
        figure.canvas.draw()
        assert step.get_window_extent().y1 < times.get_window_extent().y0, "curves would run over it"
        assert any("medians of 7 rounds" in text.get_text() for text in figure.texts)
    assert any("p50 <10 ns, p99 <10 ns" in text.get_text() for text in figures[1].texts)


def test_the_command_combines_rounds(tmp_path: Path) -> None:
    paths = rounds_of(tmp_path, "glibc", 20) + rounds_of(tmp_path, "jemalloc", 40)
    done = steve("graphs", "app", *paths, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["glibc", "23.0", "21.0", "25.0", "7"] in lines and ["jemalloc", "43.0", "41.0", "45.0", "7"] in lines
    found = json.loads(steve("graphs", "app", *paths, "--json", cwd=tmp_path).stdout)
    assert [(one["allocator"], one["rounds"]) for one in found["files"]] == [("glibc", 7), ("jemalloc", 7)]
    compat = json.loads(steve("graphs", "app", *paths, "--json", "--compat", cwd=tmp_path).stdout)
    assert len(compat["files"]) == 14


def test_the_report_tells_times_below_the_step(tmp_path: Path) -> None:
    points = [record(i, time=0, batch_ops=1, batch_time=7, resident=4096) for i in range(9)]
    result = write(tmp_path, "quick", points, clock_step=10.014, fragmentation_1=31.25, fragmentation_resident_1=12.5)
    (tmp_path / "memtrace").write_text(">>> N 4096 100\n>>> F 4096 0\n")
    done = subprocess.run(
        ["steve", "report", "memtrace", "-o", "r.html", "--allocstats", result],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert page.count("&lt;10 ns") == 2 and ">7 ns<" in page, "median and 99%, not the mean"
    assert ">31.2 %<" in page and ">12.5 %<" in page
