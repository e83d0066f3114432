#include "cluster/layout.h"
#include "cluster/layout_activations.h"
#include "cluster/layout_links.h"
#include "hardware/operator_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
/// Times in ns of one layer on one rank.
struct LayerTimes {
    double forward = 0;
    double backward = 0;  ///< without recompute
    double weights = 0;   ///< part of `backward`: the gradients of weights
    double core = 0;      ///< part of `forward`: what selective recompute repeats

    LayerTimes& add(const LayerTimes& other, double times) {
        forward += times * other.forward;
        backward += times * other.backward;
        weights += times * other.weights;
        core += times * other.core;
        return *this;
    }
};

/// Times of operators on one rank of the layout's device.
class RankTimes {
public:
    RankTimes(const LanguageModel& model, const NodeGroup& group, const Layout& layout)
        : model_(model),
          device_(group.device),
          layout_(layout),
          how_(layout.how()),
          times_(device_, layout.dtype, how_),
          short_products_(how_.short_products_in(layout.product_dtype)) {
        element_ = static_cast<double>(dtype_bytes(layout.dtype));
        tensor_ = layout.tensor;
        split_ = sequence_split(layout);
        samples_ = static_cast<double>(layout.micro_batch_size);
        sequence_ = static_cast<double>(model.sequence) / layout.context;
        tokens_ = rank_tokens(model, layout);
        hidden_ = static_cast<double>(model.hidden);
        activation_ = tokens_ * hidden_ * element_;
    }

    /// Bytes of the tensor between two blocks: on all ranks together, or on each rank without sequence parallelism.
    double activation() const { return activation_; }
    double copied_tokens() const { return rank_copied_tokens(model_, layout_); }
    /// Bytes of a tensor with all copies.
    double copied_bytes() const { return copied_tokens() * hidden_ * element_; }
    /// Bytes of this rank's tokens, each with one copy.
    double token_bytes() const {
        return tokens_ / split_ * (computed_copies(model_) / static_cast<double>(model_.top_k)) * hidden_ * element_;
    }
    /// Bytes of the keys and values of this rank's tokens.
    double key_value_bytes() const { return tokens_ * rank_key_value_width(model_, layout_.tensor) * element_; }

    /// Attention of this rank's tokens to the keys and values of one context-parallel rank: one kernel forward, and one
    /// backward that recomputes the scores. Half of the pairs are causal, for other ranks' keys too.
    struct FlashTimes {
        double forward = 0;
        double backward = 0;
    };
    FlashTimes flash(BlockKind kind) const {
        const auto s = static_cast<double>(model_.sequence);
        AttentionShape shape;
        shape.heads = samples_ * static_cast<double>(model_.heads) / tensor_;
        shape.queries = shape.keys = sequence_;
        shape.width = model_.head_width();
        shape.value_width = model_.head_value_width();
        shape.pairs = kind.has_window ? attention_pairs(model_, kind) / (s * s) / 2 : 0.5;
        const double forward = times_.attention(shape);
        shape.is_backward = true;
        return {forward, times_.attention(shape)};
    }

    LayerTimes block(BlockKind kind) const {
        LayerTimes times;
        add_mixer_matrices(times, kind);
        LayerTimes experts;
        if (kind.has_experts) {
            add_router(times, kind);
            add_experts(experts, kind);
        }
        const double shared = model_.shared_width(kind) / tensor_;
        if (shared > 0) {
            add_feed_forward(times, kind, tokens_, shared, 1);
        }
        if (kind.has_state) {
            add_scan(times, kind);
        } else if (model_.attention == Attention::standard) {
            add_stored_scores(times);
        } else {
            add_flash(times, kind);
        }
        const double h = activation_;
        const auto norms = static_cast<double>(model_.block_norms);
        times.forward += norms * pass(2 * h / split_);
        times.backward += norms * pass(4 * h / split_);
        // Residual additions read two tensors and write one; with dropout, they also read a mask of half a tensor.
        times.forward += 2 * pass((model_.dropout ? 3.5 : 3) * h / split_);
        times.backward += 2 * pass((model_.dropout ? 2.5 : 2) * h / split_);
        add_biases(times, shared);
        times.forward += added_pass(how_.forward_tensors * h / split_);
        times.backward += added_pass(how_.backward_tensors * h / split_);
        if (model_.lora > 0) {
            add_lora(times, kind);
        }
        const ExpertSplit split = layout_.expert_split();
        add_sums(times, rank_trained_block_weights(model_, kind, layout_.tensor, split).all(), how_.fused_gradients);
        add_parameters(times, rank_block_weights(model_, kind, layout_.tensor, split).all());
        times.forward = times_.launched(times.forward, how_.forward_launches);
        times.backward = times_.launched(times.backward, how_.backward_launches);
        if (kind.has_experts) {
            // The host waits until it knows how many tokens each expert has, so it is not ahead when it launches them.
            const double product = 1 + (layout_.is_short(kind) ? how_.cast_launches : 0);
            constexpr double kMatrices = 2;
            times.forward += times_.launched(experts.forward, own_experts() * kMatrices * product);
            times.backward += times_.launched(experts.backward, own_experts() * 2 * kMatrices * product);
            times.weights += experts.weights;
        }
        return times;
    }

