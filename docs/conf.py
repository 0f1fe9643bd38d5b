"""Sphinx: built strictly (warnings are errors), offline, with nothing from outside."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
os.environ["COLUMNS"] = "78"  # of what tutorials print
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # tutorials run `peerveil`
sys.path.insert(0, str(HERE.parent / "scripts"))

from myst_nb.core import render  # noqa: E402
from nbformat import NotebookNode  # noqa: E402
from reference import write_reference  # noqa: E402
from reproduction import write_pages  # noqa: E402

from peerveil import __version__  # noqa: E402

project = "peerveil"
author = "The peerveil team"
copyright = "2026, the peerveil team"
release = __version__

# no MathJax: it would come from outside; formulas are written in plain text
extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "words.md"]  # the glossary includes the list of words
nitpicky = False
default_role = "code"
smartquotes = False  # settings are copied from these pages

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# tutorials are notebooks: every build runs them
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "peerveil"
html_static_path = ["_static"]
html_css_files = ["peerveil.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """One text per cell. (myst-nb's own breaks the line wherever a chunk of a stream ends.)"""
    text = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    stream = [NotebookNode(output_type="stream", name="stdout", text=text)] if text else []
    return [*stream, *(output for output in outputs if output["output_type"] != "stream")]


render.coalesce_streams = join_streams
write_reference(HERE)  # every action, every public name
write_pages()  # the reproduction of the papers, from stored runs
