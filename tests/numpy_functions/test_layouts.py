"""`order`, `signature`, `axes`, `out`, `shape`, `device`, `copy` as NumPy has them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DeviceError, KernelTypeError, ShapeError
from tests.numpy_functions.agreement import check
from tests.refusal import refused

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

RNG = np.random.default_rng(8)
C = RNG.normal(size=(3, 4, 2))
LAID_OUT = {
    "C": lambda x: x, "F": np.asfortranarray,
    "turned": lambda x: x.transpose(1, 0, 2).copy("C").transpose(1, 0, 2),
    "every other": lambda x: np.repeat(x, 2, axis=2)[..., ::2],
    "reversed": lambda x: np.asfortranarray(x[::-1])[::-1]}
LAYOUTS = {name: function(C) for name, function in LAID_OUT.items()}
MASK = C > 0


def flags(x):
    x = x.data if isinstance(x, nf.Variable) else x
    return x.flags.c_contiguous, x.flags.f_contiguous


RESULTS = {
    "exp": lambda m, x, order: m.exp(x, order=order),
    "add": lambda m, x, order: m.add(x, x, order=order),
    "power": lambda m, x, order: m.power(x, 2.0, order=order),
    "reciprocal": lambda m, x, order: m.reciprocal(x, order=order),
    "modf": lambda m, x, order: m.modf(x, order=order),
    "zeros_like": lambda m, x, order: m.zeros_like(x, order=order),
    "full_like": lambda m, x, order: m.full_like(x, 2.0, order=order),
}


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RESULTS)
def test_layouts_of_results(name, layout, order):
    function, x = RESULTS[name], LAYOUTS[layout]
    wanted = function(np, x, order)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for found in (function(nf.ops, x, order), function(np, nf.Variable(x), order)):
        found = found if isinstance(found, tuple) else (found,)
        for one, other in zip(found, wanted, strict=True):
            assert flags(one) == flags(other)
            values = one.data if isinstance(one, nf.Variable) else one
            np.testing.assert_allclose(values, other, 1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies(layout):
    x = LAYOUTS[layout]
    for order, copy in itertools.product("CF", (True, False)):
        made = nf.Variable(x).astype(x.dtype, order=order, copy=copy)
        assert flags(made) == flags(x.astype(x.dtype, order=order, copy=copy))
        np.testing.assert_array_equal(made.data, x)


READ = {
    "flatten": lambda x, order: x.flatten(order),
    "ravel": lambda x, order: x.ravel(order), "np.ravel": np.ravel,
    "reshape": lambda x, order: np.reshape(x, (4, -1), order=order),
}


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", READ)
def test_orders_of_elements(name, layout, order):
    """Those that memory has are other numbers than C's."""
    if (name, order) == ("reshape", "K"):
        return
    function, x = READ[name], LAYOUTS[layout]
    wanted = function(x, order)
    np.testing.assert_array_equal(function(nf.Variable(x), order).data, wanted)
    np.testing.assert_array_equal(nf.fuse(lambda x: function(x, order))(x), wanted)
    weights = np.arange(wanted.size).reshape(wanted.shape)
    gradient = nf.grad(lambda x: (function(x, order)**2 * weights).sum())(x)
    step = 1e-6 * RNG.normal(size=x.shape)
    moved = [LAID_OUT[layout](C + step), LAID_OUT[layout](C - step)]
    numeric = np.subtract(*((function(m, order)**2 * weights).sum() for m in moved)) / 2
    np.testing.assert_allclose((gradient * step).sum(), numeric, 1e-6)


def test_views_on_demand():
    x = nf.Variable(C)
    assert np.shares_memory(np.reshape(x, (12, 2), copy=False).data, C)
    with pytest.raises(ValueError, match="'copy' is False"):
        np.reshape(nf.Variable(LAYOUTS["F"]), (12, 2), copy=False)
    assert nf.ops.reshape(LAYOUTS["F"], (12, 2), order="F", copy=False).shape == (12, 2)
    changed = np.array([np.nan, 1.0])
    assert nf.ops.nan_to_num(changed, copy=False) is changed
    np.testing.assert_array_equal(changed, [0, 1])


N = np.arange(6).reshape(2, 3)
LOOPS = {
    "text": ("add", {"signature": "dd->d"}, N, N), "sig": ("add", {"sig": "ff->f",
             "casting": "unsafe"}, N, 1), "of the result": ("multiply", {"signature": (
                 None, None, np.float64)}, N, N), "dtypes": ("add", {
                     "signature": ("f4",) * 3, "casting": "unsafe"}, N, N),
    "compared": ("less", {"signature": "dd->?"}, N, 2.5),
    "logical": ("logical_not", {"signature": "d->?"}, N),
    "two": ("modf", {"signature": "d->dd"}, N),
    "power": ("power", {"signature": "dd->d"}, N, 2),
    "reciprocal": ("reciprocal", {"signature": "d->d"}, N + 1),
    "matmul": ("matmul", {"signature": "dd->d"}, N, N.T),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    ufunc, options, *args = LOOPS[name]
    function = getattr(np, ufunc)
    wanted = function(*args, **options)
    found = [getattr(nf.ops, ufunc)(*args, **options),
             function(nf.Variable(args[0]), *args[1:], **options),
             nf.fuse(lambda x: function(x, *args[1:], **options))(args[0])]
    for one in found:
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (one, wanted)),
                        strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.data if isinstance(a, nf.Variable) else a, b)


