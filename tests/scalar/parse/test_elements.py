"""Accesses to arrays, structs and where a thread is: what they are parsed to."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, ScalarSyntaxError
from nbfused.op import func
from nbfused.scalar.ir.nodes import For, If, Let, literal, walk
from nbfused.scalar.language import threads
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.structure import Array, Struct
from tests.scalar.evaluation import evaluate

A, V = Array(2), Array(1)
SIZE = 4


def operations(function):
    return [(s.op, s.args, s.attr) for s in walk(function.body) if isinstance(s, Let)]


def accesses(a, v, i, j):
    a[i, j] = v[i] + a[(i, j)]
    where = (j, i)
    a[where] += 1
    v.store(i, v.load(j))
    v.store_once(j, v.load_once(i) * a.load((i, j)))
    return a.shape[0], a.shape, a.size, a.ndim, len(v), nf.load(a, where)


def test_accesses_as_in_python():
    def flat(a, v, i, j):
        found = accesses(a, v, i, j)
        return found[0], found[1][1], found[2], found[3], found[4], found[5]

    a, v = np.arange(12.0).reshape(3, 4), np.arange(10.0, 15.0)
    found = evaluate(parse(flat, parameters={"a": A, "v": V}), a, v, 1, 2)
    expected = np.arange(12.0).reshape(3, 4)
    expected[1, 2] += 11
    expected[2, 1] += 1
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(v, [10, 12, 12 * 17, 13, 14])
    assert found == (3, 4, 12, 2, 5, 10)


def test_the_index_of_an_augmented_assignment_is_computed_once():
    def next_index(v, i):
        v[nf.atomic.add(v, 0, 1)] += 2

    found = operations(parse(next_index, parameters={"v": V}))
    assert [op for op, _, _ in found].count("atomic") == 1


def struct(p, q):
    p.x[q[0]] = p["y"] + p[1] * q[1]
    return p.y, q[1]


def test_structs():
    function = parse(struct, parameters={"p": Struct(("x", "y"), (V, None)),
                                         "q": (None, literal(3))})
    assert function.params == ("p_x", "p_y", "q_0")
    x = np.zeros(3)
    assert evaluate(function, x, 2.0, 1) == (2.0, 3)
    np.testing.assert_array_equal(x, [0.0, 8.0, 0.0])


def test_names_of_fields_do_not_clash():
    def f(p, p_x):
        return p.x + p_x

    function = parse(f, parameters={"p": Struct(("x",), (None,))})
    assert function.params == ("p_x_", "p_x")
    assert evaluate(function, 1, 2) == 3


@func
def total(a, n):
    s = 0.0
    for i in range(n):
        s += a[i]
    return s


@func
def put(a, i, value):
    a[i] = value


def through_functions(a, v, p):
    put(v, 0, total(v, v.size))
    put(p.x, 1, a.shape[1])


def test_arrays_are_passed_on():
    function = parse(through_functions, returns=False, parameters={
        "a": A, "v": V, "p": Struct(("x",), (V,))})
    v, x = np.arange(4.0), np.zeros(2)
    evaluate(function, np.zeros((2, 5)), v, x)
    assert (v[0], x[1]) == (6.0, 5.0)


def test_accesses_happen_where_python_has_them():
    def guarded(v, i):
        return v[i] if 0 <= i < v.size else 0.0

    def short(v, i):
        return i < v.size and v[i] > 0

    for f in (guarded, short):
        (branch,) = [s for s in walk(parse(f, parameters={"v": V}).body)
                     if isinstance(s, If)]
        assert any(isinstance(s, Let) and s.op == "load" for b in (
            branch.then, branch.orelse) for s in b.statements)


def test_arrays_live_through_loops_and_branches():
    def loops(v, n):
        for i in range(n):
            if i > 1:
                v[i] = i
            else:
                v[i] -= 1

    function = parse(loops, parameters={"v": V})
    (loop,) = [s for s in walk(function.body) if isinstance(s, For)]
    assert loop.params == ()
    v = np.zeros(4)
    evaluate(function, v, 4)
    np.testing.assert_array_equal(v, [-1, -1, 2, 3])


def kernel(v, n):
    i = threads.grid(1)
    x, y = threads.grid(2)
    s = threads.shared.array((SIZE, 2), np.float32)
    s[threads.threadIdx.x, 0] = v[i] + threads.laneid + threads.warpsize
    threads.syncthreads()
    threads.syncwarp()
    old = threads.atomic.max(v, (i,), s[y, 1])
    threads.atomic.add(v, i, threads.gridsize(1))
    v[x] = threads.shfl_down_sync(0xffffffff, old, 1)


def test_thread_vocabulary():
    found = operations(parse(kernel, parameters={"v": V}))
    assert {attr for op, _, attr in found if op == "thread"} == {
        "blockIdx.x", "blockDim.x", "threadIdx.x", "blockIdx.y", "blockDim.y",
        "threadIdx.y", "laneid", "warpsize", "gridDim.x"}
    assert ("shared", (literal(4), literal(2)), "float32") in found
    assert [attr for op, _, attr in found if op == "barrier"] == ["block", "warp"]
    assert [attr for op, _, attr in found if op == "atomic"] == ["max"]
    assert "atomic_add" in [op for op, _, _ in found]  # nobody reads the old value
    assert [attr for op, _, attr in found if op == "shuffle"] == ["down"]


def test_atomics_as_plain_python():
    v = np.array([5, 6])
    assert threads.atomic.add(v, 0, 2) == 5
    assert threads.atomic.cas(v, 1, 6, 9) == 6
    assert threads.atomic.exch(v, (1,), 3) == 9
    assert [threads.atomic.and_(v, 0, 3), threads.atomic.or_(v, 0, 8)] == [7, 3]
    assert threads.atomic.xor(v, 0, 1) == 11
    assert threads.atomic.min(v, 0, 4) == 10
    np.testing.assert_array_equal(v, [4, 3])


@pytest.mark.parametrize("use", [
    lambda: threads.grid(1), lambda: threads.threadIdx.x + 1, threads.syncthreads,
    lambda: threads.shared.array(3, "float32"), lambda: int(threads.laneid)])
def test_outside_a_kernel(use):
    with pytest.raises(KernelTypeError, match="inside a kernel only"):
        use()


def wrong_rank(a):
    return a[0]


def number_indexed(n):
    return n[0]


def number_stored(n):
    n[0] = 1


def float_index(v):
    return v[0.5]


def a_slice(v):
    return v[1:]


def array_as_number(v):
    return v + 1


def array_returned(v):
    return v


def chosen_array(a, v, n):
    w = v if n > 0 else a
    return w[0]


def other_method(v):
    return v.sum()


def other_attribute(v):
    return v.flags


def missing_field(p):
    return p.z


def four_axes():
    return threads.grid(4)


def dynamic_axes(n):
    return threads.grid(n)


def half_a_mask(n):
    return threads.shfl_sync(1, n, 0)


def dynamic_shared(n):
    s = threads.shared.array(n, "float32")
    return s[0]


def shared_of_nothing(n):
    s = threads.shared.array(3, n)
    return s[0]


def atomic_on_number(n):
    return threads.atomic.add(n, 0, 1)


def tuple_stored(v):
    v[0] = (1, 2)


REFUSED = [
    (wrong_rank, "a part of an array; the array has 2 axes"),
    (number_indexed, "a number cannot be indexed"),
    (number_stored, "a number cannot be indexed"), (float_index, "must be an integer"),
    (a_slice, "a part of an array; the array has 1 axes"),
    (array_as_number, "expected a number here, got an array"),
    (array_returned, "got an array"), (chosen_array, "an array that depends on"),
    (other_method, "no method 'sum'"), (other_attribute, "no attribute 'flags'"),
    (missing_field, "no field 'z'; it has x, y"), (four_axes, "1, 2 or 3, got 4"),
    (dynamic_axes, "number of axes must be an integer that is known"),
    (half_a_mask, "0xffffffff"), (dynamic_shared, "an extent must be an integer"),
    (shared_of_nothing, "'n' is a number here"),
    (atomic_on_number, "'n' is a number"), (tuple_stored, "got a tuple"),
]


@pytest.mark.parametrize(("pyfunc", "message"), REFUSED, ids=lambda c: getattr(
    c, "__name__", ""))
def test_refused(pyfunc, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        parse(pyfunc, parameters={"a": A, "v": V,
                                  "p": Struct(("x", "y"), (None, None))})
    assert caught.value.filename == __file__
    assert caught.value.lineno >= pyfunc.__code__.co_firstlineno


def test_kernels_return_nothing():
    def early(v):
        if v[0] > 0:
            return
        v[0] = 1

    def late(v):
        if v[0] > 0:
            return None
        return v[1]

    assert parse(early, parameters={"v": V}, returns=False).results == ()
    with pytest.raises(ScalarSyntaxError, match="late returns a value; store") as error:
        parse(late, parameters={"v": V}, returns=False)
    assert error.value.lineno == late.__code__.co_firstlineno + 3


def test_without_a_source():
    scope: dict = {}
    exec("def f(v, i, n):\n    v[i] = v[i + n]\n    return v[i] * n", scope)
    function = parse(scope["f"], parameters={"v": V, "n": literal(2)})
    assert function.params == ("v", "i")
    v = np.arange(5)
    assert evaluate(function, v, 1) == 6
    with pytest.raises(ScalarSyntaxError, match="no tuples or structs"):
        parse(scope["f"], parameters={"v": (None, None)})
