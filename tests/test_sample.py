"""Random cells beside other libraries: what is drawn, and what is said of it."""

from __future__ import annotations

import json
from math import prod

import numpy as np
import pytest

import nbfused as nf
from benchmarks import sample
from benchmarks.peers import draw as drawing
from benchmarks.peers.draw import draw
from benchmarks.peers.inputs import inputs_of
from benchmarks.peers.words import of_nbfused
from benchmarks.peers.workload import Input, Workload

#: Cells of seed 0 that NumPy can do, and check: forward, and of its own functions.
WORDS = ["--seed", "0", "--count", "40", "--only",
         r"^(add|multiply|maximum) [^,]* float(32|64)$"]


@pytest.fixture
def small(monkeypatch):
    """Draw small cells, and compare them with NumPy alone."""
    monkeypatch.setitem(drawing.MOST, "cpu", (1 << 17, 1 << 20))
    monkeypatch.setitem(sample.PEERS, "cpu", ("numpy",))


@pytest.mark.usefixtures("small")
def test_a_sample_checks_what_it_times(tmp_path, capsys, monkeypatch):
    table = tmp_path / "sample.json"
    assert sample.main([*WORDS, "--json", str(table)]) == 0
    rows = json.loads(table.read_text())
    assert len(rows) >= 2
    assert all(r["ratio"] > 0 and r["best"][0] == "numpy" for r in rows)
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith(f"seed 0: {len(rows)} cells of {len(rows)}; median ")
    assert [line.split()[0] for line in said[1:-1]] == [
        r["name"].split()[0] for r in sorted(rows, key=lambda r: r["ratio"])]
    monkeypatch.setitem(of_nbfused.FAMILIES, "map2", lambda x, y, function: x)
    assert sample.main(WORDS) == 1
    assert "wrong: " in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_what_we_refuse_is_a_fault_and_the_rest_is_measured(capsys, monkeypatch):
    def refuse(x, y, function):
        raise NotImplementedError("not here\nat length")

    monkeypatch.setitem(of_nbfused.FAMILIES, "map2", refuse)
    assert sample.main(WORDS) == 1
    assert "cannot do it: not here\n" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_answers_are_checked_without_a_clock(capsys, monkeypatch):
    monkeypatch.setattr(sample, "clock", None)
    words = [*WORDS, "--check"]
    assert sample.main(words) == 0
    (said,) = capsys.readouterr().out.splitlines()
    checked, _, cells, _ = said.replace("cells of", "of").split()
    assert checked == cells
    assert int(cells) >= 2

    def one_is_wrong(x, y, function):
        made = getattr(nf.ops, function)(x, y)
        made.reshape(-1)[-1] *= 1.1
        return made

    monkeypatch.setitem(of_nbfused.FAMILIES, "map2", one_is_wrong)
    assert sample.main(words) == 1
    assert capsys.readouterr().out.count("wrong: ") == int(cells)


def test_samples_that_cannot_be_made_say_why_at_once(tmp_path, capsys):
    for words, said in ((["--only", "nope"], "no cell of seed 0 has such a name"),
                        (["--json", str(tmp_path / "no" / "x")], "no such folder")):
        with pytest.raises(SystemExit):
            sample.main(["--count", "3", *words])
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cells_are_of_all_kinds_and_bounded(device):
    drawn = [draw(np.random.default_rng((7, k)), device) for k in range(600)]
    assert drawn[5] == draw(np.random.default_rng((7, 5)), device)
    assert {w.family for w in drawn} == set(drawing._FAMILIES)
    most, flop = drawing.MOST[device]
    for work in drawn:
        sizes = [prod(x.shape) for x in work.inputs]
        if work.unit == "B" and work.family not in ("take", "cross_entropy"):
            assert max(sizes) >= drawing.LEAST
        assert max(sizes) <= 5*max(most, drawing.LEAST)
        if work.unit == "FLOP":
            assert work.work <= 2*64*2*flop
    layouts = {x.layout for w in drawn for x in w.inputs}
    assert layouts == {"", "strided", "broadcast", "unaligned"}
    assert any(x.transposed for w in drawn for x in w.inputs)
    assert {w.both for w in drawn} == {True, False}
    shapes = [w.inputs[0].shape for w in drawn]
    assert any(1 in s for s in shapes)
    assert any(s[-1] < 8 < len(s)*100 < s[0] for s in shapes)
    assert any(len(s) == 2 and s[0] < 8 for s in shapes)


@pytest.mark.parametrize(("layout", "strides", "offset"), [
    ("strided", (48, 8), 0), ("broadcast", (0, 4), 0), ("unaligned", (24, 4), 4)])
def test_inputs_are_laid_out_as_they_say(layout, strides, offset):
    work = Workload("", "map", (Input((5, 6), layout=layout),), "float32", 1.0)
    (x,) = inputs_of(work, "cpu")
    assert x.shape == (5, 6)
    assert x.strides == strides
    base = x if x.base is None else x.base
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    assert x.ctypes.data - base.ctypes.data == offset
