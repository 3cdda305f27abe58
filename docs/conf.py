"""Sphinx's settings: the manual is Markdown (MyST), warnings are errors, furo draws it."""

from pulpsim import __version__

project = "pulpsim"
author = "the pulpsim team"
release = version = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "**.ipynb_checkpoints", "*.py"]
nitpicky = True

highlight_language = "text"  # of blocks that name none: output
smartquotes = False  # quotes in tables are those of values

html_theme = "furo"
html_show_copyright = False
html_title = f"pulpsim {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
pygments_style = "friendly"
pygments_dark_style = "monokai"