    LayerTimes embedding() const {
        LayerTimes times;
        times.forward = pass(2 * activation_) + (model_.dropout ? pass(2.5 * activation_ / split_) : 0);
        if (model_.trains_embedding()) {
            const double weights = embedding_weights(model_) / tensor_;
            times.backward = pass(3 * activation_);
            times.weights = times.backward;
            add_weights(times, pass(weights * element_));  // the gradient of all rows, most of them zeros
            add_sums(times, weights, false);
            add_parameters(times, weights);
        }
        return times;
    }

    /// Joins each token's hidden state and the embedding of the next token, both after norms.
    LayerTimes join() const {
        LayerTimes times = embedding();
        times.forward += 2 * pass(2 * activation_ / split_);
        times.backward += 2 * pass(4 * activation_ / split_);
        add_matrix(times, mtp_kind(model_), tokens_, hidden_ / tensor_, 2 * hidden_);
        return times;
    }

    /// The last norm, the output layer and the loss, in float32.
    LayerTimes output() const {
        const double vocabulary = static_cast<double>(model_.vocabulary) / tensor_;
        LayerTimes times;
        times.forward = product(tokens_, vocabulary, hidden_) + pass(2 * activation_ / split_);
        // Bytes per logit: cast, maximum, exponentials, sum, gradient.
        times.backward = product(tokens_, hidden_, vocabulary) + pass(tokens_ * vocabulary * how_.loss_bytes) +
                         pass(4 * activation_ / split_);
        const double weights = embedding_weights(model_) / tensor_;
        if (model_.trains_output()) {
            add_weights(times, product(hidden_, vocabulary, tokens_));
            add_sums(times, weights, how_.fused_gradients);
        }
        add_parameters(times, weights);
        return times;
    }

private:
    double product(double m, double n, double k, double batch = 1) const { return times_.product({batch, m, n, k}); }
    /// A product of a block's weights.
    double matrix_product(BlockKind kind, double m, double n, double k, double matrices) const {
        return layout_.is_short(kind)
                   ? times_.matrices({matrices, m, n, k}, layout_.product_dtype) / short_products_.share
                   : times_.matrices({matrices, m, n, k}, layout_.dtype);
    }
    /// Adds the bytes of each parameter that the program moves for each micro-batch.
    void add_parameters(LayerTimes& times, double parameters) const {
        times.backward += added_pass(parameters * how_.parameter_bytes);
    }
    /// Bytes of this rank's queries, and of what attention computes for them.
    double heads_bytes() const { return tokens_ * model_.attention_width() * element_ / tensor_; }
    double attended_bytes() const { return tokens_ * model_.attended_width() * element_ / tensor_; }
    /// An operator that only moves bytes.
    double pass(double bytes) const { return times_.pass(bytes); }
    /// A pass that only some programs have: without bytes, no kernel is launched.
    double added_pass(double bytes) const { return times_.added_pass(bytes); }

    /// Experts on this rank.
    double own_experts() const { return static_cast<double>(model_.experts) / layout_.expert; }

