"""Burn's custom kernel: relu(lhs @ rhs + bias) in one launch, with its gradient.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import itertools
import tracemalloc
import weakref

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import byte_range, describe
from nbfused.config import config
from nbfused.op import Case, elementwise, op
from nbfused.registry.operations import OPS
from tests.plugin.nbfused_interpreter import InterpreterBackend

LHS = [[[1, -2], [3, 4]]]
RHS = [[[1, 0], [2, -1]], [[0, 1], [1, 1]]]
BIAS = [[[1, 1], [-20, 0]], [[0, 3], [0, 0]]]


def reference(lhs, rhs, bias):
    return np.maximum(np.einsum("...mk,...kn->...mn", lhs, rhs) + bias, 0)


def integers(seed, *shapes, dtype="float32"):
    """Small integers: products and sums of them are exact."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]


def check(arrays, device, place=lambda x: x):
    """Equality with the reference, in one launch."""
    placed = [place(nf.array(x, device=device)) for x in arrays]
    with nf.trace_launches() as launches:
        found = nf.ops.matmul_add_relu(*placed)
    assert [launch.kind for launch in launches] == ["Contract"]
    np.testing.assert_array_equal(
        nf.to_numpy(found), reference(*(place(x) for x in arrays)))


def oracle(device):
    return [nf.Variable(nf.array(x, "float32", device=device), requires_grad=True)
            for x in (LHS, RHS, BIAS)]


def test_b01_fused_matmul_add_relu(device):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=s).astype("float32")
              for s in ((1, 32, 32), (32, 32, 32), (32, 32, 32))]
    placed = [nf.array(x, device=device) for x in arrays]
    a, b, bias = placed
    expected = reference(*(x.astype(float) for x in arrays))
    for found in (nf.ops.matmul_add_relu(a, b, bias),
                  nf.ops.matmul(a, b, bias=bias, epilogue=nf.ops.relu)):
        assert tuple(found.shape) == (32, 32, 32)
        np.testing.assert_allclose(nf.to_numpy(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", [
    ((2, 3, 4, 5), (2, 3, 5, 6), (2, 3, 4, 6)), ((2, 1, 4, 5), (3, 5, 6), (6,)),
    ((4, 5), (2, 3, 5, 6), (3, 1, 1)), ((2, 3, 4, 5), (5, 6), (2, 1, 4, 1))],
    ids=["batches", "one-of-rhs", "matrix-left", "matrix-right"])
def test_b01_four_dimensions_and_broadcast_bias(shapes, device):
    check(integers(2, *shapes), device)


def test_b02_a_backend_knows_no_op():
    """The interpreter runs four specs and has not heard of this op."""
    with nf.use_backend(InterpreterBackend()):
        check(integers(3, (3, 4, 5), (5, 6), (6,)), "cpu")


def test_b03_every_op_has_a_reference():
    for name, found in OPS.items():
        assert callable(found.reference), name
        assert found.reference is not found, name
    nf.testing.assert_matches_reference(nf.ops.log_sigmoid)


def test_b03_a_wrong_op_does_not_match(monkeypatch):
    monkeypatch.setitem(OPS, "half", None)  # put back after the test

    @op(lambda x: x / 2.0, Case())
    @elementwise
    def half(x):
        return x * 0.5001

    with pytest.raises(AssertionError):
        nf.testing.assert_matches_reference(half)


def test_b04_the_function_runs_one_spec(device):
    a, b, bias = (nf.array(x, "float32", device=device) for x in (LHS, RHS, BIAS))
    with nf.trace_launches() as launches:
        nf.ops.matmul_add_relu(a, b, bias)
    (launch,) = launches
    assert (launch.kind, launch.backend) == ("Contract", device)


def test_b05_texts_of_two_dtypes_differ_in_the_type_only(tmp_path):
    @nf.elementwise
    def biased_relu(product, bias):
        return nf.relu(product + bias)

    texts = []
    for dtype, short in (("float32", "f32"), ("float64", "f64")):
        folder = tmp_path / dtype
        with config.override(dump_source=str(folder), cache_disable=True), \
                nf.use_backend("cpu"):
            biased_relu(np.ones(3, dtype), np.ones(3, dtype))
        (text,) = [path.read_text() for path in folder.iterdir()]
        assert short in text
        texts.append(text.replace(short, "{{elem}}"))
    assert texts[0] == texts[1]


