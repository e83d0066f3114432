"""One call of a model as a graph of operators, by torch.export, with sizes that stay unknown.

The model runs once on tensors without values. Every dimension of an input that may differ from call to call is a symbol, so
the graph holds sizes such as ``[s0, s1, 64]`` and no size of the sample unless the model insists on it. Operators that change
their input in place stay in the graph.

An export loses some things silently, which are found here and refused by name: gradients of an autograd.Function, hooks of
backwards, and buffers that a forward replaces.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import dataclasses
import functools
import gc
import hashlib
import inspect
import itertools
import linecache
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

import sympy  # type: ignore[import-untyped]
import torch
from torch import Tensor, nn
from torch._export import non_strict_utils
from torch._functorch import config as _functorch_config, eager_transforms, vmap as _vmaps
from torch._subclasses import fake_tensor, fake_utils
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.export import Dim, _trace as _exports
from torch.export.graph_signature import InputKind
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, free_unbacked_symbols
from torch.nn import functional
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from pipescope._held_state import Absent, Reads, frozen, held_tensor, hooks_of_all_modules
from pipescope._structure import tensors_in
from pipescope.errors import UsageError

__all__ = [
    "CHECK",
    "MODE_ARGUMENTS",
    "Arguments",
    "CannotCut",
    "Constant",
    "FunctionCall",
    "Input",
    "Output",
    "Trace",
    "arguments_of",
    "autocast_state",
    "batch_sizes_of",
    "cumulative_batch_norm",
    "depends_on_values",
    "expect",
    "expect_size",
    "later_calls",
    "leaves_of",
    "may_free_more",
    "op_name",
    "packed_data",
    "packed_rnn",
    "padded_data",
    "place_of",
    "place_of_error",
    "put_back_of",
    "refuse_hidden_parameters",
    "refuse_unknown_outputs",
    "trace_of",
    "unknown_sizes_of",
    "with_tensors",
]


class CannotCut(UsageError):
    """The model itself forbids it, whatever makes the layers."""


# ---- Arguments ----


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What a model is called with, by the names of its parameters: tensors, and what lies around them."""

    names: tuple[str, ...]  #: of the tensors
    tensors: tuple[Tensor, ...]
    tree: Any
    leaf_names: tuple[str, ...]
    others: tuple[Any, ...]  #: every leaf of the tree; a mark in a tensor's place
    held: tuple[Any, ...]  #: what the leaves were, to compare

    def call(self, model: nn.Module, tensors: Sequence[Tensor]) -> Any:
        """The model's output for other tensors in the places of these."""
        bound = inspect.BoundArguments(inspect.signature(model.forward), with_tensors(self.others, self.tree, tensors))
        return model(*bound.args, **bound.kwargs)

    def difference(self, other: Arguments) -> str:
        """What makes a call other than this one; empty if it is alike."""
        before, after = self.leaf_names, other.leaf_names
        if before != after or self.names != other.names:
            if set(before) == set(after) and set(self.names) == set(other.names):
                of = next((one.partition("[")[0] for one, two in zip(before, after) if one != two), "a dict")
                keys = (", ".join(name for name in names if name.partition("[")[0] == of) for names in (before, after))
                return "the keys of {0} have another order: the sample has {1}, and this call {2}; a forward may go through a dict in its " \
                       "order, so give them in the sample's".format(of, *keys)
            return _changed_names(self.names, other.names) or _changed_names(before, after) or (
                f"the sample has tensors as {', '.join(self.names)}, and this call as {', '.join(other.names)}")
        if self.tree != other.tree:
            return "the values are nested otherwise"
        for name, mine, its, was, now in zip(before, self.others, other.others, self.held, other.held):
            if was != now and not (isinstance(mine, (int, float)) and mine == its and type(mine) in (int, float)):
                if mine is its:
                    return f"{name} has changed since, which is an object of the class {type(its).__name__}"
                return f"{name} is {its!r} and was {mine!r}"
        return ""


def _changed_names(before: Sequence[str], after: Sequence[str]) -> str:
    missing, more = set(before) - set(after), set(after) - set(before)
    both = ((missing, "is missing"), (more, "is new"))
    return " and ".join(f"{', '.join(sorted(names))} {what}" for names, what in both if names)


class _Tensor:
    """Stands in a list of leaves for a tensor."""

    def __repr__(self) -> str:
        return "a tensor"

    def __reduce__(self) -> str:
        return "_TENSOR"

    def __deepcopy__(self, memo: Any) -> _Tensor:
        return self


_TENSOR = _Tensor()


def _leaf_name(path: Sequence[Any]) -> str:
    """ "batch[mask]" """
    keys = [str(getattr(each, "key", getattr(each, "idx", each))) for each in path]
    if len(keys) > 1 and keys[0] in ("args", "kwargs"):
        keys = keys[1:]  # of *args and **kwargs
    return keys[0] + "".join(f"[{key}]" for key in keys[1:])


def arguments_of(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """The arguments as the model's forward binds them. Raises Python's TypeError for those that it does not take."""
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = ", ".join(each.name for each in signature.parameters.values())
        more = (
            "; the entries of a tuple or list are the arguments of the forward, so a target is given apart, as by step(x, y, loss)"
            if len(args) > 1 else ""
        )
        raise TypeError(f"{error}; the forward of {type(model).__name__} takes ({takes}){more}") from None
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if value is None and parameter.default is None:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            value = {key: value[key] for key in sorted(value)}
        given[name] = _with_dicts(value)
    found, tree = _pytree.tree_flatten_with_path(given)
    named = [(_leaf_name(path), leaf) for path, leaf in found]
    tensors = [(name, leaf) for name, leaf in named if isinstance(leaf, Tensor)]
    others = tuple(_TENSOR if isinstance(leaf, Tensor) else leaf for _, leaf in named)
    leaf_names = tuple(name for name, _ in named)
    for name, other in zip(leaf_names, others):
        _refuse_hidden_tensors(name, other)
    held = tuple(None if other is _TENSOR else frozen(other) for other in others)
    return Arguments(tuple(name for name, _ in tensors), tuple(leaf for _, leaf in tensors), tree, leaf_names, others, held)


def _with_dicts(value: Any) -> Any:
    """Mappings that torch does not know, such as a UserDict, as dicts."""
    if type(value) is dict or isinstance(value, Mapping) and type(value) not in _pytree.SUPPORTED_NODES:
        return {key: _with_dicts(each) for key, each in value.items()}
    return type(value)([_with_dicts(each) for each in value]) if type(value) in (list, tuple) else value


def leaves_of(value: Any) -> tuple[list[Any], Any]:
    """(leaves, tree) as of a model's arguments."""
    return _pytree.tree_flatten(_with_dicts(value))


def with_tensors(leaves: Sequence[Any], tree: Any, tensors: Iterable[Tensor]) -> Any:
    """The value of these leaves, with tensors in the places of its own, or of their marks."""
    rest = iter(tensors)
    return _pytree.tree_unflatten([next(rest) if isinstance(each, (Tensor, _Tensor)) else each for each in leaves], tree)


def _refuse_hidden_tensors(name: str, value: Any) -> None:
    """Refuses an argument that is no tensor, and holds some or arrays: a trace would keep the sample's."""
    if value is _TENSOR or isinstance(value, _PLAIN) or not (found := held_tensor(value)):
        return
    kind = type(value).__name__
    how = (
        f"register the class by torch.export.register_dataclass({kind})" if dataclasses.is_dataclass(value)
        else "pass it as a tensor, as by torch.as_tensor()" if type(value).__module__ == "numpy"
        else f"register the class by torch.utils._pytree.register_pytree_node({kind}, ..)"
    )
    raise UsageError(
        f"the argument {name} is of the class {kind}, in which a trace sees no tensors, so its layers would keep the sample's "
        f"{found}; give the tensors themselves, also in dicts, lists and tuples, or {how}"
    )


# ---- Outputs ----


class Output:
    """What a model returned: its type with places for tensors. Objects that hold other things are left out, as None."""

    def __init__(self, value: Any) -> None:
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        self.left_out: list[str] = []
        self._make = self._take(value, "")

    def build(self, tensors: Sequence[Any]) -> Any:
        """The model's type, with these tensors."""
        return _built(self._make, tensors)

    def _take(self, value: Any, name: str) -> tuple[Any, ...]:
        if isinstance(value, Tensor):
            self.tensors.append(value)
            self.names.append(name)
            return ("tensor", len(self.tensors) - 1)
        if value is None or isinstance(value, (bool, int, float, str)):
            return ("constant", value)
        if dataclasses.is_dataclass(value):
            fields = [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value) if each.init]
            return ("fields", type(value), {key: self._take(each, _joined(name, key)) for key, each in fields})
        if isinstance(value, Mapping):
            return ("mapping", type(value), {key: self._take(each, _joined(name, key)) for key, each in value.items()})
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise CannotCut(
                f"the model's output {name or 'value'} is a number that depends on the sizes of its inputs, and layers pass on tensors; "
                "leave it out of the output, and take it from the inputs outside of the model"
            )
        if isinstance(value, (tuple, list)):
            parts = [self._take(each, _joined(name, k)) for k, each in enumerate(value)]
            return ("sequence", type(value), parts)
        self.left_out.append(f"{name or 'output'} ({type(value).__name__})")
        return ("constant", None)


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _built(made: tuple[Any, ...], tensors: Sequence[Any]) -> Any:
    kind, what, *rest = made
    if kind == "tensor":
        return tensors[what]
    if kind == "constant":
        return what
    if kind == "sequence":
        parts = [_built(each, tensors) for each in rest[0]]
        return what._make(parts) if hasattr(what, "_make") else what(parts)
    entries = {key: _built(each, tensors) for key, each in rest[0].items()}
    return what(**entries) if kind == "fields" else what(entries)


