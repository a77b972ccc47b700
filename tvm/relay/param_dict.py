"""``tvm.relay.param_dict``: serialization of parameters under the module path of Apache TVM."""

from ..runtime.params import load_param_dict, save_param_dict

__all__ = ["load_param_dict", "save_param_dict"]
