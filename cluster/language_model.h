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

/// What the vectors of a model's norms are.
enum class Norm {
    unsaid,  ///< norms take time, but their parameters are not counted
    rms,     ///< one weight per element
    layer,   ///< a weight and a bias per element
};

std::string to_string(Norm norm);

/// What one block of a model consists of. Blocks of one kind have equal costs.
struct BlockKind {
    bool has_experts = false;  ///< a router and experts instead of one feed-forward layer
    bool has_window = false;   ///< its attention sees LanguageModel::window tokens instead of all
    bool has_state = false;    ///< a state-space layer instead of attention
    bool is_frozen = false;    ///< its weights do not train, nor do those before it, so it has no backward
    bool is_whole = false;     ///< its products never run in a short dtype

    friend auto operator<=>(const BlockKind&, const BlockKind&) = default;
    static const BlockKind dense;    ///< attention to all tokens, and one feed-forward layer
    static const BlockKind experts;  ///< the same with experts
};
inline constexpr BlockKind BlockKind::dense = {};
inline constexpr BlockKind BlockKind::experts = {.has_experts = true};

/// A decoder of transformer blocks, such as GPT, Llama and DeepSeek. Invariant (checked by the parser): numbers are at
/// least 1, unless 0 means that the model has no such part; heads divide hidden or have their own width; kv_heads
/// divide heads. With experts: at most top_k are picked per token; some block has them.
struct LanguageModel {
    std::int64_t layers = 1;  ///< blocks
    std::int64_t hidden = 1;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;  ///< for keys and values; fewer than heads: grouped-query attention
    std::int64_t head = 0;      ///< width of a head's query; 0: hidden / heads
    std::int64_t sequence = 1;  ///< tokens per sample
    std::int64_t vocabulary = 1;
    std::int64_t mlp = 4;  ///< width of the feed-forward layer
    bool gated = false;    ///< three matrices instead of two, as in SwiGLU
    bool tied = true;      ///< the output layer is the transposed embedding
    bool dropout = true;
    Attention attention = Attention::standard;

    std::int64_t experts = 0;         ///< in each block that has them; 0: none
    std::int64_t top_k = 0;           ///< experts that compute a token
    std::int64_t expert_hidden = 0;   ///< width of an expert's feed-forward layer
    std::int64_t shared_experts = 0;  ///< additional experts that compute every token
    std::int64_t dense_layers = 0;    ///< blocks at the start with a feed-forward layer of width mlp instead of experts
    std::int64_t expert_every = 0;    ///< of the others, only blocks whose number, from 1, it divides have experts
    double imbalance = 1;             ///< tokens of the busiest experts' device, over the mean
    double capacity = 0;              ///< most tokens of an expert, over the mean; others are dropped; 0: no limit

    // Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). `head` is the width of a head's query and key.
    std::int64_t kv_rank = 0;      ///< width of the latent vector of keys and values; 0: no latent attention
    std::int64_t q_rank = 0;       ///< width of the latent vector of queries; 0: queries have none
    std::int64_t rope_width = 0;   ///< part of each key that has positions, and that all heads share
    std::int64_t value_width = 0;  ///< width of a head's value

    // Sliding windows.
    std::int64_t window = 0;       ///< tokens that attention sees, itself included; 0: all
    std::int64_t full_layers = 0;  ///< blocks at the start that see all tokens
    std::int64_t full_every = 0;   ///< of the others, blocks whose number, from 1, it divides see all tokens; 0: none

    // State-space layers (Mamba-2, arXiv 2405.21060).
    std::int64_t state = 0;             ///< numbers of a state, per channel; 0: no state-space layers
    std::int64_t state_heads = 0;       ///< heads of a state-space layer
    std::int64_t state_head_width = 0;  ///< channels of each of these heads
    std::int64_t state_groups = 1;      ///< heads of one group share the matrices B and C
    std::int64_t convolution = 4;       ///< tokens that the layer's convolution sees
    std::int64_t attention_every = 0;   ///< blocks whose number, from 1, it divides have attention; 0: none has

    std::int64_t mtp = 0;  ///< modules that predict further tokens (DeepSeek-V3, arXiv 2412.19437, section 2.2)

    // Parts with few parameters.
    Norm norm = Norm::unsaid;
    std::int64_t block_norms = 2;  ///< norms over the hidden width in a block
    bool qk_norm = false;          ///< norms over the heads of queries and keys
    bool embedding_norm = false;
    std::int64_t positions = 0;  ///< rows of a learned embedding of positions
    bool qkv_bias = false;       ///< of queries, keys and values
    bool out_bias = false;       ///< of the projection after attention
    bool mlp_bias = false;       ///< of all feed-forward layers, those of experts included
    bool router_bias = false;
    bool output_bias = false;
    bool sinks = false;        ///< attention has a learned score for each head
    bool shared_gate = false;  ///< a sigmoid of one row scales what shared experts compute

