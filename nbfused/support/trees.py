"""Trees of arrays: what is in nested dictionaries, lists, tuples and dataclasses.

A node of a tree is a dictionary, list, tuple, named tuple, instance of a dataclass
(fields with ``metadata={"static": True}`` belong to the structure, as in JAX), or what
optree knows, in its namespace ``"nbfused"``, if the program has imported optree.  None
is a node without leaves.  All else is a leaf.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

from ..errors import ShapeError
from .records import record

__all__ = ["Branch", "Structure", "children", "flatten", "leaves_of", "map_tree"]

#: The namespace of optree that trees of ours may be registered in.
NAMESPACE = "nbfused"


@record(frozen=True, eq=False)
class Branch:
    """The children of a node.

    Attributes
    ----------
    keys
        Keys of a dictionary, names of fields, or positions.
    label
        What Python writes after the name of the tree for one of the keys: ``['w']``,
        ``.w``, ``[0]``.
    items
        The children.
    rebuild
        Makes a node of the same kind of other children.
    """

    kind: type
    keys: tuple[Any, ...]
    label: Callable[[Any], str]
    items: tuple[Any, ...]
    rebuild: Callable[[Sequence[Any]], Any]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all keys."""
        return tuple(map(self.label, self.keys))


def children(x: Any) -> Branch | None:
    """The children of a node; None for a leaf."""
    kind = type(x)
    if kind in _LEAVES:
        return None
    if isinstance(x, dict):
        keys = tuple(x)
        return Branch(type(x), keys, _item, tuple(x.values()),
                      lambda new: _dictionary(x, new))
    if isinstance(x, (tuple, list)):
        names = getattr(x, "_fields", None)
        if names is None:
            return Branch(type(x), tuple(range(len(x))), _item, tuple(x), type(x))
        return Branch(type(x), names, _field, tuple(x), lambda new: type(x)(*new))
    if x is None:
        return Branch(type(None), (), _item, (), lambda new: None)
    if is_dataclass(x) and not isinstance(x, type):
        own = tuple([f.name for f in fields(x) if not f.metadata.get("static")])
        return Branch(type(x), own, _field, tuple([getattr(x, n) for n in own]),
                      lambda new: _with_fields(x, own, new))
    if hasattr(kind, "shape") and "optree" not in sys.modules:
        _LEAVES.add(kind)
    return _registered(x)


#: Types of leaves, found without a look at each: arrays and numbers.
_LEAVES: set[type] = {bool, int, float, complex, str}


def _item(key: Any) -> str:
    return f"[{key!r}]"


def _field(name: str) -> str:
    return f".{name}"


def _dictionary(old: Any, new: Sequence[Any]) -> Any:
    made = {} if type(old) is dict else copy(old)  # with the factory of a defaultdict
    made.update(zip(old, new, strict=True))
    return made


def _with_fields(old: Any, names: Sequence[str], new: Sequence[Any]) -> Any:
    """A copy with other fields, whether or not they may be assigned to."""
    made = copy(old)
    for name, value in zip(names, new, strict=True):
        object.__setattr__(made, name, value)
    return made


def _registered(x: Any) -> Branch | None:
    """The children of a node that optree knows."""
    optree = sys.modules.get("optree")
    if optree is None or optree.tree_is_leaf(x, namespace=NAMESPACE):
        return None
    items, data, entries, rebuild = optree.tree_flatten_one_level(
        x, namespace=NAMESPACE)
    return Branch(type(x), tuple(entries),
                  lambda k: _field(k) if isinstance(k, str) else _item(k), tuple(items),
                  lambda new: rebuild(data, tuple(new)))


#: Structure of a leaf, or of a node: itself and the structures of its children.
Shape = tuple[Branch, tuple[Any, ...]] | None


