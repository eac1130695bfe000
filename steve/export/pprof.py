"""pprof's profile.proto, gzipped: for `go tool pprof` and everything that reads its files.

The message has 14 fields of two wire types, so it is written here and not by a library. Sample types are those
of Go's heap profiles (alloc_objects, alloc_space, inuse_objects, inuse_space) and the further METRICS. There
is no mapping: everything is symbolised. https://github.com/google/pprof/blob/main/proto/profile.proto

SPDX-License-Identifier: GPL-2.0-or-later
"""
import gzip
from typing import Dict, Iterable, List, Tuple

from steve.export.profile import METRICS, Profile
from steve.frames import label

# numbers of fields
SAMPLE_TYPE, SAMPLE, LOCATION, FUNCTION, STRING, DURATION, COMMENT, DEFAULT = 1, 2, 4, 5, 6, 10, 13, 14
MAX_INT64 = 2**63 - 1


def varint(value: int) -> bytes:
    """A number, 0 to 2^64 - 1."""
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7f | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def number(field: int, value: int) -> bytes:
    """A field of wire type 0; proto3 leaves out zeros."""
    return varint(field << 3) + varint(min(value, MAX_INT64)) if value else b""


def block(field: int, data: bytes) -> bytes:
    """A field of wire type 2: a message, a string or packed numbers."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def packed(field: int, values: Iterable[int]) -> bytes:
    return block(field, b"".join(varint(min(value, MAX_INT64)) for value in values))


class Encoder:
    """Collects strings and functions as they are first used."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._strings: Dict[str, int] = {"": 0}
        self._functions: Dict[Tuple[str, str], int] = {}
        self._parts: List[bytes] = []

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _function(self, name: str, file: str) -> int:
        key = (name, file)
        if key not in self._functions:
            self._functions[key] = len(self._functions) + 1
            text = self._string(name)
            self._parts.append(block(FUNCTION, number(1, self._functions[key]) + number(2, text)
                                     + number(3, text) + number(4, self._string(file))))
        return self._functions[key]

    def _location(self, frame_id: int) -> bytes:
        """A location's number is its frame's, from 1."""
        frame = self.profile.frame(frame_id) if frame_id else None
        name = "(no stack)" if frame is None else frame.function or label(frame)
        function = self._function(name, frame.file if frame else "")
        line = number(1, function) + number(2, frame.line if frame else 0)
        return block(LOCATION, number(1, frame_id + 1) + number(3, frame.ip if frame else 0) + block(4, line))

    def encode(self) -> bytes:
        """The message."""
        parts = self._parts
        for metric in METRICS:
            kind = number(1, self._string(metric.name)) + number(2, self._string(metric.unit))
            parts.append(block(SAMPLE_TYPE, kind))
        for sample in self.profile.samples:
            locations = packed(1, (frame + 1 for frame in sample.frames))
            parts.append(block(SAMPLE, locations + packed(2, sample.values)))
        parts += map(self._location, self.profile.used_frames())
        parts.append(number(COMMENT, self._string(self.profile.command)))
        parts.append(number(DURATION, self.profile.trace.stats()["nanoseconds"]))
        parts.append(number(DEFAULT, self._string("alloc_space")))
        parts += [block(STRING, text.encode("utf-8", "surrogateescape")) for text in self._strings]
        return b"".join(parts)


def pprof(profile: Profile) -> bytes:
    """The whole file; the same profile gives the same bytes."""
    return gzip.compress(Encoder(profile).encode(), mtime=0)
