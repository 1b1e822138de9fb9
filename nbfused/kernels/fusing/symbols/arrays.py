"""Symbols for arrays while `fuse` traces a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from ....arrays import dtype_of
from ....arrays.traced import Traced, extents
from ....autograd import Variable
from ....autograd.graph import COPY, Edge, Leaf
from ....autograd.numpy_api.chosen import Chosen, has_mask, with_chosen
from ....autograd.numpy_api.in_place import check_unrecorded, is_basic
from ....autograd.numpy_api.methods import ArrayMethods
from ....autograd.numpy_api.table_methods import TableMethods
from ....dispatch.outputs import can_cast
from ....errors import KernelTypeError
from ....op.base import is_number
from ....registry.operations import OPS
from ....specs import View
from ....specs.fusion.graph import Value, is_same
from ..functions import ATTRIBUTES, METHODS
from ..parts import may_copy, memory_of, shaped_for
from .unknown import WAY_OUT, Unknown, mark_scalar, part_made, refuse

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["MAY_BE_A_COPY", "Symbol"]

#: Why the reshape of a transposed array is not used after that has changed.
MAY_BE_A_COPY = ("on the array that it is a reshape of: whether NumPy's is a view or "
                 "a copy depends on how that lies in memory; reshape afterwards, or "
                 "write .copy()")
_NOT_FOLLOWED = ("on the array that it is a part of, which NumPy shows and nf.fuse "
                 "does not follow; take it afterwards, or write .copy()")
#: NumPy's scalars are never changed.
_SCALAR = ("on another name of it, which changes an array, but makes another of what "
           "NumPy gives as a scalar; write x = x + y")
_OUTER_GRAPH = (
    "{name}: backward() reaches no Variable that the function has made, and nf.fuse "
    "does not see the graph outside; pass arrays, make nf.Variable(x, "
    "requires_grad=True) of them inside, or use nf.value_and_grad")


def _gives_scalars(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of NumPy's arrays; functions of `nbfused.ops` give arrays."""
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return mark_scalar(method(*args, **kwargs), args, kwargs)

    return call


def _in_place(name: str, symbol: str) -> Callable[[Symbol, Any], Any]:
    """``x op= y``: what ``x op y`` is, stored into `x`."""
    def method(self: Symbol, other: Any) -> Any:
        scalar = self.is_scalar
        leaf = self._edge is not None and isinstance(self._edge[0], Leaf)
        if not scalar and (leaf or self.own is not None or self.root is None):
            check_unrecorded(self, other, symbol)
        made = getattr(self, name)(other)
        if made is NotImplemented:
            return made
        if scalar:
            self.replaced = _SCALAR
            return made
        self.tracer.assign(self, made)
        return self

    return method


