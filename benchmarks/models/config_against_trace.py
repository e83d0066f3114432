"""Compares models described by a Hugging Face configuration with the same models traced, and prints the table of
docs/evidence/models.md.

    pip install transformers
    python benchmarks/models/config_against_trace.py [NAME..]

Both are estimates of one step of one sample of 2048 tokens on an H100, in bfloat16, without the optimizer: simulate_layout() of
hf:config.json, and profile(estimate_for="H100") of the model that transformers makes of it, both for the same program. Models
have their published widths and 4 blocks. The last column is the trace of eager PyTorch.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import warnings

import pipescope
import torch

SEQUENCE = 2048
DEVICE = "H100"
PROGRAMS = ["megatron-core", "torchtitan"]
LLAMA = {"model_type": "llama", "vocab_size": 128256, "num_key_value_heads": 8}
MODELS = {
    "Llama 3.2 1B": {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "head_dim": 64,
                     "tie_word_embeddings": True},
    "Llama 3 8B": {**LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
    "Llama 3 70B": {**LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64},
    "Mistral 7B": {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                   "vocab_size": 32000},
    "Qwen2 7B": {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
                 "num_key_value_heads": 4, "vocab_size": 152064},
    "Qwen3 8B": {"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "vocab_size": 151936},
    "Gemma 2 9B": {"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16,
                   "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000, "attn_logit_softcapping": None},
    "Phi-2": {"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 32,
              "vocab_size": 51200},
    "Pythia 6.9B": {"model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 32},
    "OPT 6.7B": {"model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_attention_heads": 32, "vocab_size": 50272,
                 "word_embed_proj_dim": 4096, "dropout": 0.0},
}


def model_of(config):
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {key: value for key, value in config.items() if key != "model_type"}
    settings = AutoConfig.for_model(config["model_type"], **sizes)
    settings.use_cache = False
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16)


def traced(model, program):
    """Parameters and ns of a step."""
    ids = torch.randint(100, (2, SEQUENCE))
    profile = pipescope.profile(
        model, sample={"input_ids": ids, "labels": ids}, estimate_for=DEVICE, samples=[1], program=program
    )
    step = profile.simulate(balance=[len(profile)], batch=1, chunks=1)
    return sum(layer.parameter_bytes for layer in profile.layers) // 2, step.step_ns


def described(config, program):
    """Parameters and ns of a step."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        text = f"hf:{folder},sequence={SEQUENCE}"
        step = pipescope.simulate_layout(text, "dgx-h100", batch=1, gradient_bytes=2, program=program)
    return step.model_parameters, step.pipeline_ns


def main():
    warnings.simplefilter("ignore")
    print("| model | parameters | of the trace | " + "".join(f"{each} | its trace | " for each in PROGRAMS) + "eager |")
    print("| --- | ---: | ---: | " + "---: | ---: | " * len(PROGRAMS) + "---: |")
    for name in sys.argv[1:] or MODELS:
        config = {**MODELS[name], "num_hidden_layers": 4, "max_position_embeddings": SEQUENCE}
        model = model_of(config)
        columns = []
        for program in PROGRAMS:
            parameters, step_ns = described(config, program)
            traced_parameters, traced_ns = traced(model, program)
            columns.append(f"{step_ns / 1e6:.2f} ms | {traced_ns / 1e6:.2f} ms, {traced_ns / step_ns - 1:+.0%}")
        eager = traced(model, None)[1]
        print(f"| {name} | {parameters:,} | {traced_parameters - parameters:+d} | {' | '.join(columns)} | {eager / 1e6:.2f} ms |",
              flush=True)


if __name__ == "__main__":
    main()
