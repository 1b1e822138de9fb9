"""How results are shown: readable in a terminal, escaped HTML in a notebook."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import nbfused as nf
from nbfused.registry.info import BackendInfo, Backends
from nbfused.support.display import SourceText, html_table, html_text, text_table


class Cells(HTMLParser):
    """The text of each cell; fails on a tag that is not closed in its place."""

    def __init__(self, html):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert attrs == []
        self.open.append(tag)
        if tag in ("td", "th", "pre", "caption"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells[-1] += data


def cells(shown):
    return Cells(shown._repr_html_()).cells


def test_tables_are_escaped():
    html = html_table(("a<b",), [("<script>",), (1,)], caption="x & y")
    assert "<script>" not in html
    assert Cells(html).cells == ["x & y", "a<b", "<script>", "1"]
    assert Cells(html_text("a<b>\n  c")).cells == ["a<b>\n  c"]


def test_columns_are_as_wide_as_their_cells():
    assert text_table(("a", "bb"), [(100, 2), (3, "x")]) == (
        "a    bb\n100  2\n3    x")


def test_backends():
    found = Backends(x=BackendInfo("x", False, False, "no <device>", ()))
    assert cells(found) == ["backend", "state", "x", "not available: no <device>"]
    assert cells(nf.backends())[2] == "cpu"


def test_variables():
    x = nf.Variable(np.array([1.5, 2.5]), requires_grad=True)
    assert cells(x) == ["shape", "dtype", "device", "on the tape", "(2,)", "float64",
                        "cpu", "requires_grad", "array([1.5, 2.5])"]
    assert "Map" in repr(x + 1) or "add" in repr(x + 1)
    assert cells(x * 2)[7] == repr((x * 2).grad_fn)
    assert cells(nf.Variable(np.zeros(1)))[7] == "constant"


def test_launches():
    with nf.trace_launches() as launches:
        assert repr(launches) == "no launches"
        nf.ops.swish(np.zeros((4, 5), np.float32))
    assert repr(launches) == (
        "   kind  name   extents  backend  bytes\n"
        "0  Map   swish  20       cpu      160")
    assert cells(launches)[6:] == ["0", "Map", "swish", "20", "cpu", "160"]
    assert launches == [launches[0]]


@nf.elementwise
def smaller(x, y):
    return x if x < y else y


@nf.reduction(combine="sum")
def squares(x):
    return x * x


@nf.fuse
def fused(x):
    return np.exp(x)


def kernel():
    return nf.ElementwiseKernel("float32 x", "float32 y", "y = x < 0 ? 0 : x", "clip")


@pytest.mark.parametrize("made", [smaller, squares, fused, kernel()],
                         ids=["elementwise", "reduction", "fuse", "ElementwiseKernel"])
def test_sources(made):
    if made is fused:
        fused(np.ones(3))
    text = made.source()
    assert isinstance(text, str)
    assert text.count("\n") > 1
    assert repr(text) == str(text)
    assert cells(text) == [text]
    again = pickle.loads(pickle.dumps(text))
    assert (again, type(again)) == (text, SourceText)


def test_sources_of_threads():
    @nf.rawkernel
    def store(y):
        if nf.grid(1) < 3:
            y[nf.grid(1)] = 1.0

    assert repr(store.source("primal", np.zeros(3))).startswith("def store(")
