"""Bad outputs, libraries, devices: refused before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.arrays import describe
from nbfused.errors import (
    DeviceError,
    KernelTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
    TapeError,
)
from tests.refusal import refused

A = np.arange(12.0).reshape(3, 4)
SENTINEL = -77.0

# Each skeleton: a call with out=, and the shape of its result.
CALLS = {
    "map": (lambda x, out: ops.exp(x, out=out), (3, 4)),
    "reduce": (lambda x, out: ops.sum(x, axis=1, out=out), (3,)),
    "row": (lambda x, out: ops.softmax(x, out=out), (3, 4)),
    "contract": (lambda x, out: ops.matmul(x, ops.transpose(x), out=out), (3, 3)),
    "transposed": (lambda x, out: ops.astype(ops.transpose(x), "float64", out=out),
                   (4, 3)),
}
each_skeleton = pytest.mark.parametrize("kind", CALLS)


@pytest.fixture
def put(device):
    return lambda x: nf.array(x, device=device)


def sentinel(shape, device, dtype="float64"):
    return nf.full(shape, SENTINEL, dtype, device=device)


def untouched(out):
    np.testing.assert_array_equal(nf.to_numpy(out), SENTINEL)


@each_skeleton
def test_wrong_shape(kind, device, put):
    call, shape = CALLS[kind]
    for wrong in (shape[:-1], (*shape[:-1], shape[-1] + 1), (5, 5, 5), (1,)):
        out = sentinel(wrong, device)
        with refused(ShapeError, "out", str(wrong), str(shape)):
            call(put(A), out)
        untouched(out)


@each_skeleton
def test_dtype_that_does_not_hold_the_result(kind, device, put):
    call, shape = CALLS[kind]
    for dtype in ("int64", "bool", "uint8"):
        out = nf.full(shape, 1, dtype, device=device)
        with refused(KernelTypeError, "out has dtype", dtype, "the result is float64",
                     "astype"):
            call(put(A), out)
        assert nf.to_numpy(out).all()


def test_narrower_floats_hold_the_result(device, put):
    """As in NumPy, casting within a kind is allowed."""
    out = sentinel((3, 4), device, "float32")
    assert ops.exp(put(A / 12), out=out) is out
    np.testing.assert_allclose(nf.to_numpy(out), np.exp(A / 12), rtol=1e-6)


@each_skeleton
def test_read_only(kind):
    call, shape = CALLS[kind]
    out = sentinel(shape, "cpu")
    out.flags.writeable = False
    with refused(ReadOnlyError, "out is read-only", "writable", "out.copy()"):
        call(A, out)
    untouched(out)


@each_skeleton
def test_elements_that_are_one(kind, device, put):
    """Stride 0: fine to read, not to write."""
    call, shape = CALLS[kind]
    one = sentinel((1,) * len(shape), device)
    out = np.lib.stride_tricks.as_strided(one, shape, (0,) * len(shape)) \
        if device == "cpu" else ops.broadcast_to(one, shape)
    with refused(OverlapError, "out", str(shape), "share memory", "pass a copy"):
        call(put(A), out)
    untouched(one)


@pytest.mark.parametrize("kind", ["reduce", "row", "contract"])
def test_output_that_is_still_to_be_read(kind, put):
    call, _ = CALLS[kind]
    x = put(np.arange(16.0).reshape(4, 4))
    out = x[:, 0] if kind == "reduce" else x
    with refused(OverlapError, "out shares memory with input", "cannot work in place",
                 "separate array"):
        call(x, out)
    np.testing.assert_array_equal(nf.to_numpy(x), np.arange(16.0).reshape(4, 4))


@pytest.mark.parametrize(("source", "target"), [
    (np.s_[:10], np.s_[1:11]), (np.s_[:10], np.s_[9:19]), (np.s_[:10:2], np.s_[4:9]),
    (np.s_[:10], np.s_[9::-1])],
    ids=["shifted", "one-element", "other-steps", "reversed"])
def test_maps_that_overlap(source, target, put):
    whole = put(np.arange(20.0))
    with refused(OverlapError, "out shares memory with input 'x'", "exactly 'x'",
                 "separate array"):
        ops.exp(whole[source], out=whole[target])
    np.testing.assert_array_equal(nf.to_numpy(whole), np.arange(20.0))


def test_maps_in_place_and_side_by_side(put):
    """The very same elements, or none: nothing is wrong with either."""
    whole = put(np.arange(20.0))
    ops.negative(whole[:10], out=whole[:10])
    ops.multiply(whole[1::2], 2.0, out=whole[::2])
    expected = np.r_[-np.arange(10.0), np.arange(10.0, 20.0)]
    expected[::2] = 2 * expected[1::2]
    np.testing.assert_array_equal(nf.to_numpy(whole), expected)


def test_broadcast_input_is_not_the_output(put):
    x = put(A)
    with refused(OverlapError, "out shares memory with input 'y'"):
        ops.add(x, x[0], out=x)
    np.testing.assert_array_equal(nf.to_numpy(x), A)


@pytest.mark.parametrize("out", [[0.0] * 3, 1.0, "text", (1.0,)], ids=repr)
def test_output_that_is_no_array(out, put):
    for call in (ops.exp, ops.softmax):
        with refused(KernelTypeError, "out is a", "expected an array", "nbfused.array"):
            call(put(A), out=out)


def test_scalar_of_numpy_cannot_be_written():
    with refused(KernelTypeError, "out is a NumPy scalar", "numpy.empty((), "):
        ops.sum(A, out=np.float64(1))


def test_number_of_outputs(device, put):
    outs = tuple(sentinel((3, 4), device) for _ in range(3))
    with refused(KernelTypeError, "exp has 1 output,", "length 2"):
        ops.exp(put(A), out=outs[:2])
    with refused(KernelTypeError, "add_rms_norm has 2 outputs", "length 3",
                 "as a tuple"):
        ops.add_rms_norm(put(A), put(A), out=outs)
    for out in outs:
        untouched(out)


def test_one_of_two_outputs_is_wrong(device, put):
    """The good one is not written either."""
    good, bad = sentinel((3, 4), device), sentinel((3, 3), device)
    for outs, name in (((good, bad), "out[1]"), ((bad, good), "out[0]")):
        with refused(ShapeError, name, "(3, 3)", "(3, 4)"):
            ops.add_rms_norm(put(A), put(A), out=outs)
    with refused(OverlapError, "out[1] and out[0] share memory", "separate arrays"):
        ops.add_rms_norm(put(A), put(A), out=(good, good))
    untouched(good)
    untouched(bad)


BAD_INPUTS = {
    "shape": (ShapeError, lambda out, put: ops.add(put(A), put(A.T), out=out)),
    "inner-extent": (ShapeError, lambda out, put: ops.matmul(put(A), put(A), out=out)),
    "weight": (ShapeError,
               lambda out, put: ops.layer_norm(put(A), put(A[:, 0]), out=out)),
    "dtype": (KernelTypeError, lambda out, put: ops.exp(A.astype(object), out=out)),
    "no-array": (KernelTypeError, lambda out, put: ops.add(put(A), None, out=out)),
    "activation": (KernelTypeError,
                   lambda out, put: ops.linear(put(A), put(A.T), None, "no", out=out)),
}


@pytest.mark.parametrize("kind", BAD_INPUTS)
def test_bad_inputs_leave_the_output_alone(kind, device, put):
    error, call = BAD_INPUTS[kind]
    out = sentinel((3, 4), device)
    with pytest.raises(error):
        call(out, put)
    untouched(out)


def test_labels_out_of_range_leave_parameters_alone():
    w = nf.Variable(np.eye(4), requires_grad=True)
    with pytest.raises(ValueError, match="'labels' out of range"):
        ops.cross_entropy(nf.Variable(A) @ w, np.array([0, 9, 1])).backward()
    assert w.grad is None


def test_the_tape_does_not_store_into_arrays(device, put):
    x = nf.Variable(put(A), requires_grad=True)
    out = sentinel((3, 4), device)
    with refused(TapeError, "out: exp is recorded", "leave out=None", "no_grad()"):
        ops.exp(x, out=out)
    with refused(TapeError, "requires grad", "no_grad()"):
        ops.exp(put(A), out=x)
    with refused(TapeError, "x += y", "x = x + y", "no_grad()"):
        x += 1.0
    untouched(out)
    np.testing.assert_array_equal(nf.to_numpy(x.data), A)


@pytest.mark.gpu
def test_output_on_another_device(device, put):
    host, there = sentinel((3, 4), "cpu"), sentinel((3, 4), device)
    with refused(KernelTypeError, "out is an array of numpy"):
        ops.exp(put(A), out=host)
    with pytest.raises((KernelTypeError, DeviceError), match="out is"):
        ops.exp(A, out=there)
    untouched(host)
    untouched(there)


class TestTorch:
    torch = pytest.importorskip("torch")

    def test_two_libraries(self):
        out = sentinel((3, 4), "cpu")
        with refused(KernelTypeError, "'x' is of numpy", "'y' is of torch",
                     "arrays of one library", "from_dlpack"):
            ops.add(A, self.torch.ones(3, 4), out=out)
        untouched(out)

    def test_output_of_another_library(self):
        out = self.torch.full((3, 4), SENTINEL, dtype=self.torch.float64)
        with refused(KernelTypeError, "out is an array of torch", "are of numpy",
                     "convert"):
            ops.exp(A, out=out)
        untouched(out)

    def test_recorded_by_pytorch(self):
        x = self.torch.ones(3, 4, requires_grad=True)
        out = self.torch.full((3, 4), SENTINEL)
        with refused(TapeError, "recorded by PyTorch", "torch.no_grad()"):
            ops.exp(x, out=out)
        untouched(out)

    def test_tensors_without_elements_in_memory(self):
        for x, words in ((self.torch.eye(3).to_sparse(), ("sparse", "x.to_dense()")),
                         (self.torch.ones(3, device="meta"), ("x", "meta"))):
            with refused(KernelTypeError, *words):
                ops.exp(x)


class TestJax:
    jax = pytest.importorskip("jax")

    def test_arrays_are_immutable(self):
        x = self.jax.numpy.ones(3)
        out = self.jax.numpy.full(3, SENTINEL)
        for call in (lambda: ops.exp(x, out=out),
                     lambda: ops.adam_step(x, x, out, out, step=1),
                     lambda: nf.Variable(x).__iadd__(1.0)):
            with refused(KernelTypeError, "array of jax", "immutable",
                         "use the result"):
                call()
        untouched(out)

    def test_tracers(self):
        with refused(KernelTypeError, "x is a JAX tracer", "has no elements yet"):
            self.jax.jit(lambda x: ops.unique(x))(self.jax.numpy.ones(3))
        with refused(KernelTypeError, "out: exp is traced by JAX", "leave out=None"):
            self.jax.jit(lambda x: ops.exp(x, out=x))(self.jax.numpy.ones(3))

    def test_two_libraries(self):
        with refused(KernelTypeError, "'x' is of numpy", "'y' is of jax"):
            ops.add(np.ones(3), self.jax.numpy.ones(3))


def test_what_is_refused_launches_nothing(device, put):
    out = sentinel((3, 3), device)
    with nf.trace_launches() as launches, pytest.raises(ShapeError):
        ops.exp(put(A), out=out)
    assert launches == []
    assert describe(out).shape == (3, 3)
