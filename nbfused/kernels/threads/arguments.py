"""Arguments of a kernel, taken apart: structs into arrays and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from ...arrays import Array, describe, is_array
from ...arrays.traced import Traced
from ...autograd import Variable
from ...autograd.calls.batched import Batched
from ...autograd.recording import recording
from ...errors import KernelTypeError, NotDifferentiableError
from ...scalar.ir.nodes import Literal
from ...scalar.language.composite import Composite
from ...scalar.source import structure
from ...scalar.source.resolve import freeze
from ...scalar.source.static import Known
from ...scalar.typing.python_numbers import plain_number
from ...support.records import record
from .views import Dual, ViewType, fields_of

__all__ = ["FlatArguments", "Leaf", "array_of", "arrays_of", "flatten_arguments",
           "parts_of"]

_NUMBERS = (bool, int, float, complex, np.generic)


def _refuse_traced(what: str, value: Any) -> None:
    """Refuse a placeholder of a transform, whose array no launch can take."""
    if isinstance(value, Traced):
        out = ("give the kernel an axis of its own for the samples, or call it for one "
               "after the other, without vmap (which jacrev, jacfwd, jacobian and "
               "hessian use)" if isinstance(value, Batched) else
               "call an operation there, made by kernel.as_op(...), or launch outside "
               "of nf.fuse")
        raise KernelTypeError(f"{what} is an array {value.unknown}, and a launch takes "
                              f"arrays that are there; {out}")


def array_of(kernel: str, x: Any) -> Any:
    """The array of a Variable, or what is none."""
    _refuse_traced(f"{kernel}: an argument or its cotangent", x)
    found = x.data if isinstance(x, Variable) else x
    _refuse_traced(f"{kernel}: an argument or its cotangent", found)
    return found


def arrays_of(kernel: str, names: Sequence[str], values: Sequence[Any]) -> dict[
        str, Any]:
    """The arrays of the first of some Variables, by their names."""
    return {n: array_of(kernel, x) for n, x in zip(names, values, strict=False)}


@record(frozen=True)
class Leaf:
    """An array or a number among the arguments.

    Attributes
    ----------
    name
        As the user writes it: ``"p.x"``.
    value
        An `Array` or a number.
    owner
        What the user passed.
    annotation
        Of the parameter or the field, or None.
    """

    name: str
    value: Any
    owner: Any
    annotation: Any = None


@record
class FlatArguments:
    """The arguments of one call.

    Attributes
    ----------
    leaves
        In the order in which a kernel takes them.
    shapes
        For each parameter what it is, as `parse` wants to know it.
    """

    leaves: list[Leaf] = field(default_factory=list)
    shapes: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> list[Any]:
        """Arrays and numbers."""
        return [leaf.value for leaf in self.leaves]

    @property
    def names(self) -> list[str]:
        """The names of the leaves in messages."""
        return [leaf.name for leaf in self.leaves]

    @property
    def kinds(self) -> tuple[str, ...]:
        """``"array"`` or ``"scalar"`` for each."""
        return tuple("array" if type(leaf.value) is Array else "scalar"
                     for leaf in self.leaves)

    @property
    def frozen(self) -> dict[str, str]:
        """The numbers that are frozen into the kernel, as text."""
        return {name: ", ".join(x.text for x in structure.leaves(shape)
                                if isinstance(x, Literal))
                for name, shape in self.shapes.items() if _is_known(shape)}

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable key, equal for equal shapes."""
        return tuple((name, _key(shape)) for name, shape in self.shapes.items())


def _is_known(shape: Any) -> bool:
    """True if nothing of it is passed at the call."""
    return all(isinstance(s, Literal) for s in structure.leaves(shape))


def _key(shape: Any) -> Any:
    if isinstance(shape, structure.Struct):
        return (type(shape), getattr(shape, "kind", shape.names), *map(_key, shape))
    if isinstance(shape, tuple):
        return tuple(map(_key, shape))
    return shape


