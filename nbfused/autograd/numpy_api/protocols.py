"""NumPy's protocols for `Variable`: ``np.exp(v)`` and ``np.sum(v)`` call our ops."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dis import opmap
from types import FrameType
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...arrays.traced import Traced
from ...dispatch.outputs import can_cast
from ...errors import KernelTypeError, NbFusedWarning, TapeError
from ...registry.operations import OPS
from ...scalar.ir.nodes import Block, Function, Let
from ...scalar.language.vocabulary import OPS as VOCABULARY
from ...specs import Map
from ..graph import Target
from ..recording import recording
from ..tape import apply
from ..walk import reachable
from .functions import numpy_function, with_arrays
from .integers import check_integers
from .layouts import in_layout
from .methods import is_operand
from .of_cupy import CupyProtocols
from .refusals import no_operation, unsupported
from .ufuncs import (
    given_options,
    guarded,
    in_loop_dtype,
    method_name,
    own_keywords,
    taken_keywords,
    ufunc_operation,
)

__all__ = ["NumpyProtocols", "check_keeps_gradient", "check_no_store", "warn_of_number"]


def _added_at(ufunc: np.ufunc, target: Any, indices: Any, values: Any = None) -> None:
    """``ufunc.at`` of sums and differences; the array that is changed is ours."""
    if not isinstance(target, NumpyProtocols):
        raise KernelTypeError(
            f"numpy.{ufunc.__name__}.at: the array that is changed is no Variable, and "
            "would lose the gradient of what is added; use target = nf.ops.add_at("
            "target, values, index=indices), or trace the function with nf.fuse")
    if ufunc not in (np.add, np.subtract) or values is None:
        raise no_operation(f"numpy.{ufunc.__name__}.at: only numpy.add and "
                           "numpy.subtract have it; use an index whose elements differ,"
                           " as in x[indices] = f(x[indices], y)")
    values = values if ufunc is np.add else OPS["negative"](values)
    changed: Any = target
    changed[...] = OPS["add_at"](target, values, index=indices)


#: The error where NumPy makes an array of a Variable, or stores it into one.
_NO_ARRAY = (
    "a Variable does not become a NumPy array by itself, as its gradient would be "
    "lost; use .to_numpy() if none is wanted, else NumPy's functions, not methods of "
    "arrays (numpy.dot(a, x)), numpy.stack([x, y]) in place of numpy.array, and store "
    "into a Variable, as nf.Variable(numpy.zeros(3))")


#: The instruction ``array[index] = x``.
_STORE = opmap["STORE_SUBSCR"]


def check_no_store(x: Any, caller: FrameType) -> None:
    """Refuse ``array[k] = x``, for which NumPy asks a Variable for its number.

    Its gradient would be lost, and nobody would see it.

    Raises
    ------
    TypeError
        The caller's line does that.
    """
    if x.requires_grad and recording() and \
            caller.f_code.co_code[caller.f_lasti] == _STORE:
        raise TypeError(_NO_ARRAY)


def warn_of_number(x: Any) -> None:
    """Warn where a function that a transform differentiates makes a number of `x`.

    Functions of `math` do, and what they give is a constant to the transform.

    Warns
    -----
    NbFusedWarning
        For the line that calls `float` or such a function.
    """
    if x.requires_grad and recording() and _is_transformed(x):
        warnings.warn(
            "float(), or a function of math, makes a plain number of a Variable in a "
            "function that is differentiated, and its gradient ends there; write "
            "NumPy's functions or those of nf.ops, or x.item() if a number is meant",
            NbFusedWarning, stacklevel=3)


def check_keeps_gradient(x: Any) -> None:
    """Refuse a new leaf of a Variable that is being differentiated.

    A leaf of the user's own may have another beside it, with a gradient of its own.

    Raises
    ------
    TapeError
        It was computed, or is an argument of a transform that runs.
    """
    if x.requires_grad and recording() and (not x.is_leaf or _is_transformed(x)):
        raise TapeError(
            "data: this Variable is being differentiated, and its gradient would end "
            "in a new leaf; use it as it is, x.copy() for memory of its own, or "
            "x.detach() if no gradient is wanted")


def _is_transformed(x: Any) -> bool:
    """Whether `x` depends on an argument of a transform that runs, such as `grad`."""
    return any(isinstance(node, Target) and node.running
               for node in reachable([x.edge]))


def _left_to_others(ufunc: np.ufunc, method: str, inputs: Sequence[Any]) -> Any:
    """NotImplemented, where the class of another operand may know the ufunc.

    Raises
    ------
    KernelTypeError
        There is no such operand, and nbfused has no operation.
    """
    ours = (NumpyProtocols, np.ndarray, np.generic)
    if any(hasattr(type(x), "__array_ufunc__") and not isinstance(x, ours)
           for x in inputs):
        return NotImplemented
    what = method_name(ufunc, method)
    wrong = [x for x in inputs if not is_operand(x)]
    if wrong and ufunc_operation(ufunc, method) is not None:
        raise KernelTypeError(
            f"{what}: a {type(wrong[0]).__name__} stands beside a Variable, expected "
            "an array or a number; make one array of several numbers, with numpy.stack "
            "where Variables are among them")
    raise no_operation(
        f"{what} has no operation for a Variable; use functions of nf.ops, wrap it in "
        "an nf.Function if a gradient is wanted, or call it on x.to_numpy()")


def _check_stored(what: str, where: Any, outs: Any) -> None:
    """Refuse `out` that would lose a gradient, and `where` without it."""
    for x in outs or ():
        if not (x is None or isinstance(x, NumpyProtocols) or _counts(x)):
            raise _lost(what, x)
    if where is not True and (outs is None or any(x is None for x in outs)):
        raise KernelTypeError(f"{what}: 'where' leaves elements of a new array unset; "
                              "give out=, or choose with nf.ops.where")


def _counts(x: Any) -> bool:
    """Tell an array of integers or truth values, which have no gradient."""
    return type(x) is np.ndarray and x.dtype.kind in "biu"


def _lost(what: str, out: Any) -> KernelTypeError:
    """The error for an `out` that would lose a gradient."""
    return KernelTypeError(
        f"out: {what} does not store results of Variables into an array of type "
        f"{type(out).__name__}, which has no gradient; pass a Variable, take the "
        "result, or use the nbfused op with out= in no_grad()")


def _stored(what: str, made: Any, out: Any, where: Any, casting: str) -> Any:
    """A result in `out`, which keeps its elements where there is none."""
    if not can_cast(dtype_of(made), dtype_of(out), casting):
        raise KernelTypeError(
            f"{what}: 'out' is {dtype_of(out)}, to which {dtype_of(made)} does not "
            f"cast under casting='{casting}'; use astype")
    if _counts(out):
        found: Any = getattr(made, "_value", None)
        if not _counts(found):
            raise _lost(what, out)
        chosen: Any = getattr(where, "_value", where)
        np.copyto(out, found.astype(out.dtype), where=chosen)
        return out
    value = OPS["astype"](made, dtype_of(out))
    out[...] = value if where is True else OPS["where"](where, value, out)
    return out


class NumpyProtocols(CupyProtocols):
    """Dispatch of NumPy's functions and of the vocabulary's on Variables."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Integers of NumPy, as an index; what would lose a gradient is refused."""
        data = getattr(self, "_value", None)
        if type(data) is np.ndarray and data.dtype.kind in "biu":
            return np.array(data, dtype, copy=copy)
        raise TypeError(_NO_ARRAY)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any,
                        **kwargs: Any) -> Any:
        """Run NumPy's ufuncs, and some of their methods."""
        if method == "at":
            return _added_at(ufunc, *inputs)
        inputs = tuple(with_arrays(inputs))
        if not all(map(is_operand, inputs)):
            return _left_to_others(ufunc, method, inputs)
        op = ufunc_operation(ufunc, method)
        if op is None:
            return _left_to_others(ufunc, method, inputs)
        if not kwargs:
            return op(*inputs)
        what = method_name(ufunc, method)
        taken = taken_keywords(ufunc, method)
        if method != "__call__":
            given = given_options(what, kwargs, taken | {"out"})
            (out,) = given.pop("out", None) or (None,)
            _check_stored(what, True, (out,))
            made = op(*inputs, **given)
            return made if out is None else _stored(what, made, out, True, "same_kind")
        own = own_keywords(op)
        given = given_options(what, kwargs, taken | own | {"order", "out", "where"})
        order, outs = given.pop("order", "K"), given.pop("out", None)
        where, casting = given.pop("where", True), given.get("casting", "same_kind")
        _check_stored(what, where, outs)
        if order != "K" and any(isinstance(x, Traced) for x in inputs):
            raise unsupported(what, "order", order)
        named = {k: given.pop(k) for k in own & given.keys()}
        made = guarded(op, where)(*in_loop_dtype(ufunc, inputs, **given), **named)
        results = made if isinstance(made, tuple) else (made,)
        results = tuple(in_layout(what, x, order, *inputs) if y is None else _stored(
            what, x, y, where, casting) for x, y in zip(
                results, outs or (None,) * len(results), strict=True))
        return results if isinstance(made, tuple) else results[0]

    @classmethod
    def __torch_function__(cls, function: Callable[..., Any], types: Any,
                           args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Leave operators to Python; `KernelTypeError` for PyTorch's functions."""
        name = getattr(function, "__name__", str(function))
        if name.startswith("__") and not name.endswith("item__"):
            return NotImplemented
        raise KernelTypeError(
            f"torch.{name} takes tensors, and an argument is a Variable; use functions "
            "of nf.ops or NumPy, pass x.data if no gradient is wanted, or fuse what is "
            "differentiated, as in nf.fuse(nf.grad(f)), where PyTorch's functions are "
            "traced")

    def __array_function__(self, function: Callable[..., Any], types: Any,
                           args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run NumPy functions that have ops; `KernelTypeError` for others."""
        call = numpy_function(function)
        if call is not None:
            return call(args, kwargs)
        if not all(issubclass(t, (NumpyProtocols, np.ndarray)) for t in types):
            return NotImplemented  # it is the other library's to say
        raise KernelTypeError(
            f"{function.__module__}.{function.__name__} has no operation for a "
            "Variable; use functions of nf.ops, wrap it in an nf.Function if a "
            "gradient is wanted, or call it on x.to_numpy()")

    def __nbfused_op__(self, name: str, args: tuple[Any, ...]) -> Any:
        """Apply a function of the scalar vocabulary elementwise."""
        params = tuple(f"x{k}" for k in range(len(args)))
        if len(args) > 1:
            loop = getattr(np, VOCABULARY[name].rule, None)
            args = tuple(check_integers(
                args, name, params, loop=loop if isinstance(loop, np.ufunc) else None))
        body = Block((Let(("y",), name, params),), ("y",))
        kinds = tuple("scalar" if isinstance(a, (bool, int, float, complex, np.generic))
                      else "element" for a in args)
        return apply(Map(Function(name, params, body), kinds), args, names=params)[0]
