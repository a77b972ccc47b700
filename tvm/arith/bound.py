"""The public module of bound deduction."""

from .bound_deducer import deduce_bound

__all__ = ["deduce_bound"]
