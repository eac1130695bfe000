# SPDX-License-Identifier: GPL-2.0-or-later
"""A few stills of a heap film for the report, so that the page stays one small file.

ffmpeg cuts them out; they are embedded as JPEG. The film itself is not embedded.
"""
from __future__ import annotations

import base64
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from steve.allocstats.film import probe
from steve.system.errors import SteveError

STILLS, WIDTH = 4, 960  # at less, the texts of a film of 1280 pixels cannot be read


@dataclass(frozen=True)
class Filmstrip:
    """Name of the film, its length in seconds, and (second, data URI) of each still."""

    name: str
    seconds: float
    stills: list[tuple[float, str]]


def _still(film: str, second: float) -> str:
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-ss",
        f"{second:.3f}",
        "-i",
        film,
        "-frames:v",
        "1",
        "-vf",
        f"scale='min({WIDTH},iw)':-2",
        "-q:v",
        "6",
        "-f",
        "mjpeg",
        "-",
    ]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if result.returncode != 0 or not result.stdout:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SteveError(f"{film}: no still at {second:.1f} s: {lines[-1] if lines else 'ffmpeg gave nothing'}")
    return "data:image/jpeg;base64," + base64.b64encode(result.stdout).decode("ascii")


def filmstrip(film: str) -> Filmstrip:
    """Stills evenly over the film. SteveError if it cannot be read or ffmpeg is missing."""
    if not Path(film).is_file():
        raise SteveError(f"{film}: no such film; `steve animate` makes one")
    if shutil.which("ffmpeg") is None:
        raise SteveError("ffmpeg: no such program; install the package ffmpeg, or leave out --film")
    seconds = probe(film)["seconds"]
    times = [seconds * (i + 0.5) / STILLS for i in range(STILLS)]
    return Filmstrip(Path(film).name, seconds, [(time, _still(film, time)) for time in times])
