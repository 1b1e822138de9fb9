"""A program on arrays as a graph of specs, before it is divided into launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...scalar.typing.python_numbers import number_type
from ...support.records import record
from ..base import Shape, Spec
from ..contract import Contract

if TYPE_CHECKING:
    from ...scalar.typing.types import Type

__all__ = ["Launch", "Node", "Value", "is_same", "live", "operands", "readers_of",
           "type_of"]


@record(frozen=True, eq=False)
class Value:
    """An array of a graph, or a number that is passed by value.

    Attributes
    ----------
    node
        What computes it; None for what is given from outside.
    name
        What generated functions call it.
    """

    shape: Shape
    type: Type
    name: str = "x"
    node: Node | None = None
    by_value: bool = False


class Node:
    """A spec that is run on `inputs`: values, and numbers that are constant.

    Attributes
    ----------
    outputs
        A value for each result.
    asked
        The dtypes of the outputs, where they are not what the spec gives.
    """

    __slots__ = ("asked", "inputs", "outputs", "spec")

    def __init__(self, spec: Any, inputs: Sequence[Any],
                 outputs: Sequence[tuple[Shape, Type]], asked: Any = None) -> None:
        self.spec: Any = spec
        self.inputs: tuple[Any, ...] = tuple(inputs)
        self.outputs = tuple(Value(shape, kind, "t", self) for shape, kind in outputs)
        self.asked: Any = asked

    @property
    def sources(self) -> tuple[Node, ...]:
        """The nodes of the graph that it reads from."""
        return tuple(x.node for x in self.inputs
                     if isinstance(x, Value) and x.node is not None)


def type_of(x: Any) -> Type:
    """The type of a value, or of a number that is constant."""
    return x.type if isinstance(x, Value) else number_type(x)


def is_same(one: Any, other: Any) -> bool:
    """Whether two values, or numbers, were computed alike by specs of the same."""
    alike = set[tuple[Any, Any]]()  # pairs that were compared

    def same(a: Any, b: Any) -> bool:
        if a is b or (a, b) in alike:
            return True
        if not (isinstance(a, Value) and isinstance(b, Value)):
            return type(a) is type(b) and not isinstance(a, Value) and repr(a) == repr(
                b)
        alike.add((a, b))
        return _made_alike(a.node, b.node) and _place(a) == _place(b) and all(
            map(same, _inputs(a), _inputs(b)))

    return same(one, other)


def _made_alike(a: Node | None, b: Node | None) -> bool:
    """Whether two nodes run equal specs."""
    return (a is not None and b is not None and isinstance(a.spec, Spec)
            and a.spec == b.spec and a.asked == b.asked
            and len(a.inputs) == len(b.inputs))


def _place(x: Value) -> int:
    """The position of a value among its node's results."""
    return x.node.outputs.index(x) if x.node else 0


def _inputs(x: Value) -> tuple[Any, ...]:
    return x.node.inputs if x.node else ()


@record(frozen=True)
class Launch:
    """One spec to run, and its inputs and outputs.

    Attributes
    ----------
    nodes
        What it computes; those of its outputs that nobody else reads are not stored.
    exact
        Whether extents are in its functions, so that it fits these shapes only.
    """

    spec: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Value, ...]
    asked: Any = None
    nodes: tuple[Node, ...] = ()
    exact: bool = False


def live(nodes: Sequence[Node], outputs: Sequence[Value]) -> list[Node]:
    """The nodes that `outputs` depend on, in their order."""
    found: set[Node] = set()
    stack = [v.node for v in outputs if v.node is not None]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.sources)
    return [node for node in nodes if node in found]


def readers_of(nodes: Iterable[Node]) -> dict[Value, list[Node]]:
    """The nodes that read each value, once for each input that it is."""
    found: dict[Value, list[Node]] = {}
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, Value):
                found.setdefault(x, []).append(node)
    return found


def operands(node: Node) -> Iterator[tuple[Any, str]]:
    """The inputs of a node's scalar function with their kinds.

    Those of a Map and of a Reduce's map; what a Contract's epilogue reads besides the
    product.
    """
    first = 2 if isinstance(node.spec, Contract) else 0
    for x, (kind, _) in zip(node.inputs[first:], node.spec.parameters[first:],
                            strict=True):
        yield x, "scalar" if isinstance(x, Value) and x.by_value else kind
