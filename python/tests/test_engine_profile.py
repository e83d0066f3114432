"""Profiles of Python modules; names for torch.distributed.pipelining; programs written for torchgpipe."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import warnings

import pipescope
import pytest
import torch
import torch.nn.utils.prune
import torch.utils.checkpoint
from torch import nn

mse = nn.functional.mse_loss


def layers_of(count: int = 4) -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(count)])


def test_a_profile_leaves_random_numbers_alone():
    import random

    import numpy

    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.rand(1) * random.random() * float(numpy.random.rand())

    layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), Noise())
    x = torch.randn(4, 8)
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    pipescope.profile(layers, x, samples=[2], time_limit_s=0.5)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]
    assert all(numpy.array_equal(one, other) for one, other in zip(numpy.random.get_state(), before[2]))


def test_a_convolution_that_a_saved_tensors_hook_ends_is_profiled():
    class Checkpointed(nn.Module):  # its recompute ends by an exception once all saved tensors are there
        def __init__(self):
            super().__init__()
            self.inner = nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    profile = pipescope.profile([Checkpointed()], torch.randn(8, 3, 6, 6), samples=[2], time_limit_s=0.5)
    assert len(profile.layers) == 1


def test_a_profile_describes_the_layers_and_leaves_them_alone():
    layers = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 8)).eval()
    before = {name: value.clone() for name, value in layers.state_dict().items()}
    x, y = torch.randn(16, 64), torch.randn(16, 8)
    profile = pipescope.profile(layers, x, y, mse, samples=[2, 4], time_limit_s=1)
    assert [layer.name for layer in profile.layers] == ["Linear", "BatchNorm1d", "Dropout", "Linear"]
    assert profile.samples == (2, 4)
    assert profile.layers[0].parameter_bytes == (64 * 64 + 64) * 4
    assert all(layer.forward_ns[0] > 0 and layer.backward_ns[0] > 0 for layer in profile.layers)
    assert profile.layers[3].output_bytes == (2 * 8 * 4, 4 * 8 * 4)
    assert all(torch.equal(value, before[name]) for name, value in layers.state_dict().items())
    assert not layers.training and all(p.grad is None for p in layers.parameters())
    found = profile.balance(2, batch=16, chunks=4)
    assert sum(found) == 4
    assert profile.simulate(balance=found, batch=16, chunks=4).step_ns > 0


def test_an_estimate_has_the_measured_bytes_and_flops():
    layers = layers_of()
    x = torch.randn(4, 64)
    measured = pipescope.profile(layers, x, samples=[4], time_limit_s=0.5)
    estimate = pipescope.profile(layers, x, samples=[4], estimate_for="H100")
    for one, other in zip(measured.layers, estimate.layers):
        assert one.parameter_bytes == other.parameter_bytes
        assert one.output_bytes == other.output_bytes
        assert one.saved_bytes == other.saved_bytes
        assert one.flops == other.flops
    with torch.device("meta"):
        large = layers_of(2)
    assert len(pipescope.profile(large, torch.empty(4, 64, device="meta"), samples=[4], estimate_for="H100")) == 2
    with pytest.raises(pipescope.UsageError, match="meta device"):
        pipescope.profile(large, x)


class OneAttention(nn.Module):
    """Attention of 4 heads, with half as many for keys and values if `grouped`, with a mask or causal."""

    def __init__(self, grouped, masked) -> None:
        super().__init__()
        self.grouped, self.masked, self.linear = grouped, masked, nn.Linear(64, 64)

    def forward(self, x):
        query = self.linear(x).unflatten(-1, (4, 16)).transpose(1, 2)
        keys = query[:, :2] if self.grouped else query
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device) if self.masked else None
        out = nn.functional.scaled_dot_product_attention(query, keys, keys, attn_mask=mask, is_causal=not self.masked,
                                                         enable_gqa=self.grouped)
        return out.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_an_estimate_counts_attention_as_one_operator(grouped, masked):
    x = torch.randn(2, 128, 64)
    layers = nn.Sequential(OneAttention(grouped, masked))
    estimate = pipescope.profile(layers, x, samples=[2], estimate_for="H100").layers[0]
    if not grouped:
        measured = pipescope.profile(layers, x, samples=[2], time_limit_s=0.5).layers[0]
        assert estimate.flops == measured.flops
    products = 2 * 2 * 128 * 64 * 64
    assert estimate.flops[0] == products + 2 * 2 * 4 * 128 * 128 * (16 + 16)
    scores = 2 * 4 * 128 * 128 * 4
    assert estimate.saved_bytes[0] < scores  # they are not stored
    # Outside of a profile nothing has changed: there is no such kernel for these heads, which have 3 dimensions.
    assert nn.functional.scaled_dot_product_attention(*3 * [torch.empty(2, 5, 8, device="meta")]).shape == (2, 5, 8)


class Buffered(nn.Module):
    """Buffers, a tensor that is none, and one in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cosines", torch.linspace(0, 1, 64))
        self.register_buffer("sines", torch.linspace(1, 0, 64), persistent=False)
        self.scale = torch.full((64,), 2.0)
        self.more = [torch.ones(64)]
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return self.linear(x) * self.cosines + x * self.sines * self.scale * self.more[0]


