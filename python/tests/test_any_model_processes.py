"""Models as their authors wrote them, in several processes: tied weights, skips, keywords, the model's own loss."""

from __future__ import annotations

import json
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pipescope._torch")

from test_engine_processes import run_one, run_ranks  # noqa: E402

HEAD = f"""
import json, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import torch
from torch import nn
import pipescope
from test_any_model import CASES, Language, Translator, UNet, language_batch, plain_step, squares
torch.set_num_threads(1)
size, case, schedule, dropout = int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
processes = pipescope.join_processes() if size > 1 else None
rank = processes.rank if processes else 0
torch.manual_seed(1)
make, batch_of, loss = CASES[case]
batch = batch_of(6)
model = (Language(dropout) if case == "language" else make()).double()
layers = pipescope.layers_of(model, batch_of(4))
count = len(layers)

def pipeline(lanes=2, **options):
    balance = [count // lanes + (k < count % lanes) for k in range(lanes)]
    return pipescope.GPipe(layers, balance, **{{"devices": ["cpu"] * lanes, "chunks": 3, "schedule": schedule,
                                               "checkpoint": "always", "processes": processes, "seed": 5, **options}})
"""

TRAIN = HEAD + """
pipe = pipeline(max(2, size))
_, plain = plain_step(model, batch, loss, 3)
model.zero_grad()
optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2, eps=1e-6)
losses, worst = [], 0.0
for step in range(3):
    optimizer.zero_grad()
    losses.append(pipe.step(batch, loss=loss).item())
    if step == 0:
        gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
        worst = max(float((each - plain[name]).abs().max()) for name, each in gradients.items())
    optimizer.step()
state = {name: each.tolist() for name, each in pipe.state_dict().items()}
pipe.eval()
with torch.no_grad():
    values = pipe(**batch)
values = torch.utils._pytree.tree_leaves(values)
print(json.dumps([losses, sorted(gradients), worst, state, [None if each is None else each.double().sum().item() for each in values]]))
"""


def trained(case, schedule, dropout, size):
    words = [str(size), case, schedule, str(dropout)]
    outputs = run_ranks(TRAIN, *words, size=size) if size > 1 else [run_one(TRAIN, *words)]
    return [json.loads(text) for text in outputs]


@pytest.mark.parametrize("case, schedule, dropout, size", [
    ("language", "gpipe", 0.0, 2), ("language", "1f1b", 0.0, 2), ("language", "zero-bubble-h1", 0.3, 2),
    ("language", "1f1b", 0.3, 3), ("translator", "1f1b", 0.0, 2), ("unet", "1f1b", 0.0, 2), ("repeated", "zero-bubble-h1", 0.0, 2),
])
def test_processes_train_a_model_as_one_does(case, schedule, dropout, size):
    (alone,) = trained(case, schedule, dropout, 1)
    ranks = trained(case, schedule, dropout, size)
    joined = {}
    for losses, names, worst, state, _ in ranks:
        assert losses == pytest.approx(alone[0], rel=1e-12)
        assert dropout or worst < 1e-12
        for name, value in state.items():
            joined.setdefault(name, []).append(value)
    assert sorted({name for each in ranks for name in each[1]}) == alone[1]
    assert joined.keys() == alone[3].keys()
    for name, values in joined.items():
        for value in values:
            assert torch.tensor(value).sub(torch.tensor(alone[3][name])).abs().max() < 1e-12, name
    assert ranks[-1][4] == pytest.approx(alone[4], rel=1e-12)


DROPOUT = HEAD + """
loss = pipeline().step(batch, loss=loss)
print(json.dumps([loss.item(), {name: each.grad.tolist() for name, each in model.named_parameters() if each.grad is not None}]))
"""


def test_dropout_is_that_of_one_process_bit_for_bit():
    words = ["language", "1f1b", "0.4"]
    loss, gradients = json.loads(run_one(DROPOUT, "1", *words))
    ranks = [json.loads(text) for text in run_ranks(DROPOUT, "2", *words)]
    assert [each[0] for each in ranks] == [loss] * 2
    assert {**ranks[0][1], **ranks[1][1]} == gradients


REPLICAS = HEAD + """
_, plain = plain_step(model, batch, loss, 2)
model.zero_grad()
of_replica = rank // (size // 2)
part = {name: each[3 * of_replica:3 * of_replica + 3] for name, each in batch.items()}
pipe = pipeline(size // 2, replicas=2, chunks=1)
value = pipe.step(part, loss=loss)
found = {name: float((each.grad - plain[name]).abs().max()) for name, each in model.named_parameters() if each.grad is not None}
print(json.dumps([value.item(), found]))
"""


@pytest.mark.parametrize("size", [2, 4])
def test_replicas_have_the_gradient_of_all_samples(size):
    ranks = [json.loads(text) for text in run_ranks(REPLICAS, str(size), "language", "1f1b", "0", size=size)]
    assert len({each[0] for each in ranks}) == 1
    assert max(value for each in ranks for value in each[1].values()) < 1e-12
    assert ranks[0][1].keys() == ranks[size // 2][1].keys()


FAIL = HEAD + """
pipe = pipeline()
batch["labels"][3, 2] = 20
try:
    pipe.step(batch)
except (IndexError, pipescope.errors.ProcessError) as error:
    print(type(error).__name__, "out of" in str(error) or "Target" in str(error))
"""


def test_a_failure_reaches_every_process():
    assert run_ranks(FAIL, "2", "language", "1f1b", "0") == ["ProcessError True", "IndexError True"]


FILES = HEAD + """
pipe = pipeline()
pipe.step(batch)
own = pipe.state_dict()
pipe.load_state_dict(own)
pipe.load_state_dict(model.state_dict())
try:
    pipe.load_state_dict({name: each for name, each in list(own.items())[1:]})
except RuntimeError as error:
    assert list(own)[0] in str(error), error
names = [name for name, _ in pipe.named_parameters()]
assert all(dict(model.named_parameters())[name].grad is not None for name in names if name in own)
assert pipe.module is model and len(model.state_dict()) == len(Language().state_dict())
print(json.dumps([sorted(own), names]))
"""


def test_each_process_saves_what_its_lanes_train():
    first, second = (json.loads(text) for text in run_ranks(FILES, "2", "language", "1f1b", "0"))
    (whole,) = [json.loads(run_one(FILES, "1", "language", "1f1b", "0"))]
    assert not set(first[0]) & set(second[0]) and sorted(first[0] + second[0]) == whole[0]
    # A tied weight is a parameter of each process that uses it, and gets its gradient where it is held.
    assert {*first[1], *second[1]} == {*whole[1]} and {*first[1]} & {*second[1]} == {"tokens.weight"}
    assert {"tokens.weight", "head.weight"} <= set(first[0])
