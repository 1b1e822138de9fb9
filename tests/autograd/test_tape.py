"""What is recorded, what is kept, what the backward pass runs and gives."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.graph import Node
from nbfused.autograd.nodes import SpecNode
from nbfused.autograd.tape import PLAIN
from nbfused.autograd.walk import walk_back
from nbfused.errors import KernelTypeError, ShapeError, TapeError
from tests.refusal import refused

A = np.array([1.0, 2.0, 3.0])


def leaf(x=A):
    return nf.Variable(np.array(x), requires_grad=True)


@nf.elementwise
def both(x, y):
    return x * y, x + y


class TestForward:
    """L12, B13: nodes only where they are wanted."""

    def test_arrays_pass_through(self):
        assert isinstance(nf.ops.exp(A), np.ndarray)

    def test_nothing_is_recorded_without_a_wish(self):
        y = nf.ops.exp(nf.Variable(A))
        assert y.grad_fn is None

    def test_nothing_is_recorded_in_no_grad(self):
        with nf.no_grad():
            y = nf.ops.exp(leaf())
            with nf.no_grad():
                pass
            assert nf.ops.exp(leaf()).grad_fn is None
        assert y.grad_fn is None
        assert nf.ops.exp(leaf()).grad_fn is not None

    def test_no_grad_decorates_functions_that_call_themselves(self):
        @nf.no_grad()
        def power(x, n):
            return x if n == 0 else power(x, n - 1) * x

        assert power(leaf(), 3).grad_fn is None
        assert nf.ops.exp(leaf()).grad_fn is not None

    def test_no_grad_decorates_without_parentheses(self):
        @nf.no_grad
        def f(x):
            return x * 2.0

        assert f(leaf()).grad_fn is None
        assert f.__name__ == "f"

    def test_no_grad_decorates_generators(self):
        """Each step is not recorded; what is between them is."""

        @nf.no_grad()
        def doubled(x):
            try:
                while True:
                    x = yield x * 2.0
            except KeyError:
                yield x * 3.0
            return x * 4.0

        steps = doubled(leaf())
        assert next(steps).grad_fn is None
        assert steps.send(leaf()).grad_fn is None
        assert (leaf() * 2.0).grad_fn is not None
        assert steps.throw(KeyError()).grad_fn is None
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value.grad_fn is None
        steps = doubled(leaf())
        next(steps)
        steps.close()
        assert (leaf() * 2.0).grad_fn is not None

    def test_no_grad_decorates_coroutines(self):
        @nf.no_grad()
        async def f(x):
            await asyncio.sleep(0)
            return x * 2.0

        assert asyncio.run(f(leaf())).grad_fn is None

    def test_no_grad_ends_in_another_context(self):
        def steps():
            with nf.no_grad():
                yield

        begun = steps()
        contextvars.Context().run(next, begun)
        assert list(begun) == []

    def test_no_grad_decorates_functions_only(self):
        class Model:
            pass

        async def steps():
            yield

        for what in (Model, steps, 3):
            with refused(KernelTypeError, "no_grad", "a function", "with no_grad():"):
                nf.no_grad()(what)

    def test_no_grad_is_per_thread(self):
        found = []

        def work():
            found.append(nf.ops.exp(leaf()).grad_fn is not None)

        with nf.no_grad():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert found == [True]

    def test_only_the_arrays_that_the_derivative_reads_are_kept(self):
        x, y = leaf(), leaf()
        assert (x + y).grad_fn.arrays() == []
        product = (x * nf.Variable(A)).grad_fn
        assert set(product.saved_inputs) == {1}
        assert product.saved_outputs == {}

    def test_what_is_not_kept_is_freed(self):
        x = leaf(np.ones(1000))
        hidden = x * 2.0
        memory = weakref.ref(hidden.data)
        y = (hidden + 1.0).sum()
        del hidden
        gc.collect()
        assert memory() is None
        y.backward()
        assert x.grad[0] == 2.0

    def test_out_is_refused_where_the_tape_records(self):
        out = np.zeros(3)
        with pytest.raises(TapeError, match="out"):
            nf.ops.exp(leaf(), out=out)
        with pytest.raises(TapeError, match="no_grad"):
            nf.ops.exp(A, out=leaf())
        assert not out.any()

    def test_out_is_returned_where_nothing_is_recorded(self):
        out, into = np.zeros(3), nf.Variable(np.zeros(3))
        position = np.zeros((), "int64")
        assert nf.ops.argmax(leaf(), out=position) is position
        assert position == 2
        assert nf.ops.exp(nf.Variable(A), out=out) is out
        assert nf.ops.exp(A, out=into) is into
        with nf.no_grad():
            assert nf.ops.exp(leaf(), out=out) is out
        np.testing.assert_allclose(into.data, np.exp(A))


class TestBackward:
    """L10, L13, R09, R10, R11: gradients."""

    def test_diamond(self):
        x = leaf()
        y = x * 2.0
        z = y * y + nf.ops.exp(y) * y + y
        z.sum().backward()
        y = 2 * A
        np.testing.assert_allclose(x.grad, 2 * (2 * y + np.exp(y) * (1 + y) + 1))

    def test_the_same_input_twice(self):
        x = leaf()
        nf.ops.multiply(x, x).sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * A)

    def test_gradients_accumulate_over_calls(self):
        x = leaf()
        y = (x * x).sum()
        y.backward(retain_graph=True)
        first = x.grad
        y.backward()
        np.testing.assert_array_equal(x.grad, 4 * A)
        np.testing.assert_array_equal(first, 2 * A)

    def test_the_graph_is_freed(self):
        x = leaf()
        y = (x * x).sum()
        y.backward()
        with pytest.raises(TapeError, match="retain_graph=True"):
            y.backward()
        np.testing.assert_array_equal(x.grad, 2 * A)

    def test_what_was_kept_is_freed(self):
        x = leaf()
        y = nf.ops.exp(x)
        node = y.grad_fn
        y.sum().backward()
        assert node.arrays() == []

    def test_a_shared_part_that_was_freed(self):
        x = leaf()
        shared = x * x
        shared.sum().backward()
        with pytest.raises(TapeError, match="multiply"):
            (shared * 2.0).sum().backward()

    @pytest.mark.parametrize("depth", [10_000])
    def test_deep_graphs(self, depth):
        x = leaf([1.0])
        y = x
        for _ in range(depth):
            y = y + 1.0
        y.backward()
        assert x.grad == 1.0

    def test_deep_graphs_are_dropped_without_recursion(self):
        edge = (Node("first", (), 1), 0)
        for _ in range(200_000):
            edge = (Node("next", (edge,), 1), 0)
        del edge

    def test_strided_cotangents(self):
        x = leaf(np.linspace(-3, 3, 12).reshape(3, 4))
        nf.ops.swish(x).T.sum().backward()
        s = 1 / (1 + np.exp(-x.data))
        np.testing.assert_allclose(x.grad, s + x.data * s * (1 - s), rtol=1e-12)

    def test_swish_at_zero(self):
        x = leaf([0.0])
        nf.ops.swish(x).backward()
        assert x.grad == 0.5

    def test_broadcast_inputs(self):
        x, b = leaf(np.ones((4, 3))), leaf(A)
        (x * b).sum().backward()
        np.testing.assert_array_equal(x.grad, np.broadcast_to(A, (4, 3)))
        np.testing.assert_array_equal(b.grad, [4.0, 4.0, 4.0])

    def test_a_leaf_is_its_own_output(self):
        x = leaf([5.0])
        x.backward()
        assert x.grad == 1.0

    def test_the_cotangent_may_be_given(self):
        x = leaf()
        (x * x).backward(np.array([1.0, 0.0, -1.0]))
        np.testing.assert_array_equal(x.grad, [2.0, 0.0, -6.0])
        x.zero_grad()
        (x * x).backward(nf.Variable(A))
        np.testing.assert_array_equal(x.grad, 2 * A * A)

    def test_the_cotangent_is_checked(self):
        y = leaf() * 2.0
        with pytest.raises(ShapeError, match="pass grad="):
            y.backward()
        with pytest.raises(ShapeError, match=r"\(2,\).*\(3,\)"):
            y.backward(np.ones(2))
        with pytest.raises(KernelTypeError, match=r"float32.*float64"):
            y.backward(np.ones(3, "float32"))
        with pytest.raises(KernelTypeError, match="list"):
            y.backward([1.0, 1.0, 1.0])
        y.backward(np.ones(3))

    def test_nothing_to_go_back_over(self):
        with pytest.raises(TapeError, match="requires_grad=True"):
            (nf.Variable(A) * 2.0).sum().backward()

    def test_gradients_do_not_share_memory(self):
        x, y, seed = leaf(), leaf(), np.ones(3)
        (x + y).backward(seed)
        x.grad *= 5.0
        seed *= 3.0
        np.testing.assert_array_equal(x.grad, [5.0, 5.0, 5.0])
        np.testing.assert_array_equal(y.grad, [1.0, 1.0, 1.0])

    def test_a_cotangent_from_the_caller_is_not_changed(self):
        x, seed = leaf(), np.ones(3)
        y = x + x
        (y + y).backward(seed)
        np.testing.assert_array_equal(seed, [1.0, 1.0, 1.0])
        np.testing.assert_array_equal(x.grad, [4.0, 4.0, 4.0])

    def test_outputs_without_cotangent_are_left_out(self):
        x, y = leaf(), leaf()
        product, _ = both(x, y)
        product.sum().backward()
        np.testing.assert_array_equal(x.grad, A)
        x.zero_grad()
        _, total = both(x, y)
        total.sum().backward()
        np.testing.assert_array_equal(x.grad, [1.0, 1.0, 1.0])
        x.zero_grad()
        product, total = both(x, y)
        (product * total).sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * A * A + A * A)

    def test_mixed_dtypes_come_back_in_their_own(self):
        x = nf.Variable(A.astype("float32"), requires_grad=True)
        y = leaf()
        z = x * y
        assert z.dtype == np.float64
        z.sum().backward()
        assert x.grad.dtype == np.float32
        assert y.grad.dtype == np.float64
        np.testing.assert_array_equal(x.grad, A)

    def test_empty_arrays(self):
        x = leaf(np.zeros((0, 3)))
        (x * x).sum().backward()
        assert x.grad.shape == (0, 3)


class TestLaunches:
    """R09, B13: no kernel runs for what nobody wants."""

    def backward(self, y):
        with nf.trace_launches() as launches:
            y.backward(np.ones(y.shape))
        return len(launches)

    def test_one_map_for_one_map(self):
        assert self.backward(nf.ops.swish(leaf())) == 1

    def test_the_cotangent_of_a_sum_of_arrays_is_passed_on(self):
        x, seed = leaf(), np.ones(3)
        y = x + nf.Variable(A)
        with nf.trace_launches() as launches:
            found = walk_back([(y.edge, seed)], PLAIN)
        assert launches == []
        assert found[x.edge] is seed

    def test_inputs_that_want_none(self):
        x, w = nf.Variable(A), leaf(np.ones((4, 3)))
        wide = leaf(A) * nf.Variable(np.ones((4, 3)))
        assert self.backward(wide) == 1
        assert self.backward(x * w) == 1  # no reduction for x

    def test_forward_runs_one_kernel_with_and_without_gradient(self):
        for x in (nf.Variable(A), leaf()):
            with nf.trace_launches() as launches:
                nf.ops.swish(x)
            assert len(launches) == 1


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: both(x, A[:2]), ("'x' of shape (3,)", "'y' of shape (2,)")),
    (lambda x: nf.ops.linear(x[None], np.ones((2, 3))), ("'x'", "'weight'"))])
def test_shapes_that_do_not_fit_are_named_where_it_records_too(call, words):
    with refused(ShapeError, *words):
        call(leaf())


def test_no_reference_cycles():
    """Memory goes when the last name does, not when the collector runs."""
    gc.collect()
    gc.disable()
    try:
        x = leaf(np.ones(10))
        y = nf.ops.exp(x) * x
        node = weakref.ref(y.grad_fn)
        inner = weakref.ref(y.grad_fn.edges[0][0])
        assert isinstance(inner(), SpecNode)
        del y
        assert node() is None
        assert inner() is None
    finally:
        gc.enable()