def test_an_estimate_of_modules_with_buffers_has_the_measured_bytes():
    layers = nn.Sequential(nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)), nn.BatchNorm1d(64), Buffered())
    x = torch.randn(8, 64)
    measured = pipescope.profile(layers, x, samples=[4], time_limit_s=0.5)
    estimate = pipescope.profile(layers, x, samples=[4], estimate_for="H100")
    for one, other in zip(measured.layers, estimate.layers, strict=True):
        assert (one.parameter_bytes, one.buffer_bytes, one.output_bytes) == (
            other.parameter_bytes, other.buffer_bytes, other.output_bytes)
    assert layers[1].running_mean.device.type == layers[2].scale.device.type == "cpu"


def test_a_loss_may_ignore_an_output():
    class Both(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear, self.other = nn.Linear(8, 8), nn.Linear(8, width)

        def forward(self, x):
            return self.linear(x), self.other(x)

    x, y = torch.randn(8, 8), torch.randn(8, 8)
    for width in (8, 1):  # an ignored output of one value gets no gradient either
        layers = nn.Sequential(nn.Linear(8, 8), Both(width))
        profile = pipescope.profile(layers, x, y, lambda output, target: mse(output[0], target), samples=[1, 2], time_limit_s=0.5)
        assert len(profile.layers) == 2


def test_integer_outputs_and_losses_that_are_no_tensors():
    class Chooses(nn.Module):
        def forward(self, x):
            return x.argmax(dim=1)

    x = torch.randn(8, 8)
    assert len(pipescope.profile([nn.Linear(8, 8), Chooses()], x, samples=[2], time_limit_s=0.5)) == 2
    with pytest.raises(TypeError, match="the loss function returned float"):
        pipescope.profile([nn.Linear(8, 8)], x, x, lambda output, target: 1.5, samples=[2], time_limit_s=0.5)


def test_what_cannot_be_profiled_is_refused_with_a_reason():
    x = torch.randn(8, 8)
    layers = [nn.Linear(8, 8)]
    for module, sample, options, error, message in (
        (layers, None, {}, TypeError, "sample is a NoneType without a tensor"),
        (layers, [1, 2], {}, TypeError, "sample is a list without a tensor"),
        (layers, x, {"target": 3, "loss": mse}, TypeError, "target is a int without a tensor"),
        (layers, x, {"target": x, "loss": nn.MSELoss(reduction="none")}, pipescope.UsageError, "returned 8 values"),
        (layers, x, {"target": x, "loss": nn.MSELoss}, TypeError, r"give MSELoss\(\)"),
        (layers, x, {"samples": "1;2"}, pipescope.UsageError, "write it as '1,2,4'"),
        (layers, x, {"samples": [1.5]}, TypeError, "samples is 1.5"),
        (layers, x, {"device": "gpu"}, pipescope.UsageError, "device is 'gpu', which torch does not know"),
        ([nn.Embedding(8, 8, sparse=True)], torch.arange(8), {}, pipescope.UsageError, r"layer 0 \(Embedding\) has a sparse"),
        ([torch.jit.script(nn.Linear(8, 8))], x, {}, pipescope.UsageError, "is scripted"),
    ):
        with pytest.raises(error, match=message):
            pipescope.profile(module, sample, **{"samples": [1], "time_limit_s": 0.5, **options})
    assert pipescope.profile(layers, x, samples="1,2", time_limit_s=0.5).samples == (1, 2)


def test_layers_that_keep_a_computed_weight_are_profiled():
    layers = [nn.utils.weight_norm(nn.Linear(8, 8)), nn.Linear(8, 8), nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))]
    torch.nn.utils.prune.random_unstructured(layers[1], "weight", 0.5)
    for options in ({}, {"estimate_for": "H100"}):
        assert len(pipescope.profile(layers, torch.randn(8, 8), samples=[2], time_limit_s=0.5, **options)) == 3


