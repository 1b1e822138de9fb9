"""The thread pool: errors, nesting, many callers, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from nbfused.config import config
from nbfused.cpu.pool import Pool, thread_count


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_every_piece_runs_once(threads, count):
    seen = []
    Pool(threads).run(seen.append, count)
    assert sorted(seen) == list(range(count))


@pytest.mark.parametrize("most", [0, 1])
def test_a_system_without_more_threads(monkeypatch, most):
    start, started = threading.Thread.start, []

    def limited(thread):
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    pool = Pool(4)
    for _ in range(3):
        seen = []
        pool.run(seen.append, 9)
        assert sorted(seen) == list(range(9))
    assert len(started) == len(pool._helpers) == most
    assert pool._queue.qsize() <= 3 * most


def test_a_large_launch_at_exit():
    """From Python 3.12 on no thread is started then."""
    code = """if True:
        import atexit
        import numpy as np
        from nbfused import ops
        x = np.ones(1 << 20)
        atexit.register(lambda: print(float(ops.sum(ops.square(x)))))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "NBFUSED_NUM_THREADS": "3"}, timeout=120)
    assert done.stdout == f"{float(1 << 20)}\n", done.stderr


def test_pieces_run_at_the_same_time():
    barrier = threading.Barrier(3, timeout=20)
    Pool(3).run(lambda k: barrier.wait(), 3)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="not on this system")
def test_helpers_leave_the_caller_its_processor():
    pool, allowed = Pool(3), os.sched_getaffinity(0)
    pool.run(lambda k: None, 9)
    for processor in (min(allowed), max(allowed)):
        pool._avoid(processor)
        for helper in pool._helpers:
            left = os.sched_getaffinity(helper.native_id)
            assert left == ((allowed - {processor}) or allowed)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="not on this system")
def test_processors_that_somebody_else_chose_for_helpers_stay():
    allowed = os.sched_getaffinity(0)
    pool = Pool(2)
    pool.run(lambda k: None, 4)
    (helper,) = pool._helpers
    pool._avoid(max(allowed))
    chosen = {max(allowed)}
    os.sched_setaffinity(helper.native_id, chosen)
    for processor in (min(allowed), max(allowed)):
        pool._avoid(processor)
        assert os.sched_getaffinity(helper.native_id) == chosen


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="not on this system")
def test_callers_at_once_do_not_take_processors_from_helpers(monkeypatch):
    allowed, ask = os.sched_getaffinity(0), os.sched_getaffinity
    if len(allowed) < 2:
        pytest.skip("one processor")
    pool = Pool(2)
    pool.run(lambda k: None, 4)
    pool._avoid(min(allowed))
    asked, go = threading.Event(), threading.Event()

    def slowly(number):
        found = ask(number)
        asked.set()
        go.wait(20)
        return found

    monkeypatch.setattr(os, "sched_getaffinity", slowly)
    first = threading.Thread(target=pool._avoid, args=(min(allowed),))
    first.start()
    assert asked.wait(20)
    monkeypatch.setattr(os, "sched_getaffinity", ask)
    pool._avoid(max(allowed))  # what the first one was told is no longer so
    go.set()
    first.join()
    for processor in allowed:
        pool._avoid(processor)
        (helper,) = pool._helpers
        assert os.sched_getaffinity(helper.native_id) == allowed - {processor}


def test_an_error_reaches_the_caller_when_all_is_quiet():
    running = []

    def piece(k):
        running.append(k)
        time.sleep(0.01)
        running.pop()
        if k == 3:
            raise KeyError(k)

    pool = Pool(3)
    with pytest.raises(KeyError):
        pool.run(piece, 50)
    assert not running
    seen = []
    pool.run(seen.append, 10)
    assert len(seen) == 10


def test_pieces_may_launch():
    pool, seen = Pool(2), []
    pool.run(lambda k: pool.run(lambda j: seen.append((k, j)), 4), 4)
    assert sorted(seen) == [(k, j) for k in range(4) for j in range(4)]


def test_many_callers():
    pool, wrong = Pool(3), []

    def caller():
        for _ in range(50):
            seen = []
            pool.run(seen.append, 9)
            if sorted(seen) != list(range(9)):
                wrong.append(seen)

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert not wrong


def test_the_setting_decides():
    with config.override(num_threads=5):
        assert thread_count() == Pool().threads == 5
    assert Pool(3).threads == 3


@pytest.mark.parametrize(("variables", "expected"), [
    ({"NBFUSED_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "5"}, 3),
    ({"NUMBA_NUM_THREADS": "5"}, 5),
    ({}, len(os.sched_getaffinity(0)))])
def test_environment(variables, expected):
    text = "from nbfused.cpu.pool import thread_count; print(thread_count())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          check=True, env={"PATH": "", **variables}, timeout=60)
    assert int(done.stdout) == expected


FORK = """
import os, sys, threading
from nbfused.cpu.pool import Pool
pool = Pool(3)
pool.run(lambda k: None, 10)
for attempt in range(5):
    child = os.fork()
    if child == 0:
        barrier = threading.Barrier(3, timeout=20)
        pool.run(lambda k: barrier.wait(), 3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
pool.run(lambda k: None, 10)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_gets_threads_of_its_own():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK)],
                          capture_output=True, text=True, check=False, timeout=120,
                          env={"PATH": ""})
    assert done.stdout.strip() == "done", done.stderr


INTERRUPT = """
import _thread, signal, threading, time
from nbfused.cpu.pool import Pool
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs ignore it
pool, running = Pool(2), []
def piece(k):
    running.append(k)
    time.sleep(0.05)
    running.remove(k)
threading.Timer(0.3, _thread.interrupt_main).start()
try:
    pool.run(piece, 1000)
except KeyboardInterrupt:
    helpers = [k for k in running]
    time.sleep(0.2)
    print("quiet" if len(running) == len(helpers) <= 1 else running)
"""


def test_an_interrupt_waits_for_the_helpers():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(INTERRUPT)],
                          capture_output=True, text=True, check=False, timeout=120,
                          env={"PATH": ""})
    assert done.stdout.strip() == "quiet", done.stderr
