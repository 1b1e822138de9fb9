"""The outline of the heart is found again."""

from __future__ import annotations

import numpy as np
import pytest

from examples import bezier


def test_the_corners_and_handles_are_recovered(device, tmp_path):
    picture = None
    if device == "cpu":
        pytest.importorskip("matplotlib")
        picture = tmp_path / "pictures" / "bezier.png"
    found = bezier.run(count=60, steps=150, noise=0.01, device=device, picture=picture)
    assert found.loss[-1] < 1.1 * 0.01**2 < found.loss[0] / 100
    np.testing.assert_allclose(found.params, bezier.HEART, atol=0.04)
    if picture is not None:
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words", [["--count", "0"], ["--steps", "-1"], ["--count", "a"]])
def test_counts_below_one_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        bezier.main(words)
    assert f"{words[0]}: expected at least 1" in capsys.readouterr().err


def test_pieces_meet_where_the_points_say():
    pieces = bezier.outline(bezier.HEART, np.linspace(0, 1, 5))
    np.testing.assert_array_equal(pieces[:, 0], bezier.HEART[::3])
    np.testing.assert_array_equal(pieces[:, -1], np.roll(bezier.HEART[::3], -1, axis=0))
    # de Casteljau at one half: (a + 3b + 3c + d) / 8
    np.testing.assert_allclose(
        pieces[0, 2], np.array([1, 3, 3, 1]) @ bezier.HEART[:4] / 8)


def test_the_program_says_how_close_it_came(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    bezier.main(["--count", "20", "--steps", "30", "--picture",
                 str(tmp_path / "bezier.png")])
    assert "loss" in capsys.readouterr().out
    assert (tmp_path / "bezier.png").exists()
