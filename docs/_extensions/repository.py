"""Links out of the documentation, to files of the repository.

Where GITHUB_REPOSITORY names it, as in its workflows, they lead there; elsewhere a
file is copied into the site, and a folder is named.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

__all__ = ["setup"]

ROOT = Path(__file__).resolve().parents[2]


def address(path: Path) -> str | None:
    """The address of a file or folder on the server, if that is known."""
    name = os.environ.get("GITHUB_REPOSITORY")
    if not name:
        return None
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    kind = "tree" if path.is_dir() else "blob"
    commit = os.environ.get("GITHUB_SHA", "main")
    return f"{server}/{name}/{kind}/{commit}/{path.relative_to(ROOT)}"


def outside(node: Any, folder: Path) -> Path | None:
    """The file or folder beside the documentation that a link is to."""
    if node.get("reftype") != "myst":
        return None
    target = node["reftarget"].partition("#")[0]
    for suffix in ("", ".md"):
        for base in (folder, ROOT):
            path = (base / (target + suffix)).resolve()
            if target and path.exists() and path.is_relative_to(ROOT) \
                    and not path.is_relative_to(ROOT / "docs"):
                return path
    return None


def lead_out(app: Any, document: nodes.document) -> None:
    """Replace the links of a page that lead out of the documentation."""
    folder = Path(app.env.doc2path(app.env.docname)).parent
    links = [*document.findall(addnodes.pending_xref),
             *document.findall(addnodes.download_reference)]
    for node in links:
        path = outside(node, folder)
        if path is None:
            continue
        if (there := address(path)) is not None:
            new: Any = nodes.reference("", "", refuri=there, internal=False)
        elif path.is_dir():
            new = nodes.inline()
        else:
            new = addnodes.download_reference(
                "", "", reftarget=os.path.relpath(path, folder), refdoc=app.env.docname,
                refexplicit=True, reftype="myst")
        new += node.children
        node.replace_self(new)


def setup(app: Any) -> dict[str, bool]:
    """Before the files to copy are collected."""
    app.connect("doctree-read", lead_out, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
