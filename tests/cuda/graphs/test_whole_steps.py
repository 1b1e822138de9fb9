"""Steps of whole programs on a device that is not there: each is one graph."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch
from weakref import finalize

import numpy as np
import pytest

import nbfused as nf
from benchmarks.programs import ways
from benchmarks.programs.programs import PROGRAMS
from nbfused.arrays.libraries.numpy import NumpyLibrary
from nbfused.cuda.graphs import sequence, workspaces
from nbfused.cuda.graphs.graph_start import ELSEWHERE
from nbfused.cuda.runtime.driver import DriverError
from nbfused.cuda.runtime.launch import Program
from nbfused.errors import AllocationError
from tests.cuda.recorded import NoDevice, recording


class Written:
    """A graph that is written down; nothing runs."""

    made: list[Written] = []  # noqa: RUF012

    def __init__(self, nodes):
        self.nodes, self.launches = nodes, []
        Written.made.append(self)

    def launch(self, stream):
        """Note how many nodes the driver would be shown."""
        self.launches.append(sum(n.changed for n in self.nodes))
        for node in self.nodes:
            node.changed = False

    def start(self, stream, context, addresses):
        """No machine code."""


class Pool:
    """Allocates arrays that give freed memory again, as a device's pool does.

    The C library gives any, by what other tests have left.
    """

    def __init__(self):
        self._free = defaultdict(list)
        self.arenas = 0

    def empty(self, shape, dtype, device):
        """Allocate a NumPy array."""
        self.arenas += dtype == np.uint8
        size = int(np.prod(shape))*np.dtype(dtype).itemsize
        free = self._free[size]
        memory = free.pop() if free else bytearray(size)
        array = np.ndarray(shape, dtype, memory)
        finalize(array, free.append, memory)
        return array

    def maker(self, *described):
        """A function that allocates NumPy arrays."""
        return partial(self.empty, *described)


@pytest.fixture
def pool():
    """What arrays are allocated by."""
    return Pool()


@pytest.fixture
def graphs(pool):
    """The graphs that are made."""
    Written.made.clear()
    stand_ins = ((NumpyLibrary, "empty", pool.empty),
                 (NumpyLibrary, "maker", pool.maker),
                 (sequence, "Graph", Written),
                 (sequence, "is_captured", lambda stream: False),
                 (Program, "function", lambda *given: 1),
                 (workspaces, "check", lambda code: code),
                 (workspaces, "cu", lambda: SimpleNamespace(
                     cuMemsetD8Async=lambda *given: None)))
    with ExitStack() as stack, recording():
        for target, name, stand_in in stand_ins:
            stack.enter_context(patch.object(target, name, stand_in))
        yield Written.made


@pytest.mark.parametrize("most", [64 << 20, 0], ids=["kept", "lent"])
@pytest.mark.parametrize("program", PROGRAMS["cpu"], ids=lambda p: p.name)
def test_a_program_is_one_graph(program, most, graphs, monkeypatch):
    """Embeddings, whose gradients are added to zeros, among them."""
    monkeypatch.setattr(workspaces, "_MOST_BYTES", most)
    step = ways.plan(program, "cpu")
    for _ in range(5):
        step()
    if program.name.startswith("swish"):  # of one launch
        assert graphs == []
        return
    (graph,) = graphs
    assert len(graph.launches) == 3
    first, second, third = graph.launches
    assert first == len(graph.nodes)
    assert third == second < first  # results move, and little else


@pytest.mark.parametrize("kept", [sequence.KEPT, 1024])
def test_a_small_arena_belongs_to_the_graph(kept, graphs, pool, monkeypatch):
    monkeypatch.setattr(sequence, "KEPT", kept)
    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    step = ways.plan(program, "cpu")
    for _ in range(5):
        step()
    (graph,) = graphs
    assert len(graph.launches) == 3
    assert pool.arenas == (0 if kept == sequence.KEPT > 1024 else 3)


def test_beyond_what_all_graphs_may_keep_each_run_has_an_arena_of_its_own(
        graphs, pool, monkeypatch):
    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    monkeypatch.setattr(workspaces, "ARENAS", 0)
    step = ways.plan(program, "cpu")
    for _ in range(5):
        step()
    (graph,) = graphs
    assert (len(graph.launches), pool.arenas) == (3, 3)


def test_an_arena_is_lent_where_others_have_come_before(graphs, pool, monkeypatch):
    """There was room when the plan was made, and none when it ran first."""
    lent = []

    @contextmanager
    def workspace(self, size, stream):
        lent.append(size)
        yield 1 << 22

    monkeypatch.setattr(NoDevice, "workspace", workspace)
    monkeypatch.setattr(workspaces._KeptArenas, "add", lambda *given: False)
    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    step = ways.plan(program, "cpu")
    for _ in range(5):
        step()
    (graph,) = graphs
    assert (len(graph.launches), pool.arenas, len(lent)) == (3, 0, 3)


def test_a_device_without_room_leaves_the_arena_to_the_library(
        graphs, pool, monkeypatch):
    """A library may hold what memory there is; the next run asks again."""
    def allocate(self, *given):
        raise AllocationError("no room")

    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    step = ways.plan(program, "cpu")
    with monkeypatch.context() as full:
        full.setattr(NoDevice, "allocate", allocate)
        full.setattr(Program, "launch", lambda *given: None)
        for _ in range(4):
            step()
    assert (pool.arenas, graphs) == (2, [])
    step()
    (graph,) = graphs
    assert (pool.arenas, len(graph.launches)) == (2, 1)


@pytest.fixture
def started(graphs, monkeypatch):
    """What machine code says, and the addresses that it was given."""
    said, given = [], []
    monkeypatch.setattr(Written, "start", lambda *_: lambda addresses, numbers: (
        given.append(addresses), said.pop(0))[1])
    monkeypatch.setattr("nbfused.cuda.runtime.driver.cu", lambda: SimpleNamespace(
        CUresult=lambda code: SimpleNamespace(name=f"CUDA_ERROR_{code}"),
        cuGetErrorString=lambda code: (1, b"")))
    return said, given


def test_nodes_are_shown_anew_after_an_error(graphs, started):
    """Machine code has written what it may not have shown, and would not show again."""
    said, given = started
    said += 0, 0, 999
    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    step = ways.plan(program, "cpu")
    for _ in range(4):
        step()
    (graph,) = graphs
    assert graph.launches == []
    with pytest.raises(DriverError, match="999"):
        step()
    assert len(given) == 3
    assert all(node.changed for node in graph.nodes)
    step()
    assert graph.launches == [len(graph.nodes)]


def test_another_context_is_no_error(graphs, started):
    said, given = started
    said += 0, ELSEWHERE, 0, 0
    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    step = ways.plan(program, "cpu")
    for _ in range(5):
        step()
    (graph,) = graphs
    assert (said, graph.launches, len(given)) == ([], [], 4)


def test_launches_one_by_one_have_an_arena_of_their_own(graphs, pool, monkeypatch):
    """As on a stream that is captured."""
    monkeypatch.setattr(sequence, "is_captured", lambda stream: True)
    monkeypatch.setattr(sequence, "_DEFAULT", ())
    monkeypatch.setattr(Program, "launch", lambda *given: None)
    program = next(p for p in PROGRAMS["cpu"] if p.name == "mlp 16x32x32x10")
    step = ways.plan(program, "cpu")
    for _ in range(5):
        step()
    assert graphs == []
    assert pool.arenas == 3


def test_numbers_of_products_with_epilogues_are_shown_without_a_new_note(
        graphs, monkeypatch):
    """Tensor maps stay as they are where only numbers change."""
    noted = []
    own = sequence._Part._noted
    monkeypatch.setattr(sequence._Part, "_noted", lambda self, *given: (
        noted.append(self), own(self, *given))[1])
    fused = nf.fuse(lambda x, y, n: (nf.ops.matmul(x, y)*n, nf.ops.softmax(x)))
    x, y = np.ones((256, 512), np.float16), np.ones((512, 256), np.float16)
    for k in range(6):
        fused(x, y, 0.5 + k)
        if k == 2:
            parts = list(noted)
            assert any(part.opaque for part in parts)
    assert noted == parts
    (graph,) = graphs
    assert graph.launches[1:] == [1, 1, 1]
