"""Small kernels as one: texts run by Python, and what the compiler says of them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

import nbfused as nf
from nbfused.cuda.graphs import beside as module
from nbfused.cuda.graphs.beside import beside, is_small
from nbfused.cuda.runtime import launch
from nbfused.cuda.runtime.compile import Kernel
from nbfused.cuda.runtime.launch import Program
from nbfused.cuda.runtime.notes import Launched
from tests.cuda.recorded import PTXAS, assembled, needs_compiler, recording, registers
from tests.variants import sampled

THREADS = 4
#: Each has a function of its own, and both call it by one name.
SCALE = """\
def repeated0(x0, x1):
    n0 = x0*x1
    return n0
def scale(p0, n0, a0):
    block = i64(cuda.blockIdx.x)
    index = block*4 + i64(cuda.threadIdx.x)
    block = n0
    if index < block:
        p0[index] = repeated0(p0[index], a0)
"""
COUNT = """\
def repeated0(x0, x1):
    return x0 + x1
def count(p0, p1, n0):
    for k in range(2):
        at = i64(cuda.blockIdx.x)*8 + k*4 + i64(cuda.threadIdx.x)
        while at < n0:
            p1[at] = repeated0(p0[at], cuda.blockIdx.x)
            at += n0
"""
PROGRAMS = {name: Program(Kernel(name, text, parameters, THREADS, blocks))
            for name, text, parameters, blocks in (
                ("scale", SCALE, ("*float64", "int64", "float64"), 8),
                ("count", COUNT, ("*float64", "*float64", "int64"), 4))}


def launched(name, blocks, *values, **changed):
    kept = {"program": PROGRAMS[name], "grid": (blocks, 1, 1), "shared": 0,
            "block": (THREADS, 1, 1), "values": values}
    return Launched(**{**kept, **changed})


def run(one):
    """Each thread of each block, one after the other."""
    kernel = one.program.kernel
    assert len(kernel.parameters) == len(one.values)
    cuda = SimpleNamespace()
    names = {"cuda": cuda, "i64": int}
    exec(compile(kernel.text, kernel.name, "exec"), names)
    for block in range(one.grid[0]):
        for thread in range(one.block[0]):
            cuda.blockIdx, cuda.threadIdx = (SimpleNamespace(x=k)
                                             for k in (block, thread))
            names[kernel.name](*one.values)


def some(kinds, seed=0):
    """Launches with arrays of their own."""
    rng, made = np.random.default_rng(seed), []
    for name in kinds:
        n = int(rng.integers(1, 30))
        x, y = rng.normal(size=n), np.zeros(n)
        made.append(launched("scale", -(-n//4), x, n, float(rng.normal()))
                    if name == "scale" else launched("count", -(-n//8), x, y, n))
    return made


@pytest.mark.parametrize("kinds", [
    ("scale",), ("scale", "count"), ("scale", "scale"), ("count", "scale", "count"),
    ("scale", "count", "scale", "scale", "count"), ("count",)*7])
def test_one_kernel_does_what_the_others_did(kinds):
    apart, together = some(kinds), some(kinds)
    for one in apart:
        run(one)
    joined = beside(together)
    assert joined.grid[0] == sum(one.grid[0] for one in apart)
    run(joined)
    for a, b in zip(apart, together, strict=True):
        for x, y in zip(a.values, b.values, strict=True):
            np.testing.assert_array_equal(x, y)


def test_kernels_of_one_text_share_it():
    text = beside(some(("scale",)*5)).program.kernel.text
    assert text.count("cuda.threadIdx") == 1
    assert beside(some(("scale", "count"))).program is \
        beside(some(("scale", "count"), seed=1)).program
    assert beside(some(("scale", "count"))).program.kernel.blocks == 4


def test_what_would_be_too_long(monkeypatch):
    monkeypatch.setattr(module, "_LINES", 10)
    module._program.cache_clear()
    assert beside(some(("scale", "count", "scale"), seed=3)) is None
    module._program.cache_clear()


EARLY = Program(Kernel("early", "def early(p0):\n    if p0[0] > 0:\n        return\n",
                       ("*float64",), THREADS))
GRID = Program(Kernel("grid", "def grid(p0):\n    p0[0] = cuda.gridDim.x\n",
                      ("*float64",), THREADS))
CLUSTER = Program(Kernel("scale", SCALE, (), THREADS, cluster=2))


def test_small_kernels():
    one = launched("scale", 3, None, 9, 1.0)
    assert is_small(one, 1)
    for changed in ({"grid": (9, 1, 1)}, {"grid": (1, 2, 1)}, {"shared": 64},
                    {"block": (2, 2, 1)}, {"program": EARLY}, {"program": GRID},
                    {"program": CLUSTER}):
        assert not is_small(launched("scale", 3, None, 9, 1.0, **changed), 2), changed


# --- kernels of a training step


def _step(parameters, moments, gradients, rate, count):
    norm = np.sqrt(sum((g*g).sum() for g in gradients))
    factor = np.minimum(1.0, 1.0/norm)
    for p, g, (m, v) in zip(parameters, gradients, moments, strict=True):
        nf.ops.adam_step(p, g*factor, m, v, lr=rate, step=count)


@pytest.fixture(scope="module")
def launches():
    """What clipping and Adam of a tree of parameters launch."""
    found = []

    def note(self, device, stream, blocks, values, shared=0, block=None):
        grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
        found.append(Launched(self, grid, block or (self.kernel.threads, 1, 1),
                              tuple(values), shared))

    shapes = ((64, 256), (256,), (256, 256), (256, 10), (10,))
    arrays = [[np.ones(s, np.float32) for s in shapes] for _ in range(4)]
    with recording(), patch.object(launch.Program, "launch", note):
        fused = nf.fuse(_step)
        for count in (1, 2):
            found.clear()  # what is compiled before the first call is noted, too
            fused(arrays[0], list(zip(*arrays[1:3], strict=True)), arrays[3], 1e-3,
                  count)
    return found


def test_clipping_and_adam_are_small(launches):
    kinds = [re.search("map|reduce", one.program.kernel.name)[0] for one in launches]
    assert kinds.count("map") >= 6
    assert kinds.count("reduce") >= 5
    assert all(is_small(one, 132) for one in launches)


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
@pytest.mark.parametrize("kind", sampled(["map", "reduce"], "map"))
def test_kernels_compile_and_take_no_more_registers(launches, kind):
    needs_compiler()
    chosen = [one for one in launches if kind in one.program.kernel.name]
    if kind == "map":
        chosen = chosen[1:]  # the factor is what these wait for
    apart = {}
    for one in chosen:
        kernel = one.program.kernel
        apart.setdefault(kernel.name + kernel.text, registers(assembled(kernel)[1])[0])
    used, spilled = registers(assembled(beside(chosen).program.kernel)[1])
    assert spilled == 0
    assert used <= max(apart.values()) + 16
