"""Times between events, and whether a graph records, on a driver made of Python."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from nbfused.cuda.runtime import driver as driver_module
from nbfused.cuda.runtime.driver import DriverError
from nbfused.cuda.tuning import timer
from nbfused.errors import AllocationError


@pytest.fixture
def device():
    return SimpleNamespace(current=nullcontext)


class Driver:
    """Events that are numbers, and a clock that launches move."""

    def __init__(self):
        self.now, self.at, self.freed, self.status = 0.0, {}, [], (0, 0)

    CUresult = staticmethod(lambda code: SimpleNamespace(name="INVALID"))

    def cuGetErrorString(self, result):
        return 0, b"a reason"

    def cuStreamIsCapturing(self, stream):
        return self.status

    def cuEventCreate(self, flags):
        self.at[len(self.at)] = None
        return 0, len(self.at) - 1

    def cuEventRecord(self, event, stream):
        self.at[event] = self.now
        return (0,)

    def cuEventElapsedTime(self, begin, end):
        return 0, self.at[end] - self.at[begin]

    def cuMemsetD8Async(self, address, value, size, stream):
        self.now += size
        return (0,)

    def cuEventDestroy(self, event):
        self.freed.append(event)
        return (0,)

    def cuEventSynchronize(self, event):
        return (0,)


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(timer, "cu", lambda: made)
    return made


@contextmanager
def timer_of(driver, room=1 << 30):
    def allocate(size, stream):
        if size > room:
            raise AllocationError("full")
        return 4096

    def free(address, stream):
        driver.freed.append(address)

    where = SimpleNamespace(cache_size=1000, allocate=allocate, free=free)
    with timer.timing(where, 5) as found:
        yield found


@pytest.mark.parametrize("room", [1 << 30, 0])
def test_the_timer_counts_what_is_launched_only(driver, room):
    def launch(milliseconds):
        driver.now += milliseconds

    with timer_of(driver, room) as found:
        assert found.microseconds(launch, 0.25) == 250.0
        assert found.microseconds(launch, 3) == 3000.0
    assert driver.freed == [0, 1, 4096 if room else 0]
    assert driver.now == pytest.approx(3.25 + (8000 if room else 0))


@pytest.mark.parametrize(("status", "capturing"), [
    ((0, 0), False), ((0, 1), True), ((0, 2), True), ((906, None), True)])
def test_whether_a_graph_records(driver, device, status, capturing):
    driver.status = status
    assert timer.is_capturing(device, 0) is capturing


def test_that_question_needs_the_context(driver, device, monkeypatch):
    inside = []

    @contextmanager
    def current():
        inside.append("in")
        yield
        inside.append("out")

    device.current = current
    monkeypatch.setattr(Driver, "cuStreamIsCapturing",
                        lambda self, stream: (0, len(inside) % 2 - 1))
    assert not timer.is_capturing(device, 0)


def test_another_error_is_not_taken_for_a_recording(driver, device, monkeypatch):
    monkeypatch.setattr(driver_module, "cu", lambda: driver)
    driver.status = (201, None)
    with pytest.raises(DriverError, match="INVALID"):
        timer.is_capturing(device, 0)
