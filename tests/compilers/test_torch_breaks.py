"""What torch.compile refuses, what breaks its graph, what compiles nothing again."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError

torch = pytest.importorskip("torch")

X = np.linspace(-2.0, 2.0, 24).reshape(6, 4)


@pytest.fixture(autouse=True)
def _fresh():
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: ops.softmax(x, axis=5), "axis 5 is out of bounds"),
    (lambda x: ops.matmul(x, x), "matmul"),
    (lambda x: nf.Variable(x) * 2.0, "Variable"),
    (lambda x: nf.fill(x, 2.0), r"x\.fill_\(value\)"),
])
def test_refusals_say_why(function, message):
    with pytest.raises(Exception, match=message):
        torch.compile(function, fullgraph=True, backend="aot_eager")(torch.tensor(X))


def test_what_is_not_an_operation_breaks_the_graph_and_runs():
    compiled = torch.compile(lambda x: nf.to_numpy(x * 2.0), backend="aot_eager")
    np.testing.assert_array_equal(compiled(torch.tensor(X)), 2 * X)


def test_a_seed_stays_open():
    count = import_module("torch._dynamo.testing").CompileCounter()
    compiled = torch.compile(lambda x, seed: ops.dropout(x, 0.5, seed), fullgraph=True,
                             backend=count)
    x = torch.ones(40)
    for seed in range(5):
        np.testing.assert_array_equal(compiled(x, seed), ops.dropout(x, 0.5, seed))
    assert count.frame_count == 2  # the first seed is a constant to PyTorch


def test_a_function_decorated_inside_breaks_the_graph_and_runs():
    def decorating(x):
        @nf.elementwise
        def twice(y):
            return y * 2.0
        return twice(x)

    compiled = torch.compile(decorating, backend="aot_eager")
    np.testing.assert_array_equal(compiled(torch.tensor(X)), 2 * X)


def test_torch_jit_trace_is_refused():
    with pytest.raises(KernelTypeError, match=r"torch\.jit\.trace"):
        torch.jit.trace(lambda x: ops.swish(x), (torch.tensor(X),))
