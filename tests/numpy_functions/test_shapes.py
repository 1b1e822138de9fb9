"""Functions that move, join, repeat and choose elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbfused as nf

from .agreement import check, normal, positive

pytestmark = pytest.mark.interpreted

A, B, C = normal(4, 5), normal(2, 3), normal(2, 3, 4)
V, W = normal(4, seed=1), normal(3, seed=2)

CASES: dict[str, tuple[Any, ...]] = {
    "flip": (np.flip, A), "flip axes": (lambda x: np.flip(x, (0, 2)), C),
    "fliplr": (np.fliplr, A), "flipud": (np.flipud, A), "tril": (np.tril, A),
    **{f"rot90 {k}": (lambda x, k=k: np.rot90(x, k, (1, 2)), C) for k in range(-1, 5)},
    "triu": (lambda x: np.triu(x, 2), A), "tril stack": (lambda x: np.tril(x, -1), C),
    "tril vector": (np.tril, V), "trace": (np.trace, A), "diag": (np.diag, A),
    "trace axes": (lambda x: np.trace(x, 1, 0, 2), C),
    "linalg.trace": (lambda x: np.linalg.trace(x, offset=1), C),
    "linalg.diagonal": (lambda x: np.linalg.diagonal(x, offset=-1), C),
    "linalg.tensordot": (lambda x, y: np.linalg.tensordot(x, y, axes=1), A, A.T),
    "lists of elements": (lambda x: np.concatenate([
        [x[0, 0] * 2, x[1, 1]], np.append(x[0], [x[1, 2], 1.5])]), B),
    "nested lists of elements": (lambda x: np.dot(x, [
        [x[0, 0], 1.0], [x[1, 1], x[0, 2]], (2.0, x[1, 0])]), B),
    "repeat once": (lambda x: np.repeat(x, 1, 0), B), "pad nothing": (
        lambda x: np.pad(x, 0), B),
    "diagonal": (lambda x: np.diagonal(x, 1, 0, 2), C),
    "diagonal below": (lambda x: np.diagonal(x, -2), A),
    "diag of vector": (np.diag, V), "diag below": (lambda v: np.diag(v, -2), V),
    "diag above": (lambda v: np.diag(v, 1), V), "diagflat": (np.diagflat, B),
    "atleast_1d": (np.atleast_1d, A), "atleast_2d": (np.atleast_2d, V),
    "atleast_3d": (lambda x, y: np.atleast_3d(x, y), A, V),
    "swapaxes": (lambda x: np.swapaxes(x, 0, -1), C),
    "moveaxis": (lambda x: np.moveaxis(x, [0, 1], [-1, 0]), C),
    "rollaxis": (lambda x: np.rollaxis(x, 2), C),
    "rollaxis to end": (lambda x: np.rollaxis(x, 0, 3), C),
    "matrix_transpose": (np.matrix_transpose, C),
    "broadcast_arrays": (np.broadcast_arrays, normal(3, 1), V),
    "expand_dims": (lambda x: np.expand_dims(x, (0, 2)), B),
    "resize": (lambda x: np.resize(x, (3, 3)), V), "vander": (np.vander, W),
    "resize nothing": (lambda x: np.resize(x[:0], (2, 3)), V),
    "roll": (lambda x: np.roll(x, 2), A), "copy": (np.copy, A),
    "roll axes": (lambda x: np.roll(x, (1, -2), (0, 1)), A),
    "tile": (lambda x: np.tile(x, (2, 1, 3)), B), "tile one": (
        lambda x: np.tile(x, 3), B),
    "repeat": (lambda x: np.repeat(x, 3), B), "repeat along": (
        lambda x: np.repeat(x, 2, 1), B),
    "repeat each": (lambda x: np.repeat(x, [1, 0, 3], 1), B),
    **{f"pad {mode}": (lambda x, mode=mode: np.pad(x, ((1, 2), (0, 3)), mode), A)
       for mode in ("constant", "edge", "reflect", "symmetric", "wrap")},
    "pad number": (lambda x: np.pad(x, 2, constant_values=3.5), V),
    "stack": (lambda x, y: np.stack([x, y], 1), B, B + 1),
    "vstack": (lambda x, y: np.vstack([x, y]), W, B),
    "hstack": (lambda x, y: np.hstack([x, y]), normal(2, 1), B),
    "hstack vectors": (lambda x, y: np.hstack([x, y]), V, W),
    "dstack": (lambda x, y: np.dstack([x, y]), B, B + 1),
    "column_stack": (lambda x, y: np.column_stack([x, y]), normal(2), B),
    "append": (np.append, V, B), "append rows": (
        lambda x, y: np.append(x, y, 0), normal(1, 3), B),
    "block": (lambda x: np.block([[x, 2 * x], [x, x]]), B),
    "concatenate flat": (lambda x, y: np.concatenate([x, y], None), B, V),
    "concatenate constant": (lambda x: np.concatenate([x, np.ones(3)]), V),
    "split": (lambda x: np.split(x, 2), A), "split at": (
        lambda x: np.split(x, [1, 3]), A),
    "array_split": (lambda x: np.array_split(x, 3, 1), A),
    "hsplit": (lambda x: np.hsplit(x, 2), C[0].T.copy().reshape(3, 4)),
    "vsplit": (lambda x: np.vsplit(x, [2]), A), "dsplit": (
        lambda x: np.dsplit(x, 2), C),
    "delete": (lambda x: np.delete(x, [1, 2], 1), A),
    "insert": (lambda x: np.insert(x, 1, 5.0), V),
    "insert columns": (lambda x, y: np.insert(x, [1, 3], y, 1), A, normal(4, 2)),
    "insert row": (lambda x, y: np.insert(x, 1, y, 0), normal(3, 4), V),
    "insert several": (lambda x, y: np.insert(x, [0, 2, 2], y), V, W),
    "meshgrid": (np.meshgrid, W, V), "meshgrid sparse": (
        lambda x, y: np.meshgrid(x, y, indexing="ij", sparse=True), W, V),
    "select": (lambda x: np.select([x > 1, x > 0], [x * 2, x], -x), A),
    "choose": (lambda x, y: np.choose(np.array([0, 1, 1]), [x, y]), W, W + 1),
    "choose by a number": (lambda x, y: np.choose(1, [x, y]), W, W + 1),
    "choose by truth": (lambda x, y: np.choose(x > 0, [x, y]), W, W + 1),
    "extract": (lambda x: np.extract(np.array([True, False, True]), x), W),
    "compress": (lambda x: np.compress([True, False, True, True], x, 0), A),
    "take": (lambda x: np.take(x, [1, -1, 0], 1), B), "take wrap": (
        lambda x: np.take(x, [4, -1, 9], mode="wrap"), B),
    "take_along_axis": (lambda x: np.take_along_axis(
        x, np.array([[2, 0, 1], [0, 0, 2]]), 1), B),
    "linspace": (lambda x, y: np.linspace(x, y, 5), W, W + 1),
    "linspace axis": (lambda x, y: np.linspace(x, y, 4, False, axis=1), W, W + 1),
    "logspace": (lambda x, y: np.logspace(x, y, 5), W, W + 1),
    "geomspace": (lambda x, y: np.geomspace(x, y, 5), positive(3), positive(3, seed=1)),
    "apply_along_axis": (lambda x: np.apply_along_axis(
        lambda v: np.sort(v)[:2], 0, x), A),
    "apply_over_axes": (lambda x: np.apply_over_axes(np.sum, x, [0, 2]), C),
    "piecewise": (lambda x: np.piecewise(
        x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * v]), A),
}


@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name):
    check(*CASES[name])


X = normal(3, 4, 5)
INDICES: list[Any] = [
    [0, 2], (slice(None), [0, 1]), ([0, 1], [1, 2]), ([[0], [1]], [1, 2]),
    (0, slice(None), [0, 1]), ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 1], [1, 2]), np.array([True, False, True]),
    (slice(None), np.array([True, False, True, True]), 1), X[..., 0] > 0,
    (..., [0, -1]), (None, [0, 1], ..., None), ([0, 1], None, [1, 2]), X > 0,
    np.array([], int), (slice(0, 2), [1], slice(None, None, 2)), (1, [0, 1]),
    ([1, 0], 0), (slice(None), 2, [3, 3]), ([0, 0, 0],),
]


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_indexing_as_numpy(index):
    check(lambda x: x[index], X)


@pytest.mark.parametrize(("index", "words"), [
    (([0, 3],), "out of range"), ((slice(None), [0.5]), "integers or a mask"),
    ((np.array([True, False]),), "mask of shape"), (([0, 1], [0, 1, 2]), "broadcast"),
    (([0], [0], [0], [0]), "4 indices"), (True, "truth value"),
], ids=["range", "float", "mask", "shapes", "many", "bool"])
def test_indices_that_are_refused(index, words):
    import nbfused as nf

    with pytest.raises(nf.errors.NbFusedError, match=words):
        nf.Variable(X)[index]


@pytest.mark.parametrize("join", [
    lambda x: np.hstack([x, 2.0]), lambda x: np.append(x, 2),
    lambda x: np.block([x, 2.0]), lambda x: np.stack([x[0], 2.0]),
    lambda x: np.dot(x, 2.0), lambda x: np.outer(x, 2.0), lambda x: np.kron(x, 2.0),
    lambda x: np.add(*np.meshgrid(x, 2.0)), lambda x: np.vdot(x, [1.0, 2.0, 0.5]),
    lambda x: np.add(*np.broadcast_arrays(x, 2.0)),
    lambda x: np.add(*np.atleast_1d(x, 2.0)), lambda x: np.cov(x, [1.0, 2.0, 0.5]),
    lambda x: np.hstack([x, [x[0], 2.0]]), lambda x: np.stack([x[:2], [x[0], 2]]),
    lambda x: np.polymul(x, 2.0), lambda x: np.choose([0, 1], [x[:2], 2.0])])
def test_a_python_number_among_arrays_has_numpys_dtype(join):
    fused = nf.fuse(join)
    for x in (A[0, :3].astype("f4"), np.arange(1, 4, dtype="i1")):
        want = join(x)
        for found in (join(nf.Variable(x)).data, fused(x)):
            assert found.dtype == want.dtype
            np.testing.assert_allclose(found, want, rtol=1e-6)
