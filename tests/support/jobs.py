"""Calls that the tests of worker processes make, and what they ask of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from nbfused.errors import CompileError
from nbfused.support import processes
from nbfused.support.workers import Job, Workers

HERE = "tests.support.jobs"
PREPARE = f"{HERE}:nothing"

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


def output(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True, check=True, timeout=60).stdout


def forked_child_ends(call=lambda: True) -> bool:
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


def have_ended(numbers: set[int], there) -> bool:
    """Whether processes end in time."""
    end = time.monotonic() + 10
    while any(map(there, numbers)) and time.monotonic() < end:
        time.sleep(0.01)
    return not any(map(there, numbers))


def has_number(number: int) -> bool:
    """Whether a process runs, or is a zombie, which still has its number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def is_there(number: int) -> bool:
    """Whether a process runs; one that waits for its parent has ended."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
