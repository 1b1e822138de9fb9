"""Processes that compile: results, errors, ends and what is left of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from nbfused.errors import CompileError
from nbfused.support import processes, workers
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


@pytest.fixture(params=[True, False], ids=["forks", "processes"])
def either(request, monkeypatch):
    """Workers of both kinds: where they are forks, and where they are not."""
    if request.param > processes.FORKS:
        pytest.skip("no forks here")
    monkeypatch.setattr(processes, "FORKS", request.param)


forks = pytest.mark.skipif(not processes.FORKS, reason="no forks here")
#: JAX's, once imported.
may_fork = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning",
                                      "ignore:This process:DeprecationWarning")


def nothing() -> None:
    pass


def process() -> int:
    print("this is no answer")
    return os.getpid()


def refuse() -> None:
    raise CompileError("refused", source="the text", log="the reason")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def variable(name: str) -> str | None:
    return os.environ.get(name)


def run(*functions: str) -> list:
    with Workers(2, PREPARE) as pool:
        futures = [pool.submit(Job(f"{HERE}:{name}", ())) for name in functions]
        return [future.exception() or future.result() for future in futures]


def test_calls_run_in_other_processes_at_most_as_many_as_asked_for(either):
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


def test_an_error_comes_back_as_it_is(either):
    *_, error = run("process", "process", "refuse")
    assert isinstance(error, CompileError)
    assert (str(error), error.source, error.log) == ("refused", "the text",
                                                     "the reason")


def test_a_worker_that_dies_loses_its_call_and_no_other(either):
    first, lost, last = run("process", "die", "process")
    assert isinstance(lost, LostError)
    assert isinstance(first, int)
    assert isinstance(last, int)


def test_workers_are_used_again_and_leave_no_zombies(either):
    before, after = set(run(*["process"] * 4)), set(run(*["process"] * 4))
    assert before & after
    workers.close_idle()
    assert _end(before | after, _has_number)


def test_no_process_to_be_had_is_a_lost_call(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    assert all(isinstance(error, LostError) for error in run(*["process"] * 3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@may_fork
def test_a_forked_child_leaves_the_workers_alone(either):
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
    assert numbers
    assert _end(numbers, _is_there)


@forks
def test_also_those_that_are_busy():
    script = (f"from {HERE} import *\nprint(*run(*['process']*4), flush=True)\n"
              "with Workers(2, PREPARE) as pool:\n"
              f"    pool.submit(Job('{HERE}:wait', (60.0,)))\n"
              "    time.sleep(0.2)\n"
              "    os.kill(os.getpid(), signal.SIGKILL)")
    made = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True, check=False, timeout=60)
    assert _end({int(word) for word in made.stdout.split()}, _is_there)


@forks
def test_no_fork_is_left_to_process_1_which_may_be_the_users():
    script = ("import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # so is this\n"
              f"from {HERE} import *\n"
              "for end in workers.close_idle, workers._close_all:\n"
              "    run(*['process'] * 4)\n"
              "    end()\n"
              "    try:\n"
              "        print(os.waitpid(-1, os.WNOHANG))\n"
              "    except ChildProcessError:\n"
              "        print('none')")
    assert _output(script).split() == ["none", "none"]


def test_workers_that_were_killed_meanwhile_are_not_used_again(either):
    numbers = set(run(*["process"] * 4))
    for number in numbers:
        os.kill(number, signal.SIGKILL)
    assert _end(numbers, _is_there)
    assert not numbers & set(run(*["process"] * 4))


@forks
def test_a_template_that_was_killed_is_replaced():
    run(*["process"] * 3)
    (template,) = processes._templates.values()
    os.kill(template._process.pid, signal.SIGKILL)
    template._process.wait()
    workers._idle[0].kill()  # one of two starts anew
    assert all(isinstance(found, int) for found in run(*["process"] * 4))
    assert processes._templates != {PREPARE: template}


def test_an_error_ends_the_calls_of_its_block_at_once_and_of_no_other(either):
    with Workers(3, PREPARE) as other:
        longer = [other.submit(Job(f"{HERE}:wait", (1.0,))) for _ in range(3)]
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert all(isinstance(future.result(), int) for future in longer)


def test_calls_that_wait_start_nothing_after_an_error(either):
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not workers._alive
    assert not processes.is_started()


def interrupted() -> None:
    with Workers(2, PREPARE) as pool:
        for _ in range(6):
            pool.submit(Job(f"{HERE}:wait", (60.0,)))
        time.sleep(0.3)
        raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@may_fork
def test_a_fork_while_a_thread_waits_for_an_answer(either):
    with Workers(3, PREPARE) as pool:
        futures = [pool.submit(Job(f"{HERE}:wait", (1.0,))) for _ in range(3)]
        time.sleep(0.5)
        assert _forked_child_ends()
        assert all(isinstance(future.result(), int) for future in futures)


@forks
@may_fork
def test_a_fork_while_a_template_is_started_has_no_part_in_it(monkeypatch):
    before, now, real = _sockets(), threading.Event(), processes._started

    def slow(*arguments, **options):
        now.set()
        time.sleep(0.3)
        return real(*arguments, **options)

    monkeypatch.setattr(processes, "_started", slow)
    thread = threading.Thread(target=run, args=["process"] * 3)
    thread.start()
    now.wait()
    assert _forked_child_ends(lambda: _sockets() == before)
    thread.join()


@forks
def test_the_time_that_sockets_may_take_is_not_that_of_programs():
    socket.setdefaulttimeout(0.001)
    try:
        assert all(isinstance(found, int) for found in run(*["process"] * 4))
    finally:
        socket.setdefaulttimeout(None)


@forks
@may_fork
def test_a_connection_that_is_closed_is_no_signal():
    ours, theirs = processes._socket_pair()
    theirs.close()

    def write():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as many programs do
        with pytest.raises(BrokenPipeError):
            processes._Socket(ours).write(b"1")
        return True

    assert _forked_child_ends(write)
    ours.close()


def test_programs_without_standard_streams(tmp_path):
    file = tmp_path / "found"
    script = (f"from {HERE} import *\n"
              f"open({str(file)!r}, 'w').write(repr(run(*['process'] * 3)))")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60,
                   preexec_fn=lambda: os.closerange(0, 3))
    assert "Lost" not in file.read_text()


def test_nothing_is_started_when_the_main_thread_has_ended():
    """Pools of threads are closed, and the last threads compile themselves."""
    script = (f"from {HERE} import *\n"
              "def late():\n"
              "    threading.main_thread().join()\n"
              "    with Workers(2, PREPARE) as pool:\n"
              f"        for _ in range(3): pool.submit(Job('{HERE}:process', ()))\n"
              "        print(pool.running)\n"
              "threading.Thread(target=late).start()")
    assert _output(script).split() == ["False"]


def test_no_thread_to_be_had_is_a_lost_call(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers.prepare(PREPARE, 2)
    assert all(isinstance(error, LostError) for error in run(*["process"] * 3))


@forks
def test_whatever_keeps_a_process_from_starting_loses_calls_only(monkeypatch):
    monkeypatch.delattr(socket, "socketpair")  # a program may have a socket.py
    workers.prepare(PREPARE, 2)
    assert all(isinstance(error, LostError) for error in run(*["process"] * 3))


def test_a_frozen_program_does_not_run_itself(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with Workers(2, PREPARE) as pool:
        for _ in range(3):
            pool.submit(Job(f"{HERE}:process", ()))
        assert not pool.running


def test_workers_start_no_workers(either):
    with Workers(2, PREPARE) as pool:
        job = Job(f"{HERE}:variable", ("NBFUSED_COMPILE_WORKERS",))
        assert {pool.submit(job) for _ in range(2)}
        assert pool.submit(job).result() == "1"


def test_what_is_no_text_in_the_path_of_modules_is_left_out(either, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, 3, None])
    assert all(isinstance(found, int) for found in run(*["process"] * 3))


def test_processes_end_after_a_block_that_outlasted_their_time(monkeypatch):
    workers.prepare(PREPARE, 2)
    monkeypatch.setattr(workers, "IDLE", 0.01)
    with Workers(2, PREPARE):
        workers.close_idle()
        assert processes.is_started() == processes.FORKS
    end = time.monotonic() + 10
    while processes.is_started() and time.monotonic() < end:
        time.sleep(0.01)
    assert not processes.is_started()


def test_a_thread_that_waits_serves_all_that_prepare(monkeypatch):
    """It waits on until the last time that was asked for, and is replaced by less."""
    started = []

    class Timer(threading.Timer):
        def start(self):
            started.append(self.interval)
            super().start()

    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(workers, "EARLY", 0.2)
    workers._cancel()
    begun = time.monotonic()
    while time.monotonic() < begun + 0.1:
        workers.prepare(PREPARE, 2)
    assert len(started) == processes.FORKS
    while processes.is_started() and time.monotonic() < begun + 10:
        time.sleep(0.01)
    assert not processes.is_started()
    if processes.FORKS:
        assert time.monotonic() >= begun + 0.3
        assert len(started) == 2
        workers.prepare(PREPARE, 2)
        workers._close_later(0.01)
        assert len(started) == 4


def _output(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True, check=True, timeout=60).stdout


def _forked_child_ends(call=lambda: True) -> bool:
    """Whether a fork ends in time, and a call in it is true."""
    child = os.fork()
    if not child:
        try:
            os._exit(not call())
        finally:
            os._exit(1)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _sockets() -> set[str]:
    """The sockets of this process."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the folder itself
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in found if name.startswith("socket")}


def _end(numbers: set[int], there) -> bool:
    """Whether processes end in time."""
    end = time.monotonic() + 10
    while any(map(there, numbers)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(there, numbers))


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
