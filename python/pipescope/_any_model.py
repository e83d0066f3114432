"""Any PyTorch model as layers for a pipeline: layers_of()."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import sympy  # type: ignore[import-untyped]
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pipescope._graph_cuts import Analysis, changed_buffers, why_whole
from pipescope._graph_layers import Crossing, TracedLayer, layers_from
from pipescope._held_state import HeldState, Reads
from pipescope._mini_batch import Rule, part_of, split_of
from pipescope._structure import error_of, tensors_in
from pipescope._trace_model import (
    Arguments,
    CannotCut,
    Output,
    Trace,
    arguments_of,
    autocast_state,
    depends_on_values,
    later_calls,
    may_free_more,
    op_name,
    place_of,
    place_of_error,
    put_back_of,
    refuse_hidden_parameters,
    trace_of,
)
from pipescope.errors import UsageError
from pipescope.skip import skips_on

__all__ = ["ModelInput", "ModelLayers", "call_of", "is_any_model", "layers_of"]


@dataclasses.dataclass(frozen=True)
class ModelOutput:
    """What a model returns in one of its modes, and where the samples of each tensor are; None: it has none, as a loss."""

    made: Output
    dimensions: tuple[Optional[int], ...]


@dataclasses.dataclass(frozen=True)
class ModelInput:
    """A tensor that the model takes, and how a mini-batch of it is cut: the dimension of its samples, or None for whole."""

    name: str
    shape: tuple[Any, ...]  #: numbers; names of sizes that may differ from call to call
    dtype: torch.dtype
    rule: Rule
    requires_grad: bool = False  #: of the sample; layers cut the gradient of an input that needs none
    held_at: Mapping[int, str] = dataclasses.field(default_factory=dict, compare=False)  #: by dimension, where the model holds on to its size


def is_any_model(module: Any) -> bool:
    """True for a model that layers_of() cuts. Sequentials and lists are layers already."""
    return isinstance(module, nn.Module) and not isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))


def call_of(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) of a call with a batch: a mapping has keywords, a tuple or list positions, and (tuple, dict) both."""
    if isinstance(sample, Mapping):
        return (), dict(sample)
    if isinstance(sample, tuple) and len(sample) == 2 and isinstance(sample[0], (tuple, list)) and isinstance(sample[1], Mapping):
        return tuple(sample[0]), dict(sample[1])
    return tuple(sample) if isinstance(sample, (tuple, list)) else (sample,), {}


