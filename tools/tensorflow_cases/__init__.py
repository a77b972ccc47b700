"""The cases of tools/tensorflow_reference.py by family of operators.

A case is one line: the operator, its call, and its inputs. A number or an array among the arguments is a constant of
the graph.
"""

# Importing these modules registers their cases.
from . import arrays, control_flow, elements, networks
from .case import CASES

__all__ = ["CASES"]
