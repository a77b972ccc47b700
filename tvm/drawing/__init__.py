"""Pages and pictures from plain data: HTML in one file, SVG, layered graphs, dot text. The standard library only."""