def flatten_arguments(kernel: str, arguments: Mapping[str, Any],
                      annotations: Mapping[str, Any],
                      checked: bool = True) -> FlatArguments:
    """Take arguments apart into arrays and numbers.

    Parameters
    ----------
    kernel
        Its name, for messages.
    arguments
        What was passed for each parameter.
    annotations
        Of the parameters that have one.
    checked
        Whether the annotations are held.

    Raises
    ------
    KernelTypeError
        What is no array, number or struct of these; not what the annotation says.
    NotDifferentiableError
        A Variable that requires a gradient.
    """
    taking = _Taking(kernel, checked)
    for name, value in arguments.items():
        taking.flat.shapes[name] = taking.visit(name, value, annotations.get(name))
    return taking.flat


class _Taking:
    def __init__(self, kernel: str, checked: bool) -> None:
        self.kernel, self.checked = kernel, checked
        self.flat = FlatArguments()

    def visit(self, name: str, value: Any, annotation: Any) -> Any:
        """Enter the leaves of `value`; its shape."""
        if isinstance(value, Variable):
            value = self.unwrap_variable(name, value)
        if isinstance(value, Known):
            return freeze(value)
        parts, expected = parts_of(value), fields_of(annotation)
        if type(value) is Dual and isinstance(annotation, ViewType):
            inside = replace(annotation, differentiable=False, dtype=None)
            return self.struct(name, parts or {}, dict.fromkeys(Dual._fields, inside))
        if expected is not None:
            found = self.struct(name, self.match_fields(name, value, parts, expected),
                                expected)
            if not isinstance(annotation, ViewType) or any(
                    isinstance(v, Dual) for v in (parts or {}).values()):
                return found  # one, or pairs of arrays in a rule by hand
            return self.records(name, found, annotation)
        if parts is not None:
            found = self.struct(name, parts, {})
            if isinstance(value, np.ndarray):
                return structure.Records(found.names, found)
            composite = isinstance(value, Composite)
            return structure.Vector(type(value).__name__, found) if composite else found
        if isinstance(value, _NUMBERS):
            return self.number(name, value, annotation)
        if is_array(value):
            return self.array(name, value, annotation)
        if isinstance(value, (tuple, list)):
            return tuple(self.visit(f"{name}[{k}]", v, None)
                         for k, v in enumerate(value))
        _refuse_traced(f"{self.kernel}: '{name}'", value)
        raise KernelTypeError(
            f"{self.kernel}: '{name}' is a {type(value).__name__}; expected an array, "
            "a number, or a tuple, list, dict, namedtuple or dataclass of these")

    def struct(self, name: str, parts: Mapping[str, Any],
               annotations: Mapping[str, Any]) -> structure.Struct:
        """Fields in order."""
        return structure.Struct(parts, [
            self.visit(f"{name}.{n}", v, annotations.get(n)) for n, v in parts.items()])

    def records(self, name: str, found: structure.Struct,
                annotation: ViewType) -> structure.Records:
        """The arrays of an array of structs, which have as many elements."""
        count = len(structure.leaves(found))
        shapes = {}
        for leaf in self.flat.leaves[len(self.flat.leaves) - count:]:
            if type(leaf.value) is not Array:
                raise KernelTypeError(f"{self.kernel}: '{leaf.name}' must be an array, "
                                      f"a field of {annotation}, got a number")
            element = leaf.annotation.element_shape if isinstance(
                leaf.annotation, ViewType) else ()
            shapes[leaf.name] = leaf.value.shape[:leaf.value.ndim - len(element)]
        if len(set(shapes.values())) > 1:
            raise KernelTypeError(
                f"{self.kernel}: the fields of '{name}' must have as many elements, "
                f"got {', '.join(f'{n}: {s}' for n, s in shapes.items())}")
        return structure.Records(found.names, found)

    def match_fields(self, name: str, value: Any, parts: Mapping[str, Any] | None,
                     expected: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
        """The fields in the order of the annotation; a plain tuple has them already."""
        names = list(expected)
        if parts is None and isinstance(value, tuple) and len(value) == len(names):
            return dict(zip(names, value, strict=True))
        if parts is None or set(parts) != set(names):
            got = f"a {type(value).__name__}" if parts is None else \
                f"the fields {', '.join(map(str, parts)) or '(none)'}"
            if parts is None and isinstance(value, tuple):
                got = f"a tuple of {len(value)}"
            raise KernelTypeError(f"{self.kernel}: '{name}' must have the fields "
                                  f"{', '.join(names)}, got {got}; pass exactly these")
        return {n: parts[n] for n in names}

    def number(self, name: str, value: Any, annotation: Any) -> None:
        """A number; an annotation with a NumPy dtype converts it."""
        if self.checked and isinstance(annotation, ViewType):
            raise KernelTypeError(
                f"{self.kernel}: '{name}' must be an array ({annotation}), got the "
                f"number {value!r}; pass nbfused.array([{value!r}])")
        value = plain_number(value)
        if isinstance(annotation, type) and issubclass(annotation, np.generic):
            value = self.convert(name, value, annotation)
        self.flat.leaves.append(Leaf(name, value, value, annotation))

    def convert(self, name: str, value: Any, dtype: type[np.generic]) -> np.generic:
        """The number in a dtype; an integer as it is, or not at all."""
        try:
            found = dtype(value)
        except (OverflowError, TypeError, ValueError):
            found = None
        if found is None or (issubclass(dtype, np.integer) and found != value):
            raise KernelTypeError(
                f"{self.kernel}: '{name}' is {value!r}, which {dtype.__name__} does "
                "not hold; pass another number, or annotate it with another dtype")
        return found

    def array(self, name: str, value: Any, annotation: Any) -> structure.Array:
        """An array."""
        array = describe(value, name)
        if array.library.tracks(value):
            raise self.gradient_lost(name, f"an array of {array.library.name}",
                                     "detach it")
        if self.checked and isinstance(annotation, ViewType):
            annotation.check(array, name, self.kernel)
        elif self.checked and annotation in _SCALARS:
            raise KernelTypeError(
                f"{self.kernel}: '{name}' must be a number ({annotation.__name__}), "
                f"got an array of {array.dtype}; pass {name}.item(), or annotate it as "
                "View")
        self.flat.leaves.append(Leaf(name, array, value, annotation))
        kind = annotation.kind if isinstance(annotation, ViewType) else ""
        return structure.Array(array.ndim, kind=kind)

    def unwrap_variable(self, name: str, value: Variable) -> Any:
        """The array of a Variable, if nothing is lost by that."""
        if value.requires_grad and recording():
            raise self.gradient_lost(
                name, "a Variable", "pass its .data" if value.shape else
                f"pass {name}.item(); .as_op takes it as an array of one "
                f"element, {name}.reshape(1)")
        return value.data

    def gradient_lost(self, name: str, what: str,
                      otherwise: str) -> NotDifferentiableError:
        """The exception for an argument that would lose its gradient."""
        return NotDifferentiableError(
            f"{self.kernel}: '{name}' is {what} that requires a gradient, which a "
            "launch does not record; make an operation of the kernel by "
            f"nbfused.Function or .as_op, or {otherwise}")


_SCALARS = (bool, int, float, complex)


def parts_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dict, namedtuple, dataclass, or of NumPy's structured types."""
    if isinstance(value, Mapping):
        return {str(n): v for n, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, np.void) and value.dtype.names:
        return {n: _elements(value[n]) for n in value.dtype.names}
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {n: value[n] for n in value.dtype.names}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return None


def _elements(value: Any) -> Any:
    """A field of a structured scalar: tuples of NumPy scalars for an array."""
    return tuple(map(_elements, value)) if isinstance(value, np.ndarray) else value
