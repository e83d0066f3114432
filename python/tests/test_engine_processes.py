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


SCALE = """
import json, os, sys, torch
from torch import nn
import pipescope
size, infinite, clip = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "clip"
torch.manual_seed(0)
layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
x, y = torch.randn(8, 6), torch.randn(8, 6)
mse = nn.functional.mse_loss
processes = pipescope.join_processes() if size > 1 else None
model = pipescope.GPipe(layers, [1] * 4, devices=["cpu"] * 4, chunks=4, schedule="1f1b", processes=processes)
rank = processes.rank if processes else 0
scaler = pipescope.GradScaler(model, init_scale=1024.0, growth_interval=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
said = []
for step in range(4):
    optimizer.zero_grad()
    loss = model.step(x if rank == 0 else None, y if rank == size - 1 else None, scaler.scale(mse))
    if step == 1 and infinite in dict(model.named_parameters()):
        dict(model.named_parameters())[infinite].grad.view(-1)[0] = float("inf")
    norm = None
    if clip:
        scaler.unscale_(optimizer)
        norm = pipescope.clip_grad_norm_(model, 0.1).item()
    scaler.step(optimizer)
    scaler.update()
    said.append([loss.item(), scaler.get_scale(), norm])
state = {name: value.double().sum().item() for name, value in model.state_dict().items()}
print(json.dumps([said, state]))
"""

CLIP = """
import json, os, sys, torch
from torch import nn
import pipescope
size, kind, skips = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
x, y = torch.randn(8, 6), torch.randn(8, 6)
processes = pipescope.join_processes() if size > 1 else None
model = pipescope.GPipe(layers, [1] * 4, devices=["cpu"] * 4, chunks=4, schedule="1f1b", processes=processes)
rank = processes.rank if processes else 0
try:
    norms = []
    for step in range(2):
        model.step(x if rank == 0 else None, y if rank == size - 1 else None, nn.functional.mse_loss)
        if rank != skips:
            norms.append(pipescope.clip_grad_norm_(model, 0.1, kind).item())
    gradients = {name: each.grad.double().sum().item() for name, each in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad[:] = float("nan")
    try:
        pipescope.clip_grad_norm_(model, 0.1, error_if_nonfinite=True)
    except RuntimeError as error:
        norms.append(str(error)[:20])
    pipescope.clip_grad_norm_(model, 0.1)  # the pipeline can still be used
    print(json.dumps([norms, gradients]))
except (pipescope.UsageError, pipescope.errors.ProcessError) as error:
    print("clip_grad_norm_" in str(error))
"""


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run_ranks(program: str, *words: str, size: int = 2) -> list[str]:
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
        for rank in range(size)
    ]
    try:
        outputs = [process.communicate(timeout=300) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0] * size, outputs
    return [out.strip().splitlines()[-1] for out, _ in outputs]


@pytest.mark.parametrize("meeting, schedule", [("own", "gpipe"), ("group", "1f1b"), ("own", "zero-bubble-h1")])
def test_two_processes_train_as_one(meeting, schedule):
    done = subprocess.run([sys.executable, "-c", TRAIN, "alone", schedule], capture_output=True, text=True, timeout=300)
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
inside = sys.argv[1] == "inside"
layers = [Wraps(), Nests(), *([Unwraps(), Wraps()] if inside else [nn.Identity()]), Unwraps()]
balance = [1, 2, 1, 1] if inside else [1, 1, 1, 1]
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


