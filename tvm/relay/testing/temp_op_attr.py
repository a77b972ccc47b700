"""Set an attribute of an operator temporarily."""

from __future__ import annotations

from typing import Any

from ...ir.op import Op


class TempOpAttr:
    """A context manager that sets an operator's attribute and restores it:

    ``with TempOpAttr("nn.conv2d", "FTVMLegalize", f): ...``.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Any):
        self.op = Op.get(op_name)
        self.attr_key = attr_key
        self.attr_value = attr_value

    def __enter__(self) -> TempOpAttr:
        self._had = self.op.has_attr(self.attr_key)
        self._older = self.op.get_attr(self.attr_key)
        self.op.set_attr(self.attr_key, self.attr_value)
        return self

    def __exit__(self, kind, value, trace) -> None:
        if self._had:
            self.op.set_attr(self.attr_key, self._older)
        else:
            self.op.reset_attr(self.attr_key)
