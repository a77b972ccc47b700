"""Function bodies of operators that ONNX defines by other operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def function_body(node, version: int, inputs: list) -> Any:
    """Return the FunctionProto of a node's operator for inputs of these types, or None."""
    import onnx

    domain = "" if node.domain in ("", "ai.onnx") else node.domain
    version = min(version, onnx.defs.onnx_opset_version()) if not domain else version
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version] or list(schema.function_opset_versions)
        text = schema.get_function_with_opset_version(max(versions)) if versions else None
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        versions = versions or list(schema.context_dependent_function_opset_versions)
        types = [_type(e) for e in inputs]
        types += [b""] * (len(node.input) - len(types))
        text = (
            schema.get_context_dependent_function_with_opset_version(max(versions), node.SerializeToString(), types)
            if versions
            else None
        )
    else:
        return None
    if not text:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    # Attributes that a call omits have the default values of the operator's schema.
    body.attribute_proto.extend(a.default_value for a in schema.attributes.values() if a.default_value.name)
    return body


def _type(e) -> bytes:
    """Return the serialized TypeProto of an input."""
    from onnx import helper

    from ....ir.prim import IntImm
    from .load import onnx_code
    from .values import Nothing, Sequence, is_list, is_option

    if e is None or isinstance(e, Nothing) or is_option(e):
        return b""
    if isinstance(e, Sequence) or is_list(e):
        # The tensor shapes in a sequence can differ; an empty sequence can have any element type.
        held = [item.checked_type_ for item in e.items] if isinstance(e, Sequence) else [e.checked_type_.args[0]]
        dtype = getattr(held[0], "dtype", "float32") if held else "float32"
        inner = helper.make_tensor_type_proto(onnx_code(dtype), None)
        return helper.make_sequence_type_proto(inner).SerializeToString()
    t = e.checked_type_
    dims = [d.value if isinstance(d, IntImm) else None for d in t.shape]
    return helper.make_tensor_type_proto(onnx_code(t.dtype), dims).SerializeToString()


def resolved(node, given: Mapping[str, Any]):
    """Return a node of a function's body in which attribute references are replaced by the attributes of the call."""
    if not any(a.ref_attr_name or a.HasField("g") for a in node.attribute):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            kept = copy.attribute.add()
            kept.CopyFrom(a)
            if a.HasField("g"):
                inner = [resolved(n, given) for n in a.g.node]
                del kept.g.node[:]
                kept.g.node.extend(inner)
        elif a.ref_attr_name in given:
            kept = copy.attribute.add()
            kept.CopyFrom(given[a.ref_attr_name])
            kept.name = a.name
    return copy


__all__ = ["function_body", "resolved"]
