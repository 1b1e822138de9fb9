"""`explain` of a fused function: what is launched, and what is not done."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

X = np.random.default_rng(0).normal(size=(64, 32)).astype("f4")


@nf.fuse
def _scaled(x, w, s):
    hidden = np.tanh(x @ w * s)
    return nf.ops.softmax(hidden), x * 2 + 1


def test_launches_are_those_of_a_call():
    found = _scaled.explain(X, X.T, 0.5)
    with nf.trace_launches() as launches:
        _scaled(X, X.T, 0.5)
    assert [(one.kind, one.name) for one in found] == [
        (one.kind, one.name) for one in launches]
    assert sorted(name for one in found for name in one.operations) == [
        "add", "contract_identity", "multiply", "multiply", "softmax", "tanh"]


def test_bytes_are_those_of_the_arrays():
    found = nf.fuse(lambda x: x * 2 + 1).explain(X)
    assert (len(found), found.operations) == (1, 2)
    assert found.bytes == found[0].bytes == 2 * X.nbytes
    assert found.unfused_bytes == 4 * X.nbytes


def test_nothing_is_changed():
    @nf.fuse
    def update(x):
        x *= 2

    x = X.copy()
    with nf.trace_launches() as launches:
        update.explain(x)
    assert not launches
    np.testing.assert_array_equal(x, X)


def test_calls_of_functions_are_shown():
    found = nf.fuse(lambda x: np.sort(x + 1) * 2).explain(X)
    assert [(one.kind, one.name) for one in found] == [
        ("Map", "fused"), ("call", "numpy.sort"), ("Map", "fused")]
    assert [one.reason for one in found.boundaries] == [
        "numpy.sort is called in Python"] * 2


def test_it_is_shown_as_a_table():
    found = _scaled.explain(X, X.T, 0.5)
    assert found.summary in repr(found)
    assert "contract" in repr(found)
    html = found._repr_html_()
    assert html.count("<rect") == len(found)
    assert html.count("<path") == len(found.boundaries)
    ElementTree.fromstring(html)  # well-formed
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_arguments_without_arrays_are_refused():
    with pytest.raises(KernelTypeError, match="no argument is an array"):
        _scaled.explain(1.0, 2.0, 3.0)
