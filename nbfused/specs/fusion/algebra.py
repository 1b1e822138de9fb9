"""Composition of specs, done on their scalar functions.

``Map ∘ Map`` is a Map; ``Map → Reduce → Map`` of what was reduced is a Reduce, by its
map and its post; ``Contract → Map`` is a Contract, by its epilogue.  A value on the way
has the dtype that it would have in an array, and is rounded to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...scalar.ir.build import Builder
from ...scalar.ir.clean import clean
from ...scalar.ir.nodes import Block, Function, drop_params, literal, used_params
from ...scalar.ir.nodes import Value as Scalar
from ...scalar.typing.types import Weak, compute_dtype, result_types
from ..combine import Combine, sum_combine
from ..map import Map
from ..reduce import Reduce
from ..vjp.functions import compose
from .graph import Launch, Node, Value, operands, type_of

__all__ = ["constant", "dtype_of_value", "fuse_contract", "fuse_maps", "fuse_reduces",
           "product", "widens"]

Key = tuple[Value, str]

#: The position of an array in a list, at the end of its name.
_NUMBERED = re.compile(r"(?<=.)(_\d+)+$")


class Parameters:
    """The values that a fused function reads from outside, with their names."""

    def __init__(self, nodes: Sequence[Node], inside: set[Node]) -> None:
        self.names: dict[Key, str] = {}
        taken = {"index", "size", "product"}
        for node in nodes:
            for x, kind in operands(node):
                if isinstance(x, Value) and x.node not in inside:
                    self._add(x, kind, taken)
        self.implicit: tuple[str, ...] = tuple(k for k in ("index", "size")
                              if any(k in n.spec.kinds for n in nodes))

    def _add(self, x: Value, kind: str, taken: set[str]) -> None:
        if (x, kind) in self.names:
            return
        # Without numbers: what two layers of a network do is one kernel.
        base = _NUMBERED.sub("", x.name)
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}{count}"
        taken.add(name)
        self.names[x, kind] = name

    @property
    def params(self) -> tuple[str, ...]:
        """The parameters of the fused function."""
        return (*self.names.values(), *self.implicit)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each."""
        return (*(kind for _, kind in self.names), *self.implicit)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The arguments of the call for parameters that are inputs."""
        return tuple(x for x, _ in self.names)


class Writer(Builder):
    """Writes nodes into one scalar function."""

    def __init__(self, parameters: Parameters, taken: Sequence[str] = ()) -> None:
        super().__init__({*parameters.params, *taken, "index", "size"})
        self.names: dict[Key, str] = parameters.names
        self.stored: dict[Value, Scalar] = {}
        self.rounded: dict[Value, Scalar] = {}

    def read(self, x: Any, kind: str) -> Scalar:
        """An operand: a constant, a parameter, or what was written before."""
        if not isinstance(x, Value):
            return constant(self, x)
        if x in self.stored:
            return self.round(x)
        return self.names[x, kind]

    def round(self, x: Value) -> Scalar:
        """Round what was written as an array of its dtype would."""
        found = self.rounded.get(x)
        if found is None:
            found, wide = self.stored[x], compute_dtype(dtype_of_value(x))
            if wide != x.type:
                found = self.let("cast", found, attr=wide.name)
                found = self.let("cast", found, attr=dtype_of_value(x).name)
            self.rounded[x] = found
        return found

    def arguments(self, node: Node) -> list[Scalar]:
        """The arguments of a Map's function, or of the map of a Reduce."""
        given = iter(operands(node))
        return [kind if kind in ("index", "size") else self.read(*next(given))
                for kind in node.spec.kinds]

    def extra(self, node: Node, param: str) -> Scalar:
        """The value of a parameter of a reduction's post, after the state."""
        if param == "size":
            return param
        named = [p for p, k in zip(node.spec.map.params, node.spec.kinds, strict=True)
                 if k not in ("index", "size")]
        return self.read(*list(operands(node))[named.index(param)])

    def store(self, node: Node, results: Sequence[Scalar]) -> None:
        """Keep the results of a node, in their dtypes."""
        for x, result in zip(node.outputs, results, strict=True):
            self.stored[x] = self.let("cast", result, attr=dtype_of_value(x).name)

    def maps(self, nodes: Sequence[Node]) -> None:
        """Write Maps, each after what it reads."""
        for node in nodes:
            self.store(node, self.call(node.spec.function, *self.arguments(node)))

    def function(self, name: str, params: Sequence[str],
                 results: Sequence[Scalar]) -> Function:
        """The function that was written so far."""
        return clean(Function(name, tuple(params),
                              Block(tuple(self.statements), tuple(results))))


