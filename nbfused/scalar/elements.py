"""Elements of arrays, local arrays, tuples and structs: reading and writing them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from ..records import record
from .branches import Branches
from .ir import Literal, Value, literal
from .structure import Local, Struct, Values, leaves, rebuild

__all__ = ["MOST_ELEMENTS", "Elements", "Place"]

#: Elements of a local array at most: a dynamic index selects among all of them.
MOST_ELEMENTS = 64

_METHODS = {"load": None, "load_once": "once", "store": None, "store_once": "once"}


@record(frozen=True)
class Place:
    """An element that can be read and assigned."""

    load: Callable[[], Values]
    store: Callable[[Values], None]


class Elements(Branches):
    """Reading and writing elements; `values` is given by the subclass."""

    def values(self, node: ast.expr, stem: str = "t") -> Values:
        """The value of `node`, or a tree of values."""
        raise NotImplementedError

    def is_array(self, values: Values) -> bool:
        """Whether `values` is, or may be, an array."""
        return isinstance(values, str) and values in self.arrays

    def number(self, node: ast.AST, found: Values) -> Value:
        """`found`, which must be a single number."""
        if isinstance(found, (str, Literal)) and self.arrays.get(str(found)) is None:
            return found
        way_out = "; index it, as in x[i]; one number to differentiate by is passed " \
            "as an array of one element, x.reshape(1), and read as x[0]" \
            if self.is_array(found) else ""
        raise self.error(
            node, f"expected a number here, got {self.kind(found)}{way_out}")

    # Reading -----------------------------------------------------------------------

    def subscript(self, node: ast.Subscript, stem: str) -> Values:
        """An element of an array, or a part of a tuple."""
        extent = self.one_extent(node, stem)
        if extent is not None:
            return extent
        whole = self.values(node.value)
        if isinstance(whole, tuple) and isinstance(node.slice, ast.Slice):
            return self.sliced(node, whole, node.slice)
        index = self.index(node, whole)
        if isinstance(whole, tuple):
            return self.at(node, whole, index)
        return self.emitter.load(whole, *index, stem=stem)

    def index(self, node: ast.Subscript, whole: Values) -> tuple[Value, ...]:
        """The integers by which `whole` is indexed."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(p, ast.Slice) for p in parts):
            raise self.error(node, "slices are not part of the scalar language; index "
                                   "with as many integers as the array has axes")
        if isinstance(whole, Struct) and isinstance(node.slice, ast.Constant) and \
                isinstance(node.slice.value, str):
            return (literal(self.field(node, whole, node.slice.value)),)
        return self.checked_index(node, whole, self.values(node.slice))

    def checked_index(self, node: ast.AST, whole: Values,
                      index: Values) -> tuple[Value, ...]:
        """The integers of an index into `whole`."""
        found = tuple(leaves(index))
        if any(isinstance(i, Literal) and i.kind not in ("int", "bool") for i in found):
            raise self.error(node, "an index must be an integer; use int()")
        if isinstance(whole, tuple):
            return found
        if not self.is_array(whole):
            raise self.error(node, "a number cannot be indexed")
        rank = self.arrays[whole]
        if rank is not None and rank != len(found):
            raise self.error(node, f"the array has {rank} axes and is indexed by "
                                   f"{len(found)} integers; write one for each axis, "
                                   "a[i, j]")
        if any(isinstance(i, Literal) and i.value.real < 0 for i in found):
            raise self.error(node, "an index of an array must be 0 or more; count from "
                                   "the end with a.shape[k] - 1")
        return found

    def sliced(self, node: ast.Subscript, whole: tuple[Any, ...],
               part: ast.Slice) -> Values:
        """Some parts of a tuple, between bounds that are known now; a copy."""
        bounds = [None if b is None else self.values(b)
                  for b in (part.lower, part.upper, part.step)]
        if not all(b is None or (isinstance(b, Literal) and b.kind == "int")
                   for b in bounds):
            raise self.error(node, "a tuple is sliced between integers that are known "
                                   "when the function is parsed")
        kept = whole[slice(*(None if b is None else b.value for b in bounds))]
        return Local(kept) if isinstance(whole, Local) else tuple(kept)

    def at(self, node: ast.AST, whole: Values, index: Iterable[Value]) -> Values:
        """The part of a tree at a path."""
        for i in index:
            whole = self.part(node, whole, i)
        return whole

    def part(self, node: ast.AST, whole: Values, index: Value) -> Values:
        """A part of a tuple: by a literal, or selected from all."""
        if not isinstance(whole, tuple):
            raise self.error(node, "a number cannot be indexed")
        if isinstance(index, Literal):
            return whole[self.known(node, whole, index)]
        index = self.wrapped(node, whole, index)
        found = whole[-1]
        for k in reversed(range(len(whole) - 1)):
            here = self.emitter.emit("eq", index, literal(k))
            found = self.choose(node, here, whole[k], found)
        return found

    def known(self, node: ast.AST, whole: tuple[Any, ...], index: Literal) -> int:
        """A literal index, in range."""
        k = int(index.value.real)
        if not -len(whole) <= k < len(whole):
            raise self.error(node, f"the index {k} is out of range: there are "
                                   f"{len(whole)} elements")
        return k % len(whole)

    def wrapped(self, node: ast.AST, whole: tuple[Any, ...], index: Value) -> Value:
        """A dynamic index, counted from the end where it is negative."""
        if not 0 < len(whole) <= MOST_ELEMENTS:
            raise self.error(node, f"a tuple or local array of {len(whole)} elements "
                                   "cannot be indexed by a variable; 1 to "
                                   f"{MOST_ELEMENTS} can, use an array for more")
        e = self.emitter
        index = e.emit("index", index)  # refuses what is no integer
        below = e.emit("lt", index, literal(0))
        return e.emit("select", below, e.emit("add", index, literal(len(whole))), index)

    def choose(self, node: ast.AST, condition: Value, a: Values, b: Values) -> Values:
        """``a if condition else b`` for trees of one shape."""
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self.choose(node, condition, x, y)
                         for x, y in zip(a, b, strict=True))
        if isinstance(a, tuple) or isinstance(b, tuple):
            raise self.error(node, "a variable can choose among elements of the same "
                                   "shape only")
        if a == b:
            return a
        self.single(node, "the element", a, b)
        return self.emitter.emit("select", condition, a, b)

    def field(self, node: ast.AST, whole: Struct, name: str) -> int:
        """The position of a field."""
        if name not in whole.names:
            raise self.error(node, f"the struct has no field {name!r}; it has "
                                   f"{', '.join(whole.names)}")
        return whole.names.index(name)

    # Properties --------------------------------------------------------------------

    def one_extent(self, node: ast.Subscript, stem: str) -> Value | None:
        """``a.shape[k]`` of an array whose rank is not known."""
        owner = node.value
        if not (isinstance(owner, ast.Attribute) and owner.attr == "shape"
                and isinstance(owner.value, ast.Name)):
            return None
        array = self.env.get(owner.value.id)
        if not isinstance(array, str) or self.arrays.get(array, 0) is not None:
            return None
        axis = self.values(node.slice)
        if not (isinstance(axis, Literal) and axis.kind == "int"
                and int(axis.text) >= 0):
            raise self.error(node, "the number of axes is not known here: write "
                                   "a.shape[k] with an integer k of 0 or more")
        return self.emitter.emit("extent", array, attr=axis.text, stem=stem)

    def array_property(self, node: ast.Attribute, array: str) -> Values:
        """``a.shape``, ``a.size``, ``a.ndim``."""
        rank = self.arrays[array]
        if node.attr not in ("shape", "size", "ndim"):
            raise self.error(node, f"an array has no attribute {node.attr!r} here; it "
                                   "has shape, size, ndim, load, store, load_once and "
                                   "store_once")
        if rank is None:
            raise self.error(node, "the number of axes is not known here; use "
                                   "a.shape[k] with an integer k")
        if node.attr == "ndim":
            return literal(rank)
        shape = tuple(self.emitter.emit("extent", array, attr=str(k), stem="extent")
                      for k in range(rank))
        return shape if node.attr == "shape" else self.product(shape)

    def product(self, factors: Iterable[Value]) -> Value:
        """Of integers; 1 of none."""
        found: Value = literal(1)
        for f in factors:
            found = f if found == literal(1) else self.emitter.emit("mul", found, f)
        return found

    def kind(self, found: Values) -> str:
        """What `found` is, in words."""
        if isinstance(found, tuple):
            return "a tuple" if found else "a call without a result"
        if not isinstance(found, (str, Literal)):
            return "a function"
        return "a number" if self.arrays.get(str(found)) is None else "an array"

    def method(self, node: ast.Call, owner: Values, name: str, args: list[Values],
               stem: str) -> Values:
        """``a.load(i)``, ``a.store(i, value)`` and those that promise not to repeat."""
        if not self.is_array(owner) or name not in _METHODS:
            raise self.error(node, f"{ast.unparse(node.func).rpartition('.')[0]!r} is "
                                   f"{self.kind(owner)} here, not a function or "
                                   f"module, and has no method {name!r}; an array has "
                                   f"{', '.join(_METHODS)}")
        stores = name.startswith("store")
        if len(args) < 1 + stores:
            raise self.error(node, f"{name}() takes an index{' and a value' * stores}")
        index = self.checked_index(node, owner, tuple(args[:-1] if stores else args))
        if not stores:
            return self.emitter.emit("load", owner, *index, stem=stem,
                                     attr=_METHODS[name])
        self.store(node, owner, index, args[-1], _METHODS[name])
        return ()

    # Writing -----------------------------------------------------------------------

    def store(self, node: ast.AST, array: str, index: tuple[Value, ...], value: Values,
              attr: str | None = None) -> None:
        """Assign an element of an array."""
        self.emitter.store(array, *index, self.number(node, value), attr=attr)

    def place(self, target: ast.Subscript) -> Place:
        """The element that `target` names; its index is computed once."""
        whole = self.values(target.value)
        if not isinstance(whole, tuple):
            index = self.index(target, whole)
            return Place(lambda: self.emitter.load(whole, *index),
                         lambda value: self.store(target, whole, index, value))
        root, path = self.path(target)
        return Place(lambda: self.at(target, self.env[root], path),
                     lambda value: self.replace(target, root, path, value))

    def path(self, target: ast.Subscript) -> tuple[str, tuple[Value, ...]]:
        """The variable and the indices of ``v[i]``, ``v[i, j]`` or ``v[i][j]``."""
        nodes: list[ast.Subscript] = []
        inner: ast.expr = target
        while isinstance(inner, ast.Subscript):
            nodes.insert(0, inner)
            inner = inner.value
        if not isinstance(inner, ast.Name) or inner.id not in self.env:
            raise self.error(target, _IMMUTABLE)
        whole = self.env[inner.id]
        return inner.id, tuple(i for n in nodes for i in self.index(n, whole))

    def replace(self, node: ast.AST, root: str, index: tuple[Value, ...],
                value: Values) -> None:
        """Assign a part of the local array `root`."""
        self.unshared(node, root, self.env)
        self.env[root] = self.replaced(node, self.env[root], index, value)

    def replaced(self, node: ast.AST, whole: Values, index: tuple[Value, ...],
                 value: Values) -> Values:
        """`whole` with another part; a variable index selects in every element."""
        if not index:
            return self.fitting(node, whole, value)
        if not isinstance(whole, Local):
            raise self.error(node, _IMMUTABLE if isinstance(whole, tuple) else
                             "a number cannot be indexed")
        head, rest = index[0], index[1:]
        if isinstance(head, Literal):
            k = self.known(node, whole, head)
            new = self.replaced(node, whole[k], rest, value)
            return Local((*whole[:k], new, *whole[k + 1:]))
        head = self.wrapped(node, whole, head)
        parts = []
        for k, old in enumerate(whole):
            here = self.emitter.emit("eq", head, literal(k))
            new = self.replaced(node, old, rest, value)
            parts.append(self.fitting(node, old, self.choose(node, here, new, old)))
        return Local(parts)

    def fitting(self, node: ast.AST, old: Values, new: Values) -> Values:
        """`new` as a part that takes the place of `old`."""
        if isinstance(old, tuple) != isinstance(new, tuple) or (
                isinstance(old, tuple) and len(old) != len(new)):
            raise self.error(node, "the element and the value assigned to it differ in "
                                   "shape")
        if not isinstance(old, tuple):
            return new
        return rebuild(old, [self.fitting(node, o, n)
                             for o, n in zip(old, new, strict=True)])


_IMMUTABLE = ("a tuple cannot be changed, nor a local array that belongs to the "
              "caller; make a copy with list(v), or use nf.local(n)")
