"""Programs that workers compile for: forks of them, their ends, what they lack."""

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

from nbfused.support import processes, workers
from nbfused.support.workers import Job, Workers
from tests.support.jobs import (
    HERE,
    PREPARE,
    forked_child_ends,
    forks,
    have_ended,
    is_there,
    may_fork,
    output,
    run,
)

pytestmark = pytest.mark.usefixtures("nobody_left")


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
    assert have_ended(numbers, is_there)


@forks
def test_also_those_that_are_busy():
    script = (f"from {HERE} import *\nprint(*run(*['process']*4), flush=True)\n"
              "with Workers(2, PREPARE) as pool:\n"
              f"    pool.submit(Job('{HERE}:wait', (60.0,)))\n"
              "    time.sleep(0.2)\n"
              "    os.kill(os.getpid(), signal.SIGKILL)")
    made = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True, check=False, timeout=60)
    assert have_ended({int(word) for word in made.stdout.split()}, is_there)


@forks
def test_no_fork_is_left_to_process_1_which_may_be_the_users():
    script = ("import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # so is this\n"
              f"from {HERE} import *\n"
              "from nbfused.support import workers\n"
              "for end in workers.close_idle, workers._close_all:\n"
              "    run(*['process'] * 4)\n"
              "    end()\n"
              "    try:\n"
              "        print(os.waitpid(-1, os.WNOHANG))\n"
              "    except ChildProcessError:\n"
              "        print('none')")
    assert output(script).split() == ["none", "none"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@may_fork
def test_a_fork_while_a_thread_waits_for_an_answer(either):
    with Workers(3, PREPARE) as pool:
        futures = [pool.submit(Job(f"{HERE}:wait", (1.0,))) for _ in range(3)]
        time.sleep(0.5)
        assert forked_child_ends()
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
    assert forked_child_ends(lambda: _sockets() == before)
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

    assert forked_child_ends(write)
    ours.close()


@may_fork
def test_programs_without_standard_streams(tmp_path):
    file = tmp_path / "found"
    script = (f"from {HERE} import *\n"
              f"open({str(file)!r}, 'w').write(repr(run(*['process'] * 3)))")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60,
                   preexec_fn=lambda: os.closerange(0, 3))
    assert "Lost" not in file.read_text()


def test_nothing_is_started_when_the_main_thread_has_ended():
    """Pools of threads are closed, and the last threads compile themselves."""
    script = (f"import threading\nfrom {HERE} import *\n"
              "def late():\n"
              "    threading.main_thread().join()\n"
              "    with Workers(2, PREPARE) as pool:\n"
              f"        for _ in range(3): pool.submit(Job('{HERE}:process', ()))\n"
              "        print(pool.running)\n"
              "threading.Thread(target=late).start()")
    assert output(script).split() == ["False"]


def test_a_frozen_program_does_not_run_itself(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with Workers(2, PREPARE) as pool:
        for _ in range(3):
            pool.submit(Job(f"{HERE}:process", ()))
        assert not pool.running


def test_what_is_no_text_in_the_path_of_modules_is_left_out(either, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, 3, None])
    assert all(isinstance(found, int) for found in run(*["process"] * 3))


def _sockets() -> set[str]:
    """The sockets of this process."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the folder itself
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in found if name.startswith("socket")}