# ---- The trace ----


@dataclasses.dataclass(frozen=True)
class Input:
    """A tensor that the model takes. ``shape``: numbers, and symbols of sizes that may differ from call to call."""

    name: str
    shape: tuple[Any, ...]
    dtype: torch.dtype
    requires_grad: bool


@dataclasses.dataclass(frozen=True)
class Constant:
    """A tensor that a placeholder of the graph stands for. ``kind``: "parameter", "buffer" or "constant"."""

    kind: str
    name: str  #: the model's own; the first one of a tensor with several
    tensor: Tensor


@dataclasses.dataclass
class Trace:
    """A model's graph. Its placeholders are ``constants`` and ``inputs``; outputs are nodes of the graph, or numbers."""

    graph: torch.fx.Graph
    modules: dict[str, nn.Module]  #: parts of the graph that some operators run, by the target of their get_attr
    constants: dict[torch.fx.Node, Constant]
    input_nodes: list[torch.fx.Node]
    inputs: list[Input]
    output: Output
    output_nodes: list[Any]
    guards: dict[Any, str]  #: sympy expressions of sizes that the model's branches relied on, and where
    fixed: dict[int, str]  #: sizes of the sample that the model holds on to, and where
    held: dict[tuple[int, int], str] = dataclasses.field(default_factory=dict)  #: (input, dimension) of sizes that the model could not
    #: be traced without, and where
    calls: list[FunctionCall] = dataclasses.field(default_factory=list)  #: of autograd.Functions, by number
    signature: str = ""  #: equal for traces of the same operators
    assigned: list[str] = dataclasses.field(default_factory=list)  #: buffers that a forward replaces
    reads: Optional[Reads] = None  #: what the forward read besides tensors, and did not change


class _CallState:
    """Apart from the module, whose attributes an export puts back."""

    def __init__(self) -> None:
        self.output: Optional[Output] = None
        self.is_running = False
        self.at_end: Callable[[], None] = lambda: None


class _Call(nn.Module):
    """The model as a function of its tensors."""

    def __init__(self, model: nn.Module, arguments: Arguments) -> None:
        super().__init__()
        self.model = model
        self._arguments = arguments
        self.state = _CallState()

    def forward(self, *tensors: Tensor) -> Any:
        self.state.is_running = True
        numbers = _numbers_of_python()
        try:
            output = Output(self._arguments.call(self.model, tensors))
        finally:
            self.state.is_running = False
            self.state.at_end()
        if _numbers_of_python() != numbers:
            raise UsageError(
                "the model draws random numbers from Python or NumPy, which a trace would draw once for all steps; draw them from "
                "torch, as by torch.rand(())"
            )
        if not output.tensors:
            raise UsageError("the model returned no tensor; a pipeline passes on at least one; return one from its forward")
        results, output.tensors = tuple(output.tensors), []
        self.state.output = output
        return results


def _numbers_of_python() -> Any:
    """The states of the generators whose numbers a trace holds on to."""
    numpy = sys.modules.get("numpy")
    of_numpy = () if numpy is None else numpy.random.get_state()
    return random.getstate(), [each.tolist() if hasattr(each, "tolist") else each for each in of_numpy]


_OF_VALUES = (GuardOnDataDependentSymNode, DynamicOutputShapeException, DataDependentOutputException)


def depends_on_values(error: BaseException) -> bool:
    """True for an export that failed since a size or a number depends on the values of an input."""
    return isinstance(error, _OF_VALUES)


CHECK = "Runtime assertion failed for expression "  #: how torch's check of a size begins, with the relation and a node behind it


class _LostCheck(Exception):
    """The graph does not check a number that its trace relies on."""


class _NeedsBranches(Exception):
    """The forward branches on values, which must be known."""


