"""Processes that compile: results, errors, ends and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from nbfused.errors import CompileError
from nbfused.support import workers
from nbfused.support.workers import Job, LostError, Workers

HERE = "tests.support.test_workers"
PREPARE = f"{HERE}:nothing"


@pytest.fixture(autouse=True)
def nobody_left():
    """Each test starts and ends without workers."""
    workers.close_idle()
    yield
    workers.close_idle()
    assert not workers._alive


def nothing() -> None:
    pass


def process() -> int:
    print("this is no answer")
    return os.getpid()


def refuse() -> None:
    raise CompileError("refused", source="the text", log="the reason")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(*functions: str) -> list:
    with Workers(2, PREPARE) as pool:
        futures = [pool.submit(Job(f"{HERE}:{name}", ())) for name in functions]
        return [future.exception() or future.result() for future in futures]


def test_calls_run_in_other_processes_at_most_as_many_as_asked_for():
    found = run(*["process"] * 6)
    assert os.getpid() not in found
    assert 1 <= len(set(found)) <= 2


def test_few_calls_are_never_done_and_start_nothing():
    with Workers(2, PREPARE) as pool:
        futures = [pool.submit(Job(f"{HERE}:process", ())) for _ in range(2)]
        assert not pool.running
    assert all(future.cancelled() for future in futures)
    assert not workers._alive


def test_one_process_means_none_besides_this_one():
    with Workers(1, PREPARE) as pool:
        for _ in range(9):
            pool.submit(Job(f"{HERE}:process", ()))
        assert not pool.running


def test_an_error_comes_back_as_it_is():
    *_, error = run("process", "process", "refuse")
    assert isinstance(error, CompileError)
    assert (str(error), error.source, error.log) == ("refused", "the text",
                                                     "the reason")


def test_a_worker_that_dies_loses_its_call_and_no_other():
    first, lost, last = run("process", "die", "process")
    assert isinstance(lost, LostError)
    assert isinstance(first, int)
    assert isinstance(last, int)


def test_workers_are_used_again_and_leave_no_zombies():
    before, after = set(run(*["process"] * 4)), set(run(*["process"] * 4))
    assert before & after
    workers.close_idle()
    end = time.monotonic() + 10
    while any(map(_has_number, before | after)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(_has_number, before | after))


def test_no_process_to_be_had_is_a_lost_call(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    assert all(isinstance(error, LostError) for error in run(*["process"] * 3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, once imported
def test_a_forked_child_leaves_the_workers_alone():
    numbers = set(run(*["process"] * 4))
    child = os.fork()
    if not child:
        os._exit(1 if workers._alive or workers._idle else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert set(run(*["process"] * 4)) & numbers  # they still answer


def test_workers_end_with_their_process():
    """Also where it is killed, which tells nobody."""
    script = (f"from {HERE} import *\nprint(*run(*['process']*4), flush=True)\n"
              "os.kill(os.getpid(), signal.SIGKILL)")
    made = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True, check=False, timeout=60)
    numbers = {int(word) for word in made.stdout.split()}
    end = time.monotonic() + 10
    assert numbers
    while any(map(_is_there, numbers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_is_there, numbers))


def _has_number(number: int) -> bool:
    """Whether a process runs, or is a zombie, which still has its number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def _is_there(number: int) -> bool:
    """Whether a process runs; one that waits for its parent has ended."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
