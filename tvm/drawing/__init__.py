"""Pages and pictures from plain data: self-contained HTML, SVG, layered graphs, DOT text. Standard library only."""
