"""A made-up machine for each test."""

from __future__ import annotations

import pytest

from tests.tuning.fake import World


@pytest.fixture
def world() -> World:
    return World()
