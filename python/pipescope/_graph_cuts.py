"""Where a model's graph may be cut into layers, and where few bytes cross.

Operators are in the order of the model's forward. At position i, between two of them, cross the values that are made before it
and needed behind it. Values that depend on sizes, buffers and whole numbers of the input only, such as masks and rotary tables,
do not cross: each layer computes them again. A position is forbidden between a value and its change in place, between operators
that use a buffer which changes, between an operator and the parts of its result, and between the operators that use a size which
depends on values, so that such a size stays within a layer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils import _pytree

from pipescope._trace_model import CHECK, CannotCut, Trace, op_name, place_of, refuse_unknown_outputs, unknown_sizes_of
from pipescope.errors import UsageError

__all__ = ["Analysis", "WRITES_STATISTICS", "anchors_of", "bytes_of", "changed_buffers", "checked_relation", "is_item", "is_number", "places_by_name",
           "places_of", "positions_of", "size_of", "tensors_below", "why_whole"]

_MOST_SHARE = 1 / 16  # of the model's work or parameters: a larger piece is cut again, if there is a place
_LEAST_SHARE = 1 / 256  # a smaller piece is part of its neighbour
_NEIGHBOURHOOD = 1 / 8  # of the work or parameters: how far away a place with fewer bytes counts
_FEWER = 0.8  # of a place's bytes, or less, are fewer

_NAMED = {"aten.type_as", "aten.meshgrid", "aten.broadcast_tensors", "aten.atleast_1d", "aten.atleast_2d", "aten.atleast_3d",
          "pipescope.function"}
#: Operators that change running statistics without a word in their schemas: the positions of these.
WRITES_STATISTICS = {"aten.batch_norm": (3, 4), "aten.instance_norm": (3, 4), "pipescope.cumulative_batch_norm": (3, 4)}


def size_of(value: Any) -> int:
    """The sample's size, of a number or a symbol."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat)):
        return int(value)
    hint: Any = value.node.hint
    if hint is None:  # it depends on values
        environment: Any = value.node.shape_env
        hint = value.node.expr.xreplace({**environment.backed_var_to_val, **environment.real_tensor_prop_unbacked_vals})
    return int(hint)


def _note_unknown_sizes(graph: torch.fx.Graph) -> None:
    """Gives each size that depends on values, and that a trace without values does not know, a value that is large enough."""
    for node in graph.nodes:
        for value in _pytree.tree_leaves(node.meta.get("val")) if unknown_sizes_of(node.meta.get("val")) else ():
            sizes: Iterable[Any] = value.shape if isinstance(value, Tensor) else [value]
            for size in sizes:
                for symbol in unknown_sizes_of(size):
                    known = size.node.shape_env.real_tensor_prop_unbacked_vals
                    if symbol not in known:
                        given = [each for below in node.all_input_nodes for each in _tensors_of(below) if not each.is_floating_point()]
                        known[symbol] = max((_numel(each) for each in given), default=1)


def _numel(value: Tensor) -> int:
    total = 1
    for size in value.shape:
        total *= size_of(size)
    return total


def bytes_of(node: Node) -> int:
    """Bytes of a node's tensor, for the sample's sizes."""
    value = node.meta.get("val")
    return _numel(value) * value.element_size() if isinstance(value, Tensor) else 0


def is_item(node: Node) -> bool:
    """Of an operator that makes a number of a tensor's value."""
    return op_name(node) in ("aten.item", "aten._local_scalar_dense")


def is_number(node: Node) -> bool:
    """Of a number that is computed from sizes."""
    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)) and not is_item(node)


def checked_relation(node: Node) -> str:
    """Of a check that a trace made: what it relies on, such as "u0 == 2", of sizes u0, .. that depend on values. Empty: nothing."""
    if node.op != "call_function" or op_name(node) != "aten._assert_scalar" or not isinstance(node.args[0], Node):
        return ""
    relation = str(node.args[1]).removeprefix(CHECK).partition(" on node ")[0]
    is_of_values = re.search(r"\b(u|zuf)\d+\b", relation) and not re.fullmatch(r"u\d+ >= 0|u\d+ <= \d{10,}", relation)
    return re.sub(r"\b(Eq|Ne)\(([^(),]*), ([^(),]*)\)", lambda found: f"{found[2]} {'!=' if found[1] == 'Ne' else '=='} {found[3]}",
                  relation) if is_of_values else ""