#: Methods of tensors that give their values to Python, beside __bool__().
_READS_VALUES = ("item", "tolist", "__int__", "__float__", "__index__", "__complex__")
#: Draw a tensor of a given size. With ``generator=None`` they are operators of torch that take no unknown sizes.
_DRAW_SIZES = ("rand", "randn", "randint")
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _Losses:
    """Notes what an export would lose without a word, while it lasts."""

    def __init__(self, call: _Call, branches: Optional[dict[str, list[bool]]] = None) -> None:
        self._branches = branches  #: what tensors that the forward branches on were, by place
        self.reads = Reads(call.model)
        self.lost: list[str] = []  #: what the model did that a trace cannot hold
        self.functions: list[str] = []
        self.replaced: list[str] = []  #: buffers whose new values a trace cannot hold, with the reason
        self.kept: list[str] = []  #: other tensors that the model keeps
        self._state = call.state
        self._state.at_end = self._write_back
        self.assigned: list[str] = []  #: buffers that got a new value
        self._assigned: dict[tuple[int, str], tuple[nn.Module, str, Tensor]] = {}  #: buffers, with their tensors before
        self._model = call.model
        self._names = {id(module): name for name, module in call.model.named_modules()}
        self._buffers = [(module, dict(module._buffers)) for module in call.model.modules()]
        self._packed: dict[int, tuple[Tensor, Any]] = {}  #: tensors of batch sizes of packed sequences, with the number of samples, by id

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        set_attribute, register = nn.Module.__setattr__, nn.Module.register_buffer
        apply: Any = torch.autograd.Function.__dict__["apply"]

        def noting_setattr(module: nn.Module, name: str, value: Any) -> None:
            if self._state.is_running and id(module) in self._names and not self._note(module, name, value):
                return
            set_attribute(module, name, value)

        def noting_register(module: nn.Module, name: str, tensor: Any, persistent: bool = True) -> None:
            is_same = tensor is not None and module._buffers.get(name) is tensor  # as torch's own __setattr__ registers it
            if self._state.is_running and id(module) in self._names and not is_same:
                self.replaced.append(f"{self._title(module, name)}, which it registers")
            register(module, name, tensor, persistent)

        def noting_apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            is_of_operator = cls.__name__.startswith(_OF_OPERATOR)
            if not self._state.is_running or is_of_operator:
                return apply.__get__(None, cls)(*args, **kwargs)
            others = [each for each in _pytree.tree_leaves((args, kwargs)) if not isinstance(each, (Tensor, *_PLAIN))]
            if others or kwargs or not any(isinstance(each, Tensor) for each in _pytree.tree_leaves(args)):
                self.functions.append(f"{cls.__name__}{self._here()}, with {_described(others[0]) if others else 'keywords'}")
                raise UsageError(f"the model calls the autograd.Function {self.functions[-1]}")
            call = FunctionCall(cls, args)
            _calls.append(call)
            found = torch.ops.pipescope.function(call.tensors, len(_calls) - 1)
            return found[0] if call.is_single else tuple(found)

        def noting_forward(cls: Any, forward: Any) -> Any:
            @functools.wraps(forward)  # torch reads the defaults of its arguments
            def call(*args: Any, **kwargs: Any) -> Any:
                if not self._state.is_running or FunctionCall.is_running:
                    return forward(*args, **kwargs)
                return noting_apply(cls, *(args if _has_setup(cls) else args[1:]), **kwargs)

            return call

        def noting_bool(tensor: Tensor) -> bool:
            if not self._state.is_running or type(tensor) is Tensor or self._branches is None and tensor.is_meta:
                return bool(to_bool(tensor))
            place = self._here().removeprefix(", at ")
            if self._branches is None:
                raise _NeedsBranches(f"a branch on a value, at {place}")
            values = self._branches.get(place)
            if not values:
                return bool(to_bool(tensor))
            torch.ops.pipescope.expect(tensor, values[0], place)
            return values.pop(0)

        def noting_values(original: Any) -> Any:
            def call(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
                if self._state.is_running and type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta:
                    self.reads.note_values(tensor, self._here())
                return original(tensor, *args, **kwargs)

            return call

        def noting_getattribute(module: nn.Module, name: str) -> Any:
            if self._state.is_running:
                self.reads.note(module, name)
            return object.__getattribute__(module, name)

        sizes: Any = torch.SymInt
        hash_size = sizes.__hash__
        # A cache by lengths has no entry of an unknown one, so the forward makes what it would find there.
        sizes.__hash__ = lambda size: hash(size.node.expr) if self._state.is_running and size.node.is_symbolic() else hash_size(size)
        functions_of_python: Any = builtins
        measure = functions_of_python.len

        def unknown_len(value: Any) -> Any:
            """Python would ask for a number, and so hold on to the sample's."""
            if self._state.is_running and isinstance(value, Tensor) and value.dim() and isinstance(value.shape[0], torch.SymInt):
                return value.shape[0]
            return measure(value)

        functions_of_python.len = unknown_len

        def refusing(original: Any, what: str) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._state.is_running and (not args or getattr(args[0], "mode", True)):  # inference_mode(False) loses nothing
                    self.lost.append(what.format(self._here()))
                    raise UsageError(f"the model {self.lost[-1]}")
                return original(*args, **kwargs)

            return call

        changed: Any = nn.Module
        convert = changed.to

        def noting_to(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
            """A conversion to what a module has changes nothing, and a trace cannot make it."""
            if self._state.is_running:
                device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)
                if memory_format is None and all(
                    (dtype is None or each.dtype == dtype or not (each.is_floating_point() or each.is_complex()))
                    and (device is None or each.device == device)
                    for each in (*module.parameters(), *module.buffers())
                ):
                    return module
            return convert(module, *args, **kwargs)  # type: ignore[no-any-return]

        changed.__setattr__, changed.register_buffer, changed.to = noting_setattr, noting_register, noting_to
        changed.__getattribute__ = noting_getattribute
        of_tensor: Any = torch.Tensor
        to_bool = of_tensor.__bool__
        of_tensor.__bool__ = noting_values(noting_bool)
        for name in _READS_VALUES:
            setattr(of_tensor, name, noting_values(getattr(of_tensor, name)))
        register_hook, enter = of_tensor.register_hook, torch.inference_mode.__enter__
        of_tensor.register_hook = refusing(
            register_hook, "registers a hook on a tensor{}, whose change of the gradient a trace loses"
        )
        inference: Any = torch.inference_mode
        inference.__enter__ = refusing(enter, "uses torch.inference_mode(){}, which a trace loses; use torch.no_grad()")
        packing: Any = torch._VF
        packed = self._packed_functions()
        for name, function in packed.items():
            setattr(packing, name, function)
        rnns: Any = nn.RNNBase
        check_states = rnns.check_forward_args

        def noting_states(module: Any, input: Tensor, hidden: Any, batch_sizes: Optional[Tensor]) -> None:
            if not self._state.is_running or batch_sizes is None:  # which it would read as numbers
                check_states(module, input, hidden, batch_sizes)

        rnns.check_forward_args = noting_states
        kinds: tuple[Any, ...] = (nn.RNN, nn.LSTM, nn.GRU)
        rnn_forwards = [each.forward for each in kinds]

        def with_zeros(forward: Any) -> Any:
            @functools.wraps(forward)
            def call(module: Any, input: Any, hx: Any = None) -> Any:
                if self._state.is_running and isinstance(input, nn.utils.rnn.PackedSequence) and hx is None:
                    count = module.num_layers * (2 if module.bidirectional else 1)
                    samples = self._samples_of(input.batch_sizes)
                    hidden, *cell = (input.data.new_zeros(count, samples, width) for width in (module.proj_size or module.hidden_size,
                                     *([module.hidden_size] if module.mode == "LSTM" else [])))
                    hx = (hidden, *cell) if cell else hidden
                return forward(module, input, hx)

            return call

        for each, forward in zip(kinds, rnn_forwards):
            each.forward = with_zeros(forward)
        functions: Any = torch.autograd.Function
        functions.apply = classmethod(noting_apply)
        forwards = {cls: cls.__dict__.get("forward", Absent) for cls in _functions_of(functions)}
        for cls in forwards:  # an `apply = MyFunction.apply` from before calls the forward
            cls.forward = staticmethod(noting_forward(cls, cls.forward))
        data = of_tensor.data
        assign = refusing(data.__set__, "assigns data of a tensor{}, which a trace loses; use copy_() of a buffer")
        of_tensor.data = property(lambda tensor: tensor.detach() if self._state.is_running else data.__get__(tensor), assign)
        gradients: Any = torch.autograd
        of_function: Any = eager_transforms
        grad, nest, nest_forward = gradients.grad, of_function.grad_increment_nesting, of_function.jvp_increment_nesting
        inside = "computes gradients in its forward{}, which a trace loses; compute them outside of the model"
        gradients.grad, of_function.grad_increment_nesting = refusing(grad, inside), refusing(nest, inside)
        of_function.jvp_increment_nesting = refusing(nest_forward, inside)
        forward_mode: Any = torch.autograd.forward_ad
        dual = forward_mode.enter_dual_level
        forward_mode.enter_dual_level = refusing(dual, inside)
        maps: Any = _vmaps
        nest_map, nest_function = maps.vmap_increment_nesting, of_function._func_increment_nesting
        maps.vmap_increment_nesting = refusing(
            nest_map, "calls torch.vmap(){}, inside of which operators have no tensors of their own that could go from layer to layer; "
            "use operators of whole tensors, such as torch.einsum() or torch.bmm()"
        )
        of_function._func_increment_nesting = refusing(
            nest_function, "calls torch.func.functionalize(){}, which no trace can hold; call the function itself"
        )
        losses: Any = torch
        ctc_loss, seed = losses.ctc_loss, losses.manual_seed
        losses.manual_seed = losses.random.manual_seed = refusing(
            seed, "seeds torch's random numbers{}, which its layers would not do; seed them outside of the model, with the option seed of "
            "the pipeline"
        )

        def noting_ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, *more: Any, **named: Any) -> Any:
            stands_in = self._state.is_running and isinstance(input_lengths, Tensor) and isinstance(target_lengths, Tensor)
            function = torch.ops.pipescope.ctc_loss if stands_in else ctc_loss
            return function(log_probs, targets, input_lengths, target_lengths, *more, **named)

        losses.ctc_loss = noting_ctc_loss

        def from_any_generator(original: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._state.is_running and kwargs.get("generator", self) is None:
                    kwargs.pop("generator")
                return original(*args, **kwargs)

            return call

        draws = {name: getattr(torch, name) for name in _DRAW_SIZES}
        for name, original in draws.items():
            setattr(losses, name, from_any_generator(original))
        norms: Any = nn.modules.batchnorm._BatchNorm
        normalize = norms.forward

        def noting_batch_norm(module: Any, input: Tensor) -> Tensor:
            is_cumulative = module.momentum is None and module.running_mean is not None and module.num_batches_tracked is not None
            if not self._state.is_running or not is_cumulative or not module.track_running_stats:
                return normalize(module, input)  # type: ignore[no-any-return]
            module._check_input_dim(input)
            if module.training:
                functional._verify_batch_size(input.size())  # type: ignore[attr-defined]
                module.num_batches_tracked.add_(1)
            return torch.ops.pipescope.cumulative_batch_norm(  # type: ignore[no-any-return]
                input, module.weight, module.bias, module.running_mean, module.running_var, module.training,
                module.num_batches_tracked, module.eps,
            )

        norms.forward = noting_batch_norm
        try:
            with self.reads.noted(lambda: self._state.is_running):
                yield
        finally:
            changed.__setattr__, changed.register_buffer, changed.to, functions.apply = set_attribute, register, convert, apply
            for cls, forward in forwards.items():
                if forward is Absent:
                    del cls.forward
                else:
                    cls.forward = forward
            del changed.__getattribute__
            of_tensor.register_hook, inference.__enter__ = register_hook, enter
            losses.ctc_loss, losses.manual_seed, losses.random.manual_seed = ctc_loss, seed, seed
            for name, original in draws.items():
                setattr(losses, name, original)
            functions_of_python.len, sizes.__hash__ = measure, hash_size
            norms.forward = normalize
            gradients.grad, of_function.grad_increment_nesting, of_function.jvp_increment_nesting = grad, nest, nest_forward
            forward_mode.enter_dual_level, maps.vmap_increment_nesting = dual, nest_map
            of_function._func_increment_nesting = nest_function
            _clear_caches()
            rnns.check_forward_args = check_states
            for each, forward in zip(kinds, rnn_forwards):
                each.forward = forward
            for name in packed:
                delattr(packing, name)
            del of_tensor.__bool__, of_tensor.data  # which it inherits, as the next ones
            for name in _READS_VALUES:
                delattr(of_tensor, name)
            for module, buffers in self._buffers:
                if any(module._buffers.get(name) is not each for name, each in buffers.items()):
                    module._buffers.update(buffers)

    def _samples_of(self, batch_sizes: Tensor) -> Any:
        """The number of samples of a packed sequence."""
        if id(batch_sizes) not in self._packed:
            self.lost.append(
                f"makes a packed sequence by hand{self._here()}, whose samples a trace does not know; make it by pack_padded_sequence()"
            )
            raise UsageError(f"the model {self.lost[-1]}")
        return self._packed[id(batch_sizes)][1]

    def _packed_functions(self) -> dict[str, Callable[..., Any]]:
        """What stands in for torch's functions of packed sequences, by name. Sizes of packed values depend on the lengths."""

        def pack(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
            if not self._state.is_running:
                return torch.ops.aten._pack_padded_sequence(input, lengths, batch_first)  # type: ignore[no-any-return]
            batch, steps = (input.shape[0], input.shape[1]) if batch_first else (input.shape[1], input.shape[0])
            torch._check(lengths.shape[0] == batch)
            data = torch.ops.pipescope.packed_data(input, lengths, batch_first)
            batch_sizes = torch.ops.pipescope.batch_sizes(lengths)
            torch._check(batch_sizes.shape[0] <= steps)
            self._packed[id(batch_sizes)] = batch_sizes, batch
            return data, batch_sizes

        def pad(data: Tensor, batch_sizes: Tensor, batch_first: bool, padding: float, steps: int) -> tuple[Tensor, Tensor]:
            if not self._state.is_running:
                return torch.ops.aten._pad_packed_sequence(data, batch_sizes, batch_first, padding, steps)  # type: ignore[no-any-return]
            batch = self._samples_of(batch_sizes)
            padded, lengths = torch.ops.pipescope.padded_data(data, batch_sizes, batch_first, float(padding), steps, batch)
            return padded, lengths

        def rnn(kind: str) -> Callable[..., Any]:
            original = getattr(torch._C._VariableFunctions, kind)

            def call(*args: Any) -> Any:
                is_packed = isinstance(args[1 if kind == "lstm" else 2], Tensor)
                if not self._state.is_running or not is_packed:
                    return original(*args)
                data, batch_sizes, states, *more = args
                given = [*states] if kind == "lstm" else [states]
                return tuple(torch.ops.pipescope.packed_rnn(kind, data, batch_sizes, given, *more, self._samples_of(batch_sizes)))

            return call

        return {"_pack_padded_sequence": pack, "_pad_packed_sequence": pad, **{kind: rnn(kind) for kind in _RNNS}}

    def _here(self) -> str:
        """ ", at blocks.0 (my.py, line 12: code)" """
        place = _place_in(self._model, reversed(list(traceback.walk_stack(sys._getframe()))))
        return f", at {place}" if place else ""

    def _title(self, module: nn.Module, name: str) -> str:
        return _joined(self._names[id(module)], name)

    def _note(self, module: nn.Module, name: str, value: Any) -> bool:
        """Of an attribute that is set. False: it has this value already, or keeps its own."""
        if name in module._buffers:
            return self._note_buffer(module, name, value)
        if name not in module._parameters and name not in module._modules:
            self.reads.note_written(module, name, value)
            is_of_torch = type(module).__module__.startswith("torch.")  # as the list of an RNN's weights
            if not is_of_torch and any(isinstance(leaf, Tensor) for leaf in _pytree.tree_leaves(value)):
                self.kept.append(self._title(module, name))
        return True

    def _note_buffer(self, module: nn.Module, name: str, value: Any) -> bool:
        before = module._buffers[name]
        if before is value or _is_same_memory(before, value):  # as by `self.count += 1`
            return False
        original = self._assigned.get((id(module), name), (module, name, before))[2]
        if not isinstance(value, Tensor) or original is None or value.shape != original.shape or value.dtype != original.dtype:
            self.replaced.append(f"{self._title(module, name)} by {_described(value)}, which was {_described(original)}")
            return True
        self._assigned[id(module), name] = module, name, original
        module._buffers[name] = value
        return False

    def _write_back(self) -> None:
        """Buffers that were replaced take their new values, in their own memory."""
        self.reads.put_back()
        self.assigned = [self._title(module, name) for module, name, _ in self._assigned.values()]
        for module, name, original in self._assigned.values():
            value, module._buffers[name] = module._buffers[name], original
            if isinstance(value, Tensor):
                original.copy_(value.detach())
        self._assigned.clear()

    def check(self) -> None:
        if self.lost:
            raise UsageError(f"the model {self.lost[0]}")
        if generators := self.reads.of_generators():
            raise UsageError(
                f"the model has a torch.Generator of its own, {generators[0]}, whose state its layers could not share; draw from torch's "
                "generator, whose numbers depend on the pipeline's seed, the step, the micro-batch and the layer"
            )
        if self.functions:
            raise UsageError(
                f"the model calls the autograd.Function {self.functions[0]}, and a trace loses its backward; give it tensors, "
                "numbers and texts only, or use operators of torch there, or a torch.library.custom_op with register_autograd. Reentrant checkpoints of torch are such functions, "
                "too: switch them off and use the pipeline's checkpoint"
            )
        if self.replaced:
            raise UsageError(
                f"the model's forward replaces the buffer {self.replaced[0]}; a trace keeps a buffer's shape and dtype, so "
                "register it with those before the model is traced, or, if the first call makes it, call the model once on the longest "
                "sample before"
            )
        if self.kept:
            warnings.warn(
                f"the model's forward keeps a tensor as {self.kept[0]}; the pipeline's layers do not, so it stays as it is",
                stacklevel=2,
            )


def _clear_caches() -> None:
    """Empties functools' caches that got a tensor without values in a trace, which the model would find in its next call."""
    caches = [each for each in gc.get_objects() if type(each) is _CACHE and not str(each.__module__).startswith(("torch.", "sympy."))]
    for cache in caches:
        if any(isinstance(each, FakeTensor) for each in _held_by(cache, 4)):
            cache.cache_clear()


_CACHE = type(functools.lru_cache(lambda: None))


def _held_by(holder: Any, depth: int) -> Iterator[Any]:
    """What a cache's entries hold."""
    for each in gc.get_referents(holder) if depth else ():
        yield each
        if isinstance(each, (dict, tuple, list)) or type(each).__name__ == "_lru_list_elem":
            yield from _held_by(each, depth - 1)


def _is_same_memory(one: Any, other: Any) -> bool:
    """True for two objects that are one tensor, as an operator in place returns it under a trace."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    is_alike = one.shape == other.shape and one.stride() == other.stride() and one.storage_offset() == other.storage_offset()
    return bool(is_alike) and one.dtype == other.dtype and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def _described(value: Any) -> str:
    return f"{value.dtype} of the shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)[:40]


def refuse_hidden_parameters(model: nn.Module) -> None:
    """Refuses tensors that train and are no parameters of the model: a trace takes them for constants."""
    held = {id(each) for each in model.parameters()}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            leaves = [] if attribute in ("_parameters", "_buffers", "_modules") else _pytree.tree_leaves(value)
            if any(isinstance(each, Tensor) and each.requires_grad and each.is_leaf and id(each) not in held for each in leaves):
                raise UsageError(
                    f"the model's {_joined(name, attribute)} requires a gradient and is no parameter, so a trace loses it; make it "
                    "an nn.Parameter"
                )


def trace_of(
    model: nn.Module, arguments: Arguments, batch: Sequence[Optional[int]], training: bool, frees_all: bool
) -> Trace:
    """Exports the model in train or eval mode, whatever its modules' own modes are.

    ``batch``: for each tensor the dimension of its samples, if that is known. ``frees_all``: every size may differ from call to
    call, that of images, too. Raises UsageError for what a trace would lose,
    and torch's own errors for what it cannot export.
    """
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise UsageError(f"the module {name or 'itself'} has a hook of its backward, which a trace loses; remove it")
    if any(hooks_of_all_modules()[3:]):
        raise CannotCut("all modules have a hook of their backwards, which layers would not run; remove it")
    with warnings.catch_warnings(), _quiet(), _modes(model, training), _without_cache():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message=".*(export|dynamic).*")
        errors: list[Exception] = []
        tried = list(_dynamic_shapes(arguments, batch, frees_all))
        for dims in tried:
            try:
                with _short_sizes() if frees_all else contextlib.nullcontext():
                    trace = _exported_somehow(model, arguments, dims)
                if errors:
                    place = place_of_error(model, errors[0])
                    trace.held = {(k, d): place for k, (more, fewer) in enumerate(zip(tried[0], dims)) for d in more if d not in fewer}
                return trace
            except UsageError:
                raise
            except Exception as error:  # of the model or of torch; the first is raised again below
                errors.append(error)
    raise errors[0]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the graphs and stacks that torch prints where an export fails, and its warnings about numbers that depend on values:
    what cannot be traced is an error here, and graphs check the numbers that they rely on. TORCH_LOGS shows what torch logs again."""
    exporting: Any = _exports
    logs = [(each, each.disabled) for each in (symbolic_shapes.log, fake_tensor.log, non_strict_utils.log)]
    exporting.print = lambda *args, **kwargs: None
    for log, was_off in logs:
        log.disabled = was_off or "TORCH_LOGS" not in os.environ
    try:
        yield
    finally:
        del exporting.print
        for log, was_off in logs:
            log.disabled = was_off


_MOST_PARTS = 200  #: of an expression. Models whose images may have any size stay below 110; windows in windows exceed 400
_MOST_SECONDS = 60.0  #: of processor time for a trace with all sizes unknown, of which large models of videos take minutes


@contextlib.contextmanager
def _short_sizes() -> Iterator[None]:
    """Ends a trace whose sizes become long expressions, or so many that torch would simplify them for minutes."""
    environment: Any = ShapeEnv
    evaluate, start = environment.evaluate_expr, time.thread_time()

    def evaluate_short(self: Any, expression: Any, *args: Any, **kwargs: Any) -> Any:
        if next(itertools.islice(sympy.preorder_traversal(expression), _MOST_PARTS, None), None) is not None:
            raise RuntimeError(f"a size is an expression of more than {_MOST_PARTS} parts; trace fewer sizes as unknown")
        if time.thread_time() - start > _MOST_SECONDS:
            raise RuntimeError(f"the trace takes more than {_MOST_SECONDS:g} s; trace fewer sizes as unknown")
        return evaluate(self, expression, *args, **kwargs)

    environment.evaluate_expr = evaluate_short
    try:
        yield
    finally:
        environment.evaluate_expr = evaluate


def _exported_somehow(model: nn.Module, arguments: Arguments, dims: tuple[dict[int, Any], ...]) -> Trace:
    """Without values; if the forward needs some, with what its branches found on the sample, and with the sample's values."""
    has_values = not any(each.is_meta for each in (*arguments.tensors, *model.parameters()))
    branches: Optional[dict[str, list[bool]]] = None
    with_values, unknown = False, None
    while True:
        try:
            trace = _exported(model, arguments, dims, branches, with_values)
        except _NeedsBranches as error:
            if not has_values or branches is not None:
                raise UsageError(f"the model takes {error}, which is not known without values; write it as torch.where()") from None
            branches = _branches_of(model, arguments)
        except _OF_VALUES as error:
            if not has_values or with_values:
                raise
            with_values, unknown = True, error
        except _LostCheck as error:
            raise unknown or UsageError(str(error)) from None
        else:
            if not has_values:
                _refuse_unknown_sizes(trace)
            return trace


def _exported(
    model: nn.Module,
    arguments: Arguments,
    dims: tuple[dict[int, Any], ...],
    branches: Optional[dict[str, list[bool]]],
    with_values: bool,
) -> Trace:
    """``with_values``: sizes that depend on values are symbols, whose values for the sample are known to the trace."""
    call = _Call(model, arguments)
    losses = _Losses(call, copy.deepcopy(branches))
    tensors = tuple(each.detach().clone() for each in arguments.tensors)  # one tensor for two inputs is two inputs
    _calls.clear()
    try:
        values = _functorch_config.patch(fake_tensor_propagate_real_tensors=with_values)
        with losses.noted(), values, torch.random.fork_rng(enabled=with_values), _guards_with_places(model), _offsets_unchecked():
            program = torch.export.export(call, tensors, dynamic_shapes=(dims,), strict=False)
    except Exception:
        losses.check()
        raise
    losses.reads.finish(losses.kept)
    losses.check()
    _refuse_lost_checks(program)
    trace = _read(program, call, arguments)
    _refuse_hidden_constants(trace, model)
    trace.calls = list(_calls)
    trace.assigned = losses.assigned
    trace.signature = _signature(program.graph)
    trace.reads = losses.reads
    return trace


def _refuse_hidden_constants(trace: Trace, model: nn.Module) -> None:
    """Refuses tensors that train and that the model holds where a trace takes them for constants, as those of modules in a list.

    The constants share the memory of these tensors. What only a part without gradients uses, as a teacher, loses none.
    """
    constants = {
        info.tensor.untyped_storage()._cdata: node for node, info in trace.constants.items()
        if info.kind == "constant" and info.tensor.layout is torch.strided
    }
    if not constants:
        return
    held = {id(each) for each in model.parameters()}
    for each in gc.get_objects():
        is_hidden = type(each) in (Tensor, nn.Parameter) and each.requires_grad and each.is_leaf and id(each) not in held
        node = constants.get(each.untyped_storage()._cdata) if is_hidden and each.layout is torch.strided else None
        if use := None if node is None else next((user for user in node.users if _may_train(user)), None):
            raise UsageError(
                f"the model uses a tensor of the shape {tuple(each.shape)} that requires a gradient and is no parameter of it, at "
                f"{place_of(use)}, so a trace loses its gradient; register it or its module, as in an nn.ModuleList or an "
                "nn.ParameterList instead of a list, or freeze it by requires_grad_(False)"
            )


def _may_train(user: torch.fx.Node) -> bool:
    """False for an operator through which no gradient comes to its operands."""
    return op_name(user) != "aten.detach" and not (op_name(user) == "wrap_with_set_grad_enabled" and user.args[0] is False)


def _refuse_lost_checks(program: Any) -> None:
    """Refuses a trace that relies on a number of the sample's values, and whose graph does not check that number."""
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    mode = next((each.fake_mode for each in values if isinstance(each, FakeTensor)), None)
    environment: Any = None if mode is None else mode.shape_env
    checked = {
        str(node.args[1]).removeprefix(CHECK).partition(" on node ")[0]
        for node in program.graph.nodes if node.op == "call_function" and op_name(node) == "aten._assert_scalar"
    }
    for checks in () if environment is None else environment.deferred_runtime_asserts.values():
        for check in checks:
            if str(check.expr) not in checked:
                node = next((each for each in program.graph.nodes if unknown_sizes_of(each.meta.get("val")) & check.expr.free_symbols), None)
                raise _LostCheck(
                    f"the model relies on {check.expr}, of a number that depends on the values of an input"
                    f"{'' if node is None else f', at {place_of(node)}'}, and its trace does not check that number; use operators of torch, "
                    "such as masks, torch.where(), gather() or index_add(), instead of Python's numbers"
                )


def _branches_of(model: nn.Module, arguments: Arguments) -> dict[str, list[bool]]:
    """What tensors are that the forward branches on, by place, in order."""
    found: dict[str, list[bool]] = {}
    of_tensor: Any = Tensor
    to_bool = of_tensor.__bool__

    def noting_bool(tensor: Tensor) -> bool:
        value = bool(to_bool(tensor))
        found.setdefault(_place_in(model, reversed(list(traceback.walk_stack(sys._getframe())))), []).append(value)
        return value

    put_back = put_back_of(model)
    of_tensor.__bool__ = noting_bool
    try:
        with torch.no_grad(), torch.random.fork_rng():
            arguments.call(model, [each.detach().clone() for each in arguments.tensors])
    finally:
        del of_tensor.__bool__
        put_back()
    return found


def put_back_of(model: nn.Module) -> Callable[..., None]:
    """A function that gives the modules the modes, and the buffers the tensors and values, that they have now."""
    modes = [(module, module.training) for module in model.modules()]
    held = [(module, dict(module._buffers)) for module in model.modules()]
    values = [(each, each.clone()) for each in model.buffers()]

    @torch.no_grad()
    def put_back(with_modes: bool = True) -> None:
        for module, mode in modes if with_modes else []:
            module.training = mode
        for module, buffers in held:
            module._buffers.update(buffers)
        for each, value in values:
            if not torch.equal(each, value):
                each.copy_(value)

    return put_back


@contextlib.contextmanager
def _modes(model: nn.Module, training: bool) -> Iterator[None]:
    before = [(module, module.training) for module in model.modules()]
    for module, _ in before:
        module.training = training
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


def _dynamic_shapes(
    arguments: Arguments, batch: Sequence[Optional[int]], frees_all: bool
) -> Iterator[tuple[dict[int, Any], ...]]:
    """Which sizes may differ: all, or all of integers, those of samples, and of other tensors what may be a sequence. If that
    fails, those of samples only."""
    if frees_all:
        yield tuple({k: Dim.AUTO for k in range(tensor.dim())} for tensor in arguments.tensors)
        return
    yield tuple({k: Dim.AUTO for k in sorted(dims)} for dims in _sequence_sizes(arguments, batch))
    yield tuple({0 if known is None else known % tensor.dim(): Dim.AUTO} if tensor.dim() else {}
                for tensor, known in zip(arguments.tensors, batch))


def _sequence_sizes(arguments: Arguments, batch: Sequence[Optional[int]]) -> list[set[int]]:
    """By tensor, the dimensions of its samples, and of what may be a sequence."""
    whole_numbers = [each for each in arguments.tensors if not each.is_floating_point() and not each.is_complex()]
    lengths = {size for each in whole_numbers for size in each.shape[1:]}
    found = []
    for tensor, known in zip(arguments.tensors, batch):
        is_float = tensor.is_floating_point() or tensor.is_complex()
        dims = {0, 1} if is_float and tensor.dim() == 3 else {0} if is_float else set(range(tensor.dim()))
        dims |= {k for k, size in enumerate(tensor.shape) if is_float and tensor.dim() > 2 and size in lengths}
        dims |= set() if known is None else {known % max(1, tensor.dim())}
        found.append({k for k in dims if k < tensor.dim()})
    return found


def may_free_more(arguments: Arguments) -> bool:
    """True if a model has inputs, such as images, with other sizes than those of samples and sequences."""
    sizes = _sequence_sizes(arguments, [None] * len(arguments.tensors))
    return any(len(dims) < tensor.dim() for dims, tensor in zip(sizes, arguments.tensors))


# ---- Autocast ----


def autocast_state() -> tuple[tuple[str, torch.dtype], ...]:
    """Where autocast is on, and its dtype there."""
    accelerator = torch.accelerator.current_accelerator()
    kinds = dict.fromkeys(["cpu", "cuda", *([] if accelerator is None else [accelerator.type])])
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind))


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    """The caller's autocast, which would keep casts of tensors without values."""
    with contextlib.ExitStack() as stack:
        for kind, dtype in autocast_state():
            stack.enter_context(torch.autocast(kind, dtype=dtype, cache_enabled=False))
        yield


