"""GPipe, profile and layers_of with models as their authors wrote them."""

from __future__ import annotations

import copy
import pickle
import random
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")
pipescope = pytest.importorskip("pipescope")
pytest.importorskip("pipescope._torch")

from torch import nn  # noqa: E402

functional = nn.functional


class Block(nn.Module):
    def __init__(self, width, dropout=0.0, reads=False):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.other = nn.Linear(width, width) if reads else None
        self.dropout, self.p = nn.Dropout(dropout), dropout

    def forward(self, x, mask=None, memory=None):
        batch, length, width = x.shape
        heads = [each.view(batch, length, 2, width // 2).transpose(1, 2) for each in self.qkv(self.norm1(x)).chunk(3, -1)]
        p = self.p if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(*heads, attn_mask=mask, dropout_p=p)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        if memory is not None:
            x = x + self.other(memory.mean(1, keepdim=True))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))


class Language(nn.Module):
    """Like GPT-2: tied embeddings, a causal mask, positions, labels by keyword, a dict."""

    def __init__(self, dropout=0.0, blocks=3, width=8):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids, attention_mask=None, labels=None):
        length = input_ids.shape[1]
        x = self.tokens(input_ids) + self.positions(torch.arange(length, device=input_ids.device))
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype, device=x.device).triu_(1)
        if attention_mask is not None:
            mask = mask + (1 - attention_mask[:, None, None, :].to(x.dtype)) * -1e9
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.norm(x))
        if labels is None:
            return {"loss": None, "logits": logits}
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


class Repeated(nn.Module):
    """Like ALBERT: one block, four times."""

    def __init__(self):
        super().__init__()
        self.first, self.block, self.last = nn.Linear(6, 8), Block(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x)
        for _ in range(4):
            x = self.block(x)
        return self.last(x)


class Translator(nn.Module):
    """Like T5: every block of the decoder reads what the encoder made."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(20, 8)
        self.encoder = nn.ModuleList(Block(8) for _ in range(2))
        self.decoder = nn.ModuleList(Block(8, reads=True) for _ in range(3))

    def forward(self, source, target):
        memory = self.shared(source)
        for block in self.encoder:
            memory = block(memory)
        x = self.shared(target)
        for block in self.decoder:
            x = block(x, memory=memory)
        return functional.linear(x, self.shared.weight)


class Pair(NamedTuple):
    image: torch.Tensor
    code: torch.Tensor


class UNet(nn.Module):
    """Skips, a context that is a keyword only, batch norm, changes in place, a named tuple."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 1)
        self.down = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.up = nn.ModuleList(nn.Conv2d(2 * width, width, 3, padding=1) for _ in range(2))
        self.context = nn.Linear(4, width)

    def forward(self, image, *, context):
        x, code, skips = self.first(image), self.context(context), []
        for conv, norm in zip(self.down, self.norms):
            x = functional.relu_(norm(conv(x)) + code[:, :, None, None])
            skips.append(x)
            x = functional.avg_pool2d(x, 2)
        for conv in self.up:
            x = functional.interpolate(x, scale_factor=2.0)
            x = torch.tanh_(conv(torch.cat([x, skips.pop()], 1)))
        return Pair(self.last(x), code)


def language_batch(rows=7, length=6):
    torch.manual_seed(3)
    ids = torch.randint(20, (rows, length))
    mask = torch.ones_like(ids)
    mask[0, length - 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.randint(20, (rows, length))}


def squares(output, _target=None):
    tensors = [output] if isinstance(output, torch.Tensor) else list(output)
    return sum(each.square().mean() for each in tensors)


CASES = {
    "language": (Language, language_batch, None),
    "repeated": (Repeated, lambda rows=7: {"x": torch.randn(rows, 5, 6).double()}, squares),
    "translator": (Translator, lambda rows=7: {"source": torch.randint(20, (rows, 5)), "target": torch.randint(20, (rows, 4))}, squares),
    "unet": (UNet, lambda rows=7: {"image": torch.randn(rows, 3, 8, 8).double(), "context": torch.randn(rows, 4).double()}, squares),
}


@pytest.fixture(scope="module")
def found():
    """(layers, mini-batch, loss) of each case, traced with another number of samples."""
    made = {}

    def of(name):
        if name not in made:
            torch.manual_seed(1)
            model, batch, loss = CASES[name]
            made[name] = (pipescope.layers_of(model().double(), batch(4)), batch(), loss)
        return made[name]

    return of


