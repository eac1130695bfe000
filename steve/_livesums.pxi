# _livesums.pxi - the part of _lives.pyx that adds lives up; steve.folds asks for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef class TakesLives:
    """What adds lives up: add() gives them to take()."""

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) nogil:
        """keep: a byte for each life, or NULL: all. False: out of memory."""
        return False

    def add(self, batch, keep=None):
        """Add a batch of Lives.batches(), or those of it for which the array `keep` is true."""
        cdef const uint8_t[::1] raw, kept
        cdef const uint8_t *keep_at = NULL
        cdef size_t n = len(batch)
        cdef bint ok
        if n == 0:
            return
        raw = batch.view(np.uint8)
        if keep is not None:
            kept = np.ascontiguousarray(keep, bool).view(np.uint8)
            keep_at = &kept[0]
        with nogil:
            ok = self.take(<const life *>&raw[0], keep_at, n)
        if not ok:
            raise MemoryError


cdef class Groups(TakesLives):
    """Sums of lives by "stack", "thread" (of the New), "free_thread" or "type"."""
    cdef groups g

    def __cinit__(self, str key):
        groups_init(&self.g, KEYS[key])

    def __dealloc__(self):
        groups_free(&self.g)

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) nogil:
        return groups_add(&self.g, lives, keep, n)

    def part(self, uint64_t peak):
        """(keys, rows), for join(): what table() gives."""
        return self.table(peak)

    def join(self, part, uint64_t peak):
        """Add the part() of sums over another part of the trace; peak: of WholeLives.add()."""
        cdef const uint32_t[::1] keys
        cdef const uint8_t[::1] raw
        cdef size_t n = len(part[0])
        if n == 0:
            return
        keys, raw = part[0], np.ascontiguousarray(part[1]).view(np.uint8)
        if not groups_merge(&self.g, &keys[0], <const group *>&raw[0], n, peak):
            raise MemoryError

    def table(self, uint64_t peak):
        """(keys that any lives have, in order, array of GROUP for them); peak: the number of the heap's last peak, from
        Lives.totals()."""
        groups_settle(&self.g, peak)
        keys = view_of(self.g.keys, self.g.n, np.dtype("u4"))
        order = np.argsort(keys, kind="stable")
        return keys[order], view_of(self.g.rows, self.g.n, GROUP)[order]

    def rows(self, uint64_t peak):
        """An array of GROUP by key, of all keys up to the last that has lives."""
        keys, rows = self.table(peak)
        found = np.zeros(int(keys[-1]) + 1 if len(keys) else 0, GROUP)
        found[keys] = rows
        return found