def tensors_below(node: Node) -> set[Node]:
    """The tensors, and numbers made of a tensor's value, that a number is computed from."""
    found, waiting = set(), [node]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += each.all_input_nodes if is_number(each) else []
    return {each for each in found if not is_number(each)}


def _tensors_of(node: Node) -> list[Tensor]:
    return [each for each in _pytree.tree_leaves(node.meta.get("val")) if isinstance(each, Tensor)]


def _work(node: Node) -> float:
    """Operations, or as many as a tensor's bytes take the time of."""
    value = node.meta.get("val")
    out = sum(_numel(each) * each.element_size() for each in _tensors_of(node))
    if getattr(node.target, "is_view", False) or node.target is torch.ops.aten.sym_size.int:
        return 0.0
    return 4.0 * out + _flops(node, value)


def _flops(node: Node, value: Any) -> float:
    name = op_name(node).removeprefix("aten.").removesuffix("_")
    values = [each.meta.get("val") for each in node.all_input_nodes]
    tensors = [each for each in values if isinstance(each, Tensor)]
    if not isinstance(value, Tensor) or len(tensors) < 2:
        return 0.0
    if name in ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"):
        left = tensors[1] if name in ("addmm", "baddbmm") else tensors[0]
        return 2.0 * _numel(value) * (size_of(left.shape[-1]) if left.dim() else 1)
    if name.startswith(("conv", "_conv")):
        weight = tensors[1]
        return 2.0 * _numel(value) * _numel(weight) / max(1, size_of(weight.shape[0]))
    if name == "scaled_dot_product_attention":
        return 4.0 * _numel(value) * size_of(tensors[1].shape[-2])
    return 0.0


class _Classes:
    """Nodes that share memory."""

    def __init__(self) -> None:
        self._parent: dict[Node, Node] = {}

    def of(self, node: Node) -> Node:
        root = node
        while (above := self._parent.get(root, root)) is not root:
            root = above
        self._parent[node] = root
        return root

    def join(self, one: Node, other: Node) -> None:
        self._parent[self.of(one)] = self.of(other)


