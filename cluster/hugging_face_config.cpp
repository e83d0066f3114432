#include "cluster/hugging_face_config.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "base/parse_name.h"
#include "base/printable.h"
#include "base/text_file.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace pipescope {
namespace {
constexpr std::int64_t kMostConfigNumber = 1'000'000'000;
constexpr std::string_view kRemedy = "correct the configuration, or describe the model with gpt:";
constexpr JsonKind kConfigJson{
    "a Hugging Face configuration", kRemedy,
    "the family has no default for it; add it, or describe the model with gpt:", throw_error<UsageError>};
using Value = JsonValue<Json>;

/// Other names of keys, from older configurations and single families.
constexpr std::pair<const char*, const char*> kAliases[] = {
    {"n_embd", "hidden_size"},
    {"n_embed", "hidden_size"},
    {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"num_kv_heads", "num_key_value_heads"},
    {"n_head_kv", "num_key_value_heads"},
    {"n_positions", "max_position_embeddings"},
    {"seq_length", "max_position_embeddings"},
    {"n_inner", "intermediate_size"},
    {"ffn_dim", "intermediate_size"},
    {"ffn_hidden_size", "intermediate_size"},
    {"num_local_experts", "num_experts"},
    {"n_routed_experts", "num_experts"},
    {"experts_per_token", "num_experts_per_tok"},
    {"num_mtp_layers", "num_nextn_predict_layers"},
    {"_sliding_window_pattern", "sliding_window_pattern"},
};

/// Keys that change neither parameters nor the costs of training.
constexpr const char* kHarmless[] = {
    "_name_or_path",
    "activation",
    "activation_function",
    "hidden_activation",
    "use_flash_attn",
    "_attn_implementation",
    "_num_labels",
    "apply_residual_connection_post_layernorm",
    "alibi",
    "architectures",
    "attention_softmax_in_fp32",
    "attn_logit_softcapping",
    "auto_map",
    "aux_loss_alpha",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "dtype",
    "embd_layer_norm",
    "embedding_dropout",
    "eos_token_id",
    "ep_size",
    "final_logit_softcapping",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_act",
    "id2label",
    "init_std",
    "initial_context_length",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "layerdrop",
    "mask_token_id",
    "masked_softmax_fusion",
    "max_window_layers",
    "model_type",
    "n_ctx",
    "n_group",
    "norm_topk_prob",
    "num_labels",
    "offset_alibi",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "partial_rotary_factor",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "quantization_config",
    "query_pre_attn_scalar",
    "qk_head_dim",
    "reorder_and_upcast_attn",
    "return_dict",
    "rms_norm_eps",
    "rope_interleave",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary",
    "rotary_emb_base",
    "rotary_pct",
    "routed_scaling_factor",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "scoring_func",
    "seq_aux",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "swiglu_alpha",
    "swiglu_limit",
    "task_specific_params",
    "tokenizer_class",
    "topk_group",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_parallel_residual",
    "attn_pdrop",
    "attention_dropout",
    "hidden_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "dropout",
    "activation_dropout",
    "sliding_window",
    "bias_dropout_fusion",
};

/// A configuration whose keys have their usual names and whose missing keys have the family's defaults.
class Config {
public:
    explicit Config(const Json& document) : object_(Value(document, "", kConfigJson).object()) {}

