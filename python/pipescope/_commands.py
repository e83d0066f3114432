"""The commands ``models``, ``profile`` and ``run`` for a model that is a function in Python: ``pipescope run model.py:make``.

``pipescope-torch`` parses the words. If their MODEL is in Python, it becomes this process, in which the engine runs the same
commands, with the models that are made here. So options, figures and files are those of any other model.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import os
import pathlib
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn, Optional

import torch
from torch import Tensor, nn

from pipescope import _fx_tracing, _saved_tensor_hooks
from pipescope._any_model import ModelLayers, call_of, is_any_model, layers_of
from pipescope._layers import described_layers, named_layers
from pipescope._mini_batch import Rule, Split, flatten_target, inputs_of, part_of, samples_of
from pipescope._parametrize_cache import keep_apart
from pipescope._profiler import _mean_of_squares, _on_meta, _refuse_what_cannot_be_measured, _same_random_numbers
from pipescope._samples import Sample, SizesChecked, copy_of
from pipescope._structure import tensors_in
from pipescope._torch import engine
from pipescope.errors import Error, UsageError

_MOST_FRAMES = 8  # of a traceback
# Of the batch that a model is traced with. Where the layers begin depends on it, so it is the same in all commands. Fewer would
# not show whether one sample alone is something else.
_TRACED_SAMPLES = 4
_FORM = "a model in Python is FILE.py:function or package.module:function"


def main() -> NoReturn:
    """Runs the command that the process was started with, and ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the commands have their own ways with signals
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout = sys.stderr  # what the user's code prints is no part of the answer, which may be JSON
    if os.environ.get("NVTX_INJECTION64_PATH") == "":  # of pipescope-torch, which was this process: it means the program itself
        del os.environ["NVTX_INJECTION64_PATH"]
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Returns the command's exit code. Redirects torch's memory for the rest of the process, as profile() does."""
    return int(engine.run_commands(["pipescope", *map(os.fsencode, words)], _Models().make, explained))


# ---- What the user's functions raise ----


class _Raised(Exception):
    """A function of the user raised its cause; it says which."""


def _called(what: str, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        raise _Raised(what) from error


def explained(error: BaseException) -> tuple[bool, str]:
    """(whether the request was wrong, a message), after a traceback of what is not our own error is printed."""
    if isinstance(error, Error):
        return isinstance(error, UsageError), str(error)
    what, cause = (str(error), error.__cause__ or error) if isinstance(error, _Raised) else ("the model or its loss", error)
    _print_traceback(cause)
    return False, " ".join([f"{what} raised {type(cause).__name__}: {cause}", *getattr(cause, "__notes__", [])])


def _print_traceback(error: BaseException) -> None:
    """Without our own frames and those of the import system."""
    own = str(pathlib.Path(__file__).parent)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith((own, "<frozen"))]
    left_out = f"  .. {len(frames) - _MOST_FRAMES} calls more ..\n" if len(frames) > _MOST_FRAMES else ""
    lines = traceback.format_list(frames[-_MOST_FRAMES:]) + traceback.format_exception_only(type(error), error)
    sys.stderr.write("".join(["Traceback (most recent call last):\n", left_out, *lines]))
    sys.stderr.flush()


# ---- Files and functions ----


class _Source:
    """A file or a module, and one of its functions."""

    def __init__(self, where: str, name: str) -> None:
        self.where = where
        self.module = _module(where)
        self.name = name
        function = getattr(self.module, name, None)
        if not callable(function):
            own = [
                each for each, value in vars(self.module).items()
                if inspect.isfunction(value) and value.__module__ == self.module.__name__ and not each.startswith("_")
            ]
            has = f"its functions are {', '.join(own)}" if own else "it has none"
            raise UsageError(f"{where} has no function '{name}'; {has}; write {where}:{own[0] if own else name}, or add it")
        self.function: Callable[..., Any] = function

    def __str__(self) -> str:
        return f"{self.name}() of {self.where}"

    def call(self, *args: Any) -> Any:
        return _called(str(self), self.function, *args)

    def other(self, name: str) -> Optional[_Source]:
        """Another function of the same module; None if it has no such one."""
        return _Source(self.where, name) if callable(getattr(self.module, name, None)) else None


def _source(text: str, default: str) -> _Source:
    where, colon, name = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
    return _Source(where, name if colon else default)


_loaded: dict[str, ModuleType] = {}


def _module(where: str) -> ModuleType:
    if where not in _loaded:
        _loaded[where] = _of_file(where) if where.endswith(".py") else _of_package(where)
    return _loaded[where]


def _of_file(where: str) -> ModuleType:
    path = pathlib.Path(where)
    if not path.is_file():
        raise UsageError(f"there is no file {where}; {_FORM}; check its name and folder")
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_of_pipescope"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.absolute()))  # it may import files beside it
    _called(where, spec.loader.exec_module, module)
    return module


def _of_package(where: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
            raise UsageError(f"there is no module {where} ({error}); {_FORM}; start where it can be imported") from None
        raise _Raised(where) from error
    except Exception as error:
        raise _Raised(where) from error


# ---- The model ----


class _Models:
    """Makes each model once, although a command may ask for the layers that train and for copies."""

    def __init__(self) -> None:
        self._made: dict[Any, _Model] = {}

    def make(self, model: bytes, use: Mapping[str, Any]) -> _Uses:
        source = _source(os.fsdecode(model), "make")
        batches = os.fsdecode(use["batch_from"])
        key = (os.fsdecode(model), batches, use["on_meta"], use["dtype"])
        if key not in self._made:
            make_batch = _source(batches, "make_batch") if batches else source.other("make_batch")
            self._made[key] = _Model(source, make_batch, use)
        return _Trained(self._made[key], use) if use["trains"] else _Copied(self._made[key], use)


class _Model:
    """The model of a file as layers, with the functions that the file has for it."""

    def __init__(self, source: _Source, make_batch: Optional[_Source], use: Mapping[str, Any]) -> None:
        self.source, self._make_batch = source, make_batch
        self._loss, self.weight, self.optimizer = (source.other(name) for name in ("loss", "weight", "optimizer"))
        self._dtype = getattr(torch, {"tf32": "float32"}.get(use["dtype"], use["dtype"])) if use["dtype"] else None
        made, self._sample = self._made(use)
        self.found = made if isinstance(made, ModelLayers) else None
        self.model: nn.Module = made.model if isinstance(made, ModelLayers) else made
        self._takes = _keywords_of(self.model)
        self._rules: Any = None  # of the batch as the loss gets it, once they are known
        batch = self._whole_batch(_TRACED_SAMPLES, use["seed"])
        if self.found is None and is_any_model(self.model):
            self.found = layers_of(self.model, self._call(batch))
        self.layers = self.found if self.found is not None else named_layers(self.model)
        self.model.train()
        for layer in self.layers.values():
            layer.training = True
        self._rules = self._target_rules(batch)
        self.base = self._batch_of(batch)
        if not use["on_meta"] and any(each.is_meta for each in self.model.parameters()):
            raise UsageError(f"{source} returns a model on the meta device, which has no values; use profile with --device meta")
        modules = list(self.layers.values())
        keep_apart(modules)
        _fx_tracing.ask_own_thread()

    def _made(self, use: Mapping[str, Any]) -> tuple[Any, Any]:
        """(the model, or its layers, a sample or None) as the user's function returns them."""
        _seed(use["seed"])
        made = self._made_on_meta() if use["on_meta"] else None
        if made is None:
            made = self.source.call()
        pair = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if not isinstance(pair[0], (nn.Module, ModelLayers)):
            raise UsageError(
                f"{self.source} returns a {type(pair[0]).__name__}; it returns a torch.nn.Module, a pair of one and a sample of "
                "what it is called with, or what layers_of() returns"
            )
        if self._dtype is not None:
            if isinstance(pair[0], ModelLayers):
                raise UsageError(f"--dtype is {use['dtype']}, and {self.source} has traced its model already; cast it there")
            return pair[0].to(self._dtype), pair[1]
        return pair

    def _made_on_meta(self) -> Any:
        """In little memory; None if the function needs values."""
        try:
            with torch.device("meta"):
                return self.source.function()
        except Exception as error:
            print(f"pipescope: {self.source} needs values, so the model is made in memory ({error})", file=sys.stderr)
            return None

    # ---- Batches ----

    def _whole_batch(self, samples: int, seed: int) -> Any:
        """As the user's function returns it; else the sample, again from its start if it has too few."""
        if self._make_batch is not None:
            with _same_random_numbers():
                _seed(seed)
                batch = self._make_batch.call(samples)
        elif self._sample is not None:
            batch = self._sample if self._rules is None else Sample(*flatten_target(self._sample, self._rules, True)).part(samples)
        else:
            raise UsageError(
                f"{self.source.where} has no make_batch(samples), and {self.source} returns no sample; write the function, which "
                "returns what the model is called with, return (model, sample), or name one with --batch-from"
            )
        if not tensors_in(dict(batch) if isinstance(batch, Mapping) else batch):
            raise UsageError(
                f"{self._make_batch or self.source} returns a {type(batch).__name__} without a tensor as the batch; it returns what "
                "the model is called with: a tensor, a tuple or a dict of keywords"
            )
        return batch if self._dtype is None else _cast(batch, self._dtype)

    def _call(self, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) of the model. What it does not take of a dict is the loss's alone."""
        args, kwargs = call_of(batch)
        if self._takes is not None and isinstance(batch, Mapping):
            kwargs = {name: value for name, value in kwargs.items() if name in self._takes}
        if is_any_model(self.model):
            try:
                inspect.signature(self.model.forward).bind(*args, **kwargs)
            except TypeError as error:
                raise UsageError(
                    f"{self._make_batch or self.source} returns a batch that the model does not take ({error}); it returns what the "
                    "model is called with: a tensor, a tuple of arguments, or a dict of keywords"
                ) from None
        return args, kwargs

    def _target_rules(self, batch: Any) -> Any:
        """How the batch is cut for the loss: as it is for the model."""
        rules = {} if self.found is None else {each.name: each.rule for each in self.found.inputs}
        if isinstance(batch, Mapping):
            return {
                name: None if isinstance(value, Tensor) and not value.dim() else rules.get(name, 0)
                for name, value in batch.items()
            }
        if isinstance(batch, (tuple, list)) and rules and len(rules) == len(batch):
            return dict(enumerate(rules.values()))
        return 0

    def _batch_of(self, batch: Any) -> _Batch:
        args, kwargs = self._call(batch)
        if self.found is not None:
            inputs = self.found.flat(args, kwargs)
        else:
            inputs = tuple(inputs_of(_only_input(args, kwargs), {})[0])
        parts, rules, rebuild = flatten_target(batch, self._rules, True)
        return _Batch(inputs, parts, rules, rebuild)

    def make(self, samples: int, seed: int) -> _Batch:
        """A step's, by the user's function."""
        batch = self._batch_of(self._whole_batch(samples, seed))
        count = samples_of(batch.inputs, range(len(batch.inputs)), dict(enumerate(self.input_rules)))
        if count != samples:
            raise UsageError(
                f"{self._make_batch} returns {count} samples and was asked for {samples}; a step has as many as --batch says; "
                "return that many"
            )
        return batch

    @property
    def input_rules(self) -> tuple[Rule, ...]:
        return () if self.found is None else tuple(each.rule for each in self.found.inputs)

    @property
    def output_dimensions(self) -> tuple[int, ...]:
        if self.found is None or not self.found.is_traced:
            return ()
        return tuple(each or 0 for each in self.found.output().dimensions)

    def first_input(self, inputs: Sequence[Tensor]) -> Any:
        """As the first layer takes it."""
        if self.found is not None:
            return tuple(inputs) if self.found.is_traced else inputs[0]
        return inputs[0] if len(inputs) == 1 else tuple(inputs)

    # ---- Loss ----

    @property
    def has_loss(self) -> bool:
        if self._loss is not None or self.found is None or not self.found.is_traced:
            return self._loss is not None or self.found is not None
        output = self.found.output()
        stand_ins = [torch.zeros(() if each is None else [1] * (each + 1)) for each in output.dimensions]
        return self.found.loss_of(output.made.build(stand_ins)) is not None

    def loss(self, outputs: Any, batch: _Batch, parts: Sequence[Tensor]) -> Tensor:
        """Of a micro-batch or of several that were joined, with these parts of the batch."""
        value = outputs if self.found is None else self.found.value(outputs, self._weights(outputs, batch, parts))
        if self._loss is not None:
            return self._loss.call(value, batch.rebuild(iter(parts)))  # type: ignore[no-any-return]
        own = None if self.found is None else self.found.loss_of(value)
        return own if own is not None else _mean_of_squares(value, None)

    def _weights(self, outputs: Any, batch: _Batch, parts: Sequence[Tensor]) -> Optional[Tensor]:
        """By how much each of the joined micro-batches counts in values without samples."""
        assert self.found is not None
        tensors = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        count = next((t.shape[0] for t, each in zip(tensors, self.found.output().dimensions) if each is None), 1)
        if count < 2:
            return None
        samples = batch.samples_in(parts)
        sizes = [samples // count + (k < samples % count) for k in range(count)]
        weights: list[Any] = list(sizes)
        if self.weight is not None:
            ends = [0, *itertools.accumulate(sizes)]
            weights = [
                self.weight.call(batch.rebuild(iter([part_of(*each, first, end) for each in zip(parts, batch.rules)])))
                for first, end in zip(ends, ends[1:])
            ]
        numbers = torch.tensor([float(each) for each in weights], dtype=torch.float64)
        return numbers / numbers.sum()


class _Batch:
    """A batch as the engine takes it: the model's tensors, and those of the loss, with what makes a batch of them again."""

    def __init__(
        self, inputs: Sequence[Tensor], parts: Sequence[Tensor], rules: Sequence[Rule], rebuild: Callable[[Iterator[Tensor]], Any]
    ) -> None:
        self.inputs, self.parts, self.rules, self.rebuild = inputs, parts, rules, rebuild

    def samples_in(self, parts: Sequence[Tensor]) -> int:
        return next((int(part.shape[rule]) for part, rule in zip(parts, self.rules) if isinstance(rule, int)), 1)


class _Uses:
    """A model as the engine asks for it."""

    def __init__(self, model: _Model, use: Mapping[str, Any]) -> None:
        self._model = model
        self._sizes: list[int] = list(use["samples"])
        self._modules = list(model.layers.values())
        self.described = described_layers(model.layers)
        self.shared = [] if model.found is None else model.found.shared_parameters()

    weight: Any = None
    optimizer: Any = None
    optimizer_name = ""
    learning_rate = 0.0

    def _check_sizes(self, inputs: Sequence[Tensor], sizes: Sequence[int]) -> None:
        if self._model.found is not None:
            self._model.found.check_sizes(inputs, sizes)


class _Trained(_Uses):
    """With the layers that the user's model consists of, and a batch of its own for each step."""

    def __init__(self, model: _Model, use: Mapping[str, Any]) -> None:
        super().__init__(model, use)
        if not model.has_loss:
            raise UsageError(
                f"{model.source.where} has no loss(output, batch), and the model's output has no loss; write the function, or give "
                "the model what it needs for one, such as labels"
            )
        _saved_tensor_hooks.note_uses()
        if model.weight is not None:
            self.weight = self._weight_of
        if model.optimizer is not None:
            self.optimizer, (self.optimizer_name, self.learning_rate) = model.optimizer.call, _facts_of(model.optimizer)
        self._numbers = itertools.count()
        self._batches: dict[int, _Batch] = {}  # the last ones, by number: staggered steps overlap
        self.split = Split(model.input_rules, (None, *model.base.rules), model.output_dimensions)

    def layer(self, index: int) -> nn.Module:
        return self._modules[index]

    def make_batch(self, samples: int, seed: int) -> tuple[Any, tuple[Tensor, ...]]:
        batch = self._model.make(samples, seed)
        self._check_sizes(batch.inputs, self._sizes)
        number = next(self._numbers)
        self._batches[number] = batch
        self._batches.pop(number - 4, None)
        return self._model.first_input(batch.inputs), (torch.tensor(number), *batch.parts)

    def _weight_of(self, target: tuple[Tensor, ...]) -> float:
        assert self._model.weight is not None
        return float(self._model.weight.call(self._batches[int(target[0])].rebuild(iter(target[1:]))))

    def loss(self, output: Any, target: tuple[Tensor, ...]) -> Tensor:
        batch, parts = self._batches[int(target[0])], target[1:]
        return self._model.loss(output, batch, parts)


def _facts_of(function: _Source) -> tuple[str, float]:
    """(what its state is like, as a name or bytes for each byte of parameters; its learning rate) of a user's optimizer."""
    parameter = nn.Parameter(torch.zeros(256, 4))
    optimizer = function.call([parameter])
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"{function} returns a {type(optimizer).__name__}; it returns a torch.optim.Optimizer of the parameters")
    rate = float(optimizer.param_groups[0].get("lr", 0.0))
    if type(optimizer) in (torch.optim.Adam, torch.optim.AdamW) and not optimizer.defaults["amsgrad"]:
        return type(optimizer).__name__.lower(), rate
    if type(optimizer) is torch.optim.SGD:
        return "momentum" if optimizer.defaults["momentum"] else "sgd", rate
    parameter.grad = torch.zeros_like(parameter)
    _called(f"step() of the optimizer of {function}", optimizer.step)
    held = sum(each.nbytes for state in optimizer.state.values() for each in tensors_in(dict(state)))
    return f"{held / parameter.nbytes:.2g}", rate