def _signature(graph: torch.fx.Graph) -> str:
    """Of the operators and what they are given besides tensors, such as dtypes."""
    numbers = {node: k for k, node in enumerate(graph.nodes)}
    lines = []
    for node in graph.nodes:
        given = _pytree.tree_map(lambda each: f"%{numbers[each]}" if isinstance(each, torch.fx.Node) else each, (node.args, node.kwargs))
        lines.append(f"{node.op} {op_name(node) if node.op == 'call_function' else ''} {given}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _read(program: Any, call: _Call, arguments: Arguments) -> Trace:
    constants: dict[torch.fx.Node, Constant] = {}
    inputs: list[torch.fx.Node] = []
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    names = _names_of_tensors(call.model)
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = specs[node.name]
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(node)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            name = spec.target.removeprefix("model.")
            tensor = program.constants.get(spec.target)
            found = _attribute(call.model, name)
            tensor = found if isinstance(found, Tensor) else tensor
            kind = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}.get(spec.kind, "constant")
            constants[node] = Constant(kind, names.get(id(tensor), name), tensor)
        else:
            raise UsageError(
                f"the model uses {spec.target}, which is no tensor; a trace holds tensors only; hold what it has in a buffer, or use "
                "operators of torch"
            )
    infos = [
        Input(name, tuple(node.meta["val"].shape), tensor.dtype, tensor.requires_grad)
        for name, node, tensor in zip(arguments.names, inputs, arguments.tensors)
    ]
    assert call.state.output is not None
    (results,) = next(node for node in program.graph.nodes if node.op == "output").args
    modules = {node.target: getattr(program.graph_module, node.target) for node in program.graph.nodes if node.op == "get_attr"}
    mode = next((node.meta["val"].fake_mode for node in inputs), None)
    environment = mode.shape_env if mode is not None else None
    guards = list(environment.guards) if environment is not None else []
    return Trace(program.graph, modules, constants, inputs, infos, call.state.output, list(results),
                 {each.expr: each.sloc.maybe_user_loc or "" for each in guards}, _fixed_sizes(guards))


