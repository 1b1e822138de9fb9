"""Every derivative rule in every place that reads it, each against a closed form.

The rules are no derivatives: factors tell which rule was used, and how often.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NotDifferentiableError
from tests.refusal import refused
from tests.variants import sampled, sampled_together

X, Y = np.array([0.5, 2.0, -1.5]), np.array([3.0, -1.0, 0.5])
OLD, NEW = 2.0, 3.0


# Functions: C x y², whose rules say 10 C y² and 30 C x y ---------------------------

def function(rules, decorate, C):
    @decorate
    def f(x, y):
        return C * x * y * y

    def pull(x, y, g):
        return 10 * C * y * y * g, 30 * C * x * y * g

    def recursive(x, y, g):
        return 10 * f(x, y) / x * g, 30 * f(x, y) / y * g

    def push(x, y, dx, dy):
        return 10 * C * y * y * dx + 30 * C * x * y * dy

    def push_recursive(x, y, dx, dy):
        return 10 * f(x, y) / x * dx + 30 * f(x, y) / y * dy

    if "vjp" in rules:
        f.defvjp(recursive if "recursive" in rules else pull)
    if "jvp" in rules:
        f.defjvp(push_recursive if "recursive" in rules else push)
    return f


def second(rules, c):
    """How the first gradient changes with x, and with y."""
    if "recursive" not in rules:  # the derivative of what the rule says
        return np.zeros(3), 20 * c * Y
    return 90 * c * Y * Y / X, 300 * c * Y  # again by the rule


def call(f):
    return nf.elementwise(lambda x, y: f(x, y))


def keywords(f):
    return nf.elementwise(lambda x, y: f(y=y, x=x))


def branch(f):
    def chosen(x, y):
        z = 0.0
        for k in range(2):
            if k == 1:
                z = f(x, y)
        return z

    return nf.elementwise(chosen)


def traced(f):
    """What has no source is run on symbols."""
    names = {"f": f}
    exec("def unwritten(x, y): return f(x, y)", names)
    return nf.elementwise(names["unwritten"])


def fused(f):
    g = call(f)
    return nf.fuse(lambda x, y: g(x, y) * 1.0)


def in_kernel(f):
    @nf.rawkernel(differentiable=True)
    def kernel(x, y, z):
        i = nf.grid(1)
        if i < x.shape[0]:
            z[i] = f(x[i], y[i])

    return kernel.as_op(outputs={"z": "x"}, grid=1, block=4)


RULES = ["vjp", "jvp", "vjp jvp", "recursive vjp", "recursive jvp"]
PLACES = [call, keywords, branch, traced, fused]


def on(device, *arrays):
    return [nf.array(a, device=device) for a in arrays]


def check_first(place, c, device):
    x, y = on(device, X, Y)
    np.testing.assert_allclose(nf.to_numpy(place(x, y)), c * X * Y * Y)
    for k, slope in ((0, 10 * c * Y * Y), (1, 30 * c * X * Y)):
        found = nf.grad(lambda x, y: place(x, y).sum(), k)(x, y)
        np.testing.assert_allclose(nf.to_numpy(found), slope)


@pytest.mark.filterwarnings("ignore:fuse:UserWarning")
@pytest.mark.parametrize(("decorate", "place", "specialised"), sampled_together(
    [(*way, specialised) for way in (
        *((nf.func, place) for place in PLACES), (nf.elementwise, call))
     for specialised in (False, True)],
    (nf.func, fused, True), (nf.elementwise, call, False)))
@pytest.mark.parametrize("rules", RULES)
def test_reverse_forward_and_second_order(rules, decorate, place, specialised, device):
    f, c = function(rules, decorate, OLD), OLD
    if specialised:
        f, c = nf.specialize(f, C=NEW), NEW
    made = place(f)
    check_first(made, c, device)
    x, y = on(device, X, Y)
    pushed = [nf.jvp(made, (x, y), tuple(on(device, Y, X)))[1]]
    if place is not fused:
        pushed.append(nf.tangent(made)(x, y, *on(device, Y, X)))
    for tangent in pushed:
        np.testing.assert_allclose(nf.to_numpy(tangent),
                                   10 * c * Y**3 + 30 * c * X * X * Y)
    first = nf.grad(lambda x, y: made(x, y).sum())
    for k, slope in enumerate(second(rules, c)):
        found = nf.grad(lambda x, y: first(x, y).sum(), k)(x, y)
        np.testing.assert_allclose(nf.to_numpy(found), slope, atol=1e-12)


@pytest.mark.parametrize("rules", sampled(RULES, "vjp"))
def test_specialised_from_outside(rules, device):
    f = function(rules, nf.func, OLD)
    for place in (call(f), branch(f)):
        check_first(nf.specialize(place, C=NEW), NEW, device)
        check_first(place, OLD, device)


@pytest.mark.parametrize("rules", sampled(RULES, "recursive vjp"))
def test_functions_in_kernels(rules, device):
    f = function(rules, nf.func, OLD)
    for c, op in ((OLD, in_kernel(f)), (NEW, in_kernel(nf.specialize(f, C=NEW)))):
        check_first(op, c, device)
        x, y, dx, dy, z, dz = on(device, X, Y, Y, X, 0 * X, 0 * X)
        op.kernel.fwd[1, 4]((x, dx), (y, dy), (z, dz))
        np.testing.assert_allclose(nf.to_numpy(dz),
                                   10 * c * Y**3 + 30 * c * X * X * Y)
        first = nf.grad(lambda x, y, op=op: op(x, y).sum())
        with refused(NotDifferentiableError, "kernel", "rule by hand"):
            nf.grad(lambda x, y, first=first: first(x, y).sum())(x, y)


SCALE = 2.0


@nf.func
def by_globals(x):
    return SCALE * x


@by_globals.defvjp
def pull_by_globals(x, g):
    return 10 * SCALE * by_globals(g)


@nf.elementwise
def calls_by_globals(x):
    return by_globals(x) + 1


def test_constants_that_are_globals():
    for kernel in (by_globals, calls_by_globals):
        for c, f in ((2, kernel), (5, nf.specialize(kernel, SCALE=5.0))):
            assert nf.derivative(f)(3.0, 1.0) == 10 * c * c
    twice = nf.specialize(nf.specialize(calls_by_globals, SCALE=5.0), SCALE=7.0)
    assert (twice(1.0), nf.grad(twice)(1.0)) == (8.0, 490.0)


# Kernels: z = C x w n, whose rule says 10 C w n and 30 C x n -----------------------

def kernel(C, rules="bwd fwd", order="as declared"):
    @nf.rawkernel(differentiable=True)
    def scaled(x, w, z, n):
        i = nf.grid(1)
        if i < n:
            z[i] = C * x[i] * w[i] * n

    def pull(x, w, z, n):
        i = nf.grid(1)
        if i < n:
            x.derivative[i] += 10 * C * w.primal[i] * n * z.derivative[i]
            w.derivative[i] += 30 * C * x.primal[i] * n * z.derivative[i]

    def pull_reordered(n, w, z, x):
        i = nf.grid(1)
        if i < n:
            x.derivative[i] += 10 * C * w.primal[i] * n * z.derivative[i]
            w.derivative[i] += 30 * C * x.primal[i] * n * z.derivative[i]

    def push(x, w, z, n):
        i = nf.grid(1)
        if i < n:
            z.primal[i] = C * x.primal[i] * w.primal[i] * n
            z.derivative[i] = 10 * C * n * (
                w.primal[i] * x.derivative[i] + 3 * x.primal[i] * w.derivative[i])

    def push_reordered(n, w, z, x):
        i = nf.grid(1)
        if i < n:
            z.primal[i] = C * x.primal[i] * w.primal[i] * n
            z.derivative[i] = 10 * C * n * (
                w.primal[i] * x.derivative[i] + 3 * x.primal[i] * w.derivative[i])

    declared = order == "as declared"
    if "bwd" in rules:
        scaled.defvjp(pull if declared else pull_reordered)
    if "fwd" in rules:
        scaled.defjvp(push if declared else push_reordered)
    return scaled


ORDERS = ["as declared", "another"]


@pytest.mark.parametrize("specialised", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_rules_of_kernels(order, specialised, device):
    k, c = kernel(OLD, order=order), OLD
    if specialised:
        k, c = nf.specialize(k, C=NEW), NEW
    x, w, dx, dw, z, dz = on(device, X, Y, 0 * X, 0 * X, 0 * X, 1 + 0 * X)
    k[1, 4](x, w, z, 3)
    np.testing.assert_allclose(nf.to_numpy(z), 3 * c * X * Y)
    k.bwd(n=3, z=(z, dz), w=(w, dw), x=(x, dx)).launch(grid=1, block=4)
    np.testing.assert_allclose(nf.to_numpy(dx), 30 * c * Y)
    np.testing.assert_allclose(nf.to_numpy(dw), 90 * c * X)
    x, w, dx, dw, z, dz = on(device, X, Y, Y, X, 0 * X, 0 * X)
    k.fwd[1, 4]((x, dx), (w, dw), (z, dz), 3)
    np.testing.assert_allclose(nf.to_numpy(z), 3 * c * X * Y)
    np.testing.assert_allclose(nf.to_numpy(dz), 30 * c * (Y * Y + 3 * X * X))


@pytest.mark.parametrize("wanted", ["x", "w", "x w"])
@pytest.mark.parametrize("order", ORDERS)
def test_rules_of_kernels_whatever_is_wanted(order, wanted, device):
    """One text of the rule, whether an argument comes with a derivative or without."""
    k = kernel(OLD, order=order)
    op = k.as_op(outputs={"z": "x"}, grid=1, block=4)
    given = dict(zip("xw", on(device, X, Y), strict=True))
    slopes = {"x": 10 * OLD * 3 * Y, "w": 30 * OLD * 3 * X}
    variables = {n: nf.Variable(a, requires_grad=n in wanted) for n, a in given.items()}
    op(n=3, **variables).sum().backward()
    first = nf.grad(lambda v: op(n=3, **{**given, wanted[0]: v}).sum())
    np.testing.assert_allclose(nf.to_numpy(first(given[wanted[0]])), slopes[wanted[0]])
    z, dz = on(device, 0 * X, 1 + 0 * X)
    zeros = dict(zip("xw", on(device, 0 * X, 0 * X), strict=True))
    k.bwd(n=3, z=(z, dz), **{n: (a, zeros[n]) if n in wanted else a
                             for n, a in given.items()}).launch(grid=1, block=4)
    for n, slope in slopes.items():
        expected = slope if n in wanted else 0 * X
        np.testing.assert_allclose(nf.to_numpy(zeros[n]), expected)
        if n in wanted:
            np.testing.assert_allclose(nf.to_numpy(variables[n].grad), expected)
    with refused(NotDifferentiableError, "scaled", "rule by hand"):
        nf.grad(lambda v: first(v).sum())(given[wanted[0]])


@pytest.mark.parametrize(("rules", "mode", "missing", "given"), [
    ("bwd", "fwd", "@scaled.defjvp", "pull, by scaled.defvjp"),
    ("fwd", "bwd", "@scaled.defvjp", "push, by scaled.defjvp")])
def test_a_rule_of_a_kernel_has_one_direction(rules, mode, missing, given):
    k = kernel(OLD, rules)
    arrays = [a.copy() for a in (X, X, Y, Y, X, X)]
    x, w, z = zip(arrays[::2], arrays[1::2], strict=True)
    with refused(NotDifferentiableError, f"scaled.{mode}", missing, given):
        getattr(k, mode)[1, 4](x, w, z, 3)
    np.testing.assert_array_equal(arrays, [X, X, Y, Y, X, X])


def test_the_text_of_a_rule():
    """What runs, not what would without the rule."""
    k = kernel(OLD, "bwd")
    args = X.copy(), Y.copy(), 0 * X, 3
    with refused(KernelTypeError, "scaled.source('vjp')", "rule pull", "launch"):
        k.source("vjp", *args)
    k.bwd[1, 4]((args[0], 0 * X), args[1], (args[2], X.copy()), 3)
    assert "20.0" in k.source("vjp", *args)  # 10 C
    with refused(NotDifferentiableError, "scaled.fwd", "@scaled.defjvp"):
        k.source("jvp", *args)


def test_a_rule_knows_the_literals_of_its_kernel():
    @nf.rawkernel(differentiable=True)
    def power(x, y, n: nf.literal = 2):
        i = nf.grid(1)
        p = 1.0
        for _ in nf.unroll(range(n)):
            p *= x[i]
        y[i] = p

    @power.defvjp
    def rule(n, x, y):
        i = nf.grid(1)
        p = 10.0 * n
        for _ in nf.unroll(range(n - 1)):
            p *= x.primal[i]
        x.derivative[i] += p * y.derivative[i]

    for n, k, args in ((3, power, (3,)), (4, nf.specialize(power, n=4), ())):
        dx = 0 * X
        k.bwd[1, 3]((X, dx), (0 * X, 1 + 0 * X), *args)
        np.testing.assert_allclose(dx, 10 * n * X**(n - 1))


# custom_vjp: C x w, whose rule says 10 C w and 30 C x --------------------------------

@pytest.mark.filterwarnings("ignore:fuse:UserWarning")
@pytest.mark.parametrize("place", ["call", "fuse", "checkpoint"])
def test_custom_vjp(place, device):
    f = nf.custom_vjp(lambda x, w: OLD * x * w)
    f.defvjp(lambda x, w: (f(x, w), (x, w)),
             lambda xw, g: (10 * OLD * g * xw[1], 30 * OLD * g * xw[0]))
    made = {"call": f, "fuse": nf.fuse(lambda x, w: f(x, w) * 1.0),
            "checkpoint": nf.checkpoint(lambda x, w: f(x, w) * 1.0)}[place]
    x, w = on(device, X, Y)
    first = nf.grad(lambda x, w: made(x, w).sum())
    np.testing.assert_allclose(nf.to_numpy(first(x, w)), 10 * OLD * Y)
    _, tangent = nf.jvp(made, (x, w), tuple(on(device, Y, X)))
    np.testing.assert_allclose(nf.to_numpy(tangent), OLD * (10 * Y * Y + 30 * X * X))
    found = nf.grad(lambda x, w: first(x, w).sum(), 1)(x, w)
    np.testing.assert_allclose(nf.to_numpy(found), np.full(3, 10 * OLD))
