"""NumPy's functions with each of NumPy's parameters: honoured, or refused by name.

The parameters are those of `inspect.signature`, by keyword and by position, on
Variables and inside `nf.fuse`.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd.numpy_api.functions import NumpyFunction
from nbfused.errors import NbFusedError
from nbfused.registry.operations import NUMPY
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

X = np.arange(12.0).reshape(3, 4) / 4 - 1
MASK = X > 0

#: What a function is called with, besides an array.
ARGUMENTS = {
    "where": lambda x: (MASK, x, 0.0), "reshape": lambda x: (x, (4, 3)),
    "squeeze": lambda x: (x[None],), "expand_dims": lambda x: (x, 1),
    "swapaxes": lambda x: (x, 0, 1), "moveaxis": lambda x: (x, 0, 1),
    "broadcast_to": lambda x: (x, (2, 3, 4)), "concatenate": lambda x: ([x, x],),
    "stack": lambda x: ([x, x],), "take": lambda x: (x, np.array([1, 0])),
    "clip": lambda x: (x, -0.5, 0.5), "dot": lambda x: (x, X.T),
    "full_like": lambda x: (x, 3.0), "astype": lambda x: (x, "float32"),
}
#: Values to try for a parameter; those with a function's name for that one alone.
VALUES = {
    "axis": (None, 0, 1, -1), "squeeze axis": (0, (0,), None), "size axis": (None, 1),
    "expand_dims axis": (0, -1, (0, 2)), "transpose axes": (None, (1, 0), (0, 1)),
    "concatenate axis": (0, -1, None), "stack axis": (0, 1, -1),
    "dtype": (None, "float32", np.float64), "astype dtype": ("float32", np.int32),
    "out": (None, "made"), "keepdims": (False, True, np._NoValue),
    "initial": (np._NoValue, 0.5), "where": (np._NoValue, True, MASK),
    "where x": (X, 1.0), "where y": (X, 2.0), "condition": (MASK, True),
    "shape": (None, (2, 6)), "reshape shape": ((2, 6), 12, (-1, 2), [6, 2]),
    "broadcast_to shape": ((3, 4), (1, 3, 4)), "order": ("C", "F", "A", "K"),
    "copy": (None, True, False), "astype copy": (True, False), "subok": (True, False),
    "device": (None, "cpu"), "ddof": (0, 1, 0.5), "correction": (np._NoValue, 1),
    "mean": (np._NoValue, X.mean()), "casting": ("same_kind", "safe", "unsafe", "no"),
    "indices": ([0, 1], (1, 1), 2, np.array([[0], [2]]), []),
    "mode": ("raise", "clip", "wrap"), "fill_value": (2, True, 1.5),
    "a_min": (-0.25, None), "a_max": (0.25, None), "min": (-0.25,), "max": (0.25,),
    "axis1": (0, -1), "axis2": (1, -2), "source": (0, -1, (0, 1)),
    "destination": (1, -1, (1, 0)), "b": (X.T, 2.0, X[0]),
    "arrays": (), "a": (), "x": (), "array": (), "prototype": (), "kwargs": (),
}
#: The other parameters that a value needs beside it.
BESIDE = {("source", (0, 1)): {"destination": (1, 0)},
          ("destination", (1, 0)): {"source": (0, 1)},
          ("min", -0.25): {"a_min": np._NoValue, "a_max": np._NoValue},
          ("max", 0.25): {"a_min": np._NoValue, "a_max": np._NoValue}}


def on_variable(function, *args, **kwargs):
    """The call on Variables; its result as an array."""
    def wrapped(x):
        return [*map(wrapped, x)] if isinstance(x, list) else \
            nf.Variable(x) if isinstance(x, np.ndarray) and x.dtype == X.dtype else x

    with nf.no_grad():
        found = function(*map(wrapped, args), **kwargs)
    return found.to_numpy() if isinstance(found, nf.Variable) else found


def in_fuse(function, *args, **kwargs):
    """The call inside a fused function of its arrays; all else is constant."""
    def is_given(x):
        return isinstance(x, np.ndarray) or (
            isinstance(x, list) and bool(x) and isinstance(x[0], np.ndarray))

    def run(arrays, named):
        given = iter(arrays)
        return function(*[next(given) if is_given(x) else x for x in args],
                        **kwargs, **named)

    named = {k: kwargs.pop(k) for k in list(kwargs) if is_given(kwargs[k])}
    return nf.fuse(run)([x for x in args if is_given(x)], named)


def outcome(run, function, args, kwargs):
    """The result with its type and `out`, or the error."""
    if isinstance(kwargs.get("out"), str):
        shape = {**kwargs, "out": None}
        made = function(*args, **shape)
        kwargs = {**kwargs, "out": np.full(np.shape(made), 7.0, np.asarray(made).dtype)}
    with np.errstate(all="ignore"):
        found = run(function, *args, **kwargs)
    found = found if isinstance(found, tuple) else np.asarray(found)
    return found, kwargs.get("out")


def outcome_or_refusal(*call):
    """As `outcome`, an error of ours as result."""
    try:
        return outcome(*call)
    except NbFusedError as error:
        return error, None


def forms(function):
    """Each parameter with each of its values, by name and by position."""
    name = function.__name__
    given = ARGUMENTS.get(name, lambda x: (x,))
    parameters = inspect.signature(function).parameters
    place = [p.name for p in parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    args = given(X)
    yield [*args], {}
    for parameter in parameters.values():
        which = f"{name} {parameter.name}"
        for value in VALUES[which if which in VALUES else parameter.name]:
            beside = BESIDE.get((parameter.name, value), {}) if isinstance(
                value, (int, float, tuple)) else {}
            full = {**dict(zip(place, args, strict=False)), **beside,
                    parameter.name: value}
            known = [full.pop(p) for p in place[:len(args)] if p in full]
            if parameter.kind is not parameter.POSITIONAL_ONLY and \
                    parameter.name not in place[:len(args)]:
                yield known, full
            if parameter.name in place:  # by position, what is before as by default
                last = max(place.index(parameter.name) + 1, len(args))
                whole = {**dict(zip(place, known, strict=False)), **full}
                yield [whole.get(p, parameters[p].default) for p in place[:last]], {
                    k: v for k, v in full.items() if k not in place[:last]}


#: Functions whose every parameter is tried; `tests/numpy_functions` has the others.
FUNCTIONS = {f: NUMPY[f"numpy.{f.__name__}"] for f in (
    np.sum, np.prod, np.mean, np.max, np.min, np.all, np.any, np.argmax, np.argmin,
    np.var, np.std, np.where, np.reshape, np.ravel, np.squeeze, np.expand_dims,
    np.transpose, np.swapaxes, np.moveaxis, np.broadcast_to, np.concatenate, np.stack,
    np.take, np.clip, np.dot, np.zeros_like, np.ones_like, np.empty_like, np.full_like,
    np.copy, np.astype, np.shape, np.ndim, np.size)}
#: Functions with the parameters of another of their family of reductions.
SIMILAR = (np.argmin, np.any, np.mean, np.min, np.prod, np.var)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", [on_variable, in_fuse])
@pytest.mark.parametrize("function", sampled(
    FUNCTIONS, *(f for f in FUNCTIONS if f not in SIMILAR)), ids=lambda f: f.__name__)
def test_each_parameter_of_each_function(function, run):
    done = 0
    for args, kwargs in forms(function):
        label = f"{function.__name__}(*{args}, **{kwargs})"
        try:
            expected, out = outcome(lambda f, *a, **k: f(*a, **k), function, args,
                                    kwargs)
        except Exception:
            with pytest.raises((NbFusedError, TypeError, ValueError)):
                outcome(run, function, args, kwargs)
            continue
        found, stored = outcome_or_refusal(run, function, args, kwargs)
        if isinstance(found, NbFusedError):
            assert any(f"'{p}'" in str(found) for p in inspect.signature(
                function).parameters), (label, str(found))
            assert "lambda" not in str(found), label
            assert "unexpected keyword" not in str(found), label
            continue
        done += 1
        if function is np.empty_like:
            found, expected = np.zeros_like(found), np.zeros_like(expected)
        if isinstance(expected, tuple):
            assert found == expected, label
            continue
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), label
        np.testing.assert_allclose(found, expected, 1e-6, 1e-12, err_msg=label)
        if out is not None:
            np.testing.assert_allclose(stored, out, 1e-6, 1e-12, err_msg=label)
    assert done


@pytest.mark.parametrize("run", [on_variable, in_fuse])
@pytest.mark.parametrize("method", sampled(
    ["sum", "prod", "mean", "max", "min", "all", "any", "argmax", "argmin", "var",
     "std", "ravel", "squeeze", "take", "clip", "astype", "copy", "reshape"],
    "sum", "max", "all", "argmax", "std", "ravel", "take", "clip", "astype", "reshape"))
@pytest.mark.filterwarnings("ignore")
def test_each_option_of_methods(method, run):
    """As of the functions; the names are those of NumPy's methods."""
    first = {"take": (np.array([1, 0]),), "clip": (-0.5, 0.5), "astype": ("float32",),
             "reshape": ((4, 3),)}.get(method, ())
    options = {"sum": "axis dtype out keepdims initial where", "take": "axis out mode",
               "prod": "axis dtype out keepdims initial where",
               "mean": "axis dtype out keepdims where", "clip": "out dtype casting",
               "max": "axis out keepdims initial where", "copy": "order",
               "min": "axis out keepdims initial where",
               "all": "axis out keepdims where", "any": "axis out keepdims where",
               "argmax": "axis out keepdims", "argmin": "axis out keepdims",
               "var": "axis dtype out ddof keepdims where mean correction",
               "std": "axis dtype out ddof keepdims where mean correction",
               "ravel": "order", "squeeze": "", "reshape": "order copy",
               "astype": "order casting subok copy"}[method].split()

    def call(x, *args, **kwargs):
        return getattr(x, method)(*args, **kwargs)

    for option in options:
        which = f"{method} {option}"
        for value in VALUES[which if which in VALUES else option]:
            kwargs = {option: value}
            label = f"{method}{first}, {kwargs}"
            try:
                expected, out = outcome(lambda f, *a, **k: f(*a, **k), call,
                                        (X, *first), kwargs)
            except (TypeError, ValueError):
                continue
            found, stored = outcome_or_refusal(run, call, (X, *first), kwargs)
            if isinstance(found, NbFusedError):
                assert option in str(found), label
                continue
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), label
            np.testing.assert_allclose(found, expected, 1e-6, 1e-12, err_msg=label)
            if out is not None:
                np.testing.assert_allclose(stored, out, 1e-6, err_msg=label)


@pytest.mark.parametrize("function", [*FUNCTIONS], ids=lambda f: f.__name__)
def test_parameters_are_numpys(function):
    """By name, so that what is taken is what was meant."""
    taken = NumpyFunction(function, FUNCTIONS[function]).taken
    assert taken <= {*inspect.signature(function).parameters, "dtype"}


def test_the_refusal_names_the_parameter():
    v = nf.Variable(X)
    with pytest.raises(NbFusedError, match=r"numpy\.sort: 'order' is not supported"):
        np.sort(v, order="x")
    with pytest.raises(NbFusedError, match=r"numpy\.ravel: 'order' is 'Q', expected"):
        np.ravel(v, order="Q")