def plain_step(model, batch, loss, chunks):
    """(loss, gradients by name) of the plain model, micro-batch by micro-batch."""
    model.zero_grad()
    rows = len(next(iter(batch.values())))
    total, first = 0.0, 0
    for size in [rows // chunks + (k < rows % chunks) for k in range(chunks)]:
        output = model(**{name: each[first : first + size] for name, each in batch.items()})
        value = (output["loss"] if loss is None else loss(output)) * size / rows
        value.backward()
        total, first = total + float(value.detach()), first + size
    return total, {name: each.grad.clone() for name, each in model.named_parameters()}


def even(layers, partitions):
    return [len(layers) // partitions + (k < len(layers) % partitions) for k in range(partitions)]


def worst(model, expected):
    assert all(each.grad is not None for each in model.parameters())
    return max(float((each.grad - expected[name]).abs().max()) for name, each in model.named_parameters())


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble-h1", "zero-bubble-v"])
@pytest.mark.parametrize("name", list(CASES))
def test_gradients_are_the_plain_models(found, name, schedule):
    layers, batch, loss = found(name)
    if name == "unet" and schedule == "gpipe":
        loss_of_all = 3  # squares() of the gathered output is the mean of micro-batches' ones only for equal sizes
        batch = {key: each[: 2 * loss_of_all] for key, each in batch.items()}
    buffers = {key: each.clone() for key, each in layers.model.named_buffers()}
    for checkpoint, first in (("always", 2), ("except_last", 3), ("never", 4)):
        for lanes in (2, 3, 4) if name == "language" else (first,):
            partitions = lanes * (2 if schedule == "zero-bubble-v" else 1)
            if partitions > len(layers):
                continue
            layers.model.load_state_dict(buffers, strict=False)
            total, expected = plain_step(layers.model, batch, loss, 3)
            running = {key: each.clone() for key, each in layers.model.named_buffers()}
            layers.model.load_state_dict(buffers, strict=False)
            layers.model.zero_grad()
            pipe = pipescope.GPipe(layers, even(layers, partitions), devices=["cpu"] * lanes, chunks=3, schedule=schedule,
                                   checkpoint=checkpoint)
            assert abs(float(pipe.step(batch, loss=loss)) - total) < 1e-12
            assert worst(layers.model, expected) < 1e-12
            for key, each in layers.model.named_buffers():
                assert (each - running[key]).abs().max() < 1e-12, key


def test_three_steps_of_adamw_are_the_plain_models():
    batch = language_batch()
    torch.manual_seed(0)
    model = Language().double()
    plain = copy.deepcopy(model)
    pipe = pipescope.GPipe(model, sample=batch, devices=["cpu"] * 3, chunks=3, schedule="1f1b", split=["blocks.0", "blocks.2"])
    assert [len(pipe), pipe.balance] == [3, [1, 1, 1]]
    # The keys' biases have a gradient of 0, whose rounding a smaller eps would make a step of.
    optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-2, eps=1e-6) for each in (model, plain)]
    for _ in range(3):
        optimizers[0].zero_grad()
        pipe.step(batch)
        plain_step(plain, batch, None, 3)
        for each in optimizers:
            each.step()
    assert max(float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), plain.parameters())) < 1e-12
    assert model.head.weight is model.tokens.weight
    assert pipe.state_dict().keys() == model.state_dict().keys() == plain.state_dict().keys()
    assert [name for name, _ in pipe.named_parameters()] == [name for name, _ in model.named_parameters()]
    pipe.load_state_dict(plain.state_dict())


def test_dropout_is_the_same_for_every_balance_and_off_in_eval():
    batch = language_batch()
    torch.manual_seed(0)
    layers = pipescope.layers_of(Language(dropout=0.3).double(), batch)
    losses = []
    for lanes, schedule, checkpoint in ((1, "gpipe", "never"), (2, "1f1b", "always"), (3, "zero-bubble-h1", "except_last")):
        layers.model.zero_grad()
        pipe = pipescope.GPipe(layers, even(layers, lanes), devices=["cpu"] * lanes, chunks=3, schedule=schedule,
                               checkpoint=checkpoint, seed=7)
        losses.append((float(pipe.step(batch)), layers.model.positions.weight.grad.clone()))
    assert abs(losses[0][0] - losses[1][0]) < 1e-12 and losses[1][0] == losses[2][0]
    assert all(torch.equal(losses[1][1], each) or (losses[1][1] - each).abs().max() < 1e-12 for _, each in losses)
    pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=3)
    pipe.eval()
    assert not layers.model.blocks[0].dropout.training
    assert torch.allclose(pipe(**batch)["logits"], layers.model(**batch)["logits"], rtol=0, atol=1e-14)
    layers.model.train()
    layers.model.blocks.eval()  # which hold all dropout: it reads its own module's mode
    assert torch.allclose(pipe(**batch)["logits"], layers.model(**batch)["logits"], rtol=0, atol=1e-14)


