"""`record` makes what `dataclass` does."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import (
    FrozenInstanceError,
    asdict,
    astuple,
    dataclass,
    field,
    fields,
    is_dataclass,
    replace,
)

import pytest

from nbfused.support import records

MAKERS = [dataclass, records.record]
make = pytest.mark.parametrize("make", MAKERS)


def point(make):
    @make(frozen=True)
    class Point:
        """Two numbers."""

        x: int
        y: float = 2.0
        names: dict[str, int] = field(default_factory=dict, compare=False)
        line: int = field(default=0, compare=False, repr=False)

    return Point


@records.record(frozen=True)
class Kept:
    """Of this module, so that it can be pickled."""

    x: int
    y: tuple[int, ...] = ()


@records.record
class Changed:
    x: int
    y: list[int] = field(default_factory=list)


@make
def test_instances(make):
    point_ = point(make)
    p = point_(1)
    assert (p.x, p.y, p.names, p.line) == (1, 2.0, {}, 0)
    assert p.names is not point_(1).names
    assert point_(1, 3.0, {"a": 1}, line=4).line == 4
    assert p == point_(1, line=3) != point_(2)
    assert p != (1, 2.0)
    assert hash(p) == hash(point_(1, names={"b": 2})) == hash((1, 2.0))
    assert repr(p) == "point.<locals>.Point(x=1, y=2.0, names={})"


@make
def test_what_dataclasses_offers(make):
    p = point(make)(1)
    assert is_dataclass(p)
    assert [f.name for f in fields(p)] == [*"xy", "names", "line"]
    assert astuple(replace(p, x=5, line=3)) == (5, 2.0, {}, 3)
    assert astuple(p) == (1, 2.0, {}, 0)
    assert asdict(p) == {"x": 1, "y": 2.0, "names": {}, "line": 0}
    assert p.__match_args__ == ("x", "y", "names", "line")
    assert copy.copy(p) == copy.deepcopy(p) == p


@make
def test_signature(make):
    shown = inspect.signature(point(make))
    assert str(shown.parameters["x"]) == "x: 'int'"
    assert list(shown.parameters) == ["x", "y", "names", "line"]
    assert shown.parameters["y"].default == 2.0
    for wrong in [(), (1, 2, {}, 4, 5)]:
        with pytest.raises(TypeError):
            point(make)(*wrong)
    with pytest.raises(TypeError):
        point(make)(1, z=3)


@make
def test_frozen(make):
    p = point(make)(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        p.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del p.x
    assert p.x == 1


@make
def test_not_frozen(make):
    @make
    class Open:
        x: int

    a, b = Open(1), Open(1)
    assert a == b
    a.x = 3
    assert a != b
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


@make
def test_compared_by_identity(make):
    @make(frozen=True, eq=False)
    class Alone:
        x: int

    a, b = Alone(1), Alone(1)
    assert a == a != b
    assert len({a, b}) == 2


@make
def test_methods_of_the_class_stay(make):
    @make(frozen=True)
    class Own:
        x: int

        def __repr__(self):
            return "mine"

        def __eq__(self, other):
            return True

    assert repr(Own(1)) == "mine"
    assert Own(1) == 3
    assert hash(Own(1)) == hash((1,))  # fields', as for a dataclass

    @make(frozen=True)
    class Hash:
        x: int

        def __hash__(self):
            return 7

    assert hash(Hash(1)) == 7


@make
def test_inherited_fields_come_first(make):
    @make(frozen=True)
    class Base:
        x: int
        y: int = 1

    @make(frozen=True)
    class Derived(Base):
        y: int = 2
        z: int = 3

    assert astuple(Derived(0)) == (0, 2, 3)
    assert Base(0) != Derived(0, 1)
    assert Derived(0) == Derived(0, 2, 3)


@make
def test_no_fields_and_one(make):
    @make(frozen=True)
    class Empty:
        pass

    @make(frozen=True)
    class One:
        x: float

    nan = float("nan")
    assert Empty() == Empty()
    assert hash(Empty()) == hash(())
    assert repr(Empty()).endswith("Empty()")
    assert One(nan) == One(nan)
    assert hash(One(2.0)) == hash((2.0,))


@make
def test_repr_of_itself(make):
    @make
    class Loop:
        x: object = None

    a = Loop()
    a.x = [a]
    assert repr(a).endswith("(x=[...])")


def test_pickled():
    for value in (Kept(1, (2, 3)), Changed(1, [2])):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(value, protocol)) == value


def test_matched():
    match Kept(1, (2,)):
        case Kept(x, y):
            assert (x, y) == (1, (2,))
        case _:
            pytest.fail("not matched")


def test_what_a_record_does_not_have_is_refused():
    with pytest.raises(TypeError, match="After: a record takes its fields in"):
        @records.record
        class After:
            x: int

            def __post_init__(self):
                pass

    for refused in (field(init=False, default=1), field(kw_only=True, default=1)):
        with pytest.raises(TypeError, match="Refused: a record takes its fields in"):
            records.record(type("Refused", (), {
                "__annotations__": {"x": int}, "x": refused}))


def test_an_undocumented_record_has_its_name():
    assert Changed.__doc__ == "Changed"
