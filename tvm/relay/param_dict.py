"""``tvm.relay.param_dict``: parameters as bytes, under TVM's path."""

from ..runtime.params import load_param_dict, save_param_dict

__all__ = ["load_param_dict", "save_param_dict"]