class DropPath(nn.Module):
    """Other operators in train mode, by a branch of Python."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        y = self.second(x)
        if self.training:
            y = y * torch.sigmoid(y.detach())
        return self.last(x + y)


def test_a_branch_on_the_mode_is_traced_twice():
    torch.manual_seed(0)
    model, x = DropPath().double(), torch.randn(6, 4).double()
    pipe = pipescope.GPipe(model, [1, 1], sample=x, devices=["cpu"] * 2, chunks=2, split=["last"])
    for mode in (True, False, True):
        model.train(mode)
        assert torch.equal(pipe(x), torch.cat([model(x[:3]), model(x[3:])]))
    model.second.eval()
    with pytest.raises(pipescope.UsageError, match="module second is in eval mode and the model in train"):
        pipe(x)


def test_outputs_have_the_models_type_and_other_sizes_are_right(found):
    layers, batch, _ = found("unet")
    layers.model.eval()
    pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=4)
    for rows in (1, 2, 9):
        again = {name: torch.randn(rows, *each.shape[1:]).double() for name, each in batch.items()}
        output = pipe(again["image"], context=again["context"])
        expected = layers.model(**again)
        assert type(output) is Pair
        assert all((one - other).abs().max() < 1e-12 for one, other in zip(output, expected))
    image, context = torch.randn(4, 3, 16, 12).double(), torch.randn(4, 4).double()
    found = pipe(image, context=context)
    assert all((one - other).abs().max() < 1e-12 for one, other in zip(found, layers.model(image, context=context)))
    layers.model.train()
    with pytest.raises(pipescope.UsageError, match="dimension 1 of the input context is 5, and the model was traced for 4"):
        pipe(image, context=torch.randn(4, 5).double())
    with pytest.raises(pipescope.UsageError, match="context is missing"):
        pipe.step({"image": batch["image"], "context": None}, loss=squares)


def test_another_sequence_is_right(found):
    layers, _, _ = found("language")
    pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=2, schedule="1f1b")
    batch = language_batch(rows=5, length=11)
    total, expected = plain_step(layers.model, batch, None, 2)
    layers.model.zero_grad()
    assert abs(float(pipe.step(batch)) - total) < 1e-12
    assert worst(layers.model, expected) < 1e-12


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, mask, positions, scale=1.0):
        x = self.first(x) @ torch.eye(4, dtype=x.dtype) * scale
        weights = (x @ x.transpose(1, 2) + mask).softmax(-1)
        return self.last(weights @ x + positions[0][..., None])


def test_what_is_cut_and_what_is_whole_is_found():
    torch.manual_seed(0)
    model = Masked().double()
    length = batch = 4  # as long as the mini-batch by chance
    sample = (torch.randn(batch, length, 4).double(), torch.randn(length, length).double(), torch.randn(3, batch, length).double())
    layers = pipescope.layers_of(model, (sample, {"scale": 2.0}))
    assert [each.rule for each in layers.inputs] == [0, None, 1]
    assert "input mask [4, 4] whole" in str(layers) or "whole" in str(layers)
    pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=3)
    assert torch.allclose(pipe(*sample, scale=2.0), model(*sample, scale=2.0), rtol=0, atol=1e-14)
    with pytest.raises(pipescope.UsageError, match=r"scale is 3.0 and was 2.0|scale is 2.0 and was 3.0"):
        pipe(*sample, scale=3.0)
    with pytest.raises(pipescope.UsageError, match="split names 'maks'"):
        pipescope.layers_of(model, (sample, {"scale": 2.0}), split={"maks": None})


def test_the_weight_of_a_micro_batch_counts_its_tokens():
    batch = language_batch()
    batch["labels"][2:5, 1:] = -100
    torch.manual_seed(0)
    model = Language().double()
    layers = pipescope.layers_of(model, batch)
    model.zero_grad()
    model(**batch)["loss"].backward()
    expected = {name: each.grad.clone() for name, each in model.named_parameters()}
    for schedule in ("gpipe", "1f1b"):
        model.zero_grad()
        pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=3, schedule=schedule,
                               weight=lambda batch: (batch["labels"][:, 1:] != -100).sum())
        assert abs(float(pipe.step(batch)) - float(model(**batch)["loss"].detach())) < 1e-12
        assert worst(model, expected) < 1e-12


def test_an_input_gets_its_gradient_if_the_samples_does(found):
    torch.manual_seed(0)
    model, x = Repeated().double(), torch.randn(6, 5, 6).double()
    plain = x.clone().requires_grad_()
    squares(torch.cat([model(plain[:3]), model(plain[3:])])).backward()
    pipe = pipescope.GPipe(model, sample=x.clone().requires_grad_(), devices=["cpu"] * 2, chunks=2, split=["last"])
    own = x.clone().requires_grad_()
    pipe.step(own, loss=squares)
    assert (own.grad - plain.grad).abs().max() < 1e-12
    layers = found("repeated")[0]
    with pytest.raises(pipescope.UsageError, match="the input x requires a gradient, and the sample's does not"):
        pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=2).step(own, loss=squares)


def test_the_reduction_of_a_loss_is_checked(found):
    layers, batch, _ = found("repeated")
    pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=2, schedule="1f1b")
    with pytest.raises(pipescope.UsageError, match="reduction='sum'"):
        pipe.step(batch, torch.zeros(7, 5, 3).double(), nn.MSELoss(reduction="sum"))


class InPlace(nn.Module):
    """Changes a value through a view of it, after an operator of another module read it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        x = self.layers[0](x)
        y = torch.sigmoid(self.layers[1](x.sum(1, keepdim=True).expand(-1, 4)))
        x[:, :2].mul_(2.0)
        y = self.layers[2](y + x)
        return self.layers[3](functional.relu_(y))


