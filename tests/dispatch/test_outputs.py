"""Outputs that the caller gives: what may be written, and what is refused first."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused.dispatch import execute
from nbfused.errors import (
    KernelTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from nbfused.registry.backends import use_backend
from tests.dispatch.numpy_backend import (
    ADD,
    BOTH,
    COPY,
    TAKE,
    numpy_backend,
    reduce_of,
)

BF16 = np.dtype(ml_dtypes.bfloat16)

X = np.zeros((2, 3))


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


def test_out_is_returned_and_may_be_larger():
    out = np.empty((2, 3))
    (result,) = execute(ADD, (np.arange(3.0), np.ones(3)), out=(out,))
    assert result is out
    np.testing.assert_array_equal(out, [[1, 2, 3]] * 2)


def test_out_in_place_and_reversed():
    x = np.arange(6.0)
    execute(ADD, (x[::-1], np.ones(6)), out=(x[::-1],))
    np.testing.assert_array_equal(x, np.arange(6) + 1)


@pytest.mark.parametrize(("spec", "inputs", "out", "error", "words"), [
    (ADD, (X, X), np.zeros(3), ShapeError, r"shape \(3,\), but .* shape \(2, 3\)"),
    (reduce_of((0,)), (X,), np.zeros((2, 3)), ShapeError, r"\(2, 3\).*\(3,\)"),
    (ADD, (X, X), np.zeros((2, 3), int), KernelTypeError, "dtype int64"),
    (ADD, (X, X), np.broadcast_to(np.zeros(3), (2, 3)), ReadOnlyError, "read-only"),
    (ADD, (X, X), [1, 2], KernelTypeError, "out is a list"),
    (reduce_of((0,), True), (X,), X[:1], OverlapError, "'x'.*cannot work in place"),
    (COPY, (X[:, :2],), X[:, 1:], OverlapError, "exactly 'x' is allowed"),
])
def test_outputs_that_cannot_be_written(spec, inputs, out, error, words, backend):
    if error is ReadOnlyError:
        out = np.zeros((2, 3))
        out.flags.writeable = False
    with pytest.raises(error, match=words):
        execute(spec, inputs, out=(out,))
    assert not backend.calls


def test_output_with_repeated_elements(backend):
    out = np.lib.stride_tricks.as_strided(np.zeros(4), (2, 3), (8, 8))
    with pytest.raises(OverlapError, match="share memory"):
        execute(COPY, (X,), out=(out,))
    assert not backend.calls


def test_outputs_that_overlap(backend):
    out = np.zeros((3, 3))
    with pytest.raises(OverlapError, match=r"out\[1\] and out\[0\]"):
        execute(BOTH, (X, X), out=(out[:2], out[1:]))
    assert not backend.calls


def test_raw_input_is_never_written_in_place():
    table = np.arange(4.0)
    with pytest.raises(OverlapError, match="'table'"):
        execute(TAKE, (table, np.array([1, 0, 3, 2])), out=(table,))


@pytest.mark.parametrize(("source", "target", "casting", "ok"), [
    ("f8", "f4", "same_kind", True), ("f8", "f4", "safe", False),
    ("f8", "i4", "same_kind", False), ("f8", "i4", "unsafe", True),
    (BF16, "f2", "same_kind", True), ("f8", BF16, "same_kind", True),
    (BF16, "i4", "same_kind", False), ("c8", BF16, "same_kind", False),
    ("i4", BF16, "same_kind", True), ("f4", BF16, "safe", False),
    (BF16, "f4", "safe", True), ("f2", BF16, "safe", False), (BF16, BF16, "no", True),
])
def test_casting(source, target, casting, ok):
    x, out = np.ones(3, source), np.zeros(3, target)
    if ok:
        execute(COPY, (x,), out=(out,), casting=casting)
        np.testing.assert_array_equal(out, np.ones(3))
    else:
        with pytest.raises(KernelTypeError, match=f"'{casting}'"):
            execute(COPY, (x,), out=(out,), casting=casting)
