"""The built site: it asks no other host for anything, and its links lead somewhere."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).resolve().parents[2] / "build/docs"
#: Without a template that the theme keeps among its files.
PAGES = sorted(path for path in SITE.rglob("*.html")
               if not path.is_relative_to(SITE / "_static"))

#: The gallery's programs.
PROGRAMS = sorted((SITE.parents[1] / "examples/gallery").glob("plot_*.py"))

#: Attributes whose address a browser fetches without being asked, by element.
FETCHED = {"audio": "src", "embed": "src", "iframe": "src", "image": "href",
           "img": "src", "input": "src", "object": "data", "script": "src",
           "source": "src", "track": "src", "use": "href", "video": "src"}
#: Links in a page's head that are no more than a statement.
STATED = {"author", "canonical", "help", "index", "license", "next", "prev", "search"}
IN_CSS = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
#: Addresses in scripts that are not fetched: a namespace, the text of a warning.
IN_SCRIPTS = {"http://www.w3.org/2000/svg",
              "https://pydata-sphinx-theme.readthedocs.io/en/stable/user_guide/"
              "version-dropdown.html"}
COMMENTS = re.compile(r"/\*.*?\*/|(?<![:\"'\w])//[^\n]*", re.S)


class Page(HTMLParser):
    """The addresses that a page fetches, those that it links to, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.style = False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses of an element."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and not {*given.get("rel", "").split()} & STATED:
            self.fetched.append(given.get("href", ""))
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])
        self.fetched += [part.split()[0] for part in given.get("srcset", "").split(",")
                         if part.strip()]
        self.fetched += IN_CSS.findall(given.get("style", ""))
        self.style = tag == "style"

    def handle_data(self, data: str) -> None:
        """Collect the addresses of a style sheet inside the page."""
        if self.style:
            self.fetched += IN_CSS.findall(data)


@cache
def page(path: Path) -> Page:
    return Page(path)


def is_foreign(address: str) -> bool:
    """Whether fetching it asks another host."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def leads_nowhere(link: str, path: Path) -> bool:
    """Whether a link inside the site has no file, or no anchor in it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not there.is_file():
        return True
    if not parts.fragment or there.suffix != ".html":
        return False
    return unquote(parts.fragment) not in page(there).anchors


def test_there_are_pages():
    """That the others look at: the landing page, a reference page, a picture."""
    names = {str(path.relative_to(SITE)) for path in PAGES}
    assert {"index.html", "reference/ops/normalization.html", "gallery/index.html",
            "gallery/plot_mandelbrot.html", "search.html"} <= names, "run make docs"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_a_program_of_the_gallery_has_a_page_with_a_picture(program):
    assert (SITE / "gallery" / f"{program.stem}.html").is_file(), "run make docs"
    assert (SITE / "_images" / f"sphx_glr_{program.stem}_001.png").is_file()


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(SITE)))
def test_a_page_asks_no_other_host(path):
    assert not [address for address in page(path).fetched if is_foreign(address)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(SITE)))
def test_links_of_a_page_lead_somewhere(path):
    assert not [link for link in page(path).links if leads_nowhere(link, path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(SITE)))
def test_what_a_page_fetches_is_there(path):
    assert not [address for address in page(path).fetched
                if not is_foreign(address) and not address.startswith("data:")
                and leads_nowhere(address, path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(SITE)))
def test_no_anchor_is_there_twice(path):
    anchors = page(path).anchors
    assert not {anchor for anchor in anchors if anchors.count(anchor) > 1}


def test_style_sheets_ask_no_other_host():
    assert not [(path.name, address) for path in SITE.rglob("*.css")
                for address in IN_CSS.findall(path.read_text()) if is_foreign(address)]


def test_scripts_name_no_other_host():
    """But in comments."""
    assert not [(path.name, address) for path in SITE.rglob("*.js")
                for address in re.findall(r"https?://[^\s\"'`)]+",
                                          COMMENTS.sub("", path.read_text()))
                if path.name != "searchindex.js" and address not in IN_SCRIPTS]


def test_signatures_of_operations_are_those_of_their_calls():
    """Of decorated functions: their parameters, and the keywords of every call."""
    text = (SITE / "reference/ops/reductions.html").read_text()
    entry = re.search(r'<dt[^>]* id="nbfused.ops.sum">(.*?)</dt>', text, re.S)
    assert entry is not None
    shown = re.sub(r"<[^>]*>|\s", "", entry[1]).removesuffix("#")
    assert shown == ("nbfused.ops.sum(x,*,axis=None,keepdims=False,dtype=None,"
                     "out=None,initial=&lt;novalue&gt;,where=&lt;novalue&gt;)")


def test_types_lead_to_other_projects():
    """By the inventories that were written from lists."""
    links = page(SITE / "reference/arrays.html").links
    assert "https://docs.python.org/3/library/functions.html#int" in links
