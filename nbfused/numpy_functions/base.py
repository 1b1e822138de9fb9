"""Entries of the table of NumPy's functions, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, TypeVar

import numpy as np

from ..arrays import dtype_of, is_array
from ..arrays.creation import array_like
from ..arrays.traced import Traced, TracedNumber
from ..autograd import Variable
from ..autograd.numpy_api.integers import check_integer
from ..autograd.numpy_api.refusals import no_operation
from ..errors import KernelTypeError
from ..registry.operations import NUMPY, OPS
from ..scalar.typing.promotion import Weak, promote
from ..scalar.typing.python_numbers import number_type
from ..specs.shapes import names_only_element
from ..support.trees import leaves_of

__all__ = [
    "as_arrays",
    "as_given",
    "axes_of",
    "axis_of",
    "check_values",
    "common_dtype",
    "converted",
    "copied",
    "detached",
    "filled",
    "floating",
    "implements",
    "index_array",
    "is_value",
    "lined",
    "ops",
    "permuted",
    "sequence",
    "shape_of",
    "sizes",
    "stored",
    "truth",
    "vocabulary",
]

T = TypeVar("T", bound=Callable[..., Any])


class _Operations:
    """nbfused's operations, looked up when called: they are defined above."""

    def __getattr__(self, name: str) -> Any:
        return OPS[name]

    def __getitem__(self, name: str) -> Any:
        return OPS[name]


ops = _Operations()


def implements(*names: str) -> Callable[[T], T]:
    """Enter a function as NumPy's ``numpy.<name>``, whose parameters it names."""

    def enter(function: T) -> T:
        for name in names:
            NUMPY[f"numpy.{name}"] = function
        return function

    return enter


def is_value(x: Any) -> bool:
    """Whether `x` is an array of any library, a Variable or a traced one."""
    return isinstance(x, (Variable, Traced)) or is_array(x)


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an array or a number."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def axis_of(axis: Any, ndim: int) -> int:
    """An axis counted from the front; `AxisError` if there is none of that number."""
    try:
        k = index(axis)
    except TypeError:
        raise KernelTypeError(f"'axis' is {axis!r}; expected an integer, one axis"
                              ) from None
    if not -ndim <= k < ndim:
        raise np.exceptions.AxisError(k, ndim)
    return k % ndim


def lined(a: Any, axis: Any) -> tuple[Any, int]:
    """An array and the axis along which its elements are.

    They are in one line for None, as is the only one of an array without dimensions,
    whose axis is 0 or -1, where NumPy's functions written in C take it so.
    """
    if axis is None or (not shape_of(a) and names_only_element(axis)):
        return ops.reshape(a, (-1,)), 0
    return a, axis_of(axis, len(shape_of(a)))


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front: all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    found = tuple(axis_of(k, ndim) for k in given)
    if len(set(found)) != len(found):
        raise ValueError(f"axis {axis} names an axis twice; name each one once")
    return found


def sequence(given: Any, name: str) -> list[Any]:
    """A sequence of arrays as a list; one array is the sequence of its rows."""
    if is_value(given):
        return [given[k] for k in range(shape_of(given)[0])]
    if not isinstance(given, Iterable):
        raise KernelTypeError(f"{name}: expected a sequence of arrays, got "
                              f"{type(given).__name__}")
    return list(given)


def as_arrays(found: Sequence[Any], name: str, weak: bool = True) -> list[Any]:
    """Numbers and lists among arrays become arrays like the first of these.

    Python's numbers take its dtype if they are `weak`; NumPy's functions that are
    written in Python make arrays of them, which have one of their own.
    """
    leaves = list(leaves_of(list(found)))
    like = next((x for kind in (Traced, Variable, object) for x in leaves
                 if isinstance(x, kind) and is_value(x)), None)
    if like is None:
        raise KernelTypeError(f"{name}: none of the arguments is an array; make one "
                              "with nf.array")
    return [_like(x, like, weak, name) for x in found]


