"""Names in single backquotes: links where the reference has them, else code.

Docstrings write every name so, parameters and Python's own names among them; only a
role that was asked for by its own name has to lead somewhere.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.roles import XRefRole

__all__ = ["setup"]

#: A single name in single backquotes, with nothing of a role or of a link about it.
NAME = re.compile(r"(?<![`:\w])`(\w+)`(?![`_\w])")


class Name(XRefRole):
    """The default role: `obj` of the Python domain that need not exist."""

    def process_link(self, env: Any, refnode: Any, has_explicit_title: bool,
                     title: str, target: str) -> tuple[str, str]:
        """Look `nf.name` up as ``nbfused.name``, in the module and class at hand."""
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        refnode["optional"] = True
        refnode["reftype"] = "obj"  # as other projects' inventories know it
        target = re.sub(r"^nf\.", "nbfused.", target.removesuffix("()"))
        if target.count(".") == 0 and refnode["py:module"] is None:
            refnode["py:module"] = "nbfused"
        return title, target


def unresolved(app: Any, env: Any, node: Any, content: nodes.Node) -> nodes.Node | None:
    """Leave a name that no page has as code."""
    if not node.get("optional"):
        return None
    for prefix in ("nbfused.", "nbfused.ops.", "nbfused.errors.", "nbfused.specs."):
        domain = env.domains.python_domain
        found = domain.objects.get(prefix + node["reftarget"])
        if found is not None:
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", prefix + node["reftarget"],
                node, content)
    return nodes.literal("", content.astext())


def parameters(app: Any, what: str, name: str, found: Any, options: Any,
               lines: list[str]) -> None:
    """Set the parameters that a docstring speaks of as code, so that none is a link."""
    try:
        names = set(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return
    lines[:] = [NAME.sub(lambda m: f"``{m[1]}``" if m[1] in names else m[0], line)
                for line in lines]


def setup(app: Any) -> dict[str, bool]:
    """Make it the default role."""
    app.add_role_to_domain("py", "name", Name(innernodeclass=nodes.literal))
    app.config.default_role = "py:name"
    app.connect("missing-reference", unresolved, priority=900)
    app.connect("autodoc-process-docstring", parameters, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
