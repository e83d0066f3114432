"""Any model as layers: a trace of it, cut at places where few bytes cross, each piece a module that runs its operators.

A layer holds the model's own parameters and buffers, under the model's names. Between layers go

- the values that the next layer needs, as its input: a tensor, or a tuple of several;
- the values that later layers need, as skips, which the engine sends once to each lane that reads them. A value that the next
  layer needs too is a skip of that layer, so that no lane gets it twice;
- no sizes: a layer reads them off the tensors that it gets;
- no parameters. The first layer that uses one holds it. Each other one has a tensor that stands for it, a copy in its table of
  parameters, of which the engine knows (option ``shared``): a lane gets the values once a step, and the holder has the sum of
  all gradients. Every optimizer sees one parameter.
"""

from __future__ import annotations

import dataclasses
import operator
import traceback
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree
from torch.utils._sympy.printers import PythonPrinter

from pipescope._causal_masks import CausalMasks, set_masks
from pipescope._graph_cuts import (
    WRITES_STATISTICS,
    Analysis,
    anchors_of,
    bytes_of,
    checked_relation,
    is_item,
    is_number,
    places_by_name,
    places_of,
    positions_of,
    tensors_below,
)
from pipescope._trace_model import (
    MODE_ARGUMENTS,
    FunctionCall,
    batch_sizes_of,
    cumulative_batch_norm,
    expect,
    expect_size,
    op_name,
    packed_data,
    packed_rnn,
    padded_data,
    place_of,
    unknown_sizes_of,
)
from pipescope.errors import UsageError
from pipescope.skip import Skippable, verify_skippables

__all__ = ["Crossing", "TracedLayer", "layers_from"]


class Mode:
    """Whether a module of the model trains. A copy of a layer without its model has a mode of its own."""

    def __init__(self, owner: nn.Module) -> None:
        self.owner: Optional[nn.Module] = owner
        self.flag = owner.training

    @property
    def is_training(self) -> bool:
        return self.flag if self.owner is None else self.owner.training

    def __deepcopy__(self, memo: dict[int, Any]) -> Mode:
        made = Mode.__new__(Mode)
        made.owner = memo.get(id(self.owner))
        made.flag = self.is_training
        return made


# ---- What generated code calls ----


class SizeOf:
    """A number that depends on sizes, such as ``s0*s1``."""

    def __init__(self, source: str, names: Sequence[str]) -> None:
        self.source, self.names = source, tuple(names)
        self.__name__ = self.__qualname__ = "size_of"
        self._function: Any = None

    def __call__(self, *sizes: int) -> Any:
        if self._function is None:
            self._function = eval(f"lambda {', '.join(self.names)}: {self.source}", {"math": __import__("math"), "torch": torch})
        return self._function(*sizes)

    def __reduce__(self) -> Any:
        return SizeOf, (self.source, self.names)


def probability(value: float, is_training: bool) -> float:
    """Of dropout inside an operator, which is 0 in eval mode."""
    return value if is_training else 0.0


def count_up(counter: Tensor, step: Any, is_training: bool) -> Tensor:
    """A batch norm counts its mini-batches in train mode only."""
    return counter.add_(step) if is_training else counter


def _device_of(tensor: Tensor) -> torch.device:
    return tensor.device


_FILE = "<layer of a traced model>"


class _Code:
    """The function that a graph stands for. ``places``: where the model has the operators of its nodes, by name. ``causal``: of
    each operator of attention with a mask, whether the mask forbids all later tokens."""

    def __init__(self, graph: torch.fx.Graph, places: Mapping[str, str], causal: Sequence[bool] = ()) -> None:
        graph.lint()
        made = graph.python_code("self")
        self._source = made.src
        self._places = dict(places)
        self._causal = tuple(causal)
        self._names = {
            name: value for name, value in made.globals.items() if isinstance(value, (SizeOf, FunctionCall)) or value in _KNOWN
        }
        self._function: Any = None

    def __call__(self, *values: Any) -> Any:
        if self._function is None:
            names = {**torch.fx.Graph().python_code("self").globals, **self._names}
            exec(compile(self._source, _FILE, "exec"), names)
            self._function = names["forward"]
        if self._causal:
            set_masks(self._causal)
        try:
            return self._function(None, *values)
        except Exception as error:
            if isinstance(error, NotImplementedError) and "meta" in str(error).lower():
                raise UsageError(
                    f"an operator needs values, which the meta device does not have, at {self._place_of(error)}; measure the profile on a "
                    "device, without estimate_for"
                ) from error
            if (place := self._place_of(error)) and hasattr(error, "add_note"):  # since Python 3.11
                error.add_note(f"raised by {place}")
            raise

    def _place_of(self, error: Exception) -> str:
        """The model's line that made the operator which raised it; empty if unknown."""
        frames = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == _FILE]
        line = self._source.splitlines()[frames[0] - 1] if frames else ""
        return self._places.get(line.split("=")[0].split(":")[0].strip(), "")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None}