class ModelLayers(Mapping[str, nn.Module]):
    """A model's layers by name, as layers_of() makes them. GPipe and profile() take it. ``print()`` shows a table.

    The model's parameters and buffers are those of the layers. A layer's name is that of the module whose work it does.
    """

    def __init__(
        self,
        model: nn.Module,
        arguments: Arguments,
        layers: Mapping[str, nn.Module],
        inputs: Sequence[ModelInput],
        outputs: Mapping[bool, ModelOutput],
        crossings: Sequence[Crossing],
        borders: Sequence[int],
        guards: Mapping[Any, str],
        only_mode: str,
        named_samples: str = "",
        why_whole: str = "",
    ) -> None:
        self.model = model
        self._arguments = dataclasses.replace(arguments, tensors=())
        self._layers = OrderedDict(layers)
        self.inputs = list(inputs)
        self._outputs = dict(outputs)  #: in train mode; in eval mode if it is another. None: the last layer returns the model's
        self.crossings = list(crossings)
        self.borders = list(borders)
        self._guards = dict(guards)  #: with the places in the model that rely on them
        self._known: set[tuple[Any, ...]] = set()  # modes and sizes that fit
        #: by mode: empty if the layers were found to be right for one sample, whatever the guards say, or what is wrong
        self._of_one: dict[bool, str] = {}
        self._only_mode = only_mode  #: why eval mode cannot run; empty if it can
        self._held_state = HeldState(model)
        self._signatures: dict[bool, str] = {}
        self._how: tuple[Any, ...] = ([], False)
        self._autocasts: set[Any] = set()
        self.least_samples = 1
        self.named_samples = named_samples  #: which input names samples of the mini-batch by their number; empty if none does
        self.why_whole = why_whole  #: why the model is one layer; empty if it is cut
        self._tied = _tied_names(model)
        self._dtypes = {name: each.dtype for name, each in model.named_parameters()}

    def __getitem__(self, name: str) -> nn.Module:
        return self._layers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def is_traced(self) -> bool:
        """False for a model's own modules, of which the last one returns what the model does."""
        return bool(self._outputs)

    def output(self, training: Optional[bool] = None) -> ModelOutput:
        """In a mode; default: the model's own."""
        return self._outputs.get(self.model.training if training is None else training, self._outputs[True])

    def __str__(self) -> str:
        lines = [f"{type(self.model).__name__} in {len(self)} layer{'s' if len(self) > 1 else ''}"]
        lines += [f"  not cut: {self.why_whole}"] if self.why_whole else []
        lines += [f"  input {each.name} {_shape_text(each.shape)} {_cut_text(each.rule)}" for each in self.inputs]
        width = max(len(name) for name in self)
        for k, (name, layer) in enumerate(self.items()):
            copies = getattr(layer, "copies", ())
            own = sum(each.numel() * each.element_size() for key, each in layer.named_parameters() if key not in copies)
            ends = f", passes on {_bytes_text(self.borders[k])}" if k < len(self.borders) else ""
            lines.append(f"  {k:3} {name:{width}} {_bytes_text(own):>10} of parameters{ends}")
        lines += [
            f"  skip {each.name} {each.first} -> {', '.join(map(str, each.ends))} {_bytes_text(each.bytes)}"
            for each in self.crossings if each.bytes
        ]
        for uses in self.shared:
            tensor = _tensor_of(self.model, uses[0][1])
            others = ", ".join(str(layer) for layer, _ in uses[1:])
            lines.append(f"  shared {uses[0][1]} of layer {uses[0][0]}, also in {others} {_bytes_text(tensor.numel() * tensor.element_size())}")
        if left_out := list(dict.fromkeys(name for each in self._outputs.values() for name in each.made.left_out)):
            lines.append(f"  not returned: {', '.join(left_out)}")
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def shared(self) -> list[list[tuple[int, str]]]:
        """Parameters that several layers use: (number of the layer, name in it) of the holder, then of the others."""
        groups: dict[int, list[tuple[int, str]]] = {}
        for k, layer in enumerate(self.values()):
            named = layer.named_parameters(recurse=False) if isinstance(layer, TracedLayer) else ()
            for name, _ in named:
                groups.setdefault(id(_tensor_of(self.model, name)), []).append((k, name))
        return [uses for uses in groups.values() if len({layer for layer, _ in uses}) > 1]

    def shared_parameters(self) -> list[tuple[list[str], int, int, bool]]:
        """Of shared: (keys as in a plain Sequential, elements, bytes, whether it trains)."""
        found = []
        for uses in self.shared:
            tensor = _tensor_of(self.model, uses[0][1])
            keys = [f"{layer}.{name}" for layer, name in uses]
            found.append((keys, tensor.numel(), tensor.numel() * tensor.element_size(), tensor.requires_grad))
        return found

    # ---- Calls ----

    def split(self, training: Optional[bool] = None) -> dict[Any, Any]:
        """How the engine cuts the inputs and joins the outputs, by position. Default: in the model's own mode."""
        rules: dict[Any, Any] = {k: each.rule for k, each in enumerate(self.inputs) if each.rule != 0}
        if self.is_traced:
            rules["output"] = tuple(each or 0 for each in self.output(training).dimensions)
        return rules

    def flat(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """The tensors of a call, for the first layer. Raises UsageError for a call that the sample does not stand for."""
        arguments = arguments_of(self.model, args, kwargs)
        if difference := self._arguments.difference(arguments):
            raise UsageError(
                f"the model is called with other inputs than its sample has: {difference}; build a pipeline with a sample of "
                "such a call"
            )
        sizes: dict[str, tuple[int, str]] = {}
        for each, tensor in zip(self.inputs, arguments.tensors):
            if tensor.dim() != len(each.shape) or tensor.dtype != each.dtype:
                raise UsageError(
                    f"the input {each.name} has {tensor.dim()} dimensions of {tensor.dtype}, and the sample's has "
                    f"{len(each.shape)} of {each.dtype}; give one like the sample's"
                )
            if tensor.requires_grad and not each.requires_grad and self.is_traced and torch.is_grad_enabled():
                raise UsageError(
                    f"the input {each.name} requires a gradient, and the sample's does not; build a pipeline with a sample that "
                    "does, or detach the input"
                )
            for k, (expected, size) in enumerate(zip(each.shape, tensor.shape)):
                if isinstance(expected, int) and expected != size:
                    raise UsageError(
                        f"dimension {k} of the input {each.name} is {size}, and the model was traced for {expected} only, since its "
                        f"forward holds on to it{_at(each.held_at.get(k, ''))}; give {expected}, or build a pipeline with a sample of the "
                        "other size"
                    )
                before = sizes.setdefault(str(expected), (int(size), f"{each.name}'s dimension {k}"))
                if not isinstance(expected, int) and before[0] != size:
                    raise UsageError(
                        f"dimension {k} of the input {each.name} is {size} and {before[1]} is {before[0]}; in this model they "
                        "are equal; make them so"
                    )
        return arguments.tensors

    def check_sizes(self, tensors: Sequence[Tensor], micro_batches: Sequence[int]) -> None:
        """Refuses sizes that the trace does not stand for."""
        for samples in set(micro_batches):
            if samples < self.least_samples:
                raise UsageError(_one_sample_text(""))
            of_one = self._of_one.get(self.model.training) if samples == 1 and self._is_in_one_mode() else None
            if of_one:
                raise UsageError(_one_sample_text(of_one))
            sizes = self._sizes_of(tensors, samples)
            key = (self.model.training, of_one, *sizes.values())
            if key in self._known:
                continue
            for guard in self._guards:
                if not _holds(guard, sizes):
                    if _holds_for_several(guard, sizes):
                        if of_one is not None:
                            continue
                        raise UsageError(_one_sample_text(f", as its trace has {guard}{_at(self._guards[guard])}"))
                    raise UsageError(self._guard_text(guard, sizes))
            self._known.add(key)

    def _sizes_of(self, tensors: Sequence[Tensor], samples: int) -> dict[str, int]:
        """The numbers that the names of sizes stand for, in a micro-batch of so many samples."""
        return {
            str(expected): samples if each.rule == k else int(size)
            for each, tensor in zip(self.inputs, tensors)
            for k, (expected, size) in enumerate(zip(each.shape, tensor.shape))
            if not isinstance(expected, int)
        }

    def one_breaks_guards(self, tensors: Sequence[Tensor]) -> bool:
        """True if a guard does not hold for one sample, and holds for two. ``tensors``: of any number of samples."""
        sizes = self._sizes_of(tensors, 1)
        return any(not _holds(each, sizes) and _holds_for_several(each, sizes) for each in self._guards)

    def _is_in_one_mode(self) -> bool:
        """False for a model with frozen batch norms, of which checks in train mode say nothing."""
        return all(each.training == self.model.training for each in self.model.modules())

    def hold_one(self, training: bool, wrong: str) -> None:
        """From now on, check_sizes() refuses one sample in this mode, or takes it although it breaks guards if nothing is wrong."""
        self._of_one[training] = wrong

    def _guard_text(self, guard: Any, sizes: Mapping[str, int]) -> str:
        """What to say of sizes for which the forward does something else than in its trace."""
        places = {
            str(size): f"dimension {k} of the input {each.name}"
            for each in reversed(self.inputs) for k, size in reversed(list(enumerate(each.shape))) if not isinstance(size, int)
        }
        places["batch"] = "the number of samples of a micro-batch"
        names = [name for name in sizes if name in {str(each) for each in guard.free_symbols}]
        found = " and ".join(f"{places[name]} is {sizes[name]}" for name in names)
        relation = str(guard)
        if len(names) == 1 and len(relation) <= 40 and "(" not in relation:
            pattern = rf"(?<!\w){names[0]}(?!\w)"
            told = f"the model was traced where {re.sub(pattern, places[names[0]], relation)}"
        else:
            told = "the model was traced for sizes for which its forward takes another branch"
        told += _at(self._guards[guard])
        others = [places[name] for name in names if name != "batch"]
        remedy = f"a sample in which {' and '.join(f'{places[name]} is {sizes[name]}' for name in names if name != 'batch')}" if others else ""
        fewer = "use fewer chunks, so that micro-batches have more samples" if "batch" in names else ""
        remedies = ", or ".join(each for each in (fewer, f"build a pipeline with {remedy}" if remedy else "") if each)
        return f"{told}, and here {found}; its forward does something else then; {remedies}"

    def hold_state(self, reads: Optional[Reads]) -> None:
        """From now on, check_state() compares."""
        self._held_state = HeldState(self.model, reads)

    def check_state(self) -> None:
        """Refuses a model whose modules, attributes or hooks are others than in its trace."""
        self._held_state.check()

    def hold_autocast(self, signatures: Mapping[bool, str], *how: Any) -> None:
        """From now on, check_autocast() compares. ``signatures``: of the traces in each mode; ``how``: as trace_of() made them."""
        self._signatures, self._how = dict(signatures), how
        self._autocasts = {autocast_state()}

    def check_autocast(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuses an autocast in which the model would run other operators than in its trace."""
        state = autocast_state()
        if not self._signatures or state in self._autocasts:
            return
        training = self.model.training or False not in self._signatures
        call = arguments_of(self.model, args, kwargs)
        call = _with_several_samples(call, [True] * len(call.tensors), [each.rule for each in self.inputs])
        try:
            signature = trace_of(self.model, call, self._how[0], training, self._how[1]).signature
        except Exception:  # as of parameters on several devices
            signature = ""
        if signature != self._signatures[training]:
            now = ", ".join(f"torch.autocast({kind!r}, {dtype})" for kind, dtype in state) or "no autocast"
            raise UsageError(
                f"the model runs in {now}, and its layers hold dtypes of a trace in another; build the pipeline in the autocast that it "
                "runs in, as by `with torch.autocast(..): pipe = pipescope.GPipe(..)`"
            )
        self._autocasts.add(state)

    def check_modes(self) -> None:
        """Refuses modes that no trace stands for."""
        first = next((layer for layer in self.values() if isinstance(layer, TracedLayer)), None)
        if first is None:
            return
        if self._only_mode and not self.model.training:
            raise UsageError(self._only_mode)
        if not first.has_two_modes:
            return
        free = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd) if self.model.training else ()
        for name, module in self.model.named_modules():
            if module.training != self.model.training and not isinstance(module, free):
                mode, other = ("train", "eval") if module.training else ("eval", "train")
                raise UsageError(
                    f"the module {name} is in {mode} mode and the model in {other}; the model runs other operators in train mode "
                    "than in eval mode, so all of it must be in one; call train() or eval() of the model, and freeze parameters "
                    "by requires_grad_(False)"
                )

    def use_current_tensors(self) -> None:
        """Takes the tensors that the model has now, after a cast or load_state_dict(assign=True)."""
        if _tied_names(self.model) != self._tied:
            raise UsageError(
                "parameters of the model were added or removed, or are shared otherwise, since the pipeline was built; build it "
                "again"
            )
        for layer in self.values():
            if isinstance(layer, TracedLayer):
                for table in (layer._parameters, layer._buffers):
                    for name, before in table.items():
                        now = _tensor_of(self.model, name)
                        if now is before or before is None:
                            continue
                        self._check_same(name, before, now)
                        if name in layer.copies and table is layer._parameters:
                            self._use_as_copy(before, now)
                            continue
                        if now.device == before.device:  # else it is a buffer that several lanes' devices have
                            table[name] = now

    @staticmethod
    def _use_as_copy(copy: Tensor, parameter: Tensor) -> None:
        """The engine gives it the values."""
        if copy.dtype != parameter.dtype:
            copy.data = copy.data.to(parameter.dtype)
        copy.requires_grad_(parameter.requires_grad)

    def hand_over_buffers(self) -> None:
        """The model gets the buffers that the engine moved to a lane's device, of which its layers change the values."""
        given: set[str] = set()
        for layer in self.values():
            for name, buffer in layer._buffers.items() if isinstance(layer, TracedLayer) else ():
                now = _tensor_of(self.model, name)
                if buffer is not None and now is not None and now.device != buffer.device and name not in given:
                    path, _, last = name.rpartition(".")
                    self.model.get_submodule(path)._buffers[last] = buffer
                given.add(name)

    def tensors_of(self, layer: nn.Module, with_copies: bool) -> list[Tensor]:
        """The model's parameters and buffers that a layer uses, those of an earlier layer too if ``with_copies``."""
        if not isinstance(layer, TracedLayer):
            return [*layer.parameters(), *layer.buffers()]
        found = [_tensor_of(self.model, name) for name in (*layer._parameters, *layer._buffers)
                 if with_copies or name not in layer.copies]
        return [each for each in found if each is not None]

    def _check_same(self, name: str, before: Tensor, now: Any) -> None:
        if not isinstance(now, Tensor) or now.shape != before.shape:
            raise UsageError(f"the model's {name} was replaced by another since the pipeline was built; build it again")

    def check_dtypes(self) -> None:
        for name, each in self.model.named_parameters():
            if self._dtypes.get(name, each.dtype) != each.dtype:
                raise UsageError(
                    f"the parameter {name} is {each.dtype} and was {self._dtypes[name]} when the model was traced, whose dtypes "
                    "its layers keep; cast the model before you build the pipeline"
                )

    def value(self, outputs: Any, weights: Optional[Tensor], training: Optional[bool] = None) -> Any:
        """The model's own output, from the last layer's. ``weights``: of the micro-batches that were joined; None: it is one's.

        A value without samples, such as a loss, is the weighted sum over micro-batches, and one that is no float the first one's.
        """
        if not self.is_traced:
            return outputs
        output = self.output(training)
        tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        return output.made.build([
            each if dimension is not None else _joined_value(each, weights)
            for each, dimension in zip(tensors, output.dimensions)
        ])

    def loss_of(self, output: Any) -> Optional[Tensor]:
        """The model's own loss in its output: ``output.loss``, ``output["loss"]``, the first of several, or the output itself."""
        if isinstance(output, Mapping):
            output = output.get("loss")
        elif hasattr(output, "loss"):
            output = output.loss
        elif isinstance(output, (tuple, list)) and output:
            output = output[0]
        return output if isinstance(output, Tensor) and output.dim() == 0 and output.is_floating_point() else None


def _joined_value(values: Tensor, weights: Optional[Tensor]) -> Tensor:
    if values.shape[0] == 1 or weights is None or not (values.is_floating_point() or values.is_complex()):
        return values[0]
    weights = weights.to(values.device, values.real.dtype).reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(weights == 0, torch.zeros((), dtype=values.dtype, device=values.device), values * weights).sum(0)


def _at(place: str) -> str:
    return f", at {place}" if place else ""


def _holds(guard: Any, sizes: Mapping[str, int]) -> bool:
    known = {symbol: sizes[str(symbol)] for symbol in guard.free_symbols if str(symbol) in sizes}
    if len(known) < len(guard.free_symbols):
        return True
    return str(guard.subs(known)) != "False"


def _holds_for_several(guard: Any, sizes: Mapping[str, int]) -> bool:
    """Of a guard that does not hold: whether that is since there is one sample."""
    return sizes.get("batch") == 1 and _holds(guard, {**sizes, "batch": 2})


def _one_sample_text(why: str) -> str:
    return (
        f"a micro-batch has one sample, and the model does something else with one sample than with several{why}; use fewer chunks, or "
        "leave out an epoch's last samples, as by drop_last=True of a DataLoader"
    )


def _bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _shape_text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(each) for each in shape)}]"


