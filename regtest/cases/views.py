"""views - read back what the views and exports of steve say of a trace: stacks with their weights, or totals by function.

Each export is read by its own viewer where that is installed. The text formats are read here, too, because their viewers
do not show whole stacks.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import gzip
import html
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import good, steve

Stack = tuple[list[str], int]  # names of functions, the outermost first, and a weight
BLOCKS, BYTES = "alloc_objects", "alloc_space"
COLUMNS = {BLOCKS: "blocks", BYTES: "bytes"}


class View(NamedTuple):
    """What a view says of a trace. totals: by function, inclusive. leaves, roots: names of functions."""

    totals: dict[str, int]
    leaves: set[str]
    roots: set[str]


def function(text: str) -> str:
    """The name of a function, without its place; of code without a name, the object."""
    text = re.sub(r" x\d+$", "", html.unescape(text))
    nameless = re.fullmatch(r"(?:0x[0-9a-f]+|\?\?\?) \((?:in )?([^()]*)\)", text)
    if nameless:
        return f"[{Path(nameless[1]).name}]"
    text = re.sub(r" [^ ;]+\.lua(:\d+)?$", "", text)
    return re.sub(r" \((in )?[^()]*\)$", "", text)


def plain(text: str) -> str:
    """The same without the parameters."""
    text = function(text)
    return text if text.startswith("(") else text.split("(")[0].rstrip()


def view(stacks: Iterable[Stack], name_of: Callable[[str], str] = plain) -> View:
    """The view that shows these stacks."""
    totals: Counter[str] = Counter()
    leaves, roots = set(), set()
    for names, weight in stacks:
        if not weight:
            continue
        found = [name_of(name) for name in names]
        totals.update(dict.fromkeys(found, weight))
        leaves.add(found[-1])
        roots.add(found[0])
    return View(dict(totals), leaves, roots)


def of_sites(path: Path, metric: str = BYTES, *options: str) -> list[Stack]:
    rows = json.loads(steve("sites", "--json", *options, path).text)
    return [(row["site"].split(" < ")[::-1], row[COLUMNS[metric]]) for row in rows]


def exported(path: Path, form: str, *options: str) -> Path:
    result = path.with_name(f"{path.name}.{form}.gz" if form in ("pprof", "heaptrack") else f"{path.name}.{form}")
    done = steve("export", "--format", form, *options, "-o", result, path)
    assert done.status == 0, done.complaint
    return result


def folded(text: str) -> Iterator[Stack]:
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        yield stack.split(";"), int(weight)


def of_folded(path: Path, metric: str = BYTES) -> list[Stack]:
    return list(folded(exported(path, "folded", "--metric", metric).read_text()))


def of_speedscope(path: Path, metric: str = BYTES) -> list[Stack]:
    data = json.loads(exported(path, "speedscope").read_text())
    names = [frame["name"] for frame in data["shared"]["frames"]]
    profile = next(one for one in data["profiles"] if one["name"] == metric)
    return [([names[i] for i in stack], weight) for stack, weight in zip(profile["samples"], profile["weights"])]


def dhat_stacks(text: str, metric: str = BYTES) -> list[Stack]:
    """The stacks of a file of DHAT."""
    data = json.loads(text)
    texts = [re.sub(r"^0x[0-9a-fA-F]+: ", "", frame) for frame in data["ftbl"]]
    key = {BLOCKS: "tbk", BYTES: "tb"}[metric]
    return [([texts[i] for i in point["fs"]][::-1], point[key]) for point in data["pps"]]


def of_dhat(path: Path, metric: str = BYTES) -> list[Stack]:
    return dhat_stacks(exported(path, "dhat").read_text(), metric)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def numbers(packed: bytes) -> list[int]:
    """Packed numbers of protobuf: each is written as if it were a field."""
    found, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found


def of_pprof(path: Path, metric: str = BYTES) -> list[Stack]:
    texts: list[str] = []
    functions: dict[int, int] = {}
    locations: dict[int, list[int]] = {}
    samples: list[tuple[list[int], list[int]]] = []
    for field, value in fields(gzip.decompress(exported(path, "pprof").read_bytes())):
        if field == 6:
            texts.append(value.decode())  # type: ignore[union-attr]
        elif field == 5:
            of_function = dict(fields(value))  # type: ignore[arg-type]
            functions[of_function[1]] = of_function[2]  # type: ignore[index, assignment]
        elif field == 4:
            parts = list(fields(value))  # type: ignore[arg-type]
            number = next(part for key, part in parts if key == 1)
            locations[number] = [dict(fields(part))[1] for key, part in parts if key == 4]  # type: ignore
        elif field == 2:
            of_sample = dict(fields(value))  # type: ignore[arg-type]
            samples.append((numbers(of_sample[1]), numbers(of_sample[2])))  # type: ignore[arg-type]
    return [
        (
            [texts[functions[f]] for location in stack for f in locations[location]][::-1],
            values[[BLOCKS, BYTES].index(metric)],
        )
        for stack, values in samples
    ]


def heaptrack_stacks(text: str, metric: str = BYTES) -> list[Stack]:
    """The stacks of a heaptrack file, each with what was allocated by it."""
    strings, places, stacks, kinds = [""], [[""]], [(0, 0)], []
    sums: Counter[int] = Counter()
    for line in text.splitlines():
        letter, _, rest = line.partition(" ")
        if letter == "s":
            strings.append(rest.partition(" ")[2])
            continue
        words = [int(word, 16) for word in rest.split()] if letter in ("i", "t", "a", "+") else []
        if letter == "i":  # address, module, then function, file and line of each frame, the innermost first
            names = [strings[number] for number in words[2::3]] or [""]
            places.append([name or f"[{Path(strings[words[1]]).name}]" for name in names])
        elif letter == "t":
            stacks.append((words[0], words[1]))
        elif letter == "a":
            kinds.append((words[0], words[1]))
        elif letter == "+":
            size, stack = kinds[words[0]]
            sums[stack] += size if metric == BYTES else 1

    def names(stack: int) -> list[str]:
        found: list[str] = []
        while stack:
            place, stack = stacks[stack]
            found += places[place]
        return found[::-1] or ["(no stack)"]

    return [(names(stack), weight) for stack, weight in sums.items()]


def of_heaptrack(path: Path, metric: str = BYTES) -> list[Stack]:
    return heaptrack_stacks(gzip.decompress(exported(path, "heaptrack").read_bytes()).decode(), metric)


def of_heaptrack_print(path: Path) -> list[Stack]:
    """The stacks with their numbers of blocks, as heaptrack_print counts them."""
    if shutil.which("heaptrack_print") is None:
        pytest.skip("heaptrack_print is not installed (package heaptrack)")
    result = path.with_name("stacks")
    good(
        [
            "heaptrack_print",
            "--shorten-templates=0",
            "-F",
            result,
            "--flamegraph-cost-type",
            "allocations",
            exported(path, "heaptrack"),
        ]
    )
    return list(folded(result.read_text().replace("; ", " ")))


def of_report(path: Path, metric: str = BYTES) -> list[Stack]:
    """The rows of the table of sites in the report."""
    page = steve("report", "-o", "-", path).text
    table = page[page.index('id="sites"') :]
    rows = re.findall(
        r'<tr><td>.*?<ol class="stack">(.*?)</ol>.*?data-v="(\d+)">.*?data-v="(\d+)">', table[: table.index("</table>")]
    )
    return [
        (re.findall("<li>(.*?)</li>", frames)[::-1], int((size, blocks)[metric == BLOCKS]))
        for frames, size, blocks in rows
    ]


# Views that show whole stacks
STACKS: dict[str, Callable[[Path, str], list[Stack]]] = {
    "folded": of_folded,
    "speedscope": of_speedscope,
    "dhat": of_dhat,
    "pprof": of_pprof,
    "heaptrack": of_heaptrack,
}


def of_callgrind(path: Path, metric: str = BYTES, name_of: Callable[[str], str] = plain) -> dict[str, int]:
    """The inclusive totals by function as callgrind_annotate prints them. It shows neither leaves nor roots."""
    if shutil.which("callgrind_annotate") is None:
        pytest.skip("callgrind_annotate is not installed (package valgrind)")
    text = good(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", f"--show={metric}", exported(path, "callgrind")]
    ).text
    rows: dict[tuple[str, str], int] = {}  # the viewer has two rows if a file is in the current folder
    for amount, file, name in re.findall(
        r"^\s*([\d,]+) \([ \d.]+%\)\s+(\?\?\?|[^:\s]+):(.*?)(?: \[[^\]]*\])?$", text, re.M
    ):
        key = Path(file).name, name
        rows[key] = max(rows.get(key, 0), int(amount.replace(",", "")))
    totals: Counter[str] = Counter()
    for (_, name), amount in rows.items():
        totals[name_of(name)] += amount
    return dict(totals)


class Boxes(NamedTuple):
    """What a flame graph shows: inclusive totals by function, and the functions of the outermost boxes."""

    totals: dict[str, int]
    roots: set[str]


def of_flame(path: Path, metric: str = BYTES, name_of: Callable[[str], str] = plain) -> Boxes:
    """The boxes of a flame graph; a function below itself counts once."""
    done = steve("flame", "--metric", metric, "-o", "-", path)
    boxes = re.findall(r'data-n="([^"]*)" data-s="(\d+)" data-w="(\d+)" data-d="(\d+)"', done.text)
    totals: Counter[str] = Counter()
    open_boxes: list[str] = []
    for name, _, width, depth in boxes:
        del open_boxes[int(depth) :]
        if name_of(name) not in open_boxes:
            totals[name_of(name)] += int(width)
        open_boxes.append(name_of(name))
    return Boxes(dict(totals), {name_of(name) for name, _, _, depth in boxes if depth == "1"})