    std::int64_t whole_blocks = 0;  ///< blocks at the start, and as many at the end, that are BlockKind::is_whole

    // What trains: everything, unless one of both is above 0.
    std::int64_t frozen = 0;  ///< blocks at the start that do not train, nor does the embedding, tied or not
    /// Rank of the matrices that train beside each matrix of attention, feed-forward layers and experts, while
    /// everything else is frozen (LoRA, arXiv 2106.09685); 0: no such matrices.
    std::int64_t lora = 0;

    BlockKind kind_of(std::int64_t block) const {
        const auto divides = [block](std::int64_t every) { return every > 0 && (block + 1) % every == 0; };
        BlockKind kind;
        kind.has_experts = experts > 0 && block >= dense_layers && (expert_every < 2 || divides(expert_every));
        kind.has_state = state > 0 && !divides(attention_every);
        kind.has_window =
            window > 0 && window < sequence && block >= full_layers && !divides(full_every) && !kind.has_state;
        kind.is_frozen = block < frozen;
        kind.is_whole = block < whole_blocks || block >= layers - whole_blocks;
        return kind;
    }
    bool is_latent() const { return kv_rank > 0; }
    /// Width of a head's query, and of its key.
    double head_width() const {
        return head > 0 ? static_cast<double>(head) : static_cast<double>(hidden) / static_cast<double>(heads);
    }
    double head_value_width() const { return value_width > 0 ? static_cast<double>(value_width) : head_width(); }
    /// Width of queries.
    double attention_width() const { return head_width() * static_cast<double>(heads); }
    /// Width of what attention computes: of all heads' values.
    double attended_width() const { return head_value_width() * static_cast<double>(heads); }
    /// Width of keys, or of values. Precondition: not latent.
    double kv_width() const { return head_width() * static_cast<double>(kv_heads); }
    /// Channels of a state-space layer.
    double state_width() const { return static_cast<double>(state_heads * state_head_width); }
    /// Width of the feed-forward layer that computes every token; 0 in a block of experts without shared experts.
    double shared_width(BlockKind kind) const {
        return static_cast<double>(kind.has_experts ? shared_experts * expert_hidden : mlp);
    }
    /// True if the first and the last layer share weights: a tied output layer, or modules that embed tokens.
    bool ends_share_weights() const { return tied || mtp > 0; }
    bool trains_embedding() const { return frozen == 0 && lora == 0; }
    bool trains_output() const { return lora == 0 && (frozen == 0 || !tied); }
    friend bool operator==(const LanguageModel&, const LanguageModel&) = default;
};
/// How many blocks the model has of a kind.
struct BlockCount {
    BlockKind kind;
    std::int64_t blocks = 0;
};
/// The kinds of the model's blocks without repeats, in the order of BlockKind, and their numbers.
std::vector<BlockCount> block_counts(const LanguageModel& model);
std::vector<BlockKind> block_kinds(const LanguageModel& model);
/// The kind of the blocks in modules that predict further tokens: of the last block, but never frozen.
BlockKind mtp_kind(const LanguageModel& model);

/// True for a text that parse_language_model() should read: it begins with "gpt:" or "hf:", in any case, or is "gpt" or
/// "hf".
bool is_language_model(std::string_view text);
/// Parses "gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200", or "hf:config.json": the path of a
/// Hugging Face configuration or of its folder, followed by keys that replace the file's,
/// "hf:config.json,sequence=8192". docs/cli/language-models.md has all keys.
///
/// Defaults: kv_heads = heads; head_width = hidden / heads; mlp = 4 hidden, or 8 / 3 hidden if gated, rounded up to a
/// multiple of 256 as in Llama; tied and dropout unless gated; attention standard, or flash if gated; no other parts;
/// expert_hidden = mlp. Throws UsageError.
LanguageModel parse_language_model(std::string_view text);
/// A model, and sentences about keys of its configuration that were not read.
struct ReadModel {
    LanguageModel model;
    std::vector<std::string> warnings;
};
/// parse_language_model() with its warnings. Reads a file once, so that the file may be a pipe.
ReadModel read_language_model(std::string_view text);
/// The text of the model as "gpt:". Keys from kv_rank on, and for the width of heads and for experts, appear only if
/// the model has such parts.
std::string to_string(const LanguageModel& model);

