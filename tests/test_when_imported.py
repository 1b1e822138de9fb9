"""Functions that are called once a module is imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from nbfused.support.forks import when_imported


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    (tmp_path / "awaited_module.py").write_text("state = 'imported'\n")
    yield "awaited_module"
    sys.modules.pop("awaited_module", None)


def test_a_function_waits_for_the_import(module):
    seen = []
    when_imported(module, lambda: seen.append(sys.modules[module].state))
    when_imported(module, lambda: seen.append("second"))
    assert seen == []
    assert find_spec(module) is not None  # a question imports nothing
    assert seen == []
    found = __import__(module)
    assert seen == ["imported", "second"]
    assert type(found.__spec__.loader).__name__ == "SourceFileLoader"
    when_imported(module, lambda: seen.append("at once"))
    assert seen == ["imported", "second", "at once"]


def test_a_module_that_is_not_there_stays_away():
    when_imported("no_such_module_at_all", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        __import__("no_such_module_at_all")