def constant(builder: Builder, x: Any) -> Scalar:
    """A constant: a Python number is weak, a NumPy scalar has its dtype."""
    if isinstance(x, np.generic):
        return builder.let("cast", literal(x.item()), attr=x.dtype.name)
    return literal(x)


def dtype_of_value(x: Value) -> np.dtype:
    """The dtype of an array of the graph."""
    assert isinstance(x.type, np.dtype)
    return x.type


def fuse_maps(nodes: Sequence[Node], outputs: Sequence[Value], name: str) -> Launch:
    """Maps that run over one shape, or broadcast to it, as one Map.

    Parameters
    ----------
    nodes
        Each after what it reads.
    outputs
        The values that are stored, of that shape.
    name
        Of the function.
    """
    parameters = Parameters(nodes, set(nodes))
    writer = Writer(parameters)
    writer.maps(nodes)
    function = writer.function(name, parameters.params,
                               [writer.stored[x] for x in outputs])
    return Launch(Map(function, parameters.kinds), parameters.inputs, tuple(outputs))


def fuse_reduces(maps: Sequence[Node], reduces: Sequence[Node], posts: Sequence[Node],
                 outputs: Sequence[Value], name: str) -> Launch:
    """Maps, reductions of what they give, and Maps of that, as one Reduce.

    Parameters
    ----------
    maps
        What the reductions read, and what is stored beside them.
    reduces
        Over one shape and the same axes.
    posts
        Maps of nothing but reduced values and numbers.
    outputs
        The values that are stored, of any of these; elements come first.
    name
        Of the map.
    """
    parameters = Parameters((*maps, *reduces, *posts), {*maps, *reduces, *posts})
    writer = Writer(parameters)
    writer.maps(maps)
    mapped = [value for node in reduces
              for value in writer.call(node.spec.map, *writer.arguments(node))]
    first = reduces[0].spec
    elements = [x for x in outputs if x.node in maps]
    mapped += [writer.stored[x] for x in elements]
    reduced = [x for x in outputs if x.node not in maps]
    return Launch(
        Reduce(writer.function(name, parameters.params, mapped), parameters.kinds,
               product(tuple(node.spec.combine for node in reduces),
                       widens(reduces[0])),
               _post(parameters, reduces, posts, reduced, name), first.axes,
               first.keepdims, stored=len(elements)),
        parameters.inputs, (*elements, *reduced))


def _post(parameters: Parameters, reduces: Sequence[Node], posts: Sequence[Node],
          outputs: Sequence[Value], name: str) -> Function:
    sizes = [len(node.spec.combine.identity) for node in reduces]
    state = [f"state{k}" for k in range(sum(sizes))]
    writer = Writer(parameters, state)
    start = 0
    for node, size in zip(reduces, sizes, strict=True):
        post, own = node.spec.post, state[start:start + size]
        rest = [writer.extra(node, p) for p in post.params[size:]]
        writer.store(node, writer.call(post, *own, *rest))
        start += size
    writer.maps(posts)
    numbers = [n for (_, kind), n in parameters.names.items() if kind == "scalar"]
    function = writer.function(name, (*state, *numbers, "size"),
                               [writer.stored[x] for x in outputs])
    used = used_params(function)
    return drop_params(function, (True,) * len(state) + used[len(state):])


