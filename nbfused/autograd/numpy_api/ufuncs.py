"""NumPy's ufuncs as nbfused operations, with the dtypes NumPy computes in."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial, wraps
from types import FunctionType
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of
from ...arrays.traced import TracedNumber
from ...errors import KernelTypeError
from ...registry.operations import NAMESPACES, NUMPY, OPS
from ...scalar.language.vocabulary import OPS as VOCABULARY
from ...scalar.source.resolve import operation
from .refusals import unsupported

__all__ = ["LOOP_KEYWORDS", "NUMPY_KEYWORDS", "given_options", "guarded",
           "in_loop_dtype", "loop_dtypes", "method_name", "own_keywords",
           "taken_keywords", "ufunc_name", "ufunc_operation"]

#: `ufunc.reduce` by another name.
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
               "logical_and": "all", "logical_or": "any"}
#: Those that may be combined in any order of pairs.
_ASSOCIATIVE = frozenset((
    *_REDUCTIONS, "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"))
#: Keywords that choose the loop of a ufunc.
LOOP_KEYWORDS = frozenset({"dtype", "casting", "signature", "sig"})
#: Keywords of NumPy's ufuncs that operations leave to the table of NumPy's functions.
NUMPY_KEYWORDS = frozenset({"order", "signature", "sig"})
#: Keywords of a ufunc's methods that are honoured.
_TAKEN: Mapping[str, frozenset[str]] = {
    "__call__": LOOP_KEYWORDS,
    "reduce": frozenset({"dtype", "axis", "keepdims"}),
    "accumulate": frozenset({"dtype", "axis"})}
#: Those of ``reduce`` where it is one of NumPy's reductions.
_STARTED = frozenset({"initial", "where"})
#: NumPy's keywords that say nothing: they have their defaults.
_DEFAULTS: Mapping[str, Any] = {
    "casting": "same_kind", "order": "K", "subok": True, "dtype": None, "where": True,
    "signature": None, "sig": None, "out": None, "axes": None, "keepdims": False}


def ufunc_name(ufunc: np.ufunc) -> str:
    """A ufunc's name with its module: ``numpy.add``, ``scipy.special.erf``."""
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return f"{module}.{ufunc.__name__}"
    return f"the ufunc {ufunc.__name__!r}"


def method_name(ufunc: np.ufunc, method: str) -> str:
    """The name of a ufunc's method: ``numpy.add.reduce``."""
    return ufunc_name(ufunc) + ("" if method == "__call__" else f".{method}")


def ufunc_operation(ufunc: np.ufunc, method: str) -> Callable[..., Any] | None:
    """The op or vocabulary function that implements a ufunc's method."""
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc:
        if method != "__call__":
            return None
        # What `a.clip(v, 1)` of NumPy's arrays calls; `numpy.clip` is a function.
        clips = name == "clip" and ufunc.nin == 3
        return NUMPY.get("numpy.clip") if clips else _of_scipy(ufunc)
    if method == "reduce" and name in _REDUCTIONS:
        return _reduction(_REDUCTIONS[name])
    if method != "__call__":
        combine = ufunc_operation(ufunc, "__call__")
        known = combine is not None and (name in _ASSOCIATIVE if method != "outer"
                                         else ufunc.nin == 2 and ufunc.nout == 1)
        made = NUMPY.get(f"numpy.ufunc.{method}") if known else None
        return None if made is None else partial(made, name, combine)
    if ufunc.signature is not None:  # of matrices and vectors
        return NUMPY.get(f"numpy.{name}")
    op = OPS.get(name)
    found = operation(ufunc) if op is None else None
    if found is not None and found.op in VOCABULARY:
        return _vocabulary(found.op)
    return NUMPY.get(f"numpy.{name}") if op is None else op