_KNOWN = (probability, count_up, cumulative_batch_norm, expect, expect_size, batch_sizes_of, packed_data, packed_rnn, padded_data, _device_of,
          operator.getitem)


# ---- Parts: what a layer does in one of the model's modes ----


@dataclasses.dataclass
class _Part:
    code: _Code
    popped: list[str]  #: names of skips, in the order of the code's arguments, behind the input's tensors
    stashed: list[str]  #: names of skips, in the order of the code's second result
    held: list[str]  #: names of the layer's tensors that the code takes
    modes: list[str]  #: names of modules
    modules: list[nn.Module]  #: parts of the graph
    sparse: list[str]  #: names of modules whose weights get sparse gradients


@dataclasses.dataclass(frozen=True)
class Crossing:
    """A value on its way past other layers. ``bytes``: for the sample's sizes."""

    name: str
    first: int
    ends: tuple[int, ...]
    bytes: int


class TracedLayer(Skippable):
    """Consecutive operators of a model.

    Takes a tensor or a tuple of tensors, and returns one. The modes of its modules are the model's own.
    """

    def __init__(self, title: str, parts: Mapping[bool, _Part], modes: Mapping[str, Mode], root: Mode) -> None:
        nn.Module.__init__(self)
        self.title = title
        self.namespaces = {}
        self._names_in_engine = {}
        self._popped_later = frozenset()
        self._parts = dict(parts)
        self._modes = dict(modes)
        self._root = root
        self._constants: dict[str, Tensor] = {}
        self.copies: set[str] = set()  #: names of parameters that an earlier layer holds
        self.training = root.is_training
        both = list(self._parts.values())
        self.stashable_names = frozenset(name for part in both for name in part.stashed)  # type: ignore[misc]
        self.poppable_names = frozenset(name for part in both for name in part.popped)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"TracedLayer({self.title})"

    @property
    def has_two_modes(self) -> bool:
        """True if the model runs other operators in eval mode."""
        return len(self._parts) > 1

    @property
    def sparse(self) -> list[str]:
        """Names of modules whose weights get sparse gradients."""
        return [name for part in self._parts.values() for name in part.sparse]

    def hold(self, kind: str, name: str, tensor: Tensor) -> None:
        """Under the model's name, which may have dots."""
        {"parameter": self._parameters, "buffer": self._buffers, "constant": self._constants}[kind][name] = tensor  # type: ignore[index]
        if kind == "buffer":
            self._non_persistent_buffers_set.discard(name)

    def hold_copy(self, name: str, parameter: nn.Parameter) -> None:
        """A tensor that stands for a parameter of an earlier layer. It has the same memory until the engine moves it."""
        self._parameters[name] = nn.Parameter(parameter.detach(), parameter.requires_grad)
        self.copies.add(name)

    def train(self, mode: bool = True) -> TracedLayer:
        super().train(mode)
        for each in (self._root, *self._modes.values()):
            if each.owner is None:
                each.flag = mode
        return self

    def forward(self, input: Union[Tensor, tuple[Tensor, ...], list[Tensor]]) -> Any:
        popped = {name: self._take(name) for name in sorted(self.poppable_names)}
        part = self._parts[self._root.is_training if self.has_two_modes else True]
        values = (input,) if isinstance(input, Tensor) else input
        held = [self._tensor(name, values) for name in part.held]
        modes = [self._modes[name].is_training for name in part.modes]
        outputs, stashed = part.code(*values, *[popped[name] for name in part.popped], *held, *modes, *part.modules)
        given = dict(zip(part.stashed, stashed))
        for name in sorted(self.stashable_names):
            self._put(name, given.get(name))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _tensor(self, name: str, values: Sequence[Tensor]) -> Any:
        for table in (self._parameters, self._buffers):
            if name in table:
                return table[name]
        constant = self._constants[name]
        if constant.device != values[0].device:
            self._constants[name] = constant = constant.to(values[0].device)
        return constant


