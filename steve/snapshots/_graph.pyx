# cython: language_level=3, boundscheck=False, wraparound=False
"""Graph algorithms on snapshots: shortest paths from the roots, dominators, retained sizes.

Objects are numbered from 0 to n - 1. Links are two parallel arrays, the numbers of their sources and of their targets.
All algorithms are iterative, so that long chains of objects need no deep stack.

Dominators are found by the simple version of T. Lengauer, R. E. Tarjan, "A Fast Algorithm for Finding Dominators in a
Flowgraph" (1979), with an additional node n that links to all roots. It needs O(m log n) steps for n objects and m
links of any shape. (Iterating to a fixed point needs n^2 steps for a list whose nodes share a metatable.)

SPDX-License-Identifier: GPL-2.0-or-later
"""
import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


def neighbours(Py_ssize_t n, source, target):
    """Links sorted by source: (starts, targets, link numbers). The links of object i are at the indices starts[i] to
    starts[i + 1] - 1 of the other two arrays."""
    order = np.argsort(source, kind="stable")
    starts = np.zeros(n + 2, np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=starts[1:n + 1])
    starts[n + 1] = len(source)
    return starts, np.ascontiguousarray(np.asarray(target)[order], dtype=np.int64), order.astype(np.int64)


def shortest(Py_ssize_t n, source, target, roots, late=None):
    """For each object the link by which a breadth-first search from the roots reaches it first: -1 for a root, -2 if it
    is not reachable. late: by link, is it taken only to what no path without such a link leads to? None: no link is."""
    cdef int64_t[::1] starts, ends, links
    via_array = np.full(n, -2, np.int64)
    queue_array = np.empty(max(n, 1), np.int64)
    cdef int64_t[::1] via = via_array, queue = queue_array
    cdef const uint8_t[::1] is_late = np.ascontiguousarray(np.zeros(len(source)) if late is None else late, np.uint8)
    cdef Py_ssize_t head = 0, late_head = 0, tail = 0, i
    cdef int64_t at
    cdef uint8_t now
    starts, ends, links = neighbours(n, source, target)
    for root in roots:
        if via[root] == -2:
            via[root] = -1
            queue[tail] = root
            tail += 1
    while late_head < tail:  # one object's late links are next only if no other link is left
        now = head == tail
        if now:
            at = queue[late_head]
            late_head += 1
        else:
            at = queue[head]
            head += 1
        for i in range(starts[at], starts[at + 1]):
            if is_late[links[i]] == now and via[ends[i]] == -2:
                via[ends[i]] = links[i]
                queue[tail] = ends[i]
                tail += 1
    return via_array


cdef Py_ssize_t depth_first(Py_ssize_t n, int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] number,
                            int64_t[::1] order, int64_t[::1] parent):
    """Number the nodes in preorder from node n; return how many are reached.

    Fills number[node] with the node's number, -1 if it is not reached; order[number] with the node; parent[number]
    with the number of the node that it was reached from."""
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
    """The node with the least semidominator on the path from v up to the root of its tree, without the root. The path
    is compressed, so that later calls are fast. (EVAL in the paper.)"""
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
    """Fill dominator[i] with the immediate dominator of node i. Nodes are preorder numbers; 0 is the root."""
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
        following[w], first[semi[w]] = first[semi[w]], w  # nodes with one semidominator form a list
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
    """(the immediate dominator of each object, the reachable objects in an order in which each comes after all objects
    that it dominates).

    A dominator is the number of an object, n if no single object dominates, or -1 if the object is not reachable."""
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
    """The retained size of each object: its own bytes and those of all objects it dominates; 0 if it is not
    reachable. dominator, order: the results of dominators()."""
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
