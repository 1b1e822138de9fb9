"""vmap: the same as a loop over samples, in as many launches as one sample takes."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    KernelTypeError,
    NotDifferentiableError,
    RangeError,
    ShapeError,
)

pytestmark = pytest.mark.interpreted

RNG = np.random.default_rng(2)
W, B = RNG.normal(size=(3, 4)), RNG.normal(size=4)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 4))


def loss(p, x, y):
    hidden = nf.ops.tanh(x @ p["w"] + p["b"])
    return ((nf.ops.softmax(hidden) - y) ** 2).sum()


P = {"w": W, "b": B}


def loop(f, *args):
    return np.stack([f(*[a[k] for a in args]) for k in range(len(args[0]))])


def each(f, axes, args):
    """The results of a loop: a tuple of stacks of what `f` gives as a tuple."""
    found = [f(*[a if axis is None else np.take(a, k, axis)
                 for a, axis in zip(args, axes, strict=True)]) for k in range(6)]
    return [np.stack(x) for x in zip(*found, strict=True)]


def test_gradients_of_each_sample():
    found = nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))(P, X, Y)
    for name in P:
        want = loop(lambda x, y, n=name: nf.grad(loss)(P, x, y)[n], X, Y)
        np.testing.assert_allclose(found[name], want, rtol=1e-12)
        assert type(found[name]) is np.ndarray


def test_against_torch():
    torch = pytest.importorskip("torch")

    def theirs(w, b, x, y):
        hidden = torch.tanh(x @ w + b)
        return ((torch.softmax(hidden, -1) - y) ** 2).sum()

    t = [torch.tensor(a) for a in (W, B, X, Y)]
    wants = torch.func.vmap(torch.func.grad(theirs, argnums=(0, 1)),
                            in_dims=(None, None, 0, 0))(*t)
    found = nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))(
        {"w": t[0], "b": t[1]}, t[2], t[3])
    for ours, want in zip(found.values(), wants, strict=True):
        assert isinstance(ours, torch.Tensor)
        np.testing.assert_allclose(ours, want, rtol=1e-10)


def test_as_many_launches_for_many_samples():
    counts = []
    for n in (2, 6):
        with nf.trace_launches() as launches:
            nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))(P, X[:n], Y[:n])
        counts.append(len(launches))
    with nf.trace_launches() as launches:
        nf.grad(loss)(P, X[0], Y[0])
    assert counts[0] == counts[1] <= len(launches) + 1


@pytest.mark.parametrize("transform", ["value_and_grad", "jvp", "vjp", "hessian"])
def test_transforms_inside(transform):
    def one(w, x, y):
        f = lambda w: loss({"w": w, "b": B}, x, y)  # noqa: E731
        if transform == "value_and_grad":
            return nf.value_and_grad(f)(w)
        if transform == "jvp":
            return nf.jvp(f, (w,), (w * 2.0,))
        if transform == "vjp":
            value, pullback = nf.vjp(f, w)
            return value, pullback(value * 3.0)[0]
        return (nf.hessian(f)(w),)

    axes = (None, 0, 0)
    found = nf.vmap(one, axes)(W, X, Y)
    for ours, want in zip(found, each(one, axes, (W, X, Y)), strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("inner", ["loss", "gradient"])
def test_derivatives_outside(inner):
    """Also of what is differentiated inside: the tape outside sees batched ops."""
    def one(w, x, y):
        if inner == "loss":
            return loss({"w": w, "b": B}, x, y)
        return (nf.grad(lambda w: loss({"w": w, "b": B}, x, y))(w) ** 2).sum()

    def by_vmap(w, x):
        return nf.vmap(one, (None, 0, 0))(w, x, Y).sum()

    def by_loop(w, x):
        return sum(one(w, x[k], Y[k]) for k in range(6))

    for ours, want in zip(nf.grad(by_vmap, argnums=(0, 1))(W, X),
                          nf.grad(by_loop, argnums=(0, 1))(W, X), strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-10, atol=1e-13)


def test_a_closed_over_variable_gets_its_gradient():
    w = nf.Variable(W, requires_grad=True)
    nf.vmap(lambda x, y: loss({"w": w, "b": B}, x, y))(X, Y).sum().backward()
    want = nf.grad(lambda w: sum(loss({"w": w, "b": B}, x, y)
                                 for x, y in zip(X, Y, strict=True)))(W)
    np.testing.assert_allclose(w.grad, want, rtol=1e-12)


def test_no_grad_and_stop_gradient_are_heard_outside():
    def one(x):
        with nf.no_grad():
            constant = nf.ops.sin(x)
        return (constant * x + nf.stop_gradient(x) * x).sum()

    found = nf.grad(lambda x: nf.vmap(one)(x).sum())(X)
    np.testing.assert_allclose(found, np.sin(X) + X)


def test_a_gradient_inside_does_not_hide_the_one_outside():
    """A backward pass inside does not record; the tape outside still does."""
    found = nf.grad(lambda x: nf.vmap(nf.grad(lambda v: (v ** 3).sum()))(x).sum())(X)
    np.testing.assert_allclose(found, 6 * X)


def test_inside_no_grad_nothing_is_recorded():
    x = nf.Variable(X, requires_grad=True)
    with nf.no_grad():
        found = nf.vmap(nf.grad(lambda v: (v ** 3).sum()))(x)
    assert not found.requires_grad
    np.testing.assert_allclose(found.to_numpy(), 3 * X ** 2)


def test_nested():
    found = nf.vmap(lambda x: nf.vmap(lambda y: (x * y[:3]).sum())(Y))(X)
    np.testing.assert_allclose(found, X @ Y[:, :3].T)
    mixed = nf.vmap(lambda x: nf.grad(lambda x: nf.vmap(
        lambda y: (x * y[:3]).sum() ** 2)(Y).sum())(x))(X)
    np.testing.assert_allclose(mixed, 2 * (X @ Y[:, :3].T) @ Y[:, :3])


def test_inside_fuse():
    fused = nf.fuse(nf.vmap(nf.grad(loss), in_axes=(None, 0, 0)))
    want = nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))(P, X, Y)
    for n in (6, 6, 6, 4):  # traced, planned, run; and another number of samples
        found = fused(P, X[:n], Y[:n])
        for name in P:
            np.testing.assert_allclose(found[name], want[name][:n], rtol=1e-12)
    assert len(fused.explain(P, X, Y)) <= 8


def test_of_a_fused_function():
    found = nf.vmap(nf.fuse(lambda x: nf.ops.softmax(x) * 2.0))(X)
    np.testing.assert_allclose(found.sum(1), 2.0)


@pytest.mark.parametrize("axes", [(0, 0, 0), (1, 0, 0), (-1, 0, -1), (0, None, 1)])
def test_axes(axes):
    source, shared, target = axes
    given = np.moveaxis(np.stack([X, 2 * X], -1), 0, source)
    other = X if shared == 0 else X[0]
    found = nf.vmap(lambda x, y: nf.ops.stack([x[:, 0] * y, x[:, 1]]),
                    (source, shared), target)(given, other)
    want = np.stack([X * (X if shared == 0 else X[0]), 2 * X], 1)
    np.testing.assert_allclose(found, np.moveaxis(want, 0, target))


def test_trees_of_axes():
    def f(p, x, *, scale):
        return {"a": p["w"] * x, "b": [x.sum(), 2.0, scale]}

    found = nf.vmap(f, in_axes=({"w": None, "b": 0}, 1), out_axes={"a": 1, "b": 0})(
        {"w": B[:3], "b": X}, X.T, scale=np.arange(6.0))
    np.testing.assert_allclose(found["a"], (B[:3] * X).T)
    np.testing.assert_allclose(found["b"][0], X.sum(1))
    np.testing.assert_array_equal(found["b"][1], np.full(6, 2.0))
    np.testing.assert_array_equal(found["b"][2], np.arange(6.0))


def test_results_that_no_sample_changes():
    shared = nf.vmap(lambda x: nf.ops.sin(B), out_axes=None)(X)
    np.testing.assert_allclose(shared, np.sin(B))
    repeated = nf.vmap(lambda x: nf.ops.sin(B))(X)
    np.testing.assert_allclose(repeated, np.tile(np.sin(B), (6, 1)))
    repeated[0] = 0  # memory of its own for each
    np.testing.assert_allclose(repeated[1], np.sin(B))


def test_results_are_apart_from_arguments():
    given = X.copy()
    same = nf.vmap(lambda x: x)(given)
    same[...] = 0
    np.testing.assert_array_equal(given, X)


def test_numbers_of_each_sample():
    found = nf.vmap(lambda x, rate: x * rate + 1.0)(X, np.arange(6.0))
    np.testing.assert_allclose(found, X * np.arange(6.0)[:, None] + 1)
    found = nf.vmap(lambda a, b: np.sin(a) ** 2 + b)(X[:, 0], X[:, 1])
    np.testing.assert_allclose(found, np.sin(X[:, 0]) ** 2 + X[:, 1])


def test_no_samples():
    assert nf.vmap(lambda x: x * 2.0)(np.ones((0, 3))).shape == (0, 3)
    assert nf.vmap(nf.grad(lambda x: (x ** 2).sum()))(np.ones((0, 3))).shape == (0, 3)


def test_rules_of_ones_own():
    """A rule that is not the derivative is seen from inside and from outside."""
    @nf.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, g: (g * 5.0 * x,))
    one = lambda x: f(x).sum()  # noqa: E731
    np.testing.assert_allclose(nf.vmap(nf.grad(one))(X), 5 * X)
    np.testing.assert_allclose(nf.grad(lambda x: nf.vmap(one)(x).sum())(X), 5 * X)
    shared = nf.grad(lambda w: nf.vmap(lambda x: (f(w) * x).sum())(X).sum())(B[:3])
    np.testing.assert_allclose(shared, 5 * B[:3] * X.sum(0))
    mixed = nf.grad(lambda x: nf.vmap(nf.grad(one))(x).sum())(X)
    np.testing.assert_allclose(mixed, np.full_like(X, 5.0))


class Seven(nf.Function):
    """A backward that is seen to be called."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g * 7.0


