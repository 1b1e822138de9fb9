"""Functions of the caller's own library, called as they are on what `fuse` traces.

Each is a step of its own between the launches.  While the function is traced it is run
once more, on the arrays of that call, for the shapes of its results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import dtype_of, is_array
from ....arrays.dtypes import SUPPORTED
from ....arrays.traced import Traced
from ....autograd import Variable
from ....errors import KernelTypeError
from ....support.trees import map_tree
from .rules import Gradient, differentiated_call
from .steps import is_differentiated, record_step

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["call_library", "known_or_called"]

#: Functions whose answer follows from dtypes and ranks, which a program is for anyway.
_OF_TYPES = frozenset({np.result_type, np.iscomplexobj, np.isrealobj, np.can_cast,
                       np.common_type})
#: Functions that change their first argument, and return nothing.
_CHANGING = frozenset({np.copyto, np.put, np.place, np.putmask, np.put_along_axis,
                       np.fill_diagonal})
#: Functions with an effect outside, or that make a text.
_REFUSED = frozenset({np.save, np.savetxt, np.savez, np.savez_compressed,
                      np.array2string, np.array_repr, np.array_str})


class _Operand:
    """The place of an operand in the arguments of a call."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


class LibraryCall:
    """A function with its constant arguments, called with its operands alone.

    Attributes
    ----------
    structure
        What the function returned: a tree with the position of each array.
    """

    def __init__(self, name: str, function: Callable[..., Any], args: Sequence[Any],
                 kwargs: Mapping[str, Any]) -> None:
        self.__name__ = self.name = name
        self._function = function
        self._operands: list[Any] = []
        self._args, self._kwargs = map_tree((tuple(args), dict(kwargs)), self._taken)
        self.structure: Any = None
        self._numpy = not name.startswith("torch.")

    def _taken(self, x: Any) -> Any:
        if isinstance(x, slice) and any(isinstance(part, Traced) for part in (
                x.start, x.stop, x.step)):
            raise KernelTypeError(f"{self.name}: a slice whose bounds are traced; pass "
                                  "numbers of the enclosing scope")
        if not isinstance(x, (Traced, Variable)) and (
                not is_array(x) or isinstance(x, np.generic)):
            return x
        self._operands.append(x)
        return _Operand(len(self._operands) - 1)

    def taken(self) -> list[Any]:
        """The operands; not kept, as a symbol leads to the arrays of its call."""
        found, self._operands = self._operands, []
        return found

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Call the function; all arrays of its result, in their order."""
        args, kwargs = map_tree(
            (self._args, self._kwargs),
            lambda x: values[x.position] if isinstance(x, _Operand) else x)
        found: list[Any] = []

        def position(x: Any) -> int:
            found.append(self._result(x))
            return len(found) - 1

        self.structure = map_tree(self._function(*args, **kwargs), position)
        return tuple(found)

    def _result(self, x: Any) -> Any:
        if self._numpy and isinstance(x, (np.generic, bool)):
            x = np.asarray(x)
        if not is_array(x) and not isinstance(x, Variable):
            raise KernelTypeError(
                f"{self.name} gives a {type(x).__name__}, which depends on values that "
                "are not known while nf.fuse traces; call it outside of the fused "
                "function, or by nf.callback")
        if dtype_of(x) not in SUPPORTED:
            raise KernelTypeError(f"{self.name} gives an array of dtype {dtype_of(x)}, "
                                  "which no kernel takes; call it outside of the fused "
                                  "function")
        return x


def call_library(trace: Trace, name: str, function: Callable[..., Any],
                 args: Sequence[Any], kwargs: Mapping[str, Any],
                 gradient: type[Gradient] | None = None) -> Any:
    """Record a call of a function of the caller's library.

    Parameters
    ----------
    gradient
        What makes its derivative, if there is one; see `rules.differentiated_call`.

    Raises
    ------
    KernelTypeError
        It is being differentiated, it has other effects than to change its first
        argument or `out`, or its result is no array.
    """
    if function in _REFUSED:
        trace.refuse(f"{name} needs values, which are not known while nf.fuse traces a "
                     "function; call it outside of the fused function, or by "
                     "nf.callback")
    if function in _OF_TYPES:
        return function(*map_tree(tuple(args), _example))
    if function in _CHANGING or name.endswith(".at"):
        return _changed(trace, name, function, args, kwargs)
    kwargs = dict(kwargs)
    args, out = _without_out(function, args, kwargs)
    if out is not None:
        targets = out if isinstance(out, tuple) else (out,)
        if any(t is None for t in targets):
            trace.refuse(f"{name}: 'out' has None among its arrays; give all of them, "
                         "or none")
        function, kwargs["out"] = _into_copies(function), targets
    call = LibraryCall(name, function, args, kwargs)
    operands = call.taken()
    if gradient is not None and is_differentiated(operands):
        made = differentiated_call(trace, call, name, operands, gradient)
    else:
        made = record_step(trace, call, operands, name)
    if out is None:
        return map_tree(call.structure, lambda k: made[k])
    for target, new in zip(targets, made, strict=True):
        trace.assign(target, new)
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


def _into_copies(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which stores into copies of what it is to store into."""
    def call(*args: Any, out: tuple[Any, ...], **kwargs: Any) -> list[Any]:
        copies = tuple(map(_copied, out))
        function(*args, out=copies if len(copies) > 1 else copies[0], **kwargs)
        return [*copies]

    return call


