"""Annotations of a kernel's parameters, and pairs for its derivatives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays import Array, check_dtype
from ...errors import KernelTypeError
from ...support.dtypes import number_kind
from ...support.records import record

__all__ = ["DiffView", "Dual", "View", "ViewType", "annotation_of", "fields_of",
           "is_floating", "note_structs", "structs_in"]


class Dual(NamedTuple):
    """An array and what its derivative is read from or added to.

    Where a kernel's derivative takes a pair, ``(x, dx)`` does as well.

    Attributes
    ----------
    primal
        The array.
    derivative
        Its tangent or its cotangent.
    """

    primal: Any
    derivative: Any


def is_floating(dtype: np.dtype) -> bool:
    """True if arrays of `dtype` can have a derivative."""
    return number_kind(dtype) == "f"


@record(frozen=True)
class ViewType:
    """An array parameter, as an annotation says it.

    Attributes
    ----------
    differentiable
        Whether the derivatives of the kernel take a pair for it.
    dtype, ndim
        Of the arrays; None for any.
    """

    differentiable: bool
    dtype: np.dtype | None = None
    ndim: int | None = None

    def __getitem__(self, item: Any) -> ViewType:
        """A dtype, a number of dimensions, or both."""
        dtype, ndim = self.dtype, self.ndim
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, int) and not isinstance(part, bool) and part >= 0:
                ndim = part
            elif part is None or type(part) is int:
                raise KernelTypeError(f"{self!r}[{part}]: expected a dtype, a number "
                                      "of dimensions of 0 or more, or both")
            else:
                dtype = check_dtype(part, "dtype")
        if self.differentiable and dtype is not None and not is_floating(dtype):
            raise KernelTypeError(f"DiffView[{dtype}]: only floating arrays have a "
                                  "derivative; use View")
        return ViewType(self.differentiable, dtype, ndim)

    def check(self, array: Array, name: str, kernel: str) -> None:
        """`KernelTypeError` unless the array is one of these."""
        dtype = self.dtype
        if dtype is not None and array.dtype != dtype:
            raise KernelTypeError(
                f"{kernel}: '{name}' must be an array of {dtype}, got {array.dtype}; "
                f"convert it with {name}.astype('{dtype}')")
        if self.differentiable and not is_floating(array.dtype):
            raise KernelTypeError(
                f"{kernel}: '{name}' must be a floating array to have a derivative, "
                f"got {array.dtype}; convert it with {name}.astype('float32')")
        if self.ndim is not None and array.ndim != self.ndim:
            raise KernelTypeError(
                f"{kernel}: '{name}' must have {self.ndim} dimensions, got "
                f"{array.ndim}; use {name}.reshape(...)")

    def __repr__(self) -> str:
        name = "DiffView" if self.differentiable else "View"
        parts = [str(p) for p in (self.dtype, self.ndim) if p is not None]
        return f"{name}[{', '.join(parts)}]" if parts else name


class View:
    """Annotates an array parameter of a kernel that is not differentiated.

    ``View[np.float32]``, ``View[2]`` and ``View[np.float32, 2]`` say which dtype and
    how many dimensions it has; another array is a `KernelTypeError` at the launch.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.rawkernel(differentiable=True)
    ... def gather(x: nf.DiffView[np.float64, 1], at: nf.View[np.int64], y):
    ...     i = nf.grid(1)
    ...     if i < y.shape[0]:
    ...         y[i] = x[at[i]]
    >>> x, at, y = np.arange(3.0), np.array([2, 2, 0]), np.zeros(3)
    >>> gather[1, 32](x, at, y)
    >>> dx, dy = np.zeros(3), np.ones(3)
    >>> gather.bwd[1, 32]((x, dx), at, (y, dy))
    >>> dx
    array([1., 0., 2.])
    """

    type: ViewType = ViewType(False)

    def __class_getitem__(cls, item: Any) -> ViewType:
        """Arrays of a dtype, of a number of dimensions, or of both."""
        return cls.type[item]


class DiffView(View):
    """Annotates an array that the derivatives of a kernel take a pair for.

    As `View`, of floating dtypes only; `Dual` or a tuple is the pair.
    """

    type: ViewType = ViewType(True)


def annotation_of(given: Any) -> Any:
    """An annotation, a `ViewType` in place of `View` and `DiffView`."""
    return given.type if isinstance(given, type) and issubclass(given, View) else given


#: The fields of each class that was asked for: evaluating annotations takes long.
_FIELDS: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


def fields_of(annotation: Any) -> dict[str, Any] | None:
    """Names and annotations of the fields of a NamedTuple or dataclass, else None."""
    if not isinstance(annotation, type):
        return None
    found = _FIELDS.get(annotation)
    if found is not None:
        return found
    if is_dataclass(annotation):
        names = [f.name for f in fields(annotation)]
    elif issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        names = list(annotation._fields)
    else:
        return None
    hints = get_type_hints(annotation)
    found = {name: annotation_of(hints.get(name)) for name in names}
    _FIELDS[annotation] = found
    return found


def structs_in(annotations: Iterable[Any]) -> list[tuple[type, dict[str, Any]]]:
    """The classes of structs among annotations, with their fields, inner ones too."""
    found: list[tuple[type, dict[str, Any]]] = []
    for annotation in annotations:
        inside = fields_of(annotation)
        if inside is not None:
            found += [(annotation, inside), *structs_in(inside.values())]
    return found


def note_structs(found: Iterable[tuple[type, dict[str, Any]]]) -> None:
    """Register fields of structs where names in annotations cannot be resolved."""
    _FIELDS.update(found)
