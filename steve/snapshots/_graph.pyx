# cython: language_level=3, boundscheck=False, wraparound=False
"""Graph algorithms on snapshots: what reaches an object, what only it keeps alive.

Objects count from 0 to n - 1; links are two arrays of numbers below n. Everything is iterative, so that long
chains of objects need no deep stack. Dominators: T. Lengauer, R. E. Tarjan, "A Fast Algorithm for Finding Dominators
in a Flowgraph" (1979), the simple version, with a node n in front of all roots: m log n steps for n objects and
m links, whatever their shape. (Iterating to a fixed point takes n^2 steps for a list whose nodes share a metatable.)

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


cdef Py_ssize_t depth_first(Py_ssize_t n, int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] number,
                            int64_t[::1] order, int64_t[::1] parent):
    """Preorder from node n: number[node] = its number or -1, order[number] = node, parent[number] = the number it was
    reached from; how many are reached."""
    stack_array, next_array = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    cdef int64_t[::1] stack = stack_array, at = next_array
    cdef Py_ssize_t depth = 1, count = 1
    cdef int64_t node, child
    stack[0] = order[0] = n
    at[0] = starts[n]
    number[n] = parent[0] = 0
    while depth:
        node = stack[depth - 1]
        if at[depth - 1] == starts[node + 1]:
            depth -= 1
            continue
        child = ends[at[depth - 1]]
        at[depth - 1] += 1
        if number[child] == -1:
            number[child], order[count], parent[count] = count, child, number[node]
            count += 1
            stack[depth], at[depth] = child, starts[child]
            depth += 1
    return count


cdef int64_t least(int64_t v, int64_t[::1] ancestor, int64_t[::1] label, int64_t[::1] semi, int64_t[::1] path):
    """The node of the least semidominator on the way from v up its tree, whose root does not count; the way is
    made short for the next who asks."""
    cdef Py_ssize_t n = 0
    cdef int64_t at = v
    if ancestor[v] < 0:
        return v
    while ancestor[ancestor[at]] >= 0:
        path[n] = at
        n += 1
        at = ancestor[at]
    while n:
        n -= 1
        at = path[n]
        if semi[label[ancestor[at]]] < semi[label[at]]:
            label[at] = label[ancestor[at]]
        ancestor[at] = ancestor[ancestor[at]]
    return label[v]


cdef int immediate(Py_ssize_t count, int64_t[::1] number, int64_t[::1] order, int64_t[::1] parent,
                   int64_t[::1] back, int64_t[::1] sources, int64_t[::1] dominator) except -1:
    """dominator[i] of each node by its number in preorder, 0 the root's."""
    cdef int64_t[::1] semi = np.arange(count, dtype=np.int64), label = np.arange(count, dtype=np.int64)
    cdef int64_t[::1] ancestor = np.full(count, -1, np.int64), path = np.empty(count, np.int64)
    cdef int64_t[::1] first = np.full(count, -1, np.int64), following = np.full(count, -1, np.int64)
    cdef int64_t i, v, w, best
    cdef Py_ssize_t k
    for w in range(count - 1, 0, -1):
        for k in range(back[order[w]], back[order[w] + 1]):
            v = number[sources[k]]
            if v >= 0:
                best = semi[least(v, ancestor, label, semi, path)]
                if best < semi[w]:
                    semi[w] = best
        following[w], first[semi[w]] = first[semi[w]], w  # those of one semidominator are a list
        ancestor[w] = parent[w]
        v = first[parent[w]]
        first[parent[w]] = -1
        while v >= 0:
            best = least(v, ancestor, label, semi, path)
            dominator[v] = best if semi[best] < semi[v] else parent[w]
            v = following[v]
    for i in range(1, count):
        if dominator[i] != semi[i]:
            dominator[i] = dominator[dominator[i]]
    return 0


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
    number_array, order_array = np.full(n + 1, -1, np.int64), np.empty(n + 1, np.int64)
    parent_array = np.empty(n + 1, np.int64)
    cdef Py_ssize_t count = depth_first(n, starts, ends, number_array, order_array, parent_array)
    found = np.zeros(count, np.int64)
    immediate(count, number_array, order_array, parent_array, back, sources, found)
    order_array = order_array[:count]
    result = np.full(n + 1, -1, np.int64)
    result[order_array] = order_array[found]
    return result[:n], order_array[:0:-1].copy()


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
