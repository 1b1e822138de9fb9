"""Attributes and methods of NumPy's ufuncs, for `Elementwise`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import dtype_of
from ..arrays.traced import TracedNumber
from ..autograd import apply
from ..autograd.numpy_api.ufuncs import given_options
from ..errors import KernelTypeError
from ..registry.operations import NAMESPACES, OPS
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Block, Function, Let, Value
from ..scalar.typing.promotion import promoted_dtype
from ..scalar.typing.types import Type, Weak, result_types
from ..specs import Map
from ..specs.vjp.functions import compose
from ..support.dtypes import rank_of
from ..support.forks import cached_property
from .base import Parameters, check_operand, is_number, kind_of

__all__ = ["CASTING", "Ufunc", "apply_where", "cast_inputs"]

CASTING = ("no", "equiv", "safe", "same_kind", "unsafe")

#: Operation of the scalar language → the op that combines many by it, what it starts
#: with.
_COMBINES: dict[str, tuple[str, Any]] = {
    "add": ("sum", 0), "mul": ("prod", 1), "max": ("max", None), "min": ("min", None),
    "logical_and": ("all", True), "logical_or": ("any", False),
}
#: NumPy's ufunc of which such an op is the ``reduce``.
_UFUNCS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum",
           "all": "logical_and", "any": "logical_or"}
#: NumPy's keywords that have to have their defaults.
_UNSUPPORTED = frozenset({"order", "subok", "signature"})
#: One array dtype of each kind and size, in NumPy's order.
_DTYPES = tuple(map(np.dtype, "?bBhHiIlLefdFD"))


class Ufunc:
    """NumPy's ufunc interface: `types`, `identity`, `reduce`, `outer` and keywords."""

    __name__: str
    function: Any
    parameters: Parameters

    @cached_property
    def types(self) -> list[str]:
        """Input and result dtypes in NumPy's notation: ``ff->f``."""
        count = len(self.function.params)
        found = []
        for dtype in _DTYPES:
            try:
                results = result_types(self.function, (dtype,) * count)
            except KernelTypeError:
                continue
            found.append(f"{dtype.char * count}->{''.join(r.char for r in results)}")
        return found

    @property
    def ntypes(self) -> int:
        """Number of `types`."""
        return len(self.types)

    @cached_property
    def _combine(self) -> tuple[str, Any] | None:
        """The op that combines many values, and its identity, or None."""
        match self.function:
            case Function(params=(a, b), body=Block(
                    statements=(Let(results=(r,), op=op, args=args),), yields=(y,))) \
                    if r == y and set(args) == {a, b} and op in _COMBINES:
                return _COMBINES[op]
        return None

    @property
    def identity(self) -> Any:
        """The neutral element; None if there is none, or none is known."""
        return None if self._combine is None else self._combine[1]

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
               keepdims: bool = False, **keywords: Any) -> Any:
        """Combine along `axis`, as a ufunc's ``reduce``; differentiable.

        Parameters
        ----------
        array : array or Variable
            What to reduce.
        axis : int, tuple of int or None
            None: all axes.
        dtype, out, keepdims
            As of `nbfused.reduction`.
        **keywords
            `initial` and `where`, as of `numpy.ufunc.reduce`.

        Raises
        ------
        KernelTypeError
            If this is not a sum, product, maximum, minimum, and, or.

        Examples
        --------
        >>> import numpy as np, nbfused as nf
        >>> nf.ops.add.reduce(np.ones((2, 3)))
        array([2., 2., 2.])
        """
        return OPS[self._reduction("reduce")](array, axis=axis, dtype=dtype, out=out,
                                              keepdims=keepdims, **keywords)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """Apply to every pair: shape ``a.shape + b.shape``.

        Examples
        --------
        >>> import numpy as np, nbfused as nf
        >>> nf.ops.multiply.outer(np.array([1, 2]), np.array([3, 4]))
        array([[3, 4],
               [6, 8]])
        """
        for x, name in ((a, "a"), (b, "b")):
            check_operand(x, f"{self.__name__}.outer", name)
        if len(self.function.params) != 2:
            raise KernelTypeError(f"{self.__name__}.outer: takes a function of two "
                                  f"arguments, not {len(self.function.params)}")
        call: Any = self
        if is_number(a) or is_number(b):
            return call(a, b, **kwargs)
        return call(OPS["reshape"](a, (*a.shape, *(1 for _ in b.shape))), b, **kwargs)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None,
                   out: Any = None) -> Any:
        """Combine the elements up to each one, as a ufunc's ``accumulate``.

        Raises
        ------
        KernelTypeError
            If this is not a sum, product, maximum, minimum, and, or.

        Examples
        --------
        >>> import numpy as np, nbfused as nf
        >>> nf.ops.maximum.accumulate(np.array([1, 3, 2, 5]))
        array([1, 3, 3, 5])
        """
        reduction = self._reduction("accumulate")
        run = NAMESPACES["numpy"]("ufunc.accumulate")
        return run(_UFUNCS[reduction], self, array, axis, dtype, out)

    def _reduction(self, method: str) -> str:
        """The op that combines many values; an error where there is none."""
        if self._combine is None:
            raise KernelTypeError(
                f"{self.__name__}.{method}: not known to be associative; expected a "
                "sum, product, max, min, and, or of two arguments; use "
                "nbfused.reduction(combine=...) with the function and its identity")
        return self._combine[0]

    @property
    def is_ufunc(self) -> bool:
        """True for the operation of one of NumPy's ufuncs."""
        name = self.parameters.name
        return isinstance(getattr(np, name, None), np.ufunc) and OPS.get(name) is self

    def take_options(self, kwargs: dict[str, Any]) -> tuple[Any, str]:
        """Take `where` and `casting` out of keywords, unless parameters."""
        names = self.parameters.names
        for name in _UNSUPPORTED & kwargs.keys() - set(names):
            given_options(self.parameters.name, {name: kwargs.pop(name)}, frozenset())
        where = kwargs.pop("where", True) if "where" not in names else True
        casting = kwargs.pop("casting", "same_kind") if "casting" not in names \
            else "same_kind"
        if casting not in CASTING:
            raise KernelTypeError(f"{self.__name__}: 'casting' must be one of "
                                  f"{', '.join(CASTING)}, got {casting!r}")
        if where is not True:
            check_operand(where, self.__name__, "where")
            plain = type(where) in (bool, int, float, complex)
            given = np.dtype(type(where)) if plain else dtype_of(where)
            if given != np.bool_:
                raise KernelTypeError(f"{self.__name__}: 'where' has dtype {given}, "
                                      "expected bool; compare it")
        return where, casting