# ---- Making them ----

#: What layers call in the place of operators that stand for something in a trace.
_AT_RUN: dict[str, Any] = {
    "pipescope.ctc_loss": torch.ops.aten.ctc_loss.Tensor, "pipescope.cumulative_batch_norm": cumulative_batch_norm, "pipescope.expect": expect,
    "pipescope.packed_data": packed_data, "pipescope.batch_sizes": batch_sizes_of, "pipescope.padded_data": padded_data,
    "pipescope.packed_rnn": packed_rnn,
}


class _Maker:
    """One trace cut at given positions."""

    def __init__(self, analysis: Analysis, places: Sequence[int], outputs: Sequence[Optional[int]], prefix: str) -> None:
        self.analysis, self.trace = analysis, analysis.trace
        self.ends = [0, *places, len(analysis.order)]
        self.count = len(self.ends) - 1
        self.output_dimensions, self.prefix = list(outputs), prefix
        self.layer_of = {node: k for k in range(self.count) for node in analysis.order[self.ends[k]:self.ends[k + 1]]}
        self.readers = self._find_readers()
        self._sequences: dict[int, list[Node]] = {}
        self.sizes = self._find_sizes()
        self.route = self._find_route()
        self.masks = CausalMasks(self.trace.constants)
        self._bridge_gaps()
        self.skips = self._find_skips()

    def _source(self, key: Any) -> int:
        return self.layer_of.get(key, 0)

    def _find_readers(self) -> dict[Any, set[int]]:
        readers: dict[Any, set[int]] = {}
        reads = [(layer, self.analysis.needs[node]) for node, layer in self.layer_of.items()]
        reads += [(self.count - 1, self.analysis.made_of(each)) for each in self.analysis.outputs]
        for layer, needs in reads:
            for each in needs:
                if each not in self.trace.constants:
                    readers.setdefault(each, set()).add(layer)
        return readers

    def _find_sizes(self) -> list[Any]:
        """The symbols that some layer cannot read off a tensor, so that the first one hands on an empty tensor with them."""
        missing: set[Any] = set()
        for k in range(1, self.count):
            missing |= self._symbols_needed(k) - self._symbols_of(key for key in self.readers if self._gets(key, k))
        return sorted(missing, key=str)

    def _gets(self, key: Any, layer: int) -> bool:
        return layer in self.readers[key] and self._source(key) < layer

    def _symbols_of(self, keys: Any) -> set[Any]:
        return {
            size.node.expr
            for key in keys if isinstance(key, Node)
            for size in getattr(key.meta.get("val"), "shape", ())
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol
        }

    def _symbols_needed(self, layer: int) -> set[Any]:
        symbols: set[Any] = set()
        for node in self._sequence(layer):
            value = node.meta.get("val")
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                symbols |= value.node.expr.free_symbols - unknown_sizes_of(value)
        return symbols

    def _sequence(self, layer: int) -> list[Node]:
        """The operators of a layer, and those that it computes for itself, in order."""
        if layer in self._sequences:
            return self._sequences[layer]
        waiting: list[Node] = [node for node in self.layer_of if self.layer_of[node] == layer]
        if layer == self.count - 1:
            waiting += self.analysis.outputs
        found: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in found or node.op == "placeholder" or self.layer_of.get(node, layer) != layer:
                continue
            found.add(node)
            if not is_number(node):
                waiting += tensors_below(node.args[0]) if checked_relation(node) else node.all_input_nodes  # type: ignore[arg-type]
        self._sequences[layer] = [node for node in self.analysis.nodes if node in found]
        return self._sequences[layer]

    def _find_route(self) -> dict[Any, list[int]]:
        """By value, the layers that it visits, from the one that has it on."""
        readers = dict(self.readers)
        if self.sizes:
            readers["sizes"] = {k for k in range(1, self.count) if self._symbols_needed(k)}
        route = {}
        for key, layers in readers.items():
            source = 0 if key == "sizes" else self._source(key)
            stops = [source, *sorted(k for k in layers if k > source)]
            if len(stops) > 1:
                route[key] = stops
        return route

    def _bridge_gaps(self) -> None:
        """Each layer gets something from the one before it."""
        self.carried: set[tuple[Any, int]] = set()  # (value, layer) that an earlier layer only hands on
        for k in range(1, self.count):
            if any(stops[0] == k - 1 and k in stops for stops in self.route.values()):
                continue
            over = [key for key, stops in self.route.items() if stops[0] < k <= stops[-1]]
            key = min(over or [self.trace.input_nodes[0]], key=self.bytes_of)
            self.route[key] = sorted({*self.route.get(key, [0]), k - 1, k})
            self.carried.add((key, k))

    def _is_input(self, key: Any, layer: int) -> bool:
        """True if the layer before hands the value on. Other layers pop a skip."""
        stops = self.route[key]
        return (key, layer) in self.carried or (stops[0] == layer - 1 and layer in stops)

    def _find_skips(self) -> list[tuple[Any, int, list[int]]]:
        """(value, the layer that stashes it, those that pop it)."""
        skips: list[tuple[Any, int, list[int]]] = []
        for key, stops in self.route.items():
            writer = stops[0]
            for layer in stops[1:]:
                if self._is_input(key, layer):
                    writer = layer
                elif skips and skips[-1][:2] == (key, writer):
                    skips[-1][2].append(layer)
                else:
                    skips.append((key, writer, [layer]))
        return skips

    def bytes_of(self, key: Any) -> int:
        return bytes_of(key) if isinstance(key, Node) else 0

    def title_of(self, key: Any) -> str:
        if isinstance(key, Node):
            names = {node: info.name for node, info in zip(self.trace.input_nodes, self.trace.inputs)}
            return names.get(key, key.name)
        return str(key)

    def into(self, layer: int) -> list[Any]:
        """The values of a layer's input."""
        if layer == 0:
            return list(self.trace.input_nodes)
        return [key for key in self.route if self._is_input(key, layer)]

    def skip_name(self, key: Any, writer: int) -> str:
        return f"{self.prefix}{self.title_of(key)} of {writer}"

    def part(self, layer: int) -> tuple[_Part, list[tuple[str, str, Tensor]]]:
        """(what the layer does, (kind, name, tensor) of what it holds)."""
        return _PartMaker(self, layer).made()


