#include "simulator/memory/memory_bounds.h"

#include "schedule/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
/// Combines two by `pick`, number by number.
template <class Pick>
RangePeaks combine(const RangePeaks& a, const RangePeaks& b, Pick pick) {
    return {pick(a.input, b.input),
            a.input_kept,
            pick(a.output, b.output),
            a.output_kept,
            pick(a.graph, b.graph),
            pick(a.checkpointed_forward, b.checkpointed_forward),
            pick(a.forward, b.forward),
            pick(a.forward_of_own_input, b.forward_of_own_input),
            pick(a.backward, b.backward),
            pick(a.backward_of_view, b.backward_of_view),
            pick(a.input_gradient, b.input_gradient)};
}
bool shares_gradient(const LayerProfile& layer) {
    return layer.passes_gradient || layer.aliases_input;
}
}  // namespace

RangeMemories::RangeMemories(const Profile& profile, const SizedProfile& large, const SizedProfile& small,
                             const OptimizerStates& states)
    : profile_(profile), large_(large), small_(small), table_large_(profile, large_), table_small_(profile, small_) {
    const std::size_t layers = profile.layers.size();
    constants_ = gradient_sums_ = statistics_ = saved_ = outputs_ = least_saved_ = {0};
    inputs_ = {std::max(large.input, small.input)};
    std::vector<Bytes> work;
    for (std::size_t l = 0; l < layers; ++l) {
        const LayerProfile& layer = profile.layers[l];
        constants_.push_back(constants_.back() + layer.parameter_bytes + layer.buffer_bytes + layer.gradient_bytes +
                             states.of(layer));
        gradient_sums_.push_back(gradient_sums_.back() + layer.gradient_bytes);
        statistics_.push_back(statistics_.back() + layer.statistic_bytes);
        saved_.push_back(saved_.back() + std::max(large.saved[l], small.saved[l]));
        least_saved_.push_back(least_saved_.back() + std::min(large.saved[l], small.saved[l]));
        inputs_.push_back(std::max(large.output[l], small.output[l]));
        outputs_.push_back(outputs_.back() + inputs_.back());
        work.push_back(inputs_[l] + inputs_[l + 1] + std::max(large.transient[l], small.transient[l]));
    }
    gradients_ = inputs_;
    for (std::size_t l = layers; l-- > 0;) {
        if (shares_gradient(profile.layers[l])) {
            gradients_[l] = std::max(gradients_[l], gradients_[l + 1]);
        }
    }
    work_ = SparseTable(std::move(work));
}

Bytes RangeMemories::largest_work(LayerRange layers) const {
    return work_.largest(layers.first.index(), layers.end.index());
}

Bytes RangeMemories::given_away(LayerRange layers) const {
    Bytes bytes = 0;
    for (std::size_t k = 0; k < large_.skips.size(); ++k) {
        const auto& [stash, pops] = large_.skip_layers[k];
        const bool leaves = stash >= layers.first && stash < layers.end && pops.back() >= layers.end;
        bytes += leaves ? std::max(large_.skips[k], small_.skips[k]) : 0;
    }
    return bytes;
}

bool RangeMemories::hands_through(LayerRange layers) const {
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        if (!profile_.layers[l].aliases_input) {
            return false;
        }
    }
    return true;
}

bool RangeMemories::input_may_be_elsewhere(LayerRange layers) const {
    for (std::size_t k = 0; k < large_.skips.size(); ++k) {
        const std::size_t stash = large_.skip_layers[k].stash.index();
        if (stash < layers.first.index() && large_.skip_layers[k].pops.back() >= layers.end &&
            (stash + 1 == layers.first.index() ||
             hands_through({LayerId{static_cast<std::int64_t>(stash) + 1}, layers.first}))) {
            return true;
        }
    }
    return false;
}

bool RangeMemories::gradient_may_be_elsewhere(LayerRange layers) const {
    const std::size_t next = layers.end.index();
    return next < profile_.layers.size() && shares_gradient(profile_.layers[next]) && !large_.skips.empty();
}

