"""Formulas as MathML, which browsers show by themselves: no script, no font."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

__all__ = ["setup"]


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula inside a line."""
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own lines."""
    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}'
                     "</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
