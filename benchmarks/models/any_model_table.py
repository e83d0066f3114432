"""Trains models of several libraries as they are, and prints the table of docs/evidence/models.md.

    pip install transformers timm diffusers peft torchvision
    python benchmarks/models/any_model_table.py [NAME..]

Each model is small, has random weights, and is in float64. Its gradients are compared with those of the plain model that runs
micro-batch by micro-batch: 6 samples in 4 micro-batches, over CONFIGURATIONS.
"""

from __future__ import annotations

import re
import sys
import warnings

import pipescope
import torch
from torch import nn

CONFIGURATIONS = [  # schedule, checkpoint, lanes
    ("gpipe", "never", 2),
    ("1f1b", "always", 3),
    ("zero-bubble-h1", "except_last", 4),
    ("zero-bubble-v", "always", 2),
]
ROWS, CHUNKS = 6, 4


def tokens(vocabulary=60, rows=ROWS, length=10):
    return torch.randint(3, vocabulary, (rows, length))


def text_batch(**more):
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids, **more}


def causal(config):
    from transformers import AutoModelForCausalLM

    config.use_cache = False
    return AutoModelForCausalLM.from_config(config), text_batch()


def decoder(kind, **more):
    import transformers

    sizes = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": 0, **more}
    return causal(getattr(transformers, kind)(**sizes))


def gpt2(**more):
    from transformers import GPT2Config

    return causal(GPT2Config(vocab_size=60, n_embd=32, n_layer=4, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1, **more))


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48)
    return BertForMaskedLM(config), text_batch(token_type_ids=torch.randint(2, (ROWS, 10)))


def albert():
    from transformers import AlbertConfig, AlbertForMaskedLM

    config = AlbertConfig(vocab_size=60, embedding_size=16, hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
                          intermediate_size=48)
    return AlbertForMaskedLM(config), text_batch()


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=3, num_heads=4, decoder_start_token_id=0,
                      use_cache=False)
    return T5ForConditionalGeneration(config), {**text_batch(), "labels": tokens(length=7)}


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48, image_size=32,
                       patch_size=8, num_labels=5)
    return ViTForImageClassification(config), {"pixel_values": torch.randn(ROWS, 3, 32, 32), "labels": torch.randint(5, (ROWS,))}


def clip():
    from transformers import CLIPConfig, CLIPModel

    text = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    image = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
             "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=image, projection_dim=16))
    return model, {"input_ids": tokens(), "pixel_values": torch.randn(ROWS, 3, 32, 32), "return_loss": True}


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                           decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=16,
                           max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                           suppress_tokens=None, begin_suppress_tokens=None, use_cache=False)
    return WhisperForConditionalGeneration(config), {"input_features": torch.randn(ROWS, 8, 32), "labels": tokens()}


def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=4, state_size=4, use_cache=False)
    return MambaForCausalLM(config), {"input_ids": tokens(), "labels": tokens()}


def diffusers_unet():
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32),
                                 down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                 up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=16, norm_num_groups=4,
                                 attention_head_dim=4)
    return model, {"sample": torch.randn(ROWS, 4, 16, 16), "timestep": torch.randint(1000, (ROWS,)),
                   "encoder_hidden_states": torch.randn(ROWS, 5, 16)}


def dit():
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=4,
                                  sample_size=8, patch_size=2, num_embeds_ada_norm=10, norm_num_groups=4)
    return model, {"hidden_states": torch.randn(ROWS, 4, 8, 8), "timestep": torch.randint(1000, (ROWS,)),
                   "class_labels": torch.randint(10, (ROWS,))}


