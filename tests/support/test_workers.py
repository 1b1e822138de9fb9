"""Processes that compile: results, errors, and calls that are lost."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

import pytest

from nbfused.errors import CompileError
from nbfused.support import processes, workers
from nbfused.support.workers import Job, LostError, Workers
from tests.support.jobs import (
    HERE,
    PREPARE,
    forks,
    has_number,
    have_ended,
    is_there,
    run,
)

pytestmark = pytest.mark.usefixtures("nobody_left")


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
    assert have_ended(before | after, has_number)


def test_no_process_to_be_had_is_a_lost_call(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    assert all(isinstance(error, LostError) for error in run(*["process"] * 3))


def test_workers_that_were_killed_meanwhile_are_not_used_again(either):
    numbers = set(run(*["process"] * 4))
    for number in numbers:
        os.kill(number, signal.SIGKILL)
    assert have_ended(numbers, is_there)
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


def test_workers_start_no_workers(either):
    with Workers(2, PREPARE) as pool:
        job = Job(f"{HERE}:variable", ("NBFUSED_COMPILE_WORKERS",))
        assert {pool.submit(job) for _ in range(2)}
        assert pool.submit(job).result() == "1"


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
