"""Sphinx: built strictly (warnings are errors), offline, with nothing from outside."""

from __future__ import annotations

from pathlib import Path

from peerveil import __version__
from peerveil.study.schema import reference_page

project = "peerveil"
author = "The peerveil team"
copyright = "2026, the peerveil team"
release = __version__

# no MathJax: it would come from outside; formulas are written in plain text
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False
default_role = "code"
smartquotes = False  # settings are copied from these pages

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

html_theme = "pydata_sphinx_theme"
html_title = "peerveil"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"**": []}
html_theme_options = {
    "header_links_before_dropdown": 4,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# the reference of all actions: generated, like their commands and forms, from their declarations
actions = Path(__file__).parent / "actions.md"
if not actions.exists() or actions.read_text(encoding="utf-8") != reference_page():
    actions.write_text(reference_page(), encoding="utf-8")
