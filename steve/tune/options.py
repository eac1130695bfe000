"""The options of allocators: which there are, and how a program gets them.

Each allocator has a file `<driver>.toml` in the folder of its driver; docs/writing-a-driver.md explains its form.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from steve.system.errors import SteveError


@dataclass(frozen=True)
class Option:
    """An option of an allocator.

    values: those to try, without the default. timed: its effect depends on how much time passes. threads: it has an
    effect on programs with several threads only. large: it decides what becomes of large blocks that are freed.
    environment: its own variable, "" if the allocator has one for all. call: C code that sets it in the program, "" if
    there is none."""

    name: str
    values: tuple[str, ...]
    default: str
    meaning: str
    timed: bool = False
    threads: bool = False
    large: bool = False
    environment: str = ""
    call: str = ""


@dataclass(frozen=True)
class Allocator:
    """An allocator that a program can be started with. library: to preload, "" for the C library's malloc.

    variable: the environment variable of all options, whose settings `pair` forms and `separator` joins."""

    name: str
    library: str
    package: str
    variable: str
    pair: str
    separator: str
    options: tuple[Option, ...]

    @property
    def returns_later(self) -> bool:
        """Does it return memory after some time? It has an option for that."""
        return any(option.timed for option in self.options)

    def option(self, name: str) -> Option:
        """The option of that name."""
        return next(option for option in self.options if option.name == name)


@dataclass(frozen=True)
class OptionSet:
    """An allocator with options set: pairs of a name and a value, in the order of the table. None set: its
    defaults."""

    allocator: Allocator
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """`jemalloc` or `jemalloc narenas=1 tcache=false`."""
        return " ".join([self.allocator.name, *(f"{name}={value}" for name, value in self.settings)])

    @property
    def is_default(self) -> bool:
        """Are no options set?"""
        return not self.settings

    @property
    def timed(self) -> list[str]:
        """Names of the options set whose effect depends on how much time passes."""
        return [name for name, _ in self.settings if self.allocator.option(name).timed]

    def environment(self) -> dict[str, str]:
        """The environment variables that set the options, without LD_PRELOAD."""
        a = self.allocator
        own = {a.option(name).environment: value for name, value in self.settings if a.option(name).environment}
        pairs = [
            a.pair.format(name=name, value=value) for name, value in self.settings if not a.option(name).environment
        ]
        return {**own, **({a.variable: a.separator.join(pairs)} if pairs else {})}

    def shell(self, environment: dict[str, str] | None = None) -> str:
        """Assignments to write before a command in a shell; "" if none are needed. environment: other variables than those
        of a program about which nothing is known."""
        if environment is None:
            preload = {"LD_PRELOAD": self.allocator.library} if self.allocator.library else {}
            environment = {**preload, **self.environment()}
        return " ".join(f"{key}={shlex.quote(value)}" for key, value in environment.items())

    def calls(self) -> list[str]:
        """C statements that set the same options in the program, as far as there are any."""
        found = [(self.allocator.option(name).call, value) for name, value in self.settings]
        return [call.replace("{value}", value) for call, value in found if call]

    def with_setting(self, name: str, value: str) -> OptionSet:
        """The same with one more setting, in the order of the table."""
        chosen = dict([*self.settings, (name, value)])
        order = [option.name for option in self.allocator.options]
        return OptionSet(self.allocator, tuple((key, chosen[key]) for key in order if key in chosen))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option(path: str, row: dict[str, Any]) -> Option:
    known = {"name", "values", "default", "meaning", "timed", "threads", "large", "environment", "call"}
    if not {"name", "values", "default", "meaning"} <= row.keys() <= known:
        raise SteveError(
            f"{path}: option {row.get('name', '?')}: it has name, values, default, meaning and some of "
            "timed, threads, large, environment, call"
        )
    values = tuple(map(_text, row["values"]))
    return Option(**{**row, "values": values, "default": _text(row["default"])})


def read_table(path: str, name: str) -> Allocator:
    """The allocator `name`, whose options the file describes. SteveError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SteveError(f"{path}: {error}") from None
    rows = table.pop("option", [])
    texts = {key: str(table.get(key, "")) for key in ("library", "package", "variable", "pair", "separator")}
    return Allocator(name=name, **texts, options=tuple(_option(path, row) for row in rows))


def find_tables(drivers: Iterable[dict[str, Any]]) -> list[Allocator]:
    """The allocators that have a table. drivers: what `steve-replay --list --json` prints."""
    found = []
    for driver in drivers:
        path = os.path.splitext(driver["path"])[0] + ".toml"
        if driver["available"] and os.path.exists(path):
            found.append(read_table(path, driver["name"]))
    return found
