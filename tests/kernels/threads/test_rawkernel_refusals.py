"""What kernels of threads refuse, so that no wrong number comes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    KernelTypeError,
    NotDifferentiableError,
    ScalarSyntaxError,
    ShapeError,
    UnsupportedError,
)


@nf.rawkernel
def plain(x, y):
    i = nf.grid(1)
    y[i] = x[i] * x[i]


square = nf.rawkernel(differentiable=True)(plain.pyfunc)


@nf.rawkernel
def converted(n: np.int32, y):
    y[0] = n


def test_complex_numbers_in_real_arrays(device):
    x, y = nf.array([1j, 2.0], device=device), nf.full(2, 7.0, device=device)
    with pytest.raises(KernelTypeError, match=r"complex .* array of float64; .*\.real"):
        plain[1, 2](x, y)
    assert nf.to_numpy(y).tolist() == [7, 7]


def test_indices_that_count_from_the_end():
    @nf.rawkernel
    def last(x, y):
        y[0] = x[-1]

    @nf.rawkernel
    def add(x, y):
        nf.atomic.add(y, -1, x[0])

    for kernel in (last, add):
        with pytest.raises(ScalarSyntaxError, match=r"a\.shape\[k\] - 1"):
            kernel[1, 1](np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("target", [3, "k", len, KernelTypeError])
def test_what_is_no_function(target):
    with pytest.raises(KernelTypeError, match=r"nf\.rawkernel must decorate"):
        nf.rawkernel(target)
    with pytest.raises(KernelTypeError, match=r"nf\.rawkernel must decorate"):
        square.defvjp(target)


def test_a_value_returned_by_what_has_no_source():
    names: dict[str, Any] = {}
    exec("def first(x, y):\n    return x[0]", names)
    with pytest.raises(ScalarSyntaxError, match="first returns a value; store it"):
        nf.rawkernel(names["first"])[1, 1](np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("grid", [np.array([1]), np.array([1, 2]), 1.0, "1", None, ()])
def test_grids_that_are_no_integers(grid):
    with pytest.raises(KernelTypeError, match="expected one to three integers"):
        plain[grid, 2](np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("n", [1.5, 2**40, np.int64(2**32), np.nan, 1j])
def test_numbers_that_an_annotation_does_not_hold(n, device):
    y = nf.zeros(1, device=device)
    with pytest.raises(KernelTypeError, match="which int32 does not hold"):
        converted[1, 1](n, y)
    converted[1, 1](2.0, y)
    assert nf.to_numpy(y).tolist() == [2]


def test_derivatives_start_from_what_is_written():
    x, dx = np.ones(2), np.zeros(2)
    with pytest.raises(KernelTypeError, match=r"pairs \(y, dy\).* 'y'; got none"):
        square.bwd[1, 2]((x, dx), np.zeros(2))


@pytest.mark.parametrize("outputs", [{}, {"z": "x"}, ["y"], "y", None])
def test_outputs_that_name_no_parameter(outputs):
    with pytest.raises(KernelTypeError, match=r"outputs .* must name parameters of"):
        plain.as_op(outputs=outputs, grid=1, block=2)


@pytest.mark.parametrize("shape", [(-1,), (1.5,), ("a",)])
def test_shapes_of_outputs(shape):
    op = plain.as_op(outputs={"y": (shape, "float64")}, grid=1, block=2)
    with pytest.raises(ShapeError, match="the shape of output 'y' is"):
        op(np.zeros(2))


def test_rules_with_other_parameters():
    op = plain.as_op(outputs={"y": lambda z: "x"}, grid=1, block=2)
    with pytest.raises(KernelTypeError, match="called with x by name"):
        op(np.zeros(2))
    op = plain.as_op(outputs={"y": "x"}, grid=lambda x: 1, block=2)
    with pytest.raises(KernelTypeError, match="called with x, y by name"):
        op(np.zeros(2))


def test_gradients_of_what_is_not_declared_differentiable():
    x = nf.Variable(np.ones(2), requires_grad=True)
    y = plain.as_op(outputs={"y": "x"}, grid=1, block=2)(x)
    with pytest.raises(NotDifferentiableError, match="'x' requires a gradient"):
        y.sum().backward()


def test_arrays_of_libraries_that_an_operation_cannot_serve():
    op = square.as_op(outputs={"y": "x"}, grid=1, block=2)
    torch, numpy = (pytest.importorskip(n) for n in ("torch", "jax.numpy"))
    with pytest.raises(NotDifferentiableError, match="not declared differentiable"):
        plain.as_op(outputs={"y": "x"}, grid=1, block=2)(
            torch.ones(2, requires_grad=True)).sum().backward()
    with pytest.raises(UnsupportedError, match=r"pass nbfused\.to_numpy\(x\)"):
        op(numpy.ones(2))


@pytest.mark.parametrize(("dx", "error"), [
    (np.zeros(1), ShapeError), (np.zeros((2, 1)), ShapeError),
    (np.zeros(2, int), KernelTypeError)])
def test_pairs_for_a_rule_by_hand(dx, error):
    ruled = nf.rawkernel(differentiable=True)(plain.pyfunc)

    @ruled.defvjp
    def rule(x, y):
        i = nf.grid(1)
        x.derivative[i] += y.derivative[i]

    with pytest.raises(error, match="'x'"):
        ruled.bwd[1, 2]((np.ones(2), dx), (np.zeros(2), np.ones(2)))
    with pytest.raises(error, match="'x'"):
        ruled.bwd[1, 2](nf.Dual(np.ones(2), dx), (np.zeros(2), np.ones(2)))
    assert not dx.any()


def test_the_lane_is_a_number():
    @nf.rawkernel
    def lanes(out):
        out[nf.grid(1)] = nf.laneid()

    with pytest.raises(ScalarSyntaxError, match=r"nf\.laneid is a number.* leave out"):
        lanes[1, 32](np.zeros(32))


def test_elementwise_functions_without_result_or_with_barriers():
    @nf.elementwise
    def forgotten(x):
        y = x  # noqa: F841

    @nf.elementwise
    def waiting(x):
        nf.syncthreads()
        return x

    @nf.elementwise
    def shuffled(x):
        return nf.shfl_sync(0xffffffff, x, 0)

    with pytest.raises(ScalarSyntaxError, match="forgotten returns nothing"):
        forgotten(1.0)
    for function in (waiting, shuffled):
        with pytest.raises(KernelTypeError, match=r"in @nf\.rawkernel only"):
            function(np.zeros(3))


@pytest.mark.parametrize("part", [None, -1, (np.float32, -2), 1.5, "real"])
def test_annotations_of_views(part):
    with pytest.raises(KernelTypeError, match="dtype"):
        nf.View[part]
    with pytest.raises(KernelTypeError, match="dtype"):
        nf.DiffView[part]


@pytest.mark.parametrize("use", [
    lambda i: 1 / i, lambda i: i / 2, lambda i: 2 // i, lambda i: i**2, lambda i: -i,
    lambda i: i & 31, lambda i: i >> 5, lambda i: 7 % i])
def test_places_of_threads_in_plain_python(use):
    with pytest.raises(KernelTypeError, match=r"threadIdx\.x .* inside a kernel only"):
        use(nf.threadIdx.x)


def test_names_of_numbas_kernels():
    """Pasted code says what to write, where Numba's stub was no number."""
    from numba import cuda

    def placed(y):
        y[0] = cuda.grid(1)

    def counted(y):
        y[0] = cuda.threadIdx.x

    def shared(y):
        y[0] = cuda.shared.array(3, "float32")[0]

    for pasted, name in ((placed, "grid"), (counted, "threadIdx"), (shared, "shared")):
        with pytest.raises(ScalarSyntaxError, match=f"another library's .* nf.{name}"):
            nf.rawkernel(pasted)[1, 1](np.zeros(1))
