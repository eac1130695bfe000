"""Which paths grew between two snapshots: `local cache (app.lua:3) -> [string] -> tab`.

Each object belongs to the group of its place: the object from which a shortest path reaches it, the kind of that link and
its key, unless it is one of many, and its type and name. A group that has new objects, and whose objects retain more
than before, has grown. So what a program replaces all the time, as in a cache of fixed size, is no growth. Groups
whose paths look the same once keys that vary are left out are one row. The keys of the registry, of the loaded modules
and of the globals are names of the program: they stay, however many there are, unless they are what grew.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from steve.snapshots.diff import keys
from steve.snapshots.graph import ARRAY, KEY, STACK, STRINGS, UPVALUE, VALUE, Universe
from steve.terminal.tables import printable

MANY = 8  # an object with so many links of a kind is a collection: their keys vary
# what stands for a key that varies, by the key as text
VARYING = ((r"\[-?\d", "[number]"), (r"\[(true|false)\]", "[boolean]"), (r"<", "[object]"), (r"", "[string]"))
NAMED = ("registry", "_G")  # tables whose keys are names, by the names that the recorder gives them
MODULES = "_LOADED"  # the table of loaded modules, in the registry
LONG = {"tab": "table", "func": "function", "str": "string", "udata": "userdata"}
MOST_STEPS = 8  # of the way to what holds an object
MOST_GROUPS = 5000  # so many groups that grew most get paths


class Group(NamedTuple):
    """members: the numbers of the objects; retained: the sum of what they retain, in bytes."""

    members: np.ndarray
    retained: int


# the address and type of the parent, as one number, the kind of the link and its name, and the type and name
Place = tuple[int, int, str, str, str]


class Places:
    """The objects of a snapshot by their places.

    linked: the objects that a link reaches first; link, parent: by object, that link, and the number of the object before it
    on the shortest path; -1 if it is not in `linked`."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.linked = np.flatnonzero(universe.via >= 0)
        self.link = np.full(len(universe.objects), -1, np.int64)
        self.parent = np.full(len(universe.objects), -1, np.int64)
        self.link[self.linked] = universe.strong[universe.via[self.linked]]
        self._from = np.ascontiguousarray(universe.links["from"])
        self.parent[self.linked] = self._from[self.link[self.linked]]
        # nearly always they are in order already, since a recorder writes the links of one object after the other
        order = None if (self._from[1:] >= self._from[:-1]).all() else np.argsort(self._from, kind="stable")
        self._from = self._from if order is None else self._from[order]
        self._kind = universe.links["kind"] if order is None else universe.links["kind"][order]
        self._collections: dict[tuple[int, int], bool] = {}
        self._of_names = self._tables_of_names()

    def _tables_of_names(self) -> frozenset[int]:
        """The numbers of the tables whose keys are names."""
        universe = self.universe
        tables = np.flatnonzero(universe.objects["type"] == universe.type_names.index("tab"))
        names = universe.objects["name"][tables]
        wanted = [number for number in np.unique(names).tolist() if universe.trace.string(number) in NAMED]
        found = {int(number) for number in tables[np.isin(names, wanted)]}
        links = universe.links
        inside = np.flatnonzero(np.isin(links["from"], list(found)) & (links["kind"] == VALUE))
        modules = [n for n in inside.tolist() if universe.trace.string(int(links["name"][n])) == MODULES]
        return frozenset(found.union(int(links["to"][n]) for n in modules))

    def groups(self, parents: np.ndarray) -> dict[Place, Group]:
        """The groups of the objects whose parents have these keys."""
        universe = self.universe
        wanted = np.flatnonzero(np.isin(keys(universe), parents))
        is_wanted = np.zeros(len(universe.objects), bool)
        is_wanted[wanted] = True
        at = self.linked[is_wanted[self.parent[self.linked]]]
        links = universe.links[self.link[at]]
        columns = [
            column.astype(np.uint64)
            for column in (
                keys(universe)[self.parent[at]],
                links["kind"],
                np.where(self._are_single(at, links), links["name"], 0),
                universe.objects["type"][at],
                universe.objects["name"][at],
            )
        ]
        order = np.lexsort(columns)
        rows = np.stack([column[order] for column in columns], axis=1)
        first = np.flatnonzero(np.concatenate([[len(rows) > 0], (rows[1:] != rows[:-1]).any(axis=1)])[: len(rows)])
        found: dict[Place, Group] = {}
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(rows)]):
            parent, kind, key, number, name = rows[begin].tolist()
            members = at[order[begin:end]]
            text = universe.trace.string(key) if kind in STRINGS else str(key)
            place = (parent, kind, text, universe.type_names[number], universe.trace.string(name))
            found[place] = Group(members, int(universe.retained[members].sum()))
        return found

    def _are_single(self, at: np.ndarray, links: np.ndarray) -> np.ndarray:
        """Of which of these objects does the key of the link say something? links: those that lead to them."""
        pairs, which = np.unique(self.parent[at] << 8 | links["kind"], return_inverse=True)
        single = [not self.is_collection(pair >> 8, pair & 0xFF) for pair in pairs.tolist()]
        return np.array(single, bool)[which] | (links["kind"] == STACK)

    def is_collection(self, number: int, kind: int) -> bool:
        """Has an object many links of this kind?"""
        if (number, kind) not in self._collections:
            low, high = np.searchsorted(self._from, np.array([number, number + 1], self._from.dtype))
            self._collections[number, kind] = bool(np.count_nonzero(self._kind[low:high] == kind) >= MANY)
        return self._collections[number, kind]

    def path(self, number: int) -> str:
        """The path to an object, with keys of collections left out."""
        universe, parts = self.universe, []
        steps = universe.path(number)
        if not steps:
            return "(not reached)"
        root = steps[0][0]
        for n, ((before, _), (_, link)) in enumerate(zip(steps, steps[1:]), 2):
            parts.append(self._step(before, link, n == len(steps)))
        if len(steps) == 1 or not parts[0].startswith("local "):
            parts.insert(0, _type(universe, root))
        last = universe.type_name(number)
        parts = [part for part in parts if part]
        return " -> ".join(parts + ([_type(universe, number)] if len(steps) > 1 and last != "upval" else []))

    def _step(self, before: int, link: int, is_last: bool) -> str:
        """A link of the path as text; "" for one that says nothing, from an upvalue to its value."""
        universe = self.universe
        text, kind = universe.link_text(link), int(universe.links["kind"][link])
        if kind in (VALUE, ARRAY) and (is_last or not self._is_name(before, link)) and self.is_collection(before, kind):
            return next(shown for pattern, shown in VARYING if re.match(pattern, text))
        if kind == KEY:
            return "key"
        if kind == UPVALUE:
            return "" if universe.type_name(before) == "upval" else f"upvalue {text.lstrip('.<').rstrip('>')}"
        return text

    def _is_name(self, before: int, link: int) -> bool:
        """Is the key of a link that leaves an object a name of the program?"""
        of_string = re.match(r"\.|\[\"", self.universe.link_text(link)) is not None
        return before in self._of_names and self.universe.links["kind"][link] == VALUE and of_string

    def holders(self) -> np.ndarray:
        """By object, the number of the one that holds it: on the way from the root, the first collection whose keys
        are no names; without one, the object before it, or of a long way the one after MOST_STEPS steps. A root holds
        itself; -1: it is not reached."""
        via = self.universe.via
        found = np.where(via == -1, np.arange(len(via)), -1)
        known, is_final = via == -1, np.zeros(len(via), bool)
        varies = self._varying()
        for step in range(1, MOST_STEPS + 1):
            level = self.linked[known[self.parent[self.linked]] & ~known[self.linked]]
            parents = self.parent[level]
            found[level] = np.where(is_final[parents], found[parents], parents)
            is_final[level] = is_final[parents] | varies[level] | (step == MOST_STEPS)
            known[level] = True
        above, left = self.parent.copy(), np.flatnonzero((via >= 0) & ~known)
        while len(left):  # what is further away has the holder of what is before it; each round doubles the way
            is_near = known[above[left]]
            near, left = left[is_near], left[~is_near]
            found[near] = found[above[near]]
            above[left] = above[above[left]]
            known[near] = True
        return found

    def _varying(self) -> np.ndarray:
        """Of which objects is the key of the link that reaches them one of many, and no name?"""
        links, at = self.universe.links, self.linked
        pairs = links["from"].astype(np.uint64) << np.uint64(8) | links["kind"]
        _, which, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        reached_by = self.link[at]
        varies = np.isin(links["kind"][reached_by], (VALUE, ARRAY, KEY)) & (counts[which[reached_by]] >= MANY)
        for n in np.flatnonzero(varies & np.isin(self.parent[at], list(self._of_names))).tolist():
            varies[n] = not self._is_name(int(self.parent[at[n]]), int(reached_by[n]))
        found = np.zeros(len(self.link), bool)
        found[at] = varies
        return found

    def holder_text(self, number: int) -> str:
        """The way to an object that holds others: `registry._LOADED.sessions.active`, `local cache (app.lua:3)`."""
        universe = self.universe
        steps = universe.path(number)
        parts = [self._step(before, link, False) for (before, _), (_, link) in zip(steps, steps[1:])]
        if not parts or not parts[0].startswith("local "):
            root = steps[0][0] if steps else number
            parts.insert(0, printable(universe.name(root)) or _type(universe, root))
        return "".join(
            part if n == 0 or part[0] in ".[" else f" -> {part}" for n, part in enumerate(filter(None, parts))
        )


