"""Updates of the arrays of trees, in place: one start for all leaves.

An update is an `Elementwise` function of leaves that are at the same place in several
trees, which have one structure; its results are stored in some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array, describe, dtype_of
from ..arrays.traced import Traced
from ..dispatch.together import Names, NumberOf, SpecCall, Together
from ..errors import KernelTypeError, ShapeError
from ..support.trees import Structure, children, flatten
from .nodes import is_floating
from .recording import no_grad
from .tape import apply
from .variable import Variable
from .versions import note_write

if TYPE_CHECKING:
    from ..op import Elementwise

__all__ = ["Leaves", "Names", "NumberOf", "SpecCall", "Together", "check_leaf",
           "is_tree", "native", "update_leaves"]


def is_tree(x: Any) -> bool:
    """Whether something is a tree of arrays, and no array."""
    return children(x) is not None


def native(x: Any) -> Any:
    """The array that is changed in place: of a Variable, of a tensor on a tape."""
    kind = type(x)
    if kind is np.ndarray:
        return x
    if kind is Variable:
        return x._value
    return x.detach() if getattr(x, "requires_grad", False) and not isinstance(
        x, Traced) else x


class Leaves:
    """The leaves of trees of one structure, each a column.

    Parameters
    ----------
    what
        Who asks, for messages.
    trees
        By name; the first one says what the others have to be like.

    Attributes
    ----------
    columns
        The leaves of each tree.

    Raises
    ------
    ShapeError
        A tree has another structure.
    """

    def __init__(self, what: str, trees: dict[str, Any]) -> None:
        self.what, self._trees = what, tuple(trees)
        first, *others = trees.items()
        leaves, self._structure = flatten(first[1])
        self.columns: list[list[Any]] = [leaves]
        for name, tree in others:
            self.columns.append(_matched(what, self._structure, tree, name, first[0]))

    def names(self) -> list[str]:
        """The names of all leaves, column by column: ``grad['w'][0]``."""
        return [path for tree in self._trees for path in self._structure.paths(tree)]

    @property
    def count(self) -> int:
        """Number of leaves of each tree."""
        return self._structure.count

    @property
    def traced(self) -> bool:
        """Whether there are placeholders among them."""
        kinds = {type(x) for column in self.columns for x in column}
        return any(issubclass(kind, Traced) for kind in kinds)


def _matched(what: str, structure: Structure, tree: Any, name: str,
             expected: str) -> list[Any]:
    try:
        return structure.match(tree, name, expected)
    except ShapeError as error:
        raise ShapeError(f"{what}: {error}") from None


def update_leaves(update: Elementwise, leaves: Leaves, outs: tuple[int, ...],
                  numbers: tuple[float, ...]) -> None:
    """Run an update on all leaves, and store its results in the columns `outs`."""
    if leaves.traced:
        _record(update, leaves, outs, numbers)
        return
    columns = [[native(x) for x in column] for column in leaves.columns]
    arrays = [x for column in columns for x in column]
    _together(update, leaves.what, len(columns), outs)(arrays, numbers, leaves.names)
    note_write([x for k in outs for x in columns[k]])


def _record(update: Elementwise, leaves: Leaves, outs: tuple[int, ...],
            numbers: tuple[float, ...]) -> None:
    """Record an update of placeholders, leaf by leaf: `nf.fuse` joins what it can."""
    count, names = len(leaves.columns), leaves.names()
    many = leaves.count
    spec = update.spec(("element",)*count + ("scalar",)*len(numbers))
    for k, row in enumerate(zip(*leaves.columns, strict=True)):
        for j, x in enumerate(row):
            found = x if isinstance(x, Traced) else describe(native(x),
                                                             names[k + many*j])
            check_leaf(leaves.what, found, names[k + many*j], row[0], names[k])
        with no_grad():
            apply(spec, (*row, *numbers), out=tuple([row[j] for j in outs]),
                  names=update.parameters.names)


@cache
def _together(update: Elementwise, what: str, count: int,
              outs: tuple[int, ...]) -> Together:
    """The calls of an update for `count` columns."""
    numbers = tuple([NumberOf(k) for k in range(
        len(update.parameters.names) - count)])
    spec = update.spec(("element",)*count + ("scalar",)*len(numbers))

    def calls(arrays: Sequence[Array], names: Names) -> list[SpecCall]:
        many, named = len(arrays) // count, names()
        for k, x in enumerate(arrays):
            check_leaf(what, x, named[k], arrays[k % many], named[k % many])
        rows = [[arrays[k + many*j] for j in range(count)] for k in range(many)]
        return [SpecCall(spec, (*row, *numbers), tuple([row[j] for j in outs]))
                for row in rows]

    return Together(calls)


def check_leaf(what: str, x: Any, name: str, like: Any, like_name: str) -> None:
    """Check that a leaf is floating, can be stored to, and has the shape of another.

    Leaves are described, or placeholders.
    """
    if isinstance(x, Array) and not x.library.writable:
        raise KernelTypeError(
            f"{what}: '{name}' is an array of {x.library.name}, whose arrays are "
            "immutable; keep parameters and their state in arrays of another library, "
            "as nf.array makes them")
    if not is_floating(dtype_of(x)):
        raise KernelTypeError(f"{what}: '{name}' has dtype {x.dtype}; expected a "
                              "floating one, convert with astype")
    if tuple(x.shape) != tuple(like.shape):
        raise ShapeError(f"{what}: '{name}' of shape {tuple(x.shape)} does not fit "
                         f"'{like_name}' of shape {tuple(like.shape)}; expected equal "
                         "shapes")
