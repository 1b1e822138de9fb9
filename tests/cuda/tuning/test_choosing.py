"""Choosing among kernels: what is measured, and what never is."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from nbfused.backend import Call
from nbfused.config import config
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning import tuner as tune
from nbfused.cuda.tuning.tuner import Tuner, layout_of
from tests.cuda.tuning.planted import CALL, PLANS, Kernels, later

# --- who wins


def test_the_fastest_is_measured_once(device, times):
    kernels = Kernels()
    assert kernels(device) == PLANS[1]
    assert set(kernels.compiled) == set(PLANS)
    count = times.count
    assert kernels(device) == PLANS[1]
    assert (times.count, kernels.asked) == (count, 1)
    with config.override(autotune="readonly"):
        assert kernels(device) == PLANS[1]
    assert kernels.asked == 1
    assert all(call is CALL for _, call in kernels.launched)


def test_the_slow_are_dropped_early(device, times):
    kernels = Kernels()
    kernels(device)
    launches = [plan for plan, _ in kernels.launched]
    assert launches.count(PLANS[1]) == tune.ROUNDS + 1  # the first is not timed
    assert launches.count(PLANS[2]) == tune.QUALIFYING + 1


def test_the_rule_stays_where_nothing_is_clearly_better(device, times):
    times.planted[PLANS[1]] = 9.9
    assert Kernels()(device) == PLANS[0]


def test_each_key_is_its_own(device, times):
    kernels = Kernels()
    assert kernels(device) == PLANS[1]
    times.planted[PLANS[2]] = 1.0
    assert kernels(device, key=((7,), "float32")) == PLANS[2]
    assert kernels(device) == PLANS[1]


def test_each_device_is_its_own(device, times):
    kernels = Kernels()
    assert kernels(device) == PLANS[1]
    other = SimpleNamespace(**{**vars(device), "ordinal": 1, "name": "NVIDIA Other"})
    times.planted[PLANS[2]] = 1.0
    assert kernels(other) == PLANS[2]
    assert kernels(device) == PLANS[1]


def test_a_candidate_that_does_not_compile_is_left_out(device, times):
    kernels = Kernels(broken=(PLANS[1],))
    assert kernels(device) == PLANS[0]
    assert PLANS[1] not in [plan for plan, _ in kernels.launched]


def test_errors_of_others_are_not_hidden(device, times):
    kernels = Kernels()
    kernels.tuner = Tuner("kernel", lambda *_: PLANS, kernels.program, lambda *_: 1/0)
    with pytest.raises(ZeroDivisionError):
        kernels(device)


def test_measuring_ends(device, times, monkeypatch):
    monkeypatch.setattr(tune, "LAUNCHING", 0.0)
    assert Kernels()(device) == PLANS[1]
    assert times.count == len(PLANS)


def test_compiling_ends(device, times, monkeypatch):
    monkeypatch.setattr(tune, "COMPILING", 0.3)
    free, kernels = threading.Event(), Kernels()

    def program(plan, device):
        if plan == PLANS[1]:
            free.wait(20)

    kernels.tuner = Tuner("kernel", lambda *_: PLANS, program, kernels.launch)
    assert kernels(device) == PLANS[0]
    assert PLANS[1] not in [plan for plan, _ in kernels.launched]
    free.set()


# --- when nothing is measured


@pytest.mark.parametrize("settings", [
    {"deterministic": True}, {"autotune": "0"}, {"autotune": "readonly"}])
def test_not_unless_asked_for(device, times, settings):
    with config.override(**settings):
        kernels = Kernels()
        assert kernels(device) == PLANS[0]
    assert (times.count, kernels.compiled) == (0, [])
    assert choices.kept_files() == []


def test_deterministic_passes_over_what_was_measured(device, times, monkeypatch):
    kernels = Kernels()
    assert kernels(device) == PLANS[1]
    for settings in ({"deterministic": True}, {"autotune": "0"}):
        with config.override(**settings):
            assert kernels(device) == PLANS[0]
            assert later(monkeypatch)(device) == PLANS[0]
    assert kernels(device) == PLANS[1]


def test_not_while_a_graph_records(device, times):
    kernels = Kernels()
    recorded = Call(CALL.shape, CALL.pointers, CALL.strides, stream=99)
    assert kernels(device, recorded) == PLANS[0]
    assert (times.count, kernels.compiled) == (0, [])
    assert kernels(device) == PLANS[1]
    assert kernels(device, recorded) == PLANS[1]


def test_not_where_a_second_launch_would_read_the_first_ones_result(device, times):
    kernels = Kernels()
    in_place = Call(CALL.shape, (256, 512, 256), CALL.strides)
    assert kernels(device, in_place) == PLANS[0]
    assert (times.count, kernels.launched) == (0, [])
    assert kernels(device) == PLANS[1]
    assert kernels(device, in_place) == PLANS[1]


@pytest.mark.parametrize(("autotune", "deterministic", "expected"), [
    ("1", False, True), ("1", True, False), ("readonly", False, False)])
def test_whether_calls_are_measured(autotune, deterministic, expected):
    with config.override(autotune=autotune, deterministic=deterministic):
        assert tune.measuring() is expected


def test_one_candidate_is_no_choice(device, times):
    kernels = Kernels(PLANS[2:])
    assert kernels(device) == PLANS[2]
    assert (times.count, choices.kept_files()) == (0, [])


def test_a_layout_is_all_but_addresses():
    call = Call((5, 3), (256, 520), ((3, 1), (0, 1)), stream=3)
    moved = Call((5, 3), (4096, 8), ((3, 1), (0, 1)), stream=4)
    assert layout_of(call) == layout_of(moved)
    for other in (Call((5, 4), (256, 520), ((3, 1), (0, 1))),
                  Call((5, 3), (256, 520), ((3, 1), (1, 0))),
                  Call((5, 3), (256, 524), ((3, 1), (0, 1)))):
        assert layout_of(call) != layout_of(other)


# --- several at once


def test_threads_measure_once(device, times):
    kernels, found = Kernels(), []
    measure = times.microseconds

    def slowly(*arguments):
        time.sleep(1e-3)
        return measure(*arguments)

    times.microseconds = slowly
    threads = [threading.Thread(target=lambda: found.append(kernels(device)))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [PLANS[1]]*8
    assert kernels.compiled.count(PLANS[0]) == 1
