#include "cluster/layout.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
/// Times in ns of one layer on one rank.
struct LayerTimes {
    double forward = 0;
    double backward = 0;  ///< all of it, without what is recomputed
    double weights = 0;   ///< the part of the backward for the gradients of weights
    double core = 0;      ///< the part of the forward that selective recompute repeats
};

/// Times of operators on one rank of the layout's device.
class RankTimes {
public:
    RankTimes(const LanguageModel& model, const NodeGroup& group, const Layout& layout)
        : model_(model), device_(group.device), layout_(layout) {
        element_ = static_cast<double>(dtype_bytes(layout.dtype));
        tensor_ = layout.tensor;
        split_ = layout.sequence_parallel ? tensor_ : 1;
        samples_ = static_cast<double>(layout.micro_batch_size);
        tokens_ = samples_ * static_cast<double>(model.sequence);
        hidden_ = static_cast<double>(model.hidden);
        activation_ = tokens_ * hidden_ * element_;
    }

    /// Bytes of the tensor between two blocks, on all ranks together or on each without sequence parallelism.
    double activation() const { return activation_; }

    LayerTimes block() const {
        LayerTimes times;
        add_matrices(times);
        if (model_.attention == Attention::standard) {
            add_stored_scores(times);
        } else {
            add_flash(times);
        }
        const double h = activation_;
        times.forward += 2 * pass(2 * h / split_);  // norms
        times.backward += 2 * pass(4 * h / split_);
        const double wide = tokens_ * static_cast<double>(model_.mlp) * element_ / tensor_;
        times.forward += pass((model_.gated ? 3 : 2) * wide);  // activation function
        times.backward += pass((model_.gated ? 5 : 3) * wide);
        // Residual additions read two tensors and write one; with dropout a mask of half a tensor too.
        times.forward += 2 * pass((model_.dropout ? 3.5 : 3) * h / split_);
        times.backward += 2 * pass((model_.dropout ? 2.5 : 2) * h / split_);
        if (!model_.gated) {  // biases: the projections' additions, and sums of the outputs' gradients
            times.forward += pass(6 * h / tensor_);
            add_weights(times, pass(3 * h / tensor_) + 2 * pass(h) + pass(wide));
        }
        // Sums of the weights' gradients over micro-batches: read one, read and write the sum.
        add_weights(times,
                    pass(rank_block_weights(model_, layout_.tensor) * (element_ + 2.0 * layout_.gradient_bytes)));
        return times;
    }

    LayerTimes embedding() const {
        LayerTimes times;
        times.forward = pass(2 * activation_) + (model_.dropout ? pass(2.5 * activation_ / split_) : 0);
        times.backward = pass(3 * activation_);
        times.weights = times.backward;
        return times;
    }

    /// The last norm, the output layer and the loss, in float32.
    LayerTimes output() const {
        const double vocabulary = static_cast<double>(model_.vocabulary) / tensor_;
        LayerTimes times;
        times.forward = product(tokens_, vocabulary, hidden_) + pass(2 * activation_ / split_);
        constexpr double kLossPasses = 20;  // bytes a logit: cast, maximum, exponentials, sum, gradient
        times.backward = product(tokens_, hidden_, vocabulary) + pass(tokens_ * vocabulary * kLossPasses) +
                         pass(4 * activation_ / split_);
        add_weights(times, product(hidden_, vocabulary, tokens_));
        return times;
    }

private:
    double ns(const DeviceWork& work) const { return estimated_ns(device_, layout_.dtype, work); }
    double product(double m, double n, double k, double batch = 1) const {
        return ns(matmul_work(device_, layout_.dtype, m, n, k, batch));
    }
    /// An operator that only moves bytes.
    double pass(double bytes) const { return ns({0, bytes, 1}); }