    static void add_weights(LayerTimes& times, double time) {
        times.backward += time;
        times.weights += time;
    }
    /// Adds the sums of the weights' gradients over micro-batches: read the gradient, read and write the sum. A product
    /// that adds to the sum itself, `fused`, writes no gradient besides.
    void add_sums(LayerTimes& times, double weights, bool fused) const {
        add_weights(times, pass(weights * (2.0 * layout_.gradient_bytes + (fused ? -element_ : element_))));
    }
    /// Adds products of weight matrices with k inputs and n outputs, each for that many tokens.
    void add_matrix(LayerTimes& times, BlockKind kind, double tokens, double n, double k, double matrices = 1) const {
        times.forward += matrix_product(kind, tokens, n, k, matrices);
        times.backward += matrix_product(kind, tokens, k, n, matrices);
        if (model_.lora == 0) {
            add_weights(times, matrix_product(kind, k, n, tokens, matrices));
        }
        if (layout_.is_short(kind)) {
            // Operators before a product write its input in the short dtype, and a transpose for the weights' gradient.
            // Gradients of outputs are read and written in the same way.
            const double more = short_products_.cast_bytes;
            times.forward += pass((2 + more) * tokens * k * matrices);
            times.backward += pass((element_ + 2 + more) * tokens * n * matrices);
        }
    }
    /// Adds the products of attention or a state-space layer with its weights, and its inner norms.
    void add_mixer_matrices(LayerTimes& times, BlockKind kind) const {
        for (const WeightMatrix& matrix : rank_mixer_matrices(model_, kind, layout_.tensor)) {
            add_matrix(times, kind, tokens_, matrix.outputs, matrix.inputs);
        }
        double normed = 0;  // bytes
        if (model_.is_latent() && !kind.has_state) {
            normed += tokens_ * static_cast<double>(model_.q_rank + model_.kv_rank) * element_;
        }
        if (model_.qk_norm && !kind.has_state) {
            normed += 2 * heads_bytes();
        }
        if (normed > 0) {
            times.forward += 2 * pass(2 * normed / 2);
            times.backward += 2 * pass(4 * normed / 2);
        }
    }
    /// Adds the matrices of LoRA beside each matrix: their products, and the addition to its output. The gradient of
    /// the input is a sum of two as well.
    void add_lora(LayerTimes& times, BlockKind kind) const {
        const auto add = [&](const std::vector<WeightMatrix>& matrices, double tokens, double each) {
            const auto rank = static_cast<double>(model_.lora);
            for (const WeightMatrix& matrix : matrices) {
                const double k = matrix.inputs;
                const double n = matrix.outputs;
                times.forward += product(tokens, rank, k, each) + product(tokens, n, rank, each) +
                                 pass(3 * tokens * n * each * element_);
                times.backward += product(tokens, rank, n, each) + product(tokens, k, rank, each) +
                                  pass(3 * tokens * k * each * element_);
                add_weights(times, product(rank, n, tokens, each) + product(k, rank, tokens, each));
            }
        };
        add(rank_single_matrices(model_, kind, layout_.tensor), tokens_, 1);
        if (kind.has_experts) {
            const int split = layout_.expert_tensor;
            add(rank_expert_matrices(model_, split), copied_tokens() * split / own_experts(), own_experts());
        }
    }
    /// Adds biases: additions in the projections, and sums of the outputs' gradients. A model that does not say its
    /// parts has them unless it is gated. `shared`: width of the feed-forward layer.
    void add_biases(LayerTimes& times, double shared) const {
        const double h = activation_;
        const bool is_said = model_.norm != Norm::unsaid;
        const auto has = [&](bool said) { return is_said ? said : !model_.gated; };
        double sums = 0;
        if (has(model_.qkv_bias)) {
            const double projected =
                is_said ? heads_bytes() + tokens_ * rank_key_value_width(model_, layout_.tensor) * element_
                        : 3 * h / tensor_;
            times.forward += pass(2 * projected);
            sums += pass(projected);
        }
        sums += ((has(model_.out_bias) ? 1 : 0) + (has(model_.mlp_bias) ? 1 : 0)) * pass(h);
        sums += has(model_.mlp_bias) ? pass(tokens_ * shared * element_) : 0;
        add_weights(times, model_.lora > 0 ? 0 : sums);  // frozen ones have no gradient
    }
    /// Adds a state-space layer between its projections: the convolution, the scan over tokens in chunks, the gate and
    /// its norm.
    void add_scan(LayerTimes& times, BlockKind kind) const {
        const double channels = tokens_ * model_.state_width() / tensor_ * element_;
        const double inputs = rank_mixer_matrices(model_, kind, layout_.tensor).front().outputs * tokens_ * element_;
        times.forward += pass(2 * (inputs - channels)) + pass(4 * channels);
        times.backward += pass(3 * (inputs - channels)) + pass(7 * channels);
        const double chunk = std::min(sequence_, kStateChunk);
        const auto width = static_cast<double>(model_.state_head_width);
        const double heads = static_cast<double>(model_.state_heads) / tensor_;
        const double chunks = tokens_ / chunk * heads;
        DeviceWork scan = matmul_work(device_, layout_.dtype, chunk, width, chunk, chunks);
        scan.flops *=
            attention_flops(model_, kind, samples_) / tensor_ / layout_.context / (2 * chunk * width * chunk * chunks);
        scan.bytes_moved = inputs + channels;
        times.forward += times_.roofline(scan);
        scan.flops *= 2.5;  // the backward computes the chunks' scores again
        scan.bytes_moved *= 2;
        times.backward += times_.roofline(scan);
    }
    /// Adds feed-forward layers of that width, each for that many tokens.
    void add_feed_forward(LayerTimes& times, BlockKind kind, double tokens, double width, double layers) const {
        add_matrix(times, kind, tokens, (model_.gated ? 2 : 1) * width, hidden_, layers);
        add_matrix(times, kind, tokens, hidden_, width, layers);
        const double wide = layers * tokens * width * element_;
        times.forward += pass((model_.gated ? 3 : 2) * wide);  // activation function
        times.backward += pass((model_.gated ? 5 : 3) * wide);
    }
    /// Adds the router and the moves of tokens' copies on this rank.
    void add_router(LayerTimes& times, BlockKind kind) const {
        const double tokens = tokens_ / split_;
        const double experts = static_cast<double>(model_.experts);
        add_matrix(times, kind, tokens, experts, hidden_);
        constexpr double kLogitBytes = 4;
        const double logits = tokens * experts * kLogitBytes;
        times.forward += pass(2 * logits) + pass(logits);  // softmax, and the largest ones of each token
        times.backward += pass(3 * logits);
        // Copies are sorted by expert, and their outputs summed by token. Such kernels reach less than others: 0.5 of
        // a B200's peak instead of 0.67 (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json).
        constexpr double kShareOfMoves = 0.75;
        const double copies = copied_bytes() / kShareOfMoves;
        const double moves = 2 * pass(tokens * hidden_ * element_ / kShareOfMoves + copies);
        // If several ranks have experts, copies arrive by rank, and must be sorted by expert and back.
        const bool arrive_by_rank = layout_.expert > 1 && layout_.expert < model_.experts;
        const double sorts = arrive_by_rank ? 2 * pass(2 * copies * layout_.expert_tensor) : 0;
        times.forward += moves + sorts;
        times.backward += moves + sorts;
    }
    /// Adds this rank's experts, or its part of each. Ranks that split an expert compute each other's copies.
    void add_experts(LayerTimes& times, BlockKind kind) const {
        const double copies = copied_tokens() * layout_.expert_tensor;
        const double width = static_cast<double>(model_.expert_hidden) / layout_.expert_tensor;
        add_feed_forward(times, kind, copies / own_experts(), width, own_experts());
        if (model_.mlp_bias && how_.unfused_expert_bias) {
            // Tensors that Megatron-Core's experts read and write: an expert's part, its bias times the probability,
            // their sum, and all parts together; and between the products each step of the activation function.
            constexpr double kOfBias = 6;
            constexpr double kOfActivation = 16;
            const double inner = (model_.gated ? 2 : 1) * width;
            const double moved = copies * element_ * (kOfBias * (inner + hidden_) + kOfActivation * width);
            times.forward += pass(moved);
            times.backward += pass(2 * moved);
        }
    }
    void add_stored_scores(LayerTimes& times) const {
        const auto s = static_cast<double>(model_.sequence);
        const double heads = samples_ * static_cast<double>(model_.heads) / tensor_;
        const double width = model_.head_width();
        const double value = model_.head_value_width();
        const double scores = heads * s * s * element_;
        const double scored = product(s, s, width, heads);
        times.core = scored + product(s, value, s, heads) + pass(2 * scores);
        times.backward += 2 * product(s, width, s, heads) + product(s, value, s, heads) + product(s, s, value, heads) +
                          pass(3 * scores);
        if (model_.dropout) {
            times.core += pass(2.5 * scores);
            times.backward += pass(2.5 * scores);
        }
        times.forward += times.core + 2 * pass(2 * heads_bytes());  // transposes of heads and tokens
        times.backward += 3 * pass(2 * heads_bytes());
    }
    /// Adds a turn for each rank's keys and values. Each turn after the first adds its outputs to the earlier ones.
    void add_flash(LayerTimes& times, BlockKind kind) const {
        const FlashTimes turn = flash(kind);
        const double turns = layout_.context;
        times.core = turns * turn.forward + (turns - 1) * pass(3 * attended_bytes());
        times.forward += times.core;
        times.backward += turns * turn.backward;
    }