def _arguments(node: Node) -> list[tuple[Any, Any]]:
    """(argument of the schema, value) of what is given."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = list(zip(schema.arguments, node.args))
    return given + [(each, node.kwargs[each.name]) for each in schema.arguments if each.name in node.kwargs]


def _nodes_in(value: Any) -> list[Node]:
    return [each for each in _pytree.tree_leaves(value) if isinstance(each, Node)]


def _memory(graph: torch.fx.Graph, modules: dict[str, Any]) -> tuple[_Classes, dict[Node, list[Node]]]:
    """(nodes that share memory, nodes that each operator changes in place)."""
    classes, writes = _Classes(), {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if not isinstance(node.target, torch._ops.OpOverload):
            alike, changed = _inside(node, modules)
            for one, other in alike:
                if not is_number(node) and isinstance(other.meta.get("val"), (Tensor, tuple, list)):
                    classes.join(one, other)
            if changed:
                writes[node] = changed
            continue
        returned = {name for each in node.target._schema.returns if each.alias_info for name in each.alias_info.before_set}
        may_alias = torch.Tag.maybe_aliasing_or_mutating in node.target.tags or op_name(node) in _NAMED
        for argument, value in _arguments(node):
            nodes = _nodes_in(value)
            if argument.alias_info is not None and argument.alias_info.is_write:
                writes.setdefault(node, []).extend(nodes)
            if argument.alias_info is not None and returned & argument.alias_info.before_set or (
                may_alias and op_name(node) not in WRITES_STATISTICS
            ):
                for each in nodes:
                    if isinstance(each.meta.get("val"), (Tensor, tuple, list)):
                        classes.join(node, each)
        for position in WRITES_STATISTICS.get(op_name(node), ()):
            writes.setdefault(node, []).extend(_nodes_in(node.args[position]))
    return classes, {node: changed for node, changed in writes.items() if changed}


_REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")  # run one part of a graph, and give it the operands as they are


def _inside(node: Node, modules: dict[str, Any]) -> tuple[list[tuple[Node, Node]], list[Node]]:
    """(pairs of this operator and its operands that may share memory, operands that it changes), by the parts that it runs."""
    parts = [modules[each.target] for each in node.all_input_nodes if each.op == "get_attr" and each.target in modules]
    changed = []
    given = [each for each in node.args if isinstance(each, (Node, tuple, list))]
    operands = [each for each in _nodes_in(given) if each.op != "get_attr"]
    alike = [(node, each) for each in operands]
    for part in parts:
        inner = {each.target: each for each in part.graph.nodes if each.op == "get_attr"}
        classes, writes = _memory(part.graph, {name: getattr(part, name) for name in inner})
        roots = {classes.of(each) for nodes in writes.values() for each in nodes}
        places = [each for each in part.graph.nodes if each.op == "placeholder"]
        changed += [operand for place, operand in zip(places, operands) if classes.of(place) in roots]
        if op_name(node) in _REGIONS:
            results = {classes.of(each) for each in _nodes_in(next(each for each in part.graph.nodes if each.op == "output").args)}
            by_class: dict[Node, Node] = {}
            alike = []
            for place, operand in zip(places, operands):
                alike += [(node, operand)] if classes.of(place) in results else []
                alike += [(by_class.setdefault(classes.of(place), operand), operand)]
    return alike, changed


def _first_change(node: Node, modules: dict[str, Any]) -> Node:
    """The operator inside of this one that changes something; the operator itself if it runs no part of a graph."""
    for part in (modules[each.target] for each in node.all_input_nodes if each.op == "get_attr" and each.target in modules):
        for inner in _memory(part.graph, dict(part.named_children()))[1]:
            return inner
    return node


def _is_random(node: Node, modules: dict[str, Any]) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags
    parts = [modules[each.target] for each in node.all_input_nodes if each.op == "get_attr" and each.target in modules]
    return any(_is_random(each, {}) for part in parts for each in part.graph.nodes if each.op == "call_function")


def changed_buffers(trace: Trace) -> set[str]:
    """The names of the buffers that a forward changes."""
    classes, writes = _memory(trace.graph, trace.modules)
    changed = {classes.of(each) for nodes in writes.values() for each in nodes}
    return {info.name for node, info in trace.constants.items() if info.kind == "buffer" and classes.of(node) in changed}


class Analysis:
    """What crosses where in a trace.

    ``order``: the operators that layers run once, in order. ``again``: those that each layer runs for itself.
    ``changing``: names of buffers that the forward changes in the model's other mode. They stay within one layer in both,
    so that no layer holds a buffer that another one changes.
    """

    def __init__(self, trace: Trace, changing: Collection[str] = ()) -> None:
        self.trace = trace
        _note_unknown_sizes(trace.graph)
        _remove_checks(trace.graph)
        _write_back_early(trace)
        self._classes, self._writes = _memory(trace.graph, trace.modules)
        if _without_needless_changes(trace, self._classes, self._writes):
            self._classes, self._writes = _memory(trace.graph, trace.modules)
        self.unknown = {node: unknown_sizes_of(node.meta.get("val")) for node in trace.graph.nodes}  #: symbols of sizes by values
        live = self._live()
        self.nodes = [node for node in trace.graph.nodes if node in live]
        refuse_unknown_outputs(trace)
        self.changed = {self._classes.of(each) for node, nodes in self._writes.items() if node in live for each in nodes}
        self.changed |= {
            self._classes.of(node) for node, info in trace.constants.items() if info.kind == "buffer" and info.name in changing
        }
        self._refuse_changed_parameters()
        self.again = self._computed_again()
        self.order = [node for node in self.nodes if node.op == "call_function" and node not in self.again]
        if not self.order:
            raise UsageError("the model computes nothing of its inputs and parameters; a pipeline has nothing to run; give a model that does")
        self.index = {node: k for k, node in enumerate(self.order)}
        self.outputs = [each for each in trace.output_nodes if isinstance(each, Node)]
        self.needs: dict[Node, frozenset[Node]] = {}  #: what an operator's arguments are made of: values, inputs, constants
        for node in self.nodes:
            self.needs[node] = self._needs_of(node)
        self.needs_grad = self._find_needs_grad()
        self.forbidden = self._find_forbidden()
        self.work = list(itertools.accumulate((_work(node) for node in self.order), initial=0.0))
        self.crossing = self._find_crossing()
        self.parameters = self._find_parameters()

    # ---- What runs ----

    def _live(self) -> set[Node]:
        """What the outputs depend on, and what changes something that they depend on, or a buffer."""
        live: set[Node] = set()
        waiting = [each for each in self.trace.output_nodes if isinstance(each, Node)]
        waiting += [
            each for each in self.trace.graph.nodes
            if each.op == "call_function" and op_name(each) == "pipescope.expect" or checked_relation(each)
        ]
        writers = list(self._writes)
        while True:
            while waiting:
                node = waiting.pop()
                if node not in live:
                    live.add(node)
                    waiting += node.all_input_nodes
            roots = {self._classes.of(each) for each in (*live, *self.trace.constants)}
            waiting = [node for node in writers if node not in live and any(self._classes.of(w) in roots for w in self._writes[node])]
            if not waiting:
                return live

    def _refuse_changed_parameters(self) -> None:
        for node, nodes in self._writes.items():
            for each in nodes:
                for constant, info in self.trace.constants.items():
                    if info.kind == "parameter" and self._classes.of(constant) is self._classes.of(each):
                        raise CannotCut(
                            f"the model changes its parameter {info.name} in place, at "
                            f"{place_of(_first_change(node, self.trace.modules))}; do that outside its "
                            "forward"
                        )

    def _computed_again(self) -> set[Node]:
        again: set[Node] = set()
        sources = {node for node, info in self.trace.constants.items() if info.kind != "parameter"}
        sources |= {node for node, info in zip(self.trace.input_nodes, self.trace.inputs)
                    if not info.dtype.is_floating_point and not info.dtype.is_complex}
        for node in self.nodes:
            if node.op == "get_attr" or is_number(node):
                again.add(node)
            elif (
                node.op == "call_function"
                and _tensors_of(node)
                and self._classes.of(node) not in self.changed
                and node not in self._writes
                and op_name(node) != "pipescope.function"
                and not any(self.unknown[each] for each in (node, *node.all_input_nodes))
                and not _is_random(node, self.trace.modules)
                and all(each in again or each in sources and self._classes.of(each) not in self.changed
                        for each in node.all_input_nodes)
                and _flops(node, node.meta.get("val")) <= 64 * sum(map(_numel, _tensors_of(node)))
            ):
                again.add(node)
        return again

    def _needs_of(self, node: Node) -> frozenset[Node]:
        if node.op == "placeholder":
            return frozenset([node])
        if is_number(node) or node.op == "get_attr":
            return frozenset()
        found: set[Node] = set()
        for each in tensors_below(node.args[0]) if checked_relation(node) else node.all_input_nodes:  # type: ignore[arg-type]
            found |= {each} if each in self.index else self.needs[each]
        return frozenset(found)

    def made_of(self, node: Any) -> frozenset[Node]:
        """The values that must be there for this one: itself, or what it is computed again from."""
        return frozenset([node]) if node in self.index else self.needs[node] if isinstance(node, Node) else frozenset()

    def _find_needs_grad(self) -> set[Node]:
        found = {node for node, info in zip(self.trace.input_nodes, self.trace.inputs) if info.requires_grad}
        found |= {node for node, info in self.trace.constants.items() if info.kind == "parameter"}
        for node in self.order:
            floats = any(each.is_floating_point() or each.is_complex() for each in _tensors_of(node))
            if floats and found & self.needs[node]:
                found.add(node)
        roots = {self._classes.of(node) for node in found} & self.changed
        return found | {node for node in self.order if self._classes.of(node) in roots}

    def origin_of(self, node: Node) -> str:
        """What decides on a value: "a random number" that depends on no value of the model, "the buffer steps" if no input takes part,
        or nothing."""
        waiting, seen, held = [node], set(), []
        has_inputs = False
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            waiting += each.all_input_nodes
            if each.op == "call_function" and each is not node and not each.all_input_nodes and _is_random(each, self.trace.modules):
                return "a random number"
            has_inputs = has_inputs or each in self.trace.input_nodes
            if info := self.trace.constants.get(each):
                held.append(f"the {info.kind} {info.name}" if info.kind != "constant" else "a tensor of the model")
        return "" if has_inputs else " and ".join(dict.fromkeys(held))

    # ---- Where it may be cut ----

    def _find_forbidden(self) -> set[int]:
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        held = {self._classes.of(node) for node, info in self.trace.constants.items()} & self.changed
        given = {self._classes.of(node) for node in self.trace.input_nodes}
        for k, node in enumerate(self.order):
            for each in (node, *node.all_input_nodes):
                root = self._classes.of(each)
                if root not in self.changed:
                    continue
                first.setdefault(root, -1 if root in given else k)
                if root in held:
                    last[root] = k
            for each in self._writes.get(node, []):
                last[self._classes.of(each)] = k
        forbidden: set[int] = set()
        self.bonds: list[tuple[int, int, str]] = []  #: (first and last operator of those that stay in one layer, why)
        for root, end in last.items():
            forbidden |= set(range(first[root] + 1, end + 1))
            name = next((info.name for node, info in self.trace.constants.items() if self._classes.of(node) is root), "")
            what = f"the buffer {name} changes, and is used" if name else "a value is changed in place"
            self.bonds.append((first[root], end, what))
        ends: dict[Any, list[int]] = {}  # the first and the last operator with a size that depends on values
        for k, node in enumerate(self.order):
            for symbol in set().union(*(self.unknown[each] for each in (node, *node.all_input_nodes))):
                ends.setdefault(symbol, [k, k])[1] = k
        for begin, end in ends.values():
            forbidden |= set(range(begin + 1, end + 1))
            self.bonds.append((begin, end, "a size that depends on values is used"))
        needed = self._last_needs()
        for k, node in enumerate(self.order):  # an operator and the parts of its result, and a number and the checks of it
            if not isinstance(node.meta.get("val"), Tensor):
                forbidden |= set(range(k + 1, needed.get(node, k) + 1))
        return forbidden

    def _last_needs(self) -> dict[Node, int]:
        last: dict[Node, int] = {}
        for k, node in enumerate(self.order):
            for each in self.needs[node]:
                last[each] = k
        for output in self.outputs:
            for each in self.made_of(output):
                last[each] = len(self.order)
        return last

    def _find_crossing(self) -> list[int]:
        """Bytes at each position, tied parameters apart."""
        change = [0] * (len(self.order) + 2)
        for node, last in self._last_needs().items():
            if node in self.trace.constants:
                continue
            size = bytes_of(node)
            change[self.index.get(node, -1) + 1] += size
            change[last + 1] -= size
        return list(itertools.accumulate(change))

    def _find_parameters(self) -> list[int]:
        """Bytes of the parameters that the first k operators use."""
        seen: set[int] = set()
        sizes = []
        for node in self.order:
            own = [self.trace.constants[each].tensor for each in self.needs[node] if each in self.trace.constants]
            new = {id(each): each for each in own if id(each) not in seen}
            seen |= new.keys()
            sizes.append(sum(each.numel() * each.element_size() for each in new.values()))
        return list(itertools.accumulate(sizes, initial=0))

    def share(self, first: int, end: int) -> float:
        """Of the model's work, or of its parameters if that is more."""
        work = (self.work[end] - self.work[first]) / (self.work[-1] or 1.0)
        return max(work, (self.parameters[end] - self.parameters[first]) / (self.parameters[-1] or 1))

    def stack(self, k: int) -> tuple[str, ...]:
        """The calls of modules that operator k is in, the outermost first."""
        stack = self.order[k].meta.get("nn_module_stack") or {}
        return tuple(key for key, (path, _) in stack.items() if path not in ("", "model"))

    def paths(self, k: int) -> list[str]:
        """The modules' names."""
        stack = self.order[k].meta.get("nn_module_stack") or {}
        return [path.removeprefix("model.") for path, _ in stack.values() if path not in ("", "model")]