class _PartMaker:
    """Writes the code of one layer."""

    def __init__(self, maker: _Maker, layer: int) -> None:
        self.maker, self.layer = maker, layer
        self.trace, self.analysis = maker.trace, maker.analysis
        self.graph = torch.fx.Graph()
        self.environment: dict[Any, Any] = {}
        self.places: dict[str, str] = {}
        self.sequence = maker._sequence(layer)
        self.popped = [(key, writer) for key, writer, layers in maker.skips if layer in layers]
        self.stashed = [(key, writer) for key, writer, _ in maker.skips if writer == layer]
        self.held: list[tuple[str, str, Tensor]] = []
        self.modes: list[str] = []
        self.modules: list[nn.Module] = []
        self.causal: list[bool] = []

    def made(self) -> tuple[_Part, list[tuple[str, str, Tensor]]]:
        graph = self.graph
        arriving = [*self.maker.into(self.layer), *[key for key, _ in self.popped]]
        places = [(key, graph.placeholder(f"value_{k}")) for k, key in enumerate(arriving)]
        constants = self._constants_held()
        for k, (node, info) in enumerate(constants.items()):
            self.environment[node] = graph.placeholder(f"held_{k}")
            self.held.append((info.kind, info.name, info.tensor))
        flags = self._mode_places()
        for node in self.sequence:
            if node.op == "get_attr":
                self.environment[node] = graph.placeholder(f"part_{len(self.modules)}")
                self.modules.append(_on_any_device(self.trace.modules[str(node.target)]))
        for key, place in places:
            self.environment[key] = graph.call_function(torch.ops.aten.detach.default, (place,)) if self._is_apart(key) else place
        first = next((self.environment[key] for key, _ in places), None)
        self.device = graph.call_function(_device_of, (first,))
        self.symbols = self._read_sizes(places)
        for node in self.sequence:
            if node.op != "get_attr":
                made = self.environment[node] = self._number(node) if is_number(node) else self._operator(node, flags)
                if isinstance(made, Node):
                    self.places[made.name] = place_of(node)
                    self._read_unknown_sizes(node, made)
        if self.maker.sizes and self.layer == 0:
            self.environment["sizes"] = self._empty_with_sizes()
        leaving = self._results() if self.layer == self.maker.count - 1 else [
            self._value(key) for key in self.maker.into(self.layer + 1)
        ]
        graph.output((tuple(leaving), tuple(self._value(key) for key, _ in self.stashed)))
        _drop_unused(graph)
        names = [name for _, name, _ in self.held]
        skips = [[self.maker.skip_name(*each) for each in those] for those in (self.popped, self.stashed)]
        sparse = [self._owner(node) for node in self.sequence if _has_sparse_gradient(node)]
        return _Part(_Code(graph, self.places, self.causal), skips[0], skips[1], names, self.modes, self.modules, sparse), self.held

    def _value(self, key: Any) -> Any:
        return self.environment[key]

    def _constants_held(self) -> dict[Node, Any]:
        """Tensors of the model that this layer uses."""
        used = {each for node in self.sequence for each in node.all_input_nodes if each in self.trace.constants}
        used |= {each for each in self.analysis.outputs if each in self.trace.constants}
        return {node: self.trace.constants[node] for node in sorted(used, key=lambda each: each.name)}

    def _is_apart(self, key: Any) -> bool:
        """True for values that need no gradient, which a checkpointed partition would give one."""
        if not isinstance(key, Node) or key in self.analysis.needs_grad:
            return False
        value = key.meta.get("val")
        return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())

    def _owner(self, node: Node) -> str:
        """The module that decides on an operator's mode."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        return str(stack[-1][0]).removeprefix("model").removeprefix(".") if stack else ""

    def _takes_mode(self, node: Node) -> bool:
        if op_name(node) == "aten.add_" and _is_counter(node, self.trace):
            return True
        if op_name(node) not in MODE_ARGUMENTS or self.maker.prefix == "eval ":
            return False
        if op_name(node) in WRITES_STATISTICS and _argument(node, 3) is None:  # it has no running statistics, so it needs the samples' own
            return False
        position, is_probability = MODE_ARGUMENTS[op_name(node)]
        value = _argument(node, position)
        return isinstance(value, float) and value > 0 if is_probability else value is True

    def _mode_places(self) -> dict[str, Any]:
        flags: dict[str, Any] = {}
        for node in self.sequence:
            if node.op == "call_function" and not is_number(node) and self._takes_mode(node):
                name = self._owner(node)
                if name not in flags:
                    flags[name] = self.graph.placeholder(f"mode_{len(flags)}")
                    self.modes.append(name)
        return flags

    def _operator(self, node: Node, flags: Mapping[str, Any]) -> Any:
        def replaced(value: Any) -> Any:
            if isinstance(value, torch.device):
                return self.device
            if isinstance(value, (list, tuple)):
                return type(value)(replaced(each) for each in value)
            return value

        if relation := checked_relation(node):
            origin = self.analysis.origin_of(node)
            return self.graph.call_function(
                expect_size, (self._number_at_run(node.args[0]), relation, place_of(node).partition(" in ")[2], origin)
            )
        args = [replaced(each) for each in map_arg(node.args, self._value)]
        kwargs = {name: replaced(each) for name, each in map_arg(node.kwargs, self._value).items()}
        if op_name(node) == "pipescope.function":
            return self.graph.call_function(self.trace.calls[args[1]], (args[0],))
        if op_name(node) == "pipescope.expect":
            args.append(self.analysis.origin_of(node))
        if op_name(node) == "aten.scaled_dot_product_attention" and (mask := _argument(node, 3)) is not None:
            self.causal.append(self.maker.masks.is_causal(mask))
        if self._takes_mode(node):
            flag = flags[self._owner(node)]
            if op_name(node) == "aten.add_":
                return self.graph.call_function(count_up, (*args, flag))
            position, is_probability = MODE_ARGUMENTS[op_name(node)]
            value = self.graph.call_function(probability, (_argument(node, position), flag)) if is_probability else flag
            name = node.target._schema.arguments[position].name  # type: ignore[union-attr]
            if name in kwargs:
                kwargs[name] = value
            else:
                args[position] = value
        return self.graph.call_function(_AT_RUN.get(op_name(node), node.target), tuple(args), kwargs)

    def _read_sizes(self, places: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        needed = self.maker._symbols_needed(self.layer)
        if self.layer == 0:
            needed |= set(self.maker.sizes)
        symbols: dict[Any, Any] = {}
        for key, _ in places:
            shape = self.maker.sizes if key == "sizes" else [
                size.node.expr if isinstance(size, torch.SymInt) else size
                for size in getattr(getattr(key, "meta", {}).get("val"), "shape", ())
            ]
            for dimension, expression in enumerate(shape):
                if expression in needed and expression not in symbols:
                    symbols[expression] = self.graph.call_function(
                        torch.ops.aten.sym_size.int, (self.environment[key], dimension)
                    )
        return symbols

    def _read_unknown_sizes(self, node: Node, made: Node) -> None:
        """Sizes that depend on values, and begin with this operator."""
        value: Any = node.meta.get("val")
        unknown = self.analysis.unknown[node]
        if is_item(node) and unknown:
            self.symbols[value.node.expr] = made
        for dimension, size in enumerate(value.shape if unknown and isinstance(value, Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr in unknown and size.node.expr not in self.symbols:
                self.symbols[size.node.expr] = self.graph.call_function(torch.ops.aten.sym_size.int, (made, dimension))

    def _number_at_run(self, node: Any) -> Any:
        """Of sizes as they are, also of those that the trace takes for equal to the sample's."""
        if not isinstance(node, Node) or not is_number(node):
            return self._value(node) if isinstance(node, Node) else node
        return self.graph.call_function(node.target, tuple(self._number_at_run(each) for each in node.args))  # type: ignore[arg-type]

    def _number(self, node: Node) -> Any:
        value = node.meta["val"]
        if isinstance(value, (int, float, bool)):
            return value
        return self._expression(value.node.expr)

    def _expression(self, expression: Any) -> Any:
        if expression in self.symbols:
            return self.symbols[expression]
        if expression.is_number:
            return int(expression) if expression.is_integer else float(expression)
        names = sorted(expression.free_symbols, key=str)
        source = PythonPrinter().doprint(expression)
        return self.graph.call_function(SizeOf(source, [str(each) for each in names]), tuple(self.symbols[each] for each in names))

    def _empty_with_sizes(self) -> Any:
        shape = [*(self.symbols[each] for each in self.maker.sizes), 0]
        return self.graph.call_function(torch.ops.aten.empty.memory_format, (shape,), {"dtype": torch.uint8, "device": self.device})

    def _results(self) -> list[Any]:
        """The model's tensors. One without dimensions gets one, since a micro-batch's results are joined."""
        results = []
        for node, batch in zip(self.trace.output_nodes, self.maker.output_dimensions):
            value = self.environment[node] if isinstance(node, Node) else self.graph.call_function(
                torch.ops.aten.full.default, ([], node), {"device": self.device})
            if batch is None:
                value = self.graph.call_function(torch.ops.aten.unsqueeze.default, (value, 0))
            results.append(value)
        return results


