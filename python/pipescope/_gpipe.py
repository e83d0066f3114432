"""Pipeline-parallel training of Python modules by the engine."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import itertools
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from pipescope import _core, _fx_tracing, _mini_batch, _saved_tensor_hooks
from pipescope._any_model import ModelLayers, is_any_model
from pipescope._layers import Device, Layered, Tensors, check_loss, device_names, listed, named_layers, whole
from pipescope._parametrize_cache import keep_apart
from pipescope._profile import Profile
from pipescope._profiler import profile as measured_profile
from pipescope._recording import Recording, refuse_beside_a_recording
from pipescope._scaled_loss import ScaledLoss
from pipescope._schedule import Schedule
from pipescope._structure import tensors_in
from pipescope._torch import engine
from pipescope._values import python_messages
from pipescope.errors import BalanceError, EngineError, TraceError, UsageError

__all__ = ["GPipe", "current_micro_batch", "is_checkpointing", "is_recomputing"]

_has_ended = [False]


def is_checkpointing() -> bool:
    """True in a forward of a micro-batch whose graph will be discarded and computed again."""
    return bool(engine.is_checkpointing())


def is_recomputing() -> bool:
    """True in the second forward of a checkpointed micro-batch. Side effects belong in the first."""
    return bool(engine.is_recomputing())


def current_micro_batch() -> Optional[int]:
    """The micro-batch that this thread computes, from 0; None outside a layer or a loss of one micro-batch."""
    micro_batch: Optional[int] = engine.current_micro_batch()
    return micro_batch


def _schedule_option(schedule: Any) -> Union[str, tuple[str, str]]:
    """A name, or the name and the text of a CSV. A Schedule is an order, whatever its name."""
    if isinstance(schedule, str) and not schedule.endswith(".csv"):
        return schedule
    if not isinstance(schedule, Schedule):
        schedule = Schedule.load(schedule)
    return (schedule.name, schedule.to_csv())


def _partitions_a_lane(schedule: str) -> int:
    """Of a named schedule, as long as nobody asks for another number."""
    return Schedule(schedule, lanes=2, chunks=8).partitions // 2


def _lanes_of(schedule: Union[str, tuple[str, str]], placement: Sequence[int], partitions: Optional[int]) -> Optional[int]:
    """The number of lanes that the options determine; None: as many as there are devices."""
    if placement:
        return max(1, min(max(placement) + 1, len(placement)))
    if not isinstance(schedule, str):
        return Schedule.from_csv(schedule[1], name=schedule[0]).lanes
    if partitions is None or schedule not in Schedule.names():
        return partitions
    return max(1, partitions // _partitions_a_lane(schedule))


def _default_devices(lanes: Optional[int], layers: int) -> list[str]:
    if torch.cuda.is_available():
        return [f"cuda:{k}" for k in range(torch.cuda.device_count())]
    cores = len(os.sched_getaffinity(0))
    return ["cpu"] * (lanes if lanes is not None else max(1, min(cores, layers)))


class GPipe(Layered):
    """A model whose layers run as a pipeline of micro-batches, on one lane (a thread and a device) per partition.

    ::

        model = pipescope.GPipe(layers, balance=[2, 2], devices=["cpu", "cpu"], chunks=8)
        model(x).sum().backward()                       # as any module, or
        loss = model.step(x, y, nn.functional.mse_loss)  # forward, loss and backward inside the schedule

    Losses and gradients are those of the plain model run micro-batch by micro-batch. Parameters are those of the given
    modules, which stay usable; keys of state_dict() are those of the plain nn.Sequential.

    Shapes: the first dimension of every input and output is the samples, unless ``split`` says otherwise. A mini-batch is cut
    into min(chunks, samples) micro-batches. Between layers go tensors and None, alone or in tuples, lists and dicts, which
    nest.

    Threading: calls of one model from several threads take turns. A layer runs on its lane's thread, with the caller's
    grad mode, autocast, hooks and context variables, not with its threading.local values.

    Errors: a layer's exception arrives unchanged, the first in schedule order; Ctrl-C ends a call within a task. The
    model stays usable.

    Args:
        module: an nn.Sequential, a list of modules, a mapping of names to modules, or what cut() returns. Or any model, with a
            sample: see layers_of().
        balance: layers per partition. None: measured at the first call, on its input, for as many lanes as devices.
        devices: one for each lane. Default: all CUDA devices, else the host ("cpu") for each lane.
        chunks: micro-batches.
        checkpoint: "always", "except_last" or "never": which micro-batches keep only their inputs.
        schedule: a name such as "gpipe", "1f1b" or "zero-bubble-h1", or a pipescope.Schedule, whose order runs whatever
            its name is. All but the name gpipe need step().
        deferred_batch_norm: running statistics of mini-batches instead of micro-batches.
        driver: "scheduled", or "autograd", in which torch's autograd orders the backwards.
        seed: of random numbers in layers, which depend only on (seed, step, micro-batch, layer).
        placement: lane of each partition. reduction: how the loss combines samples, "mean" or "sum".
        weight: for a loss that is a mean over something else than samples: weight(target) says over how many, such as
            ``lambda y: (y != -100).sum()``.
        sample: what any model is called with, by which it is traced: a dict of its keywords, a tuple of its arguments,
            ``(args, kwargs)``, or one tensor. Layers that run one after the other need none.
        split: how inputs are cut, by position or keyword: the dimension of the samples, None for an input that each
            micro-batch gets whole, or a function (whole, first, end) that makes the part of these samples. The keys "target"
            and "output" are the target and the dimension along which outputs are joined.
        host_cores: cores that lanes on the host share; 0: all of this process.
        processes: join_processes(), if the lanes are in several processes; replicas and device_messages as in
            docs/engine.md.
    """

    def __new__(cls, module: Any = None, *args: Any, sample: Any = None, **options: Any) -> "GPipe":
        if cls is GPipe and (isinstance(module, ModelLayers) or sample is not None and is_any_model(module)):
            from pipescope._model_pipe import ModelPipe  # which is a GPipe

            return super().__new__(ModelPipe)
        return super().__new__(cls)

    def __init__(
        self,
        module: Union[nn.Module, Sequence[nn.Module], Mapping[str, nn.Module]],
        balance: Optional[Iterable[int]] = None,
        *,
        sample: Any = None,
        devices: Optional[Iterable[Device]] = None,
        chunks: int = 1,
        checkpoint: str = "except_last",
        schedule: Any = "gpipe",
        deferred_batch_norm: bool = False,
        driver: str = "scheduled",
        seed: int = 0,
        placement: Iterable[int] = (),
        reduction: str = "mean",
        weight: Optional[Callable[[Any], Any]] = None,
        split: Union[Mapping[Any, Any], Sequence[str], None] = None,
        host_cores: int = 0,
        processes: Any = None,
        replicas: int = 1,
        device_messages: str = "host",
    ) -> None:
        super().__init__()
        self._add_layers(named_layers(module))
        if isinstance(balance, str):
            try:
                balance = [int(size) for size in balance.split(",")]
            except ValueError:
                raise BalanceError(f"balance is '{balance}'; it is a list of layers per partition; write it as '2,2'") from None
        if balance is not None:
            balance = [whole(size, "balance") for size in listed(balance, "balance", "[2, 2]")]
        chunks = whole(chunks, "chunks", -(2**63), 2**63 - 1)
        if chunks > engine.most_micro_batches:
            raise UsageError(
                f"chunks is {chunks}; a mini-batch has at most {engine.most_micro_batches} micro-batches; use fewer"
            )
        order = _schedule_option(schedule)
        if balance is None and isinstance(order, str) and order not in (runnable := Schedule.names(runnable=True)):
            raise UsageError(f"schedule is {order!r}; a model runs {', '.join(runnable)} or a CSV file; use one of them")
        self._has_devices = devices is not None
        lane_of = [whole(lane, "placement") for lane in listed(placement, "placement", "[0, 1, 0, 1]")]
        lanes = _lanes_of(order, lane_of, None if balance is None else len(balance))
        self._options: dict[str, Any] = {
            "balance": balance,
            "devices": device_names(devices)
            if devices is not None
            else _default_devices(lanes, len(self._layers)),
            "chunks": int(chunks),
            "checkpoint": str(checkpoint),
            "schedule": order,
            "deferred_batch_norm": bool(deferred_batch_norm),
            "driver": str(driver),
            "seed": whole(seed, "seed", 0, 2**64 - 1),
            "placement": lane_of,
            "reduction": str(reduction),
            "weight": weight,
            "split": _mini_batch.split_of(split),  # type: ignore[arg-type]
            "host_cores": whole(host_cores, "host_cores"),
            "processes": processes,
            "replicas": whole(replicas, "replicas"),
            "device_messages": str(device_messages),
        }
        if processes is not None and not isinstance(processes, engine.Processes):
            raise TypeError(f"processes is a {type(processes).__name__}; it is what join_processes() returns; give that")
        if weight is not None and not callable(weight):
            raise TypeError(f"weight is a {type(weight).__name__}; it is called as weight(target); give a function")
        self._check_keywords()
        self._step = 0
        self._model: Any = None
        self._recording: Any = None
        self._built: Any = None  # the layers that the engine's model was built of
        self._process = os.getpid()
        self._staggering: Optional[int] = None  # the thread that runs train_staggered()
        self.training = all(layer.training for layer in self._layers.values())  # the layers' own modes stay
        if balance is not None and self._layers:
            self._build()
        elif processes is not None and balance is None:
            raise BalanceError(
                "balance is not given with several processes, which must all have the same; give one, such as "
                "profile(...).balance(...) finds"
            )

    def _check_keywords(self) -> None:
        """A misspelt keyword would leave its input cut along dimension 0."""
        first = next(iter(self._layers.values()), None) if self._options["split"] else None
        try:
            takes = inspect.signature(first.forward).parameters if first is not None else {}
        except (TypeError, ValueError):
            return
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values()):
            return
        for name in self._options["split"]:
            if isinstance(name, str) and name not in ("target", "output", *takes):
                raise UsageError(
                    f"split names '{name}', and the forward of the first layer takes no such keyword; name one of its "
                    "arguments, the position of an input, 'target' or 'output'"
                )

    # ---- The engine's model ----

    def _build(self, balance: Optional[list[int]] = None) -> None:
        """With a balance that was found, or with the options' own."""
        options = self._options if balance is None else {**self._options, "balance": balance}
        keep_apart(self._layers.values())
        _fx_tracing.ask_own_thread()
        _saved_tensor_hooks.note_uses()
        with python_messages():
            self._model = engine.Model(self._engine_layers(), {**options, "shared": self._shared_keys()})
        self._options = options
        self._model.next_step = self._step
        self._model.train(self.training)
        self._process = os.getpid()
        if self._options["processes"] is not None:
            self._drop_layers_elsewhere()
        self._built = list(self._modules.items())

    def _shared_keys(self) -> list[list[str]]:
        """Parameters that are one: their keys, with the layers' numbers, the holder's first."""
        return []

    def _drop_layers_elsewhere(self) -> None:
        names = list(self._layers)
        for first, end, _lane, _device, is_here in self._model.partitions:
            for name in [] if is_here else names[first:end]:
                del self._modules[name]

    def _balance_by(self, input: Tensors, keywords: Mapping[str, Any]) -> None:
        """Measures the layers on a micro-batch of the input, and finds the schedule's balance on the devices."""
        _check(input, keywords)
        split = self._options["split"]
        tensors, names, _ = _mini_batch.inputs_of(input, keywords)
        rows = _mini_batch.samples_of(tensors, names, split)
        chunks = max(1, min(rows, self._options["chunks"]))
        samples = max(1, rows // chunks)
        search = self._balance_search(chunks, samples)
        profile = measured_profile(
            self._layers, input, samples=[samples], time_limit_s=5.0, tapes=False, inputs=keywords, split=split
        )
        balance = list(search(profile))
        placement = self._options["placement"]
        if placement and len(placement) != len(balance):
            raise BalanceError(
                f"placement is {placement} and no balance is given; the search makes {len(balance)} partitions of its own for "
                "these lanes; give the balance too"
            )
        self._build(balance)

    def _balance_search(self, chunks: int, samples: int) -> Callable[[Profile], Iterable[int]]:
        """What finds the balance in a profile. Refuses schedules that no balance fits, before anything is measured."""
        order, checkpoint = self._options["schedule"], self._options["checkpoint"]
        if not isinstance(order, str):
            table = Schedule.from_csv(order[1], name=order[0])
            batch = samples * table.micro_batches
            return lambda profile: profile.balance(batch=batch, checkpoint=checkpoint, schedule=table)
        a_lane = _partitions_a_lane(order)
        wanted = _lanes_of(order, self._options["placement"], None)
        lanes = min(len(self._options["devices"]) if wanted is None else wanted, len(self._layers) // a_lane)
        if lanes == 0:
            raise BalanceError(
                f"the model has {len(self._layers)} layers; the schedule {order} needs {a_lane} for each lane; use 1f1b"
            )
        if self._has_devices and lanes < len(self._options["devices"]) and not self._options["placement"]:
            warnings.warn(
                f"{len(self._options['devices'])} devices are given, and the model has {len(self._layers)} "
                f"layer{'s' if len(self._layers) > 1 else ''}, so {lanes} of them run{'s' if lanes == 1 else ''}: "
                f"{self._why_few_layers()}",
                stacklevel=2,
            )
        with python_messages():
            Schedule(order, lanes=lanes, chunks=chunks)  # refuses numbers that do not fit
        batch = samples * chunks
        if a_lane == 1:
            return lambda profile: profile.balance(lanes, batch=batch, chunks=chunks, checkpoint=checkpoint, schedule=order)
        return lambda profile: profile.plan(
            partitions=lanes, batch=batch, chunks=chunks, checkpoint=checkpoint, schedule=order
        ).candidates[0].balance

    def _why_few_layers(self) -> str:
        return "give as many layers as devices"

    def _check_call(self) -> None:
        if _has_ended is None or _has_ended[0]:  # None: the interpreter has cleared this module
            raise RuntimeError("a pipeline is called after the end of the process has begun; its lanes do not run any more")
        if torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None:  # of torch.jit.trace
            raise UsageError(
                "the model is called by torch.export or torch.jit.trace, which cannot follow its lanes; export the plain "
                "nn.Sequential of its layers, which has the same parameters"
            )
        if self._model is not None and os.getpid() != self._process:
            # Another thread may have held the model's lock when the process was forked, so the engine is not asked.
            raise EngineError(
                "the model was built before this process was forked, and its lanes run in the parent process only; build it "
                "in this process"
            )
        refuse_beside_a_recording(self._recording, "the model is called")
        if self._staggering == threading.get_ident():
            raise UsageError(
                "the model is called by a function that its train_staggered() calls, while its lanes train; call it "
                "afterwards, or a copy of it"
            )

    def _model_for(self, input: Any, keywords: Mapping[str, Any] = {}) -> Any:
        self._check_call()
        if self._model is not None and self._built != list(self._modules.items()):
            if self._options["processes"] is not None:
                raise UsageError("a layer was replaced in a pipeline of several processes; build the pipeline again")
            self._step = self.next_step
            self._model = None
        if self._model is None:
            if self._options["balance"] is not None:
                self._build()
            else:
                self._balance_by(input, keywords)
        return self._model

    @property
    def _is_in_processes(self) -> bool:
        processes = self._options["processes"]
        return processes is not None and processes.size > 1

    @property
    def _has_loss(self) -> bool:
        """True if this process computes the loss."""
        return not self._is_in_processes or bool(self._model.partitions[-1][-1])

    @property
    def balance(self) -> Optional[list[int]]:
        """Layers per partition; None before they were measured."""
        balance: Optional[list[int]] = self._options["balance"]
        return None if balance is None else list(balance)

    @property
    def devices(self) -> list[torch.device]:
        """The device of each lane."""
        names = self._options["devices"] if self._model is None else self._model.devices
        return [torch.device(name) for name in names]

    @property
    def chunks(self) -> int:
        return int(self._options["chunks"])

    @property
    def checkpoint(self) -> str:
        return str(self._options["checkpoint"])

    @property
    def next_step(self) -> int:
        """Number of the next training step. Random numbers in layers depend on it; set it to continue a training."""
        return self._step if self._model is None else int(self._model.next_step)

    @next_step.setter
    def next_step(self, step: int) -> None:
        self._step = whole(step, "next_step")
        if self._model is not None:
            self._model.next_step = step

    @property
    def last_failure(self) -> Optional[tuple[str, int, int, str]]:
        """(task, lane, layer, layer's name) of the last exception of a layer; None if there was none."""
        return None if self._model is None else self._model.last_failure

    # ---- Running ----

    def forward(self, input: Tensors, **inputs: Any) -> Any:
        """Runs the pipeline forward, as one node of the caller's graph. The first layer gets ``inputs`` by keyword.

        Shapes: as the plain model. Returns what the last layer returns, gathered over the micro-batches. In several
        processes, under no_grad: input where partition 0 is, output where the last partition is, else None.
        """
        if self._options["processes"] is None:
            _check(input, inputs)
        if not self._layers and self._model is None:
            return input
        model = self._model_for(input, inputs)
        (given, _, call, split), samples = self._prepare(model, input, inputs, None)
        with self._recorded(model, samples):
            output = model.forward(given, call, split)
        if self._options["checkpoint"] != "never" and torch.is_grad_enabled():
            self._watch_parameters(output)
        return output

    def _watch_parameters(self, output: Any) -> None:
        """A backward that recomputes needs the parameters of the forward. The engine checks that their values are the same."""
        before = list(self.parameters())

        def check(gradient: Tensor) -> None:
            now = list(self.parameters())
            if len(now) != len(before) or any(one is not other for one, other in zip(now, before)):
                raise RuntimeError(
                    "parameters were replaced between the pipeline's forward and its backward, which computes checkpointed "
                    "micro-batches again; go backward first (also with torch.func.functional_call), or use "
                    "checkpoint='never'"
                )

        for each in tensors_in(output):
            if each.requires_grad and before:
                each.register_hook(check)  # type: ignore[no-untyped-call]

    def step(
        self, input: Any, target: Any = None, loss: Optional[Callable[[Any, Any], Tensor]] = None, **inputs: Any
    ) -> Tensor:
        """Runs forward, loss and backward inside the schedule. Adds to the parameters' .grad; returns the loss, detached.

        ``loss(output, target)`` returns one value, reduced as the options ``reduction`` and ``weight`` say. It is called for
        each micro-batch, or, with the schedule gpipe, once on the gathered output. The target may be a tensor, a number, or
        a dict, tuple or list of these; docs/python-training.md says how it is cut. The first layer gets ``inputs`` by
        keyword. Forward hooks of the GPipe itself do not run. In several processes the input is read where partition 0 is
        and the target where the last partition is. A model that was given with a sample takes its own arguments and may have
        its own loss: see docs/python-training.md.
        With ``GradScaler.scale(loss)`` the gradients are scaled, and the returned and the recorded loss are not.
        """
        if self._options["processes"] is None:
            _check(input, inputs)
        check_loss(loss)
        model = self._model_for(input, inputs)
        self._check_reduction(model, loss, target)
        (given, targets, call, split), samples = self._prepare(model, input, inputs, target)
        with self._recorded(model, samples) as losses:
            result: Tensor = model.step(given, targets, loss, call, split)
            if isinstance(loss, ScaledLoss):
                result = loss.unscaled(result)
            losses.append(result)
        return result

    def _prepare(self, model: Any, input: Any, keywords: Mapping[str, Any], target: Any) -> tuple[tuple[Any, ...], int]:
        """((input and target as the engine takes them, what else the call has, how it is cut), samples)."""
        is_first, is_last = model.partitions[0][4], model.partitions[-1][4]
        tensors, names, others = _mini_batch.inputs_of(input, keywords) if is_first else ([], [], {})
        own_target = target if is_last else None
        samples = _mini_batch.samples_of(tensors, names, self._options["split"])
        given, call, split = _mini_batch.make_call(
            tensors,
            names,
            others,
            type(input),
            own_target,
            self._split_with(own_target),
            model.cuts_target,
            self._options["weight"] is not None,
        )
        return ((input if call is None else tensors), given, call, split), samples

    def _split_with(self, target: Any) -> Mapping[Any, Any]:
        """The option ``split`` for a call with this target."""
        split: Mapping[Any, Any] = self._options["split"]
        return split

    def _check_reduction(self, model: Any, loss: Any, target: Any) -> None:
        """Refuses a loss of torch whose parts the options would surely combine wrongly."""
        if isinstance(loss, ScaledLoss):
            loss = loss.loss
        if not model.cuts_target or not isinstance(loss, nn.modules.loss._Loss):
            return
        reduction = self._options["reduction"]
        if loss.reduction in ("mean", "sum") and loss.reduction != reduction:
            raise UsageError(
                f"the loss is {type(loss).__name__}(reduction='{loss.reduction}') and the pipeline has reduction="
                f"'{reduction}', which combines the micro-batches' losses; give both the same"
            )
        if loss.reduction != "mean" or self._options["weight"] is not None:
            return
        if isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss)):
            leaves_out = isinstance(target, Tensor) and target.is_cpu and bool((target == loss.ignore_index).any())
            if loss.weight is not None or leaves_out:
                raise UsageError(
                    f"the loss is a {type(loss).__name__} "
                    + ("with weights of classes" if loss.weight is not None else "that ignores some of the targets")
                    + ", so its mean is not over samples; give the pipeline the weight of a micro-batch's targets, as by "
                    + ("weight=lambda y: class_weights[y].sum()" if loss.weight is not None
                       else f"weight=lambda y: (y != {loss.ignore_index}).sum()")
                )

    def train_staggered(
        self,
        batches: Iterable[Sequence[Any]],
        loss: Callable[[Any, Any], Tensor],
        update: Callable[[int], None],
        done: Callable[[Tensor], None] = lambda loss: None,
    ) -> None:
        """Trains on all mini-batches with staggered updates: each lane updates its own parameters as soon as it has done
        its tasks of a step, and continues with the next step while other lanes still run this one. Losses and parameters
        equal those of step() and an update, bit for bit, and the pipeline fills and drains only once.

        ::

            optimizers = [torch.optim.SGD(model.lane_parameters(lane), lr=0.1) for lane in range(len(model.devices))]

            def update(lane):
                optimizers[lane].step()
                optimizers[lane].zero_grad()

            losses = []
            model.train_staggered(loader, nn.functional.mse_loss, update, losses.append)

        ``batches`` gives pairs of input and target, one step ahead, or triples with a dict of inputs by keyword. ``update(lane)`` runs on the lane's thread while
        other lanes run: it may touch nothing of theirs, and must clear the gradients. ``done`` takes each step's loss, in
        order, on the calling thread. Clipping by a norm over all lanes needs step().

        Raises UsageError with several processes, the driver autograd or lanes on an accelerator, and while record() runs.
        After an exception some lanes may have updated their parameters in the last step; see docs/engine.md.
        """
        if self._recording is not None:
            raise UsageError("train_staggered() is called while record() runs, which records step(); call it outside")
        check_loss(loss)
        if isinstance(loss, ScaledLoss):
            raise UsageError(
                "train_staggered() is given a scaled loss; a GradScaler needs the gradients of all lanes before any of them "
                "updates; use step(), or the loss without a scale"
            )
        for each, takes in ((update, "update(lane)"), (done, "done(loss)")):
            if not callable(each):
                raise TypeError(f"{takes} is a {type(each).__name__}; train_staggered() calls it; give a function")
        self._check_call()
        if not isinstance(batches, Iterable):
            raise TypeError(f"batches is a {type(batches).__name__}; train_staggered() takes pairs of it; give a list or a loader")
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        input, _, keywords = _mini_batch_of(first)
        model = self._model_for(input, keywords)
        self._staggering = threading.get_ident()
        try:
            model.train_staggered(map(self._prepared, itertools.repeat(model), itertools.chain([first], batches)), loss, update,
                                  done)
        finally:
            self._staggering = None

    def _prepared(self, model: Any, batch: Any) -> tuple[Any, ...]:
        """A mini-batch of train_staggered(), as the engine takes it."""
        input, target, keywords = _mini_batch_of(batch)
        _check(input, keywords)
        return self._prepare(model, input, keywords, target)[0]

    def lane_parameters(self, lane: int) -> list[nn.Parameter]:
        """The parameters of a lane's partitions, for an optimizer of its own. Needs a balance."""
        if self._options["processes"] is not None:
            raise UsageError("lane_parameters() is called on a pipeline of several processes; parameters() are those here")
        if self._model is None:
            raise BalanceError("lanes have no parameters before they are balanced; give a balance, or run the model once")
        layers = list(self._layers.values())
        return [
            parameter
            for first, end, of, _device, _is_here in self._model.partitions
            if of == lane
            for layer in layers[first:end]
            for name, parameter in layer.named_parameters()
            if name not in getattr(layer, "copies", ())
        ]

    @contextlib.contextmanager
    def record(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        profile: Optional[Profile] = None,
        optimizer: str = "sgd",
        warmup: int = 1,
        force: bool = False,
    ) -> Iterator[None]:
        """Records the steps inside the block into a trace: each task, on its lane, and each step's loss and times.

        ::

            with model.record("run.sqlite", profile=profile):
                for x, y in loader:
                    optimizer.zero_grad()
                    model.step(x, y, loss)
                    optimizer.step()
            pipescope.Trace.open("run.sqlite").compare().step_error

        With a ``profile`` of the layers, as profile() measures it, the trace can be compared with its simulation.
        ``optimizer`` says whose state the simulated memory counts. The first ``warmup`` steps do not count in
        comparisons. Measured memory is not recorded. Each step's samples are noted; comparisons are of the
        steps with as many samples as the first one.

        A call of step() is a step, and so is a call of the model with gradients in train(), with its backward. The loss is
        what the loss function returned, so that of a GradScaler is scaled.

        One recording runs at a time in a process, and no other model meanwhile, since the trace would hold its tasks too.
        Raises UsageError with several processes or for an unknown optimizer, and TraceError if the file exists, unless
        ``force``, or cannot be written.
        """
        if self._options["processes"] is not None:
            raise UsageError("record() is called on a pipeline of several processes; 'pipescope run --trace' records those")
        if self._recording is not None:
            raise UsageError("record() is called while the model is being recorded; leave that block first")
        with python_messages():
            _core.check_optimizer(str(optimizer))
        warmup = whole(warmup, "warmup")
        if profile is not None and not isinstance(profile, Profile):
            raise TypeError(f"profile is a {type(profile).__name__}; it is what profile() returns; give that, or None")
        if profile is not None and len(profile) != len(self):
            raise UsageError(f"the profile has {len(profile)} layers, and the model {len(self)}; profile this model")
        recording = Recording(path, profile, optimizer, warmup, force)
        if self._model is None and self._options["balance"] is None:  # once it is balanced, so that this is not recorded
            if os.path.exists(path) and not force:
                raise TraceError(f"{os.fsdecode(path)!r} exists; a trace is a new file; choose another name, or use force=True")
        else:
            recording.start()
        self._recording = recording
        try:
            yield
        finally:
            self._recording = None
            recording.stop()
            if self._model is not None:
                self._model.time_steps(False)

    @contextlib.contextmanager
    def _recorded(self, model: Any, samples: int) -> Iterator[list[Tensor]]:
        """Around a call that may be a step; takes its loss in the list."""
        losses: list[Tensor] = []
        if self._recording is None:
            yield losses
            return
        step = model.next_step
        start = self._recording.begin(model, self._options, samples)
        yield losses
        if model.next_step != step:
            self._recording.end(model, step, start, float(losses[0]) if losses else float("nan"))

    def train(self, mode: bool = True) -> "GPipe":
        super().train(mode)
        if self.__dict__.get("_model") is not None:
            self._model.train(mode)
        return self

    # ---- Copies, files and moves ----

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if state["_options"]["processes"] is not None:
            raise UsageError("a pipeline of several processes is copied or pickled; save its state_dict() instead")
        state["_step"] = self.next_step
        state["_model"] = None
        state["_recording"] = None
        state["_built"] = None
        state["_staggering"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self._options["balance"] is not None and self._layers:
            self._build()

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        own: list[str] = []
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, own, error_msgs)
        layers = tuple(f"{prefix}{name}." for name in self._modules)  # a layer's name may have dots, as cut() makes them
        unexpected_keys += [key for key in own if not key.startswith(layers)]

    def _move(self, device: torch.device) -> None:
        """Layers of this device's lanes come back to it, if they were moved away. Other layers stay with their lanes."""
        if not any(_is_on(each, device) for each in self.devices):
            names = ", ".join(dict.fromkeys(map(str, self.devices)))
            raise TypeError(
                f"the model is to move to a device, {device}, which none of its lanes has; a pipeline's partitions live on the "
                f"devices it was built with, {names}; name others in 'devices'"
            )
        if self._model is None or self._options["processes"] is not None:
            return
        layers = list(self._layers.values())
        for first, end, _lane, name, _is_here in self._model.partitions:
            for layer in layers[first:end] if _is_on(torch.device(name), device) else []:
                if any(not _is_on(each.device, torch.device(name)) for each in (*layer.parameters(), *layer.buffers())):
                    layer.to(name)

    def cuda(self, device: Any = None) -> "GPipe":
        self._move(torch.device("cuda") if device is None else torch.device("cuda", device) if isinstance(device, int)
                   else torch.device(device))
        return self

    def cpu(self) -> "GPipe":
        self._move(torch.device("cpu"))
        return self

    def to(self, *args: Any, **kwargs: Any) -> "GPipe":
        """Casts, as to(dtype). A device is accepted if a lane has it, and the layers stay on the devices of their lanes.

        Raises TypeError for a device that no lane has.
        """
        device, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
        if device is not None:
            self._move(device)
        if dtype is not None or layout is not None:
            super().to(dtype=dtype, memory_format=layout)  # type: ignore[call-overload]
        return self