def _remove_checks(graph: torch.fx.Graph) -> None:
    for node in reversed(list(graph.nodes)):
        is_check = node.op == "call_function" and op_name(node).startswith(("aten._assert", "aten.sym_constrain"))
        if is_check and not node.users and not checked_relation(node):
            graph.erase_node(node)


def _write_back_early(trace: Trace) -> None:
    """A buffer that the forward replaces takes its new value at the end of a trace. It does so where the value is complete, and
    what reads the buffer's old value reads a copy."""
    for name in trace.assigned:
        order = {node: k for k, node in enumerate(trace.graph.nodes)}
        classes, writes = _memory(trace.graph, trace.modules)
        place = next((node for node, info in trace.constants.items() if info.kind == "buffer" and info.name == name), None)
        writers = [] if place is None else [
            node for node, changed in writes.items() if any(classes.of(each) is classes.of(place) for each in changed)
        ]
        if place is None or len(writers) != 1 or writers[0].args[0] is not place:
            continue  # it is changed in place, too, so its values are right at the end of the trace only
        write, value = writers[0], writers[0].args[1]
        assert isinstance(value, Node)
        users = sorted((each for each in place.users if each is not write), key=order.__getitem__)
        if users:
            with trace.graph.inserting_before(users[0]):
                before = trace.graph.call_function(torch.ops.aten.clone.default, (place,))
            before.meta = {**users[0].meta, "val": place.meta["val"]}
            order[before] = order[users[0]]
            for user in users:
                user.replace_input_with(place, before)
        is_detached = op_name(value) == "aten.detach" and len(value.users) == 1  # as _write_back() in the trace does
        source: Any = value.args[0] if is_detached else value
        makers: list[Any] = [source, *(node for node, changed in writes.items() if any(classes.of(each) is classes.of(value) for each in changed))]
        last = max(makers, key=order.__getitem__)
        if last.op != "placeholder":
            for node in (write, value) if is_detached else (write,):
                node.meta = {**last.meta, "val": node.meta.get("val")}
                last.append(node)