def test_nothing_is_cut_between_a_value_and_its_change():
    torch.manual_seed(0)
    model, x = InPlace().double(), torch.randn(6, 4).double()
    with pytest.raises(pipescope.UsageError, match=r"split names 'layers.1', and the model cannot be cut before it"):
        pipescope.layers_of(model, x, split=["layers.1"])
    layers = pipescope.layers_of(model, x, split=["layers.2", "layers.3"])
    _, expected = plain_step(model, {"x": x}, squares, 2)
    model.zero_grad()
    pipescope.GPipe(layers, [1, 1, 1], devices=["cpu"] * 3, chunks=2, schedule="1f1b").step(x, loss=squares)
    assert worst(model, expected) < 1e-12


class Chooses(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        scores = self.one(x) @ self.other(y).T
        return functional.cross_entropy(scores, torch.arange(scores.shape[0]))


class Rounds(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Twice(torch.autograd.Function):
    """Takes a number, returns two tensors, and has gradients that are not those of its operators."""

    @staticmethod
    def forward(ctx, x, scale, y):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * scale, x + y

    @staticmethod
    def backward(ctx, one, other):
        x, y = ctx.saved_tensors
        return one * ctx.scale * 2 + other * y, None, other * x


class UsesFunctions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = Rounds.apply(self.first(x) * 5)
        one, other = Twice.apply(x, 3.0, self.second(x))
        return self.last(one) + other


class Thrice(Rounds):
    """Has another backward, and the forward of its base."""

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Scales(torch.autograd.Function):
    """Its forward takes no context."""

    @staticmethod
    def forward(x, scale):
        return x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale * 2, None


thrice, scales = Thrice.apply, Scales.apply


class UsesFunctionsByName(UsesFunctions):
    """Kept its functions before a trace, as `rounds = Rounds.apply` in a file or an attribute."""

    def __init__(self):
        super().__init__()
        self.rounds = Rounds.apply

    def forward(self, x):
        x = thrice(self.rounds(self.first(x) * 5))
        other = scales(self.second(x), 3.0)
        return self.last(x) + other


class Runs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        return layer(x)

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


class RunsModule(nn.Module):
    """Like a reentrant checkpoint: a function runs a module, of whose parameters a trace would not know."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return Runs.apply(self.layer, x)


class Validates(nn.Module):
    """Branches on values, as checks of labels do."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        if x.max() > 100:
            raise ValueError("too large")
        x = torch.tanh(self.first(x))
        if (x.abs() <= 1).all():
            x = x * 2
        return self.last(x)


class KeepsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x):
        self.last = x
        return self.layer(x)


class ChangesParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            self.b.weight.mul_(self.a.bias.mean() + 0.9)
        return self.b(self.a(x))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), UsesItem()

    def forward(self, x):
        return self.second(self.first(x)) + x


class UsesItem(nn.Module):
    def forward(self, x):
        return x * int(x.sum().item()) if x.sum().item() > 0 else -x


class SequenceFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x):
        return self.rnn(x)[0]


class Graph(nn.Module):
    """Messages along edges between samples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, edges):
        return torch.zeros_like(x).index_add(0, edges[1], self.layer(x)[edges[0]])


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.last = nn.EmbeddingBag(9, 4, mode="sum"), nn.Linear(4, 4)

    def forward(self, x, values, offsets):
        return self.last(self.bag(values, offsets) + x)


calls: list[int] = []


class Counts(nn.Module):
    """Depends on how often it was called, in train mode only, and draws random numbers there."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.dropout = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x):
        if self.training:
            calls.append(1)
        return self.b(self.dropout(self.a(x))) * (1 + len(calls))


class Outside(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = torch.ones(4, requires_grad=True)

    def forward(self, x):
        return self.layer(x) * self.scale


class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x).view(6, 2, 2)


