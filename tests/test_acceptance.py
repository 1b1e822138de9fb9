"""docs/acceptance.md and the tests that it names say the same."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import nbfused as nf

ROOT = Path(nf.__file__).parents[1]
LIST = ROOT / "docs" / "acceptance.md"
TEST = re.compile(r"^ *def test_(\w+)", re.MULTILINE)
IDS = re.compile(r"(?:[cblrk]\d\d_)+")

pytestmark = pytest.mark.skipif(not LIST.exists(),
                                reason="the documents are not installed")


class Line(NamedTuple):
    """A row of the list."""

    behaviour: str
    check: str
    priority: str
    tests: str


@cache
def rows(cells: int) -> dict[str, tuple[str, ...]]:
    """Rows of the tables that have so many cells beside the ID."""
    found = {}
    for row in re.findall(r"^\| ([CBLRK]\d\d \| .*) \|$", LIST.read_text(), re.M):
        name, *rest = row.split(" | ")
        if len(rest) == cells:
            assert name not in found, f"{name} is listed twice"
            found[name] = tuple(rest)
    return found


def lines() -> dict[str, Line]:
    return {name: Line(*cells) for name, cells in rows(4).items()}


def ids_of(test: str) -> list[str]:
    """Those that a test's name begins with: ``l02_l37_compiled`` has two."""
    found = IDS.match(test)
    return found[0].upper().rstrip("_").split("_") if found else []


@cache
def names_in(folder: str) -> frozenset[str]:
    """Names of all tests below a folder, without ``test_``."""
    return frozenset(name for path in (ROOT / folder).rglob("test_*.py")
                     for name in TEST.findall(path.read_text()))


def test_the_list_is_whole():
    assert {name[0] for name in lines()} == set("CBLRK")
    for name, line in lines().items():
        assert line.priority in ("P0", "P1", "P2", "N/A"), name
        assert line.behaviour, name
        assert line.check, name


def test_every_acceptance_test_begins_with_a_line_of_the_list():
    strays = [name for name in names_in("tests/acceptance")
              if not ids_of(name) or not {*ids_of(name)} <= {*lines()}]
    assert not strays


def test_a_line_has_a_test_or_stands_among_those_without():
    shown = {line for name in names_in("tests") for line in ids_of(name)}
    without = {*rows(1)}
    needed = {name for name, line in lines().items() if line.priority in ("P0", "P1")}
    assert needed <= shown | without
    assert without <= {*lines()}
    assert not without & shown, "they have tests: take them out of the table"


def test_the_tests_that_a_line_names_exist():
    for name, line in lines().items():
        for test in re.findall(r"`(\w+)`", line.tests):
            assert test in names_in("tests"), f"{name}: no test_{test}"
            assert name in ids_of(test), f"{name}: test_{test} is of another line"
        assert "`" in line.tests or name in rows(1), f"{name} names no test"
