"""The rows of the fuzzer name every function of the table of NumPy's functions."""

from __future__ import annotations

import re

from nbfused.numpy_functions.refused import REFUSED
from nbfused.registry.operations import NUMPY
from tests.fuzz.catalogue import EXPRESSIONS, STATEMENTS
from tests.fuzz.flavors import FLAVORS
from tests.fuzz.generator import Draft
from tests.fuzz.numpy_rows import LEFT_OUT

NAME = re.compile(r"np\.([a-z_0-9.]*[a-z_0-9])")


def named(texts):
    return {name for text in texts for name in NAME.findall(text)}


def test_every_function_has_a_row():
    NUMPY.fill()
    table = {name.removeprefix("numpy.") for name in NUMPY} - REFUSED.keys()
    drawn = named(row.text for row in (*EXPRESSIONS, *STATEMENTS))
    assert table - drawn - LEFT_OUT.keys() == set()
    assert LEFT_OUT.keys() & drawn == set()
    assert LEFT_OUT.keys() - table == set()


def test_programs_have_many_of_them():
    """Otherwise rows would be dropped for what they lack."""
    import numpy as np

    texts = [Draft(FLAVORS["table"], np.random.default_rng(k)).finish().text
             for k in range(40)]
    assert len(named(texts)) > 60