def test_functions_with_a_backward():
    np.testing.assert_allclose(nf.vmap(Seven.apply)(X), X * X)
    found = nf.vmap(nf.grad(lambda x: Seven.apply(x).sum()))(X)
    np.testing.assert_allclose(found, 7 * X)
    with pytest.raises(NotDifferentiableError, match=r"Seven is an nf.Func.*"
                                                               r"nf.custom_vjp"):
        nf.grad(lambda x: nf.vmap(lambda v: Seven.apply(v).sum())(x).sum())(X)


@pytest.mark.parametrize(("f", "message"), [
    (lambda x: x if x[0] > 0 else -x, "if, while"),
    (lambda x: float(x[0]), r"float\(\)"),
    (lambda x: np.asarray(x), r"numpy.stack\(\[x, y\]\).*numpy.zeros_like\(x\)"),
    (lambda x: x.item(), r"item\(\)"),
    (lambda x: x.to_numpy(), r"to_numpy\(\)"),
    (lambda x: nf.ops.add(x, x, out=x), "leave out= away"),
    (lambda x: "text", "returned a str as result"),
], ids=["if", "float", "array", "item", "numpy", "out", "text"])
def test_what_needs_values_is_refused(f, message):
    with pytest.raises(KernelTypeError, match=message):
        nf.vmap(f)(X)