    const LanguageModel& model_;
    const DeviceType& device_;
    const Layout& layout_;
    const TrainingProgram& how_;
    OperatorTimes times_;
    ShortProducts short_products_;
    double element_ = 2;
    double tensor_ = 1;
    double split_ = 1;
    double samples_ = 1;
    double sequence_ = 1;  // tokens of a sample
    double tokens_ = 1;
    double hidden_ = 1;
    double activation_ = 0;
};

Bytes whole(double bytes) {
    return rounded_bytes(bytes);
}

/// A layer's weights on a rank.
struct LayerWeights {
    RankWeights all;
    RankWeights trained;
};

/// Sets the bytes of a layer with these parameters.
void set_parameters(LayerProfile& layer, const LayerWeights& parameters, const Layout& layout) {
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const auto split = [&](const RankWeights& weights, int stage, double bytes) {
        return RankWeights{weights.usual * bytes / layout.zero_parts(stage, layout.weight_copies()),
                           weights.experts * bytes / layout.zero_parts(stage, layout.expert_copies())};
    };
    layer.parameter_bytes = whole(split(parameters.all, 3, element).all());
    layer.gradient_bytes = whole(split(parameters.trained, 2, layout.gradient_bytes).all());
    layer.expert_gradient_bytes = whole(split(parameters.trained, 2, layout.gradient_bytes).experts);
}
/// The same for the embedding or the output layer, whose optimizer may keep more than that of blocks. The profile has
/// one factor for all layers, so the rest is among the layer's buffers. `trained`: weights of its matrix on a rank, if
/// that trains.
void set_end_parameters(LayerProfile& layer, const LayerWeights& parameters, double trained, const Layout& layout) {
    set_parameters(layer, parameters, layout);
    const double more = kept_bytes(layout, false) - kept_bytes(layout, true);
    layer.buffer_bytes = whole(more * trained / layout.zero_parts(1, layout.weight_copies()));
}

