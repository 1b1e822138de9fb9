"""Kernels that nobody can call any more are unloaded; the others stay."""

from __future__ import annotations

import gc
import struct

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu.runtime import compile as compiling
from nbfused.cpu.runtime import objects, pipeline
from nbfused.cpu.runtime.pool import Pool
from nbfused.cpu.text import intrinsics
from nbfused.dispatch import calls, launch_plans

TEXT = """
@inlined
def body(j, y):
    y[j] = {constant}

def kernel(a, begin, end):
    parallel_for(body, begin, end, (f64_pointer(a[0]),))
"""


@pytest.fixture
def engines(monkeypatch):
    """Those that are made from now on, one for each kernel."""
    made, make = [], objects._engine
    monkeypatch.setattr(objects, "_engine", lambda: (made.append(make()), made[-1])[1])
    return made


def closed(engines):
    return [engine.closed for engine in engines]


def test_code_stays_as_long_as_its_entry(engines):
    entry = compiling.build(TEXT.format(constant=1.5))
    out = np.zeros(4)
    for _ in range(3):
        compiling.build(TEXT.format(constant=2.5))
    assert closed(engines) == [False, True, True, False]  # the last: with the next one
    entry(struct.pack("q", out.ctypes.data), 0, 4)
    assert out.tolist() == [1.5]*4
    del entry
    assert closed(engines) == [False, True, True, False]
    compiling.build(TEXT.format(constant=3.5))
    assert closed(engines) == [True]*4 + [False]


def test_code_stays_as_long_as_an_order_to_run_it(engines):
    pool, out = Pool(2), np.zeros(400)
    order, helpers = pool.order(compiling.build(TEXT.format(constant=4.5)), 400, 10)
    for _ in range(2):
        compiling.build(TEXT.format(constant=2.5))
    pool.launch(order + struct.pack("q", out.ctypes.data), helpers)
    assert out.tolist() == [4.5]*400
    del order
    compiling.build(TEXT.format(constant=2.5))
    assert closed(engines)[0]


def test_nothing_of_a_kernels_functions_is_kept_by_numba():
    with config.override(cache_disable=True):
        compiling.build(TEXT.format(constant=0.5))  # the target's own functions
        known = set(pipeline.target().cached_internal_func)
        for k in range(3):
            compiling.build(TEXT.format(constant=f"{k}.75"))
    assert intrinsics._compiled == {}
    assert set(pipeline.target().cached_internal_func) == known


def times(constant):
    return nf.elementwise(lambda x: x*constant)


def test_launchers_of_ops_that_are_gone_are_forgotten(monkeypatch):
    """The last ones are remembered, so that an equal op finds its kernel."""
    monkeypatch.setattr(launch_plans, "KEPT", 4)
    monkeypatch.setattr(launch_plans, "_LAUNCHERS", {})
    x = np.ones(3)
    live = nf.elementwise(lambda x: x + 1234.5)
    live(x)
    for k in range(12):
        constant = k + 0.625
        assert times(constant)(x)[0] == constant
    assert len(launch_plans._LAUNCHERS) == 4
    assert live(x)[0] == 1235.5


def test_what_a_live_op_was_called_with_is_not_forgotten(monkeypatch):
    """Also where so many others came that it is no longer among the last ones."""
    op = nf.elementwise(lambda x: x*3.5 + 7.25)
    layouts = [np.ones(4), np.ones((3, 4))[:, ::2], np.ones((2, 2, 2)).T]
    made, make = [], calls.make_plan
    monkeypatch.setattr(calls, "make_plan", lambda r: (made.append(r), make(r))[1])
    for _ in range(3):
        for x in layouts:
            launch_plans.arguments.cache_clear()
            assert (op(x) == 10.75).all()
    assert len(made) == len(layouts)


def test_an_epilogue_stays_with_its_product():
    """It is called by its address, from other machine code."""
    a = np.ones((64, 64), np.float32)
    product = nf.ops.matmul_add_relu
    wanted = product(a, a, np.ones(64, np.float32))
    gc.collect()
    for k in range(5):  # what is linked unloads what is gone
        compiling.build(TEXT.format(constant=f"{k}.125"))
        assert np.array_equal(product(a, a, np.ones(64, np.float32)), wanted)
