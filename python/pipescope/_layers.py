"""Layers that run one after the other: what the pipeline and the profiler take, and how the engine knows them."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import operator
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn

from pipescope._samples import sample_of, warn_of_mixed_samples
from pipescope._structure import tensors_in
from pipescope.errors import UsageError
from pipescope.skip import skippable_in, verify_skippables

Tensors = Union[Tensor, tuple[Tensor, ...], list[Tensor]]
Device = Union[torch.device, int, str]


class Layered(nn.Module):
    """A module whose children are layers that run one after the other."""

    def _add_layers(self, layers: Mapping[str, nn.Module]) -> None:
        # Not add_module(): a layer may be called as one of our own attributes, or have a dot in its name.
        self._modules.update(layers)

    @property
    def _layers(self) -> dict[str, nn.Module]:
        return self._modules  # type: ignore[return-value]

    def _engine_layers(self) -> list[tuple[nn.Module, str, list[Any], list[Any]]]:
        return described_layers(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> nn.Module:
        return list(self._layers.values())[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self._layers.values())


def cut(model: nn.Module, *names: str, sample: Any = None) -> "OrderedDict[str, nn.Module]":
    """Cuts a model into layers by its submodules' names, for GPipe.

    ``cut(model, "embed", "blocks.*", "head")`` is the submodule ``embed``, then the children of ``blocks`` in order, then
    ``head``. Running them one after the other must be what the model does; its own ``forward`` is not used. With a
    ``sample`` that is checked: both are run in eval mode without gradients, and their outputs must be equal. The model
    takes a sample that is a dict as keyword arguments, and a tuple as positional ones if it has several. The first layer
    takes the sample as it is; a dict as keyword arguments, if its forward has them, or else only the dict's one tensor, if
    it takes no dict. Of a model that returns an object or a dict, as those of Hugging Face do, the layers may
    return some of the tensors, in order. Warns if a sample's output depends on the other samples, as where the first
    dimension is the sequence.

    The layers keep the model's names, so the pipeline's state_dict has the model's keys.

    Raises UsageError for a name that is not there, for parameters or buffers that no layer holds, and for a sample whose
    outputs differ, or that a layer cannot take.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name in names:
        try:
            found = model.get_submodule(name[:-2] if name.endswith(".*") else name)
        except AttributeError:
            raise UsageError(f"the model has no submodule '{name}'; name some of named_modules()") from None
        if name.endswith(".*"):
            layers.update((f"{name[:-1]}{child}", module) for child, module in found.named_children())
        else:
            layers[name] = found
    held = {id(each) for layer in layers.values() for each in (*layer.parameters(), *layer.buffers())}
    left = [n for n, each in (*model.named_parameters(), *model.named_buffers()) if id(each) not in held]
    if left:
        raise UsageError(
            f"no layer holds {left[0]}; the layers together must hold the whole model; name its submodule too, or, if that "
            "does not run in turn with the others, write a module for it and what uses it, and give GPipe a list"
        )
    if sample is not None:
        first = _check_chain(model, layers, sample)
        warn_of_mixed_samples([first, *list(layers.values())[1:]], sample_of(sample, {}, {}))
    return layers


_CHAIN_DIFFERS = (
    "the named submodules, one after the other, do not compute what the model computes; put what its forward does between "
    "them into modules of their own"
)


class _First(nn.Module):
    """A first layer that takes a dict otherwise than as it is."""

    def __init__(self, layer: nn.Module, call: Callable[[nn.Module, Any], Any]) -> None:
        super().__init__()
        self.layer, self._call = layer, call

    def forward(self, sample: Any) -> Any:
        return self._call(self.layer, sample)


def _first_layers(layer: nn.Module, sample: Any) -> list[nn.Module]:
    """The ways in which a first layer may take the sample."""
    if not isinstance(sample, Mapping):
        return [layer]
    try:
        inspect.signature(layer.forward).bind(**sample)
    except (TypeError, ValueError):
        is_one = len(tensors_in(dict(sample))) == 1
        return [layer, *([_First(layer, lambda of, value: of(tensors_in(dict(value))[0]))] if is_one else [])]
    return [_First(layer, lambda of, value: of(**value))]


