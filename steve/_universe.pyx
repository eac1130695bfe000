# cython: language_level=3, boundscheck=False, wraparound=False
"""Graph algorithms on snapshots: what reaches an object, what only it keeps alive.

Objects count from 0 to n - 1; links are two arrays of numbers below n. Everything is iterative, so that long
chains of objects need no deep stack. Dominators: K. D. Cooper, T. J. Harvey, K. Kennedy, "A Simple, Fast
Dominance Algorithm" (2001), with a node n in front of all roots.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport int64_t, uint32_t, uint64_t


def neighbours(Py_ssize_t n, source, target):
    """(starts, ends' numbers, link numbers): the links of object i are starts[i] to starts[i + 1] - 1."""
    order = np.argsort(source, kind="stable")
    starts = np.zeros(n + 2, np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=starts[1:n + 1])
    starts[n + 1] = len(source)
    return starts, np.ascontiguousarray(np.asarray(target)[order], dtype=np.int64), order.astype(np.int64)


def shortest(Py_ssize_t n, source, target, roots):
    """The link by which each object is first reached from the roots, breadth first: -1 of roots, -2 of what is
    not reached."""
    cdef int64_t[::1] starts, ends, links
    via_array = np.full(n, -2, np.int64)
    queue_array = np.empty(max(n, 1), np.int64)
    cdef int64_t[::1] via = via_array, queue = queue_array
    cdef Py_ssize_t head = 0, tail = 0, i
    cdef int64_t at
    starts, ends, links = neighbours(n, source, target)
    for root in roots:
        if via[root] == -2:
            via[root] = -1
            queue[tail] = root
            tail += 1
    while head < tail:
        at = queue[head]
        head += 1
        for i in range(starts[at], starts[at + 1]):
            if via[ends[i]] == -2:
                via[ends[i]] = links[i]
                queue[tail] = ends[i]
                tail += 1
    return via_array


cdef Py_ssize_t depth_first(Py_ssize_t n, int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] post,
                            int64_t[::1] order):
    """Postorder from node n: post[node] = its number or -1, order[number] = node; how many are reached."""
    stack_array, next_array = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    cdef int64_t[::1] stack = stack_array, at = next_array
    cdef Py_ssize_t depth = 1, count = 0
    cdef int64_t node, child
    stack[0] = n
    at[0] = starts[n]
    post[n] = -2
    while depth:
        node = stack[depth - 1]
        if at[depth - 1] < starts[node + 1]:
            child = ends[at[depth - 1]]
            at[depth - 1] += 1
            if post[child] == -1:
                post[child] = -2
                stack[depth] = child
                at[depth] = starts[child]
                depth += 1
        else:
            post[node] = count
            order[count] = node
            count += 1
            depth -= 1
    return count


cdef int64_t meet(int64_t a, int64_t b, int64_t[::1] idom):
    """The nearest common dominator, in postorder numbers."""
    while a != b:
        while a < b:
            a = idom[a]
        while b < a:
            b = idom[b]
    return a


def dominators(Py_ssize_t n, source, target, roots):
    """(immediate dominator of each object, objects in an order in which none comes before what it dominates).

    The dominator is the number of an object, n if only the roots as a whole dominate it, -1 if it is not
    reached. Objects not reached are not in the order."""
    cdef int64_t[::1] starts, ends, back, sources, links
    roots = np.asarray(roots, np.int64)
    source = np.concatenate([np.asarray(source, np.int64), np.full(len(roots), n, np.int64)])
    target = np.concatenate([np.asarray(target, np.int64), roots])
    starts, ends, links = neighbours(n + 1, source, target)
    back, sources, links = neighbours(n + 1, target, source)
    post_array, order_array = np.full(n + 1, -1, np.int64), np.empty(n + 1, np.int64)
    cdef int64_t[::1] post = post_array, order = order_array
    cdef Py_ssize_t count = depth_first(n, starts, ends, post, order)
    idom_array = np.full(count, -1, np.int64)
    cdef int64_t[::1] idom = idom_array
    cdef Py_ssize_t number, i
    cdef int64_t node, before, new
    cdef bint changed = True
    idom[count - 1] = count - 1
    while changed:
        changed = False
        for number in range(count - 2, -1, -1):
            node = order[number]
            new = -1
            for i in range(back[node], back[node + 1]):
                before = post[sources[i]]
                if before >= 0 and idom[before] >= 0:
                    new = before if new < 0 else meet(before, new, idom)
            if idom[number] != new:
                idom[number] = new
                changed = True
    result = np.full(n + 1, -1, np.int64)
    result[order_array[:count]] = order_array[idom_array]
    return result[:n], order_array[:count - 1]


def retained(sizes, dominator, order):
    """Bytes that go when an object goes: its own and those of all it dominates; 0 of what is not reached."""
    total_array = np.zeros(len(sizes) + 1, np.uint64)
    cdef uint64_t[::1] total = total_array
    cdef uint64_t[::1] own = np.ascontiguousarray(sizes, np.uint64)
    cdef int64_t[::1] over = np.ascontiguousarray(dominator, np.int64)
    cdef int64_t[::1] walk = np.ascontiguousarray(order, np.int64)
    cdef Py_ssize_t i
    cdef int64_t node
    for i in range(len(walk)):
        node = walk[i]
        total[node] += own[node]
        total[over[node]] += total[node]
    return total_array[:len(sizes)]
