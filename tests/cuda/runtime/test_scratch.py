"""Memory of streams: whose it is, when there is none; by a driver that is made up."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from nbfused.cuda.runtime import scratch
from nbfused.cuda.runtime.driver import DriverError
from nbfused.cuda.runtime.scratch import TICKETS, Scratch

NONE, ACTIVE = 0, 1


class Driver:
    """Streams by handle: (number, status of capture)."""

    CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=NONE)

    def __init__(self, streams):
        self.streams, self.zeroed = streams, []

    def cuStreamIsCapturing(self, stream):
        return 0, self.streams[stream][1]

    def cuStreamGetId(self, stream):
        return 0, self.streams[stream][0]

    def cuMemsetD8Async(self, address, value, size, stream):
        assert value == 0
        self.zeroed.append((address, size))
        return (0,)


class Device:
    ordinal = 0

    def __init__(self):
        self.held, self.last = {}, 1 << 20

    @contextmanager
    def current(self):
        yield

    def allocate(self, size, stream):
        self.last += 1 << 28
        self.held[self.last] = size
        return self.last

    def free(self, address, stream):
        del self.held[address]


@pytest.fixture
def driver(monkeypatch):
    made = Driver({7: (70, NONE), 8: (80, NONE), 9: (90, ACTIVE)})
    monkeypatch.setattr(scratch, "cu", lambda: made)
    return made


def test_a_stream_keeps_its_memory(driver):
    kept = Scratch(Device())
    first = kept.find(1000, 7)
    assert kept.find(500, 7) == first
    assert kept.find(1000, 8) != first
    assert kept.find(10, 0) == kept.find(10, 1) != first
    assert driver.zeroed[0] == (first[0], 4*TICKETS)
    assert first[1] == first[0] + 4*TICKETS


def test_the_same_handle_of_another_stream_is_another(driver):
    kept = Scratch(Device())
    first = kept.find(1000, 7)
    driver.streams[7] = (71, NONE)
    assert kept.find(1000, 7) != first


def test_more_memory_takes_the_place_of_less(driver):
    device = Device()
    kept = Scratch(device)
    small, large = kept.find(1000, 7), kept.find(1 << 20, 7)
    assert list(device.held) == [large[0]] != [small[0]]
    assert device.held[large[0]] >= (1 << 20) + 4*TICKETS
    assert len(driver.zeroed) == 2


def test_there_is_none_while_a_stream_is_captured(driver):
    kept = Scratch(Device())
    assert kept.find(1000, 9) is None
    driver.streams[9] = (90, NONE)
    assert kept.find(1000, 9) is not None


def test_there_is_none_for_too_much_or_too_many(driver, monkeypatch):
    kept = Scratch(Device())
    assert kept.find(1 << 30, 7) is None
    monkeypatch.setattr(scratch, "_MOST_STREAMS", 1)
    assert kept.find(1000, 7) is not None
    assert kept.find(1000, 8) is None
    assert kept.find(2000, 7) is not None


@pytest.mark.parametrize("wrong", [AttributeError("cuStreamGetId"),
                                   DriverError("not found", 500)])
def test_an_old_driver_knows_no_streams(driver, monkeypatch, wrong):
    def missing(stream):
        raise wrong

    monkeypatch.setattr(driver, "cuStreamGetId", missing)
    kept = Scratch(Device())
    assert kept.find(1000, 7) is None
    assert kept.find(1000, 0) is not None