def _fixed_sizes(guards: Sequence[Any]) -> dict[int, str]:
    fixed: dict[int, str] = {}
    for guard in guards:
        if isinstance(guard.expr, sympy.Eq) and guard.expr.rhs.is_Integer and guard.expr.lhs.is_symbol:
            fixed[int(guard.expr.rhs)] = fixed.get(int(guard.expr.rhs)) or guard.sloc.maybe_user_loc or ""
    return fixed


@contextlib.contextmanager
def _offsets_unchecked() -> Iterator[None]:
    """Where a trace knows the sample's values, torch compares the offset of each view with the sample's, and so would hold on to the
    sample's sizes."""
    checks: Any = fake_utils
    check = checks._check_fake_real_tensors

    def check_without_offset(real: Tensor, fake: Tensor, *args: Any, **kwargs: Any) -> None:
        if real.storage_offset() == 0:
            check(real, fake, *args, **kwargs)

    checks._check_fake_real_tensors = check_without_offset
    try:
        yield
    finally:
        checks._check_fake_real_tensors = check


@contextlib.contextmanager
def _guards_with_places(model: nn.Module) -> Iterator[None]:
    """Torch notes its own line for a guard; here guards have the model's, as _place_in() names it."""
    environment: Any = ShapeEnv
    get_place = environment._get_sloc

    def place_in_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = _place_in(model, reversed(list(traceback.walk_stack(sys._getframe()))))
        return dataclasses.replace(get_place(self, *args, **kwargs), maybe_user_loc=place or None)

    environment._get_sloc = place_in_model
    try:
        yield
    finally:
        environment._get_sloc = get_place