class Down(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.conv, self.norm, self.context = nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.Linear(context, width)

    def forward(self, x, context):
        return nn.functional.silu(self.norm(self.conv(x)) + self.context(context)[:, :, None, None]) + x


class SmallUNet(nn.Module):
    """Like the UNet of Stable Diffusion: skips, a context by keyword, a dict."""

    def __init__(self, width=16, context=8):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down = nn.ModuleList(Down(width, context) for _ in range(3))
        self.middle = Down(width, context)
        self.join = nn.ModuleList(nn.Conv2d(2 * width, width, 1) for _ in range(3))
        self.up = nn.ModuleList(Down(width, context) for _ in range(3))

    def forward(self, sample, *, context):
        x, skips = self.first(sample), []
        for block in self.down:
            x = block(x, context)
            skips.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = self.middle(x, context)
        for join, block in zip(self.join, self.up):
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = block(join(torch.cat([x, skips.pop()], 1)), context)
        return {"sample": self.last(x)}


def small_unet():
    return SmallUNet(), {"sample": torch.randn(ROWS, 3, 16, 16), "context": torch.randn(ROWS, 8)}


def timm_model(name, size=32, **more):
    import timm

    return timm.create_model(name, num_classes=5, **more), {"x": torch.randn(ROWS, 3, size, size)}


def vision(name, size=64, **more):
    import torchvision

    return getattr(torchvision.models, name)(num_classes=5, **more), {"x": torch.randn(ROWS, 3, size, size)}


class Dlrm(nn.Module):
    """Tables of which each sample has a list of rows, at offsets."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
        self.bottom, self.top = nn.Linear(5, 8), nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, values, offsets):
        rows = [self.bottom(dense), *[table(v, o) for table, v, o in zip(self.tables, values, offsets)]]
        stacked = torch.stack(rows, 1)
        pairs = torch.bmm(stacked, stacked.transpose(1, 2))
        first, second = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([rows[0], pairs[:, first, second]], 1))


def dlrm():
    values = [torch.randint(20, (ROWS * 2 + k,)) for k in range(3)]
    return Dlrm(), {"dense": torch.randn(ROWS, 5), "values": values, "offsets": [torch.arange(ROWS) * 2 for _ in range(3)]}


class Seq2Seq(nn.Module):
    def __init__(self, is_packed=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(30, 8), nn.Linear(16, 30)
        self.encoder, self.decoder = (nn.LSTM(8, 16, num_layers=2, batch_first=True) for _ in range(2))
        self.is_packed = is_packed

    def forward(self, source, target, lengths=None):
        values = self.embed(source)
        if self.is_packed:
            values = nn.utils.rnn.pack_padded_sequence(values, lengths, batch_first=True, enforce_sorted=False)
        _, state = self.encoder(values)
        return self.head(self.decoder(self.embed(target), state)[0])


class Gcn(nn.Module):
    """Two rounds of messages along the edges of one graph. Its rows are nodes, which are no independent samples."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 4)])

    def forward(self, x, edge_index):
        for layer in self.layers:
            messages = layer(x)[edge_index[0]]
            x = torch.relu(torch.zeros(x.shape[0], messages.shape[1], dtype=x.dtype).index_add(0, edge_index[1], messages))
        return x


def gcn():
    return Gcn(), {"x": torch.randn(ROWS, 5), "edge_index": torch.randint(ROWS, (2, 9))}


def seq2seq(is_packed=False):
    batch = {"source": tokens(30), "target": tokens(30)}
    return Seq2Seq(is_packed), {**batch, "lengths": torch.randint(4, 10, (ROWS,))} if is_packed else batch


def lora():
    from peft import LoraConfig, get_peft_model

    model, batch = gpt2()
    return get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True)), batch


