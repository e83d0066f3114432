"""torchgpipe's GPipe: its arguments, attributes, errors and keys of state_dict()."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

import torch
from torch import nn

from pipescope import _gpipe
from pipescope.compat.torchgpipe.skip import verify_skippables
from pipescope.skip import skippable_in

__all__ = ["GPipe", "verify_module"]


def verify_module(module: nn.Module) -> None:
    """Raises TypeError or ValueError unless it is a sequence of different layers without common parameters."""
    if not isinstance(module, nn.Sequential):
        raise TypeError("module must be nn.Sequential to be partitioned")
    if len(list(module.named_children())) != len(module):
        raise ValueError("module with duplicate children is not supported")
    parameters = [id(parameter) for child in module.children() for parameter in child.parameters()]
    if len(set(parameters)) != len(parameters):
        raise ValueError("module with duplicate parameters in distinct children is not supported")


def _with_advice(message: str) -> str:
    return message + "; torchgpipe.balance can find one, by balance_by_time() or balance_by_size()"


class GPipe(_gpipe.GPipe):
    """As torchgpipe.GPipe. Its partitions are modules: ``partitions[j]``, with ``partitions.j.`` in the keys."""

    def __init__(
        self,
        module: nn.Sequential,
        balance: Optional[Iterable[int]] = None,
        *,
        devices: Optional[Iterable[Any]] = None,
        chunks: int = 1,
        checkpoint: str = "except_last",
        deferred_batch_norm: bool = False,
    ) -> None:
        chunks, checkpoint = int(chunks), str(checkpoint)
        if balance is None:
            raise ValueError(_with_advice("balance is required"))
        if chunks <= 0:
            raise ValueError("number of chunks must be positive integer")
        if checkpoint not in ("always", "except_last", "never"):
            raise ValueError("checkpoint is not one of 'always', 'except_last', or 'never'")
        verify_module(module)
        verify_skippables(module)
        sizes = list(balance)
        if len(module) != sum(sizes):
            raise ValueError(_with_advice(f"module and sum of balance have different length ({len(module)}, {sum(sizes)})"))
        if any(size <= 0 for size in sizes):
            raise ValueError(_with_advice(f"all balance numbers must be positive integer (balance: {sizes})"))
        found = list(range(torch.cuda.device_count())) if devices is None else list(devices)
        if len(sizes) > len(found):
            raise IndexError(f"too few devices to hold given partitions (devices: {len(found)}, partitions: {len(sizes)})")
        self.__dict__["_sizes"] = sizes
        super().__init__(
            module,
            [1] * len(sizes),
            devices=found[: len(sizes)],
            chunks=chunks,
            checkpoint=checkpoint,
            deferred_batch_norm=deferred_batch_norm,
        )

    def _add_layers(self, layers: Mapping[str, nn.Module]) -> None:
        rest = iter(layers.items())
        self.partitions = nn.ModuleList(
            nn.Sequential(OrderedDict(next(rest) for _ in range(size))) for size in self.__dict__["_sizes"]
        )

    @property
    def _layers(self) -> dict[str, nn.Module]:
        """To the engine each partition is one layer, so that its hooks run."""
        return self.partitions._modules

    def _engine_layers(self) -> list[tuple[nn.Module, str, list[Any], list[Any]]]:
        places: dict[tuple[bool, tuple[str, str]], int] = {}  # (stashing or not, skip): partition
        for j, partition in enumerate(self.partitions):
            for own in map(skippable_in, partition.children()):
                if own is not None:
                    stashed, popped = own.skip_names()
                    places.update(((True, key), j) for key in stashed)
                    places.update(((False, key), j) for key in popped)
        layers = []
        for j, partition in enumerate(self.partitions):
            names: tuple[list[Any], list[Any]] = ([], [])
            for own in map(skippable_in, partition.children()):
                if own is None:
                    continue
                own._names_in_engine = {}
                for which, keys in enumerate(own.skip_names()):
                    for key in keys:
                        if places[(True, key)] != places[(False, key)]:  # others stay in the partition
                            in_engine = f"{key[0]}/{key[1]}"
                            own._names_in_engine[key[1]] = in_engine
                            names[which].append(("", in_engine))
            layers.append((partition, f"partition {j}", *names))
        return layers

    @property
    def balance(self) -> list[int]:
        return list(self.__dict__["_sizes"])

    def __len__(self) -> int:
        return sum(self.balance)

    def __iter__(self) -> Iterator[nn.Module]:
        for partition in self.partitions:
            yield from partition  # type: ignore[misc]

    def __getitem__(self, index: int) -> nn.Module:
        return list(self)[index]