    static void add_weights(LayerTimes& times, double time) {
        times.backward += time;
        times.weights += time;
    }
    /// The products of a weight matrix of k inputs and n outputs.
    void add_matrix(LayerTimes& times, double n, double k) const {
        times.forward += product(tokens_, n, k);
        times.backward += product(tokens_, k, n);
        add_weights(times, product(k, n, tokens_));
    }
    void add_matrices(LayerTimes& times) const {
        const double kv = rank_kv_width(model_, layout_.tensor);
        const double mlp = static_cast<double>(model_.mlp) / tensor_;
        add_matrix(times, hidden_ / tensor_ + 2 * kv, hidden_);
        add_matrix(times, hidden_, hidden_ / tensor_);
        add_matrix(times, (model_.gated ? 2 : 1) * mlp, hidden_);
        add_matrix(times, hidden_, mlp);
    }
    void add_stored_scores(LayerTimes& times) const {
        const auto s = static_cast<double>(model_.sequence);
        const double heads = samples_ * static_cast<double>(model_.heads) / tensor_;
        const double width = model_.head_width();
        const double scores = heads * s * s * element_;
        times.core = product(s, s, width, heads) + product(s, width, s, heads) + pass(2 * scores);
        times.backward += 3 * product(s, width, s, heads) + product(s, s, width, heads) + pass(3 * scores);
        if (model_.dropout) {
            times.core += pass(2.5 * scores);
            times.backward += pass(2.5 * scores);
        }
        times.forward += times.core + 2 * pass(2 * activation_ / tensor_);  // transposes of heads and tokens
        times.backward += 3 * pass(2 * activation_ / tensor_);
    }
    /// One kernel forward, one backward, which computes the scores again. Half of the scores are causal.
    void add_flash(LayerTimes& times) const {
        const auto s = static_cast<double>(model_.sequence);
        const double heads = samples_ * static_cast<double>(model_.heads) / tensor_;
        DeviceWork forward = matmul_work(device_, layout_.dtype, s, s, model_.head_width(), heads);
        forward.bytes_moved = 4 * activation_ / tensor_;
        constexpr double kShareOfProducts = 0.7;  // of a product's rate, beside the softmax
        forward.flops *= 2.0 / 2 / kShareOfProducts;
        DeviceWork backward = forward;
        backward.flops *= 2.5;
        backward.bytes_moved *= 2;
        times.core = ns(forward);
        times.forward += times.core;
        times.backward += ns(backward);
    }

    const LanguageModel& model_;
    const DeviceType& device_;
    const Layout& layout_;
    double element_ = 2;
    double tensor_ = 1;
    double split_ = 1;
    double samples_ = 1;
    double tokens_ = 1;
    double hidden_ = 1;
    double activation_ = 0;
};

Bytes whole(double bytes) {
    return rounded_bytes(bytes);
}

/// Sets the bytes of a layer with so many parameters on this rank.
void set_parameters(LayerProfile& layer, double parameters, const Layout& layout) {
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const RankGroup copies = layout.weight_copies();
    layer.parameter_bytes = whole(parameters * element / layout.zero_parts(3, copies));
    layer.gradient_bytes = whole(parameters * layout.gradient_bytes / layout.zero_parts(2, copies));
}
}  // namespace

namespace {
/// A sum over the ranks, or with sequence parallelism a sum of parts and a gathering of them, which takes as long.
double tensor_sum_ns(const RankTimes& rank, const Cluster& cluster, const NodeGroup& group, const Layout& layout) {
    return all_reduce_ns(ring_link(cluster, group, layout.tensor_ranks()), layout.tensor, rank.activation());
}

/// Time that replicas take to exchange a layer's parameters and gradients in each pass.
struct ZeroMoves {
    double gather = 0;    ///< ns; ZeRO 3: a pass gets the parameters
    double sum = 0;       ///< ns; ZeRO 2 and 3: a backward sums the gradients, of which each replica keeps its part
    bool beside = false;  ///< while the layer works

    double forward(double work) const { return beside ? std::max(work, gather) : work + gather; }
    double backward(double work) const { return beside ? std::max(work, gather + sum) : work + gather + sum; }
};
/// `summed`: parameters whose gradients the layer's backward completes.
ZeroMoves zero_moves(double parameters, double summed, const Cluster& cluster, const NodeGroup& group,
                     const Layout& layout) {
    const RankGroup copies = layout.weight_copies();
    const Link ring = ring_link(cluster, group, copies);
    ZeroMoves moves;
    moves.beside = layout.gradient_bucket > 0;
    if (layout.zero >= 2) {
        moves.sum = all_gather_ns(ring, copies.ranks, summed * layout.gradient_bytes);
    }
    if (layout.zero >= 3) {
        moves.gather = all_gather_ns(ring, copies.ranks, parameters * static_cast<double>(dtype_bytes(layout.dtype)));
    }
    return moves;
}
constexpr double kSumsAPass = 2;  // after the projection and after the feed-forward layer

/// The part of the block's forward that its backward repeats, sums over ranks included.
double recomputed(const LayerTimes& block, const Layout& layout) {
    return layout.recompute == Recompute::full        ? block.forward
           : layout.recompute == Recompute::selective ? block.core
                                                      : 0;
}

/// A block with its sums over the ranks and what it recomputes, but without what ZeRO moves.
LayerTimes whole_block(const RankTimes& rank, double sum, const Layout& layout) {
    LayerTimes times = rank.block();
    times.forward += kSumsAPass * sum;
    times.backward += kSumsAPass * sum;
    times.backward += recomputed(times, layout);
    return times;
}
}  // namespace

