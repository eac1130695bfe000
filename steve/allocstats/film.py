"""Properties of a film: number of frames, duration and size, measured by ffprobe.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from steve.system.errors import SteveError


def probe(film: str) -> dict[str, Any]:
    """Measure a film: a dict with frames (int), seconds (float), width and height (int, pixels).

    SteveError if the file is not a film or if ffprobe is not installed."""
    if shutil.which("ffprobe") is None:
        raise SteveError("ffprobe: no such program; install the package ffmpeg")
    fields = "stream=width,height,nb_read_packets:format=duration"
    result = subprocess.run(
        [
            "ffprobe",
            "-v",
            "error",
            "-count_packets",
            "-select_streams",
            "v:0",
            "-show_entries",
            fields,
            "-of",
            "json",
            film,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        answer = json.loads(result.stdout)
        stream = answer["streams"][0]
        return {
            "frames": int(stream["nb_read_packets"]),
            "seconds": float(answer["format"]["duration"]),
            "width": int(stream["width"]),
            "height": int(stream["height"]),
        }
    except (ValueError, KeyError, IndexError):
        raise SteveError(f"{film}: ffprobe cannot read it: {result.stderr.strip()[:200]}") from None
