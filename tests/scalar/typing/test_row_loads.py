"""Loads of rows, taken out of the function of their elements."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.scalar.language.names import load
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.row_loads import row_loads
from nbfused.scalar.typing.types import specialize

F32, I64 = np.dtype("f4"), np.dtype("i8")


def copied(table, i, index, start):
    return load(table, max(i, 0), index - start)


def two(table, i, index, start, x):
    return load(table, i, index - start)*x + load(table, i + 1, index - start)


def of_a_line(table, i, index, start):
    return load(table, index - start) + i


def by_value(table, i, index, start):
    k = load(table, i, index - start)
    return load(table, int(k), index - start)


def found(function, moving=("index",), x=False):
    types = (F32, I64, I64, I64, *([F32]*x))
    return row_loads(specialize(parse(function), types), ("index",), ("start",), moving)


def test_a_copy_is_told_from_what_computes():
    loads = found(copied)
    assert loads.copied == "table"
    assert loads.places.function.params == ("i",)
    (only,) = loads.loads
    assert (only.raw, only.start, only.rank) == ("table", "start", 1)
    assert not loads.rest.function.body.statements
    assert found(two, x=True).copied is None


def test_each_load_has_its_indices_and_the_rest_reads_them():
    loads = found(two, x=True)
    assert [x.rank for x in loads.loads] == [1, 1]
    assert len(loads.places.results) == 2
    assert loads.rest.function.params[-2:] == tuple(x.name for x in loads.loads)
    assert "index" not in {a for s in loads.rest.function.body.statements
                           for a in s.args}


def test_a_line_has_no_rows():
    (only,) = found(of_a_line).loads
    assert only.rank == 0


@pytest.mark.parametrize("moving", [("index", "i"), ("index",)])
def test_rows_that_vary_from_element_to_element_are_none(moving):
    loads = found(copied, moving)
    assert (loads is None) == ("i" in moving)


def test_a_row_that_a_loaded_element_says_stays_in_the_function():
    loads = found(by_value)
    assert len(loads.loads) == 1
    kept = [s.op for s in loads.rest.function.body.statements]
    assert kept.count("load") == 1


def test_other_columns_are_no_row():
    assert row_loads(specialize(parse(copied), (F32, I64, I64, I64)), ("index",), (),
                     ("index",)) is None
