"""Sphinx's settings for the documentation, which ``make docs`` builds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_extensions"), str(ROOT)]

# The GPU of a machine that happens to have one is no part of the documentation.
os.environ.setdefault("NBFUSED_BACKEND", "cpu")

import inventories  # noqa: E402
from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

import nbfused  # noqa: E402

project = "nbfused"
author = "nbfused developers"
project_copyright = "nbfused developers, BSD-3-Clause"
version = release = nbfused.__version__

extensions = [
    "sphinx.ext.autodoc", "sphinx.ext.intersphinx", "numpydoc", "myst_parser",
    "sphinx_copybutton", "sphinx_gallery.gen_gallery",
    # Our own, in _extensions.
    "mathml", "names", "performance", "reference", "repository",
]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_extensions", "inventories", "tests", "gallery/**/*.md5"]
nitpicky = True

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_use_plots = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
# An array is one of any library, and a scalar function no scalar of NumPy's.
for word in ("array", "scalar"):
    DEFAULT_LINKS.pop(word)
numpydoc_xref_aliases = {
    "bool": ":class:`python:bool`", "boolean": ":class:`python:bool`",
    **{name: f":py:exc:`~nbfused.errors.{name}`" for name in nbfused.errors.__all__},
    "callable": ":term:`python:callable`",
    "Variable": "nbfused.Variable", "Backend": "nbfused.backend.Backend",
}

intersphinx_mapping = inventories.mapping(HERE / "inventories", ROOT / "build")
intersphinx_timeout = 0

copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # a page that asks a CDN for scripts
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib",),
    "nested_sections": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"nbfused {release}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_css_files = ["nbfused.css"]
html_show_sourcelink = False
html_copy_source = False
# Pages without others below them have no navigation of their section.
html_sidebars = {page: [] for page in (
    "install", "tutorial", "performance", "limits", "changelog")}
html_theme_options = {
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
