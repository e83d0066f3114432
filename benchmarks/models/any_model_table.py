"""Trains models of several libraries as they are, and prints the table of docs/evidence/models.md.

    pip install transformers timm diffusers peft torchvision
    pip install x-transformers segmentation-models-pytorch torchaudio mambapy monai xlstm tab-transformer-pytorch reformer-pytorch
    python benchmarks/models/any_model_table.py [NAME..]
    python -m torch.distributed.run --nproc-per-node 2 benchmarks/models/any_model_table.py [NAME..]

The second command trains each model in two processes, and prints the worst gradients only.

Each model is small, has random weights, and is in float64. Columns:

- worst gradient: the largest difference from the plain model that runs micro-batch by micro-batch, 6 samples in 4 micro-batches, over
  each schedule with each checkpoint mode, on 2 to 4 lanes, in eval mode, or in train mode where a model has batch norm;
- AdamW: the largest difference of a parameter after three steps, with "untied" behind it if tied weights are no longer one tensor;
- dropout: the largest difference of the loss and of gradients between two balances, in train mode with the model's own dropout;
- lines: that a user changes or adds in the model; the pipeline itself takes two;
- torch.distributed.pipelining: what `pipeline()` of the same model, cut in two, does: its worst gradient at the traced micro-batch
  size, whether it runs with another one, and how many weights it unties.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import itertools
import logging
import os
import random
import re
import sys
import warnings

import pipescope
import torch
from torch import nn

SCHEDULES = ("gpipe", "1f1b", "zero-bubble-h1", "zero-bubble-v")
CHECKPOINTS = ("never", "except_last", "always")
CONFIGURATIONS = [  # schedule, checkpoint, lanes
    (schedule, checkpoint, 2 + number % 3)
    for number, (schedule, checkpoint) in enumerate(itertools.product(SCHEDULES, CHECKPOINTS))
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


def config_of(kind, **more):
    import transformers

    sizes = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "bos_token_id": 1, "eos_token_id": 2}
    return getattr(transformers, kind)(**{**sizes, **more})


def deepseek():
    return decoder("DeepseekV3Config", num_key_value_heads=4, head_dim=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4,
                   qk_nope_head_dim=4, v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
                   moe_intermediate_size=16, first_k_dense_replace=1, experts_implementation="batched_mm")


def bart():
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32, use_cache=False)
    return BartForConditionalGeneration(config), {**text_batch(), "labels": tokens(length=7)}


def deberta():
    from transformers import DebertaV2ForSequenceClassification

    config = config_of("DebertaV2Config", intermediate_size=48, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"],
                       num_labels=5, max_position_embeddings=32)
    batch = {key: each for key, each in text_batch().items() if key != "labels"}
    return DebertaV2ForSequenceClassification(config), {**batch, "labels": torch.randint(5, (ROWS,))}


def wav2vec2():
    from transformers import Wav2Vec2ForCTC

    config = config_of("Wav2Vec2Config", intermediate_size=48, conv_dim=(16, 16), conv_stride=(4, 4), conv_kernel=(8, 4),
                       num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, vocab_size=20, apply_spec_augment=False, layerdrop=0.0,
                       ctc_loss_reduction="mean")
    return Wav2Vec2ForCTC(config), {"input_values": torch.randn(ROWS, 400), "labels": tokens(20, length=5)}


def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], decoder_hidden_size=16, num_labels=5)
    batch = {"pixel_values": torch.randn(ROWS, 3, 64, 64), "labels": torch.randint(5, (ROWS, 64, 64))}
    return SegformerForSemanticSegmentation(config), batch


def deeplab():
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

    model = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5, aux_loss=True)
    return model, {"x": torch.randn(ROWS, 3, 64, 64)}


def sd3():
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=3, attention_head_dim=8, num_attention_heads=2,
                                  joint_attention_dim=16, caption_projection_dim=16, pooled_projection_dim=16, out_channels=4,
                                  pos_embed_max_size=8)
    return model, {"hidden_states": torch.randn(ROWS, 4, 8, 8), "encoder_hidden_states": torch.randn(ROWS, 5, 16),
                   "pooled_projections": torch.randn(ROWS, 16), "timestep": torch.randint(1000, (ROWS,))}


def ia3():
    from peft import IA3Config, get_peft_model

    model, batch = gpt2()
    config = IA3Config(target_modules=["c_attn", "c_proj"], feedforward_modules=["c_proj"], fan_in_fan_out=True, init_ia3_weights=False)
    return get_peft_model(model, config), batch


def x_transformers():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=4, heads=4, attn_dim_head=8, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True)
    return TransformerWrapper(num_tokens=60, max_seq_len=32, attn_layers=layers), {"x": tokens()}


def segmentation_unet():
    import segmentation_models_pytorch

    return segmentation_models_pytorch.Unet("resnet18", encoder_weights=None, classes=3), {"x": torch.randn(ROWS, 3, 64, 64)}


def emformer():
    from torchaudio.models import Emformer

    return Emformer(16, 4, 32, 3, segment_length=4, right_context_length=1), {
        "input": torch.randn(ROWS, 13, 16), "lengths": torch.full((ROWS,), 12)}


def conv_tasnet():
    from torchaudio.models import ConvTasNet

    model = ConvTasNet(num_sources=2, enc_kernel_size=8, enc_num_feats=16, msk_kernel_size=3, msk_num_feats=8, msk_num_hidden_feats=16,
                       msk_num_layers=3, msk_num_stacks=2)
    return model, {"input": torch.randn(ROWS, 1, 160)}


def mambapy():
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=16, n_layers=3, d_state=4)), {"x": torch.randn(ROWS, 8, 16)}


def swin_unetr():
    from monai.networks.nets import SwinUNETR

    model = SwinUNETR(in_channels=1, out_channels=2, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 4))
    return model, {"x_in": torch.randn(ROWS, 1, 64, 64)}


def xlstm():
    from xlstm import (
        FeedForwardConfig, mLSTMBlockConfig, mLSTMLayerConfig, sLSTMBlockConfig, sLSTMLayerConfig, xLSTMBlockStack, xLSTMBlockStackConfig
    )

    matrix = mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=4)
    scalar = sLSTMLayerConfig(backend="vanilla", num_heads=4, conv1d_kernel_size=4, bias_init="powerlaw_blockdependent")
    config = xLSTMBlockStackConfig(
        mlstm_block=mLSTMBlockConfig(mlstm=matrix), context_length=8, num_blocks=3, embedding_dim=16, slstm_at=[1],
        slstm_block=sLSTMBlockConfig(slstm=scalar, feedforward=FeedForwardConfig(proj_factor=1.3, act_fn="gelu")),
    )
    return xLSTMBlockStack(config), {"x": torch.randn(ROWS, 8, 16)}


def ft_transformer():
    from tab_transformer_pytorch import FTTransformer

    model = FTTransformer(categories=(5, 6, 7), num_continuous=4, dim=16, dim_out=1, depth=3, heads=4, dim_head=8)
    return model, {"x_categ": torch.randint(5, (ROWS, 3)), "x_numer": torch.randn(ROWS, 4)}


def detr():
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"])
    config = DetrConfig(use_timm_backbone=False, backbone_config=backbone, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48,
                        decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4, num_queries=5, num_labels=4)
    return DetrForObjectDetection(config), {"pixel_values": torch.randn(ROWS, 3, 64, 64)}


def reformer():
    from reformer_pytorch import ReformerLM

    return ReformerLM(num_tokens=60, dim=32, depth=2, max_seq_len=16, heads=4, bucket_size=4, causal=True), {"x": tokens(length=16)}


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
    "torchvision Inception v3 (aux)": lambda: vision("inception_v3", 299, init_weights=False, dropout=0.0),
    "DLRM (offsets)": dlrm,
    "LSTM seq2seq": seq2seq,
    "LSTM seq2seq, packed": lambda: seq2seq(True),
    "GCN (one graph)": gcn,
    "GPT-2 + LoRA": lora,
    "Falcon": lambda: causal(config_of("FalconConfig", new_decoder_architecture=True, num_kv_heads=2)),
    "DeepSeek-V3 (latent, MoE)": deepseek,
    "Qwen2-MoE": lambda: decoder("Qwen2MoeConfig", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                 shared_expert_intermediate_size=16, experts_implementation="batched_mm"),
    "BART (enc-dec, tied)": bart,
    "DeBERTa-v2": deberta,
    "Wav2Vec2 (CTC)": wav2vec2,
    "SegFormer": segformer,
    "timm MaxViT": lambda: timm_model("maxvit_nano_rw_256", 64, img_size=64),
    "torchvision DeepLab v3 (dict)": deeplab,
    "diffusers SD3": sd3,
    "GPT-2 + IA3": ia3,
    "x-transformers decoder": x_transformers,
    "segmentation_models U-Net": segmentation_unet,
    "torchaudio Emformer (lengths)": emformer,
    "torchaudio Conv-TasNet": conv_tasnet,
    "mambapy Mamba (own backward)": mambapy,
    "MONAI SwinUNETR": swin_unetr,
    "xLSTM": xlstm,
    "FT-Transformer (tables)": ft_transformer,
    "DETR": detr,
    "Reformer (reversible)": reformer,
}
TRAINS = {  # have batch norm
    "timm EfficientNet-B0", "torchvision ResNet-18", "torchvision DenseNet", "torchvision Inception v3 (aux)", "segmentation_models U-Net",
}
BATCHES = {"torchvision Inception v3 (aux)": (6, 3)}  # samples, micro-batches: batch norm of one sample fails in the plain model


def squares(output, _target=None):
    found = torch.utils._pytree.tree_leaves(output)
    floats = [each for each in found if isinstance(each, torch.Tensor) and each.is_floating_point()]
    return sum(each.square().mean() for each in floats)


def own_or_squares(output, _target=None):
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    return loss if loss is not None else squares(output)


class Row:
    """A model of the table, what is measured of it, and its batch."""

    def __init__(self, name):
        torch.manual_seed(0)
        random.seed(0)
        self.name, (model, batch) = name, MODELS[name]()
        self.trains = name in TRAINS
        self.model = model.double().train(self.trains)
        self.batch = {key: _double(each) for key, each in batch.items()}
        self.rows, self.chunks = BATCHES.get(name, (ROWS, CHUNKS))
        self.layers, self.reason = None, ""

    def text(self):
        with io.StringIO() as said, contextlib.redirect_stderr(said):
            other = self.of_torch()
        try:
            self.layers = pipescope.layers_of(self.model, self.batch)
        except pipescope.UsageError as error:
            reason = re.sub(r"(/[^/ ]+)+/", "", " ".join(str(error).split())).replace("|", "/")
            return f"| {self.name} | no | {reason[:300]} | | | | | {other} |"
        found = [f"{self.worst_gradient():.0e}", self.after_adamw(), self.dropout()]
        return f"| {self.name} | yes, {len(self.layers)} layers | | {' | '.join(found)} | 0 | {other} |"

    # ---- The plain model ----

    def sizes(self):
        return [self.rows // self.chunks + (k < self.rows % self.chunks) for k in range(self.chunks)]

    def plain_step(self, model):
        """Gradients, micro-batch by micro-batch."""
        model.zero_grad()
        first = 0
        for size in self.sizes():
            (own_or_squares(model(**part_of(self.batch, self.rows, first, size))) * size / self.rows).backward()
            first += size

    # ---- Ours ----

    def pipe(self, schedule, checkpoint, lanes, **more):
        partitions = min(lanes * (2 if schedule == "zero-bubble-v" else 1), len(self.layers))
        lanes = partitions // 2 if schedule == "zero-bubble-v" else partitions
        partitions = lanes * 2 if schedule == "zero-bubble-v" else lanes
        balance = [len(self.layers) // partitions + (k < len(self.layers) % partitions) for k in range(partitions)]
        return pipescope.GPipe(self.layers, balance, devices=["cpu"] * lanes, chunks=self.chunks, schedule=schedule,
                               checkpoint=checkpoint, **more)

    def worst_gradient(self, processes=None):
        """Of all processes, each of which has the gradients of its own layers."""
        self.model.train(self.trains)
        buffers = [(each, each.clone()) for each in self.model.buffers()]
        self.plain_step(self.model)
        expected = {name: None if each.grad is None else each.grad.clone() for name, each in self.model.named_parameters()}
        put_back(buffers)
        worst = 0.0
        for schedule, checkpoint, lanes in CONFIGURATIONS:
            self.model.zero_grad()
            self.pipe(schedule, checkpoint, lanes, processes=processes).step(self.batch, loss=own_or_squares)
            if processes:
                bring_together(self.model)
            worst = max(worst, difference(expected, self.model))
            put_back(buffers)
        return worst

    def after_adamw(self):
        """As the worst gradient, of parameters after three steps."""
        plain = copy.deepcopy(self.model)
        pipe = self.pipe("1f1b", "except_last", 2)
        tied = tied_names(self.model)
        optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-3, eps=1e-6) for each in (self.model, plain)]
        for _ in range(3):
            self.plain_step(plain)
            self.model.zero_grad()
            pipe.step(self.batch, loss=own_or_squares)
            for each in optimizers:
                each.step()
        pairs = zip(self.model.parameters(), plain.parameters())
        worst = max(float((one - other).detach().abs().max()) for one, other in pairs)
        return f"{worst:.0e}" + (", untied" if tied_names(self.model) != tied else "")

    def dropout(self):
        """Differences between two balances and schedules."""
        self.model.train()
        buffers = [(each, each.clone()) for each in self.model.buffers()]
        found = []
        for schedule, checkpoint, lanes in (("1f1b", "always", 2), ("zero-bubble-h1", "never", 3)):
            self.model.zero_grad()
            try:
                loss = self.pipe(schedule, checkpoint, lanes, seed=7).step(self.batch, loss=own_or_squares)
            except ValueError as error:  # of a batch norm with one value
                return str(error).split(",")[0][:60]
            found.append((loss, {name: None if each.grad is None else each.grad.clone() for name, each in self.model.named_parameters()}))
            put_back(buffers)
        self.model.zero_grad()
        for name, each in self.model.named_parameters():
            each.grad = found[1][1][name]
        worst = max(float((found[0][0] - found[1][0]).abs()), difference(found[0][1], self.model))
        return "equal" if worst == 0 else f"{worst:.0e}"

    # ---- torch's own front end ----

    def of_torch(self):
        from torch.distributed.pipelining import SplitPoint, pipeline

        model = copy.deepcopy(self.model).eval()
        part = part_of(self.batch, self.rows, 0, 2)
        place = middle_of(model)
        try:
            squares(model(**part)).backward()
            expected = {name: each.grad for name, each in model.named_parameters()}
            count = sum(1 for _ in model.parameters())
            model.zero_grad()
            pipe = pipeline(copy.deepcopy(model), (), part, split_spec={place: SplitPoint.BEGINNING})
        except Exception as error:
            return f"not built: {type(error).__name__}"
        try:
            squares(run_split(pipe, part)).backward()  # which may have lost the output's type
        except Exception as error:
            return f"built, does not run: {type(error).__name__}"
        made = {}
        for name, each in pipe.split_gm.named_parameters(remove_duplicate=False):
            made.setdefault(name.partition(".")[2], []).append(each)
        worst = 0.0
        for name, gradient in expected.items():
            if gradient is None:
                continue
            own = [each.grad for each in made.get(name, [])]
            total = next((each for each in own if each is not None), None)
            worst = max(worst, float("inf") if total is None else float((total - gradient).abs().max()))
        more = sum(1 for _ in pipe.split_gm.parameters()) - count
        untied = f", {more} weights untied" if more > 0 else ""
        try:
            run_split(pipe, part_of(self.batch, self.rows, 2, 3))
            size = "any size"
        except Exception:
            size = "one size"
        return f"built, {'%.0e' % worst if worst < float('inf') else 'gradients missing'}, {size}{untied}"


def _double(value):
    if isinstance(value, (list, tuple)):
        return type(value)(_double(each) for each in value)
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def part_of(batch, rows, first, size):
    return {
        name: each[first:first + size] if isinstance(each, torch.Tensor) and each.dim() and len(each) == rows else each
        for name, each in batch.items()
    }


def put_back(buffers):
    with torch.no_grad():
        for each, value in buffers:
            each.copy_(value)


def difference(expected, model):
    worst = 0.0
    for name, each in model.named_parameters():
        one, other = expected[name], each.grad
        if one is not None or other is not None:
            zero = torch.zeros_like(each)
            worst = max(worst, float(((zero if one is None else one) - (zero if other is None else other)).abs().max()))
    return worst


def bring_together(model):
    """Gives each process the gradients that another one has. Only one process has a parameter's gradient."""
    for each in model.parameters():
        each.grad = torch.zeros_like(each) if each.grad is None else each.grad
        torch.distributed.all_reduce(each.grad)