class Symbol(Unknown, Traced, Variable):
    """An array whose shape and dtype are known."""

    __reduce_ex__: Any = Unknown.__reduce_ex__

    __slots__ = ("array", "element", "lies_as", "loose", "own", "parts", "raveled",
                 "replaced", "root", "scalar", "shared", "tracer", "whole")
    #: Whether its own operators decide what a number beside it gives.
    decides = False
    tracer: Trace
    own: Value | None  # the argument that this is
    whole: bool  # and no view of another
    replaced: str  # why it is not what NumPy has after a change in place
    lies_as: tuple[Value, ...]  # arguments that must be contiguous where it is used
    loose: str  # why it is not used once what it may be a view of has changed
    raveled: bool  # a copy, if what it is a view of is not contiguous
    scalar: bool  # to NumPy, if it has no dimensions
    element: bool  # taken of an array whose elements are numbers of their own
    array: object  # stands for the memory that it is in
    shared: list[Value]  # the value, which other names of the array see, too
    root: Symbol | None  # what it is a view of; None where that is not known
    parts: tuple[View, ...]  # by which views

    def __new__(cls, trace: Trace, value: Value, own: Value | None = None,
                base: Symbol | None = None,
                part: View | None = None) -> Any:
        """Make it: `Variable` of a symbol is one that is there already."""
        made = object.__new__(cls)
        made._value, made._edge = None, None
        made.tracer, made.shared, made.own = trace, [value], own
        made.whole, made.replaced, made.scalar = base is None, "", False
        made.loose, made.raveled, made.lies_as = "", False, ()
        made.element = False
        made.array = base.array if base is not None else own or object()
        made.root, made.parts = made, ()
        if base is not None:
            made.follow(base, part)
        return made

    def follow(self, base: Symbol, part: View | None) -> None:
        """Be a view of another symbol, by `part` if that is known."""
        if base.is_scalar:
            self.part(self.value)
            self.scalar = True
            return
        self.loose = base.loose or (
            MAY_BE_A_COPY if part is not None and may_copy(part, base) else "")
        if self.loose:
            part = None
        self.whole, self.array, self.raveled = False, base.array, base.raveled
        self.root = None if part is None else base.root
        self.parts = base.parts if part is None else (*base.parts, part)
        self.tracer.views.setdefault(self.array, WeakSet()).add(self)

    def note_ravel(self, base: Unknown) -> None:
        """Note that this is `base` raveled: a copy, if that is not contiguous."""
        self.raveled = True
        if not self.loose and isinstance(base, Symbol) and may_copy(None, base):
            self.loose, self.root, self.parts = MAY_BE_A_COPY, None, base.parts

    def note_part(self, base: Any) -> None:
        """Note that this is a copy of what NumPy shows in the memory of `base`."""
        self.follow(base, None)
        self.loose = _NOT_FOLLOWED

    def part(self, value: Value) -> None:
        """Be an array of its own from here on."""
        self.shared, self.array, self.whole = [value], object(), True
        self.root, self.parts, self.lies_as = self, (), ()
        self.loose, self.raveled = "", False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `__new__` has set everything."""

    @property
    def value(self) -> Value:
        """The value that it has at present."""
        return self.shared[0]

    @value.setter
    def value(self, value: Value) -> None:
        self.shared[0] = value

    def equals(self, other: Traced) -> bool:
        """Whether the same was computed of the same values."""
        return isinstance(other, Symbol) and is_same(self.value, other.value)

    def variable(self, requires_grad: bool) -> Symbol:
        """Another name of the array, with a place of its own in the graph."""
        made = type(self)(self.tracer, self.value, self.own)
        made.shared, made.array, made.whole = self.shared, self.array, self.whole
        made.loose = self.loose
        if not self.whole:
            made.root = None
            self.tracer.views.setdefault(self.array, WeakSet()).add(made)
        if requires_grad is not False:
            made.requires_grad = requires_grad
        return made

    @staticmethod
    def at(data: Any, edge: Edge | None) -> Symbol:
        """The symbol for the same value with an edge of the graph."""
        made = type(data)(data.tracer, data.tracer.operand(data))
        made._edge, made.whole, made.root = edge, False, None
        made.loose = data.loose
        return made

    def given_as(self, other: Symbol) -> Symbol:
        """`other`, which a call gives in place of this result, as whole as this is."""
        if self.whole and self.root is self and self.own is None:
            other.whole, other.root = True, other
        return other

    def plain(self) -> Symbol:
        """A symbol for the value as it is now, without a place in the graph.

        Nothing is stored through it.
        """
        return self.at(self, None)

    def separate(self) -> Any:
        """A symbol for the value in memory of its own."""
        if memory_of(self.value) is self.value and self.value not in self.tracer.given:
            # Where another symbol of the value is returned too, one is a copy.
            return self if self._edge is None else type(self)(self.tracer, self.value)
        return self.tracer.run(COPY, (self,), None, {"dtypes": (dtype_of(self),)})[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; the trace is for these from here on."""
        self.tracer.exact = True
        return self.value.shape

    @property
    def dtype(self) -> np.dtype:
        """A NumPy dtype."""
        assert isinstance(self.value.type, np.dtype)
        return self.value.type

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.value.shape)

    @property
    def is_scalar(self) -> bool:
        """True for a number of NumPy's, which has no views."""
        return self.scalar and not self.extents and (
            self.tracer.scalars or self.element)

    @property
    def gives_scalars(self) -> bool:
        """Whether its elements are numbers of their own, as those of NumPy's arrays."""
        return self.tracer.elements

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return dtype_of(self).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * self.itemsize

    @property
    def __class__(self) -> Any:
        """The class that ``isinstance`` sees, that of the arrays of the call.

        A scalar of NumPy's is none of its arrays: `hidden` has an ``isinstance`` that
        knows.
        """
        kind = self.tracer.kind
        return type(self) if self.scalar and not self.extents else kind or type(self)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise TypeError(f"{self.name} keeps its class")

    @property
    def data(self) -> Any:
        """A symbol for the array itself, which no transform differentiates by."""
        return self.variable(False)

    @data.setter
    def data(self, value: Any) -> None:
        raise KernelTypeError(f"{self.name}: its array cannot be replaced while "
                              "nf.fuse traces; write x[...] = value")

    device = property(refuse("device needs the array itself"))
    tolist = tobytes = tofile = dump = dumps = refuse("this needs its values")
    to_numpy = numpy = refuse("to_numpy() needs its values")

    def backward(self, grad: Any = None, retain_graph: bool = False,
                 create_graph: bool = False, gradcheck: bool = False) -> None:
        """Add gradients to the Variables that the function has made."""
        if self._edge is None or self.tracer.tracked:
            self.tracer.refuse(_OUTER_GRAPH.format(name=self.name))
        super().backward(grad, retain_graph, create_graph)

    __array__ = Unknown.__array__  # type: ignore[assignment]

    @property
    def grad(self) -> Any:
        """The gradient that `backward` has collected inside of the function."""
        given = None if self.own is None else self.tracer.given.get(self.own)
        if self._edge is None and hasattr(given, "grad"):
            self.tracer.refuse(f"{self.name}: .grad of an argument belongs to a graph "
                              "outside; pass it as an argument, too")
        return Variable.grad.fget(self)  # type: ignore[attr-defined]

    @grad.setter
    def grad(self, value: Any) -> None:
        Variable.grad.fset(self, value)  # type: ignore[attr-defined]

    def holds(self, dtype: np.dtype, casting: str) -> bool:
        """True if numbers of `dtype` may be stored here."""
        return can_cast(dtype, dtype_of(self), casting)

    def detach(self) -> Any:
        """The same value, not differentiated through."""
        return self.tracer.detached(self)

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """The elements converted; a scalar of NumPy stays one."""
        made = super().astype(*args, **kwargs)
        made.scalar = self.scalar
        return made

    def __getattr__(self, name: str) -> Any:
        """Refuse an attribute that is not traced."""
        if name in ATTRIBUTES:
            self.tracer.refuse(f"{self.name}: .{name} is of an array, {WAY_OUT}")
        raise AttributeError(f"{self.name} has no attribute {name!r} that nf.fuse "
                             "traces; use functions of numpy or of nf.ops",
                             name=name, obj=self)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __getitem__(self, key: Any) -> Any:
        made = super().__getitem__(key)
        part_made(made, (self, key), {})
        keys = key if isinstance(key, tuple) else (key,)
        if isinstance(made, Symbol) and not any(k is Ellipsis for k in keys):
            made.scalar, made.element = True, self.gives_scalars
        return made

    def __setitem__(self, key: Any, new: Any) -> None:
        if isinstance(new, Chosen) or (isinstance(key, tuple) and has_mask(key)):
            index, changed = with_chosen(self, key, new)
            self[... if index is None else index] = changed
        elif isinstance(key, Variable) and dtype_of(key) == np.bool_:
            self._assign_where(key, new)
        elif key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
            self.tracer.assign(self, shaped_for(new, self.extents))
        elif not is_basic(key):
            self.tracer.assign(self, OPS["set_at"](self, new, index=key))
        else:
            part: Symbol | Any = super().__getitem__(key)
            there = isinstance(new, Symbol) and new.root is not None and (
                new.root is part.root and new.parts == part.parts)
            if not there:  # as it is after x[key] += y
                self.tracer.assign(part, shaped_for(new, part.extents))

    def _assign_where(self, mask: Variable, new: Any) -> None:
        """One number, or one row, wherever a condition holds."""
        ndim, own = len(extents(mask)), self.extents
        shape = () if is_number(new) else tuple(extents(new))
        if extents(mask) != own[:ndim] or len(shape) > len(own) - ndim:
            raise KernelTypeError(
                f"{self.name}: x[mask] = y takes a mask of the first axes of x, and y "
                f"broadcasts to the others, in nf.fuse; got shapes {extents(mask)} "
                f"and {shape}; write x[...] = nf.ops.where(mask, y, x)")
        if ndim < len(own):
            mask = OPS["reshape"](mask, (*extents(mask), *(1 for _ in own[ndim:])))
        if shape:
            self.tracer.assign(self, OPS["where"](mask, new, self))
        else:
            self.tracer.assign(self, new, where=mask if ndim == len(own) else
                               OPS["broadcast_to"](mask, own))

    __iadd__, __isub__ = _in_place("__add__", "+"), _in_place("__sub__", "-")
    __imul__, __itruediv__ = _in_place("__mul__", "*"), _in_place("__truediv__", "/")
    __ifloordiv__ = _in_place("__floordiv__", "//")
    __imod__, __ipow__ = _in_place("__mod__", "%"), _in_place("__pow__", "**")
    __imatmul__, __ixor__ = _in_place("__matmul__", "@"), _in_place("__xor__", "^")
    __iand__, __ior__ = _in_place("__and__", "&"), _in_place("__or__", "|")
    __ilshift__ = _in_place("__lshift__", "<<")
    __irshift__ = _in_place("__rshift__", ">>")

    @property
    def name(self) -> str:
        """A text for messages."""
        value = self.value
        return f"<traced array {value.name!r}, {value.type} {value.shape}>"


def _by_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method by NumPy's function, which is called where it is not traced."""
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


for _name, _function in METHODS.items():
    setattr(Symbol, _name, _by_function(_function))
for _name, _method in {**vars(TableMethods), **vars(ArrayMethods)}.items():
    if isinstance(_method, FunctionType) and _name != "copy" and \
            _name not in vars(Symbol):
        setattr(Symbol, _name, _gives_scalars(_method))