def _names_of_tensors(model: nn.Module) -> dict[int, str]:
    """The first name of each parameter and buffer."""
    names: dict[int, str] = {}
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        names.setdefault(id(tensor), name)
    return names


def _attribute(model: nn.Module, name: str) -> Any:
    value: Any = model
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def op_name(node: torch.fx.Node) -> str:
    """ "aten.linear" """
    return _name_of_target(node.target)


@functools.lru_cache(4096)
def _name_of_target(target: Any) -> str:
    return str(getattr(target, "_overloadpacket", None) or getattr(target, "__name__", target))


# ---- What a graph of operators cannot hold by itself ----

#: Stands in a trace for a branch of Python on a value: (value, what it was, place).
_EXPECT = "pipescope::expect"
#: Stands in a trace for a call of an autograd.Function: (tensors, number of the call).
_FUNCTION = "pipescope::function"
#: How torch names the autograd.Functions of custom operators, which a trace holds whole.
_OF_OPERATOR = "GeneratedBackwardFor_"
#: Stands in a trace for torch.ctc_loss(), whose own operators have tables of a size that depends on values.
_CTC_LOSS = "pipescope::ctc_loss"
#: Stands in a trace for a batch norm with momentum=None, whose factor is a number that depends on a counter's value.
_CUMULATIVE_BATCH_NORM = "pipescope::cumulative_batch_norm"

#: Stand in a trace for torch's operators of packed sequences, which need values.
_PACKED_DATA, _BATCH_SIZES = "pipescope::packed_data", "pipescope::batch_sizes"
_PADDED_DATA, _PACKED_RNN = "pipescope::padded_data", "pipescope::packed_rnn"
_RNNS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class FunctionCall:
    """Calls an autograd.Function with other tensors in the places of those of its trace."""

    is_running = False  #: while the forward of one runs for a trace

    def __init__(self, function: Any, args: Sequence[Any]) -> None:
        self.function = function
        leaves, self._tree = _pytree.tree_flatten(tuple(args))
        self._leaves = [_TENSOR if isinstance(each, Tensor) else each for each in leaves]
        self.tensors = [each for each in leaves if isinstance(each, Tensor)]
        self.is_single = True
        self.__name__ = self.__qualname__ = f"{function.__name__}_apply"

    def args(self, tensors: Sequence[Tensor]) -> Any:
        return with_tensors(self._leaves, self._tree, tensors)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Any]:
        result = self.function.apply(*self.args(tensors))
        return [result] if isinstance(result, Tensor) else list(result)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "tensors": []}


def expect(condition: Tensor, value: bool, place: str, origin: str = "") -> None:
    """Raises UsageError where the model would take another branch than in its trace. ``origin``: as Analysis.origin_of() says it."""
    if bool(condition) == value:
        return
    if origin == "a random number":
        raise UsageError(
            f"the model branches on a random number, at {place}, as layer drop does, and its layers hold the branch that its "
            "trace took; set the probability of the other one to 0, as by layerdrop=0.0 in a configuration"
        )
    decides = f", which {origin} decides on" if origin else ""
    remedy = f"build the pipeline again where {origin} has changed" if origin else "give a sample that takes the other one"
    raise UsageError(
        f"the model branches on a value that is {not value} and was {value} for its sample, at {place}{decides}; its layers hold the "
        f"branch of the sample: {remedy}, or write the branch as torch.where()"
    )


def expect_size(holds: bool, relation: str, place: str, origin: str = "") -> None:
    """Raises UsageError where a size that depends on values makes the model do something else than in its trace. ``origin``: as of
    expect()."""
    if holds:
        return
    remedy = (
        f"build the pipeline again where {origin} has changed, or use the tensor itself, as x * steps instead of x * int(steps)"
        if origin and origin != "a random number"
        else "use operators whose output has a fixed size, such as torch.where or a mask"
    )
    raise UsageError(
        f"the model does something else with this micro-batch than with its sample: a size or a number depends on "
        f"{f'the value of {origin}' if origin else 'the values of an input'}, at {place}, and {relation} is not true here, as its layers "
        f"rely on; {remedy}"
    )


