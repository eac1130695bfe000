# _lifetimes.pxi - the part of _kernels.pyx that counts what blocks live through, and writes it; for steve.lifetimes.
#
# SPDX-License-Identifier: GPL-2.0-or-later

LIFETIME = [("handle", "u8"), ("own", "u8"), ("other", "u8")]


cdef object feed_lifetimes(Operations source, lifetimes *l):
    """What lifetimes_of returns."""
    import numpy as np
    cdef const op *ops
    cdef size_t n
    cdef bint ok
    while source.next(&ops, &n):
        with nogil:
            ok = lifetimes_feed(l, ops, n)
        enough(ok)
    lifetimes_finish(l)
    return l.accesses, l.unmatched, records(l.blocks, l.n, np.dtype(LIFETIME))


def lifetimes_of(origin, tick=None):
    """Own and other accesses of each block.

    Returns (accesses, unmatched, array); the array has the fields handle, own, other (u8), one element for
    each block in the order of their N."""
    cdef Operations source = Operations(origin, tick)
    cdef lifetimes l
    enough(lifetimes_init(&l))
    try:
        return feed_lifetimes(source, &l)
    finally:
        lifetimes_free(&l)


cdef size_t rows_left(size_t at, size_t n):
    """How many rows to write until signals are looked at again."""
    return min(n - at, <size_t>1 << 16)


def write_lifetime_pairs(int fd, blocks):
    """Write an array of LIFETIME as the inside of a JSON object, `"HANDLE": [own, other], ...`."""
    cdef textout *out = <textout *>malloc(sizeof(textout))
    cdef const uint8_t[::1] raw = blocks.view("u1")
    cdef size_t n = len(blocks), at = 0, some
    enough(out != NULL)
    try:
        textout_init(out, fd)
        while at < n:
            some = rows_left(at, n)
            PyErr_CheckSignals()
            with nogil:
                lifetext_pairs(out, <const lifetime *>&raw[0] + at, some, at > 0)
            at += some
            system_ok(out.error)
        system_ok(textout_finish(out))
    finally:
        free(out)


def write_lifetime_lines(int fd, blocks, order, *, bint compat, bint macro, uint64_t accesses):
    """Write a line of the first Steve's statistics for each of the numbers `order` (i8) of blocks, an array of
    LIFETIME: its macro or its micro lifetime. compat, accesses: of struct lifetext."""
    cdef lifetext t
    cdef const uint8_t[::1] raw = blocks.view("u1")
    cdef const int64_t[::1] numbers = order
    cdef size_t n = len(order), at = 0, some
    if n == 0:
        return
    t.out = <textout *>malloc(sizeof(textout))
    enough(t.out != NULL)
    t.blocks, t.compat, t.accesses = <const lifetime *>&raw[0], compat, accesses
    t.kind = LIFETEXT_MACRO if macro else LIFETEXT_MICRO
    try:
        textout_init(t.out, fd)
        while at < n:
            some = rows_left(at, n)
            PyErr_CheckSignals()
            with nogil:
                lifetext_lines(&t, &numbers[at], some)
            at += some
            system_ok(t.out.error)
        system_ok(textout_finish(t.out))
    finally:
        free(t.out)
