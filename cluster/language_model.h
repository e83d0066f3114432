#pragma once

#include "base/ids.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// How attention is computed.
enum class Attention {
    standard,  ///< the scores of all pairs of tokens are stored
    flash,     ///< scores are never stored; causal scores are half the work
};
std::string to_string(Attention attention);

/// The layer after a block's attention.
enum class BlockKind {
    dense,    ///< a feed-forward layer
    experts,  ///< several; a router picks some for each token
};

/// A decoder of transformer blocks, such as GPT, Llama and Mixtral. Invariant (checked by the parser): numbers are at
/// least 1; heads divide hidden or have their own width; kv_heads divide heads. With experts: at most top_k are picked
/// per token; fewer dense layers than layers.
struct LanguageModel {
    std::int64_t layers = 1;  ///< transformer blocks
    std::int64_t hidden = 1;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;  ///< for keys and values; fewer than heads: grouped-query attention
    std::int64_t head = 0;      ///< width of a head; 0: hidden / heads
    std::int64_t sequence = 1;  ///< tokens per sample
    std::int64_t vocabulary = 1;
    std::int64_t mlp = 4;  ///< width of the feed-forward layer
    bool gated = false;    ///< three matrices instead of two, as in SwiGLU
    bool tied = true;      ///< the output layer is the transposed embedding
    bool dropout = true;
    Attention attention = Attention::standard;
    std::int64_t experts = 0;         ///< in each block after the dense ones; 0: none
    std::int64_t top_k = 0;           ///< experts that compute a token
    std::int64_t expert_hidden = 0;   ///< width of an expert's feed-forward layer
    std::int64_t shared_experts = 0;  ///< additional experts that compute every token
    std::int64_t dense_layers = 0;    ///< blocks at the start with a feed-forward layer of width mlp instead of experts

    BlockKind kind_of(std::int64_t block) const {
        return experts > 0 && block >= dense_layers ? BlockKind::experts : BlockKind::dense;
    }
    double head_width() const {
        return head > 0 ? static_cast<double>(head) : static_cast<double>(hidden) / static_cast<double>(heads);
    }
    /// Width of queries.
    double attention_width() const { return head_width() * static_cast<double>(heads); }
    /// Width of keys, or of values.
    double kv_width() const { return head_width() * static_cast<double>(kv_heads); }
    /// Width of the feed-forward layer that computes every token; 0 in a block of experts without shared experts.
    double shared_width(BlockKind kind) const {
        return static_cast<double>(kind == BlockKind::dense ? mlp : shared_experts * expert_hidden);
    }
    friend bool operator==(const LanguageModel&, const LanguageModel&) = default;
};
/// The kinds of the model's blocks, without repeats.
std::vector<BlockKind> block_kinds(const LanguageModel& model);

/// True for a text that parse_language_model() should read: it begins with "gpt:", in any case, or is "gpt".
bool is_language_model(std::string_view text);
/// Parses "gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200". Further keys: kv_heads, mlp, gated,
/// head_width, tied, dropout, attention, and experts, top_k, expert_hidden, shared_experts, dense_layers.
///
/// Defaults: kv_heads = heads; head_width = hidden / heads; mlp = 4 hidden, or 8 / 3 hidden if gated, rounded up to a
/// multiple of 256 as in Llama; tied and dropout unless gated; attention standard, or flash if gated; no experts;
/// expert_hidden = mlp. Throws UsageError.
LanguageModel parse_language_model(std::string_view text);
/// The text of the model, with all keys. Keys for the width of heads and for experts appear only if the model has them.
std::string to_string(const LanguageModel& model);

/// Weights of a block's matrices.
double block_weights(const LanguageModel& model, BlockKind kind);
/// The weights that compute one token: all except the experts that the router does not pick.
double active_block_weights(const LanguageModel& model, BlockKind kind);

/// Weights that a device holds.
struct RankWeights {
    double usual = 0;
    double experts = 0;  ///< of experts, which a different set of devices holds

    double all() const { return usual + experts; }
    RankWeights& operator+=(const RankWeights& other) {
        usual += other.usual;
        experts += other.experts;
        return *this;
    }
};
/// A block's weights on one of `tensor` ranks and one of `expert` ranks; each expert is whole on one rank. If there are
/// fewer heads of keys and values than ranks, several ranks hold the same head. Each rank has the whole router.
RankWeights rank_block_weights(const LanguageModel& model, BlockKind kind, int tensor, int expert);
/// Width of the keys on one rank, or of the values.
double rank_kv_width(const LanguageModel& model, int tensor);
/// Weights of the embedding; the output layer has the same number.
double embedding_weights(const LanguageModel& model);
/// Number of parameters. Leaves out biases and norms, less than 0.1 % from hidden 1024 on.
double parameters_of(const LanguageModel& model);
/// Number of parameters that compute one token.
double active_parameters_of(const LanguageModel& model);

/// Operations of a block's forward for that many samples. A multiply-add counts as two.
double block_flops(const LanguageModel& model, BlockKind kind, double samples);
/// Operations of all blocks' forwards.
double blocks_flops(const LanguageModel& model, double samples);
/// Operations of the output layer's forward.
double output_flops(const LanguageModel& model, double samples);
/// Operations of a step of that many samples without recompute: three times the forward's.
double step_flops(const LanguageModel& model, double samples);
/// step_flops() without the pairs of tokens that causal attention skips, half of all.
double causal_step_flops(const LanguageModel& model, double samples);

/// The part of the forward that a backward computes again.
enum class Recompute {
    none,
    selective,  ///< attention between the projections
    full,       ///< all of each block, from its input
};
std::string to_string(Recompute recompute);
/// Throws UsageError that lists the names.
Recompute parse_recompute(std::string_view name);

/// Parts of one block's activations for one micro-batch on one of `tensor` ranks, in bytes. A block of experts keeps
/// the router's probabilities in float32. For each of a token's top_k copies it also keeps what a feed-forward layer
/// keeps of a token: its input, and the inputs of the activation and of the second matrix.
///
/// Source: Korthikanti and others, Reducing Activation Recomputation in Large Transformer Models (arXiv 2205.05198),
/// section 4. Its formulas follow for kv_heads = heads, mlp = 4 hidden, dropout, 2 bytes per element.
struct BlockActivations {
    double input = 0;  ///< of the block
    double core = 0;   ///< attention between the projections: scores, their dropout
    double rest = 0;   ///< everything else that the backward needs

    double total() const { return input + core + rest; }
};
BlockActivations block_activations(const LanguageModel& model, BlockKind kind, double samples, int tensor,
                                   bool sequence_parallel, double element_bytes);
}  // namespace pipescope
