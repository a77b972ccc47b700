"""What tests cost, in processor time of the test and of the programs it started: its sum, and the tests that take more
than two seconds without a reason (``@pytest.mark.slow("the reason")``), at the end of a run."""

from __future__ import annotations

import os
import time

import pytest

# A test that takes more processor time than this gives its reason.
SECONDS = 2.0
# How many of the tests without a reason are listed.
LISTED = 40


# Processor time of programs that another process ran for a test.
_ELSEWHERE: list[float] = []


def add(seconds: float) -> None:
    """Count processor time of a program that another process ran for the current test."""
    _ELSEWHERE.append(seconds)


def processor_seconds() -> float:
    """The processor time of this process, of the finished programs that it started, and of those added."""
    return sum(os.times()[:4]) + sum(_ELSEWHERE)


def own_seconds(seconds: float, duration: float) -> float:
    """Return the part of the processor time that a test of this duration can have used. The system counts the time of
    a program when its parent waits for it: a test in which the program of an earlier test is waited for, such as by the
    garbage collector, has the time of that program too."""
    return min(seconds, duration * (os.cpu_count() or 1))


class Costs:
    """The plugin that adds up the costs and lists tests that are slow without a reason."""

    def __init__(self) -> None:
        self.total = 0.0
        self.unexplained: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("slow"):
                if not mark.args or not isinstance(mark.args[0], str):
                    raise pytest.UsageError(f'{item.nodeid} is slow without a reason: @pytest.mark.slow("why it is")')

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item):
        begin, start = processor_seconds(), time.monotonic()
        try:
            return (yield)
        finally:
            seconds = processor_seconds() - begin
            item.user_properties.append(("processor seconds", round(seconds, 3)))
            item.user_properties.append(("own seconds", round(own_seconds(seconds, time.monotonic() - start), 3)))
            if item.get_closest_marker("slow"):
                item.user_properties.append(("slow", True))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        seconds = properties.get("processor seconds")
        if report.when != "call" or seconds is None:
            return
        self.total += seconds
        if properties["own seconds"] > SECONDS and "slow" not in properties:
            self.unexplained[report.nodeid] = properties["own seconds"]

    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.write_line(f"processor time of the tests: {self.total / 60:.1f} minutes")
        if self.unexplained:
            terminalreporter.write_line(
                f"{len(self.unexplained)} tests took more than {SECONDS:g} seconds of it without a reason, "
                '@pytest.mark.slow("..."):'
            )
        for name, seconds in sorted(self.unexplained.items(), key=lambda item: -item[1])[:LISTED]:
            terminalreporter.write_line(f"  {seconds:5.1f} s {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(), "costs")