def _without_needless_changes(trace: Trace, classes: _Classes, writes: dict[Node, list[Node]]) -> bool:
    """Changes of masks and tables in place that nothing else sees become new values, which each layer can compute again. True if
    there was one."""
    is_changed = False
    members: dict[Node, list[Node]] = {}
    order = {node: k for k, node in enumerate(trace.graph.nodes)}
    trained = {node for node, info in trace.constants.items() if info.kind == "parameter"}
    trained |= {node for node, info in zip(trace.input_nodes, trace.inputs) if info.dtype.is_floating_point}
    for node in trace.graph.nodes:
        members.setdefault(classes.of(node), []).append(node)
        if trained & set(node.all_input_nodes):
            trained.add(node)
    for node, changed in writes.items():
        if node in trained:
            continue
        name = op_name(node).removeprefix("aten.")
        if len(changed) != 1 or not name.endswith("_") or name.startswith("__") or not node.args or node.args[0] is not changed[0]:
            continue
        base = changed[0]
        others = [each for each in members[classes.of(base)] if each not in (base, node)]
        plain = getattr(torch.ops.aten, name[:-1], None)
        overload = node.target._overloadname  # type: ignore[union-attr]
        is_fresh = base.op == "call_function" and (not others or name == "detach_")
        if not is_fresh or plain is None or overload not in plain.overloads():
            continue
        if all(order[user] <= order[node] for user in base.users):
            node.target, is_changed = getattr(plain, overload), True
    return is_changed


