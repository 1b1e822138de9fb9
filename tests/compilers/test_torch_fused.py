"""A fused function in a program that PyTorch compiles: one op, one for its gradient."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import nbfused as nf  # noqa: E402
from nbfused import ops  # noqa: E402
from nbfused.errors import KernelTypeError  # noqa: E402

X = np.random.default_rng(5).standard_normal((6, 4))
W = np.linspace(0.5, 1.5, 4)


LAYER = torch.nn.Linear(4, 3, dtype=torch.float64)


@pytest.fixture(autouse=True)
def _fresh():
    yield
    torch._dynamo.reset()


@nf.fuse
def by_numpy(x, w):
    y = np.tanh(x*w + 1)
    return y - y.mean(axis=-1, keepdims=True), (y*y).sum()


@nf.fuse
def by_ops(x, w):
    y = ops.tanh(ops.add(ops.multiply(x, w), 1.0))
    return ops.subtract(y, ops.mean(y, axis=-1, keepdims=True)), ops.sum(y*y)


@nf.fuse
def by_torch(x, w):
    y = torch.tanh(x*w + 1)
    return y - y.mean(-1, keepdim=True), (y*y).sum()


def plain(x, w):
    y = torch.tanh(x*w + 1)
    return y - y.mean(-1, keepdim=True), (y*y).sum()


def program(function):
    def run(x, w):
        centred, total = function(torch.sin(x), w)
        return (centred**3).sum() + total

    return run


def compiled(function, graphs, **options):
    def keep(graph, examples):
        graphs.append([str(n.target) for n in graph.graph.nodes
                       if n.op == "call_function" and "nbfused" in str(n.target)])
        return graph.forward

    return torch.compile(function, fullgraph=True, **options, backend=aot_autograd(
        fw_compiler=keep, bw_compiler=keep))


def leaves(rows=6):
    return [torch.tensor(a, requires_grad=True) for a in (X[:rows], W)]


def gradients(function, arguments):
    loss = function(*arguments)
    loss.backward()
    return [loss.detach(), *[x.grad for x in arguments]]


@pytest.mark.parametrize("function", [by_numpy, by_ops, by_torch],
                         ids=lambda f: f.__name__)
def test_one_op_forward_and_one_backward(function):
    graphs = []
    found = gradients(compiled(program(function), graphs), leaves())
    for a, b in zip(found, gradients(program(plain), leaves()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert [len(names) for names in graphs] == [1, 1]
    assert function.__name__ in graphs[0][0]
    assert "gradient" in graphs[1][0]


def test_extents_may_stay_open():
    graphs = []
    run = compiled(program(by_numpy), graphs, dynamic=True)
    for rows in (2, 3, 5):
        found = gradients(run, leaves(rows))
        wanted = gradients(program(plain), leaves(rows))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert [len(names) for names in graphs] == [1, 1]


def test_other_arguments_are_other_ops():
    graphs = []
    run = compiled(program(by_numpy), graphs)
    x, w = leaves()
    assert run(x, w).dtype == torch.float64
    single = run(x.detach().float(), w.detach().float())
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, run(x, w).detach(), rtol=1e-5)


@nf.fuse
def changing(x):
    x += 1
    return x*2


@nf.fuse
def viewing(x):
    return x[1:], x*2


@nf.fuse
def multiplying(x):
    return ops.matmul(x, x.T) + 1


@nf.fuse
def counting(x, n):
    return x*n


def view_program(x):
    part, double = viewing(x)
    return part + double[1:]


@pytest.mark.parametrize("function", [
    lambda x: changing(x*1), view_program, lambda x: multiplying(x),
    lambda x: counting(x, 2.0)], ids=["changes", "views", "products", "numbers"])
def test_what_is_no_single_op_is_traced_in_steps(function):
    graphs = []
    x = torch.tensor(X)
    found = compiled(function, graphs)(x)
    np.testing.assert_allclose(found, function(torch.tensor(X)), rtol=1e-12)
    assert not any(n.startswith(f"nbfused.{f.__name__}") for names in graphs
                   for n in names for f in (changing, viewing, multiplying, counting))


def test_a_change_of_an_argument_is_seen():
    @nf.fuse
    def grows(x):
        x += 1
        return x.sum()

    x = torch.zeros(3)
    total = torch.compile(lambda t: grows(t), fullgraph=True, backend="aot_eager")(x)
    assert (float(total), x.tolist()) == (3, [1, 1, 1])


def test_results_do_not_share_memory():
    @nf.fuse
    def twice(x):
        y = x*2
        return y, y[1:]

    def run(x):
        a, b = twice(x)
        a.add_(1)
        return a, b

    a, b = torch.compile(run, fullgraph=True, backend="aot_eager")(torch.tensor(X))
    np.testing.assert_allclose(a, X*2 + 1)
    assert b.shape == (5, 4)


def test_transforms_inside_of_a_compiled_program():
    def run(x, w):
        return torch.func.vmap(torch.func.grad(lambda row: by_ops(row, w)[1]))(x)

    x, w = torch.tensor(X), torch.tensor(W)
    found = torch.compile(run, fullgraph=True, backend="aot_eager")(x, w)
    y = np.tanh(X*W + 1)
    np.testing.assert_allclose(found, 2*y*(1 - y*y)*W, rtol=1e-12)


def test_an_exported_program_has_the_steps():
    class Model(torch.nn.Module):
        def forward(self, x):
            return by_ops(x, torch.ones(4, dtype=torch.float64))[0]

    exported = torch.export.export(Model(), (torch.tensor(X),))
    names = [str(n.target) for n in exported.graph.nodes if "nbfused" in str(n.target)]
    assert len(names) > 1
    np.testing.assert_allclose(exported.module()(torch.tensor(X)),
                               plain(torch.tensor(X), torch.ones(4))[0], rtol=1e-6)


def test_inductor_agrees():
    found = gradients(torch.compile(program(by_numpy), fullgraph=True), leaves())
    for a, b in zip(found, gradients(program(plain), leaves()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_random_numbers_of_pytorch_are_drawn_once():
    @nf.fuse
    def noisy(x):
        return ops.exp(x*torch.rand(4, dtype=torch.float64))

    x = torch.tensor(X, requires_grad=True)
    y = torch.compile(lambda t: noisy(t), fullgraph=True, backend="aot_eager")(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, (y*torch.log(y)/x).detach(), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedPerformanceWarning")
def test_other_random_numbers_are_not_differentiated():
    @nf.fuse
    def noisy(x):
        return ops.exp(x*torch.as_tensor(np.random.default_rng().standard_normal(4)))

    x = torch.tensor(X, requires_grad=True)
    y = torch.compile(lambda t: noisy(t), fullgraph=True, backend="aot_eager")(x)
    with pytest.raises(KernelTypeError, match="pass them as arguments"):
        y.sum().backward()


@nf.fuse
def losses(p, x):
    y = torch.tanh(p["w"]*x)
    return {"loss": (y*y).sum(), "parts": (y, {"twice": 2*y}), "rank": x.ndim}


def sum_of(losses):
    def run(p, x):
        found = losses(p, torch.sin(x))
        return found["loss"]*found["rank"] + found["parts"][1]["twice"].sum()

    return run


def test_a_dictionary_of_results_is_refused_where_nothing_may_break():
    p, x = {"w": torch.tensor(W)}, torch.tensor(X)
    with pytest.raises(torch._dynamo.exc.Unsupported,
                       match=r"losses returns dict.*nonstrict_trace\(losses\)"):
        torch.compile(sum_of(losses), fullgraph=True, backend="aot_eager")(p, x)


@pytest.mark.parametrize(("function", "whole"), [
    (losses, False), (torch._dynamo.nonstrict_trace(losses), True)])
def test_a_dictionary_of_results(function, whole):
    p, x = {"w": torch.tensor(W, requires_grad=True)}, torch.tensor(X)
    run = torch.compile(sum_of(function), fullgraph=whole, backend="aot_eager")
    found, = torch.autograd.grad(run(p, x), p["w"])
    expected, = torch.autograd.grad(sum_of(losses)(p, x), p["w"])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


GLOBAL = torch.ones(4, dtype=torch.float64)


@nf.fuse
def scaled(x):
    return torch.tanh(x)*GLOBAL


def test_tensors_of_globals_break_the_graph():
    x = torch.tensor(X)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="scaled reads GLOBAL"):
        torch.compile(lambda x: scaled(x) + 1, fullgraph=True, backend="aot_eager")(x)
    run = torch.compile(lambda x: scaled(x) + 1, backend="aot_eager")
    for k in range(1, 3):
        GLOBAL.fill_(k)
        np.testing.assert_allclose(run(x), k*np.tanh(X) + 1, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:fuse. fused reads LAYER")
def test_parameters_of_modules_break_the_graph():
    fused = nf.fuse(lambda x: LAYER(x) + 1)
    x = torch.tensor(X)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="reads tensors from outs"):
        torch.compile(lambda x: fused(x)*2, fullgraph=True, backend="aot_eager")(x)
    run = torch.compile(lambda x: fused(x)*2, backend="aot_eager")
    torch.testing.assert_close(run(x), 2*(LAYER(x) + 1))


def test_where_a_graph_breaks_nothing_of_ours_is_compiled():
    frames = []

    def keep(graph, examples):
        frames.append([str(n.target) for n in graph.graph.nodes])
        return graph.forward

    torch.compile(sum_of(losses), backend=keep)({"w": torch.tensor(W)}, torch.tensor(X))
    assert len(frames) == 2, frames  # before the call, and behind it


def test_functions_of_numpy_in_steps():
    @nf.fuse
    def scaled(x, w, k):
        y = np.tanh(x @ w * k)  # a product and a number: no single op
        return y - np.mean(y)

    def loss(x, w):
        return (scaled(x, w, float(x.shape[0])) ** 3).sum()

    torch._dynamo.reset()
    run = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (6, 3):
        w = torch.tensor(np.diag(W), requires_grad=True)
        x = torch.tensor(X[:rows])
        found, = torch.autograd.grad(run(x, w), w)
        y = torch.tanh(x @ w * rows)
        expected, = torch.autograd.grad(((y - y.mean()) ** 3).sum(), w)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
