"""Annotations of a kernel's parameters, and pairs for its derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np

from ...arrays import Array, check_dtype
from ...errors import KernelTypeError
from ...scalar.language.composite import COMPOSITES, Composite
from ...support.dtypes import number_kind
from ...support.records import record

__all__ = ["DiffView", "Dual", "View", "ViewType", "annotation_of", "elements_of",
           "fields_of", "is_floating", "note_structs", "structs_in"]


class Dual(NamedTuple):
    """A pair of an array and its derivative, which a kernel reads or adds to.

    ``(x, dx)`` means the same.

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
        Of the arrays; None for any.  `ndim` does not count the axes of an element.
    kind
        The class of vectors, matrices or quaternions that are elements, by its name.
    struct
        The NamedTuple or dataclass that elements are.
    """

    differentiable: bool
    dtype: np.dtype | None = None
    ndim: int | None = None
    kind: str = ""
    struct: type | None = None

    def __getitem__(self, item: Any) -> ViewType:
        """A dtype, a number of dimensions, the class of elements, or several."""
        dtype, ndim, kind, struct = self.dtype, self.ndim, self.kind, self.struct
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, type) and issubclass(part, Composite):
                kind = part.__name__
            elif fields_of(part) is not None:
                struct = part
            elif isinstance(part, int) and not isinstance(part, bool) and part >= 0:
                ndim = part
            elif part is None or type(part) is int:
                raise KernelTypeError(
                    f"{self!r}[{part}]: expected a dtype, a number of dimensions of 0 "
                    "or more, nf.vec3 or another class of elements, or several")
            else:
                dtype = check_dtype(part, "dtype")
        if self.differentiable and dtype is not None and not is_floating(dtype):
            raise KernelTypeError(f"DiffView[{dtype}]: only floating arrays have a "
                                  "derivative; use View")
        return ViewType(self.differentiable, dtype, ndim, kind, struct)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The last axes of an array, which an element takes."""
        found: tuple[int, ...] = COMPOSITES[self.kind].shape if self.kind else ()
        return found

    def field(self, annotation: Any) -> Any:
        """Annotation of the array of one field of the structs that are elements."""
        if isinstance(annotation, ViewType):
            return annotation
        if isinstance(annotation, type):
            if issubclass(annotation, Composite):
                return replace(self, kind=annotation.__name__, struct=None)
            if fields_of(annotation) is not None:
                return replace(self, struct=annotation)
            if issubclass(annotation, (int, np.integer, np.bool_)):
                return ViewType(False, None, self.ndim)
        return replace(self, struct=None)

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
        element = self.element_shape
        if element and array.shape[-len(element):] != element:
            raise KernelTypeError(
                f"{kernel}: '{name}' must be an array of {self.kind}, whose last axes "
                f"are {element}, got the shape {array.shape}")
        ndim = array.ndim - len(element)
        if self.ndim is not None and ndim != self.ndim:
            raise KernelTypeError(
                f"{kernel}: '{name}' must have {self.ndim} dimensions"
                f"{f' of {self.kind}' * bool(element)}, got {ndim}; use "
                f"{name}.reshape(...)")

    def __repr__(self) -> str:
        name = "DiffView" if self.differentiable else "View"
        struct = self.struct.__name__ if self.struct else self.kind or None
        parts = [str(p) for p in (struct, self.dtype, self.ndim) if p is not None]
        return f"{name}[{', '.join(parts)}]" if parts else name


class View:
    """Annotates an array parameter of a kernel that is not differentiated.

    ``View[np.float32]``, ``View[2]`` and ``View[np.float32, 2]`` say which dtype and
    how many dimensions it has; another array is a `KernelTypeError` at the launch.
    ``View[nf.vec3]`` has vectors as elements, along its last axis, ``View[nf.mat33]``
    matrices along the last two, and `quat` quaternions.

    ``View[Particle]``, of a NamedTuple or dataclass, is an array of structs:
    ``p[i].mass`` is an element of a field, ``p[i] = Particle(...)`` stores them all.
    It is given as a structured array of NumPy, or as a dict or ``Particle(...)`` of
    arrays, one for each field.

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
    """Annotates an array parameter of a kernel that is differentiated.

    As `View`, of floating dtypes only.  Derivatives of the kernel take a pair for it:
    ``(x, dx)`` or `Dual`.
    """

    type: ViewType = ViewType(True)


def annotation_of(given: Any) -> Any:
    """An annotation, a `ViewType` in place of `View` and `DiffView`."""
    return given.type if isinstance(given, type) and issubclass(given, View) else given


#: The fields of each class that was asked for: evaluating annotations takes long.
_FIELDS: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


def fields_of(annotation: Any) -> dict[str, Any] | None:
    """Names and annotations of the fields of a NamedTuple or dataclass, else None.

    Of an array of structs, the arrays of their fields.
    """
    if isinstance(annotation, ViewType) and annotation.struct is not None:
        inner = fields_of(annotation.struct) or {}
        return {name: annotation.field(a) for name, a in inner.items()}
    if not isinstance(annotation, type) or issubclass(annotation, Composite):
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


def elements_of(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations of the parameters whose elements are no numbers, without dtypes."""
    return {n: ViewType(False, kind=a.kind, struct=a.struct)
            for n, a in annotations.items()
            if isinstance(a, ViewType) and (a.kind or a.struct)}


def structs_in(annotations: Iterable[Any]) -> list[tuple[type, dict[str, Any]]]:
    """The classes of structs among annotations, with their fields, inner ones too."""
    found: list[tuple[type, dict[str, Any]]] = []
    for annotation in annotations:
        struct: Any = annotation.struct if isinstance(annotation, ViewType) else \
            annotation
        inside = fields_of(struct)
        if inside is not None:
            found += [(struct, inside), *structs_in(inside.values())]
    return found


def note_structs(found: Iterable[tuple[type, dict[str, Any]]]) -> None:
    """Register fields of structs where names in annotations cannot be resolved."""
    _FIELDS.update(found)
