"""The keys that a user presses, and what they change.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Callable

from steve.live.view import ROWS, View

ESCAPE, ENTER, ERASE = "\x1b", "\r\n", "\x7f\x08"


class Keyboard:
    """The terminal on a descriptor, with keys that are delivered at once and not shown. `with` restores it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __enter__(self) -> Keyboard:
        self._before = termios.tcgetattr(self.fd)
        tty.setcbreak(self.fd)
        return self

    def __exit__(self, *error: object) -> None:
        termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str | None:
        """The keys that were pressed, "" if there are none after so many seconds; None if the terminal is gone."""
        if not select.select([self.fd], [], [], max(seconds, 0))[0]:
            return ""
        data = os.read(self.fd, 1024)
        return data.decode("utf-8", "replace") if data else None


def pressed(view: View, keys: str) -> View | None:
    """What the user has chosen after some keys; None: to quit."""
    if len(keys) > 1 and keys[0] == ESCAPE:  # a key such as an arrow, which means nothing here
        return view
    for key in keys:
        if view.typed is not None:
            view = typed(view, key)
        elif view.help:
            view = view._replace(help=False)
        elif key == "q":
            return None
        elif key in COMMANDS:
            view = COMMANDS[key](view)
    return view


def typed(view: View, key: str) -> View:
    """A key while a filter is typed."""
    text = view.typed or ""
    if key in ENTER:
        return view._replace(filter=text, typed=None)
    if key == ESCAPE:
        return view._replace(filter="", typed=None)
    if key in ERASE:
        return view._replace(typed=text[:-1])
    return view._replace(typed=text + key) if key.isprintable() else view


def following(names: tuple[str, ...] | list[str], name: str) -> str:
    """The name after a name, the first after the last."""
    return names[(names.index(name) + 1) % len(names)]


COMMANDS: dict[str, Callable[[View], View]] = {
    "s": lambda view: view._replace(sort=following([metric.name for metric in view.metrics()], view.sort)),
    "b": lambda view: view._replace(by=following(ROWS, view.by)),
    "p": lambda view: view._replace(paused=not view.paused),
    "/": lambda view: view._replace(typed=""),
    "h": lambda view: view._replace(help=True),
    "?": lambda view: view._replace(help=True),
    ESCAPE: lambda view: view._replace(filter=""),
}
