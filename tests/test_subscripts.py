"""Subscripts of contractions, against numpy.einsum."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.errors import ShapeError
from nbfused.specs.shapes import contract_shapes
from nbfused.specs.subscripts import parse_subscripts


@pytest.mark.parametrize(("subscripts", "a", "b"), [
    ("mk,kn->mn", (2, 3), (3, 4)),
    ("km,nk->nm", (3, 2), (4, 3)),
    ("m,n->mn", (2,), (4,)),
    ("k,k->", (5,), (5,)),
    ("mk,k->m", (2, 3), (3,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("abc,cbd->ad", (2, 3, 4), (4, 3, 5)),
    ("...mk,...kn->...mn", (7, 1, 2, 3), (5, 3, 4)),
    ("...mk,kn->...mn", (7, 5, 2, 3), (3, 4)),
    ("mk,...kn->...mn", (2, 3), (5, 3, 4)),
    ("k...,kn...->n...", (3, 5), (3, 4, 2, 1)),
    (" m k , k n -> m n ", (2, 3), (3, 4)),
    ("...,...->...", (3, 1), (4,)),
])
def test_shape_is_einsums(subscripts, a, b):
    expected = np.einsum(subscripts, np.zeros(a), np.zeros(b)).shape
    assert contract_shapes(subscripts, a, b) == expected


def test_out_axes_permute_the_result():
    shape = contract_shapes("bmk,bkn->bmn", (2, 3, 4), (2, 4, 5), (), (2, 0, 1))
    assert shape == np.zeros((2, 3, 5)).transpose(2, 0, 1).shape


def test_roles():
    form = parse_subscripts("...bmk,b...kn->n...bm").bind((7, 2, 3, 4), (2, 1, 4, 5))
    assert form.batch == ("...0", "b")
    assert (form.m, form.n, form.k) == (("m",), ("n",), ("k",))
    assert form.extents == {"...0": 7, "b": 2, "m": 3, "k": 4, "n": 5}


def test_batch_of_one_operand_is_a_row_axis():
    form = parse_subscripts("...k,kn->...n").bind((7, 2, 4), (4, 5))
    assert (form.batch, form.m) == ((), ("...0", "...1"))


@pytest.mark.parametrize(("subscripts", "words"), [
    ("mk,kn", "two operands and a result"),
    ("mk->m", "two operands"),
    ("a,b,c->abc", "two operands"),
    ("mm,mn->n", "twice"),
    ("mk,kn->mm", "twice"),
    ("mk,kn->n", "sum that operand over it first"),
    ("mk,kn->mnz", "neither operand"),
    ("m1,1n->mn", "expected letters"),
    ("...mk,kn->mn", r"write '\.\.\.' in the result"),
    ("mk,kn->...mn", "neither operand"),
])
def test_malformed(subscripts, words):
    with pytest.raises(ShapeError, match=words):
        parse_subscripts(subscripts)


@pytest.mark.parametrize(("subscripts", "a", "b", "words"), [
    ("mk,kn->mn", (2, 3), (4, 5), r"'k' .* is 3 in 'a' .* and 4 in 'b'"),
    ("mk,kn->mn", (2, 3, 3), (3, 5), "3 dimensions"),
    ("...mk,...kn->...mn", (3,), (3, 5), "at least 2"),
    ("...mk,...kn->...mn", (2, 2, 3), (4, 3, 5), "batch axis"),
    ("mk,kn->mn", (2, 1), (3, 5), "'k'"),
])
def test_shapes_that_do_not_fit(subscripts, a, b, words):
    with pytest.raises(ShapeError, match=words):
        contract_shapes(subscripts, a, b)


def test_extra_must_broadcast_to_the_result():
    assert contract_shapes("mk,kn->mn", (2, 3), (3, 4), [(4,), (2, 1), ()]) == (2, 4)
    with pytest.raises(ShapeError, match="input 2"):
        contract_shapes("mk,kn->mn", (2, 3), (3, 4), [(2,)])
    with pytest.raises(ShapeError, match="'bias'"):
        contract_shapes("mk,kn->mn", (2, 3), (3, 4), [(1, 1, 4)],
                        names=("a", "b", "bias"))