def _argument(node: Node, position: int) -> Any:
    argument = node.target._schema.arguments[position]  # type: ignore[union-attr]
    if argument.name in node.kwargs:
        return node.kwargs[argument.name]
    return node.args[position] if len(node.args) > position else argument.default_value


def _has_sparse_gradient(node: Node) -> bool:
    """Of an embedding."""
    if op_name(node) not in ("aten.embedding", "aten.embedding_bag"):
        return False
    names = [each.name for each in node.target._schema.arguments]  # type: ignore[union-attr]
    return bool(_argument(node, names.index("sparse")))


def _is_counter(node: Node, trace: Any) -> bool:
    info = trace.constants.get(node.args[0])
    return info is not None and str(info.name).endswith("num_batches_tracked")


def _drop_unused(graph: torch.fx.Graph) -> None:
    """Sizes and devices that nothing reads."""
    for node in reversed(list(graph.nodes)):
        is_plain = node.target in (_device_of, torch.ops.aten.sym_size.int, torch.ops.aten.detach.default)
        if node.op == "call_function" and not node.users and (is_plain or isinstance(node.target, SizeOf)):
            graph.erase_node(node)


def _on_any_device(part: nn.Module) -> nn.Module:
    """A part of a graph whose new tensors are where its inputs are."""
    graph = getattr(part, "graph", None)
    if graph is None:
        return part
    first = next((node for node in graph.nodes if node.op == "placeholder" and isinstance(node.meta.get("val"), Tensor)), None)
    for name, inner in part.named_children():
        setattr(part, name, _on_any_device(inner))
    for node in list(graph.nodes):
        if node.op == "call_function" and op_name(node).startswith(("aten._assert", "aten.sym_constrain")) and not node.users:
            graph.erase_node(node)
    if first is not None:
        users = [
            node for node in graph.nodes
            if any(isinstance(each, torch.device) for each in _pytree.tree_leaves((node.args, node.kwargs)))
        ]
        if users:
            with graph.inserting_after([node for node in graph.nodes if node.op == "placeholder"][-1]):
                device = graph.call_function(_device_of, (first,))
            for node in users:
                change = lambda each: device if isinstance(each, torch.device) else each  # noqa: E731
                node.args, node.kwargs = _pytree.tree_map(change, node.args), _pytree.tree_map(change, node.kwargs)
    part.recompile()  # type: ignore[operator]
    return part