def _cut_text(rule: Rule) -> str:
    return "whole" if rule is None else "cut by a function" if callable(rule) else f"cut along dimension {rule}"


def _tied_names(model: nn.Module) -> list[tuple[str, int]]:
    """Every name of a parameter, and which of them are one tensor."""
    numbers: dict[int, int] = {}
    named = model.named_parameters(remove_duplicate=False)
    return [(name, numbers.setdefault(id(each), len(numbers))) for name, each in named]


def _tensor_of(model: nn.Module, name: str) -> Any:
    module: Any = model
    *path, last = name.split(".")
    for part in path:
        module = module._modules.get(part) if module is not None else None
    return None if module is None else module._parameters.get(last, module._buffers.get(last))


# ---- Making them ----


def _refuse_modules_without_code(model: nn.Module) -> None:
    for name, module in model.named_modules():
        title = f"the module {name}" if name else "the model"
        if isinstance(module, torch.jit.ScriptModule):
            raise UsageError(f"{title} is scripted or traced by torch.jit, and a trace needs its Python code; give the module that it was made of")
        if lazy := next((key for key, each in module._parameters.items() if is_lazy(each)), None):
            raise UsageError(f"{title} has the parameter {lazy}, which gets its shape in the first call; call the model once, then build the pipeline")


