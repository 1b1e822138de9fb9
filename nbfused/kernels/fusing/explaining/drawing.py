"""The graph of a fused function's launches, drawn as SVG for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .explain import Explanation

__all__ = ["drawing"]

_WIDTH, _HEIGHT, _GAP, _BETWEEN = 190, 40, 24, 44
_COLORS = {"Map": "#4c9f70", "Reduce": "#c07a2c", "Row": "#8f6bb3",
           "Contract": "#3d7ab8", "call": "#b04a5a"}


def drawing(found: Explanation) -> str:
    """An SVG with a box for each launch and a line for what one reads of another."""
    places = _places(found)
    width = max((x for x, _ in places), default=0) + _WIDTH + _GAP
    height = max((y for _, y in places), default=0) + _HEIGHT + _GAP
    lines = []
    for one in found.boundaries:
        (x, y), (u, v) = places[one.before], places[one.after]
        x, y, u = x + _WIDTH // 2, y + _HEIGHT, u + _WIDTH // 2
        bend = (v - y) // 2
        lines.append(
            f'<path d="M{x},{y} C{x},{y + bend} {u},{v - bend} {u},{v}" fill="none" '
            f'stroke="currentColor" stroke-opacity="0.5"><title>'
            f"{escape(f'{_text(one.shape)}, {one.bytes:,} bytes: {one.reason}')}"
            "</title></path>")
    boxes = [_box(k, found[k], *places[k]) for k in range(len(found))]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" style="max-width:100%" role="img" '
            f'font-family="sans-serif" font-size="12">{"".join(lines + boxes)}</svg>')


def _places(found: Explanation) -> list[tuple[int, int]]:
    """Place each launch below all that it reads."""
    depths = [0] * len(found)
    for k in range(len(found)):
        depths[k] = max((depths[one.before] + 1 for one in found.boundaries
                         if one.after == k), default=0)
    filled: dict[int, int] = {}
    places = []
    for depth in depths:
        column = filled.get(depth, 0)
        filled[depth] = column + 1
        places.append((_GAP + column * (_WIDTH + _GAP),
                       _GAP + depth * (_HEIGHT + _BETWEEN)))
    return places


def _box(k: int, one: object, x: int, y: int) -> str:
    kind, name = getattr(one, "kind", ""), getattr(one, "name", "")
    shape = _text(getattr(one, "shape", ()))
    operations = " ".join(getattr(one, "operations", ()))
    short = name if len(name) < 27 else name[:25] + "…"
    return (f'<g><title>{escape(operations)}</title><rect x="{x}" y="{y}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
            f'fill="{_COLORS.get(kind, "#777")}" fill-opacity="0.25" '
            f'stroke="{_COLORS.get(kind, "#777")}"/>'
            f'<text x="{x + 8}" y="{y + 16}" fill="currentColor">'
            f"{k}  {escape(kind)}  {shape}</text>"
            f'<text x="{x + 8}" y="{y + 32}" fill="currentColor" font-size="11">'
            f"{escape(short)}</text></g>")


def _text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "1"
