"""speedscope's JSON: a sampled profile for each metric, with one common list of frames.
https://www.speedscope.app/file-format-schema.json

SPDX-License-Identifier: GPL-2.0-or-later
"""
import json
from collections.abc import Iterator

from steve.analysis.blocks import FEW_ROWS
from steve.export.profile import METRICS, Metric, Profile
from steve.trace.frames import function_label

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def frame_entry(profile: Profile, number: int) -> dict:
    """A frame as an object of the format."""
    if not number:
        return {"name": "(no stack)"}
    frame = profile.frame(number)
    entry: dict = {"name": function_label(frame)}
    if frame.file:
        entry["file"] = frame.file
    if frame.line:
        entry["line"] = frame.line
    return entry


def pieces(name: str, texts: Iterator[str]) -> Iterator[str]:
    """The text of an object's member that is a list. texts: those of its elements."""
    yield f', "{name}": ['
    for i, text in enumerate(texts):
        yield ", " + text if i else text
    yield "]"


def sampled(profile: Profile, metric: Metric, index: dict[int, str]) -> Iterator[str]:
    """The text of the profile of one metric, in pieces. index: by frame id, its index in the list of frames."""
    column = profile.column(metric)
    weights, stacks = column[column != 0], profile.stacks[column != 0]
    head = {
        "type": "sampled",
        "name": metric.name,
        "unit": "bytes" if metric.unit == "bytes" else "none",
        "startValue": 0,
        "endValue": int(weights.sum()),
    }

    def frames() -> Iterator[str]:
        for first in range(0, len(stacks), FEW_ROWS):
            for stack in stacks[first : first + FEW_ROWS].tolist():
                yield "[" + ", ".join([index[number] for number in reversed(profile.frames(stack))]) + "]"

    yield json.dumps(head)[:-1]
    yield from pieces("weights", (str(weight) for weight in weights))
    yield from pieces("samples", frames())
    yield "}"


def speedscope(profile: Profile, version: str) -> Iterator[str]:
    """The whole file, in pieces. Metrics whose values are all 0 are left out."""
    used = profile.used_frames()
    head = {
        "$schema": SCHEMA,
        "name": profile.command,
        "exporter": f"steve {version}",
        "activeProfileIndex": 0,
        "shared": {"frames": [frame_entry(profile, number) for number in used]},
    }
    index = {number: str(i) for i, number in enumerate(used)}
    shown = [metric for metric in profile.metrics if profile.column(metric).any()] or METRICS[:1]
    yield json.dumps(head)[:-1] + ', "profiles": ['
    for i, metric in enumerate(shown):
        yield ", " if i else ""
        yield from sampled(profile, metric, index)
    yield "]}\n"
