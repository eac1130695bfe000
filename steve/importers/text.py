"""The lines of a recording, plain or compressed with gzip or zstd, and the beginning by which its format is known.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from steve.system.errors import SteveError

PIECE = 1 << 20  # bytes that are read at a time
LONGEST = 1 << 20  # of a line
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Lines:
    """Iterates over the lines of a file, as bytes without their line breaks; "-": standard input.

    name: in messages. number: of the line that was delivered last, from 1. truncated: the file ends within a compressed
    frame or a line."""

    def __init__(self, path: str) -> None:
        self.path, self.name = path, "standard input" if path == "-" else path
        self.number = 0
        self.truncated = False
        self._file: BinaryIO = sys.stdin.buffer if path == "-" else open(path, "rb")
        self._rest = b""
        self._ended: Callable[[], bool] = lambda: True  # has the compressed stream come to its end?
        self._pieces = self._unpacked()

    def peek(self) -> list[bytes]:
        """The first lines, which are delivered later, too."""
        while self._rest.count(b"\n") < 64 and len(self._rest) < PIECE:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        return self._rest.split(b"\n")[:64]

    def read_bytes(self) -> tuple[int, int]:
        """How much was read, of how much; 0: unknown."""
        if self.path == "-":
            return 0, 0
        at = self._file.tell()
        size = self._file.seek(0, 2)
        self._file.seek(at)
        return at, size

    def __iter__(self) -> Iterator[bytes]:
        rest, self._rest = self._rest, b""
        more = True
        while more:
            lines = rest.split(b"\n")
            rest = lines.pop()
            for line in lines:
                self.number += 1
                yield line
            if len(rest) > LONGEST:
                raise self.wrong("the line is too long")
            piece = next(self._pieces, b"")
            more = bool(piece)
            rest += piece
        self.truncated = bool(rest) or not self._ended()
        if rest:
            self.number += 1
            yield rest

    def wrong(self, message: str) -> SteveError:
        """The error that something is wrong in the line that was delivered last."""
        return SteveError(f"{self.name}: line {self.number}: {message}")

    def _unpacked(self) -> Iterator[bytes]:
        """The contents, decompressed, in pieces that are not empty."""
        first = self._file.read(PIECE)
        unpack = self._unpacker(first)
        data = first
        while data:
            try:
                piece = unpack(data)
            except (ValueError, zlib.error):
                raise SteveError(f"{self.name}: is damaged: it cannot be decompressed") from None
            if piece:
                yield piece
            data = self._file.read(PIECE)

    def _unpacker(self, first: bytes) -> Callable[[bytes], bytes]:
        if first.startswith(GZIP):
            gzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
            self._ended = lambda: gzip.eof
            return gzip.decompress
        if first.startswith(ZSTD):
            from steve.importers._writer import Zstd

            zstd = Zstd()
            self._ended = lambda: zstd.ended
            return zstd.decompress
        return lambda data: data