    /// False if it is missing or null.
    bool has(const std::string& key) {
        const std::optional<Value> found = find(key);
        return found && !found->json().is_null();
    }
    Value at(const std::string& key) {
        asked_.insert(key);
        return object_.at(key);
    }
    std::int64_t number(const std::string& key) {
        return at(key).integer(0, kMostConfigNumber, "a whole number from 0 to 1e9");
    }
    /// 0 if it is missing or null.
    std::int64_t number_or_none(const std::string& key) { return has(key) ? number(key) : 0; }
    bool flag(const std::string& key) { return has(key) && at(key).truth(); }
    std::optional<Value> find(const std::string& key) {
        asked_.insert(key);
        return object_.find(key);
    }
    /// Refuses a value other than `only`, `because` it would change the model in a way that is unknown here. A missing
    /// key or null is that value.
    void expect(const std::string& key, const Json& only, const std::string& because) {
        if (has(key) && at(key).json() != only) {
            at(key).fail(" is " + shown_json(at(key).json()) + "; " + because +
                         ", which is not known here; describe the model with gpt:");
        }
    }
    /// Keys that nobody asked for.
    std::vector<std::string> others() const {
        std::vector<std::string> keys;
        object_.for_each([&](const std::string& key, const Value& value) {
            const bool is_read = asked_.contains(key) || std::ranges::find(kHarmless, key) != std::end(kHarmless);
            if (!is_read && !value.json().is_null()) {
                keys.push_back(key);
            }
        });
        return keys;
    }

private:
    JsonObject<Json> object_;
    std::set<std::string> asked_;
};

using Keys = LanguageModelKeys;

void set(Keys& keys, const std::string& key, std::int64_t number) {
    keys[key] = std::to_string(number);
}
void set_if(Keys& keys, const std::string& key, bool is_set) {
    if (is_set) {
        keys[key] = "true";
    }
}

/// Sets which blocks have a sliding window from "layer_types", one name per block.
void set_layer_types(Config& config, Keys& keys) {
    const Value types = config.at("layer_types");
    std::vector<bool> full;
    types.list("a list of a name for each layer", [&](const Value& type) {
        const std::string& name = type.text();
        if (name != "full_attention" && name != "sliding_attention") {
            type.fail(" is '" + printable(name) +
                      "'; known are full_attention and sliding_attention; describe the model with gpt:");
        }
        full.push_back(name == "full_attention");
        return 0;
    });
    const std::int64_t layers = config.number("num_hidden_layers");
    if (static_cast<std::int64_t>(full.size()) != layers) {
        types.fail(" names " + std::to_string(full.size()) + " layers of " + std::to_string(layers) +
                   "; it has one name for each; correct the configuration");
    }
    keys.erase("full_every");
    keys.erase("full_layers");
    if (std::ranges::find(full, false) == full.end()) {
        keys.erase("window");
        return;
    }
    if (!keys.contains("window")) {
        types.fail(" has sliding_attention, but the configuration has no sliding_window; add it");
    }
    const auto fits = [&](auto is_full) {
        for (std::int64_t k = 0; k < layers; ++k) {
            if (full[static_cast<std::size_t>(k)] != is_full(k)) {
                return false;
            }
        }
        return true;
    };
    const auto first_layers = std::ranges::find(full, false) - full.begin();
    if (fits([&](std::int64_t k) { return k < first_layers; })) {
        if (first_layers > 0) {
            set(keys, "full_layers", first_layers);
        }
        return;
    }
    for (std::int64_t every = 2; every <= layers; ++every) {
        if (fits([&](std::int64_t k) { return (k + 1) % every == 0; })) {
            set(keys, "full_every", every);
            return;
        }
    }
    types.fail(" has no pattern that is known here: the first layers full, or each n-th; describe the model with gpt:");
}

/// The window of all blocks, those of "layer_types" if the configuration has them.
void set_window(Config& config, Keys& keys, std::int64_t full_every = 0, std::int64_t full_layers = 0) {
    const std::int64_t window = config.number_or_none("sliding_window");
    if (window > 0) {
        set(keys, "window", window);
        if (full_every > 0) {
            set(keys, "full_every", full_every);
        }
        if (full_layers > 0) {
            set(keys, "full_layers", full_layers);
        }
    }
    if (config.has("layer_types")) {
        set_layer_types(config, keys);
    }
}
/// Qwen's windows: only if use_sliding_window, from block max_window_layers on.
void set_qwen_window(Config& config, Keys& keys) {
    if (config.flag("use_sliding_window")) {
        set_window(config, keys, 0, config.number_or_none("max_window_layers"));
    } else if (config.has("layer_types")) {
        set_layer_types(config, keys);
    }
    // Every block sees all tokens if the first one with a window would come after the last.
    if (const auto first = keys.find("full_layers");
        first != keys.end() && std::stoll(first->second) >= config.number("num_hidden_layers")) {
        keys.erase("window");
        keys.erase(first);
    }
}

void set_attention_bias(Config& config, Keys& keys) {
    const bool has = config.flag("attention_bias");
    set_if(keys, "qkv_bias", has);
    set_if(keys, "out_bias", has);
}
void set_all_biases(Keys& keys, bool has) {
    for (const char* key : {"qkv_bias", "out_bias", "mlp_bias"}) {
        set_if(keys, key, has);
    }
}
/// Llama's parts: gated feed-forward layers and RMS norms.
void set_gated(Keys& keys) {
    keys["gated"] = "true";
    keys["norm"] = "rms";
}

void set_experts(Config& config, Keys& keys, std::int64_t width) {
    set(keys, "experts", config.number("num_experts"));
    set(keys, "top_k", config.number("num_experts_per_tok"));
    set(keys, "expert_hidden", width);
}
/// Blocks of Qwen's mixtures without experts: those whose number decoder_sparse_step does not divide, and a list.
void set_sparse_step(Config& config, Keys& keys) {
    if (const std::int64_t step = config.number("decoder_sparse_step"); step > 1) {
        set(keys, "expert_every", step);
    }
    if (config.has("mlp_only_layers")) {
        const Value listed = config.at("mlp_only_layers");
        const std::vector<std::int64_t> dense =
            listed.list("a list of layers", [](const Value& layer) { return layer.integer(0, kMostConfigNumber); });
        for (std::size_t k = 0; k < dense.size(); ++k) {
            if (dense[k] != static_cast<std::int64_t>(k)) {
                listed.fail(" is " + shown_json(listed.json()) +
                            "; known are only the first layers, such as [0, 1]; describe the model with gpt:");
            }
        }
        if (!dense.empty()) {
            set(keys, "dense_layers", static_cast<std::int64_t>(dense.size()));
        }
    }
}

void llama(Config& config, Keys& keys) {
    set_gated(keys);
    set_attention_bias(config, keys);
    set_if(keys, "mlp_bias", config.flag("mlp_bias"));
}
void mistral(Config& config, Keys& keys) {
    set_gated(keys);
    set_window(config, keys);
}
void mixtral(Config& config, Keys& keys) {
    mistral(config, keys);
    set_experts(config, keys, config.number("intermediate_size"));
}
void qwen2(Config& config, Keys& keys) {
    set_gated(keys);
    set_if(keys, "qkv_bias", true);
    set_qwen_window(config, keys);
}
void qwen3(Config& config, Keys& keys) {
    set_gated(keys);
    set_attention_bias(config, keys);
    set_if(keys, "qk_norm", true);
    set_qwen_window(config, keys);
}
void qwen2_moe(Config& config, Keys& keys) {
    set_gated(keys);
    set_if(keys, "qkv_bias", config.flag("qkv_bias"));
    config.expect("use_sliding_window", false, "it gives some blocks a window");
    set_experts(config, keys, config.number("moe_intermediate_size"));
    set_sparse_step(config, keys);
    const std::int64_t shared = config.number("shared_expert_intermediate_size");
    const std::int64_t width = config.number("moe_intermediate_size");
    if (width == 0 || shared % width != 0) {
        config.at("shared_expert_intermediate_size")
            .fail(" is " + std::to_string(shared) + ", no multiple of moe_intermediate_size, " + std::to_string(width) +
                  "; a shared expert of another width is not known here; describe the model with gpt:");
    }
    if (shared > 0) {
        set(keys, "shared_experts", shared / width);
        set_if(keys, "shared_gate", true);
    }
}
void qwen3_moe(Config& config, Keys& keys) {
    qwen3(config, keys);
    config.expect("use_sliding_window", false, "it gives some blocks a window");
    set_experts(config, keys, config.number("moe_intermediate_size"));
    set_sparse_step(config, keys);
}
void deepseek(Config& config, Keys& keys) {
    set_gated(keys);
    set_attention_bias(config, keys);
    keys.erase("kv_heads");
    set(keys, "kv_rank", config.number("kv_lora_rank"));
    set(keys, "q_rank", config.number_or_none("q_lora_rank"));
    set(keys, "rope_width", config.number("qk_rope_head_dim"));
    set(keys, "value_width", config.number("v_head_dim"));
    set(keys, "head_width", config.number("qk_rope_head_dim") + config.number("qk_nope_head_dim"));
    config.find("head_dim");
    config.expect("moe_layer_freq", 1, "it leaves experts out of some blocks");
    const std::int64_t dense = config.number_or_none("first_k_dense_replace");
    if (config.number_or_none("num_experts") == 0 || dense >= config.number("num_hidden_layers")) {
        return;
    }
    set_experts(config, keys, config.number("moe_intermediate_size"));
    set(keys, "shared_experts", config.number_or_none("n_shared_experts"));
    set(keys, "dense_layers", dense);
}
void deepseek_v2(Config& config, Keys& keys) {
    deepseek(config, keys);
    config.find("topk_method");
    set_if(keys, "mlp_bias", config.flag("mlp_bias"));
}
void deepseek_v3(Config& config, Keys& keys) {
    deepseek(config, keys);
    const bool is_corrected = !config.has("topk_method") || config.at("topk_method").text() == "noaux_tc";
    set_if(keys, "router_bias", is_corrected && keys.contains("experts"));
    set(keys, "mtp", config.number_or_none("num_nextn_predict_layers"));
}
void gemma(Config& config, Keys& keys) {
    set_gated(keys);
    set_attention_bias(config, keys);
    config.expect("use_bidirectional_attention", false, "its attention is not causal");
}
void gemma2(Config& config, Keys& keys) {
    gemma(config, keys);
    set(keys, "block_norms", 4);
    set_window(config, keys, 2);
}
void gemma3(Config& config, Keys& keys) {
    gemma(config, keys);
    set(keys, "block_norms", 4);
    set_if(keys, "qk_norm", true);
    set_window(config, keys, config.number("sliding_window_pattern"));
}
void gpt2(Config& config, Keys& keys) {
    keys["norm"] = "layer";
    set(keys, "positions", config.number("max_position_embeddings"));
    set_all_biases(keys, true);
    config.expect("add_cross_attention", false, "it gives blocks a second attention");
}
void gpt_neox(Config& config, Keys& keys) {
    keys["norm"] = "layer";
    set_attention_bias(config, keys);
    set_if(keys, "mlp_bias", true);
}
void gpt_oss(Config& config, Keys& keys) {
    set_gated(keys);
    set_attention_bias(config, keys);
    set_experts(config, keys, config.number("intermediate_size"));
    for (const char* key : {"sinks", "mlp_bias", "router_bias"}) {
        set_if(keys, key, true);
    }
    set_window(config, keys, 2);
}
void phi(Config& config, Keys& keys) {
    keys["norm"] = "layer";
    set(keys, "block_norms", 1);
    set_all_biases(keys, true);
    set_if(keys, "output_bias", true);
    set_if(keys, "qk_norm", config.flag("qk_layernorm"));
}
void phi3(Config& config, Keys& keys) {
    set_gated(keys);
    config.expect("attention_bias", false, "it adds biases");
    set_window(config, keys);
}
void falcon(Config& config, Keys& keys) {
    keys["norm"] = "layer";
    set_all_biases(keys, config.flag("bias"));
    const bool is_new = config.flag("new_decoder_architecture");
    const bool is_parallel = config.flag("parallel_attn");
    const bool is_multi_query = config.flag("multi_query");
    if (!is_new) {
        set(keys, "kv_heads", is_multi_query ? 1 : config.number("num_attention_heads"));
    }
    const std::int64_t norms = config.has("num_ln_in_parallel_attn") ? config.number("num_ln_in_parallel_attn")
                               : is_new                              ? 2
                                                                     : 1;
    set(keys, "block_norms", is_parallel && norms != 2 ? 1 : 2);
}
void bloom(Config&, Keys& keys) {
    keys["norm"] = "layer";
    set_if(keys, "embedding_norm", true);
    set_all_biases(keys, true);
}
void opt(Config& config, Keys& keys) {
    keys["norm"] = "layer";
    constexpr std::int64_t kOffset = 2;  // rows of the embedding before the first position
    set(keys, "positions", config.number("max_position_embeddings") + kOffset);
    set_all_biases(keys, config.flag("enable_bias"));
    config.expect("do_layer_norm_before", true, "norms then come after the layers, and the last one is missing");
    config.expect("_remove_final_layer_norm", false, "the last norm is then missing");
    config.expect("layer_norm_elementwise_affine", true, "norms then have no weights");
    config.expect("word_embed_proj_dim", config.at("hidden_size").json(), "matrices then widen the embedding");
}

struct Family {
    const char* model_type;
    void (*set)(Config& config, Keys& keys);
    const char* defaults;  ///< of transformers 5.24, for the keys that are read
};
constexpr Family kFamilies[] = {
    {"llama", llama, R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 2048})"},
    {"mistral", mistral, R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
        "sliding_window": 4096})"},
    {"mixtral", mixtral, R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
        "num_experts": 8, "num_experts_per_tok": 2})"},
    {"qwen2", qwen2, R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768,
        "sliding_window": 4096, "max_window_layers": 28})"},
    {"qwen3", qwen3, R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28})"},
    {"qwen2_moe", qwen2_moe, R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
        "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 32768,
        "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1, "qkv_bias": true})"},
    {"qwen3_moe", qwen3_moe, R"({"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32768,
        "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1})"},
    {"deepseek_v2", deepseek_v2, R"({"vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048, "num_experts": 64,
        "n_shared_experts": 2, "moe_intermediate_size": 1407, "first_k_dense_replace": 0, "kv_lora_rank": 512,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})"},
    {"deepseek_v3", deepseek_v3, R"({"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
        "num_hidden_layers": 61, "num_attention_heads": 128, "max_position_embeddings": 4096, "num_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
        "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "num_nextn_predict_layers": 1})"},
    {"gemma", gemma, R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
        "max_position_embeddings": 8192, "tie_word_embeddings": true})"},
    {"gemma2", gemma2, R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 8192, "tie_word_embeddings": true, "sliding_window": 4096})"},
    {"gemma3_text", gemma3, R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072, "tie_word_embeddings": true, "sliding_window": 4096,
        "sliding_window_pattern": 6})"},
    {"gpt2", gpt2, R"({"vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "max_position_embeddings": 1024, "tie_word_embeddings": true, "resid_pdrop": 0.1})"},
    {"gpt_neox", gpt_neox, R"({"vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576,
        "num_hidden_layers": 44, "num_attention_heads": 64, "max_position_embeddings": 2048, "attention_bias": true})"},
    {"gpt_oss", gpt_oss, R"({"vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
        "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "max_position_embeddings": 131072, "num_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128,
        "attention_bias": true})"},
    {"phi", phi, R"({"vocab_size": 51200, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
        "num_attention_heads": 32, "max_position_embeddings": 2048})"},
    {"phi3", phi3, R"({"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
        "num_attention_heads": 32, "max_position_embeddings": 4096})"},
    {"falcon", falcon, R"({"vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32,
        "num_attention_heads": 71, "max_position_embeddings": 2048, "multi_query": true, "parallel_attn": true,
        "tie_word_embeddings": true})"},
    {"bloom", bloom, R"({"vocab_size": 250880, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
        "max_position_embeddings": 2048, "tie_word_embeddings": true})"},
    {"opt", opt, R"({"vocab_size": 50272, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "max_position_embeddings": 2048, "tie_word_embeddings": true, "enable_bias": true,
        "dropout": 0.1})"},
};