def _type(universe: Universe, number: int) -> str:
    """The type of an object, and its name if it has one."""
    kind, name = universe.type_name(number), universe.name(number)
    return f"{LONG.get(kind, kind)} {printable(name)}" if name else LONG.get(kind, kind)


def grown_paths(before: Universe, after: Universe) -> list[dict]:
    """A row for each path that grew, the largest growth first: more_bytes, more_objects, the bytes that its objects retain
    now, and their number, and path."""
    fresh = ~np.isin(keys(after), keys(before)) & (after.retained > 0)
    now, then = Places(after), Places(before)
    news = now.linked[fresh[now.linked]]
    parents = np.unique(keys(after)[now.parent[news[~fresh[now.parent[news]]]]])
    old, rows = then.groups(parents), []
    for place, group in now.groups(parents).items():
        was = old.get(place)
        more = group.retained - (was.retained if was else 0)
        if more > 0 and fresh[group.members].any():
            rows.append((more, len(group.members) - (len(was.members) if was else 0), group))
    rows.sort(key=lambda row: -row[0])
    found: dict[str, dict] = {}
    for more, objects, group in rows[:MOST_GROUPS]:
        one = int(group.members[fresh[group.members]][0])
        row = found.setdefault(
            path := now.path(one), {"more_bytes": 0, "more_objects": 0, "bytes": 0, "objects": 0, "path": path}
        )
        row["more_bytes"] += more
        row["more_objects"] += objects
        row["bytes"] += group.retained
        row["objects"] += len(group.members)
    return sorted(found.values(), key=lambda row: (-row["more_bytes"], row["path"]))
