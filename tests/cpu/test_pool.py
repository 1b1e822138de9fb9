"""The thread pool: how many threads, and where they run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from nbfused.config import config
from nbfused.cpu.runtime.pool import Pool, thread_count
from tests.cpu.test_team import counting


def share(pool, y=None):
    """A launch of pieces for all threads; it adds 1 to `y`."""
    y = np.zeros(1000, np.int64) if y is None else y
    pool.share(*counting(y), 1000, 10)


@pytest.mark.parametrize("most", [0, 1])
def test_a_system_without_more_threads(monkeypatch, most):
    start, started = threading.Thread.start, []

    def limited(thread):
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    pool, y = Pool(4), np.zeros(1000, np.int64)
    for k in range(3):
        share(pool, y)
        assert np.all(y == k + 1)
    assert len(started) == len(pool._helpers) == most
    assert pool._queue.qsize() <= 3 * most


def test_a_large_launch_at_exit():
    """From Python 3.12 on no thread is started then, and Numba is not imported."""
    code = """if True:
        import atexit
        import numpy as np
        from nbfused import ops
        x = np.ones(1 << 20)
        {}(lambda: print(float(ops.sum(ops.square(x)))))
    """
    for run in ("(lambda now: now())", "atexit.register"):  # compiled in the first
        done = subprocess.run([sys.executable, "-c", code.format(run)], text=True,
                              env={**os.environ, "NBFUSED_NUM_THREADS": "3"},
                              capture_output=True, timeout=120)
    assert done.stdout == f"{float(1 << 20)}\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="not on this system")
def test_helpers_leave_the_caller_its_processor():
    pool, allowed = Pool(3), os.sched_getaffinity(0)
    share(pool)
    for processor in (min(allowed), max(allowed)):
        pool._avoid(processor)
        for helper in pool._helpers:
            left = os.sched_getaffinity(helper.native_id)
            assert left == ((allowed - {processor}) or allowed)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="not on this system")
def test_processors_that_somebody_else_chose_for_helpers_stay():
    allowed = os.sched_getaffinity(0)
    pool = Pool(2)
    share(pool)
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
    share(pool)
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


def test_the_setting_decides():
    with config.override(num_threads=5):
        assert thread_count() == Pool().threads == 5
    assert Pool(3).threads == 3


@pytest.mark.parametrize(("variables", "expected"), [
    ({"NBFUSED_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "5"}, 3),
    ({"NUMBA_NUM_THREADS": "5"}, 5),
    ({}, len(os.sched_getaffinity(0)))])
def test_environment(variables, expected):
    text = "from nbfused.cpu.runtime.pool import thread_count; print(thread_count())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          check=True, env={"PATH": "", **variables}, timeout=60)
    assert int(done.stdout) == expected