def cumulative_batch_norm(
    input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], running_mean: Tensor, running_var: Tensor, training: bool,
    count: Tensor, eps: float,
) -> Tensor:
    """Torch's batch norm with momentum=None. ``count``: of the mini-batches so far, with this one."""
    factor = 1.0 / float(count) if training and not count.is_meta else 0.0
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, factor, eps, torch.backends.cudnn.enabled)


def packed_data(input: Tensor, lengths: Tensor, batch_first: bool) -> Tensor:
    """The values of a packed sequence, [sum of lengths, ..]. ``lengths``: [samples], descending, on the host."""
    return torch.ops.aten._pack_padded_sequence(input, lengths, batch_first)[0]  # type: ignore[no-any-return]


def batch_sizes_of(lengths: Tensor) -> Tensor:
    """How many samples have a value at each position, [longest length]."""
    return (lengths[None] > torch.arange(int(lengths.max()), device=lengths.device)[:, None]).sum(1)


def padded_data(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding: float, steps: int, batch: int
) -> tuple[Tensor, Tensor]:
    """Torch's inverse of packed_data(): the padded values, and the lengths. ``batch``: the number of samples, which a trace needs."""
    return torch.ops.aten._pad_packed_sequence(data, batch_sizes, batch_first, padding, steps)  # type: ignore[no-any-return]


def packed_rnn(
    kind: str, data: Tensor, batch_sizes: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], has_biases: bool, layers: int,
    dropout: float, training: bool, bidirectional: bool, batch: int,
) -> list[Tensor]:
    """Torch's RNN of a packed sequence: its packed output, and its states. ``batch``: the number of samples, which a trace needs."""
    run = getattr(torch.ops.aten, kind).data
    given = list(states) if kind == "lstm" else states[0]
    return list(run(data, batch_sizes, given, list(weights), has_biases, layers, dropout, training, bidirectional))


def _like_packed_data(input: Tensor, lengths: Tensor, batch_first: bool) -> Tensor:
    return input.new_empty((torch.library.get_ctx().new_dynamic_size(), *input.shape[2:]))


def _like_batch_sizes(lengths: Tensor) -> Tensor:
    return lengths.new_empty((torch.library.get_ctx().new_dynamic_size(),))


def _like_padded_data(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding: float, steps: int, batch: int
) -> tuple[Tensor, Tensor]:
    sizes = (batch, steps) if batch_first else (steps, batch)
    return data.new_empty((*sizes, *data.shape[1:])), batch_sizes.new_empty((batch,))


def _like_packed_rnn(
    kind: str, data: Tensor, batch_sizes: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor], has_biases: bool, layers: int,
    dropout: float, training: bool, bidirectional: bool, batch: int,
) -> list[Tensor]:
    width = states[0].shape[2] * (2 if bidirectional else 1)
    return [data.new_empty((data.shape[0], width)), *(data.new_empty((each.shape[0], batch, each.shape[2])) for each in states)]


def _functions_of(base: Any) -> Iterator[Any]:
    """The classes of autograd.Functions, without those of custom operators."""
    for cls in base.__subclasses__():
        if not cls.__name__.startswith(_OF_OPERATOR):
            yield cls
            yield from _functions_of(cls)


def _has_setup(function: Any) -> bool:
    """True for an autograd.Function whose forward takes no context."""
    return function.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context


_calls: list[FunctionCall] = []  # of the trace that is being made


class _Context:
    """What an autograd.Function is given as ctx, where nothing goes backward."""

    def __init__(self, needs: Sequence[bool]) -> None:
        self.needs_input_grad = tuple(needs)

    def mark_dirty(self, *tensors: Tensor) -> None:
        raise UsageError("an autograd.Function changes its input in place, which a trace does not see; return a new tensor")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _of_function(tensors: Sequence[Tensor], number: int) -> list[Tensor]:
    """What the function computes, without its backward."""
    call = _calls[number]
    args = call.args(tensors)
    cls = call.function
    was_running, FunctionCall.is_running = FunctionCall.is_running, True
    try:
        with torch.no_grad():
            context = _Context([isinstance(each, Tensor) and each.requires_grad for each in args])
            result = cls.forward(*args) if _has_setup(cls) else cls.forward(context, *args)
            if _has_setup(cls):
                cls.setup_context(context, args, result)
    finally:
        FunctionCall.is_running = was_running
    call.is_single = isinstance(result, Tensor)
    return [each.clone() if any(each is other for other in tensors) else each for each in ([result] if call.is_single else result)]


torch.library.define(_EXPECT, "(Tensor condition, bool value, str place) -> ()")
torch.library.impl(_EXPECT, "CompositeExplicitAutograd", lambda condition, value, place: None)
torch.library.register_fake(_EXPECT, lambda condition, value, place: None)
def _like_ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    is_for_each = reduction == 0 and log_probs.dim() == 3
    return log_probs.new_empty((log_probs.shape[1],) if is_for_each else ())


torch.library.define(_CTC_LOSS, "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, "
                     "int reduction=1, bool zero_infinity=False) -> Tensor")
torch.library.impl(_CTC_LOSS, "CompositeExplicitAutograd", lambda *args: torch.ops.aten.ctc_loss.Tensor(*args))
torch.library.register_fake(_CTC_LOSS, _like_ctc_loss)
torch.library.define(_CUMULATIVE_BATCH_NORM, "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
                     "bool training, Tensor count, float eps) -> Tensor")
torch.library.impl(_CUMULATIVE_BATCH_NORM, "CompositeExplicitAutograd", lambda *args: cumulative_batch_norm(*args))
torch.library.register_fake(_CUMULATIVE_BATCH_NORM, lambda input, *args: torch.empty_like(input))
torch.library.define(_PACKED_DATA, "(Tensor input, Tensor lengths, bool batch_first) -> Tensor")
torch.library.impl(_PACKED_DATA, "CompositeExplicitAutograd", packed_data)
torch.library.register_fake(_PACKED_DATA, _like_packed_data)
torch.library.define(_BATCH_SIZES, "(Tensor lengths) -> Tensor")
torch.library.impl(_BATCH_SIZES, "CompositeExplicitAutograd", batch_sizes_of)
torch.library.register_fake(_BATCH_SIZES, _like_batch_sizes)
torch.library.define(_PADDED_DATA, "(Tensor data, Tensor batch_sizes, bool batch_first, float padding, SymInt steps, SymInt batch) -> "
                     "(Tensor, Tensor)")
torch.library.impl(_PADDED_DATA, "CompositeExplicitAutograd", padded_data)
torch.library.register_fake(_PADDED_DATA, _like_padded_data)
torch.library.define(_PACKED_RNN, "(str kind, Tensor data, Tensor batch_sizes, Tensor[] states, Tensor[] weights, bool has_biases, "
                     "int layers, float dropout, bool training, bool bidirectional, SymInt batch) -> Tensor[]",
                     tags=(torch.Tag.nondeterministic_seeded,))
torch.library.impl(_PACKED_RNN, "CompositeExplicitAutograd", packed_rnn)
torch.library.register_fake(_PACKED_RNN, _like_packed_rnn)
torch.library.define(_FUNCTION, "(Tensor[] tensors, int number) -> Tensor[]")
torch.library.impl(_FUNCTION, "CompositeExplicitAutograd", _of_function)
torch.library.register_fake(_FUNCTION, _of_function)


# ---- Where the model's own code is ----

_OWN_FOLDERS = tuple(os.path.dirname(str(each.__file__)) + os.sep for each in (torch, sympy)) + (os.path.dirname(__file__) + os.sep,)


def _place_in(model: nn.Module, frames: Iterable[Any]) -> str:
    """ "blocks.0 (my.py, line 12: code)" of the innermost of these (frame, line) that is the model's author's; else empty.

    ``frames``: the outermost first.
    """
    names = {id(module): name for name, module in model.named_modules()}
    module, place = "", ""
    for frame, line in frames:
        first = frame.f_code.co_varnames[:1]
        own = frame.f_locals.get(first[0]) if first else None
        if isinstance(own, nn.Module) and id(own) in names:
            module = names[id(own)] or "the model"
        file = frame.f_code.co_filename
        if module and not file.startswith(_OWN_FOLDERS) and not file.startswith("<"):
            code = linecache.getline(file, line).strip()
            place = f"{module} ({os.path.basename(file)}, line {line}" + (f": {code})" if code else ")")
    return place