def test_a_placeholder_does_not_escape():
    kept = []
    nf.vmap(lambda x: kept.append(x) or x)(X)
    with pytest.raises(KernelTypeError, match="used after the call"):
        kept[0] * 2.0


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: nf.vmap(loss)({"w": W, "b": B}, X, Y), ShapeError,
     r"args\[0\]\['b'\] has 4 samples and args\[0\]\['w'\] has 3"),
    (lambda: nf.vmap(lambda x, y: x)(X, 2.0), KernelTypeError,
     r"args\[1\] is the number 2.0, which has no axis"),
    (lambda: nf.vmap(lambda x: x, in_axes=2)(X), RangeError,
     r"in_axes has 2 for args\[0\] of shape \(6, 3\)"),
    (lambda: nf.vmap(lambda x: x, in_axes=None)(X), ShapeError, "nothing that"),
    (lambda: nf.vmap(lambda x: x, in_axes="a")(X), KernelTypeError, "in_axes has 'a'"),
    (lambda: nf.vmap(lambda x: x)(np.float64(1.0)), KernelTypeError, "no axis"),
    (lambda: nf.vmap(lambda x: x)(np.array(1.0)), ShapeError, "no dimensions"),
    (lambda: nf.vmap(lambda x: x, out_axes=None)(X), ShapeError, "out_axes is None"),
    (lambda: nf.vmap(lambda x, y: x, in_axes=(0,))(X, Y), ShapeError,
     "in_axes is a tuple of 1; expected a tuple of 2"),
    (lambda: nf.vmap(3), KernelTypeError, "expected a function"),
])
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_errors_of_one_sample():
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        nf.vmap(lambda x: x + np.ones(4))(X)