def tied_names(model):
    numbers = {}
    return [numbers.setdefault(id(each), len(numbers)) for _, each in model.named_parameters(remove_duplicate=False)]


def middle_of(model):
    """The module in the middle of the largest list of modules, or of the children."""
    lists = [(name, each) for name, each in model.named_modules() if isinstance(each, (nn.ModuleList, nn.Sequential)) and len(each) > 1]
    if lists:
        name, found = max(lists, key=lambda pair: sum(each.numel() for each in pair[1].parameters()))
        return f"{name}.{len(found) // 2}" if name else str(len(found) // 2)
    children = [name for name, _ in model.named_children()]
    return children[len(children) // 2]


def run_split(pipe, batch):
    """Both stages with their graph between them, which the front end's own executor cuts."""
    values = []
    rest = dict(batch)
    for node in pipe.split_gm.graph.nodes:
        if node.op == "placeholder":
            values.append(rest.pop(node.target) if node.target in rest else node.args[0] if node.args else None)
    return torch.fx.Interpreter(pipe.split_gm).run(*values)


def in_processes(names):
    """Models that cannot be cut are left out."""
    torch.distributed.init_process_group("gloo")
    processes = pipescope.join_processes()
    if processes.rank == 0:
        print(f"| model | worst gradient, {processes.size} processes |\n| --- | --- |", flush=True)
    for name in names:
        row = Row(name)
        try:
            row.layers = pipescope.layers_of(row.model, row.batch)
        except pipescope.UsageError:
            continue
        worst = row.worst_gradient(processes)
        if processes.rank == 0:
            print(f"| {name} | {worst:.0e} |", flush=True)
        gc.collect()


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    names = [name for name in MODELS if not sys.argv[1:] or any(each.lower() in name.lower() for each in sys.argv[1:])]
    if "WORLD_SIZE" in os.environ:
        in_processes(names)
        return
    print("| model | unmodified | why not | worst gradient | AdamW | dropout | lines | torch.distributed.pipelining |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        try:
            print(Row(name).text(), flush=True)
        except Exception as error:
            if "--raise" in sys.argv:
                raise
            text = " ".join(str(error).split()).replace("|", "/")
            print(f"| {name} | error | {type(error).__name__}: {text[:300]} | | | | | |", flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