@record(frozen=True, eq=False)
class Structure:
    """A tree without its leaves."""

    shape: Shape
    count: int

    def build(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves."""
        return _build(self.shape, iter(leaves))

    def paths(self, root: str) -> list[str]:
        """The text for each leaf of the tree `root`: ``params['w'][0]``."""
        return list(_paths(self.shape, root))

    def match(self, tree: Any, root: str, expected: str) -> list[Any]:
        """The leaves of another tree of the same structure.

        Parameters
        ----------
        root, expected
            The names of that tree and of the one that this is of, for messages.

        Raises
        ------
        ShapeError
            It has another structure.
        """
        found: list[Any] = []
        if _collect(self.shape, tree, found):
            return found
        return list(_match(self.shape, tree, root, expected))

    def spread(self, prefix: Any, root: str, expected: str) -> list[Any]:
        """Leaves of a tree `prefix`, repeated for all that is below them here.

        None is a leaf of `prefix`.
        """
        return list(_spread(self.shape, prefix, root, expected))


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None,
            ) -> tuple[list[Any], Structure]:
    """The leaves of a tree in their order, and its structure."""
    leaves: list[Any] = []

    def visit(x: Any) -> Shape:
        branch = None if is_leaf is not None and is_leaf(x) else children(x)
        if branch is None:
            leaves.append(x)
            return None
        return branch, tuple([visit(item) for item in branch.items])

    shape = visit(tree)
    return leaves, Structure(shape, len(leaves))


def leaves_of(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of a tree in their order."""
    branch = None if is_leaf is not None and is_leaf(tree) else children(tree)
    if branch is None:
        yield tree
    else:
        for item in branch.items:
            yield from leaves_of(item, is_leaf)


def map_tree(tree: Any, function: Callable[[Any], Any],
             is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree with ``function(x)`` in place of each leaf `x`."""
    branch = None if is_leaf is not None and is_leaf(tree) else children(tree)
    if branch is None:
        return function(tree)
    return branch.rebuild([map_tree(item, function, is_leaf) for item in branch.items])


def _build(shape: Shape, leaves: Iterator[Any]) -> Any:
    if shape is None:
        return next(leaves)
    branch, inner = shape
    return branch.rebuild([_build(s, leaves) for s in inner])


def _paths(shape: Shape, root: str) -> Iterator[str]:
    if shape is None:
        yield root
    else:
        branch, inner = shape
        for label, below in zip(branch.labels, inner, strict=True):
            yield from _paths(below, root + label)


def _collect(shape: Shape, tree: Any, leaves: list[Any]) -> bool:
    """Append the leaves of a tree that is the same in all; False of others."""
    if shape is None:
        leaves.append(tree)
        return True
    branch, inner = shape
    own = children(tree)
    return own is not None and own.kind is branch.kind and own.keys == branch.keys \
        and all(_collect(below, item, leaves)
                for below, item in zip(inner, own.items, strict=True))


def _match(shape: Shape, tree: Any, root: str, expected: str) -> Iterator[Any]:
    if shape is None:
        yield tree
        return
    branch, inner = shape
    for (label, item), below in zip(_items(branch, tree, root, expected), inner,
                                    strict=True):
        yield from _match(below, item, root + label, expected + label)


def _spread(shape: Shape, prefix: Any, root: str, expected: str) -> Iterator[Any]:
    if prefix is None or shape is None or children(prefix) is None:
        yield from (prefix for _ in _paths(shape, ""))
        return
    branch, inner = shape
    for (label, item), below in zip(_items(branch, prefix, root, expected), inner,
                                    strict=True):
        yield from _spread(below, item, root + label, expected + label)


def _items(branch: Branch, tree: Any, root: str,
           expected: str) -> list[tuple[str, Any]]:
    """Labels and children of a node that is to be like `branch`, in its order."""
    own = children(tree)
    sequences = (tuple, list)
    alike = own is not None and (own.kind is branch.kind or (
        own.kind in sequences and branch.kind in sequences) or (
        issubclass(own.kind, dict) and issubclass(branch.kind, dict)))
    if own is None or not alike or set(own.keys) != set(branch.keys):
        raise ShapeError(f"{root} is {_described(own, tree)}; expected "
                         f"{_described(branch, None)}, as {expected} is")
    found = dict(zip(own.keys, own.items, strict=True))
    return [(label, found[key]) for key, label in zip(branch.keys, branch.labels,
                                                      strict=True)]


def _described(branch: Branch | None, x: Any) -> str:
    if branch is None:
        return f"a {type(x).__name__}"
    if branch.kind is type(None):
        return "None"
    if issubclass(branch.kind, dict):
        return f"a {branch.kind.__name__} with the keys {list(branch.keys)}"
    if branch.kind in (tuple, list):
        return f"a {branch.kind.__name__} of {len(branch.keys)}"
    return f"a {branch.kind.__name__}"
