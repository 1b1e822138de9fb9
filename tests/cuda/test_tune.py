"""Choosing among kernels: what is measured, kept, shipped, and what never is."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from nbfused.__main__ import main
from nbfused.backend import Call
from nbfused.config import config
from nbfused.cuda import choices, tune
from nbfused.cuda.choices import Choice, Table
from nbfused.cuda.tune import Tuner, layout_of
from nbfused.errors import CompileError, SettingError
from tests.refusal import refused

MODEL = "NVIDIA Test 1g.10gb"
CALL = Call(shape=(1000,), pointers=(256, 512, 768), strides=((1,),)*3)
KEY = ((1000,), "float32")


@dataclass(frozen=True)
class Plan:
    columns: int
    stages: int = 4


PLANS = (Plan(128), Plan(256), Plan(64, 2))


class Times:
    """A timer whose microseconds are planted."""

    def __init__(self, planted):
        self.planted, self.count = planted, 0

    def microseconds(self, launch, plan, *rest):
        launch(plan, *rest)
        self.count += 1
        return self.planted[plan]


class Kernels:
    """A launcher: remembers what was compiled and launched."""

    def __init__(self, plans=PLANS, broken=()):
        self.plans, self.broken = plans, broken
        self.asked, self.compiled, self.launched = 0, [], []
        self.tuner = Tuner("kernel", self.candidates, self.program, self.launch)

    def candidates(self, call, device):
        self.asked += 1
        return self.plans

    def program(self, plan, device):
        if plan in self.broken:
            raise CompileError("too much shared memory")
        self.compiled.append(plan)

    def launch(self, plan, call, device):
        self.launched.append((plan, call))

    def __call__(self, device, call=CALL, key=KEY):
        return self.tuner(key, call, device, 1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, and nothing shipped."""
    monkeypatch.setattr(choices, "_tables", {})
    monkeypatch.setattr(choices, "SHIPPED", tmp_path / "shipped")
    with config.override(cache_dir=str(tmp_path / "cache"), autotune="1",
                         deterministic=False, cache_disable=False):
        yield tmp_path


@pytest.fixture
def device():
    return SimpleNamespace(ordinal=0, name=MODEL, cuda=(13, 0), current=nullcontext)


@pytest.fixture
def times(monkeypatch):
    planted = Times({PLANS[0]: 10.0, PLANS[1]: 7.0, PLANS[2]: 30.0})
    monkeypatch.setattr(tune, "timing", lambda device, stream: nullcontext(planted))
    monkeypatch.setattr(tune, "is_capturing", lambda device, stream: stream == 99)
    return planted


def later(monkeypatch):
    """As another process would begin."""
    monkeypatch.setattr(choices, "_tables", {})
    return Kernels()


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


def test_a_wrong_setting(device, times):
    with config.override(autotune="often"), refused(SettingError, "'often'",
                                                    "readonly"):
        Kernels()(device)


def test_a_layout_is_all_but_addresses():
    call = Call((5, 3), (256, 520), ((3, 1), (0, 1)), stream=3)
    moved = Call((5, 3), (4096, 8), ((3, 1), (0, 1)), stream=4)
    assert layout_of(call) == layout_of(moved)
    for other in (Call((5, 4), (256, 520), ((3, 1), (0, 1))),
                  Call((5, 3), (256, 520), ((3, 1), (1, 0))),
                  Call((5, 3), (256, 524), ((3, 1), (0, 1)))):
        assert layout_of(call) != layout_of(other)


# --- on disk


def test_choices_are_kept(device, times, monkeypatch):
    Kernels()(device)
    count = times.count
    assert later(monkeypatch)(device) == PLANS[1]
    with config.override(autotune="readonly"):
        kernels = later(monkeypatch)
        assert kernels(device) == PLANS[1]
    assert (times.count, kernels.compiled) == (count, [])
    (path,) = choices.kept_files()
    content = json.loads(path.read_text())
    assert (content["gpu"], content["format"]) == (MODEL, 1)
    assert content["choices"] == {"kernel": {str(KEY): {
        "choice": str(PLANS[1]),
        "microseconds": {str(PLANS[0]): 10.0, str(PLANS[1]): 7.0,
                         str(PLANS[2]): 30.0}}}}


@pytest.mark.parametrize("change", [
    {"name": "NVIDIA Other"}, {"cuda": (14, 0)}, "kernels"])
def test_another_model_driver_or_version_begins_anew(device, times, monkeypatch,
                                                     change):
    Kernels()(device)
    if change == "kernels":
        monkeypatch.setattr(choices, "_kernels", lambda: "0123456789ab")
    else:
        vars(device).update(change)
    with config.override(autotune="readonly"):
        assert later(monkeypatch)(device) == PLANS[0]


