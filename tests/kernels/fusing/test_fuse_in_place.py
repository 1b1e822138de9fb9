"""Operators in place and ``out=``, fused against unfused, from tables.

A change must be seen through every name of an array, keep its dtype and shape, and be
refused where the function itself raises.
"""

from __future__ import annotations

import itertools
import operator
from contextlib import nullcontext

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedError, ShapeError
from tests.variants import sampled

pytestmark = [pytest.mark.interpreted, pytest.mark.filterwarnings("ignore")]

OPERATORS = [operator.iadd, operator.isub, operator.imul, operator.itruediv,
             operator.ifloordiv, operator.imod, operator.ipow, operator.iand,
             operator.ior, operator.ixor, operator.ilshift, operator.irshift,
             operator.imatmul]
PAIRS = [("?", "?"), ("i4", "i4"), ("f4", "f4"), ("i4", "?"), ("u1", "i4"),
         ("f4", "f8"), ("i4", "f4"), ("f4", "i4")]
LEFT, RIGHT = [[1, 2], [3, 4]], [[2, 1], [1, 3]]


def _array(values, dtype):
    return np.array(values).astype(dtype)


def _tensor(values, dtype):
    torch = pytest.importorskip("torch")
    return torch.tensor(_array(values, dtype))


def _variable(values, dtype):
    return nf.Variable(_array(values, dtype))


MAKERS = {"ndarray": _array, "tensor": _tensor, "Variable": _variable}

#: Who else sees the array that is changed; each returns what it sees.
ALIASES = {
    "itself": lambda op, x, y: (op(x, y),),
    "a name before": lambda op, x, y: ((z := x), op(x, y), z)[1:],
    "through a name": lambda op, x, y: ((z := x), op(z, y), x)[1:],
    "a copy before": lambda op, x, y: ((z := x + 0), op(x, y), z)[1:],
    "a result": lambda op, x, y: ((z := x * 1), (w := z), op(z, y), w, x)[2:],
    "twice": lambda op, x, y: (op(op(x, y), y), x),
    "by itself": lambda op, x, y: (op(x, x), x),
}


def plain(x):
    return np.asarray(x.data if isinstance(x, nf.Variable) else x)


def outcome(function, make):
    """Results and arguments afterwards, and which results are arguments; or None."""
    try:
        given = make()
        results = function(*given)
    except (TypeError, ValueError, RuntimeError) as error:
        return None, error
    which = [next((k for k, g in enumerate(given) if r is g), None) for r in results]
    return [*map(plain, (*results, *given))], which


