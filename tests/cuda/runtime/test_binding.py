"""What is kept of a launcher's decisions, and what is not."""

from __future__ import annotations

from operator import index

import numpy as np
import pytest

from nbfused import ops
from nbfused.backend import Call, NumberOf
from nbfused.cuda import CudaBackend
from nbfused.cuda.contract.launcher import ContractLauncher
from nbfused.cuda.runtime import binding as bound
from nbfused.cuda.runtime import scratch
from nbfused.cuda.runtime.binding import Bindable
from nbfused.cuda.runtime.compile import Kernel
from nbfused.cuda.runtime.launch import Program
from nbfused.cuda.runtime.notes import NOTES, Launched
from tests.cuda.recorded import NoDevice, recording


@pytest.fixture
def kept(monkeypatch):
    """The launches that are kept, instead of a device."""
    found = []
    monkeypatch.setattr(bound, "device", lambda number: number)
    monkeypatch.setattr(Program, "bind", lambda self, device, noted: found.append(
        noted) or "start")
    return found


def program(*parameters):
    return Program(Kernel("k", "def k(): pass\n", parameters, 128))


BIND, LAUNCH = Bindable.bind, Program.launch
CALL = Call((10,), (16, 32), ((1,), (1,)), (2.5, 3))
USUAL = ("*float32", "*float32", "int64", "float32", "int64")


def test_a_launch_with_the_calls_own_pointers_is_kept(kept):
    kernel = program(*USUAL)

    def decide(call):
        assert [p % 32 for p in call.pointers] == [16, 0]
        kernel.launch(None, call.stream, 7, (*call.pointers, 10, *call.scalars), 64)

    assert Bindable(decide).bind(CALL) == "start"
    assert kept == [Launched(kernel, (7, 1, 1), (128, 1, 1),
                             (16, 32, 10, NumberOf(0), NumberOf(1)), 64)]
    assert NOTES.get() is None


@pytest.mark.parametrize("values", [
    lambda p, n: (p[0], p[1]*2, 10, *n),  # a pointer that was computed
    lambda p, n: (p[0], p[0] + p[1], 10, *n),
    lambda p, n: (p[0], int(p[1]), 10, *n),
    lambda p, n: (p[0], p[1], p[0], *n),
    lambda p, n: (p[0], p[1], 10, n[0] * 2, n[1]),  # a number that was
    lambda p, n: (p[0], p[1], 10, 2.5, b"descriptor"),
])
def test_what_is_computed_from_the_call_is_decided_anew(kept, values):
    kernel = program(*USUAL)
    launcher = Bindable(lambda call: kernel.launch(
        None, 0, 1, values(call.pointers, call.scalars)))
    assert launcher.bind(CALL) is None
    assert kept == []
    assert NOTES.get() is None


def test_places_so_many_bytes_from_the_calls_pointers_are_kept(monkeypatch):
    started = []
    monkeypatch.setattr(bound, "device", lambda number: number)
    monkeypatch.setattr(Program, "bind", lambda self, device, noted: (
        lambda *call: started.append(call)))
    kernel = program("*float32", "*float32", "*float32", "int64")
    start = Bindable(lambda call: kernel.launch(None, 0, 1, (
        call.pointers[1] + 4, call.pointers[0], 8 + call.pointers[1] + 4, 10))).bind(
            CALL)
    start((1000, 2000), (), 7)
    assert started == [((2004, 1000, 2012), (), 7)]


def test_several_launches_are_decided_anew(kept):
    kernel = program(*USUAL)

    def twice(call):
        for _ in range(2):
            kernel.launch(None, 0, 1, (*call.pointers, 10, *call.scalars))

    assert Bindable(twice).bind(CALL) is None
    assert Bindable(lambda call: None).bind(CALL) is None


def test_workspaces_are_not_pointers_of_the_call(kept):
    kernel = program("*float32", "*float32", "*float32")
    launcher = Bindable(lambda call: kernel.launch(None, 0, 1, (*call.pointers, 4096)))
    assert launcher.bind(CALL) is None


def test_other_errors_are_raised(kept):
    def broken(call):
        raise ValueError("no kernel")

    with pytest.raises(ValueError, match="no kernel"):
        Bindable(broken).bind(CALL)
    assert NOTES.get() is None


def test_a_plain_call_goes_to_the_launcher():
    calls = []
    Bindable(calls.append)(CALL)
    assert calls == [CALL]
    assert NOTES.get() is None


def test_a_reduction_in_chunks_is_bound_without_memory(monkeypatch):
    """The stream that it goes to may be captured; the default one must stay alone."""
    asked, plain = [], Bindable.bind

    def find(self, size, stream):
        asked.append(isinstance(stream, int))
        return int(stream), 1 << 21

    with recording(), monkeypatch.context() as patch:
        patch.setattr(Bindable, "bind", plain)
        patch.setattr(scratch.Scratch, "find", find)
        ops.sum(np.zeros(1 << 22, np.float32))
    assert asked == [True, False]


@pytest.mark.parametrize(("shape", "starts"), [
    ((64, 256, 256), True), ((64, 256, 10), True), ((7, 5, 3), True),
    ((2, 1 << 16, 2), False),  # k in parts, whose sums lie in memory of their own
    ((4096, 4096, 4096), False)])  # by TMA, which is told addresses
def test_products_by_one_kernel_are_bound(kept, monkeypatch, shape, starts):
    m, k, n = shape
    asked, found = [], []
    arrays = [np.empty(s, np.float32) for s in ((m, k), (k, n), (n,))]
    with recording(), monkeypatch.context() as patch:
        whole = CudaBackend.build
        patch.setattr(CudaBackend, "build", lambda self, *how: found.append(
            whole(self, *how)) or found[-1])
        patch.setattr(ContractLauncher, "bind", lambda self, call: asked.append(call))
        ops.linear(*arrays)
    with recording(), monkeypatch.context() as patch:
        patch.setattr(Bindable, "bind", BIND)
        patch.setattr(Program, "launch", LAUNCH)
        patch.setattr(NoDevice, "workspace", lambda self, size, stream: index(stream))
        bound = found[0].bind(asked[0])
    assert (bound is not None) == starts == bool(kept)
    for launched in kept:
        assert [v.index for v in launched.values[:launched.pointers]] == [0, 1, 2, 3]