BlockExtras block_extras(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout) {
    const RankTimes rank(model, group, layout);
    BlockExtras extras;
    extras.recompute = recomputed(rank.block(), layout);
    const double sum = tensor_sum_ns(rank, cluster, group, layout);
    const LayerTimes whole = whole_block(rank, sum, layout);
    const ZeroMoves moves = zero_moves(rank_block_weights(model, layout.tensor),
                                       rank_block_weights(model, layout.tensor), cluster, group, layout);
    const double passes = layout.recompute == Recompute::full ? 3 : 2;
    extras.collectives = passes * kSumsAPass * sum + moves.forward(whole.forward) - whole.forward +
                         moves.backward(whole.backward) - whole.backward;
    extras.ends = 2 * sum;  // the embedding's output, and the gradient of the output layer's input
    return extras;
}

Profile language_model_profile(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout) {
    const RankTimes rank(model, group, layout);
    const auto element = static_cast<double>(dtype_bytes(layout.dtype));
    const auto samples = static_cast<double>(layout.micro_batch_size);
    const double tokens = samples * static_cast<double>(model.sequence);
    const double split = layout.sequence_parallel ? layout.tensor : 1;
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

    const auto layer_of = [&](const std::string& name, const LayerTimes& times, double parameters, double summed,
                              double flops) {
        const ZeroMoves moves = zero_moves(parameters, summed, cluster, group, layout);
        LayerProfile layer;
        layer.name = name;
        layer.forward_ns = layer.recompute_ns = {moves.forward(times.forward)};
        layer.backward_ns = {moves.backward(times.backward)};
        layer.backward_weight_ns = {times.weights};
        layer.output_bytes = {rank.activation() / split};
        layer.saved_bytes = {0};
        // Tensors that ZeRO splits are whole while the layer works on them.
        layer.transient_bytes = {
            layout.weight_copies().ranks == 1
                ? 0
                : parameters * ((layout.zero >= 2 ? layout.gradient_bytes : 0) + (layout.zero >= 3 ? element : 0))};
        layer.flops = {flops / layout.tensor};
        return layer;
    };
    const double embedding = embedding_weights(model) / layout.tensor;
    LayerTimes times = rank.embedding();
    times.forward += sum;
    LayerProfile first = layer_of("embedding", times, embedding, embedding, 0);
    first.saved_bytes = {model.dropout ? tokens * static_cast<double>(model.hidden) / split : 0};
    set_parameters(first, embedding, layout);
    profile.layers.push_back(std::move(first));

    const double weights = rank_block_weights(model, layout.tensor);
    LayerProfile block = layer_of("", whole_block(rank, sum, layout), weights, weights, block_flops(model, samples));
    const BlockActivations activations =
        block_activations(model, samples, layout.tensor, layout.sequence_parallel, element);
    switch (layout.recompute) {
        case Recompute::none: block.saved_bytes = {activations.core + activations.rest}; break;
        case Recompute::selective:
            block.saved_bytes = {activations.rest};
            block.transient_bytes.front() += activations.core;
            break;
        case Recompute::full: block.transient_bytes.front() += activations.core + activations.rest; break;
    }
    set_parameters(block, weights, layout);
    for (std::int64_t k = 0; k < model.layers; ++k) {
        block.name = "block " + std::to_string(k);
        profile.layers.push_back(block);
    }

    const double own = model.tied && layout.pipeline == 1 ? 0 : embedding;  // otherwise the first layer's
    times = rank.output();
    times.backward += sum;  // of its input's gradient
    LayerProfile last = layer_of("output", times, embedding, own, output_flops(model, samples));
    last.saved_bytes = {rank.activation() / split};  // the norm's output
    constexpr double kLogitBytes = 4;
    last.output_bytes = {tokens * static_cast<double>(model.vocabulary) / layout.tensor * kLogitBytes};
    set_parameters(last, own, layout);
    profile.layers.push_back(std::move(last));
    return profile;
}
}  // namespace pipescope
