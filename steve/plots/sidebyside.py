"""Join films of several allocators into one, side by side and synchronised.

All tiles show the same operation at the same time, because all films have the same number of operations per frame. A
film that ended early (out of memory) stays on its last picture. ffmpeg joins the films.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import math
import os
import subprocess
from dataclasses import dataclass

from steve.system.errors import SteveError

LEAST_TILE = (320, 200)  # pixels
BACKGROUND = "0x0b0d12"  # that of the films (drivers/film/colours.h)
_CODECS = {
    ".png": ["-frames:v", "1", "-update", "1"],
    ".mp4": ["-c:v", "libx264", "-preset", "veryfast", "-crf", "20"],
    ".mkv": ["-c:v", "libx264", "-preset", "veryfast", "-crf", "20"],
    ".avi": ["-c:v", "mpeg4", "-q:v", "3"],
    ".webm": "-c:v libvpx -threads 1 -deadline realtime -cpu-used -16 -qmin 16 -qmax 30 -b:v 10M".split(),
}


@dataclass(frozen=True)
class Grid:
    """A grid of tiles. width, height: of one tile, in pixels. whole: width and height of the film, in which the tiles
    may leave a margin at the right and below."""

    columns: int
    rows: int
    width: int
    height: int
    whole: tuple[int, int]

    @property
    def size(self) -> str:
        """The size of a tile in the form of steve-replay's option --size."""
        return f"{self.width}x{self.height}"


def plan_grid(tiles: int, width: int, height: int) -> Grid:
    """A grid of `tiles` >= 1 tiles in width x height pixels: three are in one row if it is wide enough, others in as
    many columns as rows, or one more. SteveError if the tiles would be too small."""
    in_one_row = tiles == 3 and width // tiles >= LEAST_TILE[0]
    columns = tiles if in_one_row else math.ceil(math.sqrt(tiles))
    rows = math.ceil(tiles / columns)
    grid = Grid(columns, rows, width // columns // 2 * 2, height // rows // 2 * 2, (width // 2 * 2, height // 2 * 2))
    if grid.width < LEAST_TILE[0] or grid.height < LEAST_TILE[1]:
        least = f"{columns * LEAST_TILE[0]}x{rows * LEAST_TILE[1]}"
        raise SteveError(f"{tiles} films side by side need --size {least} at least")
    return grid


def _filter(grid: Grid, frames: list[int]) -> str:
    """The filter graph for ffmpeg: extend short films by their last picture, then place all films in the grid. frames:
    the number of frames of each film."""
    longest = max(frames)
    held = [
        f"[{i}:v]tpad=stop_mode=clone:stop={longest - n}[t{i}]" if n < longest else f"[{i}:v]null[t{i}]"
        for i, n in enumerate(frames)
    ]
    places = "|".join(f"{i % grid.columns * grid.width}_{i // grid.columns * grid.height}" for i in range(len(frames)))
    inputs = "".join(f"[t{i}]" for i in range(len(frames)))
    stack = f"{inputs}xstack=inputs={len(frames)}:layout={places}:fill={BACKGROUND}"
    # the last row may not be full, and the size not a multiple of that of a tile
    pad = f"pad={grid.whole[0]}:{grid.whole[1]}:color={BACKGROUND}"
    return ";".join([*held, f"{stack},{pad}" if len(frames) > 1 else f"{inputs}{pad}"])


def join_films(films: list[str], frames: list[int], grid: Grid, target: str) -> None:
    """Join films, or pictures (.png), to the file `target`. frames: the number of frames of each film. SteveError if
    ffmpeg fails or the extension of `target` is not supported."""
    codec = _CODECS.get(os.path.splitext(target)[1].lower())
    if codec is None:
        raise SteveError(f"{target}: a film's name must end in .mp4, .mkv, .avi or .webm")
    inputs = [part for film in films for part in ("-i", film)]
    command = [os.environ.get("FFMPEG") or "ffmpeg", "-v", "error", "-y", *inputs]
    pixels = [] if target.lower().endswith(".png") else ["-pix_fmt", "yuv420p"]
    command += ["-filter_complex", _filter(grid, frames), *codec, *pixels, "-an", target]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SteveError(f"cannot run {command[0]}: {error.strerror}; install the package ffmpeg") from None
    if result.returncode != 0:
        raise SteveError(f"{target}: ffmpeg failed: {result.stderr.strip()[:200]}")
