"""Which paths grew between two snapshots: `local cache (app.lua:3) -> [string] -> tab`.

Each object belongs to the group of its place: the object from which a shortest path reaches it, the kind of that link and
its key, unless it is one of many, and its type and name. An object that only one of the snapshots has is itself known by
its place, so what a new list holds belongs together with what the list that it replaced held.

A group grew by the bytes that are new, less those that are gone, of what its objects retain. If that is more than 0, and it
has new objects, it is shown. So what a program replaces all the time, as in a cache of fixed size, is no growth, nor is what
another object holds now. Each new object is in a group, or retained by one that is. A group may contain what another one
retains. An old object that became larger itself, as a list that needs a larger array, counts with its own size: in such a
group, or with the others of its place.
Groups whose paths look the same once keys that vary are left out are one row. The keys of the registry, of the loaded modules
and of the globals are names of the program: they stay, however many there are, unless many of a table are new.

SPDX-License-Identifier: GPL-2.0-or-later
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

import numpy as np

from steve.snapshots.diff import twins
from steve.snapshots.graph import ARRAY, KEY, STACK, STRINGS, UPVALUE, VALUE, Universe
from steve.terminal.tables import printable

MANY = 8  # an object with so many links of a kind is a collection: their keys vary
# what stands for a key that varies, by the key as text
VARYING = (
    (r"\[(-?\d|number\])", "[number]"),
    (r"\[(true|false)\]", "[boolean]"),
    (r"<", "[object]"),
    (r"", "[string]"),
)
NAMED = ("registry", "_G")  # tables whose keys are names, by the names that the recorder gives them
MODULES = "_LOADED"  # the table of loaded modules, in the registry
BEGINS = re.compile(r":\d+(#\d+)?$")  # the end of a function's name that says where it begins
LONG = {"tab": "table", "func": "function", "str": "string", "udata": "userdata"}
MOST_STEPS = 8  # of the way to what holds an object
MOST_GROUPS = 5000  # so many groups that grew most get paths


# the number of the parent's identity, the kind of the link and its name, and the type and name
Place = tuple[int, int, str, str, str]
FIRST_OF_PLACES = 1 << 63  # from here on, identities are numbers of places; below, they are Universe.identity


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
        self._no_names: frozenset[int] = frozenset()

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

    def compare_names(self, other: Places) -> None:
        """Treat keys that only this one of two snapshots has as no names, if a table has many of them."""
        alike = dict(zip(other.universe.identity[list(other._of_names)].tolist(), other._of_names))
        found: set[int] = set()
        for number in self._of_names:
            twin = alike.get(int(self.universe.identity[number]))
            if twin is not None:
                known = other._values(twin)
                news = [link for text, link in self._values(number).items() if text not in known]
                found.update(news if len(news) >= MANY else ())
        self._no_names = frozenset(found)

    def _values(self, number: int) -> dict[str, int]:
        """The links to the values of a table by their keys, of those that are not in its array."""
        links = self.universe.links
        inside = np.flatnonzero((links["from"] == number) & (links["kind"] == VALUE))
        return {self.universe.trace.string(int(links["name"][n])): n for n in inside.tolist()}

    def identify(self, shared: np.ndarray, known: dict[Place, int]) -> np.ndarray:
        """By object that is reached, a number that is the same for its counterpart in the other snapshot: of one that both
        have, Universe.identity; of another one, its place, or if MOST_STEPS objects before it are not in both either,
        that of the last of these. known: the numbers of places, which are added to."""
        found = self.universe.identity.copy()
        via, is_known = self.universe.via, shared.copy()
        roots = np.flatnonzero((via == -1) & ~shared)
        for n in roots.tolist():
            place = (0, 0, "", self.universe.type_name(n), self.universe.name(n))
            found[n] = known.setdefault(place, FIRST_OF_PLACES + len(known))
        is_known[roots] = True
        for _ in range(MOST_STEPS):
            level = self.linked[is_known[self.parent[self.linked]] & ~is_known[self.linked]]
            for place, members in self.by_place(level, found).items():
                found[members] = known.setdefault(place, FIRST_OF_PLACES + len(known))
            is_known[level] = True
        self._from_nearest(found, is_known)
        return found

    def _from_nearest(self, found: np.ndarray, known: np.ndarray) -> None:
        """Give each object that is reached, and is not known, what was found for the nearest one before it that is."""
        above, left = self.parent.copy(), np.flatnonzero((self.universe.via >= 0) & ~known)
        while len(left):  # each round doubles the way
            is_near = known[above[left]]
            near, left = left[is_near], left[~is_near]
            found[near] = found[above[near]]
            above[left] = above[above[left]]
            known[near] = True

    def by_place(self, at: np.ndarray, identity: np.ndarray) -> dict[Place, np.ndarray]:
        """These objects by their places. identity: a number for each object of the snapshot."""
        universe = self.universe
        links = universe.links[self.link[at]]
        columns = [
            column.astype(np.uint64)
            for column in (
                identity[self.parent[at]],
                links["kind"],
                np.where(self._are_single(at, links), links["name"], 0),
                universe.objects["type"][at],
                universe.objects["name"][at],
            )
        ]
        order = np.lexsort(columns)
        rows = np.stack([column[order] for column in columns], axis=1)
        first = np.flatnonzero(np.concatenate([[len(rows) > 0], (rows[1:] != rows[:-1]).any(axis=1)])[: len(rows)])
        found: dict[Place, np.ndarray] = {}
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(rows)]):
            parent, kind, key, number, name = rows[begin].tolist()
            text = universe.trace.string(key) if kind in STRINGS else str(key)
            found[parent, kind, text, universe.type_names[number], universe.trace.string(name)] = at[order[begin:end]]
        return found

    def _are_single(self, at: np.ndarray, links: np.ndarray) -> np.ndarray:
        """Of which of these objects does the key of the link say something? links: those that lead to them."""
        pairs, which = np.unique(self.parent[at] << 8 | links["kind"], return_inverse=True)
        of_few = [not self.is_collection(pair >> 8, pair & 0xFF) for pair in pairs.tolist()]
        single = np.array(of_few, bool)[which] | (links["kind"] == STACK)
        for n in np.flatnonzero(~single & np.isin(self.parent[at], list(self._of_names))).tolist():
            single[n] = self._is_name(int(self.parent[at[n]]), int(self.link[at[n]]))
        return single

    def is_collection(self, number: int, kind: int) -> bool:
        """Has an object many links of this kind?"""
        if (number, kind) not in self._collections:
            low, high = np.searchsorted(self._from, np.array([number, number + 1], self._from.dtype))
            self._collections[number, kind] = bool(np.count_nonzero(self._kind[low:high] == kind) >= MANY)
        return self._collections[number, kind]

    def path(self, number: int) -> str:
        """The path to an object: keys of collections are left out, and so are equal steps, as along a linked list."""
        universe, parts = self.universe, []
        steps = universe.path(number)
        if not steps:
            return "(not reached)"
        root = steps[0][0]
        for (before, _), (_, link) in zip(steps, steps[1:]):
            parts.append(self._step(before, link))
        if len(steps) == 1 or not parts[0].startswith("local "):
            parts.insert(0, _type(universe, root))
        last = universe.type_name(number)
        parts = _folded([part for part in parts if part])
        return " -> ".join(parts + ([_type(universe, number)] if len(steps) > 1 and last != "upval" else []))

    def _step(self, before: int, link: int) -> str:
        """A link of the path as text; "" for one that says nothing, from an upvalue to its value."""
        universe = self.universe
        text, kind = universe.link_text(link), int(universe.links["kind"][link])
        if kind in (VALUE, ARRAY) and not self._is_name(before, link) and self.is_collection(before, kind):
            return next(shown for pattern, shown in VARYING if re.match(pattern, text))
        if kind == KEY:
            return "key"
        if kind == UPVALUE and universe.type_name(before) == "upval":
            return ""
        if kind == UPVALUE:
            return f"upvalue {text.lstrip('.<').rstrip('>')}{_of(universe, before)}"
        return text

    def _is_name(self, before: int, link: int) -> bool:
        """Is the key of a link that leaves an object a name of the program?"""
        of_string = re.match(r"\.|\[\"", self.universe.link_text(link)) is not None
        is_value = self.universe.links["kind"][link] == VALUE
        return before in self._of_names and is_value and of_string and link not in self._no_names

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
        self._from_nearest(found, known)
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
        parts = [self._step(before, link) for (before, _), (_, link) in zip(steps, steps[1:])]
        if not parts or not parts[0].startswith("local "):
            root = steps[0][0] if steps else number
            parts.insert(0, printable(universe.name(root)) or _type(universe, root))
        return "".join(
            part if n == 0 or part[0] in ".[" else f" -> {part}" for n, part in enumerate(filter(None, parts))
        )


def _folded(parts: list[str]) -> list[str]:
    """The steps of a path; of more than two equal ones that follow each other, the first and `...`."""
    runs = [list(run) for _, run in groupby(parts)]
    return [part for run in runs for part in (run if len(run) < 3 else [run[0], "..."])]


def _of(universe: Universe, number: int) -> str:
    """Which function has an upvalue: ` of get app.lua:3`, its name if it is known and where it begins; "" of a function whose
    place is not known, and of a main chunk."""
    name = universe.name(number)
    return f" of {printable(name)}" if BEGINS.search(name) else ""


def _type(universe: Universe, number: int) -> str:
    """The type of an object, and its name if it has one."""
    kind, name = universe.type_name(number), universe.name(number)
    return f"{LONG.get(kind, kind)} {printable(name)}" if name else LONG.get(kind, kind)


class Side:
    """One of the two snapshots, compared with the other.

    By object: shared: has the other one the same object by its identity, both reachable? twin: its number there.
    same: is it the same object, as far as can be known? See compare. changed: the bytes that it retains and that the other
    snapshot lacks. fresh: is it not the same, and is its address new, or that of an object that it retains?
    members: the objects whose groups are of interest: those whose parent is shared, and those that no object retains which
    the other snapshot lacks."""

    def __init__(self, places: Places, other: Universe, known: dict[Place, int]) -> None:
        self.places, self.universe = places, places.universe
        universe = places.universe
        self.twin = twins(other, universe)
        self.shared = self.twin >= 0
        self.identity = self.places.identify(self.shared, known)

    def compare(self, other: Side, is_later: bool) -> None:
        """Find what is the same, and what changed. An object elsewhere may be another one at the address of one that was
        freed. It is the same if it is reached from the same object as before, or refers to the same objects.
        is_later: objects that are the same count with what their sizes grew by."""
        universe, at = self.universe, np.flatnonzero(self.shared)
        other_at = self.twin[at]
        refers, referred = self._references()[at], other._references()[other_at]
        is_same = (self._above()[at] == other._above()[other_at]) | (refers == referred) & (refers != 0)
        self.same = np.zeros(len(universe.objects), bool)
        self.same[at[is_same]] = True
        changed = np.where(universe.retained > 0, universe.objects["size"].astype(np.int64), 0)
        old = other.universe.objects["size"][self.twin[self.same]].astype(np.int64)
        changed[self.same] = changed[self.same] - old if is_later else 0
        self.changed = universe.summed(changed)
        self.fresh = ~self.same & (universe.summed((~self.shared).astype(np.int64)) > 0)
        keeper, linked = universe.keepers, self.places.linked
        is_kept = (keeper >= 0) & ~self.same[keeper]
        parents = self.places.parent[linked]
        self.members = linked[self.same[linked] | self.shared[parents] | ~is_kept[linked]]

    def _above(self) -> np.ndarray:
        """By object, the identity of the one before it; 0: it has none."""
        found = np.zeros(len(self.identity), np.uint64)
        found[self.places.linked] = self.identity[self.places.parent[self.places.linked]]
        return found

    def _references(self) -> np.ndarray:
        """By object, a sum that tells which objects it refers to, without those to which many refer; 0: there are none."""
        links = self.universe.links
        is_rare = np.bincount(links["to"], minlength=len(self.identity))[links["to"]] < MANY
        mixed = self.universe.identity[links["to"]] * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)
        return np.bincount(links["from"], mixed * is_rare, len(self.identity))

    def groups(self, parents: np.ndarray) -> dict[Place, np.ndarray]:
        """The members by place of those whose parents have these identities."""
        wanted = np.isin(self.identity[self.places.parent[self.members]], parents)
        return self.places.by_place(self.members[wanted], self.identity)


def _within(universe: Universe, keepers: np.ndarray) -> np.ndarray:
    """By object: is it one of these, or does one of them retain it?"""
    found, above = np.zeros(len(universe.objects), bool), universe.keepers.copy()
    found[keepers] = True
    while (has := np.flatnonzero(above >= 0)).size:  # each round doubles the way
        found[has] |= found[above[has]]
        above[has] = above[above[has]]
    return found


def _grown_themselves(now: Side, then: Side, counted: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The places of objects of both snapshots that became larger themselves, such as a table with a longer array: by how many
    bytes, and the objects. counted: of these, and what they retain, the sizes are in rows already."""
    at = now.places.linked[now.same[now.places.linked]]
    sizes = now.universe.objects["size"][at].astype(np.int64) - then.universe.objects["size"][now.twin[at]]
    at = at[(sizes != 0) & ~_within(now.universe, counted)[at]]
    for members in now.places.by_place(at, now.identity).values():
        old = then.universe.objects["size"][now.twin[members]].astype(np.int64)
        more = int(now.universe.objects["size"][members].sum()) - int(old.sum())
        if more > 0:
            yield more, members