@pytest.mark.parametrize(
    ("model", "sample", "text"),
    [
        (Chooses, (6, 4), "the size of the model's output value depends on the values of an input, at aten.index"),
        (Contrast, [(6, 4), (6, 4)], "compares samples with each other, at aten.matmul"),
        (RunsModule, (6, 4), r"calls the autograd.Function Runs, at the model \(test_any_model.py, line \d+: return Runs.*, with Linear"),
        (KeepsInput, (6, 4), r"replaces the buffer last by torch.float32 of the shape .*, which was torch.float32 of the shape \(4,\)"),
        (ChangesParameter, (6, 4), r"changes its parameter b.weight in place, at aten.mul_ .*self.b.weight.mul_"),
        (Branches, (6, 4), r"depends on the values of an input, at second \(test_any_model.py, line \d+: return x"),
        (SequenceFirst, (5, 6, 4), "If dimension 0 is no samples, .* as by split={'x': 1}"),
        (Graph, [(6, 4), torch.tensor([[0, 1, 2, 5], [1, 2, 5, 0]])], "input edges names samples by their numbers .*, at aten.index"),
        (Bags, [(6, 4), torch.arange(9), torch.tensor([0, 1, 3, 4, 6, 8])],
         "input offsets says where each sample begins in values, at aten.embedding_bag in bag"),
        (Counts, (6, 4), "compute another output value than the model on its sample in eval mode"),
        (Outside, (6, 4), "scale requires a gradient and is no parameter"),
        (Fixed, (6, 4), "holds on to the sample's 6 samples of the input x"),
    ],
)
def test_what_cannot_be_cut_is_refused_in_the_models_words(model, sample, text):
    shapes = sample if isinstance(sample, list) else [sample]
    given = tuple(
        shape if isinstance(shape, torch.Tensor) else torch.randn(*shape)
        for shape in shapes
    )
    with pytest.raises(pipescope.UsageError, match=text):
        pipescope.layers_of(model(), given)


class Chain(nn.Module):
    """Its children in order are what it computes, and one of them cannot be exported."""

    def __init__(self):
        super().__init__()
        self.first, self.item, self.last = nn.Linear(4, 4), UsesItem(), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.item(self.first(x)))


class Held(nn.Module):
    """Runs `compute`, and has what a trace may lose."""

    def __init__(self, compute):
        super().__init__()
        self.a, self.b, self.dropout = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.5)
        self.scale, self.table, self.unread = 1.0, {"a": 1.0}, 0
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("later", None)
        self.compute = compute

    def forward(self, x):
        return self.compute(self, x)


def held_pipe(compute):
    model = Held(compute).double()
    x = torch.randn(4, 4, dtype=torch.float64)
    pipe = pipescope.GPipe(model, sample={"x": x}, devices=["cpu"] * 2, chunks=2)
    return model, lambda: pipe.step({"x": x}, loss=lambda output, _: output.square().mean())


def scaled(model, x):
    return model.b(model.dropout(model.a(x) * model.scale)) * model.table["a"]


@pytest.mark.parametrize("change, text", [
    (lambda model: setattr(model.dropout, "p", 0.0), "dropout.p has changed"),
    (lambda model: setattr(model, "scale", 0.5), "scale has changed"),
    (lambda model: model.table.update(a=3.0), "table has changed"),
    (lambda model: model.b.register_forward_hook(lambda module, inputs, output: output * 2), "hooks were added or removed at b"),
    (lambda model: model.b.register_full_backward_hook(lambda *_: None), "hooks were added or removed at b"),
    (lambda model: setattr(model, "later", torch.ones(4)), "later was None"),
])
def test_what_changes_after_the_trace_is_refused(change, text):
    model, step = held_pipe(scaled)
    step()
    model.unread, model.epoch = 3, 1  # which no forward reads
    step()
    change(model)
    with pytest.raises(pipescope.UsageError, match=text):
        step()


def with_hook(model, x):
    h = model.a(x)
    if model.training:
        h.register_hook(lambda gradient: -gradient)
    return model.b(h)


def with_inference_mode(model, x):
    with torch.inference_mode():
        target = model.a(x)
    return model.b(x) - target.clone()


@pytest.mark.parametrize("compute, text", [
    (with_hook, "hook on a tensor"),
    (with_inference_mode, "inference_mode"),
    (lambda model, x: model.b(model.a(x)) * random.uniform(0.5, 1.5), "random numbers from Python"),
])
def test_what_a_trace_would_lose_is_refused(compute, text):
    with pytest.raises(pipescope.UsageError, match=text):
        held_pipe(compute)


def test_an_index_by_a_list_is_taken():
    model, step = held_pipe(lambda model, x: model.b(model.a(x)[:, [3, 2, 1, 0]]))  # torch enters inference_mode(False) for it
    assert step() > 0


def with_mean(model, x):
    h = model.a(x)
    with torch.no_grad():
        model.mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
    return model.b(h - model.mean)