# ---- Which places ----


def why_whole(analyses: Mapping[bool, Analysis]) -> str:
    """Why a model is one layer."""
    main = analyses[True]
    if len(analyses) > 1 and places_of(main):
        return (
            "the model runs other operators in eval mode than in train mode, and no module of its own begins at the same place in both; "
            "put its parts into modules"
        )
    begin, end, what = max(main.bonds, key=lambda bond: bond[1] - bond[0], default=(0, 0, ""))
    begin = max(0, begin)
    if 2 * (end - begin) >= len(main.order):
        return f"{what} from {place_of(main.order[begin])} to {place_of(main.order[end])}, and the model is not cut in between"
    return "it has no place where few bytes cross; name the modules that begin layers, as by split=['blocks.1']"



def places_of(analysis: Analysis, allowed: Optional[Iterable[int]] = None) -> list[int]:
    """The positions that make layers: those with few bytes, and of these the ones between the outermost modules."""
    candidates = set(range(1, len(analysis.order))) - analysis.forbidden
    if allowed is not None:
        candidates &= set(allowed)
    narrow = [k for k in sorted(candidates) if not _has_narrower(analysis, k, candidates)]
    depths = {k: _common(analysis.stack(k - 1), analysis.stack(k)) for k in narrow}
    return sorted(_divided(analysis, 0, len(analysis.order), narrow, depths))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def _has_narrower(analysis: Analysis, place: int, candidates: set[int]) -> bool:
    most = analysis.crossing[place] * _FEWER
    for step in (-1, 1):
        k = place + step
        while 0 < k < len(analysis.order) and analysis.share(min(k, place), max(k, place)) <= _NEIGHBOURHOOD:
            if k in candidates and analysis.crossing[k] < most:
                return True
            k += step
    return False