def test_random_numbers_are_those_of_a_sample():
    ones = np.ones((2, 50))
    found = nf.vmap(lambda x: nf.ops.dropout(x, 0.5, seed=3))(ones)
    np.testing.assert_array_equal(found[0], nf.ops.dropout(ones[0], 0.5, seed=3))
    np.testing.assert_array_equal(found[0], found[1])


def test_indices_out_of_range_are_found():
    with pytest.raises(IndexError, match="got 7"):
        nf.vmap(lambda x, k: nf.ops.take(x, k))(X, np.array([[0], [7]] * 3))


@pytest.mark.parametrize("number", [2.0, np.float64(2.0), np.array(2.0)])
def test_numbers_that_are_differentiated_by(number):
    """NumPy's scalars were constants to the placeholders, with gradients of zero."""
    x = np.arange(12.0).reshape(4, 3)
    found = nf.vmap(nf.grad(lambda p, x: (x * p[0]).sum() * p[1]),
                    in_axes=(None, 0))([np.ones(3), number], x)
    np.testing.assert_array_equal(found[0], 2 * x)
    np.testing.assert_array_equal(found[1], x.sum(1))


def test_the_cotangent_of_a_loss_is_one_number_for_all_samples():
    x = np.arange(12.0).reshape(4, 3)
    each = nf.vmap(nf.grad(lambda x: (x * x).sum() * 3))
    each(x)
    with nf.trace_launches() as launches:
        np.testing.assert_array_equal(each(x), 6 * x)
    assert {launch.shape for launch in launches
            if launch.name in ("ones_like", "multiply_vjp")} >= {(1,)}


def test_later_calls_are_direct(monkeypatch):
    from nbfused.autograd.calls import samples

    def f(x, power, row):
        return (x * power + row).sum() * nf.ops.set_at(x, x[1], index=0)

    mapped = nf.vmap(nf.grad(lambda *args: f(*args).sum()), in_axes=(0, None, None))
    rows = np.arange(3.0)
    expected = {power: np.stack([nf.grad(lambda x, p=power: f(x, p, rows).sum())(x)
                                 for x in X]) for power in (2, 3, 6)}
    mapped(X, 2, rows)
    mapped(X, 2, rows)

    def refuse(*args):
        raise AssertionError("checked again")

    monkeypatch.setattr(samples, "_rule", refuse)
    for power, want in expected.items():  # other numbers, also those of extents
        np.testing.assert_allclose(mapped(X, power, rows), want, rtol=1e-13)
        np.testing.assert_allclose(mapped(X.copy(), power, rows + 0), want, rtol=1e-13)
    monkeypatch.undo()
    np.testing.assert_allclose(mapped(X[::2], 2, rows), expected[2][::2], rtol=1e-13)
    np.testing.assert_allclose(
        mapped(X.astype(np.float32), 2, rows), expected[2], rtol=1e-5)
