"""Joins the compiler to the runtime, neither of which imports the other."""

from __future__ import annotations

from .ir.node import Node
from .ir.prim import const
from .runtime.object import Object
from .runtime.object_generic import set_number_converter

set_number_converter(const)
Object.register(Node)
