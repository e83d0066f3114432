"""What a model's forward read besides its parameters and buffers, and whether it has changed since."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pipescope.errors import UsageError

__all__ = ["Absent", "HeldState", "held_value", "hooks_of_all_modules"]


class Absent:
    """Stands for an attribute that is not there."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Same:
    """Equals what holds the same object."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = object.__hash__


def held_value(value: Any) -> Any:
    """A copy of what a trace holds on to: numbers, texts and lists of them, tensors, and the keys of hooks. None for others."""
    if isinstance(value, Tensor):
        return _Same(value)
    if isinstance(value, (bool, int, float, str, torch.dtype)) or value is Absent:
        return type(value), value
    if isinstance(value, Mapping):
        return tuple((key, held_value(each)) for key, each in value.items())
    return tuple(held_value(each) for each in value) if isinstance(value, (tuple, list)) else None


def hooks_of_all_modules() -> tuple[Any, ...]:
    """The keys of hooks of all modules, as register_module_forward_hook() adds them, by kind; without those of torch's tools, which
    only watch. Keys are those of this process."""
    kinds: Any = nn.modules.module
    tables = (kinds._global_forward_pre_hooks, kinds._global_forward_hooks, kinds._global_backward_pre_hooks, kinds._global_backward_hooks)
    return os.getpid(), *(tuple(key for key, hook in table.items() if not _is_of_torch(hook)) for table in tables)


def _is_of_torch(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torch.")


class HeldState:
    """What a model's forward read besides its parameters and buffers, which its layers keep as it was. A copy of the model
    and of this object is about the copied model."""

    def __init__(self, model: nn.Module, reads: Mapping[tuple[int, str], tuple[nn.Module, str, str]]) -> None:
        self._model = model
        self._modules = self._modules_now()
        self._of_all = hooks_of_all_modules()
        self._reads = [
            (module, name, title, held_value(vars(module).get(name, Absent))) for module, name, title in reads.values()
        ]
        self._missing = [
            (module, table, name, f"{path}.{name}" if path else name)
            for path, module in model.named_modules()
            for table in ("_parameters", "_buffers")
            for name, each in getattr(module, table).items()
            if each is None
        ]

    def _modules_now(self) -> dict[str, tuple[nn.Module, type, Any]]:
        return {
            path: (module, type(module), vars(module).get("forward"))
            for path, module in self._model.named_modules(remove_duplicate=False)
        }

    def check(self) -> None:
        """Raises UsageError if a value is another one now, or a module."""
        now = self._modules_now()
        for path in () if now == self._modules else (*self._modules, *now):
            before, after = self._modules.get(path), now.get(path)
            if before != after:
                is_same = before is not None and after is not None and before[0] is after[0]
                what = "has another class or forward" if is_same else "is another one" if before and after else (
                    "was added" if after else "was removed")
                raise UsageError(
                    f"the model's module {path} {what} since it was traced, and the pipeline's layers do what they saw then; build "
                    "the pipeline again"
                )
        of_all = hooks_of_all_modules()
        if of_all != self._of_all and of_all[0] == self._of_all[0]:
            raise UsageError(
                "hooks of all modules were added or removed since the model was traced, and the pipeline's layers keep what they saw "
                "then; build the pipeline again"
            )
        for module, name, title, held in self._reads:
            if held_value(vars(module).get(name, Absent)) != held:
                what = "hooks were added or removed" if name.endswith("_hooks") else f"{title} has changed"
                where = f" at {title.rpartition('.')[0] or 'the model'}" if name.endswith("_hooks") else ""
                raise UsageError(
                    f"the model's {what}{where} since it was traced, and the pipeline's layers keep what they saw then; build the "
                    "pipeline again"
                )
        for module, table, name, title in self._missing:
            if getattr(module, table).get(name) is not None:
                raise UsageError(f"the model's {title} was None when it was traced; build the pipeline again")
