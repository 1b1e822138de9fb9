"""Tables and program texts as terminals and notebooks show them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["SourceText", "html_table", "html_text", "text_table"]

Rows = Sequence[Sequence[object]]


class SourceText(str):
    """The text of a program: a string that is shown as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return SourceText, (str(self),)

    def _repr_html_(self) -> str:
        return html_text(self)


def html_text(text: str) -> str:
    """Format text, escaped, with its lines and spaces."""
    return f"<pre>{escape(text)}</pre>"


def html_table(head: Sequence[str], rows: Rows, caption: str = "") -> str:
    """Format a table, escaped, without styles of its own."""
    def line(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(
            f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (f"<table>{title}<thead>{line('th', head)}</thead><tbody>"
            f"{''.join(line('td', row) for row in rows)}</tbody></table>")


def text_table(head: Sequence[str], rows: Rows) -> str:
    """Format a table in columns as wide as their widest cells."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
