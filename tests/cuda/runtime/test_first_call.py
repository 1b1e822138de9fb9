"""A device starts in one thread while another one imports."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace

import pytest

from nbfused.cuda.backend import CudaBackend
from nbfused.cuda.runtime import first_call as starting


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(starting, "_STARTED", set())
    monkeypatch.setattr(starting, "_import", lambda: None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())


def library(refused=()):
    calls = []

    def call(name):
        def function(*args):
            calls.append((name, threading.current_thread().name))
            return 100 if name in refused else 0
        return function

    names = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain")
    return calls, SimpleNamespace(**{name: call(name) for name in names})


def test_each_device_starts_once(monkeypatch):
    calls, driver = library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    here, meanwhile = threading.current_thread().name, []
    backend = CudaBackend()
    for device in ("cuda:1", "cuda:1", "cuda:0"):
        backend.start(device, lambda: meanwhile.append(
            threading.current_thread().name))
    assert meanwhile == [here, here]
    assert [name for name, _ in calls] == 2*[
        "cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]
    assert here not in {thread for _, thread in calls}


def test_they_run_at_the_same_time(monkeypatch):
    begun, imported = threading.Event(), threading.Event()

    def retain(library, ordinal):
        begun.set()
        assert imported.wait(10)

    def meanwhile():
        assert begun.wait(10)
        imported.set()

    monkeypatch.setattr(starting, "_retain", retain)
    starting.start(0, meanwhile)
    assert imported.is_set()


@pytest.mark.parametrize("refused", ["cuInit", "cuDeviceGet",
                                     "cuDevicePrimaryCtxRetain"])
def test_errors_are_left_to_others(monkeypatch, refused):
    calls, driver = library({refused})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    starting.start(0, lambda: None)
    assert calls[-1][0] == refused


def test_without_a_driver(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    done = []
    starting.start(0, lambda: done.append(True))
    assert done == [True]


def test_an_import_that_fails(monkeypatch):
    """It is the caller's; the other thread is waited for."""
    ended = []
    monkeypatch.setattr(starting, "_retain", lambda library, k: ended.append(k))

    def fails():
        raise ImportError("broken")

    with pytest.raises(ImportError, match="broken"):
        starting.start(3, fails)
    assert ended == [3]