/// Bytes of gradients and parameters that ZeRO splits, and that are whole while their layer works.
double whole_bytes(const LayerWeights& parameters, const Layout& layout) {
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const auto copied = [&](const RankWeights& weights) {
        return (layout.weight_copies().ranks > 1 ? weights.usual : 0) +
               (layout.expert_copies().ranks > 1 ? weights.experts : 0);
    };
    return (layout.zero >= 2 ? layout.gradient_bytes * copied(parameters.trained) : 0) +
           (layout.zero >= 3 ? element * copied(parameters.all) : 0);
}
}  // namespace

namespace {
/// Waits of a pass for keys and values: their message takes longer than the attention to the previous ones.
struct ContextWaits {
    double forward = 0;
    double backward = 0;
};
ContextWaits context_waits(const RankTimes& rank, BlockKind kind, const Cluster& cluster, const NodeGroup& group,
                           const Layout& layout) {
    if (layout.context == 1 || kind.has_state) {
        return {};
    }
    const Link ring = ring_link(cluster, group, layout.context_ranks());
    const auto [forward, backward] = rank.flash(kind);
    const double one = ring.exchange_ns(rank.key_value_bytes());
    const double with_gradients = ring.exchange_ns(2 * rank.key_value_bytes());
    const auto wait = [](double message, double work) { return std::max(0.0, message - work); };
    // In the backward, keys and values leave in all turns except the last, gradients in all except the first.
    return {(layout.context - 1) * wait(one, forward),
            2 * wait(one, backward) + (layout.context - 2) * wait(with_gradients, backward)};
}

/// Time of a sum over the ranks. With sequence parallelism, a reduce-scatter and an all-gather, which take as long.
double tensor_sum_ns(const RankTimes& rank, const Cluster& cluster, const NodeGroup& group, const Layout& layout) {
    return all_reduce_ns(ring_link(cluster, group, layout.tensor_ranks()), layout.tensor, rank.activation()) /
           layout.how().tensor_sum_share;
}

/// Time in which tokens travel to the ranks of their experts, or back.
double all_to_all_of(const RankTimes& rank, const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                     const Layout& layout) {
    const double gathered = rank.copied_bytes() * layout.expert_tensor;  // by ranks that split experts, and summed
    const double sent = layout.dispatch == TokenDispatch::node
                            ? node_dispatch_ns(cluster, group, layout.expert_ranks(), rank.token_bytes(),
                                               static_cast<double>(model.experts), static_cast<double>(model.top_k))
                            : all_to_all_ns(cluster, group, layout.expert_ranks(), rank.copied_bytes());
    return sent / layout.how().dispatch_share +
           all_gather_ns(ring_link(cluster, group, layout.tensor_ranks()), layout.expert_tensor, gathered);
}

/// Time that replicas need to exchange a layer's parameters and gradients in each pass.
struct ZeroMoves {
    double gather = 0;    ///< ns; ZeRO 3: each pass gathers the parameters
    double sum = 0;       ///< ns; ZeRO 2 and 3: each backward sums the gradients, and each replica keeps its part
    bool beside = false;  ///< overlaps with the layer's work
    bool forward_beside = true;   ///< if `beside`: the forward's gather does
    bool backward_beside = true;  ///< if `beside`: the backward's gather does
    double slowdown = 0;          ///< of work beside a message, as a share of the message's time