def layers_of(model: nn.Module, sample: Any, *, split: Union[Mapping[str, Any], Sequence[str], None] = None) -> ModelLayers:
    """Cuts any model into layers, as its author wrote it.

    ::

        layers = pipescope.layers_of(model, batch)
        print(layers)                                # names, parameters, bytes that cross, skips
        pipe = pipescope.GPipe(layers, devices=["cpu"] * 4, chunks=8)

    Args:
        model: any module that torch.export takes. It may be on the meta device.
        sample: what the model is called with: a dict of its keywords, a tuple of its arguments, ``(args, kwargs)``, or one tensor.
        split: how inputs are cut, by their names, as GPipe's option: a dimension, None or a function. Found from the trace
            for the others. Or the names of the modules that begin layers, also as ``split["layers"]``; default: the model is cut
            at every place where few bytes cross.

    The model runs once without values, and, if it has any, three times on the sample in eval mode to compare the layers with it.

    Raises UsageError, in the words of the model or of torch, for what cannot be cut: see docs/python-training.md. If an
    export fails, the model's children in order are tried, and kept if they compute what the model does.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; it is a torch.nn.Module; give one")
    model = getattr(model, "_orig_mod", model)
    refuse_hidden_parameters(model)
    _refuse_modules_without_code(model)
    names, given = _split_of(split)
    arguments = arguments_of(model, *call_of(sample))
    if not arguments.tensors:
        raise UsageError("the sample holds no tensor; give what the model is called with")
    if unknown := [name for name in given if name not in arguments.names]:
        raise UsageError(f"split names '{unknown[0]}', which is no input of the sample; it has {', '.join(arguments.names)}")
    if any(each.is_meta for each in model.parameters()):
        arguments = dataclasses.replace(arguments, tensors=tuple(each.to("meta") for each in arguments.tensors))
    rules = [given.get(name, 0) for name in arguments.names]
    traced = _with_several_samples(arguments, [name in given for name in arguments.names], rules)
    try:
        if may_free_more(traced):
            try:
                return _traced_layers(model, arguments, traced, names, given, frees_all=True)
            except Exception:  # some models can be traced for other sizes of sequences, and not of images
                pass
        return _traced_layers(model, arguments, traced, names, given, frees_all=False)
    except CannotCut as error:
        raise UsageError(str(error)) from error.__cause__
    except Exception as error:  # of the export: torch raises many kinds
        if layers := _tree_layers(model, arguments):
            return layers
        if isinstance(error, UsageError):
            raise
        named = (*model.named_buffers(), *model.named_parameters())
        if sparse := next((name for name, each in named if each.layout is not torch.strided), ""):
            raise UsageError(
                f"the model's {sparse} is a sparse tensor, which torch.export does not take in this model; hold it as a dense one, or its "
                "indices and values as two buffers"
            ) from error
        place = place_of_error(model, error)
        if own := _own_failure(model, arguments):
            raise UsageError(
                f"the model itself fails on its sample{_at(place_of_error(model, own))}: {_said_by(own)}; give a sample that it takes, or "
                "cast the model and the sample, as by model.float(), if an operator lacks a dtype"
            ) from own
        if depends_on_values(error):
            raise UsageError(
                f"the model needs a size or a number that depends on the values of an input, at {place or 'an unknown line'}, so its "
                "layers would differ from micro-batch to micro-batch; use an operator whose output has a fixed size, such as "
                "torch.where or a mask"
            ) from error
        raise UsageError(
            f"torch.export does not take the model{f', at {place}' if place else ''}, and its children, one after the other, do not "
            f"compute what it does; the export says: {_said_by(error)}; write that line with other operators, or give the model's parts in "
            "order, as an nn.Sequential"
        ) from error


def _own_failure(model: nn.Module, arguments: Arguments) -> Optional[Exception]:
    """What the model raises for its sample without a trace; None if nothing, or without values."""
    if any(each.is_meta for each in (*arguments.tensors, *model.parameters())):
        return None
    put_back = put_back_of(model)
    try:
        with torch.random.fork_rng():  # with gradients, which some operators have on some devices only
            arguments.call(model, [each.detach().clone() for each in arguments.tensors])
    except Exception as error:
        return error
    finally:
        put_back()
    return None


def _said_by(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}".rstrip(".")


def _split_of(split: Any) -> tuple[Optional[list[str]], dict[str, Any]]:
    """(modules that begin layers, rules of inputs by name)."""
    if isinstance(split, str):
        raise UsageError(f"split is '{split}'; it lists modules that begin layers; write it as ['{split}']")
    if split is None or isinstance(split, Mapping):
        rules = dict(split or {})
        names = rules.pop("layers", None)
        return None if names is None else list(names), split_of(rules)
    return list(split), {}


def _with_several_samples(arguments: Arguments, is_given: Sequence[bool], rules: Sequence[Rule]) -> Arguments:
    """A trace of one sample would hold on to its 1."""
    firsts = [each.shape[0] for each in arguments.tensors if each.dim()]
    if not firsts or any(size != 1 for size in firsts):
        return arguments
    tensors = []
    for tensor, given, rule in zip(arguments.tensors, is_given, rules):
        cut = rule if given else 0
        if isinstance(cut, int) and tensor.dim() > 0 and tensor.shape[cut] == 1:
            tensor = torch.cat([tensor, tensor], cut).detach().requires_grad_(tensor.requires_grad)
        tensors.append(tensor)
    return dataclasses.replace(arguments, tensors=tuple(tensors))


def _traced_layers(
    model: nn.Module,
    sample: Arguments,
    traced: Arguments,
    names: Optional[Sequence[str]],
    given: Mapping[str, Any],
    frees_all: bool,
) -> ModelLayers:
    known = [given.get(name) if isinstance(given.get(name), int) else None for name in traced.names]
    train = trace_of(model, traced, known, True, frees_all)
    evaluation, only_mode = None, ""
    later = later_calls(model, traced)
    reads = later.reads
    if reads is None:
        try:
            evaluation = trace_of(model, traced, known, False, frees_all)
            reads = evaluation.reads
        except Exception as error:
            only_mode = f"the model runs other operators in eval mode, which cannot be traced: {error}; use train()"
    batch, rules = _batch_of(train, traced, given)
    changing = {mode: set() if trace is None else changed_buffers(trace) for mode, trace in ((True, train), (False, evaluation))}
    analyses = {True: Analysis(train, changing[False])}
    outputs = {True: ModelOutput(train.output, tuple(_output_dimensions(analyses[True], batch)))}
    _refuse_mixed_samples(analyses[True], batch)
    if evaluation is not None:
        other_batch, other_rules = _batch_of(evaluation, traced, given)
        if other_rules != rules:
            only_mode = (
                "the model's inputs are cut otherwise in eval mode than in train mode; use train(), or say in split how they are"
            )
        else:
            analyses[False] = Analysis(evaluation, changing[True])
            outputs[False] = ModelOutput(evaluation.output, tuple(_output_dimensions(analyses[False], other_batch)))
            _refuse_mixed_samples(analyses[False], other_batch)
    dimensions = {mode: each.dimensions for mode, each in outputs.items()}
    layers, crossings, borders = layers_from(model, analyses, names, dimensions)
    inputs = [
        ModelInput(
            each.name, _named_shape(each.shape, batch), each.dtype, rule, each.requires_grad,
            {d: train.held.get((k, d)) or train.fixed.get(int(size), "") for d, size in enumerate(each.shape) if isinstance(_symbol(size), int)},
        )
        for k, (each, rule) in enumerate(zip(train.inputs, rules))
    ]
    guards = _guards_of(train, batch)
    if evaluation is not None and False in analyses:
        guards = {**_guards_of(evaluation, batch), **guards}
    found = ModelLayers(
        model, sample, layers, inputs, outputs, crossings, borders, guards, only_mode, _named_samples(analyses[True], batch, rules),
        why_whole(analyses) if len(layers) == 1 and names is None else "",
    )
    if not any(each.is_meta for each in sample.tensors):
        _compare_with_model(found, sample, _held_samples(train, found.inputs, given, traced))
        _compare_one_sample(found, sample)
    _warn_of_changed_attributes(train, later.counted, is_compared=not any(each.is_meta for each in sample.tensors))
    traces = {True: train} if evaluation is None else {True: train, False: evaluation}
    found.hold_autocast({mode: each.signature for mode, each in traces.items()}, known, frees_all)
    found.hold_state(train.reads.joined(reads) if train.reads is not None else None)
    return found


def _warn_of_changed_attributes(trace: Trace, counted: Optional[Collection[str]], is_compared: bool) -> None:
    """Warns of an attribute that the forward reads and changes. A flag or a text that its first call sets, and no later one, is none,
    as of hooks that are in place or the kind of a loss, if layers of that first call compute what the later ones do, and change no
    buffer.

    ``counted``: those of a later call, if known. ``is_compared``: whether the layers were compared with later calls.
    """
    reads = trace.reads
    ready: set[str] = set()
    if reads is not None and is_compared and counted is not None and not changed_buffers(trace):
        ready = reads.flags - set(counted)
    changed = [] if reads is None else [title for title in reads.counted if title not in ready]
    if changed:
        warnings.warn(
            f"the model's forward reads and changes {changed[0]}; the pipeline's layers keep the value of the trace, so "
            "build the pipeline again where it matters",
            stacklevel=2,
        )


def _symbol(size: Any) -> Any:
    """A number, or an expression of sympy."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else size
    return int(expression) if isinstance(expression, int) or expression.is_number else expression