def _like(x: Any, like: Any, weak: bool, name: str) -> Any:
    """An array as it is; numbers and lists in the library and on the device of one."""
    if is_value(x) and not isinstance(x, (np.generic, TracedNumber)):
        own = not isinstance(like, Traced) or isinstance(x, (Variable, Traced))
        return x if own else like.placeholder(x)
    if isinstance(x, (list, tuple)) and any(
            isinstance(leaf, (Variable, Traced)) for leaf in leaves_of(x)):
        return ops.stack([_like(item, like, False, name) for item in x])
    if isinstance(x, TracedNumber):
        kind = dtype_of(x) if x.python is None or not weak else np.result_type(
            dtype_of(like), x.python())
        return filled(x, kind, like)
    if weak:
        x = check_integer(x, like, name, "an argument")
    host = np.asarray(x)
    if weak and type(x) in (bool, int, float, complex):
        host = host.astype(np.result_type(dtype_of(like), x))
    return index_array(host, like)


def common_dtype(values: Sequence[Any]) -> np.dtype | None:
    """The dtype of arrays and numbers together, as NumPy finds it; None without arrays.

    Pair by pair it may be another: of bool, 0.5 and float16 the first two have float64.
    """
    kinds = [number_type(x.python()) if isinstance(x, TracedNumber) and x.python else
             dtype_of(x) if is_value(x) else number_type(x) for x in values]
    found = promote(*kinds)
    return None if isinstance(found, Weak) else found


def filled(x: Any, dtype: Any, like: Any) -> Any:
    """A traced number as an array without dimensions, in the library of `like`."""
    return ops.full_like(index_array(np.zeros((), dtype), like), x)


def truth(x: Any, name: str) -> bool:
    """The truth of a result, which is not known where it is traced."""
    if isinstance(x, Traced):
        raise no_operation(f"numpy.{name} gives a number that is not known while "
                           "nf.fuse traces a function")
    return bool(x)


def index_array(indices: np.ndarray, like: Any, given: Any = ()) -> Any:
    """Integers of the host in the library and on the device of another array.

    In `nf.fuse` they are a constant of the program: they follow from shapes, and from
    arrays `given`, which are looked up again if they may be others in the next call.
    """
    if isinstance(like, Traced):
        return like.constant(indices, (given,))
    return array_like(indices, like.data if isinstance(like, Variable) else like)


def detached(x: Any) -> Any:
    """`x`, not differentiated through."""
    return x.detach() if hasattr(x, "detach") else x


def floating(x: Any) -> Any:
    """Elements as floating numbers: float64 for integers and booleans."""
    return ops.astype(x, np.float64) if dtype_of(x).kind in "biu" else x


def sizes(x: Any) -> Any:
    """Elements whose squares are those of magnitudes: `x` itself where it is real."""
    return ops.absolute(x) if dtype_of(x).kind == "c" else x


def converted(x: Any, dtype: Any) -> Any:
    """`x` in a dtype; itself where it has that."""
    return x if dtype_of(x) == dtype else ops.astype(x, dtype)


def copied(x: Any, viewed: bool = True) -> Any:
    """`x` in memory of its own, for functions of which NumPy gives no view.

    It is copied where it is `viewed`, and where it is traced: whether a reshape is a
    view is not known there, and a copy costs no launch.
    """
    return ops.astype(x, dtype_of(x)) if viewed or isinstance(x, Traced) else x


def part_of(x: Any, made: Any) -> Any:
    """A copy of what NumPy shows as a view of `x`; a change through it is refused."""
    if isinstance(x, Variable) and x.ndim:
        made.note_part(x)
    return made


def stored(made: Any, out: Any) -> Any:
    """A result, in `out` where that is given."""
    return made if out is None else ops.positive(made, out=out)


def as_given(made: Any, like: Any) -> Any:
    """An array as a Variable where `like` is one."""
    return Variable(made) if isinstance(like, Variable) else made


def permuted(x: Any, axes: Sequence[int]) -> Any:
    """`x` with its axes in another order; itself where nothing moves."""
    return x if list(axes) == list(range(len(axes))) else ops.transpose(x, axes)


def check_values(values: Any, check: Callable[[Any], Any]) -> None:
    """Have `check` see the values: now, or of what is traced at each call."""
    if isinstance(values, Traced):
        record: Any = values
        record.record_check(check)
    else:
        check(values)


def vocabulary(name: str, *args: Any) -> Any:
    """A function of the scalar language, elementwise."""
    known = next((x for x in args if hasattr(x, "__nbfused_op__")), None)
    if known is not None:
        return known.__nbfused_op__(name, args)
    first, *rest = (Variable(x) if is_value(x) else x for x in args)
    return first.__nbfused_op__(name, (first, *rest)).data