def test_b06_batch_broadcasting(device):
    a, b, bias = (nf.array(x, "float32", device=device) for x in (LHS, RHS, BIAS))
    found = nf.to_numpy(nf.ops.matmul_add_relu(a, b, bias))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[[0, 3], [0, 0]], [[0, 2], [4, 7]]])


@pytest.mark.parametrize("m", [1, 7, 16, 17, 33])
def test_b07_ragged_tiles(m, device):
    for n, k in itertools.product([1, 7, 16, 17, 33], repeat=2):
        check(integers(m * n * k, (m, k), (k, n), (n,)), device)


@pytest.mark.parametrize("shapes", [((5, 0), (0, 3)), ((2, 5, 0), (0, 3)),
                                    ((2, 33, 0), (2, 0, 17))], ids=str)
def test_b07_nothing_to_sum(shapes, device):
    a, b = (nf.zeros(s, "float32", device=device) for s in shapes)
    (bias,) = integers(4, shapes[1][-1:])
    found = nf.to_numpy(nf.ops.matmul_add_relu(a, b, nf.array(bias, device=device)))
    assert found.shape == (*shapes[0][:-1], shapes[1][-1])
    np.testing.assert_array_equal(
        found, np.broadcast_to(np.maximum(bias, 0), found.shape))


def test_b07_nothing_to_store(device):
    for shapes in (((0, 3), (3, 4), (4,)), ((5, 3), (3, 0), (0,)),
                   ((0, 2, 3), (3, 4), (4,))):
        arrays = integers(5, *shapes)
        found = nf.ops.matmul_add_relu(*(nf.array(x, device=device) for x in arrays))
        assert tuple(found.shape) == reference(*arrays).shape


LAYOUTS = {
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-1],
    "every-second": lambda x: x[::2, ::2],
    "unaligned": lambda x: x[1:, 1:],
    "columns-reversed": lambda x: x[:, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b08_strides_are_read_where_they_are(layout, device):
    """One launch, so nothing was copied to make it contiguous."""
    a, b, bias = integers(6, (34, 34), (34, 34), (34, 34))
    check((a, b, bias), device, LAYOUTS[layout])


def test_b08_fortran_order_and_repeated_rows(device):
    a, b, bias = integers(7, (9, 33), (1, 17), (9, 1))
    left = nf.array(np.asfortranarray(a), device=device)
    right = nf.ops.broadcast_to(nf.array(b, device=device), (33, 17))
    found = nf.ops.matmul_add_relu(left, right, nf.array(bias, device=device))
    np.testing.assert_array_equal(
        nf.to_numpy(found), reference(a, np.broadcast_to(b, (33, 17)), bias))


def test_b10_outputs_are_new_and_in_order(device):
    """Each call makes its result; a chain of calls needs nobody to wait."""
    a, b, bias = integers(8, (16, 16), (16, 16), (16,))
    x, w, c = (nf.array(v, device=device) for v in (a, b, bias))
    first = nf.ops.matmul_add_relu(x, w, c)
    second = nf.ops.matmul_add_relu(x, w, c)
    assert not byte_range(describe(first)).overlaps(byte_range(describe(second)))
    y = a
    for _ in range(5):
        x = nf.ops.multiply(nf.ops.matmul_add_relu(x, w, c), 0.125)
        y = reference(y, b, bias) * np.float32(0.125)
    nf.synchronize()
    np.testing.assert_allclose(nf.to_numpy(x), y, rtol=1e-5)


class Recording(InterpreterBackend):
    """Notes the types of everything that a launch is given."""

    seen: set[type]

    def __init__(self):
        self.seen = set()

    def build(self, spec, signature):
        launch = super().build(spec, signature)

        def run(call):
            for part in (call.shape, call.pointers, call.scalars, *call.strides):
                self.seen |= {type(x) for x in part}
            launch(call)

        return run


def graph(a, b, bias):
    y = nf.ops.matmul_add_relu(a, b, bias)
    (y * y).sum().backward()
    return [nf.to_numpy(v.grad) for v in (a, b, bias)]


def test_b11_the_tape_is_the_same_on_every_backend(device):
    recording = Recording()
    with nf.use_backend(recording):
        expected = graph(*oracle("cpu"))
    assert recording.seen <= {int, float}  # no Variable, no array
    for found, want in zip(graph(*oracle(device)), expected, strict=True):
        np.testing.assert_array_equal(found, want)


def test_b12_gradients(device):
    a, b, bias = oracle(device)
    nf.ops.matmul_add_relu(a, b, bias).sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(a.grad), [[[1, 0], [1, 2]]])
    np.testing.assert_array_equal(nf.to_numpy(b.grad),
                                  [[[0, 1], [0, -2]], [[3, 4], [4, 2]]])
    np.testing.assert_array_equal(nf.to_numpy(bias.grad),
                                  [[[0, 1], [0, 0]], [[0, 1], [1, 1]]])


