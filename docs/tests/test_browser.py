"""The built site in a browser: links, search, console, dark mode, narrow screens.

``make docs-browser`` runs this with the Chromium that is installed, or the one that
CHROMIUM names.  Pictures of some pages go to ``build/screenshots``.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

BUILD = Path(__file__).resolve().parents[2] / "build"
SITE, SCREENSHOTS = BUILD / "docs", BUILD / "screenshots"
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(
    shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHOWN = {"index": "index.html", "reference": "reference/ops/normalization.html",
         "language": "reference/language.html", "gallery": "gallery/index.html",
         "picture": "gallery/plot_mandelbrot.html", "kernels": "kernels.html"}


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of a server of the built site."""
    assert (SITE / "index.html").exists(), "run make docs"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "no Chromium on the path: apt install chromium, or set CHROMIUM"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM)
        yield found
        found.close()


class Watch:
    """What goes wrong on a page: errors, and requests that fail or leave the site."""

    def __init__(self, page: Page, site: str) -> None:
        self.wrong: list[str] = []
        page.on("console", lambda m: m.type == "error" and self.note(m.text))
        page.on("pageerror", lambda error: self.note(str(error)))
        page.on("requestfailed", lambda r: self.note(f"failed: {r.url}"))
        page.on("response", lambda r: r.status >= 400 and self.note(
            f"{r.status}: {r.url}"))
        page.on("request", lambda r: r.url.startswith((site, "data:")) or self.note(
            f"another host: {r.url}"))

    def note(self, text: str) -> None:
        """Keep what went wrong."""
        self.wrong.append(text)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=WIDE, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


def overflow(page: Page) -> int:
    """By how many pixels a page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")


def widest(page: Page) -> list[str]:
    """The elements that stick out."""
    return page.evaluate("""[...document.querySelectorAll('main *')].filter(
        e => e.getBoundingClientRect().right > innerWidth).slice(0, 5).map(
        e => e.outerHTML.slice(0, 100))""")


def test_every_page_opens_and_fits(page: Page, site: str) -> None:
    """All that links lead to, from the landing page on; also on a narrow screen."""
    watch, wrong = Watch(page, site), []
    seen = [site + "index.html"]
    for address in seen:  # which grows
        page.set_viewport_size(WIDE)
        page.goto(address)
        links = page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")
        pages = [urldefrag(link)[0] for link in links if link.startswith(site)]
        seen += dict.fromkeys(p for p in pages if p.endswith(".html") and p not in seen)
        wrong += [f"{address}: {text}" for text in watch.wrong]
        watch.wrong.clear()
        for size in (WIDE, NARROW):
            page.set_viewport_size(size)
            if by := overflow(page):
                wrong.append(f"{address}: {by} px too wide at {size['width']}: "
                             f"{widest(page)}")
    assert not wrong
    names = {str(path.relative_to(SITE)) for path in SITE.rglob("*.html")
             if path.parent.name != "_static"}
    assert {address.removeprefix(site) for address in seen} >= names - {"search.html"}


def test_search_finds_an_operation(page: Page, site: str) -> None:
    watch = Watch(page, site)
    page.goto(site)
    page.keyboard.press("Control+k")
    page.keyboard.type("layer_norm")
    page.keyboard.press("Enter")
    page.locator("#search-results li a").first.click()
    page.wait_for_url("**/reference/ops/normalization.html*")
    entry = page.locator("[id='nbfused.ops.layer_norm']")
    assert "layer_norm(x, weight=None, bias=None, eps=1e-5" in entry.inner_text()
    assert not watch.wrong


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
def test_the_picture_of_the_first_page_is_readable(page: Page, site: str,
                                                   size: dict[str, int]) -> None:
    """One is shown, and its small text of 13 units is of 10 pixels at least."""
    page.set_viewport_size(size)
    page.goto(site)
    heights = page.evaluate("""[...document.querySelectorAll('svg.nbf-picture')].map(
        s => 13 * s.getBoundingClientRect().width / s.viewBox.baseVal.width)""")
    (shown,) = filter(None, heights)
    assert shown >= 10


def test_a_table_without_a_header_shows_none(page: Page, site: str) -> None:
    page.goto(site)
    assert page.locator("main table").is_visible()
    assert page.locator("main thead").is_hidden()
    page.goto(site + "performance.html")
    assert page.locator("main thead").first.is_visible()


def test_the_dark_mode_is_dark(page: Page, site: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(site)
    shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in shown[4:-1].split(",")) < 64


def test_a_copied_example_has_no_prompts(page: Page, site: str) -> None:
    page.goto(site + SHOWN["reference"])
    block = page.locator(".highlight", has_text=">>> softmax").first
    block.hover()
    block.locator("button.copybtn").click()
    page.wait_for_function("navigator.clipboard.readText().then(t => t.length > 0)")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0] == "import numpy as np"
    assert ">>>" not in copied
    assert "array(" not in copied


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
@pytest.mark.parametrize("name", SHOWN)
def test_pictures_of_pages(page: Page, site: str, name: str, size: dict[str, int],
                           scheme: Any) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(size)
    page.goto(site + SHOWN[name])
    picture = SCREENSHOTS / f"{name}-{size['width']}-{scheme}.png"
    page.screenshot(path=picture)
    assert picture.stat().st_size > 10_000
