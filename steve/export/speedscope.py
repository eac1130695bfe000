"""speedscope's JSON: one sampled profile for each metric, frames shared. https://www.speedscope.app/file-format-schema.json

SPDX-License-Identifier: GPL-2.0-or-later
"""
from steve.export.profile import METRICS, Metric, Profile
from steve.frames import label

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def frame_entry(profile: Profile, number: int) -> dict:
    """A frame as speedscope describes it."""
    if not number:
        return {"name": "(no stack)"}
    frame = profile.frame(number)
    entry: dict = {"name": frame.function or label(frame)}
    if frame.file:
        entry["file"] = frame.file
    if frame.line:
        entry["line"] = frame.line
    return entry


def sampled(profile: Profile, metric: Metric, index: dict) -> dict:
    """One metric's profile."""
    column = METRICS.index(metric)
    kept = [sample for sample in profile.samples if sample.values[column]]
    weights = [sample.values[column] for sample in kept]
    return {"type": "sampled", "name": metric.name, "unit": "bytes" if metric.unit == "bytes" else "none",
            "startValue": 0, "endValue": sum(weights), "weights": weights,
            "samples": [[index[number] for number in reversed(sample.frames)] for sample in kept]}


def speedscope(profile: Profile, version: str) -> dict:
    """The whole file as an object; metrics without any value are left out."""
    used = profile.used_frames()
    index = {number: i for i, number in enumerate(used)}
    profiles = [sampled(profile, metric, index) for metric in METRICS]
    return {"$schema": SCHEMA, "name": profile.command, "exporter": f"steve {version}",
            "activeProfileIndex": 0, "shared": {"frames": [frame_entry(profile, n) for n in used]},
            "profiles": [one for one in profiles if one["samples"]] or profiles[:1]}