@cache
def _of_scipy(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The function of `nbfused.array_api.special` for one of ``scipy.special``.

    That has the standard's dtypes, while SciPy's ufunc takes integers as floats.
    """
    module, _, name = ufunc_name(ufunc).rpartition(".")
    if module != "scipy.special":
        return None
    found = getattr(NAMESPACES["array_api"].special, name, None)
    if found is None:
        return None

    @wraps(found)
    def call(*inputs: Any, **options: Any) -> Any:
        return found(*_as_floats(ufunc, inputs), **options)

    return call


def _as_floats(ufunc: np.ufunc, inputs: Sequence[Any]) -> Sequence[Any]:
    """Arrays of integers in the floating dtype of the ufunc's result."""
    whole = [getattr(_input_type(x), "kind", None) in ("b", "i", "u") for x in inputs]
    if not any(whole):
        return inputs
    dtype = loop_dtypes(ufunc, inputs)[-1]
    return [OPS["astype"](x, dtype) if integral and dtype.kind == "f" else x
            for x, integral in zip(inputs, whole, strict=True)]


def guarded(op: Callable[..., Any], where: Any) -> Callable[..., Any]:
    """`op` where a condition holds, if it is an operation; it has zeros elsewhere.

    The derivative is then that of a branch: a division by zero where nothing is
    divided adds no NaN to it.
    """
    plain = where is None or where is True or not getattr(op, "is_ufunc", False)
    return op if plain else partial(op, where=where)


@lru_cache(maxsize=256)
def own_keywords(op: Callable[..., Any]) -> frozenset[str]:
    """Keywords of a function of the table beside those of every ufunc: `axis`, say."""
    if not isinstance(op, FunctionType):
        return frozenset()
    return frozenset(p.name for p in inspect.signature(op).parameters.values()
                     if p.kind is p.KEYWORD_ONLY)


def taken_keywords(ufunc: np.ufunc, method: str) -> frozenset[str]:
    """Keywords of a method that are honoured, beside `out`."""
    started = method == "reduce" and ufunc.__name__ in _REDUCTIONS
    return _TAKEN.get(method, frozenset()) | (_STARTED if started else frozenset())


def _reduction(name: str) -> Callable[..., Any]:
    """The op, with the default axis of `ufunc.reduce`."""
    return lambda a, axis=0, **options: OPS[name](a, axis=axis, **options)


def _vocabulary(name: str) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        given_options(f"numpy.{name}", options, frozenset())
        operand = next(a for a in args if hasattr(a, "__nbfused_op__"))
        return operand.__nbfused_op__(name, args)

    return call


def given_options(what: str, kwargs: Mapping[str, Any],
                  taken: frozenset[str]) -> dict[str, Any]:
    """Keywords of a ufunc call that differ from the defaults, within `taken`.

    Raises
    ------
    KernelTypeError
        One that is not honoured is not NumPy's default.
    """
    given = {k: v for k, v in kwargs.items() if not _is_default(k, v)}
    for name in given.keys() - taken:
        raise unsupported(what, name, given[name])
    return given


def _is_default(name: str, value: Any) -> bool:
    if name == "initial" and value is np._NoValue:
        return True
    if name == "subok":  # there are no subclasses
        return True
    return name in _DEFAULTS and type(value) is type(_DEFAULTS[name]) and \
        value == _DEFAULTS[name]


def in_loop_dtype(ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any = None,
                  casting: str = "same_kind", signature: Any = None,
                  sig: Any = None) -> list[Any]:
    """Cast the inputs to the dtypes that NumPy's loop would compute in.

    Raises
    ------
    KernelTypeError
        They do not cast to those under `casting`, or there is no such loop.
    """
    given = [x for x in (dtype, signature, sig) if x is not None]
    if not given and casting in ("same_kind", "unsafe"):
        return list(inputs)  # as the op has it
    if len(given) > 1:
        raise KernelTypeError(f"{ufunc_name(ufunc)}: 'dtype', 'signature' and 'sig' "
                              "name one loop; give one of them")
    # Beside a Python number NumPy's resolve_dtypes crashes on "equiv" (2.4), which
    # differs from "no" for swapped bytes only: these have no kernels.
    asked: dict[str, Any] = {"casting": "no" if casting == "equiv" else casting}
    if dtype is not None:
        asked["signature"] = (*[None] * ufunc.nin, *[check_dtype(dtype)] * ufunc.nout)
    elif given:
        asked["signature"] = _loop(ufunc, given[0])
    loop = loop_dtypes(ufunc, inputs, **asked)
    types = [_input_type(x) for x in inputs]
    return [x if isinstance(t, type) or t == wanted else OPS["astype"](x, wanted)
            for x, t, wanted in zip(inputs, types, loop, strict=False)]


def loop_dtypes(ufunc: np.ufunc, inputs: Sequence[Any], **asked: Any,
                ) -> tuple[np.dtype, ...]:
    """The dtypes of the inputs and outputs of NumPy's loop for `inputs`.

    Raises
    ------
    KernelTypeError
        There is no such loop.
    """
    types = (*map(_input_type, inputs), *[None] * ufunc.nout)
    try:
        found: tuple[np.dtype, ...] = ufunc.resolve_dtypes(types, **asked)
        return found
    except (TypeError, ValueError) as error:
        raise KernelTypeError(f"{ufunc_name(ufunc)}: {error}; use astype first"
                              ) from None


def _loop(ufunc: np.ufunc, signature: Any) -> tuple[Any, ...]:
    """The dtypes of a loop, None where they are left open.

    NumPy names it by a text such as ``"ff->f"``, or by the dtypes of all inputs and
    outputs.
    """
    names = signature
    if isinstance(names, str):
        inputs, _, outputs = names.partition("->")
        names = (*inputs, *outputs) if len(inputs) == ufunc.nin else ()
    if not isinstance(names, tuple) or len(names) != ufunc.nargs:
        raise KernelTypeError(
            f"{ufunc_name(ufunc)}: 'signature' is {signature!r}, expected a text such "
            f"as {ufunc.types[0]!r} or a tuple of {ufunc.nargs} dtypes, of inputs and "
            "outputs; dtype= is that of the outputs alone")
    return tuple(None if x is None else check_dtype(x) for x in names)


def _input_type(x: Any) -> Any:
    """An argument for `numpy.ufunc.resolve_dtypes`; Python numbers are weak."""
    kind = x.python if isinstance(x, TracedNumber) else \
        None if hasattr(x, "dtype") else type(x)
    if kind is None:
        return dtype_of(x)
    return next((t for t in (int, float, complex) if issubclass(kind, t)
                 and kind is not bool), np.dtype(bool))