Bytes RangeMemories::skips() const {
    Bytes bytes = 0;
    for (std::size_t k = 0; k < large_.skips.size(); ++k) {
        const Bytes skip = std::max(large_.skips[k], small_.skips[k]);
        const std::vector<LayerId>& pops = large_.skip_layers[k].pops;
        for (const LayerId pop : pops) {
            const Bytes held = inputs_[pop.index() + 1];
            bytes += skip + std::max(skip, profile_.layers[pop.index()].passes_gradient ? held : 0);
        }
        bytes += pops.size() > 1 ? skip : 0;  // the sum of two gradients, while they are added
    }
    return bytes;
}

RangeMemories::Range RangeMemories::range(LayerRange layers) {
    const RangePeaks large = table_large_.at(layers);
    if (large_.samples == small_.samples) {
        return {constant(layers), large, large};
    }
    const RangePeaks small = table_small_.at(layers);
    return {constant(layers), combine(large, small, [](Bytes a, Bytes b) { return std::min(a, b); }),
            combine(large, small, [](Bytes a, Bytes b) { return std::max(a, b); })};
}

MemoryBounds::MemoryBounds(const Profile& profile, const PipelineOptions& options, int partitions,
                           std::shared_ptr<RangeMemories> ranges)
    : options_(options), partitions_(partitions), ranges_(std::move(ranges)) {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(options);
    m_ = static_cast<int>(sizes.size());
    loss_transient_ = loss_transient(profile, replica_batch(options), m_ > 1);
    const SizedProfile large = at_size(profile, sizes.front());
    const SizedProfile small = at_size(profile, sizes.back());
    const auto larger = std::ranges::count(sizes, sizes.front());
    if (!runs_on_host(options.hardware, LaneId{0})) {
        mini_batch_input_ = larger * large.input + (m_ - larger) * small.input;
    }
    if (!ranges_) {
        ranges_ = std::make_shared<RangeMemories>(profile, large, small, optimizer_states(options, profile.dtype));
    }
    skips_ = m_ * ranges_->skips();
    for (const ProfiledShare& each : shares_of(profile)) {
        // A copy and what replaces it, or the gradients of all lanes that wait for their sums.
        const auto users = static_cast<Bytes>(each.where.layers.size());
        skips_ += 2 * each.bytes.parameter_bytes + users * each.bytes.gradient_bytes;
    }
}

Bytes MemoryBounds::below_at_least(LayerRange layers) const {
    return ranges_->constant(layers) + std::max<Bytes>(1, kept_graphs_at_loss()) * ranges_->least_saved(layers);
}

Bytes MemoryBounds::above_at_least(PartitionId partition, LayerRange layers) const {
    const Bytes m = m_;
    const bool is_first = partition.value() == 0;
    const bool is_last = partition.value() + 1 == partitions_;
    const Bytes output = ranges_->output(layers);
    return ranges_->constant(layers) + (is_first ? mini_batch_input_ : m * ranges_->input(layers)) +
           std::max<Bytes>(1, kept_graphs_at_loss()) *
               (ranges_->saved(layers) + ranges_->outputs(layers) + ranges_->input(layers)) +
           (is_last ? 2 * m * output + loss_transient_ : output) + copied_statistics(layers) +
           ranges_->largest_work(layers) + all_reduce(partition, layers);
}

bool MemoryBounds::shares(int lane, int other) const {
    return share_device(options_.hardware, LaneId{lane}, LaneId{other}, partitions_);
}