_BATCH = sympy.Symbol("batch", integer=True, positive=True)


def _in_batch(expression: Any, batch: set[Any]) -> Any:
    """The expression with one name for the number of samples, which may have a symbol in each input. So what it cancels is gone."""
    return expression.subs({symbol: _BATCH for symbol in batch}) if hasattr(expression, "subs") else expression


def _has_samples(size: Any, batch: set[Any]) -> bool:
    """True for a size that depends on the number of samples."""
    expression = _symbol(size)
    found: set[Any] = getattr(expression, "free_symbols", set()) & batch
    return len(found) == 1 or len(found) > 1 and _BATCH in _in_batch(expression, batch).free_symbols


def _named_shape(shape: Sequence[Any], batch: set[Any]) -> tuple[Any, ...]:
    symbols = [_symbol(_in_batch(_symbol(size), batch)) for size in shape]
    return tuple(each if isinstance(each, int) else str(each) for each in symbols)


def _guards_of(trace: Trace, batch: set[Any]) -> dict[Any, str]:
    """What the trace relies on, as sympy's expressions of the sizes' names, and where."""
    found: dict[Any, str] = {}
    for guard, place in trace.guards.items():
        expression = _in_batch(guard, batch)
        if getattr(expression, "free_symbols", None):
            found[expression] = found.get(expression) or place
    return found