def _title(analysis: Analysis, first: int, end: int) -> str:
    """The innermost module with most of the work; else the first and the last one."""
    work: dict[str, float] = {}
    total = 0.0
    for k in range(first, end):
        own = analysis.work[k + 1] - analysis.work[k] + 1e-9
        total += own
        for path in dict.fromkeys(analysis.paths(k)):
            work[path] = work.get(path, 0.0) + own
    good = [path for path, own in work.items() if own >= 0.8 * total]
    if good:
        return max(good, key=len)
    ends = [(analysis.paths(k) or ["model"])[-1] for k in (first, end - 1)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}..{ends[1]}"


def layers_from(
    model: nn.Module,
    analyses: Mapping[bool, Analysis],
    names: Optional[Sequence[str]],
    output_dimensions: Mapping[bool, Sequence[Optional[int]]],
) -> tuple["OrderedDict[str, TracedLayer]", list[Crossing], list[int]]:
    """(the layers by name, what crosses further than to the next one, bytes that cross each border).

    ``analyses``: of the train mode as True, and of eval as False if that runs other operators. ``names``: modules that begin a
    layer; None: at the places with few bytes.
    """
    main = analyses[True]
    places = places_of(main) if names is None else places_by_name(main, names)
    other = analyses.get(False)
    of_other: list[int] = []
    if other is not None:
        found = dict(zip(places, positions_of(other, anchors_of(main, places))))
        for place in list(places):
            last = of_other[-1] if of_other else 0
            if (position := found[place]) is not None and position > last:
                of_other.append(position)
            else:
                places.remove(place)
    makers = {True: _Maker(main, places, output_dimensions[True], "" if other is None else "train ")}
    if other is not None:
        makers[False] = _Maker(other, of_other, output_dimensions[False], "eval ")
    layers: OrderedDict[str, TracedLayer] = OrderedDict()
    root = Mode(model)
    holders: set[int] = set()  # the ids of parameters that a layer holds
    modules = dict(model.named_modules())
    for k in range(makers[True].count):
        made = {is_training: maker.part(k) for is_training, maker in makers.items()}
        first, end = makers[True].ends[k], makers[True].ends[k + 1]
        title = base = _title(main, first, end)
        number = 2
        while title in layers:
            title, number = f"{base}#{number}", number + 1
        modes = {name: Mode(modules.get(name, model)) for part, _ in made.values() for name in part.modes}
        layer = TracedLayer(title, {mode: part for mode, (part, _) in made.items()}, modes, root)
        for kind, name, tensor in (each for _, held in made.values() for each in held):
            if kind == "parameter" and id(tensor) in holders:
                layer.hold_copy(name, tensor)  # type: ignore[arg-type]
            else:
                layer.hold(kind, name, tensor)
        holders |= {id(each) for each in layer.parameters()}
        layers[title] = layer
    maker = makers[True]
    verify_skippables(layers)
    crossings = [Crossing(maker.title_of(key), writer, tuple(ends), maker.bytes_of(key)) for key, writer, ends in maker.skips]
    borders = [sum(maker.bytes_of(key) for key in maker.into(k)) for k in range(1, maker.count)]
    return layers, crossings, borders
