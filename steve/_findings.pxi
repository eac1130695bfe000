# _findings.pxi - the part of _lives.pyx that finds blocks that deserve a look; steve.commands.findings asks for it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

cdef extern from "steve/kernels/findings.h" nogil:
    enum: FINDINGS_RULES
    struct findings_limits:
        double early, late, idle, utilisation
        uint64_t short_life, min_life, chain, min_size
    struct findings_row:
        pass
    struct findings_t "findings":
        findings_row *rows
        size_t n
        uint64_t bytes
    void findings_init(findings_t *f, const findings_limits *limits)
    void findings_free(findings_t *f)
    bint findings_add(findings_t *f, const life *lives, const uint8_t *keep, size_t n)
    bint findings_merge(findings_t *f, const uint32_t *stacks, const findings_row *rows, size_t n)

FOUND = np.dtype([("blocks", "u8", FINDINGS_RULES), ("bytes", "u8", FINDINGS_RULES)])
assert FOUND.itemsize == sizeof(findings_row)


cdef class Findings(TakesLives):
    """A steve.folds.Fold: what the rules of steve/kernels/findings.h find, by stack. limits: a dict with the fields of
    struct findings_limits."""
    cdef findings_t f
    numbered = False

    def __cinit__(self, limits):
        cdef findings_limits numbers = limits
        findings_init(&self.f, &numbers)

    def __dealloc__(self):
        findings_free(&self.f)

    cdef bint take(self, const life *lives, const uint8_t *keep, size_t n) nogil:
        return findings_add(&self.f, lives, keep, n)

    def part(self, uint64_t peak):
        """(bytes looked at, stacks, their rows), for join()."""
        rows = self.rows()
        stacks = np.flatnonzero(rows["blocks"].any(axis=1)).astype("u4")
        return self.f.bytes, stacks, rows[stacks]

    def join(self, part, uint64_t peak):
        """Add the part() of another part of the trace."""
        cdef const uint32_t[::1] stacks
        cdef const uint8_t[::1] raw
        cdef size_t n = len(part[1])
        self.f.bytes += <uint64_t>part[0]
        if n == 0:
            return
        stacks, raw = part[1], np.ascontiguousarray(part[2]).view(np.uint8)
        if not findings_merge(&self.f, &stacks[0], <const findings_row *>&raw[0], n):
            raise MemoryError

    def rows(self):
        """An array of FOUND by stack."""
        return view_of(self.f.rows, self.f.n, FOUND).copy()

    def bytes(self):
        """Bytes of all blocks that were looked at."""
        return self.f.bytes
