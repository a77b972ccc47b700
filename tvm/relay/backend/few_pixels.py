"""Support images with fewer pixels than a register tile in kernels that require full tiles.

If each output pixel depends only on the same pixel of the inputs, a smaller image is copied to a buffer of sufficient
size, filled up with its last pixel. The kernel then calls itself with the copies. It therefore needs only one set of
loops instead of additional loops for small images. All kernels of a library share the copy function.
"""

from __future__ import annotations

from math import isqrt

from ...dtype import info
from ...ir.module import GlobalVar
from ...ir.op import Op
from ...ir.prim import BufferLoad, IntImm, PrimExpr, Range, Select, SizeVar, const
from ...ir.prim import Call as PrimCall
from ...ir.prim import Var as PrimVar
from ...ir.primop import cast, maximum, minimum, truncdiv, truncmod
from ...ir.subst import variables
from ...ir.type import PointerType, PrimType
from ...ir.visit import post_order
from ...tir.buffer import Buffer, decl_buffer
from ...tir.function import PrimFunc
from ...tir.op import address_of, call_extern
from ...tir.stmt import BufferRealize, Evaluate, For, ForKind, IfThenElse, LetStmt, Stmt, seq
from ..expr import Call, Function
from ..op.record import BROADCAST, pattern_of
from ..symbolic import flatten_type

# The rank of images with channel blocks, and their height and width axes: (n, C/c, h, w, c).
_RANK, _IMAGE = 5, slice(2, 4)
# The alignment of the copies in bytes.
_LINE = 64


def images_of(function: Function) -> list[bool] | None:
    """Return for each parameter and output tensor of a fused function whether it is an image with the pixels of the
    leading operator's input.

    None if another tensor may depend on the number of pixels, or if an operator other than the leading one is not
    element-wise.
    """
    calls = [n for n in post_order(function.body) if isinstance(n, Call)]
    lead = [c for c in calls if not isinstance(c.op, Op) or pattern_of(c.op) > BROADCAST]
    if len(lead) != 1 or not isinstance(lead[0].op, Op):
        return None
    shape = flatten_type(lead[0].args[0].checked_type_)[0].shape if lead[0].args else ()
    n, _, h, w, _ = shape if len(shape) == _RANK else (None,) * _RANK
    if not isinstance(w, SizeVar) or not isinstance(h, (SizeVar, IntImm)):
        return None
    types = [p.checked_type_ or p.type_annotation for p in function.params] + [function.body.checked_type_]
    found: list[bool] = []
    for sizes in (x.shape for t in types for x in flatten_type(t)):
        is_image = len(sizes) == _RANK and _is(sizes[2], h) and sizes[3] is w and not {h, w} & {*variables(sizes[0])}
        # Other dimensions must be static or count images: a dynamic one could depend on the number of pixels.
        others = (sizes[1], sizes[4]) if is_image else tuple(d for d in sizes if d is not n or d is h or d is w)
        if not all(isinstance(d, IntImm) for d in others):
            return None
        found.append(is_image)
    return found


def _is(d: PrimExpr, h: PrimExpr) -> bool:
    return d is h or isinstance(d, IntImm) and isinstance(h, IntImm) and d.value == h.value


