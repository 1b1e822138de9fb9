"""Outputs that a kernel indexes itself, with nothing beside them to say how many."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import OverlapError

ALONE = nf.ElementwiseKernel("", "raw float32 y", "y[i] = i", "alone")
SCALED = nf.ElementwiseKernel("float32 s", "raw float32 y", "y[i] = s * i", "scaled")
TWO = nf.ElementwiseKernel("float32 s", "raw float32 y, raw int32 z",
                           "y[i] = s * i; z[n - 1 - i] = i", "two")
COPIED = nf.ElementwiseKernel("raw T x, T s", "raw T y", "y[i] = s * x[i]", "copied")
PYTHON = nf.ElementwiseKernel("", "raw float32 y", lambda y, i: y.store(i, i), "python")

COUNT = np.arange(6)


def outputs(device, *dtypes, shape=(6,)):
    return tuple(nf.array(np.full(shape, 7, d), device=device) for d in dtypes)


@pytest.mark.parametrize("by", ["position", "keyword"])
@pytest.mark.parametrize(("kernel", "inputs", "expected"), [
    (ALONE, (), (COUNT,)), (PYTHON, (), (COUNT,)), (SCALED, (0.5,), (COUNT / 2,)),
    (TWO, (0.5,), (COUNT / 2, COUNT[::-1]))], ids=["alone", "python", "scalar", "two"])
def test_raw_outputs_alone(kernel, inputs, expected, by, device):
    outs = outputs(device, *("f4", "i4")[:len(expected)])
    found = kernel(*inputs, *outs, size=6) if by == "position" else \
        kernel(*inputs, out=outs if len(outs) > 1 else outs[0], size=6)
    found = found if isinstance(found, tuple) else (found,)
    for f, out, e in zip(found, outs, expected, strict=True):
        assert f is out
        np.testing.assert_array_equal(nf.to_numpy(out), e.astype(out.dtype))


@pytest.mark.parametrize("size", [0, 1, 4])
def test_fewer_points_than_elements(size, device):
    (y,) = outputs(device, "f4")
    ALONE(y, size=size)
    np.testing.assert_array_equal(nf.to_numpy(y), [*range(size), *[7] * (6 - size)])


def test_several_axes_and_none(device):
    (y,) = outputs(device, "f4", shape=(2, 3))
    np.testing.assert_array_equal(nf.to_numpy(ALONE(y, size=6)), COUNT.reshape(2, 3))
    (empty,) = outputs(device, "f4", shape=(0,))
    assert ALONE(empty, size=0) is empty


def test_a_raw_input_beside_it(device):
    x, (y,) = nf.array(np.arange(6.0), device=device), outputs(device, "f8")
    np.testing.assert_array_equal(nf.to_numpy(COPIED(x, 3, y, size=6)), 3.0 * COUNT)
    with pytest.raises(OverlapError, match="input 'x'"):
        COPIED(x, 3, x, size=6)
    v = nf.Variable(x, requires_grad=True)
    COPIED(v, 3, size=6).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(v.grad), np.full(6, 3.0))


def test_in_the_library_of_the_outputs():
    torch = pytest.importorskip("torch")
    y = torch.full((3,), 7.0)
    assert ALONE(y, size=3) is y
    assert y.tolist() == [0, 1, 2]


def test_reductions_into_given_outputs(device):
    kernel = nf.ReductionKernel("T x, raw T w, T s", "T y, T z", "s * x * w[_j]",
                                "a + b", "y = a; z = 2 * a", "0", "weighed")
    x, w = (nf.array(np.arange(6.0), device=device) for _ in range(2))
    outs = outputs(device, "f8", "f8", shape=())
    for call in (lambda: kernel(x, w, 3, *outs), lambda: kernel(x, w, 3, out=outs)):
        assert all(f is o for f, o in zip(call(), outs, strict=True))
        assert [float(nf.to_numpy(o)) for o in outs] == [165, 330]