    double both(double work, double message) const {
        return std::max(work, message) + slowdown * std::min(work, message);
    }
    double forward(double work) const { return beside && forward_beside ? both(work, gather) : work + gather; }
    double backward(double work) const {
        return !(work > 0)       ? 0  // all weights up to here are frozen
               : !beside         ? work + gather + sum
               : backward_beside ? both(work, gather + sum)
                                 : both(work, sum) + gather;
    }
};
/// `summed`: parameters whose gradients the layer's backward completes.
ZeroMoves zero_moves(const RankWeights& parameters, const RankWeights& summed, const Cluster& cluster,
                     const NodeGroup& group, const Layout& layout) {
    ZeroMoves moves;
    moves.beside = layout.gradient_bucket > 0;
    moves.forward_beside = layout.how().forward_gather_overlap;
    moves.backward_beside = layout.how().backward_gather_overlap;
    moves.slowdown = layout.how().overlap_slowdown;
    if (layout.zero >= 2) {
        moves.sum = gather_weights_ns(summed, cluster, group, layout, layout.gradient_bytes);
    }
    if (layout.zero >= 3) {
        moves.gather =
            gather_weights_ns(parameters, cluster, group, layout, static_cast<double>(dtype_bytes(layout.dtype)));
    }
    return moves;
}

/// The part of a message that lengthens a block if the share `overlap` of it runs beside work.
double exposed(double message, double overlap, const Layout& layout) {
    return message * (1 - overlap * (1 - layout.how().overlap_slowdown));
}

/// Sums per pass: after the projection, and after a feed-forward layer that computes every token.
double sums_a_pass(const LanguageModel& model, BlockKind kind) {
    return model.shared_width(kind) > 0 ? 2 : 1;
}

/// Times of a block's messages in one pass, in ns.
struct BlockMessages {
    double sums = 0;        ///< over tensor-parallel ranks
    double all_to_all = 0;  ///< to the experts and back
    ContextWaits context;

    double forward() const { return sums + all_to_all + context.forward; }
    double backward() const { return sums + all_to_all + context.backward; }
};
BlockMessages messages_of(const RankTimes& rank, const LanguageModel& model, BlockKind kind, const Cluster& cluster,
                          const NodeGroup& group, const Layout& layout) {
    BlockMessages messages;
    messages.sums = exposed(sums_a_pass(model, kind) * tensor_sum_ns(rank, cluster, group, layout),
                            layout.how().tensor_overlap, layout);
    if (kind.has_experts) {
        // Programs overlap ways that leave a node.
        const bool overlaps = layout.expert_tensor == 1 && layout.expert > group.devices_per_node;
        messages.all_to_all = exposed(2 * all_to_all_of(rank, model, cluster, group, layout),
                                      overlaps ? layout.how().dispatch_overlap : 0, layout);
    }
    messages.context = context_waits(rank, kind, cluster, group, layout);
    return messages;
}

/// The part of the block's forward that its backward repeats, including sums over ranks.
double recomputed(const LayerTimes& block, const Layout& layout) {
    const double selective = layout.how().selective_share;
    return layout.recompute == Recompute::none   ? 0
           : layout.recompute == Recompute::full ? block.forward
           : selective > 0                       ? selective * block.forward
                                                 : block.core;
}

/// A block with its `messages` in each pass and its recompute, but without ZeRO's messages.
LayerTimes whole_block(const RankTimes& rank, BlockKind kind, const BlockMessages& messages, const Layout& layout) {
    LayerTimes times = rank.block(kind);
    times.core += messages.context.forward;
    times.forward += messages.forward();
    if (kind.is_frozen) {
        times.backward = times.weights = 0;
        return times;
    }
    times.backward += messages.backward();
    times.backward += recomputed(times, layout);
    return times;
}

/// `sum`: time to sum the output over tensor-parallel ranks.
LayerTimes embedding_times(const RankTimes& rank, double sum) {
    LayerTimes times = rank.embedding();
    times.forward += sum;
    return times;
}
/// `sum`: time to sum the input's gradient.
LayerTimes output_times(const RankTimes& rank, double sum) {
    LayerTimes times = rank.output();
    times.backward += sum;
    return times;
}
/// Weights that the last layer uses: the output layer's, and those of modules that predict further tokens.
RankWeights last_weights(const LanguageModel& model, const Layout& layout) {
    RankWeights weights{embedding_weights(model) / layout.tensor + rank_last_weights(model, layout.tensor)};
    return weights += rank_mtp_weights(model, layout.tensor, layout.expert_split());
}
/// Weights whose gradients the last layer completes: all except a matrix that is tied to an embedding on the same lane,
/// which then completes it. On another lane, modules that predict further tokens have a copy of the embedding.
RankWeights output_weights(const LanguageModel& model, const Layout& layout) {
    RankWeights weights = last_weights(model, layout);
    const double embedding = embedding_weights(model) / layout.tensor;
    if (ends_share_a_lane(layout)) {
        weights.usual -= model.tied ? embedding : 0;
    } else {
        weights.usual += model.mtp > 0 && !model.tied ? embedding : 0;
    }
    return weights;
}

/// The part of output_weights() that trains.
RankWeights trained_output_weights(const LanguageModel& model, const Layout& layout) {
    if (model.lora > 0) {
        return rank_trained_mtp_weights(model, layout.tensor, layout.expert_split());
    }
    RankWeights weights = output_weights(model, layout);
    if (!model.trains_embedding() && !ends_share_a_lane(layout) && model.ends_share_weights()) {
        weights.usual -= embedding_weights(model) / layout.tensor;
    }
    return weights;
}

/// The output layer, and modules that predict further tokens, each with a use of the output layer. `sum`: as in
/// output_times().
LayerTimes last_times(const RankTimes& rank, const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                      const Layout& layout, double sum) {
    LayerTimes times = output_times(rank, sum);
    if (model.mtp > 0) {
        const BlockKind kind = mtp_kind(model);
        LayerTimes module = whole_block(rank, kind, messages_of(rank, model, kind, cluster, group, layout), layout);
        module.add(rank.join(), 1).add(times, 1);
        module.forward += sum;
        times.add(module, static_cast<double>(model.mtp));
    }
    return times;
}
}  // namespace

