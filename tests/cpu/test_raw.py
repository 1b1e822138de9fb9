"""Kernels of threads on the CPU: their text, their pieces, hand-written functions."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.backend import Call, Signature
from nbfused.cpu import CpuBackend
from nbfused.cpu.raw import launcher as raw
from nbfused.cpu.runtime.pool import POOL
from nbfused.errors import BarrierError
from nbfused.scalar.ir.build import Builder
from nbfused.scalar.ir.nodes import Block, For, Function, If, Let, While, literal
from nbfused.scalar.ir.uniform import uniform_names
from nbfused.scalar.typing.types import Weak
from nbfused.specs import Raw

F8, I8 = np.dtype("float64"), np.dtype("int64")


class Kernel(Builder):
    """A kernel under construction; `line` numbers its effects."""

    def act(self, op, *args, attr=None):
        self.line += 1
        self.statements.append(Let((), op, args, attr, self.line))

    def position(self, word="threadIdx.x"):
        return self.let("thread", attr=word)

    def build(self, *params, arrays=2):
        function = Function("kernel", params, Block(tuple(self.statements), ()))
        kinds = ("array",)*arrays + ("scalar",)*(len(params) - arrays)
        types = (F8,)*arrays + (Weak("int"),)*(len(params) - arrays)
        signature = Signature(types, (), (), ("c1",)*arrays)
        return CpuBackend().build(Raw(function, kinds), signature)


def call(*arrays, scalars=(), grid=1, block=1):
    return Call((), tuple(a.ctypes.data for a in arrays), ((1,),)*len(arrays), scalars,
                extents=tuple(a.shape for a in arrays), grid=(grid, 1, 1),
                block=(block, 1, 1))


def doubled():
    b = Kernel({"x", "y", "n"})
    i = b.let("add", b.let("mul", b.position("blockIdx.x"), b.position("blockDim.x")),
              b.position())
    with b.region() as then:
        b.act("store", "y", i, b.let("mul", b.let("load", "x", i), literal(2)))
    b.statements.append(If((), b.let("lt", i, "n"), Block(tuple(then), ()),
                           Block((), ())))
    return b.build("x", "y", "n")


def test_threads_beyond_the_end_do_nothing():
    x, y = np.arange(100.0), np.zeros(128)
    doubled()(call(x, y, scalars=(100,), grid=4, block=32))
    np.testing.assert_array_equal(y, [*2*x, *[0]*28])


@pytest.mark.parametrize(("blocks", "threads", "pieces"), [
    (1, 1024, 1), (63, 32, 1), (64, 32, POOL.threads*4), (10**6, 1, POOL.threads*4)])
def test_blocks_are_shared_out_where_it_pays(blocks, threads, pieces):
    found = -(-blocks // raw._step(blocks, threads))
    assert found <= pieces if POOL.threads > 1 else found == 1
    assert (found > 1) == (pieces > 1 and POOL.threads > 1)


def test_every_block_has_memory_of_its_own():
    b = Kernel({"x", "y"})
    t, block = b.position(), b.position("blockIdx.x")
    place = b.let("add", b.let("mul", block, b.position("blockDim.x")), t)
    shared = b.let("shared", literal(8), attr="float64", stem="shared")
    b.act("store", shared, t, b.let("load", "x", place))
    b.act("barrier", attr="block")
    b.act("store", "y", place, b.let("load", shared, b.let("sub", literal(7), t)))
    x, y = np.arange(80_000.0), np.zeros(80_000)
    kernel = b.build("x", "y")
    kernel(call(x, y, grid=10_000, block=8))
    np.testing.assert_array_equal(y, x.reshape(-1, 8)[:, ::-1].ravel())
    assert kernel.attributes()["shared_size_bytes"] == 64


def test_the_line_of_a_barrier_is_in_the_error():
    b = Kernel({"x", "y"})
    with b.region() as then:
        b.line = 41
        b.act("barrier", attr="block")
    b.statements.append(If((), b.let("lt", b.position(), literal(3)),
                           Block(tuple(then), ()), Block((), ())))
    b.act("store", "y", literal(0), literal(1.0))
    kernel = b.build("x", "y")
    with pytest.raises(BarrierError, match="line 42"):
        kernel(call(np.zeros(8), np.zeros(8), block=4))
    kernel(call(np.zeros(8), np.zeros(8), block=3))


def test_a_barrier_of_a_warp_holds_nobody_up():
    b = Kernel({"x", "y"})
    t = b.position()
    with b.region() as then:
        b.act("barrier", attr="warp")
        b.act("store", "y", t, literal(1.0))
    b.statements.append(If((), b.let("lt", t, literal(3)), Block(tuple(then), ()),
                           Block((), ())))
    b.act("store", "x", t, literal(2.0))
    x, y = np.zeros(8), np.zeros(8)
    b.build("x", "y")(call(x, y, block=8))
    np.testing.assert_array_equal(y, [1]*3 + [0]*5)
    np.testing.assert_array_equal(x, [2]*8)


def test_a_result_of_a_branch_around_a_barrier():
    """Each side yields a value of its own; the count of the loop is loaded."""
    b = Kernel({"x", "y"})
    t = b.position()
    with b.region() as then:
        b.act("barrier", attr="block")
        v = b.let("add", t, literal(10))
    with b.region() as orelse:
        b.act("barrier", attr="block")
        w = b.let("add", t, literal(20))
    (r,) = b.branch(b.let("gt", b.let("load", "x", literal(0)), literal(0)),
                    Block(tuple(then), (v,)), Block(tuple(orelse), (w,)), ("r",))
    with b.region() as body:
        b.act("barrier", attr="block")
        step = b.let("add", "p", "k")
    count = b.let("cast", b.let("load", "x", literal(1)), attr="int64")
    b.statements.append(For(("out",), "k", count, ("p",), (r,),
                            Block(tuple(body), (step,))))
    b.act("store", "y", t, "out")
    kernel, y = b.build("x", "y"), np.zeros(4)
    for first, start in ((1.0, 10), (-1.0, 20)):
        kernel(call(np.array([first, 4.0]), y, block=4))
        np.testing.assert_array_equal(y, start + np.arange(4) + 6)


def uniform(build):
    b = Builder({"t", "n", "x"})
    build(b)
    return uniform_names(Block(tuple(b.statements), ()), {"n"})


def test_uniform_is_what_depends_on_uniform_values():
    names = uniform(lambda b: (b.let("add", "n", literal(1), stem="a"),
                               b.let("add", "n", "t", stem="b"),
                               b.let("load", "x", "n", stem="c"),
                               b.let("mul", "a_1", "a_1", stem="d")))
    assert names == {"n", "a_1", "d_1"}


def test_what_a_loop_carries_is_uniform_if_nothing_contradicts():
    def loop(b, added, condition):
        with b.region() as body:
            b.let("floordiv", "p", literal(2), stem="half")
            b.let("add", "q", added, stem="sum")
        with b.region() as head:
            b.let("gt", condition, literal(0), stem="on")
        b.statements.append(While(
            ("r", "s"), ("p", "q"), ("n", literal(0)), Block(tuple(head), ("on_1",)),
            Block(tuple(body), ("half_1", "sum_1"))))

    assert {"p", "q", "r", "s"} <= uniform(lambda b: loop(b, "n", "p"))
    found = uniform(lambda b: loop(b, "t", "p"))
    assert {"p", "r"} <= found
    assert not {"q", "s", "sum_1"} & found
    assert not {"p", "q", "r", "s"} & uniform(lambda b: loop(b, "t", "q"))