def fuse_contract(product: Node, maps: Sequence[Node], outputs: Sequence[Value],
                  name: str) -> Launch:
    """A product and Maps over its elements as one Contract.

    Parameters
    ----------
    product
        A Contract that does not permute its result.
    maps
        What reads the product, and what that reads.
    outputs
        The values that are stored, of the product's shape.
    name
        Of the epilogue.
    """
    parameters = Parameters((product, *maps), {product, *maps})
    writer = Writer(parameters, ["product"])
    extras = [writer.read(*x) for x in operands(product)]
    writer.store(product, writer.call(product.spec.epilogue, "product", *extras))
    writer.maps(maps)
    epilogue = writer.function(name, ("product", *parameters.params),
                               [writer.stored[x] for x in outputs])
    return Launch(replace(product.spec, epilogue=epilogue, kinds=parameters.kinds),
                  (*product.inputs[:2], *parameters.inputs), tuple(outputs))


def widens(node: Node) -> bool:
    """Whether a reduction keeps its state in a wider dtype than its elements."""
    spec, given = node.spec, iter(node.inputs)
    types = tuple(Weak("int") if k in ("index", "size") else type_of(next(given))
                  for k in spec.kinds)
    return spec.combine.widen and any(
        t.kind in "biu" for t in result_types(spec.map, types))


@lru_cache(maxsize=256)
def product(combines: tuple[Combine, ...], widen: bool = True) -> Combine:
    """Several ways to combine, side by side in one state.

    `widen` is whether they keep integers in a wider dtype: the same for all.
    """
    if len(combines) == 1:
        return combines[0]
    if all(c == sum_combine(c.arity) for c in combines):
        return sum_combine(sum(c.arity for c in combines))
    sizes = [len(c.identity) for c in combines]
    plain = _side_by_side(combines, sizes, widen)
    if not any(c.saving for c in combines):
        return plain
    saving = [c.saving or c for c in combines]
    return replace(plain, cotangent=None, saving=_side_by_side(saving, sizes, widen))


def _side_by_side(combines: Sequence[Combine], first: Sequence[int],
                  widen: bool) -> Combine:
    """`product`, where the state begins with the `first` parts of each."""
    lifted = [len(c.lift.params) for c in combines]
    states = [len(c.identity) for c in combines]
    arities = [c.arity for c in combines]
    cotangents = [c.cotangent for c in combines if c.cotangent is not None]
    state = (states, first)
    return Combine(
        "_".join(c.name for c in combines),
        _beside([c.lift for c in combines], [(lifted, lifted)], first),
        _beside([c.merge for c in combines], [state, state], first),
        tuple(_arranged([c.identity for c in combines], first)),
        _beside([c.finish for c in combines], [state]),
        _beside(cotangents, [(arities, arities), state, state])
        if len(cotangents) == len(combines) else None, widen=widen)


def _arranged(parts: Sequence[Sequence[Any]], first: Sequence[int]) -> list[Any]:
    """The `first` items of each part, then what is left of each."""
    return [x for part, n in zip(parts, first, strict=True) for x in part[:n]] + [
        x for part, n in zip(parts, first, strict=True) for x in part[n:]]


def _beside(functions: Sequence[Function],
            blocks: Sequence[tuple[Sequence[int], Sequence[int]]],
            first: Sequence[int] | None = None) -> Function:
    """Functions in one, each given its own part of every block of parameters.

    Blocks are `_arranged`: the sizes of the parts, and how many come first of each.  So
    are the results, by `first`.
    """
    params: list[str] = []
    own: list[list[str]] = [[] for _ in functions]
    for b, (sizes, leading) in enumerate(blocks):
        names = [[f"{'abc'[b]}{k}_{i}" for i in range(size)]
                 for k, size in enumerate(sizes)]
        for mine, part in zip(own, names, strict=True):
            mine += part
        params += _arranged(names, leading)

    def build(w: Builder) -> tuple[Scalar, ...]:
        results = [w.call(f, *names) for f, names in zip(functions, own, strict=True)]
        return tuple(_arranged(results, first or [len(r) for r in results]))

    return compose("beside", params, build)