def test_loops_that_are_none():
    with refused(KernelTypeError, "numpy.add", "float64", "int32", "astype"):
        nf.ops.add(C, C, signature="ii->i")
    for signature in ((None, "d"), "dd", "d", "ddd->d", np.float32, ("d",)):
        with refused(KernelTypeError, "numpy.add", "'signature' is", "tuple of 3"):
            np.add(nf.Variable(C), C, signature=signature)
    with refused(KernelTypeError, "'dtype', 'signature' and 'sig'", "give one"):
        nf.ops.add(C, C, signature="dd->d", dtype="d")
    with refused(KernelTypeError, "relu", "'signature' is not supported"):
        nf.ops.relu(C, signature="d->d")
    with refused(KernelTypeError, "numpy.exp", "'order' is 'Q'", "expected 'C'"):
        nf.ops.exp(C, order="Q")


M, V = RNG.normal(size=(4, 2, 3)), RNG.normal(size=(5, 4))
AXES = {
    "matmul": (M, RNG.normal(size=(4, 5, 3)), [(1, 2), (2, 1), (0, -1)]),
    "matmul of vectors": (RNG.normal(size=(2, 3)), RNG.normal(size=2), [(1, 0), 0, 0]),
    "vecdot": (M, RNG.normal(size=(2, 4, 1)), [1, 0]),
    "matvec": (M, V[:4, :2].T, [(2, 0), 1, 0]),
    "vecmat": (V[:2, :3].T, M, [1, (1, 0), -1]),
}


@pytest.mark.parametrize("name", AXES)
def test_axes(name):
    a, b, axes = AXES[name]
    function = getattr(np, name.partition(" ")[0])
    wanted = function(a, b, axes=axes)
    np.testing.assert_allclose(getattr(nf.ops, function.__name__)(a, b, axes=axes),
                               wanted, 1e-12)
    np.testing.assert_allclose(nf.fuse(lambda a, b: function(a, b, axes=axes))(a, b),
                               wanted, 1e-12)
    check(lambda a, b: function(a, b, axes=axes), a, b)


def test_axes_that_are_none():
    with refused(ShapeError, "numpy.matmul", "'axes' is [(0, 1)]", "expected 2, 2 and"):
        np.matmul(nf.Variable(M), M, axes=[(0, 1)])
    with refused(KernelTypeError, "numpy.vecdot", "'axes' beside 'axis'"):
        np.vecdot(nf.Variable(M), M, axes=[0, 0, ()], keepdims=True)


def stored(a, b):
    out = np.zeros_like(a)
    assert np.multiply(a, b, out=out, where=MASK) is out
    np.add(out, a, out=out)
    np.exp(out, out=out, where=~MASK)
    np.add.accumulate(out * 1, axis=1, out=out)
    return out


def test_stored_results():
    b = RNG.normal(size=C.shape)
    check(stored, C, b)

    def loss(a, b):
        return (stored(a, b)**2).sum()

    both = nf.grad(loss, (0, 1))
    for one, other in zip(nf.fuse(both)(C, b), both(C, b), strict=True):
        np.testing.assert_allclose(one, other, 1e-10)
    found = nf.vmap(lambda a, m: np.exp(a, out=np.zeros_like(a), where=m))(C, MASK)
    np.testing.assert_allclose(found, np.where(MASK, np.exp(C), 0))
    outs = nf.Variable(0 * C), nf.Variable(0 * C)
    assert np.divmod(nf.Variable(C), 0.3, out=outs)[1] is outs[1]
    np.testing.assert_allclose(outs[0].data, C // 0.3)


def test_stores_that_are_refused():
    x = nf.Variable(C)
    with refused(KernelTypeError, "out: numpy.exp", "ndarray", "pass a Variable"):
        np.exp(x, out=np.zeros_like(C))
    with refused(KernelTypeError, "numpy.exp", "'where'", "give out="):
        np.exp(x, where=MASK)
    with refused(KernelTypeError, "numpy.exp", "'out' is int64", "float64", "astype"):
        np.exp(x, out=nf.Variable(np.zeros(C.shape, int)))


LIKE = {
    "zeros": lambda x: np.zeros_like(x, shape=(2, 2)),
    "ones": lambda x: np.ones_like(x, np.int32, shape=3),
    "full": lambda x: np.full_like(x, 2.5, shape=(0, 3)),
    "empty": lambda x: np.zeros_like(np.empty_like(x, shape=(2, 1))),
    "of an array": lambda x: np.full_like(x, [[1, 2]]),
    "of an array in a shape": lambda x: np.full_like(x, x[0, 0], shape=(3, 2)),
    "of another dtype": lambda x: np.full_like(x.astype("f4"), x[0], dtype=float),
}


@pytest.mark.parametrize("name", LIKE)
def test_arrays_like_others(name):
    function = LIKE[name]
    check(function, C)
    wanted, found = function(C), nf.fuse(function)(C)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted)


def test_devices():
    x = nf.Variable(C)
    for function in (np.zeros_like, np.ones_like, np.empty_like):
        assert function(x, device="cpu").device == "cpu"
    np.testing.assert_array_equal(np.full_like(x, 3.0, device="cpu").data, 0 * C + 3)
    np.testing.assert_array_equal(np.astype(x, "f4", device="cpu").data, C.astype("f4"))
    np.testing.assert_allclose(np.linspace(x, 2.0, 3, device="cpu").data,
                               np.linspace(C, 2.0, 3))
    with refused(DeviceError, "gpu7"):
        np.zeros_like(x, device="gpu7")