def run_one(program: str, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def joined(outputs: list[str]) -> tuple[object, dict[str, float]]:
    """What all ranks say, which must be equal, and the values of each rank's own layers."""
    said = [json.loads(text) for text in outputs]
    assert all(each[0] == said[0][0] for each in said)
    return said[0][0], {name: value for each in said for name, value in each[1].items()}


@pytest.mark.parametrize("infinite, clip", [("none", "clip"), ("0.weight", "clip"), ("3.bias", "no")])
def test_processes_scale_gradients_as_one(infinite, clip):
    alone = joined([run_one(SCALE, "1", infinite, clip)])
    said, _ = alone
    # Grows after two steps; an infinite gradient of any rank halves it, and all skip that update.
    assert [scale for _, scale, _ in said] == ([1024, 2048, 2048, 4096] if infinite == "none" else [1024, 512, 512, 1024])
    for size in (2, 4):
        assert joined(run_ranks(SCALE, str(size), infinite, clip, size=size)) == alone


@pytest.mark.parametrize("kind", ["2", "inf", "1.5"])
def test_processes_clip_gradients_as_one(kind):
    alone = joined([run_one(CLIP, "1", kind, "-1")])
    assert len(alone[0]) == 3 and "total norm" in alone[0][-1]
    for size in (2, 4):
        norms, gradients = joined(run_ranks(CLIP, str(size), kind, "-1", size=size))
        assert (norms[:2], gradients) == (alone[0][:2], alone[1]) and norms[2:] == ["the norm of all grad"]


def test_a_rank_that_does_not_clip_is_named_everywhere():
    assert run_ranks(CLIP, "2", "2", "1") == ["True", "True"]


def test_the_loss_of_a_scaled_step_is_the_loss_itself(tmp_path):
    import pipescope

    torch = pytest.importorskip("torch")
    layers = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 3))
    x, y = torch.randn(8, 6), torch.randn(8, 3)
    mse = torch.nn.functional.mse_loss
    model = pipescope.GPipe(layers, [1, 1], devices=["cpu"] * 2, chunks=2)
    scaler = pipescope.GradScaler(model)
    plain = model.step(x, y, mse)
    gradient = layers[0].weight.grad.clone()
    layers[0].weight.grad = None
    with model.record(tmp_path / "run.sqlite"):
        scaled = model.step(x, y, scaler.scale(mse))
    assert scaled == plain and torch.equal(layers[0].weight.grad, gradient * scaler.get_scale())
    assert pipescope.Trace.open(tmp_path / "run.sqlite").steps[0].training_loss == pytest.approx(plain.item())
    assert scaler.scale(torch.ones(2))[0] == scaler.get_scale()  # as torch's
    with pytest.raises(pipescope.UsageError, match="a GradScaler needs the gradients of all lanes"):
        model.train_staggered([(x, y)], scaler.scale(mse), lambda lane: None)
    assert pipescope.GradScaler(model, enabled=False).scale(mse) is mse
    for call in (lambda: pipescope.GradScaler(layers), lambda: pipescope.clip_grad_norm_(layers, 1.0)):
        with pytest.raises(TypeError, match="takes a pipescope.GPipe"):
            call()


PADDED = """
import json, sys, torch
from torch import nn
import pipescope
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
    def forward(self, x, mask):
        return self.linear(x) * mask
torch.manual_seed(0)
layers = nn.Sequential(Masked(), nn.Tanh(), nn.Linear(6, 3)).double()
x, y = torch.randn(8, 6, dtype=torch.float64), torch.randint(3, (8,))
y[:3] = -100
mask = torch.rand(6, dtype=torch.float64)
alone = sys.argv[1] == "alone"
processes = None if alone else pipescope.join_processes()
model = pipescope.GPipe(layers, [2, 1], devices=["cpu"] * 2, chunks=4, schedule=sys.argv[2], processes=processes,
                        weight=lambda target: (target["y"] != -100).sum(), split={"mask": None})
rank = 0 if alone else processes.rank
first, last = alone or rank == 0, alone or rank == 1
loss = model.step(x if first else None, {"y": y, "names": list("abcdefgh")} if last else None,
                  lambda out, target: nn.functional.cross_entropy(out, target["y"]), **({"mask": mask} if first else {}))
print(json.dumps([loss.item(), {name: p.grad.sum().item() for name, p in model.named_parameters()}]))
"""


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_two_processes_weigh_losses_and_take_keywords_as_one_does(schedule):
    done = subprocess.run([sys.executable, "-c", PADDED, "alone", "gpipe"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    loss, gradients = json.loads(done.stdout.splitlines()[-1])
    first, second = (json.loads(text) for text in run_ranks(PADDED, "own", schedule))
    assert first[0] == pytest.approx(loss, rel=1e-12) and second[0] == pytest.approx(loss, rel=1e-12)
    assert {**first[1], **second[1]} == pytest.approx(gradients, rel=1e-12, abs=1e-14)