def _copied(x: Any) -> Any:
    return x.clone() if hasattr(x, "clone") else x.copy()


def _example(x: Any) -> Any:
    """An array, or a number, of the dtype of a symbol."""
    if not isinstance(x, Traced):
        return x
    example = getattr(x, "example", None)
    return np.empty((1,) * len(x.extents), dtype_of(x)) if example is None else example


def _without_out(function: Callable[..., Any], args: Sequence[Any],
                 kwargs: dict[str, Any]) -> tuple[Sequence[Any], Any]:
    """The arguments without `out`, which leaves `kwargs`, and `out`."""
    out = kwargs.pop("out", None)
    if out is None and len(args) > 1:
        try:
            names = [p.name for p in inspect.signature(function).parameters.values()
                     if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        except (TypeError, ValueError):  # written in C: by keyword
            return args, None
        if "out" in names[:len(args)]:
            at = names.index("out")
            return (*args[:at], None, *args[at + 1:]), args[at]
    empty = isinstance(out, tuple) and all(x is None for x in out)
    return args, None if empty else out


def _changed(trace: Trace, name: str, function: Callable[..., Any], args: Sequence[Any],
             kwargs: Mapping[str, Any]) -> None:
    """Record a change of the first argument as a new value of it."""
    target, *others = args or (kwargs.get("dst"),)

    def on_copy(x: Any, *rest: Any, **options: Any) -> Any:
        made = _copied(x)
        function(made, *rest, **options)
        return made

    options = {k: v for k, v in kwargs.items() if k != "dst"}
    call = LibraryCall(name, on_copy, (target, *others), options)
    trace.assign(target, record_step(trace, call, call.taken(), name)[0])


def known_or_called(trace: Trace, known: Callable[[], Any] | None, name: str,
                    function: Callable[..., Any], args: Sequence[Any],
                    kwargs: Mapping[str, Any]) -> Any:
    """A function of NumPy by the operation that it is, or as it is.

    Parameters
    ----------
    known
        Records the operation; None if there is none.
    """
    if known is not None:
        before = trace.state()
        try:
            return known()
        except KernelTypeError as error:
            if not hasattr(error, "no_operation") or trace.tensors:
                raise
            trace.restore(before)
    if trace.tensors:
        trace.refuse(f"{name} makes NumPy's arrays of tensors, which nf.fuse does "
                    "not trace; use functions of torch or nf.ops, or call it "
                    "outside of the fused function")
    return call_library(trace, name, function, args, kwargs)
