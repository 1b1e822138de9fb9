"""`contraction`: a product of two arrays, with a scalar function as epilogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..arrays.traced import find_traced
from ..autograd import apply
from ..errors import KernelTypeError
from ..scalar.ir.nodes import Function
from ..specs import Contract
from ..specs.vjp.functions import identity
from .base import (
    check_integers,
    check_operand,
    kind_of,
    output_tuple,
    raise_named,
    unpack_single,
)
from .cached_call import CachedCall
from .elementwise import Func
from .kernel_counts import counting_decorator
from .numbers import brief
from .scalar import ScalarFunction, scalar_function

__all__ = ["Contraction", "cached_product", "contract", "contraction"]


@lru_cache(maxsize=1024)
def _spec(subscripts: str, epilogue: Function, kinds: tuple[str, ...],
          prologues: tuple[Function | None, Function | None],
          out_axes: tuple[int, ...] | None, precision: str | None) -> Contract:
    return Contract(subscripts, epilogue, kinds, prologues, out_axes,
                    precision=precision)


def contract(subscripts: str, a: Any, b: Any, extras: Sequence[Any] = (), *,
             epilogue: Function | None = None,
             prologues: tuple[Function | None, Function | None] = (None, None),
             out_axes: tuple[int, ...] | None = None, precision: str | None = None,
             out: Any = None, names: tuple[str, ...] = ("a", "b"),
             what: str = "contract", key: tuple[Any, ...] | None = None) -> Any:
    """Check the arguments of a product and run its `Contract`."""
    if precision not in (None, "tf32"):
        raise KernelTypeError(f"{what}: 'precision' must be None or 'tf32', got "
                              f"{precision!r}")
    function = identity() if epilogue is None else epilogue
    if not function.params or not function.results:
        raise KernelTypeError(
            f"{what}: the epilogue {function.name}({', '.join(function.params)}) must "
            "take the product and return a number, or a tuple of numbers")
    if len(function.params) != 1 + len(extras):
        raise KernelTypeError(
            f"{what}: the epilogue {function.name}({', '.join(function.params)}) takes "
            f"the product and {len(function.params) - 1} more, got {len(extras)} "
            "extras; pass as many")
    for which, prologue in zip("ab", prologues, strict=True):
        if prologue is not None and (len(prologue.params), len(prologue.results)) != (
                1, 1):
            raise KernelTypeError(
                f"{what}: 'prologue_{which}' must take one value and return one, got "
                f"{prologue.name}({', '.join(prologue.params)})")
    names = (*names, *(f"extras[{k}]" for k in range(2 + len(extras) - len(names))))
    for x, name in zip((a, b, *extras), names, strict=True):
        check_operand(x, what, name)
    for x, name in ((a, names[0]), (b, names[1])):
        if kind_of(x) != "element":
            raise KernelTypeError(f"{what}: '{name}' must be an array, got the number "
                                  f"{x!r}; multiply by it instead")
    values = [a, b, *extras]
    whole = int in map(type, extras)
    if whole or find_traced(values) is not None:
        values = check_integers(values, what, names)
    spec = _spec(subscripts, function, tuple(map(kind_of, extras)), prologues, out_axes,
                 precision)
    outs = output_tuple(out, len(function.results), what)
    try:
        results = apply(spec, values, out=outs, names=names)
    except KernelTypeError as error:
        raise_named(error, what, names, values)
    if key is not None and not whole and find_traced(values) is None:
        if len(_cached) >= _LIMIT:
            _cached.clear()
        _cached[key] = CachedCall(spec, values, outs, what, names)
    return unpack_single(results)


_LIMIT = 1024
_cached: dict[tuple[Any, ...], CachedCall] = {}


def cached_product(what: str, a: Any, b: Any, bias: Any, epilogue: Any, out: Any,
                   ) -> tuple[tuple[Any, ...] | None, CachedCall | None]:
    """Look up the cached call of a product; returns its key too.

    An epilogue is known by its identity, or its name.  There is no key where it is
    none, or has no hash.
    """
    known = epilogue is None or type(epilogue) is str or (
        callable(epilogue) and type(epilogue).__hash__ is not None)
    if not known:
        return None, None
    # The arrays of Variables, whose own `ndim` is one call more.
    ndims = (getattr(getattr(a, "_value", a), "ndim", 0),
             getattr(getattr(b, "_value", b), "ndim", 0))
    key = (what, type(a), type(b), ndims, type(bias), epilogue, type(out))
    return key, _cached.get(key)


class Contraction(Func):
    """A product of two arrays; the function is the epilogue on each element.

    Its first parameter is the accumulated product; the others are arrays that
    broadcast to the result, or numbers.
    """

    options: tuple[str, ...] = ("out",)

    def __init__(self, pyfunc: Callable[..., Any], subscripts: str) -> None:
        super().__init__(pyfunc)
        if not self.signature.parameters:
            raise KernelTypeError(
                f"nf.contraction: {self.__name__}() takes nothing; expected a function "
                "of the product, and of more arrays or numbers, as in lambda acc: acc")
        self.subscripts = subscripts
        product = next(iter(self.signature.parameters))
        self.parameters.note = f", two factors for the first, {product!r}"

    def made_of(self) -> tuple[Any, ...]:
        """The epilogue and the subscripts, from which a copy can be made."""
        return self.pyfunc, self.subscripts

    def __call__(self, a: Any, b: Any, *args: Any, out: Any = None,
                 **kwargs: Any) -> Any:
        """Multiply `a` and `b`, then apply the epilogue."""
        values = self.parameters.bind((a, *args), kwargs)
        names = tuple(self.signature.parameters)
        return contract(self.subscripts, a, b, values[1:], epilogue=self.function,
                        out=out, names=("a", "b", *names[1:]), what=self.__name__)


def contraction(subscripts: str) -> Callable[[Callable[..., Any]], Contraction]:
    """Make a scalar function the epilogue of a product.

    Its first parameter is an element of the product, the others are arrays that
    broadcast to the product, or numbers.

    Parameters
    ----------
    subscripts : str
        As in `numpy.einsum`, two operands; ``...`` are broadcast batch axes.

    Returns
    -------
    Contraction
        Called with the two factors, then with the function's further arguments.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.contraction("mk,kn->mn")
    ... def matmul_add_relu(acc, bias):
    ...     return max(acc + bias, 0.0)
    >>> matmul_add_relu(np.eye(2), np.array([[1.0, -2.0], [-3.0, 4.0]]), 1.0)
    array([[2., 0.],
           [0., 5.]])
    """
    check_subscripts(subscripts, "nf.contraction")
    return counting_decorator(lambda pyfunc: Contraction(pyfunc, subscripts))


def check_subscripts(subscripts: Any, what: str) -> None:
    """Raise `KernelTypeError` unless `subscripts` is text."""
    if callable(subscripts):
        raise KernelTypeError(f"{what} takes 'subscripts' before it decorates; got "
                              f"{brief(subscripts)}; write @{what}('mk,kn->mn')")
    if not isinstance(subscripts, str):
        raise KernelTypeError(f"{what}: 'subscripts' must be text such as "
                              f"'mk,kn->mn', got {type(subscripts).__name__}")


def epilogue_of(given: ScalarFunction | Function | None, what: str = "epilogue",
                takes: int = 1) -> Function | None:
    """Convert a given epilogue to a function of `takes` values; None to None."""
    return None if given is None else scalar_function(given, what, takes)
