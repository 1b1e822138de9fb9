"""Links between the documents, and to their sections, lead somewhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import nbfused as nf

ROOT = Path(nf.__file__).parents[1]
DOCUMENTS = sorted([path for folder in ("", "benchmarks", "benchmarks/notes")
                    for path in (ROOT / folder).glob("*.md")]
                   + [*(ROOT / "docs").rglob("*.md")])
SOURCES = [path for folder in ("nbfused", "benchmarks", "tests")
           for path in (ROOT / folder).rglob("*.py")]
#: A record that a comment cites: ``benchmarks/notes/rows.md#bulk-copies``.
CITED = re.compile(r"\b(benchmarks/(?:NOTES|notes/\w+)\.md(?:#[\w-]+)?)")

pytestmark = pytest.mark.skipif(not DOCUMENTS, reason="the documents are not installed")


@cache
def anchors(path: Path) -> frozenset[str]:
    """Those of a document's headings, as GitHub makes them."""
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                     for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.M))


def broken(target: str, document: Path) -> bool:
    """Whether a link in `document` leads nowhere."""
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    return not path.exists() or (anchor != "" and anchor not in anchors(path))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_document(path):
    text = re.sub(r"`[^`]*`", "", path.read_text())  # code has brackets of its own
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert not [x for x in links if "://" not in x and broken(x, path)]


def test_records_that_the_code_cites():
    if not any(path.parent.name == "notes" for path in DOCUMENTS):
        pytest.skip("the records are not installed")
    assert not [f"{path}: {cited}" for path in SOURCES if path != Path(__file__)
                for cited in CITED.findall(path.read_text())
                if broken(cited, ROOT / "README.md")]