def _divided(analysis: Analysis, first: int, end: int, narrow: Sequence[int], depths: dict[int, int]) -> list[int]:
    if analysis.share(first, end) <= _MOST_SHARE:
        return []
    inside = [k for k in narrow if first < k < end]
    for depth in sorted({depths[k] for k in inside}):
        places: list[int] = []
        for k in (k for k in inside if depths[k] == depth):
            if analysis.share(places[-1] if places else first, k) >= _LEAST_SHARE:
                places.append(k)
        while places and analysis.share(places[-1], end) < _LEAST_SHARE:
            places.pop()
        places = _without_idle_pairs(analysis, first, places, end)
        if places:
            ends = [first, *places, end]
            return places + [k for pair in zip(ends, ends[1:]) for k in _divided(analysis, *pair, narrow, depths)]
    return []


def _without_idle_pairs(analysis: Analysis, first: int, places: list[int], end: int) -> list[int]:
    """Two pieces that hold parameters and compute almost nothing, such as embeddings, are one."""
    least = _LEAST_SHARE * analysis.work[-1]
    kept: list[int] = []
    for k, behind in zip(places, [*places[1:], end]):
        before = kept[-1] if kept else first
        if max(analysis.work[k] - analysis.work[before], analysis.work[behind] - analysis.work[k]) >= least:
            kept.append(k)
    return kept


def places_by_name(analysis: Analysis, names: Sequence[str]) -> list[int]:
    """The positions before the first operators of these modules."""
    places = []
    for name in names:
        found = [k for k in range(len(analysis.order)) if name in analysis.paths(k)]
        if not found:
            raise UsageError(f"split names '{name}', and no operator of the model is in such a module; name one of named_modules()")
        if found[0] in analysis.forbidden:
            raise UsageError(
                f"split names '{name}', and the model cannot be cut before it, at {place_of(analysis.order[found[0]])}: a value "
                "from before it is changed in place behind it, or a buffer that changes is used on both sides; name another module"
            )
        places.append(found[0])
    if any(place == 0 for place in places):
        raise UsageError(f"split names '{names[places.index(0)]}', with which the model begins; name the modules that begin layers")
    if places != sorted(set(places)):
        raise UsageError(f"split is {list(names)}, which do not run in this order, each after the other; name them in order")
    return places


# ---- The same places in another trace ----


def anchors_of(analysis: Analysis, places: Sequence[int]) -> list[Optional[tuple[str, tuple[str, ...]]]]:
    """The calls of modules that begin or end at these positions. None: there is none."""
    anchors: list[Optional[tuple[str, tuple[str, ...]]]] = []
    for k in places:
        before, behind = analysis.stack(k - 1), analysis.stack(k)
        common = _common(before, behind)
        if len(behind) > common:
            anchors.append(("before", behind[: common + 1]))
        elif len(before) > common:
            anchors.append(("behind", before[: common + 1]))
        else:
            anchors.append(None)
    return anchors


def positions_of(analysis: Analysis, anchors: Iterable[Optional[tuple[str, tuple[str, ...]]]]) -> list[Optional[int]]:
    """The positions of these calls. None: not there, or forbidden."""
    positions: list[Optional[int]] = []
    stacks = [analysis.stack(k) for k in range(len(analysis.order))]
    for anchor in anchors:
        inside = [] if anchor is None else [k for k, stack in enumerate(stacks) if stack[: len(anchor[1])] == anchor[1]]
        place = (inside[0] if anchor[0] == "before" else inside[-1] + 1) if anchor and inside else None
        is_good = place is not None and 0 < place < len(analysis.order) and place not in analysis.forbidden
        positions.append(place if is_good else None)
    return positions
