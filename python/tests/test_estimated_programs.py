"""Times that are estimated for a program: those of a traced model are those of its description."""

import pipescope
import pytest
import torch
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, KV, MLP, VOCABULARY, SEQUENCE = 2, 2048, 16, 4, 5632, 32000, 1024
DESCRIBED = (
    f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},kv_heads={KV},sequence={SEQUENCE},vocabulary={VOCABULARY},mlp={MLP},"
    "gated=true,dropout=false,norm=rms"
)


class Block(nn.Module):
    """A block as fused programs write it: one product for queries, keys and values, and one for both inputs of the gate."""

    def __init__(self, masked) -> None:
        super().__init__()
        head = HIDDEN // HEADS
        self.masked = masked
        self.sizes = [HIDDEN, KV * head, KV * head]
        self.first, self.second = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, sum(self.sizes), bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up, self.down = nn.Linear(HIDDEN, 2 * MLP, bias=False), nn.Linear(MLP, HIDDEN, bias=False)

    def forward(self, x):
        query, key, value = (
            each.unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for each in self.qkv(self.first(x)).split(self.sizes, -1)
        )
        mask = None
        if self.masked:
            mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        attended = functional.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        gate, up = self.up(self.second(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, masked=False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block(masked) for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())


def traced(masked=False, **options):
    with torch.device("meta"):
        model = Model(masked).to(torch.bfloat16)
    ids = torch.zeros(2, SEQUENCE, dtype=torch.int64)
    return pipescope.profile(model, sample=(ids, ids), estimate_for="H100", samples=[1], **options)


def step_of(profile):
    return profile.simulate(balance=[len(profile)], batch=1, chunks=1).step_ns


# Programs that state no launches per block: the host would set the time of a described block this small.
@pytest.mark.parametrize("program", ["torchtitan", "maxtext"])
def test_a_traced_model_takes_what_its_description_takes(program):
    described = pipescope.simulate_layout(DESCRIBED, "dgx-h100", batch=1, gradient_bytes=2, program=program)
    profile = traced(program=program)
    assert sum(layer.parameter_bytes for layer in profile.layers) == 2 * described.model_parameters
    assert step_of(profile) == pytest.approx(described.pipeline_ns, rel=0.05)


def test_eager_pytorch_moves_each_operators_bytes():
    assert step_of(traced()) > 1.3 * step_of(traced(program="maxtext"))


def test_a_mask_that_forbids_later_tokens_is_causal():
    with_mask, causal = (
        [each for layer in traced(masked).to_dict()["layers"] for each in layer["forward_operators"][0] if len(each) > 3]
        for masked in (True, False)
    )
    shapes = [each[3]["attention"] for each in causal if "attention" in each[3]]
    assert shapes == [each[3]["attention"] for each in with_mask if "attention" in each[3]]
    assert {shape[-1] for shape in shapes} == {0.5}


def test_a_program_is_for_estimates():
    layers = nn.Sequential(nn.Linear(4, 4))
    with pytest.raises(pipescope.UsageError, match="name a device in estimate_for"):
        pipescope.profile(layers, torch.zeros(2, 4), program="nemo")
    with pytest.raises(pipescope.UsageError, match="name one of megatron-core"):
        pipescope.profile(layers, torch.zeros(2, 4), estimate_for="H100", program="megatron")


def test_a_program_of_ones_own_may_run_eagerly(tmp_path):
    path = tmp_path / "ours.json"
    path.write_text('{"format": "pipescope.program", "version": 1, "name": "ours", "fused": false}')
    profile = traced(program=path)
    assert step_of(profile) == pytest.approx(step_of(traced()))
    assert profile.to_dict()["program"] == {"name": "ours", "fused": False}
