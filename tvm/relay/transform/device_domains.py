"""Device domains: sets of expressions on the same device, computed by unification.

A domain represents the device of a value; the domain of a function consists of the domains of its parameters and its
result. Expressions that must be on one device have one domain. Domains may differ at ``on_device`` annotations and at
copies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...error import TVMError
from ...ir.adt import Constructor
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.type import FuncType, Type
from ...ir.visit import post_order
from ...runtime.devices import Device
from ...target import VirtualDevice
from ..adt import Match, pattern_variables
from ..expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem
from ..op.record import as_device
from .function_pass import is_call

HOST, SAME, FREE = "host", "same", "free"
# For operators that use several devices: the domains of the arguments, followed by the domain of the result.
_OPERATORS = {
    "memory.alloc_storage": (HOST, HOST, FREE),
    "memory.alloc_tensor": (SAME, HOST, HOST, SAME),
    "vm.invoke_tvm_op": (FREE, SAME, SAME, SAME),
    "vm.reshape_tensor": (SAME, HOST, SAME),
    "vm.shape_func": (FREE, HOST, HOST, HOST),
    "vm.shape_of": (FREE, HOST),
}


def named_device(text: str) -> VirtualDevice:
    """Return the device of an ``on_device`` annotation: ``"cuda"``, ``"cuda(0)"`` or ``"cuda:0"``.

    An executor has one device of each type, so the device index must be 0."""
    found = as_device(text)
    if found.device_id != 0:
        raise TVMError(f"on_device: '{text}': the device index must be 0; give the index when the executor is created")
    return VirtualDevice(Device(int(found.device_type), 0))


def joined(a: VirtualDevice | None, b: VirtualDevice | None) -> VirtualDevice | None:
    """Merge the constraints of two devices; None if they contradict each other."""
    if a is None or b is None or a == b:
        return b if a is None else a
    for name in ("device_type_int", "virtual_device_id", "target", "memory_scope"):
        x, y = getattr(a, name), getattr(b, name)
        if x != y and x not in (-1, None, "") and y not in (-1, None, ""):
            return None
    made = VirtualDevice(None, a.target or b.target, a.memory_scope or b.memory_scope)
    made.device_type_int = max(a.device_type_int, b.device_type_int)
    made.virtual_device_id = max(a.virtual_device_id, b.virtual_device_id)
    return made


def device_text(place: VirtualDevice | None) -> str:
    """Return the name of a device in error messages; an empty string for None."""
    if place is None:
        return ""
    device = str(Device(place.device_type_int, max(place.virtual_device_id, 0)))
    return f"{device} ({place.memory_scope})" if place.memory_scope else device


class Domain:
    """A node of the union-find forest: ``device`` for values, ``params`` and ``result`` for functions."""

    __slots__ = ("device", "params", "parent", "result")

    def __init__(self, device: VirtualDevice | None = None, params: list[Domain] | None = None, result: Any = None):
        self.parent: Domain | None = None
        self.device, self.params, self.result = device, params, result

    def root(self) -> Domain:
        found = self
        while found.parent is not None:
            found = found.parent
        while self.parent is not None:
            self.parent, self = found, self.parent
        return found

    def leaves(self) -> Iterable[Domain]:
        """Return the value domains that a domain consists of."""
        root = self.root()
        if root.params is None:
            return [root]
        return [leaf for part in (*root.params, root.result) for leaf in part.leaves()]

    def value(self) -> Domain:
        """Return the domain of a value; for a function, the domain of the value that its calls return."""
        root = self.root()
        return root if root.params is None else root.result.value()


def domain_of_type(t: Type | None, device: VirtualDevice | None = None) -> Domain:
    """Return a new domain for values of a type, with all values on ``device`` if it is given."""
    if isinstance(t, FuncType):
        params = [domain_of_type(a, device) for a in t.arg_types]
        return Domain(None, params, domain_of_type(t.ret_type, device))
    return Domain(device)


def unify(a: Domain, b: Domain) -> bool:
    """Unify two domains. Return False if their devices differ; value domains are then unchanged."""
    a, b = a.root(), b.root()
    if a is b:
        return True
    if (a.params is None) != (b.params is None):
        return collapse([a, b])
    if a.params is None:
        both = joined(a.device, b.device)
        if both is None and a.device is not None:
            return False
        a.device = both
    else:
        pairs = [*zip(a.params, b.params or ()), (a.result, b.result)]
        if not all(unify(x, y) for x, y in pairs):
            return False
    b.parent = a
    return True


def collapse(domains: Iterable[Domain]) -> bool:
    """Unify all values and functions of the domains on one device."""
    first, *rest = [leaf for domain in domains for leaf in domain.leaves()]
    return all(unify(first, leaf) for leaf in rest)


def set_default(domain: Domain, device: VirtualDevice) -> None:
    """Assign a default device to a domain without one. For a function, the result gets the default and parameters get
    the device of the result."""
    root = domain.root()
    if root.params is None:
        root.device = device if root.device is None else root.device
        return
    set_default(root.result, device)
    beside = root.value().device
    for param in root.params:
        set_default(param, beside)


def operands(e: Any) -> list[Any]:
    """Return the children of an expression; the bodies of fused functions are excluded."""
    return [] if isinstance(e, Function) and e.attrs.get("Primitive") else e.children()


def last_of_lets(e: RelayExpr) -> RelayExpr:
    """Return the body of a chain of let bindings."""
    while isinstance(e, Let):
        e = e.body
    return e


def _kind(e: Any) -> int:
    if isinstance(e, (Function, Let, If, Match)):
        return 0
    return 1 if is_call(e, "on_device", "device_copy") else 2


class Constraints:
    """The domains of all expressions of a module, unified as the expressions require."""

    def __init__(self, mod: IRModule, host: VirtualDevice, canonical):
        self.mod, self.host, self.canonical = mod, host, canonical
        self.domains: dict[int, Domain] = {}
        # The domains of the arguments of each call.
        self.arguments: dict[int, list[Domain]] = {}
        self.functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
        self.order = list(self._all())
        # Annotations that also constrain their own value: results of functions and values of variables.
        self.fixed: set[int] = set()
        for node in self.order:
            ends = [last_of_lets(node.body)] if isinstance(node, Function) else []
            ends += [node.value] if isinstance(node, Let) else []
            self.fixed |= {id(e) for e in ends if is_call(e, "on_device") and e.attrs.constrain_body}
        # Binders first, then annotations, then uses: a use that contradicts an earlier constraint gets a copy.
        for kind in sorted({_kind(node) for node in self.order}):
            for node in self.order:
                if _kind(node) == kind:
                    self._constrain(node)
        self._through_free_marks()

    def _all(self) -> Iterable[Any]:
        seen: set[int] = set()
        for function in self.functions.values():
            yield from post_order(function, operands=operands, seen=seen)

    def of(self, e: RelayExpr) -> Domain:
        if isinstance(e, Constant):
            # Each device that reads a constant gets its own copy of it.
            return domain_of_type(e.checked_type_)
        found = self.domains.get(id(e))
        if found is None:
            found = self.domains[id(e)] = self._made(e)
        return found

    def device(self, e: RelayExpr) -> VirtualDevice:
        return self.of(e).value().device

    def _made(self, e: RelayExpr) -> Domain:
        if isinstance(e, GlobalVar) and e in self.functions:
            return self.of(self.functions[e])
        place = None if e.virtual_device_ is None else self.canonical(e.virtual_device_)
        if isinstance(e, Function):
            result = domain_of_type(e.body.checked_type_ if e.ret_type is None else e.ret_type)
            made = Domain(None, [self.of(p) for p in e.params], result)
        else:
            made = domain_of_type(getattr(e, "checked_type_", None))
        made.value().device = place
        return made

    def _same(self, what: str, *domains: Domain) -> None:
        if not all(unify(domains[0], other) for other in domains[1:]):
            found = sorted({device_text(leaf.device) for domain in domains for leaf in domain.leaves()} - {""})
            raise TVMError(f"PlanDevices: {what} is required on {' and on '.join(found)}; insert an on_device or a "
                           "device_copy between its uses")  # fmt: skip

    def _constrain(self, e: Any) -> None:
        if isinstance(e, Call):
            self._call(e)
        elif isinstance(e, Function):
            if not e.attrs.get("Primitive"):
                self._same("the result of a function", self.of(e).root().result, self.of(e.body))
        elif isinstance(e, Let):
            self._same(f"variable %{e.var.name_hint}", self.of(e.var), self.of(e.value))
            self._same("the result of a let", self.of(e), self.of(e.body))
        elif isinstance(e, If):
            self._same("the result of an if", self.of(e), self.of(e.true_branch), self.of(e.false_branch))
            collapse([self.of(e), self.of(e.cond)])
        elif isinstance(e, Match):
            for clause in e.clauses:
                self._same("the result of a match", self.of(e), self.of(clause.rhs))
                collapse([self.of(e.data), *map(self.of, pattern_variables(clause.lhs))])
        elif isinstance(e, (Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)):
            # Each part is unified separately: a part on another device is copied.
            for part in e.children():
                collapse([self.of(e), self.of(part)])

    def _call(self, e: Call) -> None:
        name = e.op.name if isinstance(e.op, Op) else None
        if name == "on_device":
            self._mark(e)
            return
        if name == "device_copy":
            source, target = (self.canonical(named_device(d)) for d in (e.attrs.src_device, e.attrs.dst_device))
            self._arguments(e, [domain_of_type(e.args[0].checked_type_, source)])
            collapse([self.of(e), Domain(target)])
            return
        if isinstance(e.op, (Op, Constructor)) or isinstance(e.op, Function) and e.op.attrs.get("Primitive"):
            self._operator(e, _OPERATORS.get(name or ""))
            return
        callee = self.of(e.op).root()
        if callee.params is None:
            collapse([callee, self.of(e)])
            self._arguments(e, [callee] * len(e.args))
            return
        self._arguments(e, callee.params)
        self._same("the result of a call", self.of(e), callee.result)

    def _arguments(self, e: Call, domains: list[Domain]) -> None:
        self.arguments[id(e)] = domains
        for arg, domain in zip(e.args, domains):
            # An argument on another device is copied.
            unify(domain, self.of(arg))

    def _mark(self, e: Call) -> None:
        place = self.canonical(named_device(e.attrs.device))
        t = e.args[0].checked_type_
        body = domain_of_type(t, place if e.attrs.constrain_body else None)
        self._arguments(e, [body])
        if e.attrs.constrain_result or id(e) in self.fixed:
            unify(self.of(e), body if e.attrs.constrain_body else domain_of_type(t, place))

    def _operator(self, e: Call, rule: tuple[str, ...] | None) -> None:
        shared = Domain()
        rule = (SAME,) * (len(e.args) + 1) if rule is None else rule
        made = [shared if r is SAME else Domain(self.host if r is HOST else None) for r in rule]
        if is_call(e, "memory.alloc_storage"):
            made[-1] = Domain(self.canonical(named_device(e.attrs.device)))
        collapse([self.of(e), made[-1]])
        for arg, domain in zip(e.args, made):
            collapse([domain, self.of(arg)])
        self.arguments[id(e)] = made[:-1]

    def _through_free_marks(self) -> None:
        """Unify both sides of annotations without constraints. Such an annotation only permits a copy."""
        for e in self.order:
            free = is_call(e, "on_device") and not e.attrs.constrain_body and not e.attrs.constrain_result
            if free and id(e) not in self.fixed:
                unify(self.of(e), self.of(e.args[0]))

    def settle(self, default: VirtualDevice) -> None:
        """Assign a device to every domain: users first, then their operands."""
        for function in self.functions.values():
            set_default(self.of(function), default)
        for e in reversed(self.order):
            if isinstance(e, Let):
                set_default(self.of(e.var), self.device(e))
            elif isinstance(e, Function) and not e.attrs.get("Primitive"):
                set_default(self.of(e), default)
            elif isinstance(e, RelayExpr) and not isinstance(e, (Op, Constructor, GlobalVar)):
                set_default(self.of(e), default)
                for argument in self.arguments.get(id(e), ()):
                    set_default(argument, self.device(e))


__all__ = ["Constraints", "Domain", "collapse", "domain_of_type", "joined", "named_device", "operands", "unify"]
