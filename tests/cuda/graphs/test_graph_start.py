"""Graphs launched with their arguments by machine code, on a driver of ctypes."""

from __future__ import annotations

import ctypes
import math
import struct

import pytest

from nbfused.cuda.graphs.graph_start import ELSEWHERE, Fill, GraphStart, Shown
from nbfused.cuda.runtime.machine_code import is_possible

pytestmark = pytest.mark.skipif(
    not is_possible(), reason="made for CPython on Linux and x86-64")

SHOW = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p]*3)
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p]*2)
TELL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
CONTEXT = 2**62 + 5


@pytest.fixture(autouse=True)
def compiler():
    import llvmlite.binding  # noqa: F401 - it makes the code, if it is there


class Driver:
    """Remembers what it was shown and asked to launch; `refused` is a handle."""

    def __init__(self, *nodes, addresses):
        self.seen, self.refused, self.context = [], None, CONTEXT
        self.functions = SHOW(self.show), LAUNCH(self.launch), TELL(self.tell)
        self.start = GraphStart(
            tuple([ctypes.cast(f, ctypes.c_void_p).value for f in self.functions]),
            77, 2**63 + 9, CONTEXT, nodes, addresses)
        assert self.start.possible

    def show(self, instance, handle, params):
        self.seen.append((instance, handle, params))
        return 700 if handle == self.refused else 0

    def launch(self, instance, stream):
        self.seen.append((instance, stream))
        return 0

    def tell(self, place):
        place[0] = self.context
        return 0

    def shown(self):
        """The nodes shown since the last question; the graph was launched then."""
        *nodes, last = self.seen
        assert last == (77, 2**63 + 9)
        self.seen = []
        return [handle for _, handle, _ in nodes]


def words(count):
    memory = (ctypes.c_uint64*count)()
    return memory, [ctypes.addressof(memory) + 8*k for k in range(count)]


def test_what_differs_is_written_and_shown():
    memory, at = words(5)
    driver = Driver(
        Shown(11, 900, (Fill(at[0], "*", 1, 16), Fill(at[1], "float32", 2))),
        Shown(12, 901, (Fill(at[2], "*", 0, -8), Fill(at[3], "*", 1))),
        Shown(13, 902, (Fill(at[4], "float64", 0),)), addresses=2)
    assert driver.start((4096, 2**63 + 4), (0.25, "unused", 1/3)) == 0
    assert driver.shown() == [11, 12, 13]
    expected = struct.pack("=Qf4xQQd", 2**63 + 20, 1/3, 4088, 2**63 + 4, 0.25)
    assert bytes(memory) == expected
    assert driver.start((4096, 2**63 + 4), (0.25, None, 1/3)) == 0
    assert driver.shown() == []
    driver.start((4104, 2**63 + 4), (0.25, None, 1/3))
    assert driver.shown() == [12]
    driver.start((4104, 2**63 + 4), (0.5, None, 1/3))
    assert driver.shown() == [13]
    driver.start((4104, 8), (0.5, None, 1/5))
    assert driver.shown() == [11, 12]
    assert bytes(memory) == struct.pack("=Qf4xQQd", 24, 1/5, 4096, 8, 0.5)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300, 0.1, True, 7, 1e-46])
def test_numbers_are_rounded_as_ctypes_does(value):
    memory, at = words(1)
    driver = Driver(Shown(1, 2, (Fill(at[0], "float32", 0),)), addresses=0)
    driver.start((), (value,))
    assert bytes(memory)[:4] == bytes(ctypes.c_float(value))


def test_numbers_of_other_bits_are_shown():
    memory, at = words(2)
    driver = Driver(Shown(1, 2, (Fill(at[0], "float32", 0), Fill(at[1], "float64", 0))),
                    addresses=0)
    for value, shown in ((0.0, []), (-0.0, [1]), (-0.0, []), (math.nan, [1]),
                         (math.nan, [])):
        driver.start((), (value,))
        assert driver.shown() == shown
    assert math.isnan(struct.unpack_from("=f", memory)[0])


@pytest.mark.parametrize("number", [1j, "x", None, 10**400])
def test_numbers_that_are_no_floats_are_left_to_python(number):
    memory, at = words(1)
    driver = Driver(Shown(1, 2, (Fill(at[0], "float64", 0),)), addresses=1)
    assert driver.start((1,), (number,)) is None
    assert driver.seen == []
    assert not any(memory)


def test_a_refused_node_is_reported_and_nothing_launched():
    _, at = words(2)
    driver = Driver(Shown(1, 2, (Fill(at[0], "*", 0),)),
                    Shown(3, 4, (Fill(at[1], "*", 0),)), addresses=1)
    driver.refused = 3
    assert driver.start((64,), ()) == 700
    assert [seen[1] for seen in driver.seen] == [1, 3]


@pytest.mark.parametrize("context", [None, CONTEXT + 1])
def test_nothing_is_done_in_another_context(context):
    memory, at = words(1)
    driver = Driver(Shown(1, 2, (Fill(at[0], "*", 0),)), addresses=1)
    driver.context = context
    assert driver.start((64,), ()) == ELSEWHERE
    assert driver.seen == []
    assert not any(memory)
    driver.context = CONTEXT
    assert driver.start((64,), ()) == 0
    assert driver.shown() == [1]
