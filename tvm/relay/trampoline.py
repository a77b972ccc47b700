"""Recursion without Python's stack: generators that yield the generators whose results they need."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


def run(first: Generator) -> Any:
    """Run a generator and return its result. It yields generators and receives the result of each."""
    stack, value = [first], None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as done:
            stack.pop()
            value = done.value
    return value