def with_few_pixels(
    name: str, body: Stmt, buffers: list[Buffer], images: list[bool], results: int, least: int, copying: GlobalVar
) -> Stmt:
    """Return the body of the kernel ``name``, extended for images with fewer than ``least`` pixels.

    ``body`` requires at least ``least`` pixels. The last ``results`` of the buffers are outputs; ``copying`` is the
    global variable of ``copying_pixels``.
    """
    n, _, h, w, _ = next(b for b, is_image in zip(buffers, images) if is_image).shape
    sizes = dict.fromkeys(d for b in buffers for d in b.shape if isinstance(d, PrimVar))
    have, one = h * w, const(1, w.dtype)
    # Pixels of all images can be joined if no other dimension depends on the number of images.
    counts = [b.shape[0] is n if is_image else not any(d is n for d in b.shape) for b, is_image in zip(buffers, images)]
    is_joined = len(sizes) == 3 and n in sizes and all(counts)
    if is_joined:
        enough = {n: one, h: one, w: maximum(n * have, least)}
    elif isinstance(h, IntImm):
        enough = {w: const(-(-least // max(h.value, 1)), w.dtype)}
    else:
        side = isqrt(least - 1) + 1
        enough = {w: const(side if h is w else least, w.dtype)} | ({} if h is w else {h: one})
    want, end = enough.get(h, h) * enough[w], const(0, w.dtype)
    copies = decl_buffer((1,), "uint8", "copies")
    pointers, before, after = [], [], []
    for number, (b, is_image) in enumerate(zip(buffers, images)):
        place = b.data
        if is_image:
            count, blocks, _, _, lanes = b.shape
            groups, joined = (one, count) if is_joined else (count, one)
            size = lanes.value * info(b.dtype).bytes
            place = address_of(BufferLoad(copies, (end,)))
            end = end + groups * want * (-(-blocks.value * size // _LINE) * _LINE)
            is_read = number < len(buffers) - results
            given = (b.data, place, groups, joined, blocks, have, want, const(size, w.dtype), const(is_read, "bool"))
            (before if is_read else after).append(Evaluate(PrimCall("int32", copying, given)))
        pointers.append(place)
    again = Evaluate(PrimCall("int32", GlobalVar(name), (*pointers, *(enough.get(v, v) for v in sizes))))
    few = BufferRealize(copies, (Range(0, end),), const(True, "bool"), seq(*before, again, *after))
    return IfThenElse(have >= least, body, IfThenElse(n * have > 0, few))


def copying_pixels() -> PrimFunc:
    """Return the function (image, copy, groups, images, blocks, have, want, bytes, is_read) that copies pixels.

    It copies between images (groups, images, blocks, have) and copies (groups, blocks, want), whose pixels have the
    given number of bytes. The pixels of all images of a group are stored one after the other, and the last one is
    repeated to fill the copy. If ``is_read`` is false, it copies back. The function is in the form that code generation
    accepts.
    """
    image, copy, source, target = (PrimVar(name, PointerType(PrimType("uint8"))) for name in
                                   ("image", "copy", "source", "target"))  # fmt: skip
    names = ("groups", "images", "blocks", "have", "want", "bytes", "group", "block", "pixel")
    groups, images, blocks, have, want, size, group, block, pixel = (PrimVar(name, "int64") for name in names)
    is_read, there = PrimVar("is_read", "bool"), images * have
    lets = [(source, Select(is_read, image, copy)), (target, Select(is_read, copy, image))]

    def place(memory: PrimVar, at: PrimExpr, distances: list[tuple[PrimExpr, PrimExpr]]) -> PrimExpr:
        """Return the address of a pixel from its strides over groups, blocks and images, for reading and for writing.
        The strides are selected before the loops, so that LLVM does not duplicate the loops."""
        chosen = [PrimVar(f"{memory.name}_{name}", "int64") for name in ("group", "block", "image")]
        lets.extend((v, Select(is_read, *d)) for v, d in zip(chosen, distances))
        steps = sum((n * v for n, v in zip((group, block, truncdiv(at, have)), chosen)), truncmod(at, have))
        return address_of(BufferLoad(decl_buffer((1,), "uint8", data=memory), (steps * size,)))

    pairs = list(zip((there * blocks, have, blocks * have), (blocks * want, want, have)))
    to = place(target, pixel, [(c, i) for i, c in pairs])
    ends = (to, place(source, minimum(pixel, there - 1), pairs))
    body: Stmt = Evaluate(call_extern("handle", "memcpy", *ends, cast("uint64", size)))
    for var, extent in ((pixel, Select(is_read, want, there)), (block, blocks), (group, groups)):
        body = For(var, const(0, "int64"), extent, ForKind.SERIAL, body)
    for var, value in lets:
        body = LetStmt(var, value, body)
    return PrimFunc((image, copy, groups, images, blocks, have, want, size, is_read), body, PrimType("int32"), {}, {})


__all__ = ["copying_pixels", "images_of", "with_few_pixels"]
