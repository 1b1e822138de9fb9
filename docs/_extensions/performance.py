"""Tables of recorded results, made when the site is built.

A page names a table of `benchmarks.report` and a machine::

    ```{measured} bytes h200
    ```
"""

from __future__ import annotations

import re
from typing import Any

from benchmarks import report

__all__ = ["MEASURED", "expand", "setup"]

MEASURED = re.compile(r"^```\{measured\} (\w+) ([\w-]+)\n```$", re.M)


def expand(text: str) -> str:
    """Replace each of a page's tables by its rows."""
    return MEASURED.sub(lambda match: report.table(match[1], match[2]), text)


def source_read(app: Any, docname: str, source: list[str]) -> None:
    """Expand the tables of a page."""
    if MEASURED.search(source[0]):
        app.env.note_reread()  # what was recorded may have changed
        source[0] = expand(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Expand pages as they are read."""
    app.connect("source-read", source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
