"""Progress of long work: a bar or lines on a terminal, nothing in a pipe."""

from __future__ import annotations

import io

import pytest

from nbfused.support import progress as module
from nbfused.support.progress import progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def work(stream):
    with progress("building", 3, stream) as advance:
        for note in ("a", "b", "[/c]"):  # no markup
            advance(note)
    return stream.getvalue()


def test_nothing_in_a_pipe():
    assert work(io.StringIO()) == ""


def test_a_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    shown = work(Terminal())
    assert "building" in shown
    assert "3/3" in shown
    assert "[/c]" in shown


@pytest.fixture
def no_rich(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)


def test_lines_without_rich_are_few(no_rich):
    assert work(Terminal()) == "building 3/3, 0 s  [/c]\n"


def test_lines_without_rich_come_in_time(no_rich, monkeypatch):
    monkeypatch.setattr(module, "PERIOD", 0.0)
    assert [line.split(",")[0] for line in work(Terminal()).splitlines()] == [
        "building 1/3", "building 2/3", "building 3/3"]


def test_no_steps_show_nothing():
    stream = Terminal()
    with progress("building", 0, stream):
        pass
    assert stream.getvalue() == ""