def _output_of_first(layers: Sequence[nn.Module], sample: Any) -> tuple[nn.Module, Any]:
    """(which of them takes the sample, its output). Raises what the first one raises if none does."""
    try:
        return layers[0], layers[0](sample)
    except _WRONG_INPUT:
        for layer in layers[1:]:
            with contextlib.suppress(*_WRONG_INPUT):
                return layer, layer(sample)
        raise


_WRONG_INPUT = (TypeError, AttributeError, IndexError, RuntimeError)


def _check_chain(model: nn.Module, layers: Mapping[str, nn.Module], sample: Any) -> nn.Module:
    """Returns the first layer as it takes the sample."""
    modes = [(each, each.training) for each in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            expected = _called(model, sample)
            value: Any = sample
            first: Optional[nn.Module] = None
            for name, layer in layers.items():
                before = type(value).__name__
                try:
                    if first is None:
                        first, value = _output_of_first(_first_layers(layer, sample), sample)
                    else:
                        value = layer(value)
                except _WRONG_INPUT as error:
                    raise UsageError(
                        f"{_CHAIN_DIFFERS}\nlayer {name} ({type(layer).__name__}) was given a {before}: {error}"
                    ) from error
    finally:
        for each, mode in modes:
            each.training = mode
    _compare(value, expected)
    return next(iter(layers.values())) if first is None else first


def _called(model: nn.Module, sample: Any) -> Any:
    if isinstance(sample, Mapping):
        return model(**sample)
    if isinstance(sample, (tuple, list)):
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        parameters = inspect.signature(model.forward).parameters.values()
        if sum(each.kind in kinds for each in parameters) > 1:
            return model(*sample)
    return model(sample)


def _compare(value: Any, expected: Any) -> None:
    """Raises UsageError if the layers' output is not the model's."""
    found, wanted = tensors_in(value), _tensors_of_output(expected)
    if isinstance(expected, (Tensor, tuple, list)):
        if type(value) is not type(expected) and not (isinstance(value, Tensor) and isinstance(expected, Tensor)):
            raise UsageError(f"{_CHAIN_DIFFERS}\nthey return a {type(value).__name__}, and it a {type(expected).__name__}")
        if len(found) != len(wanted):
            raise UsageError(f"{_CHAIN_DIFFERS}\nthey return {len(found)} tensors, and it {len(wanted)}")
    fault = f"they return no tensor, but a {type(value).__name__}" if not found else ""
    rest = iter(wanted)
    for tensor in found:
        fault = f"its {type(expected).__name__} has no tensor like the one of shape {tuple(tensor.shape)} that they return"
        for other in rest:
            try:
                torch.testing.assert_close(tensor, other)
            except AssertionError as error:
                if tensor.shape == other.shape:
                    fault = str(error)
                continue
            fault = ""
            break
        if fault:
            break
    if fault:
        raise UsageError(f"{_CHAIN_DIFFERS}\n{fault}")


def _tensors_of_output(output: Any) -> list[Tensor]:
    """Those of a model's own object too."""
    if dataclasses.is_dataclass(output) and not isinstance(output, Mapping):
        return [each for field in dataclasses.fields(output) for each in _tensors_of_output(getattr(output, field.name))]
    if isinstance(output, Mapping):
        return [each for value in output.values() for each in _tensors_of_output(value)]
    return tensors_in(output)


def _refuse_more_than_layers(module: nn.Sequential) -> None:
    """The pipeline calls the layers and not the Sequential, so what that does besides calling them would be lost."""
    if type(module).forward is not nn.Sequential.forward or "forward" in vars(module):
        raise UsageError(
            f"module is a {type(module).__name__}, an nn.Sequential with a forward of its own, which a pipeline does not "
            "call; make it one of the layers, or give list(module) if they run one after the other"
        )
    for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
        if getattr(module, hooks):
            raise UsageError(
                "the nn.Sequential has hooks of its own, which a pipeline does not run; put them on its layers, or on the "
                "GPipe"
            )


def named_layers(module: Any) -> "OrderedDict[str, nn.Module]":
    if isinstance(module, Layered):
        return OrderedDict(module._layers)
    if isinstance(module, nn.Sequential):
        _refuse_more_than_layers(module)
        layers = OrderedDict(module._modules.items())
    elif isinstance(module, Mapping):
        layers = OrderedDict(module)
    elif isinstance(module, (list, tuple, nn.ModuleList)):
        layers = OrderedDict((str(k), layer) for k, layer in enumerate(module))
    else:
        raise UsageError(
            f"module is a {type(module).__name__}; a pipeline needs layers that run one after the other; give an "
            "nn.Sequential or a list of modules, or name the submodules with pipescope.cut(), or give GPipe a sample of what the "
            "model is called with"
        )
    first: dict[int, str] = {}
    for name, layer in layers.items():
        if not isinstance(layer, nn.Module):
            raise UsageError(f"layer {name} is a {type(layer).__name__}; layers are modules; wrap it in an nn.Module")
        if id(layer) in first:
            raise UsageError(
                f"layer {name} is the same module as layer {first[id(layer)]}; each layer stands once; copy the module"
            )
        first[id(layer)] = name
    return layers


def described_layers(layers: Mapping[str, nn.Module]) -> list[tuple[nn.Module, str, list[Any], list[Any]]]:
    """(module, name for messages, stashed skips, popped skips) of each layer, as the engine takes them."""
    verify_skippables(layers)
    described = []
    for name, layer in layers.items():
        own = skippable_in(layer)
        stashed, popped = own.declare_skips() if own is not None else ([], [])
        described.append((layer, type(layer).__name__ if name.isdigit() else name, stashed, popped))
    return described


def device_name(device: Device) -> str:
    """As torch names it, if there is such a device here."""
    try:
        named = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    except (RuntimeError, TypeError):
        raise UsageError(f"device is {device!r}, which torch does not know; use 'cpu', or 'cuda:0' and the like") from None
    if named.type == "cuda" and not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        raise UsageError(
            f"device '{named}' is given, and torch {torch.__version__}, {built}, finds no GPU here (torch.cuda.is_available() "
            "is False); use 'cpu', or a machine and a torch with CUDA"
        )
    return str(named)


def device_names(devices: Iterable[Device]) -> list[str]:
    if isinstance(devices, (str, int, torch.device)):
        raise UsageError(f"devices is {devices!r}; each lane has one; write it as a list, such as [{devices!r}] * 2")
    return [device_name(each) for each in listed(devices, "devices", "['cpu', 'cpu']")]


def check_loss(loss: Any) -> None:
    if isinstance(loss, type) and issubclass(loss, nn.Module):
        raise TypeError(f"the loss is the class {loss.__name__}; it is called as loss(output, target); give {loss.__name__}()")
    if not callable(loss):
        raise TypeError(f"the loss function is a {type(loss).__name__}; it is called as loss(output, target); give a function")
    if isinstance(loss, types.FunctionType):
        signature = inspect.signature(loss)
        try:
            signature.bind(None, None)
        except TypeError:
            raise TypeError(
                f"the loss function takes {signature}; it is called as loss(output, target); give a function of both, such as "
                "lambda output, target: output.mean()"
            ) from None


def whole(value: Any, name: str, least: int = -(2**31), most: int = 2**31 - 1) -> int:
    """The whole number that an option is. The engine refuses what is too small or too large for its purpose."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it is a whole number; write it as 4") from None
    if not least <= number <= most:
        raise UsageError(f"{name} is {number}; the engine counts from {least} to {most}; use a number between them")
    return number


def real(value: Any, name: str) -> float:
    """The number that an option is."""
    if isinstance(value, str) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; it is a number; write it as 0.5")
    return float(value)


def listed(value: Any, name: str, example: str) -> list[Any]:
    """The list that an option is."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {value!r}; it is a list; write it as {example}")
    return list(value)
