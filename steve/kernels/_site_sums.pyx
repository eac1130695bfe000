# cython: language_level=3, boundscheck=False
"""Sums of lives that the rules of `steve findings` need: what they find in blocks, what a site does in the whole run, and
what it freed.

    found = Findings(limits)
    for batch in lives.batches():
        found.add(batch)
    keys, rows = found.table()

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from steve.kernels._lives cimport groups_key, TakesLives
from steve.kernels.ckernels cimport keyed_rows, life
from steve.kernels.records cimport data_of, enough, view_of

from steve.kernels._lives import KEYS
from steve.kernels._sums import chosen, dtype_of, variances_of

# -- Blocks that deserve a look. -----------------------------------------------------------------------------

cdef extern from "steve/kernels/lives/findings.h" nogil:
    enum: FINDINGS_RULES
    struct findings_limits:
        double early, late, idle, utilisation
        uint64_t short_life, min_life, chain, min_size
    enum findings_rule:
        pass
    struct finding:
        pass
    struct finding_variances:
        pass
    struct findings_of_rule:
        finding *rows
        keyed_rows of_keys
        finding_variances *variances
        size_t variances_room
    struct findings_t "findings":
        findings_of_rule of[FINDINGS_RULES]
        uint64_t bytes
    void findings_init(findings_t *f, const findings_limits *limits, groups_key key)
    void findings_free(findings_t *f)
    bint findings_add(findings_t *f, const life *lives, const uint8_t *keep, size_t n)
    bint findings_merge(findings_t *f, findings_rule rule, const uint32_t *keys, const finding *rows, size_t n)

FOUND, VARIANCES = dtype_of("finding"), variances_of("finding")


cdef class Findings(TakesLives):
    """A steve.analysis.folds.Fold: what the rules of steve/kernels/lives/findings.h find, by a key of
    Groups. limits: a dict with the fields of struct findings_limits."""
    cdef findings_t f
    needs_operation_numbers = False

    def __cinit__(self, limits, str key="stack"):
        cdef findings_limits numbers = limits
        findings_init(&self.f, &numbers, KEYS[key])

    def __dealloc__(self):
        findings_free(&self.f)

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil:
        return findings_add(&self.f, lives, keep, n)

    def partial(self, uint64_t peak):
        """(bytes of all blocks examined, table()), for merge()."""
        return self.f.bytes, self.table()

    def merge(self, shard, uint64_t peak):
        """Add the partial() of the next shard."""
        found, table = shard
        self.f.bytes += <uint64_t>found
        for rule, (keys, rows) in enumerate(table):
            enough(findings_merge(&self.f, <findings_rule><int>rule, <const uint32_t *>data_of(keys),
                                  <const finding *>data_of(rows), len(keys)))

    def table(self):
        """By rule: (keys where it finds something, in order, array of FOUND for them)."""
        return [self.of_rule(number, {name: name for name in FOUND.names}) for number in range(FINDINGS_RULES)]

    def of_rule(self, int number, dict columns):
        """What a rule finds: the keys where it finds something, in order, and an array with some columns of FOUND
        and VARIANCES. columns: their names in this array, with those there."""
        cdef findings_of_rule *of = &self.f.of[number]
        keys = view_of(of.of_keys.keys, of.of_keys.n, np.dtype("u4"))
        order = np.argsort(keys, kind="stable")
        found = chosen(columns.values(), view_of(of.rows, of.of_keys.n, FOUND),
                       view_of(of.variances, of.variances_room, VARIANCES), order)
        found.dtype.names = tuple(columns)
        return keys[order], found

    def bytes(self):
        """Bytes of all blocks that were examined."""
        return self.f.bytes


# -- Sums by site. -------------------------------------------------------------------------------------------

cdef extern from "steve/kernels/lives/site_rules.h" nogil:
    enum: SITE_RULES_PARTS
    struct site_rules_limits:
        double capacity
        uint64_t short_life, min_size
    struct site_rules_row:
        pass
    struct site_rules_totals:
        pass
    struct site_rules_kept:
        site_rules_totals totals
        size_t changes
    struct site_rules_part:
        uint64_t collected, news, requested
        int64_t kept
    struct site_rules:
        site_rules_kept *kept
        keyed_rows of_keys
        uint64_t width, last_new
        site_rules_part parts[1]
    void site_rules_init(site_rules *s, const site_rules_limits *limits, groups_key key)
    void site_rules_free(site_rules *s)
    bint site_rules_add(site_rules *s, const life *lives, const uint8_t *keep, size_t n)
    void site_rules_widen(site_rules *s, uint64_t width)
    void site_rules_cover(site_rules *s, uint64_t operations)
    void site_rules_rows(const site_rules *s, const uint32_t *indices, size_t n, site_rules_row *rows)
    bint site_rules_merge(site_rules *s, const uint32_t *keys, const site_rules_row *rows, size_t n,
                          const site_rules_part *parts)

# struct site_rules_row, and struct site_rules_kept; a site_rules_sums is seen as three numbers: blocks, bytes, accesses
TOTALS = [(name, "u8", 3) if isinstance(form, list) else (name, form)
          for name, form in dtype_of("site_rules_totals").descr]
SITE_SUMS = np.dtype(TOTALS + dtype_of("site_rules_changes").descr)
assert SITE_SUMS.itemsize == sizeof(site_rules_row)
KEPT = np.dtype(TOTALS + [("changes", f"u{sizeof(size_t)}")])
assert KEPT.itemsize == sizeof(site_rules_kept)
PART = np.dtype([("collected", "u8"), ("news", "u8"), ("requested", "u8"), ("kept", "i8")])
assert PART.itemsize == sizeof(site_rules_part)


cdef class SiteSums(TakesLives):
    """A steve.analysis.folds.Fold: what the rules about sites need (steve/kernels/lives/site_rules.h), by a key of Groups.
    limits: a dict with the fields of struct site_rules_limits."""
    cdef site_rules s
    needs_operation_numbers = True

    def __cinit__(self, limits, str key="stack"):
        cdef site_rules_limits numbers = limits
        site_rules_init(&self.s, &numbers, KEYS[key])

    def __dealloc__(self):
        site_rules_free(&self.s)

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil:
        return site_rules_add(&self.s, lives, keep, n)

    def partial(self, uint64_t peak):
        """(width of the parts, last_new(), parts(), keys, rows), for merge()."""
        return self.s.width, self.s.last_new, self.parts(), *self.table(0)

    def merge(self, shard, uint64_t peak):
        """Add the partial() of the next shard."""
        cdef SiteSums other = SiteSums({"capacity": 0, "short_life": 0, "min_size": 0})
        width, last_new, parts, keys, rows = shard
        self.s.last_new = max(self.s.last_new, <uint64_t>last_new)
        other.s.width = width
        other.add_rows(keys, rows, parts)
        site_rules_widen(&other.s, self.s.width)
        site_rules_widen(&self.s, width)
        keys, rows = other.table(0)
        self.add_rows(keys, rows, other.parts())

    cdef int add_rows(self, keys, rows, parts) except -1:
        """Add the rows of another object in parts of the same width."""
        return enough(site_rules_merge(&self.s, <const uint32_t *>data_of(keys), <const site_rules_row *>data_of(rows),
                                       len(keys), <const site_rules_part *>data_of(parts)))

    def table(self, uint64_t operations):
        """(keys that occur, in order, array of SITE_SUMS for them), in parts of a run of so many operations."""
        keys = self.keys(operations)
        order = np.argsort(keys, kind="stable")
        return keys[order], self.rows(order)

    def keys(self, uint64_t operations):
        """The keys that occur, in no order and no copy: valid as long as this object does not change. It then is in parts of
        a run of so many operations."""
        site_rules_cover(&self.s, operations)
        return view_of(self.s.of_keys.keys, self.s.of_keys.n, np.dtype("u4"))

    def made(self):
        """The column `made` of the rows of the keys, likewise."""
        return view_of(self.s.kept, self.s.of_keys.n, KEPT)[["made"]]

    def rows(self, indices):
        """An array of SITE_SUMS for some of the keys, which are many bytes each. indices: those of keys()."""
        at, rows = np.require(indices, "u4", "C"), np.zeros(len(indices), SITE_SUMS)
        site_rules_rows(&self.s, <const uint32_t *>data_of(at), len(at), <site_rules_row *>data_of(rows))
        return rows

    def width(self):
        """Operations of a part of the run."""
        return self.s.width

    def last_new(self):
        """The number of the operation of the last New."""
        return self.s.last_new

    def parts(self):
        """By part of the run: its News; of the heap of a garbage collector, the objects that were freed (collected), the bytes
        of the blocks that were made (requested), and by how many bytes what is alive has changed (kept)."""
        return view_of(self.s.parts, SITE_RULES_PARTS, PART).copy()


# -- Ended lives. --------------------------------------------------------------------------------------------

cdef extern from "steve/kernels/lives/ended_lives.h" nogil:
    struct ended_lives_row:
        pass
    struct ended_lives_t "ended_lives":
        ended_lives_row *rows
        keyed_rows of_keys
    void ended_lives_init(ended_lives_t *f, groups_key key)
    void ended_lives_free(ended_lives_t *f)
    bint ended_lives_add(ended_lives_t *f, const life *lives, const uint8_t *keep, size_t n)
    bint ended_lives_merge(ended_lives_t *f, const uint32_t *keys, const ended_lives_row *rows, size_t n,
                            uint64_t peak)
    void ended_lives_settle(ended_lives_t *f, uint64_t peak)

ENDED = dtype_of("ended_lives_row")


cdef class EndedLives(TakesLives):
    """A steve.analysis.folds.Fold: sums of the blocks that this process made and freed
    (steve/kernels/lives/ended_lives.h), by a key of Groups."""
    cdef ended_lives_t f
    needs_operation_numbers = False

    def __cinit__(self, str key="stack"):
        ended_lives_init(&self.f, KEYS[key])

    def __dealloc__(self):
        ended_lives_free(&self.f)

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) noexcept nogil:
        return ended_lives_add(&self.f, lives, keep, n)

    def partial(self, uint64_t peak):
        """(keys, rows), for merge(): the result of table()."""
        return self.table(peak)

    def merge(self, shard, uint64_t peak):
        """Add the partial() of the next shard. peak: of WholeLives.merge()."""
        keys, rows = shard
        enough(ended_lives_merge(&self.f, <const uint32_t *>data_of(keys), <const ended_lives_row *>data_of(rows),
                                  len(keys), peak))

    def table(self, uint64_t peak):
        """(keys that occur, in order, array of ENDED for them). peak: the number of the last peak of the heap, from
        Lives.totals()."""
        ended_lives_settle(&self.f, peak)
        keys = view_of(self.f.of_keys.keys, self.f.of_keys.n, np.dtype("u4"))
        order = np.argsort(keys, kind="stable")
        return keys[order], view_of(self.f.rows, self.f.of_keys.n, ENDED)[order]