const Family& family_of(const Value& type) {
    const std::string& name = type.text();
    const auto found =
        std::ranges::find(kFamilies, name, [](const Family& each) { return std::string(each.model_type); });
    if (found == std::end(kFamilies)) {
        type.fail(" is '" + printable(name) + "'; the known families are " +
                  joined_text(kFamilies, ", ", [](const Family& each) { return std::string(each.model_type); }) +
                  "; describe the model with gpt:");
    }
    return *found;
}

/// The document with the usual names of keys, above the family's defaults.
Json with_defaults(const Json& document, const Family& family) {
    Json merged = parse_json(family.defaults, kConfigJson);
    for (const auto& [name, json] : document.items()) {
        const auto alias = std::ranges::find(kAliases, name, [](const auto& each) { return std::string(each.first); });
        const std::string key = alias == std::end(kAliases) ? name : alias->second;
        if (key != name && document.contains(key) && json.is_null()) {
            continue;
        }
        if (key != name && document.contains(key) && document.at(key) != json) {
            throw UsageError(name + " is " + shown_json(json) + " and " + key + " is " + shown_json(document.at(key)) +
                             "; both name the same number; " + std::string(kRemedy));
        }
        merged[key] = json;
    }
    return merged;
}

bool has_dropout(Config& config) {
    bool has = false;
    for (const char* key :
         {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout", "dropout"}) {
        has = has || (config.has(key) && config.at(key).amount() > 0);
    }
    return has;
}

Keys usual_keys(Config& config) {
    Keys keys;
    set(keys, "layers", config.number("num_hidden_layers"));
    set(keys, "hidden", config.number("hidden_size"));
    set(keys, "heads", config.number("num_attention_heads"));
    set(keys, "vocabulary", config.number("vocab_size"));
    constexpr std::int64_t kUsualSequence = 4096;
    set(keys, "sequence", std::min(config.number("max_position_embeddings"), kUsualSequence));
    if (config.has("num_key_value_heads")) {
        set(keys, "kv_heads", config.number("num_key_value_heads"));
    }
    if (config.has("head_dim")) {
        set(keys, "head_width", config.number("head_dim"));
    }
    set(keys, "mlp",
        config.has("intermediate_size") ? config.number("intermediate_size") : 4 * config.number("hidden_size"));
    keys["tied"] = config.flag("tie_word_embeddings") ? "true" : "false";
    keys["dropout"] = has_dropout(config) ? "true" : "false";
    keys["attention"] = "flash";
    return keys;
}
}  // namespace