def test_batch_norm_is_not_measured_with_one_value():
    layers = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.BatchNorm1d(8), nn.ReLU()))
    assert pipescope.profile(layers, torch.randn(8, 8), time_limit_s=0.5).samples == (2, 4, 8)
    assert pipescope.profile([nn.Linear(8, 8)], torch.randn(8, 8), time_limit_s=0.5).samples == (1, 2, 4)


class Transposes(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=batch_first)

    def forward(self, x):
        return self.lstm(x)[0]


@pytest.mark.parametrize("kind", ["encoder", "lstm"])
def test_a_model_whose_first_dimension_is_the_sequence_is_told_so(kind):
    def layers_of(batch_first: bool) -> list[nn.Module]:
        if kind == "lstm":
            return [nn.Linear(8, 8), Recurrent(batch_first)]
        return [nn.Linear(8, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)]

    x = torch.randn(4, 5, 8)
    with pytest.warns(UserWarning, match="use batch_first=True, or say where the samples are, as by split="):
        pipescope.profile(layers_of(False), x, samples=[2], time_limit_s=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipescope.profile(layers_of(True), x, samples=[2], time_limit_s=0.5)
        pipescope.profile([Transposes(), *layers_of(False), Transposes()], x, samples=[2], time_limit_s=0.5)
        pipescope.profile([nn.Dropout(0.5), nn.BatchNorm1d(5), Noise()], x, samples=[2], time_limit_s=0.5)


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand(1)


@pytest.mark.parametrize("estimate_for", [None, "H100"])
def test_outputs_whose_samples_are_not_in_the_first_dimension_are_refused(estimate_for):
    with pytest.raises(pipescope.UsageError, match=r"shape \(5, 1, 8\) for 1 samples.*batch_first=True"):
        pipescope.profile([nn.Linear(8, 8), Transposes()], torch.randn(4, 5, 8), samples=[1, 2], time_limit_s=0.5,
                          estimate_for=estimate_for)


class Attends(nn.Module):
    """The sequence first: x has the shape (places, samples, 8), mask (places, places), offsets (samples,)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2)

    def forward(self, x, mask=None, offsets=None, scale=1.0):
        assert mask.shape == (5, 5) and offsets.shape == (x.shape[1],), (mask.shape, offsets.shape, x.shape)
        return self.inner(x + offsets[:, None], x, x, attn_mask=mask)[0] * scale


@pytest.mark.parametrize("estimate_for", [None, "H100"])
def test_a_profile_cuts_the_inputs_by_keyword_as_split_says(estimate_for):
    layers = [Attends(), nn.Linear(8, 8)]
    x, mask, offsets = torch.randn(5, 4, 8), torch.zeros(5, 5), torch.zeros(4)
    inputs = {"mask": mask, "offsets": offsets, "scale": 2.0}
    split = {0: 1, "mask": None, "output": 1, "target": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile = pipescope.profile(layers, x, x, mse, samples=[2, 3], time_limit_s=0.5, inputs=inputs, split=split,
                                    estimate_for=estimate_for)
    assert [layer.name for layer in profile.layers] == ["Attends", "Linear"]
    assert profile.layers[1].output_bytes == (5 * 2 * 8 * 4, 5 * 3 * 8 * 4)
    assert profile.layers[0].parameter_bytes == sum(each.nbytes for each in layers[0].parameters())
    made = {**split, "offsets": lambda whole, first, end: whole[first:end]}
    assert pipescope.profile(layers, x, x, mse, samples=[4], time_limit_s=0.5, inputs=inputs, split=made).samples == (4,)
    with pytest.raises(pipescope.UsageError, match="5 samples are measured, and a function of split"):
        pipescope.profile(layers, x, x, mse, samples=[5], time_limit_s=0.5, inputs=inputs, split=made)


@pytest.mark.parametrize("call", ["step", "forward", "train_staggered"])
def test_a_balance_is_found_with_inputs_by_keyword_and_split(call):
    torch.manual_seed(0)
    layers = [Attends(), nn.Linear(8, 8), nn.Linear(8, 8)]
    x, y, mask, offsets = torch.randn(5, 4, 8), torch.randn(5, 4, 8), torch.zeros(5, 5), torch.randn(4)
    inputs = {"mask": mask, "offsets": offsets}
    mse(layers[2](layers[1](layers[0](x, **inputs))), y).backward()
    expected = [each.grad for layer in layers for each in layer.parameters()]
    for layer in layers:
        layer.zero_grad()
    model = pipescope.GPipe(layers, devices=["cpu"] * 2, chunks=2, split={0: 1, "mask": None, "output": 1, "target": 1})
    if call == "step":
        model.step(x, y, mse, **inputs)
    elif call == "forward":
        mse(model(x, **inputs), y).backward()
    else:
        model.train_staggered([(x, y, inputs)], mse, lambda lane: None)
    assert len(model.balance) == 2
    found = [each.grad for layer in layers for each in layer.parameters()]
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, expected, strict=True))


def test_a_profile_of_layers_that_pass_on_dicts_and_none():
    class Wraps(nn.Module):
        def forward(self, x):
            return {"x": x, "mask": None, "pair": (x, x)}

    class Unwraps(nn.Module):
        def forward(self, value):
            assert value["mask"] is None
            return value["x"] + value["pair"][1]

    layers = [nn.Linear(8, 8), Wraps(), Unwraps(), Wraps()]
    assert len(pipescope.profile(layers, torch.randn(8, 8), samples=[2], time_limit_s=0.5)) == 4
    assert len(pipescope.profile(layers[1:], torch.randn(8, 8), samples=[2], estimate_for="H100")) == 3
    model = pipescope.GPipe(layers, devices=["cpu"] * 2, chunks=2)
    model.step(torch.randn(8, 8, requires_grad=True), None, lambda output, _: output["x"].mean())
    assert len(model.balance) == 2


def test_a_layers_exception_ends_a_profile():
    class Raises(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        pipescope.profile([Raises()], torch.randn(4, 4), samples=[1])
    with pytest.raises(pipescope.UsageError, match="without a loss"):
        pipescope.profile([nn.Identity()], torch.randn(4, 4), torch.randn(4, 4))


# ---- annotate() ----

RANK = """
import json, os, sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.profiler import profile, ProfilerActivity
import pipescope
rank = int(sys.argv[1])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2], RANK=str(rank), WORLD_SIZE="2")
dist.init_process_group("gloo")
stage = PipelineStage(nn.Linear(8, 8), rank, 2, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
pipescope.annotate(schedule)
pipescope.annotate(stage)   # changes nothing more
def step():
    schedule.step(torch.randn(8, 8)) if rank == 0 else schedule.step(target=torch.randn(8, 8))
step()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    step()
profiler.export_chrome_trace(f"{sys.argv[3]}/rank{rank}_trace.json")
print(json.dumps(sorted(event.name for event in profiler.events() if event.name.startswith("PP:"))))
dist.destroy_process_group()
"""


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_annotate_names_every_task_and_message_of_1f1b_once(tmp_path):
    port = str(free_port())
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), port, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) for rank in range(2)]
    try:
        outputs = [process.communicate(timeout=300) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    for rank, (out, err) in enumerate(outputs):
        assert out, err
        messages = ["SEND_F", "RECV_B"] if rank == 0 else ["RECV_F", "SEND_B"]
        expected = sorted(f"PP:{rank}{kind}{chunk}" for kind in ["F", "B", *messages] for chunk in range(4))
        assert out.strip().splitlines()[-1].replace('"', "'") == str(expected)
    trace = pipescope.Trace.open(tmp_path)
    kinds = [task.kind for task in trace.tasks]
    assert [kinds.count(kind) for kind in ("forward", "backward", "copy_forward", "copy_backward")] == [8, 8, 4, 4]
    assert not any("could not be checked" in each for each in trace.warnings), trace.warnings
    assert trace.measured_run().options["batch"] == 8  # as the messages show it


@pytest.mark.parametrize("profiles", [False, True])
def test_annotate_costs_little(profiles):
    from torch.distributed.pipelining.stage import _PipelineStageBase

    from pipescope._annotate import _named

    class Stage:
        stage_index = 0
        device = torch.device("cpu")

    stage = Stage()

    def task(chunk, *args, **kwargs):
        return chunk

    named = _named(task, "forward_one_chunk", stage)
    count, chunks = 4000, 8
    best = {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if profiles else contextlib.nullcontext():
        for _ in range(5):
            for name, function in (("plain", task), ("named", named)):
                start = time.perf_counter()
                for k in range(count):
                    function(k % chunks, (), None)
                took = (time.perf_counter() - start) / count
                best[name] = min(took, best.get(name, took))
    cost = best["named"] - best["plain"]
    print(f"annotate: {1e6 * cost:.2f} µs a task, {'with' if profiles else 'without'} a profiler")
    assert cost < 20e-6  # the promise is 2 µs
    assert not getattr(_PipelineStageBase.forward_one_chunk, "_is_annotated", False)
    with pytest.raises(TypeError, match="schedule or a stage"):
        pipescope.annotate(nn.Linear(1, 1))


# ---- compat ----


def test_a_program_written_for_torchgpipe():
    program = """
import pipescope.compat
pipescope.compat.install()
import torch, torchgpipe
from torch import nn
from torchgpipe import GPipe, is_checkpointing, is_recomputing
from torchgpipe.balance import balance_by_time
from torchgpipe.batchnorm import DeferredBatchNorm
from torchgpipe.skip import Namespace, pop, skippable, stash, verify_skippables

@skippable(stash=["skip"])
class Stash(nn.Module):
    def forward(self, x):
        yield stash("skip", x)
        return x * 2

@skippable(pop=["skip"])
class Pop(nn.Module):
    def forward(self, x):
        skip = yield pop("skip")
        return x + skip

inside, across = Namespace(), Namespace()
layers = nn.Sequential(Stash().isolate(across), Stash().isolate(inside), nn.Linear(4, 4), Pop().isolate(inside),
                       Pop().isolate(across))
x = torch.randn(6, 4)
expected = layers(x)
expected.sum().backward()
gradient = layers[2].weight.grad.clone()
layers.zero_grad()
balance = balance_by_time(2, nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), x, timeout=0.1, device="cpu")
assert balance == [1, 1]
model = GPipe(layers, [4, 1], devices=["cpu", "cpu"], chunks=3, checkpoint="always")
assert "partitions.0.2.weight" in model.state_dict()
output = model(x)
output.sum().backward()
assert torch.allclose(output, expected) and torch.allclose(layers[2].weight.grad, gradient)
print(torchgpipe.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "pipescope.compat.torchgpipe", done.stderr
