"""Parameters that several layers of a traced model use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from torch import nn  # noqa: E402

functional = nn.functional


class Tied(nn.Module):
    """An embedding that is the last layer too, and a layer that stands three times."""

    def __init__(self, width=6):
        super().__init__()
        self.tokens = nn.Embedding(11, width)
        self.first, self.again, self.last = (nn.Linear(width, width) for _ in range(3))

    def forward(self, ids, labels=None):
        x = torch.tanh(self.first(self.tokens(ids)))
        for _ in range(3):
            x = torch.tanh(self.again(x))
        logits = functional.linear(self.last(x), self.tokens.weight)
        loss = None if labels is None else functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


def batch_of(rows=7):
    torch.manual_seed(5)
    return {"ids": torch.randint(11, (rows, 4)), "labels": torch.randint(11, (rows, 4))}


def made(seed=1):
    torch.manual_seed(seed)
    return Tied().double()


def layers(model):
    return pipescope.layers_of(model, batch_of(4))


def even(count, partitions):
    return [count // partitions + (k < count % partitions) for k in range(partitions)]


def plain_gradients(model, batch, rows):
    """Micro-batch by micro-batch, of so many rows."""
    model.zero_grad()
    total = len(batch["ids"])
    for first in range(0, total, rows):
        part = {name: each[first : first + rows] for name, each in batch.items()}
        (model(**part)["loss"] * len(part["ids"]) / total).backward()
    return {name: each.grad.clone() for name, each in model.named_parameters()}


def worst(model, expected):
    return max(float((each.grad - expected[name]).abs().max()) for name, each in model.named_parameters())


def test_the_layers_say_what_they_share():
    found = layers(made())
    text = str(found)
    assert "shared tokens.weight of layer 0" in text and "shared again.weight of layer" in text
    assert [each.name for each in found.crossings] == ["labels"]  # no parameter goes with the micro-batches
    names = [name for uses in found.shared for _, name in uses]
    assert names.count("tokens.weight") == 2 and names.count("again.weight") >= 2
    own = [name for layer in found.values() for name, _ in layer.named_parameters() if name not in layer.copies]
    assert sorted(own) == sorted(name for name, _ in found.model.named_parameters())


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble-h1", "zero-bubble-v"])
def test_one_set_of_layers_serves_pipelines_of_any_balance(schedule):
    """A tensor that follows its holder on one lane is a copy of its own on two."""
    found, batch = layers(made()), batch_of(8)
    model = found.model
    expected = plain_gradients(model, batch, 2)
    for lanes in (1, 2, 3, 1, 2):
        partitions = lanes * (2 if schedule in ("interleaved", "zero-bubble-v") else 1)
        if partitions > len(found) or (lanes == 1 and schedule != "gpipe"):
            continue
        pipe = pipescope.GPipe(found, even(len(found), partitions), devices=["cpu"] * lanes, chunks=4, schedule=schedule)
        for _ in range(2):
            model.zero_grad()
            pipe.step(batch)
            assert worst(model, expected) < 1e-12


def test_the_callers_loss_and_frozen_parameters_are_right():
    found, batch = layers(made()), batch_of(6)
    model = found.model
    pipe = pipescope.GPipe(found, even(len(found), 3), devices=["cpu"] * 3, chunks=3)
    for frozen in (None, "tokens", "again", None):
        for name, each in model.named_parameters():
            each.requires_grad_(not name.startswith(str(frozen)))
        model.zero_grad()
        model(**batch)["loss"].backward()
        expected = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
        model.zero_grad()
        logits = pipe(**batch)["logits"]
        functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten()).backward()
        for name, each in model.named_parameters():
            assert (each.grad is None) == (name not in expected), name
            assert each.grad is None or float((each.grad - expected[name]).abs().max()) < 1e-12, name


def test_optimizers_and_hooks_see_one_parameter():
    model, plain, batch = made(), made(), batch_of(6)
    pipe = pipescope.GPipe(layers(model), even(len(layers(model)), 2), devices=["cpu"] * 2, chunks=3, schedule="1f1b")
    assert len(list(pipe.parameters())) == len(list(model.parameters()))
    calls = []
    model.tokens.weight.register_post_accumulate_grad_hook(lambda each: calls.append(each.grad.clone()))
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.01, eps=1e-6) for each in (pipe, plain)]
    for _ in range(3):
        for each in optimizers:
            each.zero_grad()
        pipe.step(batch)
        plain_gradients(plain, batch, 2)
        assert float((calls[-1] - plain.tokens.weight.grad).abs().max()) < 1e-12
        for each in optimizers:
            each.step()
    assert len(calls) == 3
    assert max(float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), plain.parameters())) < 1e-12
    model.eval(), plain.eval()
    with torch.no_grad():
        assert torch.allclose(pipe(**batch)["logits"], plain(**batch)["logits"], atol=1e-12)


def test_a_recording_has_each_task_once_a_step(tmp_path):
    batch = batch_of(8)
    pipe = pipescope.GPipe(layers(made()), even(len(layers(made())), 2), devices=["cpu"] * 2, chunks=4, schedule="1f1b")
    with pipe.record(tmp_path / "run.sqlite", warmup=0):
        for _ in range(2):
            pipe.step(batch)
    tasks = list(pipescope.Trace.open(tmp_path / "run.sqlite").tasks)
    for kind in ("shared_forward", "shared_backward", "shared_sum"):
        assert sum(each.kind == kind for each in tasks) == 2, kind
    assert sum(each.kind == "skip_forward" for each in tasks) == 2 * 4  # the labels


def test_a_profile_counts_a_shared_parameter_once():
    model = made()
    found = layers(model)
    profile = pipescope.profile(found, sample=batch_of(4), samples=[1, 2], time_limit_s=1, tapes=False)
    described = json.loads(profile.to_json())["layers"]
    total = sum(each.numel() * each.element_size() for each in model.parameters())
    assert sum(each["parameter_bytes"] for each in described) == total
    assert sum(each["gradient_bytes"] for each in described) == total
    tokens = model.tokens.weight.numel() * 8
    uses = [k for k, each in enumerate(described) if "tokens.weight" in each.get("shared", {})]
    assert uses == [0, len(found) - 1]
    assert described[0]["shared"]["tokens.weight"] == {"parameter_bytes": tokens, "gradient_bytes": tokens}
    simulated = profile.simulate(batch=8, chunks=4, balance=even(len(found), 2), schedule="1f1b")
    assert {each.kind for each in simulated.timeline} >= {"shared_forward", "shared_backward", "shared_sum"}


PROCESSES = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
import pipescope
from test_shared_parameters import batch_of, even, layers, made
processes = pipescope.join_processes() if sys.argv[2] == "group" else None
model = made()
found = layers(model)
pipe = pipescope.GPipe(found, even(len(found), 3), devices=["cpu"] * 3, chunks=3, schedule=sys.argv[3], processes=processes)
optimizer = torch.optim.AdamW(pipe.parameters(), lr=0.01, eps=1e-6)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    losses.append(pipe.step(batch_of(7)).item())
    optimizer.step()
with torch.no_grad():
    logits = pipe.eval()(**batch_of(7))
here = {name: each.grad.sum().item() for name, each in model.named_parameters() if each.grad is not None}
print(json.dumps([losses, here, None if logits is None else logits["logits"].sum().item()]))
"""


@pytest.mark.parametrize("schedule", ["gpipe", "zero-bubble-h1"])
def test_processes_give_the_same_answer(schedule):
    def run(size, rank, port):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return subprocess.Popen(
            [sys.executable, "-c", PROCESSES, os.path.dirname(__file__), "group" if size > 1 else "alone", schedule],
            env=env, stdout=subprocess.PIPE, text=True,
        )

    def said(processes):
        texts = [each.communicate(timeout=300)[0] for each in processes]
        assert all(each.returncode == 0 for each in processes)
        return [json.loads(text) for text in texts]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (alone,) = said([run(1, 0, port)])
    group = said([run(3, rank, port) for rank in range(3)])
    for losses, _, _ in group:
        assert losses == pytest.approx(alone[0], abs=1e-12)
    assert [each[2] for each in group[:2]] == [None, None]
    assert group[2][2] == pytest.approx(alone[2], abs=1e-9)  # with the values after the last update
    gradients = {}
    for _, here, _ in group:
        assert not gradients.keys() & here.keys()  # each parameter trains in one process
        gradients.update(here)
    assert gradients == pytest.approx(alone[1], abs=1e-12)
