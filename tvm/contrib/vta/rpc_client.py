"""Configure the accelerator of an RPC session."""

from __future__ import annotations

import json
from typing import Any

from ...error import TVMError
from ...runtime.registry import register_func
from . import device
from .config import Config
from .environment import get_env


def reconfig_runtime(remote: Any) -> None:
    """Give the accelerator of a session the sizes of the current environment.

    Parameters
    ----------
    remote : RPCSession
        The session; ``rpc.LocalSession()`` configures the simulator of this process.
    """
    values = {name: value for name, value in get_env().cfg_dict.items() if isinstance(value, (int, str))}
    remote.get_function("tvm.contrib.vta.reconfig_runtime")(json.dumps(values))


def program_fpga(remote: Any, bitstream: str | None = None) -> None:
    """Prepare the accelerator of a session. A simulator gets the sizes of the current environment.

    Parameters
    ----------
    remote : RPCSession
        The session.
    bitstream : str | None
        The file of a hardware design. The simulators have none.

    Raises
    ------
    TVMError
        A bitstream is given.
    """
    if bitstream is not None:
        raise TVMError(
            f"program_fpga: target {get_env().TARGET} is a simulator; it cannot load the bitstream {bitstream}"
        )
    reconfig_runtime(remote)


@register_func("tvm.contrib.vta.reconfig_runtime", override=True)
def _reconfigure(text: str) -> None:
    device.configure(Config.from_dict(json.loads(text)))
