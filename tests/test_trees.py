"""Trees: what is a node, what a leaf is called, what fits together."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field

import pytest

from nbfused.errors import ShapeError
from nbfused.support.trees import children, flatten, leaves_of, map_tree

Pair = namedtuple("Pair", "a b")


@dataclass(frozen=True)
class Layer:
    w: object
    b: object
    kind: str = field(default="relu", metadata={"static": True})


TREE = {"w": [1, (2, None)], "p": Pair(3, Layer(4, {"x": 5}, "tanh"))}


def test_leaves_paths_and_rebuilding():
    leaves, tree = flatten(TREE)
    assert leaves == [1, 2, 3, 4, 5] == list(leaves_of(TREE))
    assert tree.paths("t") == ["t['w'][0]", "t['w'][1][0]", "t['p'].a", "t['p'].b.w",
                               "t['p'].b.b['x']"]
    assert tree.build(leaves) == TREE
    assert map_tree(TREE, lambda x: 10 * x)["p"] == Pair(30, Layer(40, {"x": 50},
                                                                   "tanh"))


@pytest.mark.parametrize("made", [
    OrderedDict(a=1, b=2), defaultdict(list, a=1), [], (), {}, None, Pair(1, 2)])
def test_kinds_survive(made):
    leaves, tree = flatten(made)
    again = tree.build(leaves)
    assert again == made
    assert type(again) is type(made)
    if isinstance(made, defaultdict):
        assert again["new"] == []


def test_a_leaf_may_be_what_would_be_a_node():
    found, _ = flatten([(1, 2), 3], is_leaf=lambda x: isinstance(x, tuple))
    assert found == [(1, 2), 3]
    assert children(Layer) is None  # the class itself


def test_other_trees_are_matched_by_their_keys():
    _, tree = flatten({"a": 0, "b": [0, 0]})
    assert tree.match({"b": (2, 3), "a": 1}, "t", "x") == [1, 2, 3]
    with pytest.raises(ShapeError, match=r"t\['b'\] is a list of 1; expected a list of "
                                         r"2, as x\['b'\] is"):
        tree.match({"a": 1, "b": [1]}, "t", "x")
    with pytest.raises(ShapeError, match=r"t is a dict with the keys \['a'\]"):
        tree.match({"a": 1}, "t", "x")
    with pytest.raises(ShapeError, match="t is a int; expected a dict"):
        tree.match(1, "t", "x")


def test_prefixes_are_spread():
    _, tree = flatten(({"a": 0, "b": [0, 0]}, 0))
    assert tree.spread(7, "in_axes", "args") == [7, 7, 7, 7]
    assert tree.spread((None, 1), "in_axes", "args") == [None, None, None, 1]
    assert tree.spread(({"a": 0, "b": 1}, None), "in_axes", "args") == [0, 1, 1, None]
    with pytest.raises(ShapeError, match="in_axes is a tuple of 1; expected a tuple"):
        tree.spread((0,), "in_axes", "args")


def test_nodes_that_optree_knows():
    optree = pytest.importorskip("optree")

    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    optree.register_pytree_node(
        Point, lambda p: ((p.x, p.y), None, ("x", "y")),
        lambda data, items: Point(*items), namespace="nbfused")
    leaves, tree = flatten([Point(1, {"k": 2}), 3])
    assert leaves == [1, 2, 3]
    assert tree.paths("t") == ["t[0].x", "t[0].y['k']", "t[1]"]
    assert tree.build([4, 5, 6])[0].y == {"k": 5}
