"""One model in several processes, by torchrun's variables."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

TRAIN = """
import json, os, sys, torch
from torch import nn
import pipescope
if sys.argv[1] == "group":
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Dropout(0.3), nn.Linear(6, 3)).double()
x, y = torch.randn(8, 6, dtype=torch.float64), torch.randn(8, 3, dtype=torch.float64)
mse = nn.functional.mse_loss
alone = sys.argv[1] == "alone"
processes = None if alone else pipescope.join_processes()
model = pipescope.GPipe(layers, [2, 3], devices=["cpu"] * 2, chunks=4, checkpoint="always", schedule=sys.argv[2],
                        processes=processes)
rank = 0 if alone else processes.rank
losses = []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    first, last = alone or rank == 0, alone or rank == 1
    losses.append(model.step(x if first else None, y if last else None, mse).item())
    optimizer.step()
state = {name: value.sum().item() for name, value in model.state_dict().items()}
with torch.no_grad():
    output = model.eval()(x if alone or rank == 0 else None)
print(json.dumps([losses, state, None if output is None else output.sum().item()]))
if sys.argv[1] == "group":
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""

FAIL = """
import sys, torch
from torch import nn
import pipescope
class Raises(nn.Module):
    def forward(self, x):
        raise ValueError("mine")
processes = pipescope.join_processes()
model = pipescope.GPipe([nn.Linear(6, 6), Raises()], [1, 1], devices=["cpu"] * 2, processes=processes)
x = torch.randn(4, 6) if processes.rank == 0 else None
try:
    model.step(x, torch.randn(4, 6), nn.functional.mse_loss)
except (ValueError, pipescope.errors.ProcessError) as error:
    print(type(error).__name__, "mine" in str(error))
"""


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run_ranks(program: str, *words: str) -> list[str]:
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=90) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], outputs
    return [out.strip().splitlines()[-1] for out, _ in outputs]


@pytest.mark.parametrize("meeting, schedule", [("own", "gpipe"), ("group", "1f1b"), ("own", "zero-bubble-h1")])
def test_two_processes_train_as_one(meeting, schedule):
    done = subprocess.run([sys.executable, "-c", TRAIN, "alone", schedule], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    losses, state, output = json.loads(done.stdout.splitlines()[-1])
    first, second = (json.loads(text) for text in run_ranks(TRAIN, meeting, schedule))
    assert first[0] == losses and second[0] == losses
    assert {**first[1], **second[1]} == state and not first[1].keys() & second[1].keys()
    assert first[2] is None and second[2] == output


def test_a_failure_reaches_every_process():
    assert run_ranks(FAIL) == ["ProcessError True", "ValueError True"]


LISTS = """
import sys, torch
from torch import nn
import pipescope
class Wraps(nn.Module):
    def forward(self, x):
        return [x, x + 1]
class Nests(nn.Module):
    def forward(self, pair):
        assert type(pair) is list
        return {"pair": (pair[0], None)}
class Unwraps(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
    def forward(self, value):
        return self.linear(value["pair"][0] if isinstance(value, dict) else value[0])
processes = pipescope.join_processes()
torch.manual_seed(0)
layers = [Wraps(), Nests(), Unwraps(), Wraps(), Unwraps()] if sys.argv[1] == "inside" else [Wraps(), Nests(), nn.Identity(), Unwraps()]
balance = [1, 2, 1, 1] if sys.argv[1] == "inside" else [1, 1, 1, 1]
model = pipescope.GPipe(layers, balance, devices=["cpu"] * 4, chunks=2, processes=processes)
x = torch.randn(4, 6) if processes.rank == 0 else None
try:
    print(model.step(x, torch.zeros(4, 6), nn.functional.mse_loss).item() > 0)
except (TypeError, pipescope.errors.ProcessError) as error:
    print(type(error).__name__, "to a layer of another process, which takes one tensor for a tensor" in str(error))
"""


def test_structures_stay_within_a_process():
    """Between two partitions of one process as well as within one."""
    assert run_ranks(LISTS, "inside") == ["True", "True"]
    assert run_ranks(LISTS, "across") == ["TypeError True", "ProcessError True"]
