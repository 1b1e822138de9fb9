"""Launches that threads share without Python."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from nbfused.cpu.runtime import team
from nbfused.cpu.runtime.compile import build
from nbfused.cpu.runtime.pool import Pool

#: Adds 1 to each number from ``begin`` to ``end``, `a[1]` times over.
TEXT = """# Count
def kernel(a, begin, end):
    y = i64_pointer(a[0])
    for i in range(begin, end):
        for _ in range(a[1]):
            y[i] += 1
"""


def counting(y, times=1):
    return build(TEXT), np.array([y.ctypes.data, times], np.int64).tobytes()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize(("units", "step"), [(1, 1), (2, 1), (7, 3), (1000, 1),
                                             (1000, 999), (1000, 1001)])
def test_every_unit_once(threads, units, step):
    pool, y = Pool(threads), np.zeros(units + 1, np.int64)
    for _ in range(3):
        pool.share(*counting(y), units, step)
    assert np.all(y[:-1] == 3)
    assert y[-1] == 0


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("first", "step"), [(1, 1), (7, 64), (99, 5), (12, 1000)])
def test_from_a_later_unit_on(threads, first, step):
    y = np.zeros(101, np.int64)
    Pool(threads).share(*counting(y), 100, step, first)
    assert np.all(y[first:100] == 1)
    assert not y[:first].any()
    assert y[100] == 0


def test_many_launches_one_after_the_other():
    """Threads that linger, and such that come late to a record used again."""
    pool, y = Pool(3), np.zeros(64, np.int64)
    for k in range(800):
        pool.share(*counting(y), 64, 1)
        assert np.all(y == k + 1)


def test_many_callers():
    pool, wrong = Pool(3), []

    def caller():
        y = np.zeros(50, np.int64)
        for k in range(100):
            pool.share(*counting(y), 50, 3)
            if np.any(y != k + 1):
                wrong.append(y.copy())

    callers = [threading.Thread(target=caller) for _ in range(6)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert not wrong


@pytest.fixture
def one_record(monkeypatch):
    monkeypatch.setattr(team, "_RECORDS", 1)
    team.machine_code.cache_clear()
    yield
    team.machine_code.cache_clear()


def test_more_callers_than_records(one_record):
    """Who finds none works alone."""
    test_many_callers()


#: Numbers the units in the order in which they are taken.
NUMBERED = """# Numbered
def kernel(a, begin, end):
    y = i64_pointer(a[0])
    for i in range(begin, end):
        y[i] = word_add(a[1], 1)
"""


@pytest.mark.parametrize("lead", [0, 7])
def test_every_other_launch_begins_with_its_last_piece(lead):
    pool, counter = Pool(2), np.zeros(1, np.int64)
    y = np.zeros(200, np.int64)
    block = np.array([y.ctypes.data, counter.ctypes.data], np.int64).tobytes()
    order, helpers = pool.order(build(NUMBERED), 200, 10, lead, lead, turns=True)
    began = []
    for _ in range(6):
        y[:], counter[0] = -1, 0
        pool.launch(order + block, helpers)
        assert np.array_equal(np.sort(y), np.arange(200))
        assert np.array_equal(y[:lead], np.arange(lead))
        began.append(int(np.argmin(y[lead:])) < 100)  # two threads: not to the unit
    assert began in ([True, False]*3, [False, True]*3)


def test_pieces_are_taken_in_order_unless_they_may_turn():
    pool, counter = Pool(2), np.zeros(1, np.int64)
    y = np.zeros(200, np.int64)
    block = np.array([y.ctypes.data, counter.ctypes.data], np.int64).tobytes()
    for _ in range(4):
        counter[0] = 0
        pool.share(build(NUMBERED), block, 200, 10)
        assert np.argmin(y) < 100


def test_nothing_is_done_by_a_launch_that_has_to_wake_somebody():
    pool, y = Pool(3), np.zeros(100, np.int64)
    entry, block = counting(y)
    order, helpers = pool.order(entry, 100, 10)
    assert pool.program(order + block, 0, 0) == 1
    assert not y.any()
    pool.launch(order + block, helpers)
    assert np.all(y == 1)


#: Counts in `a[0]` who is inside; the most of them stays behind it.
CROWD = """# Crowd
def kernel(a, begin, end):
    word_add(a[0], 1)
    inside = word_read(a[0])
    if inside > word_read(a[0] + 8):
        word_write(a[0] + 8, inside)
    for _ in range(1 << 14):
        pause()
    word_add(a[0], -1)
"""


def test_fewer_threads_than_linger(monkeypatch):
    monkeypatch.setattr("nbfused.cpu.runtime.pool.processors", lambda: 16)
    pool, entry = Pool(6), build(CROWD)
    y = np.zeros(2, np.int64)
    block = np.array([y.ctypes.data], np.int64).tobytes()
    for _ in range(20):
        for threads in (6, 2):
            pool._wanted, y[1] = threads, 0
            pool.share(entry, block, 48, 1)
            assert y[0] == 0
            assert 1 <= y[1] <= threads


#: Says that it is here, and waits for the other one: `a[0]` has two words for that and
#: two for whether it came.
MEETING = """# Meeting
def kernel(a, begin, end):
    for i in range(begin, end):
        word_write(a[0] + 8*i, 1)
        glances = 0
        while word_read(a[0] + 8*(1 - i)) == 0 and glances < 1 << 28:
            glances += 1
            give_way()
        word_write(a[0] + 16 + 8*i, word_read(a[0] + 8*(1 - i)))
"""


def test_helpers_take_pieces():
    pool = Pool(2)
    for _ in range(20):
        y = np.zeros(4, np.int64)
        block = np.array([y.ctypes.data], np.int64).tobytes()
        pool.share(build(MEETING), block, 2, 1)
        assert np.all(y == 1)


def test_helpers_sleep_after_a_while():
    pool, y = Pool(2), np.zeros(1000, np.int64)
    pool.share(*counting(y, 1000), 1000, 10)
    end = time.monotonic() + 20
    while pool._team.lingering or pool._queue.qsize():
        assert time.monotonic() < end
        time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


FORK = """
import os
import numpy as np
from nbfused.cpu.runtime.compile import build
from nbfused.cpu.runtime.pool import Pool
entry, pool, y = build(TEXT), Pool(3), np.zeros(1000, np.int64)
block = np.array([y.ctypes.data, 1], np.int64).tobytes()
pool.share(entry, block, 1000, 10)
for attempt in range(5):
    child = os.fork()
    if child == 0:
        pool.share(entry, block, 1000, 10)
        os._exit(int(np.any(y != 2)))
    assert os.waitpid(child, 0)[1] == 0
pool.share(entry, block, 1000, 10)
print("done" if np.all(y == 2) else y)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_has_a_team_of_its_own():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"TEXT = {TEXT!r}\n"
         + textwrap.dedent(FORK)],
        capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "done", done.stderr


BUSY = """
import os, threading, time
from nbfused.cpu.runtime import compile, objects
host, lock, inside = objects.host, threading.Lock(), threading.Event()
def slow():
    with lock:  # as LLVM has
        inside.set()
        time.sleep(0.3)
        return host()
objects.host = slow
thread = threading.Thread(target=compile.build, args=(TEXT,))
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(timeout=5) else 1)
print("done" if os.waitpid(child, 0)[1] == 0 else "held")
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_waits_for_a_thread_that_asks_llvm():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c",
                           f"TEXT = {TEXT!r}\n{BUSY}"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "done", done.stderr