def _batch_of(trace: Trace, arguments: Arguments, given: Mapping[str, Any]) -> tuple[set[Any], list[Rule]]:
    """(the symbols that are the number of samples, how each input is cut)."""
    tensors, shapes = arguments.tensors, [[_symbol(size) for size in each.shape] for each in trace.inputs]
    said = [given.get(name, 0) for name in arguments.names]
    firsts = [  # (input, dimension, size)
        (k, rule % tensor.dim(), int(tensor.shape[rule]))
        for k, (tensor, rule) in enumerate(zip(tensors, said))
        if isinstance(rule, int) and tensor.dim() and -tensor.dim() <= rule < tensor.dim()
    ]
    open_ = [each for each in firsts if not isinstance(shapes[each[0]][each[1]], int)]
    if not open_:
        number, dimension, size = firsts[0] if firsts else (0, 0, 0)
        where = _at(trace.fixed.get(size, ""))
        name = arguments.names[number]
        other = (
            f"If dimension {dimension} is no samples, as in an RNN with the sequence first, say which one is, as by "
            f"split={{{name!r}: {1 - dimension}}}. " if tensors[number].dim() > 1 and dimension in (0, 1) and name not in given else ""
        ) if firsts else ""
        raise CannotCut(
            f"the model cannot be cut into micro-batches: its forward holds on to the sample's {size} samples of the input "
            f"{name}{where}. {other}A loss that compares samples with each other belongs outside the model, with the "
            "schedule gpipe; elsewhere take sizes from the input, as by x.shape[0] in a view, and not as a number of Python, as by "
            "int(x.shape[0])"
        )
    counted = [size for _, _, size in open_]
    samples = max(counted, key=lambda size: (counted.count(size), -counted.index(size)))
    number, dimension, _ = next(each for each in open_ if each[2] == samples)
    elsewhere = {
        symbol for k, shape in enumerate(shapes) for d, symbol in enumerate(shape)
        if d != (said[k] if isinstance(said[k], int) else 0) and not isinstance(symbol, int)
    }
    batch = {shapes[number][dimension]}
    batch |= {shapes[k][d] for k, d, size in open_ if size == samples and shapes[k][d] not in elsewhere}
    rules: list[Rule] = []
    for name, shape, tensor in zip(arguments.names, shapes, tensors):
        if name in given:
            rules.append(given[name])
            continue
        places = [d for d, symbol in enumerate(shape) if symbol in batch]
        multiples = [d for d, symbol in enumerate(shape) if d not in places and _has_samples(symbol, batch)]
        if multiples and not places:
            raise CannotCut(
                f"dimension {multiples[0]} of the input {name} is {shape[multiples[0]]}, which is not the number of samples; say "
                f"how it is cut, as by split={{{name!r}: function}}"
            )
        rules.append(places[0] if places else None)
    return batch, rules


def _output_dimensions(analysis: Analysis, batch: set[Any]) -> list[Optional[int]]:
    """Where the samples of each output are. None: it has none, as a loss."""
    dimensions: list[Optional[int]] = []
    for node in analysis.trace.output_nodes:
        shape = node.meta["val"].shape if isinstance(node, torch.fx.Node) else []
        places = [d for d, size in enumerate(shape) if _has_samples(size, batch)]
        dimensions.append(places[0] if places else None)
    return dimensions


def _refuse_mixed_samples(analysis: Analysis, batch: set[Any]) -> None:
    for node in analysis.nodes:
        for value in tensors_in(node.meta.get("val")):
            places = [size for size in value.shape if _has_samples(size, batch)]
            if len(places) > 1:
                raise CannotCut(
                    f"the model compares samples with each other, at {place_of(node)}, which makes values of the shape "
                    f"{_shape_text(_named_shape(value.shape, batch))}, so it cannot be cut into micro-batches. If the samples are in "
                    "another dimension, say so, as by split={'x': 1}; a loss that mixes samples belongs outside the model, with the "
                    "schedule gpipe"
                )


_TAKES_BY_NUMBER = {  # operators that choose along a dimension by numbers: positions of the values, dimension, numbers
    "aten.index_select": (0, 1, 2), "aten.gather": (0, 1, 2), "aten.scatter": (0, 1, 2), "aten.scatter_": (0, 1, 2),
    "aten.scatter_add": (0, 1, 2), "aten.scatter_add_": (0, 1, 2), "aten.scatter_reduce": (0, 1, 2), "aten.index_add": (0, 1, 2),
    "aten.scatter_reduce_": (0, 1, 2), "aten.index_add_": (0, 1, 2), "aten.index_copy": (0, 1, 2), "aten.index_copy_": (0, 1, 2),
}