def grown_paths(before: Universe, after: Universe) -> list[dict]:
    """A row for each path that grew, the largest growth first: more_bytes, more_objects, the bytes that its objects retain
    now, and their number, and path. An object of both snapshots counts with its own size if that grew."""
    known: dict[Place, int] = {}
    old_places, new_places = Places(before), Places(after)
    old_places.compare_names(new_places)
    new_places.compare_names(old_places)
    then, now = Side(old_places, after, known), Side(new_places, before, known)
    then.compare(now, False)
    now.compare(then, True)
    news = now.members[now.fresh[now.members]]
    parents = np.unique(now.identity[now.places.parent[news]])
    old, counted = then.groups(parents), []
    rows: list[tuple[int, int, int, int, int]] = []
    # what an object that is the same has lost counts at its place in the later snapshot
    lost = np.where(now.same, then.changed[now.twin], 0) if len(then.changed) else np.zeros(len(now.same), np.int64)
    for place, members in now.groups(parents).items():
        gone = old.get(place, members[:0])
        gone = gone[~then.same[gone]]
        more = int(now.changed[members].sum() - lost[members].sum() - then.changed[gone].sum())
        news = members[now.fresh[members]]
        if more > 0 and len(news):
            objects = int(np.count_nonzero(~now.same[members])) - len(gone)
            rows.append((more, objects, len(members), int(after.retained[members].sum()), int(news[0])))
            counted.append(members)
    everything = np.concatenate(counted) if counted else news[:0]
    for more, members in _grown_themselves(now, then, everything):
        size = int(after.objects["size"][members].sum())
        rows.append((more, 0, len(members), size, int(members[0])))
    rows.sort(key=lambda row: -row[0])
    found: dict[str, dict] = {}
    for more, more_objects, objects, size, one in rows[:MOST_GROUPS]:
        row = found.setdefault(
            path := now.places.path(one), {"more_bytes": 0, "more_objects": 0, "bytes": 0, "objects": 0, "path": path}
        )
        row["more_bytes"] += more
        row["more_objects"] += more_objects
        row["bytes"] += size
        row["objects"] += objects
    return sorted(found.values(), key=lambda row: (-row["more_bytes"], row["path"]))