def apply_where(function: Function, where: Any, values: Sequence[Any],
                outs: Sequence[Any] | None, names: Sequence[str],
                **options: Any) -> tuple[Any, ...]:
    """Apply `function` where a condition holds, and keep `out` elsewhere.

    Elsewhere the outputs keep what they have; new ones are zero (NumPy leaves them
    unset), and nothing is differentiated.
    """
    count = len(function.results)
    given = (None,) * count if outs is None else tuple(outs)
    # False is weak enough for every dtype, and casts to its zero.
    old = [False if out is None else out for out in given]
    inputs = (where, *values, *old)
    olds = tuple(f"out[{k}]" for k in range(count)) if count > 1 else ("out",)
    return apply(Map(_guarded(function), tuple(map(kind_of, inputs))), inputs, out=outs,
                 names=("where", *names, *olds), **options)


def cast_inputs(function: Function, dtype: np.dtype, values: Sequence[Any],
                ) -> Function:
    """Cast inputs so that `function` computes in `dtype`.

    What holds more than its results for such values: their arithmetic would wrap around
    before it is stored.
    """
    types: list[Type] = []
    for v in values:
        kind = v.python if isinstance(v, TracedNumber) else type(v)
        types.append(Weak(kind.__name__) if kind in (bool, int, float, complex)
                     else dtype_of(v))
    wider = tuple(not isinstance(t, Weak) and t != dtype and (
        rank_of(t) < rank_of(dtype) or promoted_dtype(t, dtype) == dtype)
        for t in types)
    cast = tuple(dtype if w else t for t, w in zip(types, wider, strict=True))
    known, found = (_results(function, given) for given in (tuple(types), cast))
    if found is None or found == known or known == (dtype,) * len(found):
        return function
    return _cast_first(function, dtype.name, wider)


def _results(function: Function, types: tuple[Type, ...]) -> tuple[Any, ...] | None:
    """Dtypes of the results; None if the function does not take such numbers."""
    try:
        return result_types(function, types)
    except KernelTypeError:
        return None


@lru_cache(maxsize=256)
def _cast_first(function: Function, dtype: str, which: tuple[bool, ...]) -> Function:
    """`function` with some arguments cast to `dtype`."""
    return compose(function.name, function.params, lambda b: b.call(function, *(
        b.let("cast", p, attr=dtype) if w else p
        for p, w in zip(function.params, which, strict=True))))


@lru_cache(maxsize=256)
def _guarded(function: Function) -> Function:
    """``function(*args) if where else old``, with an old value for each result."""
    where = _unused("where", function.params)
    old = tuple(_unused(f"old{k}", function.params)
                for k in range(len(function.results)))

    def build(b: Builder) -> tuple[Value, ...]:
        condition = b.let("cast", where, attr="bool")
        with b.region() as then:
            results = b.call(function, *function.params)
        return b.branch(condition, Block(tuple(then), results), Block((), old), old)

    return compose(function.name, (where, *function.params, *old), build)


def _unused(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
