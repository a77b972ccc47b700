"""How Sphinx builds the site; `make docs` calls it through `tools/docs.py`."""

from __future__ import annotations

project = "TVM Classic"
html_title = "TVM Classic"
author = "the authors of TVM Classic"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# A link that leads nowhere and a name that is not there are errors: the build runs with -W.
nitpicky = False
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["requirements.txt"]

myst_enable_extensions = ["colon_fence", "html_image"]
myst_heading_anchors = 3

# Docstrings are in NumPy's style, as users of TVM know it.
napoleon_google_docstring = False
napoleon_use_rtype = False
# Types are words, not links: several IRs have a Var, and looking each word up takes half of the build.
napoleon_use_param = False
autodoc_member_order = "bysource"
autodoc_default_options = {"show-inheritance": False}
autodoc_typehints = "none"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
