"""The built-in function that launches, on a driver that is a function of ctypes."""

from __future__ import annotations

import ctypes
import gc
import math
import struct
import sys
import threading
import weakref

import pytest

from nbfused import cache
from nbfused.cuda.runtime import fast_launch
from nbfused.cuda.runtime.fast_launch import MOST_WORDS, fast_start
from nbfused.cuda.runtime.machine_code import is_possible

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p]*4)
CONFIGURATION = struct.pack("=7I4xQQI4x", 3, 1, 1, 128, 1, 1, 512, 99, 0, 0)

pytestmark = pytest.mark.skipif(
    not is_possible(), reason="made for CPython on Linux and x86-64")


class Driver:
    """Remembers what it was asked to launch; `code` is what it says."""

    def __init__(self, count):
        self.count, self.code, self.seen, self.again = count, 0, [], []
        self.function = LAUNCH(self.launch)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def launch(self, configuration, kernel, table, extra):
        words = (ctypes.c_void_p*self.count).from_address(table)
        self.seen.append((struct.unpack("=7I4xQQI4x",
                                        ctypes.string_at(configuration, 56)), kernel,
                          b"".join(ctypes.string_at(p, 8) for p in words), extra))
        return self.code

    def otherwise(self, *args):
        self.again.append(args)
        return "otherwise"


@pytest.fixture(autouse=True)
def compiler():
    import llvmlite.binding  # noqa: F401 - it makes the code, if it is there


def starter(words, numbers=(), pointers=2):
    driver = Driver(len(words)//8)
    start = fast_start(driver.otherwise, driver.address, 1234, pointers, words, numbers,
                       CONFIGURATION)
    assert start is not None
    return driver, start


def test_what_the_driver_is_given():
    words = struct.pack("=QQqQQ", 0, 0, -7, 0, 0)
    driver, start = starter(words, [(False, 3, 1), (True, 4, 0)])
    high = 2**64 - 8
    for stream in (0, 2**63 + 5):
        start((4096, high), (2.5, 1/3), stream)
    (first, second) = driver.seen
    assert first[0] == (3, 1, 1, 128, 1, 1, 512, 0, 0, 0)
    assert second[0] == (3, 1, 1, 128, 1, 1, 512, 2**63 + 5, 0, 0)
    assert first[1:] == second[1:] == (1234, struct.pack(
        "=QQqf4xd", 4096, high, -7, 1/3, 2.5), None)
    assert driver.again == []


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300, 0.1, -0.0, True, 7])
def test_numbers_are_rounded_as_ctypes_does(value):
    driver, start = starter(bytes(8), [(False, 0, 0)], pointers=0)
    start((), (value,), 0)
    assert driver.seen[0][2][:4] == bytes(ctypes.c_float(value))


def test_not_a_number():
    driver, start = starter(bytes(8), [(True, 0, 0)], pointers=0)
    start((), (math.nan,), 0)
    assert math.isnan(struct.unpack("=d", driver.seen[0][2])[0])


@pytest.mark.parametrize("args", [
    ((1,), (), 0), ([1, 2], (), 0), ((1, "x"), (), 0), ((1, 2), (), "stream"),
    ((1, 2), (), None)])
def test_nothing_is_launched_with_wrong_arguments(args):
    driver, start = starter(bytes(16))
    with pytest.raises((TypeError, SystemError, IndexError)):
        start(*args)
    assert driver.seen == driver.again == []


def test_a_refused_launch_is_handed_on():
    driver, start = starter(bytes(16))
    driver.code = 400
    args = (1, 2), (), 3
    assert start(*args) == "otherwise"
    assert driver.again == [args]
    driver.otherwise = None
    assert start((1, 2), ()) == "otherwise"  # so is a call of another kind
    assert driver.again == [args, ((1, 2), ())]


def test_errors_from_there_are_raised():
    def otherwise(*args):
        raise RuntimeError("a reason")

    driver = Driver(1)
    driver.code = 719
    start = fast_start(otherwise, driver.address, 1, 1, bytes(8), (), CONFIGURATION)
    with pytest.raises(RuntimeError, match="a reason"):
        start((1,), (), 0)


def test_too_many_words_and_no_code(monkeypatch):
    driver = Driver(1)
    args = (driver.otherwise, driver.address, 1, 0)
    assert fast_start(*args, bytes(8*MOST_WORDS), (), CONFIGURATION) is not None
    assert fast_start(*args, bytes(8*MOST_WORDS + 8), (), CONFIGURATION) is None
    monkeypatch.setattr(fast_launch, "_METHODS", [])
    monkeypatch.setattr(cache, "noted", lambda key: None)
    monkeypatch.delitem(sys.modules, "llvmlite.binding")
    assert fast_start(*args, bytes(8), (), CONFIGURATION) is None


def test_the_code_is_kept(monkeypatch):
    kept = {}
    monkeypatch.setattr(cache, "noted", kept.get)
    monkeypatch.setattr(cache, "note", kept.__setitem__)
    monkeypatch.setattr(fast_launch, "_METHODS", [])
    starter(bytes(8))
    assert len(kept) == 1
    monkeypatch.setattr(fast_launch, "_METHODS", [])
    monkeypatch.delitem(sys.modules, "llvmlite.binding")
    driver, start = starter(bytes(8), pointers=1)
    start((5,), (), 0)
    assert driver.seen[0][2] == struct.pack("=Q", 5)


def test_threads_have_memory_of_their_own():
    driver, start = starter(bytes(16))
    gate = threading.Barrier(4)

    def many(k):
        gate.wait()
        for i in range(500):
            start((k, i), (), k)

    threads = [threading.Thread(target=many, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(struct.unpack("=QQ", words) for _, _, words, _ in driver.seen)
    assert found == [(k, i) for k in range(4) for i in range(500)]
    assert all(struct.unpack("=QQ", words)[0] == sizes[7]
               for sizes, _, words, _ in driver.seen)


def test_what_it_holds_lives_as_long():
    class Otherwise:
        def __call__(self, *args):
            return "called"

    thing = Otherwise()
    gone = weakref.ref(thing)
    start = fast_start(thing, 1, 1, 1, bytes(8), (), CONFIGURATION)
    del thing
    gc.collect()
    assert start() == "called"
    before = sys.getrefcount(start.__self__[1])
    for _ in range(100):
        start()
    assert sys.getrefcount(start.__self__[1]) < before + 10
    del start
    gc.collect()
    assert gone() is None
