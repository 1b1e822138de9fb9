"""`Raw`: a kernel of threads that index their arrays themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..errors import KernelTypeError, NotDifferentiableError
from ..scalar.ir.build import inline
from ..scalar.ir.nodes import (
    Block,
    Function,
    Let,
    Literal,
    Statement,
    Value,
    regions,
    rewrite,
    substitute,
    walk,
)
from ..scalar.typing.types import Typed, specialize
from ..support.dtypes import number_kind
from ..support.forks import cached_property
from ..support.records import record
from .base import Hashed, Parameters, Shape, Spec, parameters

if TYPE_CHECKING:
    import numpy as np

    from ..backend import Call
    from ..scalar.typing.types import Type

__all__ = ["WRITES", "Extent", "Place", "Raw", "Shared", "TypedRaw", "waits"]

#: Operations that change the array which is their first operand.
WRITES = frozenset({"store", "atomic_add", "atomic"})


@record(frozen=True)
class Raw(Spec):
    """``function(arrays and numbers)``, once for each thread of a grid of blocks.

    Attributes
    ----------
    function
        No results; it stores into the arrays.
    kinds
        For each parameter ``"array"`` or ``"scalar"``, a number given at call time.
    """

    function: Function
    kinds: tuple[str, ...]

    __hash__: ClassVar[Any] = Hashed.__hash__

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return self.function.name

    @property
    def parameters(self) -> Parameters:
        """The function's; a call gives grid and block as well (`dispatch.raw`)."""
        return parameters(self.kinds, self.function.params)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The function."""
        return (self.function,)

    @cached_property
    def written(self) -> frozenset[str]:
        """The parameters whose elements the kernel changes."""
        return self._accessed(WRITES)

    @cached_property
    def read(self) -> frozenset[str]:
        """The parameters whose elements the kernel loads."""
        return self._accessed(frozenset({"load"}))

    @property
    def revised(self) -> frozenset[str]:
        """The parameters whose elements the kernel loads and changes."""
        return self.read & self.written

    def _accessed(self, ops: frozenset[str]) -> frozenset[str]:
        found = {str(s.args[0]) for s in walk(inline(self.function).body)
                 if isinstance(s, Let) and s.op in ops}
        return frozenset(found.intersection(self.function.params))

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """None: a kernel makes no arrays."""
        return ()

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """None: a kernel makes no arrays."""
        return ()

    def typed(self, types: tuple[Type, ...],
              outputs: tuple[np.dtype, ...] = ()) -> TypedRaw:
        """The function with every value typed, and what it asks of its launch."""
        return _bound(specialize(self.function, types), self.kinds)

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> NoReturn:
        """A kernel has no results that could have cotangents."""
        raise NotDifferentiableError(
            f"{self.name} is a kernel without results; differentiate it by its .bwd, "
            "or make an operation of it with .as_op")


@record(frozen=True)
class Place:
    """A parameter that says where a thread is: ``"threadIdx.x"``, ``"gridDim.z"``."""

    name: str
    word: str


@record(frozen=True)
class Extent:
    """A parameter that is the size of an axis of an array, or its stride in bytes.

    Attributes
    ----------
    name, array, axis
        The parameter, the array and its axis.
    itemsize
        Bytes of an element where it is a stride, else 0.
    """

    name: str
    array: str
    axis: int
    itemsize: int = 0

    def value(self, call: Call, position: int) -> int:
        """The number in a call, of which the array has some position."""
        return call.strides[position][self.axis] * self.itemsize if self.itemsize \
            else call.extents[position][self.axis]


@record(frozen=True)
class Shared:
    """An array of a block."""

    name: str
    dtype: np.dtype
    extents: Shape

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for extent in self.extents:
            size *= extent
        return size

    @property
    def strides(self) -> tuple[str, ...]:
        """In elements, as text."""
        found = [1]
        for extent in self.extents[:0:-1]:
            found.insert(0, found[0] * extent)
        return tuple(map(str, found))


@record(frozen=True)
class TypedRaw:
    """A Raw with every value typed: what a backend prints.

    Attributes
    ----------
    function
        Its parameters: the kernel's, then those of `places` and `extents`.
    kinds
        Of the kernel's parameters.
    places, extents, shared
        What took the place of the operations ``thread``, ``extent`` and ``stride``, and
        ``shared``.
    """

    function: Typed
    kinds: tuple[str, ...]
    places: tuple[Place, ...]
    extents: tuple[Extent, ...]
    shared: tuple[Shared, ...]

    @property
    def synchronizes(self) -> bool:
        """Whether threads wait for one another."""
        return any(map(waits, self.function.function.body.statements))


def waits(statement: Statement) -> bool:
    """Whether a barrier or a shuffle is in `statement`."""
    if isinstance(statement, Let):
        return statement.op in ("barrier", "shuffle")
    return any(waits(s) for r in regions(statement) for s in r.statements)


def _bound(typed: Typed, kinds: tuple[str, ...]) -> TypedRaw:
    """Make parameters of what the launch knows."""
    places: dict[str, Place] = {}
    extents: dict[tuple[str, int, int], Extent] = {}
    shared: list[Shared] = []
    table: dict[str, str] = {}
    for s in walk(typed.function.body):
        match s:
            case Let((name,), "thread", _, word):
                table[name] = places.setdefault(str(word), Place(name, str(word))).name
            case Let((name,), "extent" | "stride", (array,), axis):
                size = typed.dtypes[str(array)].itemsize if s.op == "stride" else 0
                key = str(array), int(str(axis)), size
                table[name] = extents.setdefault(key, Extent(name, *key)).name
            case Let(_, "atomic" | "atomic_add", (array, *_)):
                _check_atomic(typed, s, typed.dtypes[str(array)])
            case Let((name,), "shared", sizes):
                shared.append(Shared(name, typed.dtypes[name], tuple(
                    int(v.text) for v in sizes if isinstance(v, Literal))))
    names = [*(p.name for p in places.values()), *(e.name for e in extents.values())]
    function = replace(typed.function, params=(*typed.function.params, *names),
                       body=_without(typed.function.body, table))
    return TypedRaw(replace(typed, function=function), kinds, tuple(places.values()),
                    tuple(extents.values()), tuple(shared))


#: What kinds of numbers the atomic operations take, floating ones of any width.
_ATOMIC = {"add": "iufc", "min": "iuf", "max": "iuf", "exch": "iuf", "cas": "iuf",
           "and": "iu", "or": "iu", "xor": "iu"}


def _check_atomic(typed: Typed, s: Let, dtype: np.dtype) -> None:
    op = s.attr or "add"
    kind = number_kind(dtype)
    if kind not in _ATOMIC[op]:
        source = typed.function
        where = f"{source.pyfile}:{s.line}: " if source.pyfile else ""
        names = {"i": "signed", "u": "unsigned", "f": "floating", "c": "complex"}
        taken = ", ".join(names[k] for k in _ATOMIC[op])
        raise KernelTypeError(f"{where}{source.name}: atomic {op} takes arrays of "
                              f"{taken} numbers, got {dtype}; convert it with astype")


def _without(block: Block, table: dict[str, str]) -> Block:
    """The block without the operations whose results `table` renames."""

    def value(v: Value) -> Value:
        return table.get(v, v) if isinstance(v, str) else v

    return rewrite(substitute(block, value), _launched)


def _launched(s: Let) -> tuple[Let, ...]:
    """An operation without what the launch does in its place."""
    if s.op in ("thread", "extent", "stride", "shared"):
        return ()
    if s.op == "atomic_add" and not s.results:
        return (replace(s, op="atomic", attr="add"),)
    return (s,)