double gather_weights_ns(const RankWeights& parameters, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout, double bytes) {
    const auto gather = [&](const RankGroup& copies, double weights) {
        return all_gather_ns(copies_link(cluster, group, layout, copies), copies.ranks, weights * bytes);
    };
    return gather(layout.weight_copies(), parameters.usual) +
           (parameters.experts > 0 ? gather(layout.expert_copies(), parameters.experts) : 0);
}

namespace {
LayerWeights block_weights_of(const LanguageModel& model, BlockKind kind, const Layout& layout) {
    return {rank_block_weights(model, kind, layout.tensor, layout.expert_split()),
            rank_trained_block_weights(model, kind, layout.tensor, layout.expert_split())};
}
LayerWeights first_weights_of(const LanguageModel& model, const Layout& layout) {
    const RankWeights all{rank_first_weights(model, layout.tensor)};
    return {all, model.trains_embedding() ? all : RankWeights{}};
}
}  // namespace

BlockExtras block_extras(const LanguageModel& model, BlockKind kind, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout) {
    const RankTimes rank(model, group, layout);
    BlockExtras extras;
    extras.recompute = kind.is_frozen ? 0 : recomputed(rank.block(kind), layout);
    const double sum = tensor_sum_ns(rank, cluster, group, layout);
    const BlockMessages messages = messages_of(rank, model, kind, cluster, group, layout);
    const LayerTimes whole = whole_block(rank, kind, messages, layout);
    const LayerWeights weights = block_weights_of(model, kind, layout);
    const ZeroMoves moves = zero_moves(weights.all, weights.trained, cluster, group, layout);
    const double passes = kind.is_frozen ? 1 : layout.recompute == Recompute::full ? 3 : 2;
    extras.zero = moves.forward(whole.forward) - whole.forward + moves.backward(whole.backward) - whole.backward;
    extras.sums = passes * messages.sums;
    extras.all_to_all = passes * messages.all_to_all;
    extras.context = kind.is_frozen ? messages.context.forward
                                    : (layout.recompute == Recompute::none ? 1 : 2) * messages.context.forward +
                                          messages.context.backward;
    const auto waits = [&](const LayerTimes& times, const RankWeights& parameters, const RankWeights& summed) {
        const ZeroMoves ends = zero_moves(parameters, summed, cluster, group, layout);
        return ends.forward(times.forward) - times.forward + ends.backward(times.backward) - times.backward;
    };
    const LayerWeights first = first_weights_of(model, layout);
    const double uses = 1 + static_cast<double>(model.mtp);  // of the embedding and of the output layer
    extras.ends = 2 * uses * sum + waits(embedding_times(rank, sum), first.all, first.trained) +
                  waits(last_times(rank, model, cluster, group, layout, sum), last_weights(model, layout),
                        trained_output_weights(model, layout));
    return extras;
}

