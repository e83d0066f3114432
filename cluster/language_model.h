#pragma once

#include "schedule/ids.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace pipescope {
/// How attention is computed.
enum class Attention {
    standard,  ///< the scores of all pairs of tokens are stored
    flash,     ///< they never are; causal scores are half the work
};
std::string to_string(Attention attention);

/// A decoder of transformer blocks, as GPT and Llama are.
/// Invariant (checked by the parser): numbers are at least 1; heads divide hidden, kv_heads divide heads.
struct LanguageModel {
    std::int64_t layers = 1;  ///< transformer blocks
    std::int64_t hidden = 1;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;  ///< of keys and values; fewer than heads: grouped-query attention
    std::int64_t sequence = 1;  ///< tokens of a sample
    std::int64_t vocabulary = 1;
    std::int64_t mlp = 4;  ///< width of the feed-forward layer
    bool gated = false;    ///< three matrices instead of two, as SwiGLU
    bool tied = true;      ///< the output layer is the transposed embedding
    bool dropout = true;
    Attention attention = Attention::standard;

    double head_width() const { return static_cast<double>(hidden) / static_cast<double>(heads); }
    /// Width of keys, or of values.
    double kv_width() const { return head_width() * static_cast<double>(kv_heads); }
    friend bool operator==(const LanguageModel&, const LanguageModel&) = default;
};

/// True for a text that parse_language_model() is to read: it begins with "gpt:", in any case, or is "gpt".
bool is_language_model(std::string_view text);
/// Parses "gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200". Further keys: kv_heads, mlp, gated,
/// tied, dropout, attention. Defaults: kv_heads = heads; mlp = 4 hidden, or if gated 8 / 3 of it, rounded up to a
/// multiple of 256 as in Llama; tied and dropout unless gated; attention standard, or flash if gated. Throws
/// UsageError.
LanguageModel parse_language_model(std::string_view text);
/// The text of the model, with all keys.
std::string to_string(const LanguageModel& model);

/// Weights of a block's matrices.
double block_weights(const LanguageModel& model);
/// Those of one of `tensor` ranks. Heads of keys and values that are fewer than the ranks are on several of them.
double rank_block_weights(const LanguageModel& model, int tensor);
/// Width of one rank's keys, or of its values.
double rank_kv_width(const LanguageModel& model, int tensor);
/// Weights of the embedding, which are those of the output layer too.
double embedding_weights(const LanguageModel& model);
/// All parameters, each once. Biases and norms, less than 0.1 % from hidden 1024 on, do not count.
double parameters_of(const LanguageModel& model);

/// Operations of a block's forward for so many samples. A multiply-add is two.
double block_flops(const LanguageModel& model, double samples);
/// Operations of the output layer's forward.
double output_flops(const LanguageModel& model, double samples);
/// Operations of a step of so many samples without recompute: three times those of its forwards.
double step_flops(const LanguageModel& model, double samples);

/// The part of the forward that a backward computes again.
enum class Recompute {
    none,
    selective,  ///< attention between the projections
    full,       ///< all of each block, from its input
};
std::string to_string(Recompute recompute);
/// Throws UsageError that lists the names.
Recompute parse_recompute(std::string_view name);

/// Parts of one block's activations for one micro-batch on one of `tensor` ranks, in bytes.
/// Source: Korthikanti and others, Reducing Activation Recomputation in Large Transformer Models (arXiv 2205.05198),
/// section 4, whose formulas follow for kv_heads = heads, mlp = 4 hidden, dropout, 2 bytes an element.
struct BlockActivations {
    double input = 0;  ///< of the block
    double core = 0;   ///< attention between the projections: scores, their dropout
    double rest = 0;   ///< everything else that the backward needs

    double total() const { return input + core + rest; }
};
BlockActivations block_activations(const LanguageModel& model, double samples, int tensor, bool sequence_parallel,
                                   double element_bytes);
}  // namespace pipescope
