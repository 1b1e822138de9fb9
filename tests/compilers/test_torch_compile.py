"""Operations inside torch.compile, against the same functions of NumPy in float64."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops

torch = pytest.importorskip("torch")

ROOT = Path(nf.__file__).parent.parent
X = np.linspace(-2.0, 2.0, 24).reshape(6, 4)


@nf.elementwise
def damped(x, y):
    if x > y:
        return x * math.exp(-y)
    return math.sin(x)


@nf.reduction(combine="sum", post=math.sqrt)
def norm(x):
    return x * x


@nf.row
def centred(x):
    @nf.stage("sum")
    def total(x):
        return x

    return x - total / nf.size


@nf.fuse
def fused(x, y):
    return (ops.tanh(x * y + x) * 2.0).sum(-1)


@nf.rawkernel(differentiable=True)
def cube(x, y, s):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] * x[i] * x[i] * s


tripled = nf.ElementwiseKernel("T x", "T y", "y = 3 * x", "tripled")

cubed = cube.as_op(outputs={"y": "x"}, block=64,
                   grid=lambda x, y, s: (len(x) + 63) // 64)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


LABELS = np.arange(6) % 4

#: By name: a function of a tensor, and the same on a NumPy array.
CASES = {
    "swish": (ops.swish, lambda x: x * sigmoid(x)),
    "number": (lambda x: ops.swish(x, 2.0), lambda x: x * sigmoid(2 * x)),
    "mine": (lambda x: damped(x, x * x),
             lambda x: np.where(x > x * x, x * np.exp(-x * x), np.sin(x))),
    "reduction": (lambda x: norm(x, axis=0), lambda x: np.sqrt((x * x).sum(0))),
    "row": (centred, lambda x: x - x.mean(-1, keepdims=True)),
    "softmax": (ops.softmax, softmax),
    "product": (lambda x: ops.matmul(x, x.T, bias=x[:, 0], epilogue="tanh"),
                lambda x: np.tanh(x @ x.T + x[:, 0])),
    "epilogue": (lambda x: ops.matmul(x, x.T, epilogue=ops.swish),
                 lambda x: (x @ x.T) * sigmoid(x @ x.T)),
    "labels": (lambda x: ops.cross_entropy(x, torch.as_tensor(LABELS),
                                           reduction="none"),
               lambda x: -np.log(softmax(x))[np.arange(6), LABELS]),
    "take": (lambda x: ops.take(x, torch.as_tensor([0, 2]), axis=0),
             lambda x: x[[0, 2]]),
    "views": (lambda x: ops.transpose(ops.reshape(x, (-1, 2)))[:, 1:],
              lambda x: x.reshape(-1, 2).T[:, 1:]),
    "backwards": (lambda x: ops.getitem(x, (slice(None, None, -2),)),
                  lambda x: x[::-2]),
    "concatenate": (lambda x: ops.concatenate((x, x * 2), axis=0),
                    lambda x: np.concatenate([x, x * 2])),
    "broadcast": (lambda x: ops.multiply(x, x[0]), lambda x: x * x[0]),
    "fused": (lambda x: fused(x, x), lambda x: (np.tanh(x * x + x) * 2).sum(-1)),
    "out": (lambda x: ops.add(x, 1.0, out=torch.empty_like(x)), lambda x: x + 1),
    "alias": (lambda x: ops.abs(x), np.abs),
    "body in C": (tripled, lambda x: 3 * x),
    "kernel": (lambda x: cubed(x.reshape(-1), 2.0), lambda x: 2 * x.reshape(-1)**3),
    "extent": (lambda x: ops.multiply(x, x.shape[0]), lambda x: x * 6),
}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def differences(reference, x):
    """The gradient of ``sum(reference(x) ** 2)`` by central differences."""
    found = np.empty_like(x)
    for k in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[k] = 1e-6
        high, low = ((reference(x + s * step) ** 2).sum() for s in (1, -1))
        found[k] = (high - low) / 2e-6
    return found


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dynamic):
    function, reference = CASES[name]
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager",
                             dynamic=dynamic)
    x = torch.tensor(X, requires_grad=True)
    y = compiled(x)
    np.testing.assert_allclose(y.detach(), reference(X), rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        np.testing.assert_allclose(compiled(x), reference(X), rtol=1e-12, atol=1e-12)
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad, differences(reference, X), rtol=1e-5, atol=1e-7)


def test_one_graph_serves_every_extent():
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: ops.softmax(ops.swish(x)), fullgraph=True,
                             backend=backend, dynamic=True)
    for n in (3, 5, 8):
        x = np.linspace(-1, 1, 4 * n).reshape(n, 4)
        np.testing.assert_allclose(compiled(torch.tensor(x)), softmax(x * sigmoid(x)))
    assert len(graphs) == 1


def test_one_graph_serves_every_number():
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(ops.swish, fullgraph=True, backend=backend)
    for beta in (1.0, 2.0, 3.5, 4.0):
        np.testing.assert_allclose(compiled(torch.tensor(X), beta),
                                   X * sigmoid(beta * X))
    assert len(graphs) == 2  # PyTorch leaves a float open when it has changed


def test_an_optimiser_changes_its_arrays():
    def step(parameter, gradient, m, v):
        ops.adam_step(parameter, gradient, m, v, step=1)

    def state():
        return [torch.tensor(X[k]) for k in range(2)] + [
            torch.zeros(4, dtype=torch.float64) for _ in range(2)]

    ours, compiled = state(), state()
    step(*ours)
    torch.compile(step, fullgraph=True, backend="aot_eager")(*compiled)
    torch.testing.assert_close(compiled, ours)
    assert not torch.equal(ours[0], torch.tensor(X[0]))


def test_complex_gradients_are_pytorchs():
    z = np.array([1 + 2j, -0.5 + 1j, 2 - 1j])
    a, b = (torch.tensor(z, requires_grad=True) for _ in range(2))
    torch.compile(lambda z: ops.abs(ops.multiply(z, z)).sum(), fullgraph=True,
                  backend="aot_eager")(a).backward()
    (b * b).abs().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("options", [{}, {"mode": "reduce-overhead"}])
def test_inductor(options):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(4, dtype=torch.float64))

        def forward(self, x):
            return ops.linear(ops.swish(x), self.weight, activation="gelu").sin()

    block = Block()
    compiled = torch.compile(block, fullgraph=True, **options)
    x = torch.tensor(X)
    compiled(x).square().sum().backward()
    found, block.weight.grad = block.weight.grad, None
    expected = block(x)
    np.testing.assert_allclose(compiled(x).detach(), expected.detach())
    expected.square().sum().backward()
    np.testing.assert_allclose(found, block.weight.grad)


def test_a_graph_has_one_node_for_an_operation():
    from torch.fx.experimental.proxy_tensor import make_fx

    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(lambda x: ops.layer_norm(x, x[0], x[1]), tracing_mode=mode)(
            torch.tensor(X)).graph
        names = [str(n.target) for n in graph.nodes if n.op == "call_function"]
        assert [n for n in names if n.startswith("nbfused.layer_norm")] == [names[-1]]
        assert not any("empty" in n for n in names)


def test_what_follows_a_call_may_be_another():
    """Layouts, dtypes, addresses, numbers and settings that change after a call."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: ops.swish(x, 2.0))(torch.tensor(X)).graph
    op = next(n.target for n in graph.nodes if "nbfused" in str(n.target))
    x = torch.tensor(X)
    buffer = torch.tensor(np.concatenate([[0.0], X.reshape(-1)]))
    givens = [x, x, x[:4], x.T, x.to(torch.float32), buffer[1:], x[:, ::2], x,
              x.to(torch.float16), x[:0], x.reshape(-1), x]
    for given in givens:
        for beta in (2.0, 3, 0.5, 0.5):
            exact = given.to(torch.float64).numpy()
            found = op(given, beta)
            assert found.dtype == given.dtype
            assert found.is_contiguous()
            np.testing.assert_allclose(
                found.to(torch.float64), exact * sigmoid(beta * exact),
                rtol=4 * torch.finfo(given.dtype).eps, atol=1e-7)
    op(x, 2.0)
    op(x, 2.0)
    with nf.trace_launches() as launches:
        op(x, 2.0)
    assert [launch.name for launch in launches] == ["swish"]
    with nf.use_backend("cpu"):
        np.testing.assert_allclose(op(x, 2.0), X * sigmoid(2 * X))