/// Weights of a block, all experts and matrices of LoRA included.
double block_weights(const LanguageModel& model, BlockKind kind);
/// The weights that compute one token: all except the experts that the router does not pick.
double active_block_weights(const LanguageModel& model, BlockKind kind);

/// A product with weights: each token's `inputs` numbers become `outputs`.
struct WeightMatrix {
    double inputs = 0;
    double outputs = 0;
};
/// Tokens of a chunk of a state-space layer, as in Mamba-2's kernels.
inline constexpr double kStateChunk = 256;
/// The matrices of a block's attention or state-space layer on one of `tensor` ranks. A rank has the whole matrices
/// that make latent vectors. If there are fewer heads of keys and values than ranks, several ranks hold the same head.
std::vector<WeightMatrix> rank_mixer_matrices(const LanguageModel& model, BlockKind kind, int tensor);

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
/// How the devices of a lane split a block's experts: `devices` have equally many, and each of these is a group of
/// `tensor` devices that split every expert as tensor parallelism splits a feed-forward layer.
struct ExpertSplit {
    int devices = 1;
    int tensor = 1;
};
/// A block's weights on one of `tensor` ranks, and its part of the experts. Each rank has the whole router, norms, and
/// the biases of sums over ranks.
RankWeights rank_block_weights(const LanguageModel& model, BlockKind kind, int tensor, ExpertSplit split);
/// The part of rank_block_weights() that trains.
RankWeights rank_trained_block_weights(const LanguageModel& model, BlockKind kind, int tensor, ExpertSplit split);
/// The matrices of a block on one rank that are products of their own, without the router and experts: queries, keys
/// and values are three, the halves of a gated feed-forward layer two.
std::vector<WeightMatrix> rank_single_matrices(const LanguageModel& model, BlockKind kind, int tensor);
/// Those of one expert on one of the `tensor` ranks that split it.
std::vector<WeightMatrix> rank_expert_matrices(const LanguageModel& model, int tensor);
/// Width of the keys and values on one rank, together.
double rank_key_value_width(const LanguageModel& model, int tensor);
/// Weights of the embedding's matrix; the output layer's has the same number.
double embedding_weights(const LanguageModel& model);
/// Weights of the first layer on one rank: the embedding, of positions too, and its norm.
double rank_first_weights(const LanguageModel& model, int tensor);
/// Weights of the last layer on one rank besides those of the embedding's matrix: the last norm and the bias.
double rank_last_weights(const LanguageModel& model, int tensor);
/// Weights of all modules that predict further tokens, besides embedding and output layer, which they share.
RankWeights rank_mtp_weights(const LanguageModel& model, int tensor, ExpertSplit split);
/// The part of rank_mtp_weights() that trains.
RankWeights rank_trained_mtp_weights(const LanguageModel& model, int tensor, ExpertSplit split);
/// Number of parameters without those modules. Exact if the model says its norm; otherwise norms are left out, less
/// than 0.1 % from hidden 1024 on.
double parameters_of(const LanguageModel& model);
/// Number of parameters that compute one token, without those modules.
double active_parameters_of(const LanguageModel& model);
/// Number of parameters that train, without those modules.
double trained_parameters_of(const LanguageModel& model);

/// Pairs of tokens of one sample that a block's attention considers, those that causal attention skips included: s^2,
/// or 2 s w - w^2 with a window of w tokens. Half of them are causal.
double attention_pairs(const LanguageModel& model, BlockKind kind);
/// Operations of a block's attention between the projections, for that many samples and all pairs; or of the scan of a
/// state-space layer.
double attention_flops(const LanguageModel& model, BlockKind kind, double samples);
/// Operations of a block's forward for that many samples. A multiply-add counts as two.
double block_flops(const LanguageModel& model, BlockKind kind, double samples);
/// Operations of all blocks' forwards.
double blocks_flops(const LanguageModel& model, double samples);
/// Operations of the output layer's forward.
double output_flops(const LanguageModel& model, double samples);
/// Operations of the forward of all modules that predict further tokens, with their output layers.
double mtp_flops(const LanguageModel& model, double samples);
/// Operations of a step of that many samples without recompute: three times the forward's. Frozen matrices have no
/// gradients of their own, and frozen blocks no backward.
double step_flops(const LanguageModel& model, double samples);
/// step_flops() without the pairs of tokens that causal attention skips, half of all.
double causal_step_flops(const LanguageModel& model, double samples);

/// Copies of each token that the busiest device's experts compute: top_k times the imbalance, or the capacity if that
/// is less, which drops the others.
double computed_copies(const LanguageModel& model);

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