@pytest.mark.filterwarnings("ignore:a sample's output")
@pytest.mark.parametrize("compute", [lambda model, x: model.b(model.a(x) + torch.randn_like(x)), with_mean])
def test_random_numbers_and_changed_buffers_are_taken_in_eval_too(compute):
    model, step = held_pipe(compute)
    assert not model.mean.any()  # building a pipeline changes nothing
    assert step() > 0


class Averages(nn.Module):
    """Assigns buffers: one in place, one replaced, which is read before and behind, and one of a spectral norm."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        before = self.mean
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.count += 1
        x = torch.tanh((self.first(x) - self.mean) * (before + 1))
        return self.last(x)


@pytest.mark.filterwarnings("ignore:a sample's output")
@pytest.mark.parametrize("schedule, checkpoint", [("gpipe", "always"), ("1f1b", "never"), ("zero-bubble-h1", "except_last")])
def test_buffers_that_are_assigned_change_as_in_the_plain_model(schedule, checkpoint):
    torch.manual_seed(0)
    model, x = Averages().double(), torch.randn(6, 4).double()
    plain, mean = copy.deepcopy(model), model.mean
    pipe = pipescope.GPipe(model, sample=x, split=["last"], devices=["cpu"] * 2, chunks=3, schedule=schedule, checkpoint=checkpoint)
    assert model.mean is mean and not mean.any()
    for _ in range(2):
        _, expected = plain_step(plain, {"x": x}, squares, 3)
        model.zero_grad()
        pipe.step(x, loss=squares)
        assert worst(model, expected) < 1e-12
    assert model.mean is mean and int(model.count) == 6
    assert all((one - other).abs().max() < 1e-12 for one, other in zip(model.buffers(), plain.buffers()))


@pytest.mark.parametrize("kind", [UsesFunctions, UsesFunctionsByName])
@pytest.mark.parametrize("schedule, checkpoint", [("gpipe", "always"), ("1f1b", "never"), ("zero-bubble-h1", "except_last")])
def test_autograd_functions_keep_their_backward(kind, schedule, checkpoint):
    torch.manual_seed(0)
    model, x = kind().double(), torch.randn(6, 4).double()
    layers = pipescope.layers_of(model, x, split=["second", "last"])
    _, expected = plain_step(model, {"x": x}, squares, 3)
    for found in (layers, copy.deepcopy(layers), pickle.loads(pickle.dumps(layers))):
        found.model.zero_grad()
        pipe = pipescope.GPipe(found, [1, 1, 1], devices=["cpu"] * 3, chunks=3, schedule=schedule, checkpoint=checkpoint)
        pipe.step(x, loss=squares)
        assert worst(found.model, expected) < 1e-12


def test_a_branch_on_values_is_that_of_the_sample():
    torch.manual_seed(0)
    model, x = Validates().double(), torch.randn(6, 4).double()
    pipe = pipescope.GPipe(model, [1, 1], sample=x, split=["last"], devices=["cpu"] * 2, chunks=2)
    assert torch.equal(pipe(x), torch.cat([model(x[:3]), model(x[3:])]))
    with pytest.raises(pipescope.UsageError, match=r"value that is True and was False .*, at the model \(test_any_model.py, line \d+: if x.max"):
        pipe(x * 1000)
    assert torch.equal(pipe(x), torch.cat([model(x[:3]), model(x[3:])]))


class Auxiliary(nn.Module):
    """Like Inception: a second output in train mode."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last, self.aux = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        x = torch.tanh(self.first(x))
        y = self.last(torch.tanh(self.second(x)))
        return Pair(y, self.aux(x)) if self.training else y