def _named_samples(analysis: Analysis, batch: set[Any], rules: Sequence[Rule]) -> str:
    """What to say of an input whose values are numbers of samples or of other inputs' rows, as edges and offsets are; or nothing."""
    nodes = analysis.trace.input_nodes
    sources = {
        node: each.name for node, each, rule in zip(nodes, analysis.trace.inputs, rules)
        if not each.dtype.is_floating_point and each.dtype != torch.bool and not callable(rule)
    }

    def is_along_samples(value: Any, dimension: int) -> bool:
        size = value.meta["val"].shape[dimension] if isinstance(value, torch.fx.Node) and value.meta["val"].dim() else 0
        return _has_samples(size, batch)

    for node in analysis.nodes:
        name = op_name(node)
        numbers: list[Any] = []
        if name == "aten.embedding_bag" and isinstance(node.args[2], torch.fx.Node):
            if node.args[2] in sources:
                return (
                    f"the input {sources[node.args[2]]} says where each sample begins in {sources.get(node.args[1], 'another input')}, at "
                    f"{place_of(node)}, so samples have different numbers of rows and cannot be cut: give each sample as many rows, "
                    "with a weight of 0 for those that are missing, or say how both inputs are cut, as by split={'offsets': function}"
                )
        elif name in _TAKES_BY_NUMBER and is_along_samples(node.args[0], node.args[1]):
            numbers = [node.args[2]]
        elif name in ("aten.index", "aten.index_put", "aten.index_put_"):
            numbers = [each for k, each in enumerate(node.args[1]) if is_along_samples(node.args[0], k)]
        if found := next((sources[each] for each in numbers if each in sources), ""):
            return (
                f"the input {found} names samples by their numbers in the mini-batch, at {place_of(node)}, as the edges of a graph "
                f"do, so samples depend on each other and cannot be cut into micro-batches; say how it is cut if they do not, as "
                f"by split={{{found!r}: function}}"
            )
        value = node.meta.get("val")
        if isinstance(value, Tensor) and not value.is_floating_point() and not value.is_complex():
            if origin := next((sources[each] for each in node.all_input_nodes if each in sources), ""):
                sources.setdefault(node, origin)
    return ""


# ---- Checks by values ----


def _held_samples(trace: Trace, inputs: Sequence[ModelInput], given: Mapping[str, Any], arguments: Arguments) -> str:
    """What to say of an input that is whole since the model holds on to its size, which is the number of samples; or nothing."""
    samples = {int(tensor.shape[each.rule]) for tensor, each in zip(arguments.tensors, inputs) if isinstance(each.rule, int)}
    for each in inputs:
        size = each.shape[0] if each.shape else 0
        if each.rule is None and each.name not in given and size in samples:
            where = _at(trace.fixed.get(size, ""))
            return (
                f"the model cannot be cut into micro-batches: its forward holds on to the sample's {size} samples of the input "
                f"{each.name}{where}, as a loop over samples or a number of Python such as int(x.shape[0]) does. If every sample needs all "
                f"of {each.name}, say so, as by "
                f"split={{{each.name!r}: None}}"
            )
    return ""


def _compare_with_model(layers: ModelLayers, sample: Arguments, held_samples: str) -> None:
    """Refuses layers that compute something else than the model, in either mode, and warns if samples depend on each other."""
    model = layers.model
    put_back = put_back_of(model)

    def value_of(run: Callable[[], list[Tensor]]) -> tuple[list[Tensor], bool]:
        """(what it returns, whether it draws random numbers), of the same numbers each time."""
        put_back(with_modes=False)
        torch.manual_seed(0)
        before = torch.get_rng_state()
        values = run()
        return values, not torch.equal(before, torch.get_rng_state())

    try:
        with torch.no_grad(), torch.random.fork_rng(), _as_with_gradients():
            for training in (True, False):
                model.train(training)
                if layers._only_mode and not training:
                    continue
                try:
                    expected, is_random = value_of(
                        lambda: Output(sample.call(model, [each.clone() for each in sample.tensors])).tensors
                    )
                except Exception:
                    if training:  # as a batch norm of one value in train mode
                        continue
                    raise
                found, _ = value_of(lambda: _run(layers, sample.tensors))
                for name, one, other in zip(layers.output().made.names, found, expected):
                    if not error_of([one], [other]) <= 0.01:
                        with torch.enable_grad():
                            again, _ = value_of(lambda: [each.detach() for each in Output(
                                sample.call(model, [each.clone() for each in sample.tensors])).tensors])
                        if error_of(found, again) <= 0.01:
                            raise CannotCut(
                                "the model computes something else without gradients than with them, as by a branch on "
                                "torch.is_grad_enabled(), and its layers hold one branch; branch on self.training instead"
                            )
                        raise CannotCut(
                            f"the traced layers compute another output {name or 'value'} than the model on its sample in "
                            f"{'train' if training else 'eval'} mode; the model depends on something that a trace does not hold, "
                            "such as values of its inputs in Python; use operators of torch there, such as torch.where()"
                        )
                if not training and not is_random:
                    put_back(with_modes=False)
                    _compare_parts(layers, sample, expected, held_samples)
    finally:
        put_back()


