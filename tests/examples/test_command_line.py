"""``python -m examples``: one command line and one progress bar for all programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import examples
import nbfused as nf
from examples.__main__ import main
from examples.programs import Program, programs

ROOT = Path(examples.__file__).parents[1]


def test_the_programs_are_listed(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    for name, program in programs().items():
        assert f"  {name} " in printed
        assert program.title in printed


@pytest.mark.parametrize("program", programs().values(), ids=lambda p: p.name)
def test_each_says_what_it_is_and_runs_elsewhere(program):
    assert program.title
    assert program.constants["device"].value == "cpu"
    assert len(program.constants) > 1


def test_the_readme_names_programs_that_exist():
    named = re.findall(r"python -m examples (\w+)", (ROOT / "README.md").read_text())
    assert len(named) > 3
    assert {*named} <= {*programs(), "all"}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A gallery of two small programs."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("rich")
    pytest.importorskip("sklearn")
    for name, first in {"one": "COUNT = 3  # of steps", "two": "NOISE = 0.5  # loud"
                        }.items():
        (tmp_path / f"plot_{name}.py").write_text(
            f'"""\nProgram {name}\n===\n"""\nimport matplotlib.pyplot as plt\n{first}\n'
            f'DEVICE = "cpu"  # where\nprint({first.split()[0]}, DEVICE)\n'
            f'for step in range(4):\n    pass\nplt.plot([1, 2])\nplt.show()\n')
    monkeypatch.setattr("examples.programs.GALLERY", tmp_path)
    return tmp_path


def test_constants_are_options(small, capsys):
    assert main(["one", "--count", "7", "--out", str(small / "made" / "here")]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("7 cpu\n")
    assert printed.err == ""  # no bar where there is no terminal
    picture = small / "made" / "here" / "one.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in printed.out


def test_several_programs_share_what_both_have(small, capsys):
    assert main(["all", "--device", "rocm:1", "--out", str(small)]) == 0
    printed = capsys.readouterr().out
    assert "3 rocm:1" in printed
    assert "0.5 rocm:1" in printed
    assert {path.name for path in small.glob("*.png")} == {"one.png", "two.png"}
    with pytest.raises(SystemExit):
        main(["one", "two", "--count", "7"])
    assert "--count" in capsys.readouterr().err


def test_a_terminal_has_one_bar(small, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["one", "two", "--out", str(small)])
    shown = capsys.readouterr().err
    assert "one" in shown
    assert "two" in shown
    assert "100 %" in shown


@pytest.mark.parametrize(("words", "message"), [
    (["three"], "expected all or one of one, two, got 'three'"),
    (["one", "--count", "0"], "--count: expected at least 1, got '0'"),
    (["one", "--count", "-1"], "--count: expected at least 1, got '-1'"),
    (["two", "--noise", "much"], "--noise: invalid float value: 'much'"),
])
def test_wrong_words_are_refused(small, words, message, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert message in capsys.readouterr().err


def test_what_is_missing_is_named(small, monkeypatch, capsys):
    monkeypatch.setattr("examples.__main__.find_spec", lambda name: None)
    assert main(["one"]) == 2
    assert "pip install 'nbfused[demo]'" in capsys.readouterr().out


def test_progress_is_that_of_the_loops_outside_of_functions(tmp_path):
    path = tmp_path / "plot_loops.py"
    path.write_text("total = 0\nfor step in range(4):\n    total += step\n"
                    "for word in 'ab':\n    pass\n"
                    "def f():\n    for k in range(9):\n        pass\nf()\n"
                    "for step in range(2):\n    total += 1\n")
    shares = []
    assert Program(path).run(shares.append).total == 8
    assert shares == [0.125, 0.25, 0.375, 0.5, 0.75, 1.0]


def test_an_unknown_constant_is_refused(small):
    with pytest.raises(nf.errors.RangeError, match=r"no constant 'size';.*count, dev"):
        programs()["one"].run(size=3)