def test_outputs_may_be_others_in_eval_mode():
    torch.manual_seed(0)
    model, x = Auxiliary().double(), torch.randn(6, 4).double()
    pipe = pipescope.GPipe(model, [1, 1], sample=x, split=["second"], devices=["cpu"] * 2, chunks=3)
    for mode in (True, False, True):
        model.train(mode)
        output, parts = pipe(x), [model(each) for each in x.chunk(3)]
        assert type(output) is type(parts[0])
        for one, other in zip(output if mode else [output], zip(*parts) if mode else [parts]):
            assert torch.equal(one, torch.cat(list(other)))
        grads = []
        for run in (lambda: sum(squares(model(each)) / 3 for each in x.chunk(3)).backward(), lambda: pipe.step(x, loss=squares)):
            model.zero_grad()
            run()
            grads.append({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
        assert grads[0].keys() == grads[1].keys() and len(grads[0]) == (8 if mode else 6)
        assert all((grads[0][name] - grads[1][name]).abs().max() < 1e-12 for name in grads[0])
    assert pipescope.profile(model.eval(), x, samples=[2], time_limit_s=1.0).layers


class Precise(nn.Module):
    """Makes a tensor of its values' dtype, which autocast changes."""

    def __init__(self, adds):
        super().__init__()
        self.a, self.b, self.adds = nn.Linear(4, 4), nn.Linear(4, 4), adds

    def forward(self, x):
        x = torch.relu(self.a(x))
        return self.b(torch.zeros(x.shape, dtype=x.dtype).index_add(1, torch.arange(4), x) if self.adds else x)


def test_autocast_is_that_of_the_trace():
    torch.manual_seed(0)
    x, autocast = torch.randn(6, 4), torch.autocast("cpu", dtype=torch.bfloat16)
    model = Precise(adds=True)
    pipe = pipescope.GPipe(model, [1, 1], sample=x, split=["b"], devices=["cpu"] * 2, chunks=2)
    with autocast, pytest.raises(pipescope.UsageError, match=r"runs in torch.autocast\('cpu', torch.bfloat16\)"):
        pipe(x)
    with autocast:
        pipe = pipescope.GPipe(model, [1, 1], sample=x, split=["b"], devices=["cpu"] * 2, chunks=2)
        assert torch.equal(pipe(x), torch.cat([model(x[:3]), model(x[3:])]))
    with pytest.raises(pipescope.UsageError, match="runs in no autocast"):
        pipe(x)
    model = Precise(adds=False)  # in which autocast changes nothing that a trace holds
    pipe = pipescope.GPipe(model, [1, 1], sample=x, split=["b"], devices=["cpu"] * 2, chunks=2)
    with autocast:
        assert torch.equal(pipe(x), torch.cat([model(x[:3]), model(x[3:])]))


def test_a_sparse_gradient_is_measured_only_where_it_has_a_size():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.last = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 4)

        def forward(self, ids):
            return self.last(self.tokens(ids))

    ids = torch.randint(9, (6, 3))
    with pytest.raises(pipescope.UsageError, match="tokens.* has a sparse gradient, .*give a balance"):
        pipescope.GPipe(Sparse(), sample=ids, devices=["cpu"] * 2, chunks=2).step(ids, loss=squares)
    pipe = pipescope.GPipe(Sparse(), [1, 1], sample=ids, split=["last"], devices=["cpu"] * 2, chunks=2)
    pipe.step(ids, loss=squares)
    assert pipe.module.tokens.weight.grad.is_sparse


class Windows(nn.Module):
    """Like Swin: windows of an image are samples of attention, and put together again by sizes."""

    def __init__(self):
        super().__init__()
        self.first, self.mix, self.last = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x).permute(0, 2, 3, 1)
        height, width = x.shape[1:3]
        windows = x.view(-1, height // 2, 2, width // 2, 2, 4).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4)
        windows = torch.softmax(windows @ self.mix(windows).transpose(1, 2), -1) @ windows
        x = windows.view(-1, height // 2, width // 2, 2, 2, 4).permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, 4)
        return self.last(x.mean((1, 2)))


def test_windows_of_images_are_right_or_refused():
    torch.manual_seed(0)
    model, x = Windows().double(), torch.randn(7, 3, 8, 8).double()
    layers = pipescope.layers_of(model, x)
    pipe = pipescope.GPipe(layers, even(layers, 2), devices=["cpu"] * 2, chunks=3, schedule="1f1b")
    for image in (x, torch.randn(5, 3, 16, 24).double()):
        _, expected = plain_step(model, {"x": image}, squares, 3)
        model.zero_grad()
        try:
            pipe.step(image, loss=squares)
        except pipescope.UsageError as error:
            assert image is not x and "of the input x is 16" in str(error)
        else:
            assert worst(model, expected) < 1e-12


def test_an_empty_batch_is_refused():
    pipe = pipescope.GPipe(Auxiliary(), [1, 1], sample=torch.randn(6, 4), split=["second"], devices=["cpu"] * 2, chunks=3)
    with pytest.raises(pipescope.UsageError, match="the batch has no samples"):
        pipe(torch.randn(0, 4))


def test_the_module_tree_is_tried():
    torch.manual_seed(0)
    model, x = Chain().double(), torch.randn(6, 4).double()
    pipe = pipescope.GPipe(model, [1, 1, 1], sample=x, devices=["cpu"] * 3, chunks=2)
    assert list(pipe.layers) == ["first", "item", "last"]
    _, expected = plain_step(model, {"x": x}, squares, 2)
    model.zero_grad()
    pipe.step(x, loss=squares)
    assert worst(model, expected) < 1e-12


def test_a_tree_that_leaves_something_out_is_refused():
    class DropsBetween(Chain):
        def forward(self, x):
            return self.last(functional.dropout(self.item(self.first(x)), 0.5, self.training))

    with pytest.raises(pipescope.UsageError, match="depends on the values of an input, at item"):
        pipescope.layers_of(DropsBetween(), torch.randn(6, 4))


def test_copies_and_pickles_train_alone():
    batch = language_batch()
    torch.manual_seed(0)
    pipe = pipescope.GPipe(Language().double(), sample=batch, devices=["cpu"] * 2, chunks=2, split=["blocks.1"], schedule="1f1b")
    for other in (copy.deepcopy(pipe), pickle.loads(pickle.dumps(pipe))):
        assert other.module is not pipe.module
        assert other.module.head.weight is other.module.tokens.weight
        assert float(other.step(batch)) == float(pipe.step(batch))
        pipe.zero_grad()
        other.module.eval()
        assert pipe.module.training


def test_the_model_goes_on_as_before():
    batch = language_batch()
    torch.manual_seed(0)
    model = Language().double()
    pipe = pipescope.GPipe(model, sample=batch, devices=["cpu"] * 2, chunks=2, split=["blocks.1"], schedule="1f1b")
    before = float(pipe.step(batch))
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1.1)
    assert float(pipe.step(batch)) != before
    model.load_state_dict({name: each.clone() for name, each in model.state_dict().items()}, assign=True)
    model.head.weight = model.tokens.weight
    assert abs(float(pipe.step(batch)) - float(plain_step(model, batch, None, 2)[0])) < 1e-12
    model.positions.weight.requires_grad_(False)
    model.zero_grad()
    pipe.step(batch)
    assert model.positions.weight.grad is None
    model.head = nn.Linear(8, 20)
    with pytest.raises(pipescope.UsageError, match="the model's module head is another one since it was traced"):
        pipe.step(batch)


def test_profile_takes_a_model_also_on_meta():
    batch = language_batch(rows=4)
    measured = pipescope.profile(Language(), sample=batch, samples=[1, 2], time_limit_s=2.0)
    with torch.device("meta"):
        model = Language()
    estimated = pipescope.profile(model, sample=batch, estimate_for="H100", samples=[1, 2])
    assert measured.model == "Language"
    assert [each.name for each in measured.layers] == [each.name for each in estimated.layers]
    assert estimated.plan(batch=16, partitions="1..2").candidates


def test_without_a_balance_the_layers_are_measured():
    batch = language_batch()
    pipe = pipescope.GPipe(Language(), sample=batch, devices=["cpu"] * 2, chunks=2, schedule="1f1b")
    pipe.step(batch)
    assert sum(pipe.balance) == len(pipe.layers) and len(pipe.balance) == 2


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_models_of_hugging_face(name):
    transformers = pytest.importorskip("transformers")
    if name == "gpt2":
        config = transformers.GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32, use_cache=False)
    else:
        config = transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, use_cache=False,
                                       decoder_start_token_id=0)
    auto = transformers.AutoModelForCausalLM if name == "gpt2" else transformers.AutoModelForSeq2SeqLM
    model = auto.from_config(config).double().eval()
    ids = torch.randint(3, 60, (5, 7))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
    pipe = pipescope.GPipe(model, sample=batch, devices=["cpu"] * 2, chunks=2, schedule="1f1b")
    _, expected = plain_step(model, batch, None, 2)
    model.zero_grad()
    pipe.step(batch)
    assert worst(model, expected) < 1e-12
    assert type(pipe(**batch)) is type(model(**batch))


