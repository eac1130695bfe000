"""pprof's profile.proto, gzipped: for `go tool pprof` and other programs that read its files.

The message has 14 fields of two wire types, few enough to write them without a protobuf library. The sample types
are those of Go's heap profiles (alloc_objects, alloc_space, inuse_objects, inuse_space) and the other metrics of the
profile. There are no mappings, since everything is symbolised.
https://github.com/google/pprof/blob/main/proto/profile.proto

SPDX-License-Identifier: GPL-2.0-or-later
"""
import zlib
from functools import lru_cache
from collections.abc import Iterable, Iterator

from steve.export.profile import Profile
from steve.trace.frames import function_label

# field numbers of message Profile
SAMPLE_TYPE, SAMPLE, LOCATION, FUNCTION, STRING, DURATION, COMMENT, DEFAULT = 1, 2, 4, 5, 6, 10, 13, 14
MAX_INT64 = 2**63 - 1


@lru_cache(maxsize=1 << 16)
def varint(value: int) -> bytes:
    """A number, encoded as a varint; a negative one as its 64-bit two's complement."""
    data, value = bytearray(), value & 2**64 - 1
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
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
    """A repeated field of numbers, packed."""
    return block(field, b"".join([varint(min(value, MAX_INT64)) for value in values]))


class Encoder:
    """Encodes one profile. Strings and functions get their numbers at first use."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _function(self, name: str, file: str) -> bytes:
        """Number and encode a function that is used for the first time."""
        self._functions[name, file] = len(self._functions) + 1
        text = self._string(name)
        return block(
            FUNCTION,
            number(1, self._functions[name, file]) + number(2, text) + number(3, text) + number(4, self._string(file)),
        )

    def _line(self, frame_id: int) -> tuple[bytes, bytes]:
        """A line of a location, and the function that has to precede it if it is new."""
        frame = self.profile.frame(frame_id) if frame_id else None
        name = "(no stack)" if frame is None else function_label(frame)
        key, new = (name, frame.file if frame else ""), b""
        if key not in self._functions:
            new = self._function(*key)
        return number(1, self._functions[key]) + number(2, frame.line if frame else 0), new

    def _location(self, place: tuple[int, ...], location: int) -> Iterator[bytes]:
        """A location, preceded by its functions if they are new. place: its frames, those of inlined functions
        first."""
        frame, lines = self.profile.frame(place[-1]) if place[-1] else None, []
        for frame_id in place:
            line, new = self._line(frame_id)
            lines.append(block(4, line))
            yield new
        yield block(LOCATION, number(1, location) + number(3, frame.ip if frame else 0) + b"".join(lines))

    def encode(self) -> Iterator[bytes]:
        """The message, in pieces."""
        for metric in self.profile.metrics:
            kind = number(1, self._string(metric.name)) + number(2, self._string(metric.unit))
            yield block(SAMPLE_TYPE, kind)
        locations: dict[tuple[int, ...], int] = {}
        for sample in self.profile.samples():
            places = self.profile.shown.places(self.profile.frames(sample.stack))
            ids = [varint(locations.setdefault(place, len(locations) + 1)) for place in places]
            yield block(SAMPLE, block(1, b"".join(ids)) + packed(2, sample.values))
        for place, location in locations.items():
            yield from self._location(place, location)
        yield number(COMMENT, self._string(self.profile.command))
        yield number(DURATION, self.profile.nanoseconds)
        yield number(DEFAULT, self._string(self.profile.default))
        for text in self._strings:
            yield block(STRING, text.encode("utf-8", "surrogateescape"))


ENOUGH = 1 << 20  # bytes to gather before they are compressed


def pprof(profile: Profile) -> Iterator[bytes]:
    """The whole file, in pieces. Equal profiles give equal bytes."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)  # 16: a gzip header, which has no time stamp here
    gathered = bytearray()
    for piece in Encoder(profile).encode():
        gathered += piece
        if len(gathered) >= ENOUGH:
            yield packer.compress(gathered)
            gathered.clear()
    yield packer.compress(gathered) + packer.flush()
