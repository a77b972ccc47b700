"""Load DarkNet networks: the configuration (.cfg) as sections, and the weights file as a stream of floats in layer
order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ....error import TVMError
from ..common.folder import beside
from .schema import ALIASES, type_number

# The maximum number of layers of a network.
MOST_LAYERS = 16_384
# The maximum size of a configuration in bytes; typical ones have a few thousand.
MOST_TEXT = 1 << 24


class Section:
    """A section of the configuration: its name, and its options as text. The first of repeated options counts."""

    def __init__(self, name: str, number: int):
        self.name = ALIASES.get(name, name)
        self.number = number
        self.options: dict[str, str] = {}

    @property
    def type(self) -> int:
        """The number of the layer type, one of ``LAYERTYPE``."""
        return type_number(self.name)

    def text(self, option: str, default: str) -> str:
        return self.options.get(option, default)

    def float(self, option: str, default: float) -> float:
        return self._number(option, self.options[option]) if option in self.options else default

    def int(self, option: str, default: int) -> int:
        found = self.float(option, default)
        if found != int(found):
            raise TVMError(f"{option}={self.options[option]} is not an integer")
        return int(found)

    def numbers(self, option: str) -> list:
        """Return a list of numbers, which is empty if the option is missing."""
        text = self.options.get(option, "")
        return [self._number(option, part) for part in text.split(",") if part]

    def _number(self, option: str, text: str):
        try:
            found = float(text)
        except ValueError:
            raise TVMError(f"{option}={self.options[option]} is not a number") from None
        if not -(2.0**31) <= found < 2.0**31:
            raise TVMError(f"{option}={self.options[option]} is out of range")
        return found

    def __getattr__(self, name: str) -> Any:
        """Return an option as a number, or as text if it is not a number."""
        options = self.__dict__.get("options", {})
        if name not in options:
            raise AttributeError(f"the section [{self.__dict__.get('name')}] has no option '{name}'")
        try:
            found = float(options[name])
        except ValueError:
            return options[name]
        return int(found) if found == int(found) else found


def parse_cfg(text: str) -> list[Section]:
    """Parse a configuration into sections."""
    sections: list[Section] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = "".join(line.split())
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            if line[-1] != "]" or len(line) < 3:
                raise TVMError(f"line {number} of the configuration: '{line[:60]}' is not a valid section name")
            sections.append(Section(line[1:-1], len(sections) - 1))
            if len(sections) > MOST_LAYERS:
                raise TVMError(f"the configuration has more than {MOST_LAYERS} sections")
            continue
        option, found, value = line.partition("=")
        if not found or not sections:
            raise TVMError(f"line {number} of the configuration: '{line[:60]}' is neither a section nor an option")
        sections[-1].options.setdefault(option, value)
    if len(sections) < 2 or sections[0].name != "net":
        raise TVMError("the configuration must start with [net] and have at least one layer")
    return sections


class Weights:
    """The floats of a weights file, which the layers consume in order."""

    def __init__(self, data: bytes):
        self.transposed, at = _header(data)
        if (len(data) - at) % 4:
            raise TVMError(f"the weights file is corrupt: its {len(data) - at} bytes of data are not a multiple of 4")
        self.numbers = np.frombuffer(data, "<f4", offset=at)
        self.used = 0

    def take(self, what: str, *shape: int) -> np.ndarray:
        """Return the next floats as an array."""
        count = 1
        for size in shape:
            count *= int(size)
        left = len(self.numbers) - self.used
        if count > left:
            raise TVMError(
                f"the {what} need {count} floats, but only {left} remain in the weights file: it is "
                "truncated, or it belongs to another configuration"
            )
        found = self.numbers[self.used : self.used + count].reshape(shape)
        self.used += count
        return found

    def finish(self) -> None:
        left = len(self.numbers) - self.used
        if left:
            raise TVMError(f"the weights file has {left} unused floats; it belongs to another configuration")


def _header(data: bytes) -> tuple[bool, int]:
    """Read the header: version and number of training images.

    Return whether matrices are transposed, and the data offset.
    """
    if len(data) < 16:
        raise TVMError(f"a weights file must have at least 16 bytes, got {len(data)}")
    major, minor = (int(v) for v in np.frombuffer(data, "<i4", count=2))
    wide = major * 10 + minor >= 2 and major < 1000 and minor < 1000
    if wide and len(data) < 20:
        raise TVMError("the weights file is truncated in its header")
    return major > 1000 or minor > 1000, 20 if wide else 16


class Network:
    """A network loaded from its configuration and weights files, as the DarkNet library's ``load_network`` returns it.

    Parameters
    ----------
    cfg : str or path
        The configuration file (.cfg).
    weights : str or path, optional
        The weights file; the default is the file of the same name next to the configuration.

    Raises
    ------
    TVMError
        A file cannot be read, or it is not a DarkNet file.
    """

    def __init__(self, cfg, weights=None):
        path = os.fsdecode(cfg)
        self.sections = parse_cfg(_read(path, MOST_TEXT).decode("utf-8", "replace"))
        (self.weights,) = [_read(os.fsdecode(weights))] if weights is not None else beside(path, "weights").values()
        net = self.sections[0]
        self.layers = self.sections[1:]
        self.n = len(self.layers)
        self.c, self.h, self.w = (net.int(k, 0) for k in ("channels", "height", "width"))
        self.time_steps = net.int("time_steps", 1)
        self.inputs = net.int("inputs", self.c * self.h * self.w)

    def __iter__(self) -> Iterator[Section]:
        return iter(self.layers)


def _read(path: str, most: int | None = None) -> bytes:
    try:
        if most is not None and os.path.getsize(path) > most:
            raise TVMError(f"{os.path.basename(path)} is larger than {most} bytes, the maximum of a configuration")
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise TVMError(f"cannot read {os.path.basename(path)}: {problem.strerror}") from problem


__all__ = ["MOST_LAYERS", "Network", "Section", "Weights", "parse_cfg"]