class Named(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return torch.tanh(self.inner(x))


class TwoNames(nn.Module):
    """One module under two names, as blocks have that share a layer."""

    def __init__(self, inner):
        super().__init__()
        self.a, self.b = Named(inner), Named(inner)

    def forward(self, x):
        return self.b(self.a(x))


@pytest.mark.parametrize("inner", [lambda: nn.Linear(6, 6), lambda: nn.BatchNorm1d(6)])
def test_a_module_of_two_names(inner):
    torch.manual_seed(0)
    model, x = TwoNames(inner()), torch.randn(8, 6)
    before = dict(model.named_parameters(remove_duplicate=False))
    pipe = pipescope.GPipe(model, sample=x, balance=None, devices=["cpu"] * 2, chunks=2, schedule="1f1b")
    assert all(each is before[name] for name, each in model.named_parameters(remove_duplicate=False))
    plain = copy.deepcopy(model)
    pipe.step(x, loss=squares)
    for part in x.chunk(2):
        (squares(plain(part)) / 2).backward()
    assert all(torch.allclose(one.grad, other.grad, atol=1e-6) for one, other in zip(model.parameters(), plain.parameters()))


@pytest.mark.parametrize("inner, said", [
    (lambda: torch.jit.script(nn.Linear(6, 6)), "the module a.inner is scripted"),
    (lambda: nn.LazyLinear(6), "the module a.inner has the parameter weight, which gets its shape in the first call"),
])
def test_modules_without_code_or_shape_are_refused(inner, said):
    with pytest.raises(pipescope.UsageError, match=said):
        pipescope.layers_of(TwoNames(inner()), torch.randn(8, 6))
