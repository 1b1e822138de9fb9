"""Methods of arrays that are NumPy's functions of the same name."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

from ...arrays import dtype_of
from ...errors import KernelTypeError
from ...registry.operations import NUMPY, OPS
from .layouts import raveled

__all__ = ["TableMethods"]


def _method(name: str) -> Callable[..., Any]:
    """The method that calls ``numpy.<name>`` of the table."""
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return NUMPY[f"numpy.{name}"](self, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``numpy.{name}`` of this array."
    return call


def _refused(name: str, way_out: str) -> Callable[..., NoReturn]:
    """A method that has no meaning for a value with a gradient."""
    def call(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise KernelTypeError(f"{name}: a {type(self).__name__} has no {name}(): "
                              f"{way_out}")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Refuse: {way_out}."
    return call


class TableMethods:
    """Methods of NumPy's arrays that the table of NumPy's functions has."""

    __slots__ = ()

    argpartition = _method("argpartition")
    argsort = _method("argsort")
    choose = _method("choose")
    compress = _method("compress")
    cumprod = _method("cumprod")
    cumsum = _method("cumsum")
    diagonal = _method("diagonal")
    dot = _method("dot")
    nonzero = _method("nonzero")
    repeat = _method("repeat")
    round = _method("round")
    searchsorted = _method("searchsorted")
    swapaxes = _method("swapaxes")
    trace = _method("trace")

    sort = _refused("sort", "it would change the array in place; use numpy.sort(x)")
    partition = _refused("partition", "it would change the array in place; use "
                         "numpy.partition(x, kth)")
    put = _refused("put", "it would change the array in place; use nf.ops.where")
    itemset = _refused("itemset", "it would change the array in place; use "
                       "nf.ops.where")
    resize = _refused("resize", "it would change the array in place; use "
                      "numpy.resize(x, shape)")

    @property
    def real(self) -> Any:
        """The real part."""
        return NUMPY["numpy.real"](self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return NUMPY["numpy.imag"](self)

    def conjugate(self) -> Any:
        """The complex conjugate; the array itself where it is real."""
        return self if dtype_of(self).kind != "c" else \
            self.__nbfused_op__("conj", (self,))  # type: ignore[attr-defined]

    conj = conjugate

    def flatten(self, order: str = "C") -> Any:
        """A copy of the elements in one dimension."""
        flat = OPS["reshape"](self, (-1,)) if order == "C" else raveled(self, order)
        return flat.copy()

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return dtype_of(self).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape)*dtype_of(self).itemsize  # type: ignore[attr-defined]

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.to_numpy().tolist()  # type: ignore[attr-defined]