def test_a_cotangent_that_is_passed_on_takes_no_operation():
    graphs = []

    def keep(graph, examples):
        graphs.append(graph)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    compiled = torch.compile(lambda x, y: ops.add(x, ops.multiply(y, y)),
                             backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    x, y = (torch.tensor(X, requires_grad=True) for _ in range(2))
    compiled(x, y).sum().backward()
    np.testing.assert_array_equal(x.grad, np.ones_like(X))
    np.testing.assert_allclose(y.grad, 2 * X)
    names = [str(n.target) for n in graphs[1].graph.nodes if "nbfused" in str(n.target)]
    assert len(names) == 1
    assert "multiply" in names[0]


def test_modes_see_operations():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.tensor(X)
    ops.swish(x)
    with Watch():
        y = ops.swish(x)
    assert len(seen) == 1
    assert seen[0].startswith("nbfused.swish")
    np.testing.assert_allclose(y, X * sigmoid(X))


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpoints(reentrant):
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return checkpoint(lambda t: ops.swish(t).sin(), x, use_reentrant=reentrant)

    for function in (block, torch.compile(block, fullgraph=not reentrant,
                                          backend="aot_eager")):
        x = torch.tensor(X, requires_grad=True)
        function(x).square().sum().backward()
        np.testing.assert_allclose(
            x.grad, differences(lambda t: np.sin(t * sigmoid(t)), X), rtol=1e-5,
            atol=1e-7)


def test_autocast_changes_nothing():
    x = torch.tensor(X, dtype=torch.float32)
    compiled = torch.compile(lambda x: ops.matmul(x, x.T), fullgraph=True,
                             backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.float32
        assert (x @ x.T).dtype == torch.bfloat16


def test_indices_are_checked_when_the_program_runs():
    compiled = torch.compile(lambda x, i: ops.take(x, i, axis=0), fullgraph=True,
                             backend="aot_eager")
    x = torch.tensor(X)
    np.testing.assert_array_equal(compiled(x, torch.tensor([5, -6])), X[[5, 0]])
    with pytest.raises(RuntimeError, match="out of range for axis 0"):
        compiled(x, torch.tensor([6, 0]))


def test_integers_have_to_fit():
    compiled = torch.compile(lambda x, n: ops.multiply(x, n), fullgraph=True,
                             backend="aot_eager", dynamic=True)
    x = torch.tensor([1, 2], dtype=torch.uint8)
    assert compiled(x, 3).tolist() == [3, 6]
    with pytest.raises(Exception, match="out of range for uint8"):
        compiled(x, 300)


def test_twenty_operations_add_little_to_compilation():
    def model(x):
        for k in range(5):
            x = ops.add(ops.softmax(ops.linear(ops.swish(x), x, activation="tanh")),
                        float(k))
        return x

    x = torch.tensor(X[:4])
    expected = model(x)  # the kernels are there
    torch.compile(lambda x: x + 1, backend="aot_eager")(x)  # and the compiler
    start = time.perf_counter()
    found = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    taken = time.perf_counter() - start
    np.testing.assert_allclose(found, expected)
    assert taken < 3.0  # 0.15 s on a machine that does nothing else


@pytest.mark.parametrize("order", ["torch._dynamo, nbfused", "nbfused, torch._dynamo"])
def test_the_order_of_imports_does_not_matter(order, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""\
import {order}
import torch, nbfused as nf

@nf.elementwise
def square(x):
    return x * x

compiled = torch.compile(lambda x: square(nf.ops.exp(x)), fullgraph=True,
                         backend="aot_eager")
assert torch.allclose(compiled(torch.ones(2)), torch.ones(2).exp() ** 2)
""")
    subprocess.run([sys.executable, program], check=True, timeout=120,
                   env={**os.environ, "PYTHONPATH": str(ROOT)})