def agree(function, make):
    """Fused as unfused; whether there was a result."""
    expected, places = outcome(function, make)
    found, there = outcome(nf.fuse(function), make)
    if expected is None:
        if isinstance(places, (RuntimeError, NotImplementedError)) and not isinstance(
                places, NbFusedError):
            return False  # PyTorch has no kernel for it, and there may be one here
        assert found is None, (places, found)
        assert isinstance(there, NbFusedError), there
        return False
    assert found is not None, there
    assert there == places
    for f, e in zip(found, expected, strict=True):
        assert (f.dtype, f.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(f, e, rtol=1e-6)
    return True


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("op", sampled(
    OPERATORS, operator.iadd, operator.itruediv, operator.imatmul),
    ids=lambda op: op.__name__)
def test_each_operator_in_place(op, kind):
    make, seen = MAKERS[kind], 0
    for name, (left, right) in itertools.product(ALIASES, PAIRS):
        if left != right and name != "a name before":
            continue
        try:
            seen += agree(lambda x, y, alias=ALIASES[name]: alias(op, x, y),
                          lambda m=make, a=left, b=right: (m(LEFT, a), m(RIGHT, b)))
        except AssertionError as error:
            raise AssertionError(f"{name}: {left} {op.__name__} {right}") from error
    assert seen


@pytest.mark.parametrize("op", OPERATORS[:-1], ids=lambda op: op.__name__)
@pytest.mark.parametrize("number", [2, True, 0.5, np.float64(1.5), np.int8(3)])
def test_a_number_beside_it(op, number):
    for dtype in ("i4", "f4"):
        agree(lambda x, n: (op(x, n), x), lambda d=dtype: (_array(LEFT, d), number))


@pytest.mark.parametrize("kind", MAKERS)
def test_the_shape_is_kept(kind):
    make = MAKERS[kind]
    for op in OPERATORS[:7]:
        assert agree(lambda x, y, op=op: (op(x, y),),
                     lambda: (make(LEFT, "f4"), make(RIGHT[0], "f4")))
        assert not agree(lambda x, y, op=op: (op(y, x),),
                         lambda: (make(LEFT, "f4"), make(RIGHT[0], "f4")))


UFUNCS = [f for n in dir(np) if isinstance(f := getattr(np, n), np.ufunc)
          and f.__name__ == n and f.nout == 1 and not f.signature]
REFUSED = {"bitwise_count", "gcd", "isnat", "lcm", "ldexp", "nextafter", "spacing"}
#: Those that `nf.fuse` refuses, and some of each kind of result that it traces.
AT_ONCE = [f for f in UFUNCS if f.__name__ in REFUSED] + [
    np.add, np.divide, np.floor_divide, np.less, np.bitwise_and, np.invert, np.power,
    np.sqrt, np.isfinite]
#: How `out` lies beside the inputs.
OUTS = {
    "apart": lambda f, x, y, z: (f(x, y, out=z), z),
    "in a tuple": lambda f, x, y, z: (f(x, y, out=(z,)), z),
    "by position": lambda f, x, y, z: (f(x, y, z), z),
    "the first": lambda f, x, y, z: (f(x, y, out=x), x),
    "the second": lambda f, x, y, z: (f(y, x, out=x), x),
    "both": lambda f, x, y, z: (f(x, x, out=x), x),
    "larger": lambda f, x, y, z: (f(x[0], y[0], out=z), z),
    "none": lambda f, x, y, z: (f(x, y, out=(None,)), z),
    "where": lambda f, x, y, z: (f(x, y, out=z, where=x > y), z),
    "then read": lambda f, x, y, z: ((w := z + 0), f(x, y, out=z), z + w)[1:],
}


@pytest.mark.parametrize("ufunc", sampled(UFUNCS, *AT_ONCE), ids=lambda f: f.__name__)
def test_each_ufunc_with_out(ufunc):
    call = ufunc if ufunc.nin == 2 else \
        lambda x, y, *out, **kwargs: ufunc(x, *out, **kwargs)
    for name, dtype in itertools.product(OUTS, ("i4", "f4")):
        def make(dtype=dtype):
            x = _array(LEFT, dtype) if dtype in "?i4" else _array(LEFT, dtype) / 8
            try:
                results = ufunc.resolve_dtypes((x.dtype,) * ufunc.nin + (None,))[-1]
            except TypeError:
                results = x.dtype
            return x, _array(RIGHT, dtype), np.full((2, 2), 1, results)

        def run(x, y, z, alias=OUTS[name]):
            return alias(call, x, y, z)

        try:
            expected, _ = outcome(run, make)
            found, error = outcome(nf.fuse(run), make)
            if found is None:
                assert isinstance(error, NbFusedError) or expected is None
                known = expected is None or ufunc.__name__ in str(error)
                assert known, error
                assert "lambda" not in str(error).splitlines()[0]
            else:
                assert agree(run, make) or expected is None
        except AssertionError as error:
            raise AssertionError(f"{ufunc.__name__}, {name}, {dtype}") from error


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_which_ufuncs_are_traced(ufunc):
    x = np.array([1, 2, 3], "i4") if "f" not in "".join(
        t[0] for t in ufunc.types) else np.array([0.25, 0.5, 1.0])
    x = x + 1 if ufunc is np.arccosh else x
    try:
        nf.fuse(lambda *a: ufunc(*a))(*(x,) * ufunc.nin)
    except TypeError:
        assert ufunc.__name__ in REFUSED
        return
    (found,) = nf.fuse(lambda *a: ufunc(*a)).explain(*(x,) * ufunc.nin)
    assert (found.kind == "call") == (ufunc.__name__ in REFUSED)


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("dtype", sampled([None, "i4", "f4", "f8"], None, "f4"))
def test_dtype_and_casting(casting, dtype):
    """Also of what is stored: the rules are NumPy's."""
    for a, b, out in itertools.product(("i4", "f4", "f8"), repeat=3):
        for store in (False, True):
            def run(x, y, z, store=store):
                made = np.floor_divide(x, y, dtype=dtype, casting=casting,
                                       **({"out": z} if store else {}))
                return made, z

            agree(run, lambda a=a, b=b, out=out: (
                _array([9, 7], a), _array([2, 3], b), _array([0, 0], out)))


@pytest.mark.parametrize("function", [
    lambda x, z: (np.add.reduce(x, out=z), z), lambda x, z: (np.sum(x, 0, out=z), z),
    lambda x, z: (x.max(0, out=z), z), lambda x, z: (np.mean(x, 0, None, z), z),
    lambda x, z: (np.concatenate([x[0], x[1]], out=z), z),
    lambda x, z: (np.take(x, [1, 0], 0, z), z),
    lambda x, z: (nf.ops.sum(x, axis=0, out=z), z),
    lambda x, z: (np.dot(x, x[0], z), z), lambda x, z: (np.cumsum(x, 0, out=z),),
    lambda x, z: (np.clip(x[0], 1, 2, out=z), z)])
def test_out_of_other_functions_has_the_shape_of_the_result(function):
    for shape in ((2,), (4,), (2, 2), (3, 2)):
        def make(shape=shape):
            return _array(LEFT, "f8"), np.zeros(shape)

        expected, _ = outcome(function, make)
        found, error = outcome(nf.fuse(function), make)
        if found is None:
            assert isinstance(error, NbFusedError) or expected is None
        else:
            assert expected is not None, shape
            for f, e in zip(found, expected, strict=True):
                np.testing.assert_allclose(f, e)


@pytest.mark.parametrize("function", [
    lambda x: np.add(x, 1, where=x), lambda x: np.add(x, 1, out=x, where=x),
    lambda x: np.matmul(x, x, axes=[1, 0, 0]), lambda x: x.sort()])
def test_what_else_a_ufunc_has_is_refused_and_changes_nothing(function):
    x = _array(LEFT, "f8")
    with pytest.raises((NbFusedError, AttributeError, TypeError, ValueError)) as error:
        nf.fuse(function)(x)
    assert "lambda" not in str(error.value).splitlines()[0]
    np.testing.assert_array_equal(x, LEFT)


TENSORS = {
    "copy_": lambda x, y: x.copy_(y), "fill_": lambda x, y: x.fill_(2.5),
    "zero_": lambda x, y: x.zero_(), "add_": lambda x, y: x.add_(y),
    "mul_": lambda x, y: x.mul_(y), "div_": lambda x, y: x.div_(y),
    "pow_": lambda x, y: x.pow_(2), "sub_": lambda x, y: x.sub_(y),
    "neg_": lambda x, y: x.neg_(), "exp_": lambda x, y: x.exp_(),
    "all of it": lambda x, y: x.__setitem__(..., y),
    "a mask": lambda x, y: x.__setitem__(x > y, 7),
    "clamp_": lambda x, y: x.clamp_(1, 2), "index_add_": lambda x, y: x.index_add_(
        0, y[0].long(), y), "masked_fill_": lambda x, y: x.masked_fill_(x > y, 2),
    "unsqueeze_": lambda x, y: x.unsqueeze_(0), "t_": lambda x, y: x.t_(),
    "transpose_": lambda x, y: x.transpose_(0, 1),
    "squeeze_": lambda x, y: x.squeeze_(),
    "resize": lambda x, y: x.resize_(4), "set": lambda x, y: x.set_(y),
    "bitwise_and_": lambda x, y: x.bitwise_and_(y),
    "logical_not_": lambda x, y: x.logical_not_(), "clip_": lambda x, y: x.clip_(1, 2),
    "addcmul_": lambda x, y: x.addcmul_(y, y), "lerp_": lambda x, y: x.lerp_(y, 0.5),
    "a part": lambda x, y: x.__setitem__(0, 1), "sort": lambda x, y: x.sort(out=x),
    "out": lambda x, y: __import__("torch").add(x, y, out=x),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_methods_of_tensors(name, dtype):
    """Done as PyTorch does it, or refused with nothing changed."""
    torch = pytest.importorskip("torch")

    def run(x, y):
        z = x
        TENSORS[name](x, y)
        return x, z, z * 1

    def make():
        return _tensor(LEFT, dtype), _tensor(RIGHT, dtype)

    expected, places = outcome(run, make)
    given = make()
    try:
        found = nf.fuse(run)(*given)
    except (NbFusedError, AttributeError):
        torch.testing.assert_close(given, make())
    except (RuntimeError, TypeError, IndexError):  # PyTorch's own
        assert expected is None
        torch.testing.assert_close(given, make())
    else:
        assert expected is not None
        assert [f is given[0] for f in found] == [p == 0 for p in places]
        for f, e in zip((*found, *given), expected, strict=True):
            assert plain(f).dtype == e.dtype
            np.testing.assert_allclose(plain(f), e, rtol=1e-6)


#: Views that an array, changed afterwards, would be seen through.
VIEWS = {
    "transposed": lambda x: x.T, "part": lambda x: x[:1],
    "detached": lambda x: x.detach(),
    "reshaped": lambda x: x.reshape(-1), "of a view": lambda x: x.T[0],
    "broadcast": lambda x: nf.ops.broadcast_to(x, (3, 2, 2)),
    "expanded": lambda x: nf.ops.expand_dims(x, 0),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("view", VIEWS)
def test_an_array_that_is_changed_is_seen_through_its_views(view, grad):
    def run(x):
        with nullcontext() if grad else nf.no_grad():
            seen = VIEWS[view](x)
            x += 1
            return seen * 1

    x = _variable(LEFT, "f8")
    if view == "detached":  # which may be a step of its own
        with pytest.raises(KernelTypeError, match="is, or has, a view"):
            nf.fuse(run)(x)
        np.testing.assert_array_equal(x.data, LEFT)
        return
    found = nf.fuse(run)(x)
    np.testing.assert_array_equal(x.data, np.add(LEFT, 1))
    np.testing.assert_array_equal(found.data, VIEWS[view](_variable(
        np.add(LEFT, 1), "f8")).data)


def test_a_view_that_is_gone_does_no_harm():
    assert agree(lambda x, y: ((s := x.T @ y), x.__iadd__(s))[1:],
                 lambda: (_array(LEFT, "f8"), _array(RIGHT, "f8")))


def test_masks_take_a_number():
    def clean(x, n):
        loss = x * 2
        loss[loss > 4] = 0.0
        loss[x == 1] = n
        loss[x[0] > 1] = 3.0
        return loss, x

    assert agree(clean, lambda: (_array(LEFT, "f4"), 7))
    for wrong in (lambda x: x.__setitem__(x > 1, x), lambda x: x.__setitem__(
            x[None] > 1, 1.0)):
        with pytest.raises(KernelTypeError, match=r"x\[mask\] = y takes"):
            nf.fuse(wrong)(_array(LEFT, "f4"))


def test_one_function_of_arrays_and_then_of_tensors():
    """Their rules of promotion differ: it is traced for each."""
    torch = pytest.importorskip("torch")
    half = nf.fuse(lambda x: x / 2)
    x = _array(LEFT, "i4")
    assert half(x).dtype == np.float64
    assert half(torch.tensor(x)).dtype == torch.float32
    assert half(nf.Variable(x)).dtype == np.float64


def test_where_must_be_bool_and_stores_into_out():
    with pytest.raises(KernelTypeError, match="where= leaves elements"):
        nf.fuse(lambda x: np.add(x, 1, where=x > 1))(_array(LEFT, "f8"))
    with pytest.raises(ShapeError):
        nf.fuse(lambda x, z: np.add(x[0], 1, out=z, where=x > 1))(
            _array(LEFT, "f8"), np.zeros(2))


def test_ufuncs_of_another_library_are_called():
    special = pytest.importorskip("scipy.special")
    for function in (lambda x: special.erf(x) * 2, lambda x: special.gamma(x * 2)):
        x = _array(LEFT, "f8")
        np.testing.assert_allclose(nf.fuse(function)(x), function(x), rtol=1e-14)