class _Copied(_Uses):
    """With copies of the layers, and parts of one batch, to measure."""

    def __init__(self, model: _Model, use: Mapping[str, Any]) -> None:
        super().__init__(model, use)
        base, rules = model.base, model.input_rules
        self._on_meta = [_on_meta(each) for each in self._modules] if use["on_meta"] else []
        if not self._on_meta:
            _refuse_what_cannot_be_measured(self.described)
        self._inputs = Sample(base.inputs, rules or [0] * len(base.inputs), tuple)
        self._parts = Sample(base.parts, base.rules, tuple)
        if self._on_meta:
            self._inputs, self._parts = self._inputs.on("meta"), self._parts.on("meta")
        self.split = Split(rules, tuple(base.rules), model.output_dimensions)
        self._checked = SizesChecked(self._loss) if model.found is None else self._loss

    def layer(self, index: int) -> nn.Module:
        return self._on_meta[index] if self._on_meta else copy_of(self._modules[index]).train()

    def make_batch(self, samples: int, _seed: int) -> tuple[Any, tuple[Tensor, ...]]:
        # Of a larger mini-batch only the loss is measured, with repeated outputs.
        rows = min(samples, max(self._sizes))
        inputs = self._inputs.part(rows)
        self._check_sizes(inputs, [rows])
        return self._model.first_input(inputs), self._parts.part(samples)

    def loss(self, output: Any, target: tuple[Tensor, ...]) -> Tensor:
        return self._checked(output, target)

    def _loss(self, output: Any, target: tuple[Tensor, ...]) -> Tensor:
        return self._model.loss(output, self._model.base, target)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def _keywords_of(model: nn.Module) -> Optional[set[str]]:
    """What the model takes by keyword; None: anything."""
    try:
        takes = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes):
        return None
    return {each.name for each in takes}


def _only_input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The input of layers that run one after the other."""
    values = [*args, *kwargs.values()]
    return values[0] if len(values) == 1 else tuple(values)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    parts, _, rebuild = flatten_target(value, 0, False)
    return rebuild(iter([each.to(dtype) if each.is_floating_point() else each for each in parts]))