Profile language_model_profile(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout) {
    const RankTimes rank(model, group, layout);
    const auto element = static_cast<double>(dtype_bytes(layout.dtype));
    const auto samples = static_cast<double>(layout.micro_batch_size);
    const double tokens = rank_tokens(model, layout);
    const double split = sequence_split(layout);
    const double sum = tensor_sum_ns(rank, cluster, group, layout);
    Profile profile;
    profile.model = to_string(model);
    profile.device = group.device.name;
    profile.dtype = layout.dtype;
    profile.estimated = true;
    profile.token_input = true;
    profile.tokens_per_sample = model.sequence;
    profile.samples = {layout.micro_batch_size};
    constexpr double kTokenBytes = 8;
    profile.input_bytes = {tokens * kTokenBytes};
    profile.loss_ns = {0};
    profile.loss_transient_bytes = {0};

    // Products that add to the sums of gradients leave the framework's gradients empty: one for each shape of a weight.
    double placeholders = 0;
    if (layout.how().fused_gradients) {
        for (const BlockKind kind : block_kinds(model)) {
            const RankWeights weights = rank_block_weights(model, kind, layout.tensor, layout.expert_split());
            placeholders = std::max(placeholders, element * weights.usual);
        }
    }
    const auto layer_of = [&](const std::string& name, const LayerTimes& times, const LayerWeights& parameters,
                              double flops) {
        const ZeroMoves moves = zero_moves(parameters.all, parameters.trained, cluster, group, layout);
        LayerProfile layer;
        layer.name = name;
        layer.forward_ns = layer.recompute_ns = {moves.forward(times.forward)};
        layer.backward_ns = {moves.backward(times.backward)};
        // The gradients of inputs need the parameters; sums follow the gradients of weights.
        layer.backward_weight_ns = {
            std::max(0.0, layer.backward_ns.front() - moves.forward(times.backward - times.weights))};
        layer.keeps_input = times.backward > 0;
        layer.output_bytes = {rank.activation() / split};
        layer.saved_bytes = {0};
        // Tensors that ZeRO splits are whole while the layer works on them.
        layer.transient_bytes = {whole_bytes(parameters, layout) + placeholders};
        layer.flops = {flops / layout.tensor / layout.context};
        return layer;
    };
    const LayerWeights embedding = first_weights_of(model, layout);
    LayerProfile first = layer_of("embedding", embedding_times(rank, sum), embedding, 0);
    const double matrix = embedding_weights(model) / layout.tensor;
    // The embedding's gradient, and the output layer's empty one.
    const double dense = layout.how().fused_gradients ? element * matrix : 0;
    first.transient_bytes.front() += model.trains_embedding() ? dense : 0;
    const bool keeps_mask = model.dropout && model.trains_embedding();
    first.saved_bytes = {keeps_mask ? tokens * static_cast<double>(model.hidden) / split : 0};
    set_end_parameters(first, embedding, model.trains_embedding() ? matrix : 0, layout);
    profile.layers.reserve(static_cast<std::size_t>(model.layers) + 2);
    profile.layers.push_back(std::move(first));

    std::map<BlockKind, LayerProfile> blocks;
    for (const BlockKind kind : block_kinds(model)) {
        const LayerWeights weights = block_weights_of(model, kind, layout);
        const BlockMessages messages = messages_of(rank, model, kind, cluster, group, layout);
        LayerProfile block =
            layer_of("", whole_block(rank, kind, messages, layout), weights, block_flops(model, kind, samples));
        const LayoutActivations activations = layout_activations(model, kind, layout);
        block.saved_bytes = {activations.saved};
        block.transient_bytes.front() += activations.repeated;
        if (kind.has_experts && layout.expert > 1) {
            block.transient_bytes.front() += 2 * rank.copied_bytes();  // what is sent, and what arrives
        }
        if (layout.context > 1) {
            // Keys, values and their gradients, both in use and arriving.
            block.transient_bytes.front() += 4 * rank.key_value_bytes();
        }
        set_parameters(block, weights, layout);
        blocks.emplace(kind, std::move(block));
    }
    for (std::int64_t k = 0; k < model.layers; ++k) {
        LayerProfile& block = profile.layers.emplace_back(blocks.at(model.kind_of(k)));
        block.name = "block " + std::to_string(k);
    }

    const LayerWeights own{output_weights(model, layout), trained_output_weights(model, layout)};
    const double logits = tokens * static_cast<double>(model.vocabulary) / layout.tensor * layout.how().logit_bytes;
    double last_saved = rank.activation() / split;  // the norm's output
    double last_transient = 0;
    if (model.mtp > 0) {
        const auto modules = static_cast<double>(model.mtp);
        const LayerProfile& block = blocks.at(mtp_kind(model));
        // What the block keeps, its input, what is joined and its norms' inputs, and the output layer's norm and
        // logits.
        last_saved += modules * (block.saved_bytes.front() + (1 + 2 + 2 + 1) * rank.activation() / split + logits);
        last_transient = block.transient_bytes.front() -
                         whole_bytes(block_weights_of(model, mtp_kind(model), layout), layout) - placeholders;
    }
    LayerProfile last =
        layer_of("output", last_times(rank, model, cluster, group, layout, sum),
                 {last_weights(model, layout), own.trained}, output_flops(model, samples) + mtp_flops(model, samples));
    last.saved_bytes = {last_saved};
    // A tied matrix works here too, although another layer completes its gradient.
    const RankWeights used = last_weights(model, layout);
    last.transient_bytes = {whole_bytes({used, model.trains_output() ? used : own.trained}, layout) + placeholders +
                            last_transient + (model.trains_output() ? dense : 0)};
    last.output_bytes = {logits};
    const bool is_whole = model.trains_output() && !(model.tied && ends_share_a_lane(layout));
    set_end_parameters(last, own, is_whole ? matrix : 0, layout);
    profile.layers.push_back(std::move(last));
    return profile;
}
}  // namespace pipescope