def _is_on(device: torch.device, other: torch.device) -> bool:
    """True for the same device, and for any of a type that is named without a number."""
    return device.type == other.type and (None in (device.index, other.index) or device.index == other.index)


def _mini_batch_of(batch: Any) -> tuple[Any, Any, Mapping[str, Any]]:
    """(input, target, inputs by keyword) of a mini-batch of train_staggered()."""
    if not isinstance(batch, (tuple, list)) or not (len(batch) == 2 or len(batch) == 3 and isinstance(batch[2], Mapping)):
        raise TypeError(
            f"a mini-batch is a {type(batch).__name__}; train_staggered() takes pairs of an input and a target, and perhaps "
            "a dict of inputs by keyword behind them; give (input, target)"
        )
    return batch[0], batch[1], batch[2] if len(batch) == 3 else {}


def _check(input: Any, keywords: Mapping[str, Any] = {}) -> None:
    tensors = input if isinstance(input, (tuple, list)) else (input,)
    for each in (*tensors, *(each for each in keywords.values() if isinstance(each, Tensor))):
        if not isinstance(each, Tensor):
            raise TypeError(f"the model is given {type(each).__name__}; it takes a tensor, or a tuple or list of tensors")
        if torch._C._functorch.is_functorch_wrapped_tensor(each):
            raise UsageError("the model is called inside a transform of torch.func, such as grad, jvp or vmap, which does not "
                             "reach its lanes; use backward() or step()")
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(each).tangent is not None:  # type: ignore[no-untyped-call]
            raise UsageError("the model is given a dual tensor; forward-mode derivatives do not pass its lanes; use backward()")


def _end_threads() -> None:
    """Threads that train stop before the interpreter goes: a daemon thread would crash in the midst of its end."""
    _has_ended[0] = True
    if engine.end_other_threads():
        time.sleep(0.01)  # a thread that has just left a call gets the GIL, and stops at its next call
        return
    print("pipescope: a layer's call did not end within 5 s of the process's end; it is given up", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if hasattr(sys, "last_type") else 0)


atexit.register(_end_threads)
