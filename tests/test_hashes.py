"""``benchmarks.hashes``: which kernels a change has changed."""

import numpy as np
import pytest

import nbfused as nf
from benchmarks import hashes

X = np.ones((8, 8), np.float32)
OLD = [("cpu", "softmax", 0, "aa"), ("cpu", "softmax", 1, "bb"),
       ("cpu", "sum", 0, "cc")]


def test_what_differs_is_told():
    new = [("cpu", "softmax", 0, "aa"), ("cpu", "sum", 0, "dd"),
           ("cpu", "max", 0, "ee")]
    assert hashes.compare(OLD, OLD) == []
    assert hashes.compare(OLD, new) == [
        "cpu: max [0] new", "cpu: softmax [1] gone", "cpu: sum [0] differs"]


@pytest.fixture
def few(monkeypatch):
    """One row and no conformance suite; the row's function can be set."""
    def choose(function):
        rows = {"row": lambda: function(X)}
        monkeypatch.setattr(hashes, "_rows", lambda device: rows)
        monkeypatch.setattr(hashes, "_conformance", dict)

    return choose


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "cpu"])
def test_another_function_has_other_hashes_and_another_name_has_not(few, target):
    found = []
    for body, name in (("2*x", "one"), ("2*x", "two"), ("3*x", "one")):
        few(nf.elementwise(_function(body, name)))
        found.append(hashes.record([target], texts=True))
    (line,) = found[0]
    assert line[:3] == (target, "row", 0)
    if target != "cpu":  # whose kernels have no names
        assert found[1] == found[0]
    assert found[2] != found[0]
    assert found[2][0][:3] == found[0][0][:3]


def _function(body, name):
    names = {}
    exec(f"def {name}(x): return {body}", names)
    return names[name]


def test_a_file_is_written_and_compared_with(few, tmp_path, capsys):
    few(nf.ops.swish)
    path = tmp_path / "before.tsv"
    assert hashes.main(["--targets", "cpu", "--output", str(path)]) == 0
    assert hashes.main(["--targets", "cpu", "--against", str(path)]) == 0
    assert "no kernel has changed" in capsys.readouterr().out
    path.write_text(path.read_text().replace("\t0\t", "\t1\t"))
    assert hashes.main(["--targets", "cpu", "--against", str(path)]) == 1
    assert "cpu: row [1] gone" in capsys.readouterr().out