@pytest.mark.parametrize("shape", [(2,), (1,), (), (2, 1), (2, 1, 1), (1, 2, 2)],
                         ids=str)
def test_b12_bias_gets_its_own_shape(shape, device):
    a, b, _ = oracle(device)
    bias = nf.Variable(nf.full(shape, 0.5, "float32", device=device),
                       requires_grad=True)
    nf.ops.matmul_add_relu(a, b, bias).sum().backward()
    mask = (np.matmul(np.array(LHS), np.array(RHS)) + 0.5 > 0).astype("float32")
    lead = tuple(range(3 - len(shape)))
    ones = tuple(k - len(shape) for k, n in enumerate(shape) if n == 1)
    expected = mask.sum(axis=lead).reshape(mask.shape[len(lead):])
    expected = expected.sum(axis=ones, keepdims=True)
    assert tuple(bias.grad.shape) == shape
    np.testing.assert_array_equal(nf.to_numpy(bias.grad), expected)


def test_b13_untracked_results_have_no_graph(device):
    arrays = [nf.Variable(x.data) for x in oracle(device)]
    out = nf.ops.matmul_add_relu(*arrays)
    assert out.grad_fn is None
    assert not out.requires_grad
    with nf.no_grad():
        assert nf.ops.matmul_add_relu(*oracle(device)).grad_fn is None


def test_b13_untracked_results_keep_nothing_alive():
    a, b, bias = (np.array(x, "float32") for x in (LHS, RHS, BIAS))
    alive = [weakref.ref(x) for x in (a, b, bias)]
    out = nf.ops.matmul_add_relu(nf.Variable(a), nf.Variable(b), nf.Variable(bias))
    del a, b, bias
    assert [ref() for ref in alive] == [None] * 3
    assert out.shape == (2, 2, 2)


def test_b13_only_tracked_parents_get_gradients(device):
    """One Contract back for one operand, two for two; none for the bias alone."""
    for tracked, products in (((0,), 1), ((1,), 1), ((0, 1), 2), ((2,), 0)):
        values = oracle(device)
        for k, v in enumerate(values):
            v.requires_grad = k in tracked
        y = nf.ops.matmul_add_relu(*values)
        g = nf.full((2, 2, 2), 1.0, "float32", device=device)
        with nf.trace_launches() as launches:
            y.backward(g)
        assert sum(launch.kind == "Contract" for launch in launches) == products
        assert [v.grad is not None for v in values] == [k in tracked for k in range(3)]


def test_b13_saved_arrays_go_with_the_backward_pass():
    b = np.array(RHS, "float32")
    alive = weakref.ref(b)
    a = nf.Variable(np.array(LHS, "float32"), requires_grad=True)
    out = nf.ops.matmul_add_relu(a, nf.Variable(b), 0.0)
    del b
    assert alive() is not None  # the gradient of a needs it
    out.sum().backward()
    assert alive() is None


def test_b14_a_checkpoint_takes_less_memory_and_gives_the_same_gradient():
    """Of six blocks the arguments are kept, and one block at a time is run again."""
    def step(v):
        for _ in range(6):
            v = nf.ops.sin(v)
        return v

    def run(block):
        x = nf.Variable(np.linspace(-1, 1, 1 << 17), requires_grad=True)
        y = x
        for _ in range(6):
            y = block(y)
        y.sum().backward()
        return x.grad

    peaks, gradients, kept = [], [], nf.checkpoint(step)
    for block in (step, kept):
        run(block)  # kernels are compiled, which takes memory too
        tracemalloc.start()
        gradients.append(run(block))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    np.testing.assert_array_equal(*gradients)
    assert peaks[1] < peaks[0] / 2, peaks
    assert kept.recomputed == 2 * 6
