"""The protobuf messages of TensorFlow's files: graphs, saved models and the index of a checkpoint.

``common/protobuf.py`` describes the notation.
"""

from __future__ import annotations

from ....error import TVMError
from ..common.protobuf import Schema

MESSAGES = """
Dim: size 1 int64
Shape: dim 2* Dim, unknown_rank 3 bool
Tensor: dtype 1 int32, tensor_shape 2 Shape, tensor_content 4 bytes, half_val 13* int32, float_val 5* float, \
double_val 6* double, int_val 7* int32, string_val 8* bytes, scomplex_val 9* float, int64_val 10* int64, \
bool_val 11* bool, dcomplex_val 12* double, uint32_val 16* uint32, uint64_val 17* uint64
AttrList: s 2* bytes, i 3* int64, f 4* float, b 5* bool, type 6* int32, shape 7* Shape, tensor 8* Tensor, func 9* Call
Attr: list 1 AttrList, s 2 bytes, i 3 int64, f 4 float, b 5 bool, type 6 int32, shape 7 Shape, tensor 8 Tensor, \
placeholder 9 string, func 10 Call
AttrPair: key 1 string, value 2 Attr
Call: name 1 string, attr 2* AttrPair
Node: name 1 string, op 2 string, input 3* string, attr 5* AttrPair
Argument: name 1 string, type 3 int32, type_attr 4 string, number_attr 5 string, type_list_attr 6 string
Signature: name 1 string, input_arg 2* Argument, output_arg 3* Argument
TextPair: key 1 string, value 2 string
Function: signature 1 Signature, node_def 3* Node, ret 4* TextPair, control_ret 6* TextPair
Library: function 1* Function
Graph: node 1* Node, library 2 Library
TensorInfo: name 1 string, dtype 2 int32, tensor_shape 3 Shape
InfoPair: key 1 string, value 2 TensorInfo
Entry: inputs 1* InfoPair, outputs 2* InfoPair, method_name 3 string
EntryPair: key 1 string, value 2 Entry
MetaInfo: tags 4* string
Saver: restore_op_name 3 string
MetaGraph: meta_info_def 1 MetaInfo, graph_def 2 Graph, saver_def 3 Saver, signature_def 5* EntryPair
SavedModel: saved_model_schema_version 1 int64, meta_graphs 2* MetaGraph
BundleHeader: num_shards 1 int32, endianness 2 int32
BundleSlice: extent 1* bytes
BundleEntry: dtype 1 int32, shape 2 Shape, shard_id 3 int32, offset 4 int64, size 5 int64, crc32c 6 fixed32, \
slices 7* BundleSlice
"""

# Element types by their codes in the file format.
DTYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64",
          9: "int64", 10: "bool", 11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16",
          17: "uint16", 18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32",
          23: "uint64"}  # fmt: skip
# Types of quantized integers, which are imported as plain integers.
_QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}
# An attribute has one of its fields; presence is recorded, because the field can be zero.
FILES = Schema("tensorflow", MESSAGES, oneof=("Attr",))
parse = FILES.parse


def dtype_name(number: int) -> str:
    """Return the element type of a code; references to variables have codes that are larger by 100."""
    found = DTYPES.get(number - 100 if number > 100 else number)
    if found is None:
        raise TVMError(f"unknown element type code {number}")
    return _QUANTIZED.get(found, found)


__all__ = ["DTYPES", "FILES", "dtype_name", "parse"]
