"""The cases of the format under the name that tools/legacy_conformance.py loads by its path."""

from darknet_cases import ORACLE, cases

__all__ = ["ORACLE", "cases"]
