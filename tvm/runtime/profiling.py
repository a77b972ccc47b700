"""Profiles: named metrics per call, printed as a table, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .object import Object

if TYPE_CHECKING:
    from .devices import Device
    from .module import Module


class Metric(Object):
    """A measured value. Subclasses define how it is printed, added and serialized.

    Parameters
    ----------
    value : float
        The value.
    """

    __slots__ = ("value",)
    key = ""
    unit = ""

    def __init__(self, value: float):
        self.value = value

    def __repr__(self) -> str:
        return f"{self.value:,}{self.unit}"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.value == other.value

    __hash__ = Object.__hash__

    def add(self, other: Metric) -> Metric:
        """The sum of two metrics, for the total of several calls.

        Parameters
        ----------
        other : Metric
            A metric of the same type.

        Returns
        -------
        Metric
            A metric of the same type.
        """
        return type(self)(self.value + other.value)


class Duration(Metric):
    """A duration in microseconds.

    Parameters
    ----------
    value : float
        The value.
    """

    __slots__ = ()
    key = "microseconds"

    @property
    def us(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"{self.value:,.2f}"


class Percent(Metric):
    """A percentage.

    Parameters
    ----------
    value : float
        The value.
    """

    __slots__ = ()
    key = "percent"

    @property
    def percent(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"{self.value:.2f}"


class Count(Metric):
    """An integer count.

    Parameters
    ----------
    value : float
        The value.
    """

    __slots__ = ()
    key = "count"

    def __repr__(self) -> str:
        return f"{int(self.value):,}"


class Ratio(Metric):
    """A ratio, which cannot be added to other ratios.

    Parameters
    ----------
    value : float
        The value.
    """

    __slots__ = ()
    key = "ratio"

    @property
    def ratio(self) -> float:
        return self.value

    def add(self, other: Metric) -> Metric:
        """NaN, because the ratio of several calls is not the sum of their ratios.

        Parameters
        ----------
        other : Metric
            Another ratio.

        Returns
        -------
        Metric
            A ratio that is NaN.
        """
        return Ratio(float("nan"))


_KINDS = {kind.key: kind for kind in (Duration, Percent, Count, Ratio)}
_SORT_COLUMN = "Duration (us)"
_NAME, _COUNT, _PERCENT = "Name", "Count", "Percent"
_SOURCE, _MORE = "Source", ", ..."
_FIRST_COLUMNS = (_NAME, _SORT_COLUMN, _PERCENT, "Device", _COUNT, "Argument Shapes")


def _to_json(value: object) -> object:
    return {value.key: value.value} if isinstance(value, Metric) else {"string": str(value)}


def _from_json(value: Mapping[str, object]) -> object:
    ((key, content),) = value.items()
    return _KINDS[key](content) if key in _KINDS else content


def _aggregate(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Combine the calls with the same name and device: add metrics, keep texts that are equal, and keep the first
    source."""
    groups: dict[tuple, dict[str, object]] = {}
    for row in rows:
        key = (row.get(_NAME), row.get("Device"), row.get("Hash"))
        known = groups.get(key)
        if known is None:
            groups[key] = {**row, _COUNT: row.get(_COUNT, Count(1))}
            continue
        for name, value in {**row, _COUNT: row.get(_COUNT, Count(1))}.items():
            before = known.get(name)
            if isinstance(value, Metric) and isinstance(before, Metric):
                known[name] = before.add(value)
            elif before != value:
                known[name] = f"{before}".removesuffix(_MORE) + _MORE if name == _SOURCE and before else ""
    return list(groups.values())