def test_shipped_choices_are_used_and_what_is_measured_here_wins(device, times,
                                                                 monkeypatch):
    Kernels()(device)
    (written,) = choices.export(choices.SHIPPED)
    assert written.name == "NVIDIA_Test_1g_10gb.json"
    assert choices.clear() == 1
    assert later(monkeypatch)(device) == PLANS[1]
    assert choices.kept_files() == []
    Table(MODEL, 13, choices.folder()).keep(
        "kernel", str(KEY), Choice(str(PLANS[2]), {str(PLANS[2]): 1.0}))
    assert later(monkeypatch)(device) == PLANS[2]
    device.name = "NVIDIA Other"
    with config.override(autotune="readonly"):
        assert later(monkeypatch)(device) == PLANS[0]


def test_export_adds_to_what_is_there(device, times, monkeypatch):
    Kernels()(device)
    choices.export(choices.SHIPPED)
    choices.clear()
    later(monkeypatch)(device, key="another")
    (path,) = choices.export(choices.SHIPPED)
    assert set(choices.read(path).choices) == {("kernel", str(KEY)),
                                               ("kernel", "another")}
    monkeypatch.setattr(choices, "_kernels", lambda: "0123456789ab")
    assert choices.export(choices.SHIPPED) == []  # older kernels were measured


def test_where_nothing_was_measured_nothing_is_read(device, times, monkeypatch):
    monkeypatch.setattr(choices, "_kernels", lambda: 1/0)
    with config.override(autotune="readonly"):
        assert Kernels()(device) == PLANS[0]


def test_a_choice_that_is_no_candidate_any_more(device, times, monkeypatch):
    Kernels()(device)
    later(monkeypatch)
    kernels = Kernels((PLANS[0], PLANS[2]))
    with config.override(autotune="readonly"):
        assert kernels(device) == PLANS[0]
    assert kernels.launched == []


@pytest.mark.parametrize("content", [
    "", "{", "[]", "null", '{"format": 2, "gpu": "x", "choices": {}}',
    '{"format": 1, "gpu": "NVIDIA Other", "choices": {"kernel": {}}}',
    '{"format": 1, "gpu": "NVIDIA Test 1g.10gb", "choices": []}',
    '{"format": 1, "gpu": "NVIDIA Test 1g.10gb", "choices": {"kernel": {"k": 3}}}',
    b"\xff\xfe\x00"])
def test_a_damaged_or_foreign_file_is_passed_over(device, times, monkeypatch, content,
                                                  caplog):
    Kernels()(device)
    (path,) = choices.kept_files()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert later(monkeypatch)(device) == PLANS[1]
    assert str(path) in caplog.text
    (path,) = choices.kept_files()  # measured again, and right again
    assert choices.read(path).gpu == MODEL
    assert len(choices.read(path).choices) == 1


def test_a_folder_that_cannot_be_written_to(device, times, folder, caplog):
    (folder / "cache").write_text("a file")
    kernels = Kernels()
    assert kernels(device) == PLANS[1]
    assert "cannot keep choices" in caplog.text
    assert kernels(device) == PLANS[1]
    assert Kernels()(device) == PLANS[1]  # this process remembers


def test_without_the_cache_nothing_is_read_or_written(device, times, monkeypatch):
    Kernels()(device)
    choices_on_disk = choices.kept_files()[0].read_text()
    times.planted[PLANS[2]] = 1.0
    with config.override(cache_disable=True):
        assert later(monkeypatch)(device) == PLANS[2]
        assert Kernels()(device) == PLANS[2]
    assert choices.kept_files()[0].read_text() == choices_on_disk


def test_the_command(device, times, monkeypatch, capsys, folder):
    Kernels()(device)
    assert main(["autotune", "list"]) == 0
    assert f"kernel {KEY}: {PLANS[1]}, 7.0 us (by rule 10.0)" in capsys.readouterr().out
    assert main(["autotune", "export", str(folder / "wheel")]) == 0
    assert capsys.readouterr().out == f"{folder}/wheel/NVIDIA_Test_1g_10gb.json\n"
    assert main(["autotune", "export"]) == 0
    assert main(["autotune", "clear"]) == 0
    assert "removed 1 choices" in capsys.readouterr().out
    assert later(monkeypatch)(device) == PLANS[1]  # as shipped now
    assert main(["autotune", "export"]) == 0
    assert "nothing was measured" in capsys.readouterr().out
    (folder / "file").write_text("")
    later(monkeypatch)(device, key="another")
    assert main(["autotune", "export", str(folder / "file")]) == 2
    assert "cannot be exported" in capsys.readouterr().err


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


def keep(folder, first):
    table = Table(MODEL, 13, folder)
    for k in range(first, first + 20):
        table.keep("kernel", str(k), Choice("plan", {"plan": float(k)}))


def test_processes_lose_nothing(folder):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=keep, args=(folder, 100*k)) for k in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    (path,) = folder.glob("*.json")
    found = choices.read(path).choices
    assert {key for _, key in found} == {str(100*k + i) for k in range(4)
                                         for i in range(20)}


def test_what_another_process_measured_meanwhile_is_taken(device, times, monkeypatch):
    kernels = Kernels()
    kernels(device, key="something else")  # the file is read
    with monkeypatch.context() as patch:
        later(patch)(device)
    count = times.count
    assert kernels(device) == PLANS[1]
    assert times.count == count
