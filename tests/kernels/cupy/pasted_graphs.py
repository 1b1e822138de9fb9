"""Kernels as CuPy's users write them for graphs.

As in `pasted_arrays`: each gives what the kernels find, and what SciPy or NumPy does.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

import nbfused as nf
from nbfused import ElementwiseKernel, ReductionKernel
from tests.kernels.cupy.pasted_arrays import rows_of

GRAPH = sp.random_array((12, 12), density=0.16, rng=np.random.default_rng(8),
                        format="csr")


def shortest_paths(put):
    """Bellman and Ford: edges shorten ways until none does."""
    relax = ElementwiseKernel("T w, int32 a, int32 b", "raw T d, raw int32 changed", """
        const T way{d[a] + w};
        if (way >= d[b]) return;
        atomicMin(&d[b], way);
        atomicOr(&changed[0], 1);""", "relax")
    d = np.full(12, np.inf)
    d[0] = 0
    d, changed = put(d), put(np.ones(1, np.int32))
    edges = (put(GRAPH.data), put(rows_of(GRAPH)), put(GRAPH.indices.astype(np.int32)))
    while nf.to_numpy(changed)[0]:
        changed = put(np.zeros(1, np.int32))
        relax(*edges, d, changed)
    return d, csgraph.shortest_path(GRAPH, indices=0)


def all_shortest_paths(put):
    step = ElementwiseKernel("T d, raw T all, int32 k, int32 n", "T out", """
        const int row(i / n), col(i % n);
        out = fmin(d, all[row * n + k] + all[k * n + col]);""", "floyd_step")
    d = GRAPH.toarray()
    d[d == 0] = np.inf
    np.fill_diagonal(d, 0)
    d = put(d.ravel())
    for k in range(12):
        d = step(d, d, k, 12)
    return nf.to_numpy(d).reshape(12, 12), csgraph.floyd_warshall(GRAPH)


def components(put):
    """Roots are joined by compare and swap, as in union and find."""
    join = ElementwiseKernel("int32 a, int32 b", "raw int32 parent", """
        int u = a, v = b;
        while (true) {
            while (parent[u] != u) u = parent[u];
            while (parent[v] != v) v = parent[v];
            if (u == v) break;
            if (u < v) { int t(u); u = v; v = t; }
            int old = atomicCAS(&parent[u], u, v);
            if (old == u) break;
        }""", "join_trees")
    root = ElementwiseKernel("raw int32 parent", "int32 r", """
        int u(i);
        while (parent[u] != u) u = parent[u];
        r = u;""", "root_of")
    parent = put(np.arange(12, dtype=np.int32))
    join(put(rows_of(GRAPH)), put(GRAPH.indices.astype(np.int32)), parent)
    found = nf.to_numpy(root(parent, size=12))
    count, expected = csgraph.connected_components(GRAPH, directed=False)
    assert len(set(found.tolist())) == count
    return np.unique(found, return_inverse=True)[1], np.unique(
        [np.flatnonzero(expected == e)[0] for e in expected], return_inverse=True)[1]


def breadth_first(put):
    step = ElementwiseKernel("int32 a, int32 b, int32 now",
                             "raw int32 level, raw int32 more", """
        if (level[a] != now or level[b] >= 0) return;
        atomicCAS(&level[b], -1, now + 1);
        atomicAdd(&more[0], 1);""", "breadth_first")
    level = np.full(12, -1, np.int32)
    level[0] = 0
    level, now = put(level), 0
    edges = put(rows_of(GRAPH)), put(GRAPH.indices.astype(np.int32))
    while now >= 0:
        more = put(np.zeros(1, np.int32))
        step(*edges, now, level, more)
        now = now + 1 if nf.to_numpy(more)[0] else -1
    hops = csgraph.shortest_path(GRAPH, indices=0, unweighted=True)
    return level, np.where(np.isinf(hops), -1, hops)


def laplacian(put):
    kernel = ElementwiseKernel("raw T w, int32 n", "T y", """
        const int row(i / n), col(i % n);
        if (row != col) { y = -w[i]; return; }
        T s{};
        for (int k = 0; k < n; k++) if (k != row) s += w[row * n + k];
        y = s;""", "laplacian")
    dense = GRAPH.toarray() + GRAPH.toarray().T
    return kernel(put(dense.ravel()), 12, size=144), csgraph.laplacian(dense).ravel()


def triangles(put):
    """Bits of a row are its neighbours."""
    linked = (GRAPH.toarray() + GRAPH.toarray().T) > 0
    np.fill_diagonal(linked, False)
    rows = (linked * 2 ** np.arange(12)).sum(axis=1).astype(np.uint32)
    kernel = ElementwiseKernel("raw uint32 rows", "int32 count", """
        count = 0;
        for (unsigned int left = rows[i]; left; left &= left - 1)
            count += __popc(rows[i] bitand rows[__ffs(left) - 1]);""", "triangles")
    cube = np.linalg.matrix_power(linked.astype(int), 3)
    return kernel(put(rows), size=12), np.diag(cube)


def degrees(put):
    kernel = ReductionKernel("T w", "int32 y", "w != T{} ? 1 : 0", "a + b", "y = a",
                             "0", "degrees")
    return kernel(put(GRAPH.toarray()), axis=1), np.diff(GRAPH.indptr)


CASES = {f.__name__: f for f in (
    shortest_paths, all_shortest_paths, components, breadth_first, laplacian, triangles,
    degrees)}