Bytes MemoryBounds::at_least(PartitionId partition, LayerRange layers) {
    const Range each = ranges_->range(layers);
    const RangePeaks& low = each.low;
    const int j = partition.value();
    const bool is_last = j + 1 == partitions_;
    const bool keeps_own_output = low.output_kept && (is_last || !shares(j, j + 1));
    const Bytes m = m_;
    const Bytes kept_graphs = kept_graphs_at_loss();
    const Bytes constant = each.constant + (j == 0 ? mini_batch_input_ : 0);
    // Micro-batches of lane 0 are parts of the mini-batch. A storage that is passed through belongs to the next lane or
    // to the output.
    const Bytes input =
        j == 0 || ranges_->hands_through(layers) || ranges_->input_may_be_elsewhere(layers) ? 0 : low.input;
    const Bytes kept_input = low.input_kept ? input : 0;
    const Bytes graph = std::max<Bytes>(0, low.graph - ranges_->given_away(layers));
    const Bytes one_graph = graph + kept_input + (keeps_own_output ? low.output : 0);
    /// Outputs of the last partition before the loss, except those kept by a graph.
    const auto outputs = [&](Bytes made, Bytes with_graph) {
        return is_last ? (made - (low.output_kept ? with_graph : 0)) * low.output : 0;
    };
    const Bytes batch_output = is_last ? m * low.output : 0;
    const Bytes building_graph = j == 0 ? low.forward : low.forward_of_own_input;

    // Before the last forward, whose own input is there.
    const Bytes graphs_before = std::max<Bytes>(0, kept_graphs - 1);
    const Bytes last_forward = constant + (m - std::max<Bytes>(kept_graphs, 1)) * input + graphs_before * one_graph +
                               input + outputs(m - 1, graphs_before) +
                               std::max<Bytes>(0, kept_graphs == 0 ? low.checkpointed_forward : building_graph);
    const Bytes held_at_loss = constant + (m - kept_graphs) * input + kept_graphs * one_graph;
    const Bytes loss = held_at_loss + batch_output +
                       (m > 1 ? std::max(outputs(m, kept_graphs), batch_output) : outputs(m, kept_graphs));
    const Bytes recompute = kept_graphs == m ? 0
                                             : constant + (m - kept_graphs) * input + batch_output +
                                                   copied_statistics(layers) + std::max<Bytes>(0, building_graph);
    const Bytes gradient = ranges_->gradient_may_be_elsewhere(layers) ? 0 : low.output;
    const Bytes recomputed_graph = graph + kept_input - input + (low.output_kept ? low.output : 0);
    const Bytes backward =
        held_at_loss + (kept_graphs == 0 ? recomputed_graph : 0) + (is_last ? batch_output : gradient) +
        // A kept output is freed when the last layer's graph releases it.
        std::max<Bytes>(0,
                        (is_last && m > 1 ? low.backward_of_view : low.backward) - (low.output_kept ? low.output : 0));
    const Bytes in_loss =
        held_at_loss + batch_output + (m > 1 ? batch_output : outputs(m, kept_graphs)) + loss_transient_;
    return std::max({last_forward, is_last ? std::max(loss, in_loss) : 0, recompute, backward,
                     each.constant + all_reduce(partition, layers)});
}

/// Number of micro-batches without recompute; with a single one, except_last means never.
Bytes MemoryBounds::kept_graphs_at_loss() const {
    switch (options_.checkpoint) {
        case Checkpoint::always: return 0;
        case Checkpoint::except_last: return 1;
        case Checkpoint::never: return m_;
    }
    return 0;
}

Bytes MemoryBounds::copied_statistics(LayerRange layers) const {
    return kept_graphs_at_loss() == m_ ? 0 : ranges_->statistics(layers);
}

Bytes MemoryBounds::all_reduce(PartitionId partition, LayerRange layers) const {
    return runs_on_host(options_.hardware, LaneId{partition.value()})
               ? all_reduce_bytes(ranges_->gradients(layers), num_weight_copies(options_))
               : 0;
}

Bytes MemoryBounds::at_most(PartitionId partition, LayerRange layers) {
    const Range each = ranges_->range(layers);
    const RangePeaks& high = each.high;
    const int j = partition.value();
    const bool is_first = j == 0;
    const bool is_last = j + 1 == partitions_;
    const Bytes m = m_;
    const auto waits = [&](int lane, int other) {
        return !shares(lane, other) && !link_between(options_.hardware, LaneId{lane}, LaneId{other}).is_free();
    };

    Bytes bytes = each.constant + skips_ + (is_first ? mini_batch_input_ : m * high.input);
    bytes += (options_.checkpoint == Checkpoint::never ? m : 1) * (high.graph + (high.output_kept ? high.output : 0));
    const Bytes returned = ranges_->most_gradient(layers.end);
    bytes += is_last ? 2 * m * high.output : m * std::max(returned, high.output);  // outputs, or waiting gradients
    bytes += !is_last && waits(j, j + 1) ? m * high.output : 0;                    // outputs waiting for the link
    const Bytes gradient = std::max(high.input_gradient, ranges_->most_gradient(layers.first));
    bytes += is_first ? 0 : waits(j, j - 1) ? m * gradient : gradient;  // outgoing
    return bytes + copied_statistics(layers) +
           std::max({is_last ? loss_transient_ : 0, high.forward, high.checkpointed_forward, high.backward,
                     high.backward_of_view, all_reduce(partition, layers)});
}
}  // namespace pipescope