@contextlib.contextmanager
def _as_with_gradients() -> Iterator[None]:
    """Without the fast paths of torch's transformers for calls that need no gradients, which set padding to 0."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _compare_parts(layers: ModelLayers, sample: Arguments, expected: Sequence[Tensor], held_samples: str) -> None:
    count = next((int(t.shape[i.rule]) for i, t in zip(layers.inputs, sample.tensors) if isinstance(i.rule, int)), 0)
    if count < 2:
        return
    parts = []
    for first, end in ((1, count), (0, 1)):
        try:
            parts.append(_run(layers, [part_of(each, i.rule, first, end) for i, each in zip(layers.inputs, sample.tensors)]))
        except UsageError as error:  # a branch or a size that depends on values
            if end - first == 1:
                return
            if held_samples:
                raise CannotCut(held_samples) from error
            raise
        except Exception as error:
            if count > 2 and end - first == 1:
                layers.least_samples = 2
                return
            place = next((each.removeprefix("raised by ") for each in getattr(error, "__notes__", ()) if each.startswith("raised by ")), "")
            why = held_samples or layers.named_samples or (
                f"it takes some numbers of samples only{_at(place)}, or an input counts or names other samples, as offsets and edges do: take "
                "sizes from the input there, or say how that input is cut, as by split={'offsets': function}, or give it whole with None"
            )
            raise CannotCut(f"the model fails on the samples {first} to {end - 1} alone: {why}. It says: {_said_by(error)}") from error
    if held_samples and all(error_of(part, expected) <= 0.001 for part in parts):  # nothing depends on the samples that are cut
        raise CannotCut(held_samples)
    for k, dimension in enumerate(layers.output().dimensions):
        if dimension is None:
            continue
        joined = torch.cat([part[k] for part in reversed(parts)], dimension)
        if not error_of([joined], [expected[k]]) <= 0.02:
            if held_samples or layers.named_samples:
                raise CannotCut(held_samples or layers.named_samples)
            name = layers.output().made.names[k]
            warnings.warn(
                f"a sample's output{' ' + name if name else ''} depends on the other samples of its mini-batch; a pipeline cuts "
                "mini-batches, so it computes something else than the whole model. If an input is cut that all samples need, or "
                "along a dimension that is not its samples', say so in split, as by split={'mask': None, 'x': 1}",
                stacklevel=2,
            )
            return


def _compare_one_sample(layers: ModelLayers, sample: Arguments) -> None:
    """Finds in which modes the layers compute what the model does with one sample, also its gradients if guards say otherwise.

    An export takes all sizes that may differ for larger than 1. Mostly it only describes memory so, and its graph is right for 1,
    too. But a branch of the model on that number is lost, with a guard or without one.
    """
    breaks_guards = layers.one_breaks_guards(sample.tensors)
    tensors = [part_of(each, i.rule, 0, 1) for i, each in zip(layers.inputs, sample.tensors)]
    model = layers.model
    put_back = put_back_of(model)
    names = [name for name, each in model.named_parameters() if each.requires_grad]

    def whole(values: Sequence[Tensor]) -> tuple[list[Tensor], list[list[Any]]]:
        return Output(sample.call(model, values)).tensors, [[_tensor_of(model, name)] for name in names]

    def layered(values: Sequence[Tensor]) -> tuple[list[Tensor], list[list[Any]]]:
        held = [dict(layer.named_parameters(recurse=False)) for layer in layers.values()]
        return _run(layers, values), [[each[name] for each in held if name in each] for name in names]

    def found(run: Callable[[Sequence[Tensor]], tuple[list[Tensor], list[list[Any]]]]) -> tuple[list[Tensor], list[Tensor]]:
        """(outputs, gradients of weighted outputs) of the same random numbers each time."""
        put_back(with_modes=False)
        torch.manual_seed(0)
        outputs, parameters = run([each.detach().clone() for each in tensors])
        roots = [each for each in outputs if each.requires_grad]
        weights = [torch.linspace(1, 2, each.numel(), dtype=each.dtype, device=each.device).reshape(each.shape) for each in roots]
        flat = [each for uses in parameters for each in uses]
        if not roots or not flat:
            return [each.detach() for each in outputs], []
        gradients = iter(torch.autograd.grad(roots, flat, weights, allow_unused=True))
        sums = []
        for uses in parameters:
            own = [each.to_dense() for each in (next(gradients) for _ in uses) if each is not None]
            sums.append(torch.stack(own).sum(0) if own else torch.zeros(()))
        return [each.detach() for each in outputs], sums

    try:
        with torch.set_grad_enabled(breaks_guards), torch.random.fork_rng(), _as_with_gradients():
            for training in (True, False):
                model.train(training)
                if layers._only_mode and not training:
                    continue
                try:
                    expected = found(whole)
                except Exception as error:  # as a batch norm in train mode
                    layers.hold_one(training, f": {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
                    continue
                try:
                    is_right = all(error_of(mine, its) <= 0.001 for mine, its in zip(found(layered), expected))
                except UsageError:  # a branch or a size that depends on values
                    continue
                except Exception:
                    is_right = False
                layers.hold_one(training, "" if is_right else ", which its trace does not hold")
    finally:
        put_back()


def _run(layers: ModelLayers, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The outputs as the model has them."""
    value: Any = tuple(each.clone() for each in tensors)
    with skips_on({}):
        for layer in layers.values():
            value = layer(value)
    value = [value] if isinstance(value, Tensor) else list(value)
    return [each if dimension is not None else each[0] for each, dimension in zip(value, layers.output().dimensions)]


# ---- The module tree ----


def _tree_layers(model: nn.Module, arguments: Arguments) -> Optional[ModelLayers]:
    """The children in order, if they compute what the model does in both modes."""
    if len(arguments.tensors) != 1 or any(each.is_meta for each in arguments.tensors):
        return None
    layers = OrderedDict(_leaves_in_order(model, ""))
    held = {id(each) for layer in layers.values() for each in (*layer.parameters(), *layer.buffers())}
    own = [*model.parameters(), *model.buffers()]
    if not layers or any(id(each) not in held for each in own) or len({*map(id, layers.values())}) < len(layers):
        return None
    put_back = put_back_of(model)
    try:
        for mode in (True, False):
            model.train(mode)
            if not _is_chain(model, list(layers.values()), arguments):
                return None
    except Exception:  # they are no chain
        return None
    finally:
        put_back()
    tensor = arguments.tensors[0]
    inputs = [ModelInput(arguments.names[0], ("batch", *[f"s{k}" for k in range(1, tensor.dim())]), tensor.dtype, 0)]
    borders = [0] * (len(layers) - 1)
    return ModelLayers(model, arguments, layers, inputs, {}, [], borders, {}, "")


def _is_chain(model: nn.Module, layers: Sequence[nn.Module], arguments: Arguments) -> bool:
    def chain(value: Any) -> Any:
        for layer in layers:
            value = layer(value)
        return value

    def whole(value: Any) -> Any:
        return arguments.call(model, [value])

    one, other = (_value_and_gradients(run, layers, arguments.tensors[0]) for run in (whole, chain))
    return one[0] is other[0] and len(one[1]) == len(other[1]) and all(
        (mine is None) == (its is None) and (mine is None or mine.shape == its.shape and error_of([mine], [its]) < 1e-5)
        for mine, its in zip(one[1], other[1])
    )


def _value_and_gradients(run: Any, layers: Sequence[nn.Module], tensor: Tensor) -> tuple[type, list[Any]]:
    """(type of the output, its tensors and the gradients): a function between the children may change gradients only."""
    given = tensor.detach().clone().requires_grad_(tensor.is_floating_point() or tensor.is_complex())
    of = [each for layer in layers for each in layer.parameters() if each.requires_grad] + [given] * given.requires_grad
    with torch.enable_grad(), torch.random.fork_rng():
        torch.manual_seed(0)  # both draw the same dropout
        value = run(given.clone())
        outputs = tensors_in(value)
        roots = [each for each in outputs if each.requires_grad]
        weights = [torch.linspace(1, 2, each.numel(), dtype=each.dtype, device=each.device).reshape(each.shape) for each in roots]
        gradients = list(torch.autograd.grad(roots, of, weights, allow_unused=True)) if roots and of else []
    return type(value), [*(each.detach() for each in outputs), *gradients]


def _leaves_in_order(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        if isinstance(child, (nn.Sequential, nn.ModuleList)):
            yield from _leaves_in_order(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child
