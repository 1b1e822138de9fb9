"""Specs compose: what their scalar functions compute is the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.dispatch import execute
from nbfused.op import elementwise
from nbfused.ops import power
from nbfused.scalar.typing.types import Weak
from nbfused.specs import COMBINES, Contract, Map, Reduce, View
from nbfused.specs.fusion.algebra import (
    fuse_contract,
    fuse_maps,
    fuse_reduces,
    product,
)
from nbfused.specs.fusion.graph import Node, Value, live
from nbfused.specs.fusion.partition import partition
from nbfused.specs.reduce import sum_over
from nbfused.specs.vjp.functions import identity

pytestmark = pytest.mark.interpreted

F4, F2 = np.dtype("f4"), np.dtype("f2")


@elementwise
def double_and_square(x):
    return x + x, x * x


@elementwise
def weighted(x, y, w):
    return x * w + y


def given(shape, dtype=F4, name="x"):
    return Value(shape, np.dtype(dtype), name)


def node(spec, *inputs):
    """A node; shapes and dtypes as the spec says."""
    shapes = tuple(x.shape if isinstance(x, Value) else () for x in inputs)
    types = tuple(x.type if isinstance(x, Value) else Weak(type(x).__name__)
                  for x in inputs)
    return Node(spec, inputs, list(zip(spec.out_shapes(shapes),
                                       spec.result_types(types), strict=True)))


def elements(op, *kinds):
    return op.spec(kinds or ("element",) * op.nin)


def run(launches, env):
    """The values of a program, each launch run in its turn."""
    env = dict(env)
    for launch in launches:
        inputs = [env[x] if isinstance(x, Value) else x for x in launch.inputs]
        env.update(zip(launch.outputs, execute(launch.spec, inputs), strict=True))
    return env


def kinds(launches):
    return [type(launch.spec).__name__ for launch in launches]


def normal(*shape, seed=0, dtype="f4"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def test_map_after_map_is_a_map():
    x, y = given((3, 4)), given((4,), name="y")
    first = node(elements(double_and_square), x)
    second = node(elements(weighted), *first.outputs, y)
    launch = fuse_maps([first, second], second.outputs, "both")
    assert isinstance(launch.spec, Map)
    assert launch.spec.function.name == "both"
    assert launch.inputs == (x, y)
    a, b = normal(3, 4), normal(4, seed=1)
    (found,) = execute(launch.spec, (a, b))
    np.testing.assert_allclose(found, 2 * a * b + a * a, rtol=1e-5, atol=1e-6)


def test_a_shared_step_is_written_once_and_may_be_stored():
    x = given((5,))
    first = node(elements(double_and_square), x)
    second = node(elements(weighted, "element", "element", "scalar"),
                  first.outputs[1], first.outputs[1], 3.0)
    launch = fuse_maps([first, second], (first.outputs[1], *second.outputs), "f")
    products = [s for s in launch.spec.function.body.statements if s.op == "mul"]
    assert len(products) == 2  # x * x, and its multiple
    a = normal(5)
    squared, weighed = execute(launch.spec, (a,))
    np.testing.assert_allclose(squared, a * a, rtol=1e-6)
    np.testing.assert_allclose(weighed, 4 * a * a, rtol=1e-6)


def test_float16_is_rounded_on_the_way():
    x = given((2,), F2)
    first = node(elements(double_and_square), x)
    second = node(elements(weighted, "element", "element", "scalar"),
                  first.outputs[1], x, 0.001)
    launch = fuse_maps([first, second], second.outputs, "f")
    (found,) = execute(launch.spec, (np.array([300.0, 2.0], F2),))
    assert found.dtype == F2
    assert np.isinf(found[0])  # 300 * 300 is beyond float16
    np.testing.assert_allclose(found[1], 2.004, rtol=1e-3)


def test_map_reduce_map_is_a_reduce():
    x, y = given((3, 4)), given((4,), name="y")
    squares = node(elements(double_and_square), x)
    weighed = node(elements(weighted), squares.outputs[1], x, y)
    total = node(sum_over((1,)), weighed.outputs[0])
    post = node(elements(double_and_square), total.outputs[0])
    launch = fuse_reduces([squares, weighed], [total], [post],
                          (total.outputs[0], post.outputs[1]), "f")
    assert isinstance(launch.spec, Reduce)
    a, b = normal(3, 4), normal(4, seed=1)
    expected = (a * a * b + a).sum(1)
    found, square = execute(launch.spec, (a, b))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(square, expected ** 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("names", [("sum", "sum"), ("max", "min"), ("sum", "prod"),
                                   ("max", "logsumexp", "min")])
def test_reductions_side_by_side(names):
    x = given((3, 5), "f8")
    nodes = [node(Reduce(identity(), ("element",), COMBINES[n], COMBINES[n].finish,
                         (1,)), x) for n in names]
    outputs = [v for n in nodes for v in n.outputs]
    launch = fuse_reduces([], nodes, [], outputs, "f")
    a = normal(3, 5, dtype="f8")
    expected = {"sum": a.sum(1), "prod": a.prod(1), "max": a.max(1), "min": a.min(1),
                "logsumexp": np.log(np.exp(a).sum(1))}
    pullback = launch.spec.vjp((True,), ((3, 5),), (True,) * len(names))
    assert pullback.results[0]
    for spec in (launch.spec, pullback.forward):
        for found, name in zip(execute(spec, (a,)), names, strict=False):
            np.testing.assert_allclose(found, expected[name], rtol=1e-12)


def test_a_product_of_one_is_itself():
    assert product((COMBINES["max"],)) is COMBINES["max"]
    assert product((COMBINES["sum"], COMBINES["sum"])).arity == 2


def test_a_map_after_a_product_is_its_epilogue():
    a, b, bias = given((3, 4)), given((4, 5), name="b"), given((5,), name="bias")
    matmul = node(Contract("mk,kn->mn", identity()), a, b)
    last = node(elements(weighted, "element", "element", "scalar"), *matmul.outputs,
                bias, 2.0)
    outputs = (*last.outputs, *matmul.outputs)
    launch = fuse_contract(matmul, [last], outputs, "f")
    assert launch.inputs == (a, b, bias)
    x, w, c = normal(3, 4), normal(4, 5, seed=1), normal(5, seed=2)
    found = execute(launch.spec, (x, w, c))
    np.testing.assert_allclose(found[0], x @ w * 2 + c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], x @ w, rtol=1e-4, atol=1e-5)
    assert kinds(partition([matmul, last], outputs, "f")) == ["Contract"]


def test_partition_makes_one_launch_of_a_chain():
    x = given((3, 4))
    nodes = [node(elements(double_and_square), x)]
    for _ in range(20):
        nodes.append(node(elements(weighted), *nodes[-1].outputs, x))
        nodes.append(node(elements(double_and_square), nodes[-1].outputs[0]))
    launches = partition(nodes, nodes[-1].outputs[:1], "chain")
    assert kinds(launches) == ["Map"]


def test_partition_stores_once_what_two_launches_read():
    x = given((3, 4))
    first = node(elements(double_and_square), x)
    total = node(sum_over((0,), True), first.outputs[0])
    last = node(elements(weighted), first.outputs[0], x, total.outputs[0])
    launches = partition([first, total, last], last.outputs, "f")
    assert kinds(launches) == ["Map", "Reduce", "Map"]
    a = normal(3, 4)
    found = run(launches, {x: a})[last.outputs[0]]
    expected = 2 * a * (2 * a).sum(0, keepdims=True) + a
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_partition_divides_where_a_cycle_would_be():
    """What a reduction needs and what needs it are not one launch."""
    x = given((3, 4))
    first = node(elements(double_and_square), x)
    total = node(sum_over((0,), True), first.outputs[1])
    last = node(elements(weighted), x, x, total.outputs[0])
    outputs = (first.outputs[0], last.outputs[0])
    launches = partition([first, total, last], outputs, "f")
    assert sorted(kinds(launches)) == ["Map", "Map", "Reduce"]
    a = normal(3, 4)
    env = run(launches, {x: a})
    np.testing.assert_allclose(env[outputs[0]], 2 * a)
    np.testing.assert_allclose(env[outputs[1]], a * (a * a).sum(0, keepdims=True) + a,
                               rtol=1e-5)


def test_a_reduction_of_a_reduction_is_another_launch():
    x = given((3, 4))
    inner = node(sum_over((1,), True), x)
    outer = node(sum_over((1,), True), inner.outputs[0])
    assert kinds(partition([inner, outer], outer.outputs, "f")) == ["Reduce", "Reduce"]


def test_a_view_between_maps_is_one_of_what_they_read():
    x = given((3, 4))
    first = node(elements(double_and_square), x)
    flipped = node(View("transpose", (1, 0)), first.outputs[0])
    last = node(elements(double_and_square), flipped.outputs[0])
    launches = partition([first, flipped, last], last.outputs[:1], "f")
    assert kinds(launches) == ["View", "Map"]


def test_a_view_of_a_result_stays_between():
    x = given((3, 4))
    first = node(elements(double_and_square), x)
    flipped = node(View("transpose", (1, 0)), first.outputs[0])
    wanted = (first.outputs[0], flipped.outputs[0])
    assert kinds(partition([first, flipped], wanted, "f")) == ["Map", "View"]


def test_what_nobody_reads_is_dropped():
    x = given((3,))
    used, unused = node(elements(double_and_square), x), node(sum_over(None), x)
    assert live([used, unused], used.outputs) == [used]


def test_power_stays_exact():
    x = given((4,), "i4")
    spec = power.scalar.spec(("element", "scalar"))
    cubes = node(spec, x, 3)
    launch = fuse_maps([cubes], cubes.outputs, "cube")
    (found,) = execute(launch.spec, (np.array([-3, 0, 2, 7], "i4"),))
    np.testing.assert_array_equal(found, np.array([-27, 0, 8, 343], "i4"))