MODELS = {
    "GPT-2 (tied)": gpt2,
    "Llama": lambda: decoder("LlamaConfig"),
    "Qwen3": lambda: decoder("Qwen3Config"),
    "Mistral (window)": lambda: decoder("MistralConfig", sliding_window=4),
    "Mixtral (MoE, aux loss)": lambda: decoder("MixtralConfig", num_local_experts=4, output_router_logits=True,
                                               experts_implementation="batched_mm"),
    "Gemma 2 (tied)": lambda: decoder("Gemma2Config", sliding_window=4),
    "BERT MLM (tied)": bert,
    "ALBERT (repeated, tied)": albert,
    "T5 (tied thrice)": t5,
    "ViT": vit,
    "CLIP (return_loss)": clip,
    "Whisper (tied)": whisper,
    "Mamba (tied)": mamba,
    "SD-like UNet": small_unet,
    "diffusers UNet2DCondition": diffusers_unet,
    "diffusers DiT": dit,
    "timm ConvNeXt": lambda: timm_model("convnext_atto"),
    "timm Swin (drop path)": lambda: timm_model("swin_tiny_patch4_window7_224", 32, img_size=32, window_size=4, embed_dim=24,
                                                depths=(2, 2), num_heads=(2, 4), drop_path_rate=0.1),
    "timm EfficientNet-B0": lambda: timm_model("efficientnet_b0", 64, drop_path_rate=0.0),
    "torchvision ResNet-18": lambda: vision("resnet18"),
    "torchvision DenseNet": lambda: vision("densenet121"),
    "torchvision Inception v3 (aux)": lambda: vision("inception_v3", 299, init_weights=False),
    "DLRM (offsets)": dlrm,
    "LSTM seq2seq": seq2seq,
    "LSTM seq2seq, packed": lambda: seq2seq(True),
    "GCN (one graph)": gcn,
    "GPT-2 + LoRA": lora,
}
TRAINS = {"timm EfficientNet-B0", "torchvision ResNet-18", "torchvision DenseNet"}  # batch norm, without dropout


def squares(output, _target=None):
    found = torch.utils._pytree.tree_leaves(output)
    return next(each for each in found if isinstance(each, torch.Tensor) and each.is_floating_point()).square().mean()


def own_or_squares(output, _target=None):
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    return loss if loss is not None else squares(output)


def plain_gradients(model, batch):
    """Of the plain model, micro-batch by micro-batch."""
    model.zero_grad()
    first = 0
    for size in [ROWS // CHUNKS + (k < ROWS % CHUNKS) for k in range(CHUNKS)]:
        part = {name: each[first:first + size] if isinstance(each, torch.Tensor) else each for name, each in batch.items()}
        (own_or_squares(model(**part)) * size / ROWS).backward()
        first += size
    return {name: each.grad for name, each in model.named_parameters()}


def worst_gradient(model, layers, batch, balance_of):
    expected = {name: None if each is None else each.clone() for name, each in plain_gradients(model, batch).items()}
    worst = 0.0
    for schedule, checkpoint, lanes in CONFIGURATIONS:
        partitions = lanes * (2 if schedule == "zero-bubble-v" else 1)
        if partitions > len(layers):
            continue
        pipe = pipescope.GPipe(layers, balance_of(partitions), devices=["cpu"] * lanes, chunks=CHUNKS, schedule=schedule,
                               checkpoint=checkpoint)
        model.zero_grad()
        pipe.step(batch, loss=own_or_squares)
        for name, each in model.named_parameters():
            if expected[name] is not None:
                worst = max(worst, float((each.grad - expected[name]).abs().max()) if each.grad is not None else float("inf"))
            elif each.grad is not None:
                worst = max(worst, float(each.grad.abs().max()))
    return worst


def row(name):
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    model = model.double().train(name in TRAINS)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    batch = {key: each.double() if isinstance(each, torch.Tensor) and each.is_floating_point() else each for key, each in batch.items()}
    try:
        layers = pipescope.layers_of(model, batch)
    except pipescope.UsageError as error:
        reason = re.sub(r"(/[^/ ]+)+/", "", " ".join(str(error).split())).replace("|", "/")
        return f"| {name} | no | {reason[:300]} | |"
    count = len(layers)
    worst = worst_gradient(model, layers, batch, lambda n: [count // n + (k < count % n) for k in range(n)])
    return f"| {name} | yes, {count} layers | | {worst:.0e} |"


def main():
    warnings.simplefilter("ignore")
    names = [name for name in MODELS if not sys.argv[1:] or any(each.lower() in name.lower() for each in sys.argv[1:])]
    print("| model | unmodified | why not | worst gradient |\n| --- | --- | --- | --- |", flush=True)
    for name in names:
        try:
            print(row(name), flush=True)
        except Exception as error:
            if "--raise" in sys.argv:
                raise
            text = " ".join(str(error).split())
            print(f"| {name} | error | {type(error).__name__}: {text[:200]} | |", flush=True)


if __name__ == "__main__":
    main()