HuggingFaceConfig parse_hugging_face_config(std::string_view json) {
    const Json document = parse_json(json, kConfigJson);
    JsonObject<Json> top = Value(document, "", kConfigJson).object("one JSON object");
    for (const char* part : {"text_config", "vision_config", "audio_config", "encoder", "decoder"}) {
        if (top.contains(part)) {
            throw UsageError(std::string(part) + " is given; the model has several networks, of which one text model " +
                             "can be described; give its own configuration, or describe the model with gpt:");
        }
    }
    const Family& family =
        family_of(top.at("model_type", "it names the family of the model; add it, or describe the model with gpt:"));
    const Json merged = with_defaults(document, family);
    Config config(merged);
    HuggingFaceConfig read{usual_keys(config), {}};
    family.set(config, read.keys);
    if (const std::vector<std::string> others = config.others(); !others.empty()) {
        read.warnings.push_back("the configuration has keys that are not known here: " +
                                joined_text(others, ", ", [](const std::string& key) { return printable(key); }) +
                                "; they were not read, and may change parameters or costs");
    }
    return read;
}

HuggingFaceConfig load_hugging_face_config(const std::filesystem::path& path) {
    std::error_code ignored;
    const std::filesystem::path file = std::filesystem::is_directory(path, ignored) ? path / "config.json" : path;
    if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored)) {
        throw UsageError(file.string() +
                         " is no file, and a model is read several times; write its config.json to a file");
    }
    const std::string text = read_text_as<UsageError>(
        file, {"a Hugging Face configuration", "name the model's config.json or its folder after hf:"});
    try {
        return parse_hugging_face_config(text);
    } catch (const UsageError& fault) {
        throw UsageError(file.string() + ": " + fault.what());
    }
}
}  // namespace pipescope
