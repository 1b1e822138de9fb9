"""Kernels of threads from the call to the launcher."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import describe
from nbfused.dispatch.raw import BoundLaunch, check_written, launch, prepare
from nbfused.errors import NotDifferentiableError, OverlapError, ReadOnlyError
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.structure import Array
from nbfused.specs import Raw


def kernel(x, y, n):
    y[n] = x[n, 0] * x.shape[1]


SPEC = Raw(parse(kernel, parameters={"x": Array(2), "y": Array(1), "n": None},
                 returns=False), ("array", "array", "scalar"))


def values(x, y, n=0):
    return [describe(x), describe(y), n]


def signature(*args):
    return prepare(SPEC, values(*args), SPEC.function.params).signature


def test_what_a_spec_says_of_its_kernel():
    assert SPEC.name == "kernel"
    assert SPEC.written == {"y"}
    assert SPEC.kernel is SPEC
    assert hash(SPEC) == hash(Raw(SPEC.function, SPEC.kinds))
    assert SPEC.out_shapes(((2, 2), (2,), ())) == SPEC.result_types(()) == ()
    with pytest.raises(NotDifferentiableError, match=r"\.bwd.*\.as_op"):
        SPEC.vjp((True,), ((),), ())


@nf.func
def put(y, i, value):
    y[i] = value


@put.defvjp
def put_vjp(y, i, value):
    return 0.0, 0.0


def by_a_function(y, n):
    put(y, n, 1.0)


def test_what_functions_with_rules_write_is_written():
    function = parse(by_a_function, parameters={"y": Array(1), "n": None},
                     returns=False)
    assert Raw(function, ("array", "scalar")).written == {"y"}


def test_one_kernel_for_all_arrays_of_a_kind():
    x, y = np.zeros((3, 4)), np.zeros(5)
    found = signature(x, y)
    assert found.inner == ("c2", "c1")
    assert signature(x[1:, :2], y[3:]) == found
    assert signature(x[:, ::2], y).inner == ("r2", "c1")
    assert signature(x[:, :1], y[::2][:1]).inner == ("c2", "c1")
    assert signature(x.T, y).inner == ("r2", "c1")
    assert signature(x, y, np.int8(1)).inputs[2] == np.int8
    one, two = (prepare(SPEC, values(x, y, n), SPEC.function.params) for n in (1, 2))
    assert one.launcher is two.launcher


@pytest.mark.parametrize(("y", "error"), [
    (np.broadcast_to(np.zeros(1), 4), ReadOnlyError),
    (np.lib.stride_tricks.as_strided(np.zeros(4), (4,), (0,)), OverlapError)])
def test_only_what_is_written_is_checked(y, error):
    x = np.zeros((2, 2))
    with pytest.raises(error, match="kernel writes to 'y'"):
        check_written(SPEC, values(x, y), SPEC.function.params)
    wide = np.broadcast_to(np.zeros(1), (4, 4))
    check_written(SPEC, values(wide, np.zeros(4)), SPEC.function.params)


@pytest.fixture
def waiting(monkeypatch):
    """A kernel, its arguments, its result, and the third element of it at each wait."""
    y = np.zeros(4)
    given = values(np.ones((4, 1)), y, 2)
    made, waits = prepare(SPEC, given, SPEC.function.params), []
    monkeypatch.setattr(type(made.place.backend), "synchronize",
                        lambda self: waits.append(y[2]))
    return made, given, y, waits


def test_arrays_that_are_used_on_another_stream_are_waited_for(waiting):
    """Also afterwards, unless the caller names the stream, and so knows of it."""
    made, given, _, waits = waiting
    given[1].stream = 5
    launch(made, given, (1, 1, 1), (1, 1, 1))
    assert waits == [0, 1]
    launch(made, given, (1, 1, 1), (1, 1, 1), stream=0)
    assert waits == [0, 1, 1]


def test_a_bound_launch_waits_where_a_launch_does(waiting):
    made, given, y, waits = waiting
    at = [array.pointer for array in given[:2]]

    def bound(stream, current):
        waits.clear()
        y[2] = 0
        BoundLaunch(made, given, (1, 1, 1), (1, 1, 1), stream, current)(at, (2,))
        assert y[2] == 1
        return waits.copy()

    assert bound(None, current=True) == bound(7, current=True) == []  # no array has one
    given[1].stream = 5
    assert bound(None, current=False) == [0, 1]
    assert bound(0, current=False) == [0]
    assert bound(5, current=False) == []
    assert bound(None, current=True) == []  # the library works on it at each launch
    assert bound(5, current=True) == [0]