def place_of_error(model: nn.Module, error: Optional[BaseException]) -> str:
    """Where the model's own code raised it, as _place_in() names it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if place := _place_in(model, traceback.walk_tb(error.__traceback__)):
            return place
        error = error.__cause__ or error.__context__
    return ""


# ---- Train and eval ----

#: Operators that take the mode as an argument: its position, and whether it is a probability that is 0 in eval.
MODE_ARGUMENTS: dict[str, tuple[int, bool]] = {
    "aten.dropout": (2, False), "aten.dropout_": (2, False), "aten.feature_dropout": (2, False),
    "aten.feature_dropout_": (2, False), "aten.alpha_dropout": (2, False), "aten.alpha_dropout_": (2, False),
    "aten.feature_alpha_dropout": (2, False), "aten.feature_alpha_dropout_": (2, False), "aten.batch_norm": (5, False),
    "aten.instance_norm": (5, False), "aten.rrelu": (3, False), "aten.rrelu_": (3, False),
    "aten.scaled_dot_product_attention": (4, True), "aten.lstm": (6, False), "aten.gru": (6, False),
    "aten.rnn_tanh": (6, False), "aten.rnn_relu": (6, False), "pipescope.cumulative_batch_norm": (5, False),
    "pipescope.packed_rnn": (8, False),
}


class _Recorder(TorchFunctionMode):
    """The operators that a forward calls, by name, with the tensors and values that they are given."""

    def __init__(self, counters: set[int], named: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.told: list[Any] = []  #: values of the calls that may depend on the mode
        self.reads: Optional[Reads] = None  #: what else the forward read
        self._counters = counters
        self._kept: list[Tensor] = []  # so that no other tensor gets the id of one
        self._titles: dict[int, Any] = {}  # of tensors, by id
        for name, tensor in named.items():
            self._titled(tensor, name)

    def _titled(self, tensor: Tensor, title: Any) -> Any:
        """What stands for a tensor: equal in both modes where they do the same. ``title``: if it has none yet."""
        if id(tensor) not in self._titles:
            self._kept.append(tensor)
            self._titles[id(tensor)] = title
        return self._titles[id(tensor)]

    def _given(self, value: Any) -> Any:
        """What tells an argument from another one."""
        if isinstance(value, Tensor):  # one from outside is the same object in both modes
            return self._titled(value, ("new", len(self._kept)) if isinstance(value, FakeTensor) else ("own", id(value)))
        if isinstance(value, slice):
            return ("slice", *map(self._given, (value.start, value.stop, value.step)))
        return value if isinstance(value, _PLAIN) else type(value).__name__

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = getattr(function, "__name__", str(function))
        if name in ("__get__", "size", "dim", "numel", "is_floating_point", "stride") or args and id(args[0]) in self._counters:
            for each in tensors_in(result):
                self._titled(each, ("of", self._given(args[0]) if args else None, len(self.calls)))
            return result
        is_attention = name == "scaled_dot_product_attention"
        if is_attention:  # its scale is a number, too, and above 0 in both modes
            self.told.append((name, (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0),)))
            args, kwargs = (*args[:4], *args[5:]), {key: each for key, each in kwargs.items() if key != "dropout_p"}
        is_told = name.strip("_") in _MODE_FUNCTIONS
        if isinstance(result, Tensor) and not name.endswith("_") and any(result is each for each in args):
            result = result.view_as(result)  # of a dropout in eval mode, or contiguous(): a new tensor in the other mode
        leaves = _pytree.tree_leaves((args, kwargs))
        tensors, values = ([self._given(each) for each in leaves if isinstance(each, Tensor) == is_tensor] for is_tensor in (True, False))
        for k, each in enumerate(tensors_in(result)):
            self._titled(each, ("result", len(self.calls), k))
        if is_told and not is_attention:
            statistics = [each for each in (*args[1:3], kwargs.get("running_mean")) if isinstance(each, Tensor)]
            if "norm" not in name or statistics:  # one without running statistics does the same in both modes
                self.told.append((name, tuple(values)))
            values = []
        self.calls.append((name, tuple(tensors), tuple(values)))
        return result


_MODE_FUNCTIONS = {name.split(".")[1].strip("_") for name in MODE_ARGUMENTS}


@dataclasses.dataclass(frozen=True)
class LaterCalls:
    """What a model's calls behind its first one, an export, do in both modes. None: that is not known."""

    reads: Optional[Reads]  #: in eval mode, if train and eval run the same operators, apart from the mode that some of them are told
    counted: Optional[Collection[str]]  #: attributes that the forward both reads and changes in train mode


def later_calls(model: nn.Module, arguments: Arguments) -> LaterCalls:
    """``model``: has been called before, since some models prepare themselves in their first call."""
    try:
        train, evaluation = (_recorded(model, arguments, training) for training in (True, False))
    except Exception:  # the exports tell what is wrong
        return LaterCalls(None, None)
    is_same = train.calls == evaluation.calls and len(train.told) == len(evaluation.told) and all(
        _is_off_in_eval(name, given, other) for (name, given), (_, other) in zip(train.told, evaluation.told)
    )
    assert train.reads is not None
    return LaterCalls(evaluation.reads if is_same else None, train.reads.counted)


def _is_off_in_eval(name: str, train: Sequence[Any], evaluation: Sequence[Any]) -> bool:
    """Of an operator that is told the mode, by what it is given in both: whether it is told nothing else, so that its layer may tell
    it the mode. False where that is not known, and for one that is on in eval mode, as F.dropout(x) is."""
    if name == "scaled_dot_product_attention":
        return bool(evaluation[0] == 0)
    if len(train) != len(evaluation):
        return False
    is_normal = "norm" in name
    pairs = list(zip(train, evaluation))
    flags = [(one, other) for one, other in pairs if isinstance(one, bool) and isinstance(other, bool)]
    turns_off = any(one and not other for one, other in flags)
    if any(other and not one for one, other in flags):  # it is on in eval mode only
        return False
    if not turns_off and (any(other for _, other in flags) or not flags and not is_normal):
        return False
    is_dropout = "dropout" in name  # which reads its probability only where it is on
    return all(one == other or turns_off and (is_dropout or isinstance(one, bool)) for one, other in pairs)


def _recorded(model: nn.Module, arguments: Arguments, training: bool) -> _Recorder:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, warnings.catch_warnings(), _modes(model, training):
        warnings.simplefilter("ignore")
        memo: dict[int, Tensor] = {}
        named = {}
        for prefix, module in model.named_modules():  # each once: torch would give a module of two names the tensors of its first swap
            for key, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    named[_joined(prefix, key)] = memo.setdefault(id(tensor), mode.from_tensor(tensor))
        tensors = [mode.from_tensor(each.detach().clone()) for each in arguments.tensors]
        counters = {id(each) for name, each in named.items() if name.endswith("num_batches_tracked")}
        call = _Call(model, arguments)
        losses = _Losses(call)
        _calls.clear()  # whose numbers the recorder compares
        recorder = _Recorder(counters, {**named, **{f"input {k}": each for k, each in enumerate(tensors)}})
        eager = torch.compiler.set_stance("force_eager")  # as an export runs compiled parts
        with losses.noted(), _reparametrize_module(model, named), eager, recorder, torch.random.fork_rng(devices=[]):
            call(*tensors)
    losses.reads.finish(losses.kept)
    recorder.reads = losses.reads
    return recorder


# ---- What cannot be cut ----


def place_of(node: torch.fx.Node) -> str:
    """ "aten.nonzero in model.layers.0 (File "my.py", line 12: code)": the innermost line outside of torch """
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = str(stack[-1][0]).removeprefix("model").removeprefix(".") if stack else ""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    frames = [k for k in range(len(lines) - 1) if lines[k].startswith("File ")]
    own = [k for k in frames if not lines[k].startswith(f'File "{_TORCH}')] or frames
    where = f" ({lines[own[-1]].split(', in ')[0]}: {lines[own[-1] + 1]})" if own else ""
    return f"{op_name(node)} in {module or 'the model'}{where}"


_TORCH = os.path.dirname(torch.__file__) + os.sep


def unknown_sizes_of(value: Any) -> set[Any]:
    """The symbols of sizes and numbers that depend on the values of inputs."""
    found: set[Any] = set()
    for each in _pytree.tree_leaves(value):
        if isinstance(each, (Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
            found |= free_unbacked_symbols(each)
    return found


def _refuse_unknown_sizes(trace: Trace) -> None:
    """Of a model or a sample on the meta device."""
    for node in trace.graph.nodes:
        if unknown_sizes_of(node.meta.get("val")):
            raise CannotCut(
                f"the size of a value depends on the values of an input, at {place_of(node)}, and there are none on the meta device; "
                "use an operator whose output has a fixed size, such as torch.where or a mask"
            )


def refuse_unknown_outputs(trace: Trace) -> None:
    for name, node in zip(trace.output.names, trace.output_nodes):
        if isinstance(node, torch.fx.Node) and unknown_sizes_of(node.meta.get("val")):
            raise CannotCut(
                f"the size of the model's output {name or 'value'} depends on the values of an input, at {place_of(node)}, so the "
                "outputs of micro-batches cannot be joined; return a value of a fixed size, such as one with a mask"
            )