class Report(Object):
    """A profile: one entry of ``calls`` per kernel call, ``device_metrics`` per device, and a ``configuration``.

    Parameters
    ----------
    calls : Sequence[Mapping[str, object]]
        The metrics of each kernel call.
    device_metrics : Mapping[str, Mapping[str, object]]
        The metrics of each device.
    configuration : Mapping[str, object], optional
        A description of the run.
    """

    def __init__(
        self,
        calls: Sequence[Mapping[str, object]],
        device_metrics: Mapping[str, Mapping[str, object]],
        configuration: Mapping[str, object] | None = None,
    ):
        self.calls = [dict(call) for call in calls]
        self.device_metrics = {name: dict(row) for name, row in device_metrics.items()}
        self.configuration = dict(configuration or {})

    def _columns(self, rows: Sequence[Mapping[str, object]]) -> list[str]:
        found = dict.fromkeys(name for row in rows for name in row)
        first = [name for name in _FIRST_COLUMNS if name in found]
        return first + sorted(name for name in found if name not in first)

    def csv(self) -> str:
        """The report as CSV with one line per call and plain numbers.

        Returns
        -------
        str
            The lines.
        """
        columns = self._columns(self.calls)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for call in self.calls:
            cells = (call.get(name, "") for name in columns)
            writer.writerow([cell.value if isinstance(cell, Metric) else cell for cell in cells])
        return out.getvalue()

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """The report as a table with aligned columns.

        Parameters
        ----------
        sort : bool
            Whether to list the slowest calls first.
        aggregate : bool
            Whether to combine the calls of a kernel into one line.
        col_sums : bool
            Whether to add a line with the sums of the columns.

        Returns
        -------
        str
            The text.
        """
        rows = _aggregate(self.calls) if aggregate else [dict(call) for call in self.calls]
        if sort:
            rows.sort(key=lambda row: -getattr(row.get(_SORT_COLUMN), "value", 0.0))
        columns = self._columns(rows)
        below: list[dict[str, object]] = []
        if col_sums and rows:
            below.append(self._sums(rows, columns))
        for device, metrics in self.device_metrics.items():
            below.append({_NAME: "Total", "Device": device, **metrics})
            columns += [name for name in below[-1] if name not in columns]
        if below:
            rows += [{_NAME: "----------"}, *below]
        cells = [columns, *([str(row.get(name, "")) for name in columns] for row in rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
        lines = [
            "".join(
                (cell.rjust(width) if i else cell.ljust(width)) + "  "
                for i, (cell, width) in enumerate(zip(line, widths))
            )
            for line in cells
        ]
        settings = [f"{name}: {value}" for name, value in self.configuration.items()]
        title = "Configuration"
        return "\n".join(lines + (["", title, "-" * len(title), *settings] if settings else [])) + "\n"

    def to_chrome_trace(self, path: str | os.PathLike | None = None) -> str:
        """The calls as a trace for Chrome or Perfetto, one after another; also written to ``path``, if given.

        Parameters
        ----------
        path : str, optional
            The file.

        Returns
        -------
        str
            The trace, which is JSON.
        """
        events, at = [], 0.0
        for call in self.calls:
            took = getattr(call.get(_SORT_COLUMN), "value", 0.0)
            facts = {k: v.value if isinstance(v, Metric) else v for k, v in call.items() if k != _NAME}
            events.append(
                {
                    "name": str(call.get(_NAME, "")),
                    "cat": "kernel",
                    "ph": "X",
                    "ts": at,
                    "dur": took,
                    "pid": 1,
                    "tid": 1,
                    "args": facts,
                }
            )
            at += took
        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, indent=1)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    @staticmethod
    def _sums(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> dict[str, object]:
        total: dict[str, object] = {_NAME: "Sum"}
        for name in columns:
            values = [row[name] for row in rows if isinstance(row.get(name), Metric)]
            if values and not isinstance(values[0], Ratio):
                total[name] = values[0]
                for value in values[1:]:
                    total[name] = total[name].add(value)
        return total

    def json(self) -> str:
        """The report as JSON.

        Returns
        -------
        str
            The text.
        """

        def encode(row: Mapping[str, object]) -> dict:
            return {name: _to_json(value) for name, value in row.items()}

        return json.dumps(
            {
                "calls": [encode(call) for call in self.calls],
                "device_metrics": {name: encode(row) for name, row in self.device_metrics.items()},
                "configuration": encode(self.configuration),
            }
        )

    @classmethod
    def from_json(cls, s: str) -> Report:
        """The report from the output of ``json``.

        Parameters
        ----------
        s : str
            The text.

        Returns
        -------
        Report
            The report.
        """

        def decode(row: Mapping[str, Mapping]) -> dict:
            return {name: _from_json(value) for name, value in row.items()}

        data = json.loads(s)
        devices = {name: decode(row) for name, row in data["device_metrics"].items()}
        return cls([decode(call) for call in data["calls"]], devices, decode(data.get("configuration", {})))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: a timeline of the calls, and the table of kernels."""
        from ..drawing.page import escape, fragment
        from ..drawing.profile import profile_body

        shown = f"<details><summary>table</summary><pre>{escape(self.table())}</pre></details>"
        return fragment(profile_body(self, whole=False) + shown)


class DeviceWrapper:
    """A device that a collector measures.

    Parameters
    ----------
    dev : Device
        The device.
    """

    def __init__(self, dev: Device):
        self.device = dev


class MetricCollector(Object):
    """Base class of collectors of other metrics: ``init(devices)``, ``start(device)`` and ``stop(token)``."""

    def init(self, devices: Sequence[DeviceWrapper]) -> None:
        """Initialize the collector; called once before the first run.

        Parameters
        ----------
        devices : list of DeviceWrapper
            The devices that will be measured.
        """

    def start(self, device: Device) -> object:
        """Start measuring; called before a run. The result is passed to ``stop``.

        Parameters
        ----------
        device : Device
            The device that runs.

        Returns
        -------
        object
            An identifier of this run, of any type.
        """
        return None

    def stop(self, token: object) -> Mapping[str, Metric]:
        """The metrics of the run that ``token`` started.

        Parameters
        ----------
        token : object
            The value that ``start`` returned.

        Returns
        -------
        dict of str to Metric
            The metrics by their names, which become columns of the report.
        """
        return {}


def profile_function(
    mod: Module,
    dev: Device,
    collectors: Sequence[MetricCollector],
    func_name: str | None = None,
    warmup_iters: int = 10,
) -> Callable[..., dict[str, object]]:
    """A function that runs ``func_name`` of ``mod`` with ``collectors`` and returns the metrics that they measured.

    Parameters
    ----------
    mod : Module
        The module.
    dev : Device
        The device.
    collectors : Sequence[MetricCollector]
        The collectors.
    func_name : str, optional
        The name of the function; by default the module's entry function.
    warmup_iters : int, optional
        The number of runs before the measured run.

    Returns
    -------
    callable
    """
    function = mod.entry_func if func_name is None else mod.get_function(func_name, query_imports=True)

    def profile(*args) -> dict[str, object]:
        for collector in collectors:
            collector.init([DeviceWrapper(dev)])
        for _ in range(warmup_iters):
            function(*args)
        dev.sync()
        tokens = [collector.start(dev) for collector in collectors]
        time = mod.time_evaluator(func_name or mod.entry_name, dev, number=1)(*args).mean
        dev.sync()
        metrics: dict[str, object] = {_SORT_COLUMN: Duration(time * 1e6)}
        for collector, token in zip(collectors, tokens):
            metrics.update(collector.stop(token))
        return metrics

    return profile
