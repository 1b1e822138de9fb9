"""Every op over samples is the op of each sample: values, dtypes, gradients."""

from __future__ import annotations

from inspect import signature
from zlib import crc32

import numpy as np
import pytest

import nbfused as nf
from nbfused.registry.operations import OPS

pytestmark = pytest.mark.interpreted

COUNT = 3
#: Ops without samples to draw: they take numbers, or several arrays in one argument.
APART = {"fill", "stack", "concatenate"}
NAMES = [name for name in sorted(OPS) if OPS[name].cases and name not in APART]
#: Those that every run of the tests has: one for each spec and each way to be batched.
USUAL = {"add", "sum", "argmax", "var", "softmax", "layer_norm", "cross_entropy",
         "linear", "contract", "take", "getitem", "reshape", "broadcast_to"}


def arguments(name, case, op):
    rng = np.random.default_rng(crc32(name.encode()))
    count = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
                for p in signature(op).parameters.values())
    shapes = case.shapes or ((2, 4), (4,), (2, 1))[:count]
    found = []
    for k, shape in enumerate(shapes):
        domain = case.domain(k)
        if shape is None:
            found.append(None)
        elif len(domain) == 3:
            found.append(rng.integers(domain[0], domain[1], (COUNT, *shape)))
        else:
            x = rng.uniform(*domain, (COUNT, *shape))
            found.append(x if "f" in case.dtypes else x > 0)
    return found


def first_of(args, shared):
    return [x if x is None or k not in shared else x[0] for k, x in enumerate(args)]


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("shared", ["none", "first", "last"])
@pytest.mark.parametrize("name", [
    n if n in USUAL else pytest.param(n, marks=pytest.mark.variants) for n in NAMES])
def test_op(name, shared):
    op, case = OPS[name], OPS[name].cases[0]
    args = arguments(name, case, op)
    which = {"none": (), "first": (0,), "last": (len(args) - 1,)}[shared]
    if shared != "none" and len([x for x in args if x is not None]) < 2:
        pytest.skip("one argument")
    given = first_of(args, which)
    axes = tuple(None if x is None or k in which else 0 for k, x in enumerate(given))

    def f(*arrays):
        return op(*arrays, **case.kwargs)

    def sample(k):
        return [x if axis is None else x[k] for x, axis in zip(given, axes,
                                                               strict=True)]

    found = as_tuple(nf.vmap(f, axes)(*given))
    for k in range(COUNT):
        for ours, want in zip(found, as_tuple(f(*sample(k))), strict=True):
            assert ours.dtype == want.dtype
            np.testing.assert_allclose(ours[k], want, rtol=1e-12, atol=1e-12)
    if case.smooth and "f" in case.dtypes:
        check_gradients(f, given, axes, sample)


def check_gradients(f, given, axes, sample):
    wrt = tuple(k for k, x in enumerate(given) if x is not None and x.dtype.kind == "f")

    def total(*arrays):
        return sum((nf.ops.sum(y * y) for y in as_tuple(f(*arrays))), 0.0)

    inside = nf.vmap(nf.grad(total, argnums=wrt), axes)(*given)
    outside = nf.grad(lambda *a: nf.vmap(total, axes)(*a).sum(), argnums=wrt)(*given)
    wants = [np.stack(x) for x in zip(*[
        nf.grad(total, argnums=wrt)(*sample(k)) for k in range(COUNT)], strict=True)]
    for k, one, other, want in zip(wrt, inside, outside, wants, strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(other, want if axes[k] == 0 else want.sum(0),
                                   rtol=1e-8, atol=1e-9)


def test_half_precision():
    x = np.linspace(-2, 2, 24).reshape(3, 2, 4).astype(np.float16)
    for f in (nf.ops.softmax, nf.ops.mean,
              nf.grad(lambda v: (nf.ops.layer_norm(v) ** 2).sum())):
        found = nf.vmap(f)(x)
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, np.stack([f(v) for v in x]))


def test_a_weight_of_columns_in_half_precision():
    """Its gradient is a sum over the rows of each sample, rounded once."""
    x = np.linspace(-2, 2, 24).reshape(3, 2, 4).astype(np.float16)
    w = np.ones(4, np.float16)
    g = nf.grad(lambda w, v: (nf.ops.layer_norm(v, w) ** 2).sum())
    found = nf.vmap(g, (None, 0))(w, x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, np.stack([g(w, v) for v in x]), rtol=2e-3)


def test_a_kernel_of_threads_is_refused_by_name():
    @nf.rawkernel
    def double(x, y):
        i = nf.grid(1)
        if i < x.shape[0]:
            y[i] = 2.0 * x[i]

    op = double.as_op(outputs={"y": "x"}) if False else double
    with pytest.raises(nf.errors.KernelTypeError):
        nf.vmap(lambda x: op[1, 4](x, x))(np.ones((3, 4)))
