"""Choices on disk: kept, shipped, exported, and shared by processes."""

from __future__ import annotations

import json
import multiprocessing

import pytest

from nbfused.__main__ import main
from nbfused.config import config
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning.choices import Choice, Table
from tests.cuda.tuning.planted import KEY, MODEL, PLANS, Kernels, later


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
    assert (content["gpu"], content["format"]) == (MODEL, 2)
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
    "", "{", "[]", "null", '{"format": 1, "gpu": "x", "choices": {}}',
    '{"format": 2, "file": NAME, "gpu": "NVIDIA Other", "choices": {"kernel": {}}}',
    '{"format": 2, "file": NAME, "gpu": "NVIDIA Test 1g.10gb", "choices": []}',
    '{"format": 2, "file": NAME, "gpu": "NVIDIA Test 1g.10gb", '
    '"choices": {"kernel": {"k": 3}}}',
    '{"format": 2, "file": "NVIDIA_Test_1g_10gb.cuda12.json", '
    '"gpu": "NVIDIA Test 1g.10gb", "choices": {}}',
    b"\xff\xfe\x00"])
def test_a_damaged_or_foreign_file_is_passed_over(device, times, monkeypatch, content,
                                                  caplog):
    Kernels()(device)
    (path,) = choices.kept_files()
    path.write_bytes(content if isinstance(content, bytes) else
                     content.replace("NAME", json.dumps(path.name)).encode())
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
    assert main(["autotune", "list"]) == 0
    assert "no choices: none came with nbfused, none are in" in capsys.readouterr().out
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
