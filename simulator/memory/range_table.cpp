#include "simulator/memory/range_table.h"

#include "base/stop_check.h"
#include "simulator/memory/partition_tape.h"
#include "simulator/memory/task_work.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

namespace pipescope {
namespace {
/// One layer's backward, as part of a range that ends somewhere above it.
struct BackwardLook {
    Bytes handed_stays = 0;    ///< peak if the gradient of the range's output stays
    Bytes handed_goes = 0;     ///< peak if it is freed once no layer needs it
    Bytes input_gradient = 0;  ///< RangePeaks::input_gradient of the range that begins with this layer
};

/// Walks all layers before `end` backward and tracks live gradients and their shared storages. The result at a layer
/// does not depend on where the range begins, since gradients that leave the range there outlive the layers above.
class BackwardWalk {
public:
    /// `released`: kept bytes that each layer's backward frees. Borrows all arguments.
    BackwardWalk(const Profile& profile, const SizedProfile& sized, std::size_t end, const std::vector<Bytes>& released)
        : profile_(profile), sized_(sized), released_(released) {
        for (std::size_t k = 0; k < sized.skips.size(); ++k) {
            if (sized.skip_layers[k].stash.index() < end) {
                skips_.push_back({k, &sized.skip_layers[k], sized.skip_layers[k].pops.back().index() >= end});
            }
        }
        gradients_ = {{sized.output[end - 1], end - 1}};  // the output's, which the lane holds already
        live_ = {kTop};
    }

    /// Walks the next layer down; the first one is end - 1.
    BackwardLook step_down(std::size_t l) {
        const std::size_t below = gradients_below(l, current_);
        BackwardLook look = peaks(l);
        freed_ += sized_.saved[l] + released_[l];
        end_layer(l);
        current_ = below;
        look.input_gradient = input_gradient(l);
        return look;
    }

private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    struct Skip {
        std::size_t index;
        const SkipLayers* layers;
        bool is_popped_above;      ///< by a layer behind the range
        std::size_t held = kNone;  ///< index of the gradient whose storage holds its own, from its last pop on
        bool is_own = true;        ///< nothing else lies in that storage

        std::size_t stash() const { return layers->stash.index(); }
        /// The next layer down that works on the gradient.
        std::size_t below(std::size_t l) const {
            const auto pop = std::ranges::lower_bound(layers->pops, LayerId{l});
            return pop == layers->pops.begin() ? stash() : std::prev(pop)->index();
        }
    };
    struct Gradient {
        Bytes bytes = 0;
        std::size_t needed_by = 0;  ///< the lowest layer that uses it
        bool is_new = true;         ///< counted from now on; false while the layer's transient bytes cover it
    };
    static constexpr std::size_t kTop = 0;  // index of the output's gradient in gradients_

    /// Adds the gradients that layer l's backward leaves, given its output's. Returns that of its input.
    std::size_t gradients_below(std::size_t l, std::size_t current) {
        const LayerProfile& layer = profile_.layers[l];
        const bool passes = layer.passes_gradient || layer.aliases_input;
        std::size_t below = current;
        const bool sums = std::ranges::any_of(skips_, [&](const Skip& skip) { return skip.stash() == l; });
        // A stash's gradient is added into a new storage, which the transient bytes cover until then.
        if (l > 0 && (sums || !passes)) {
            below = take({sized_.output[l - 1], l, !sums || !passes});
        }
        if (l > 0) {
            gradients_[below].needed_by = std::min(gradients_[below].needed_by, l - 1);
        }
        for (Skip& skip : skips_) {
            if (sized_.has_gradient[skip.index] && std::ranges::binary_search(skip.layers->pops, LayerId{l})) {
                add_gradient(skip, l, layer.passes_gradient, current);
            }
        }
        return below;
    }

    /// A second gradient of a skip is added in place to the first, or both into a new storage at the layer's end: the
    /// smaller of the two stays. If later partitions have added theirs, that is the first.
    void add_gradient(Skip& skip, std::size_t l, bool passes, std::size_t current) {
        const Bytes bytes = sized_.skips[skip.index];
        const std::size_t added = passes ? current : take({bytes, l});
        const bool is_first = skip.held == kNone && !skip.is_popped_above;
        if (!is_first) {
            gradients_[added].needed_by = std::min(gradients_[added].needed_by, l);
        }
        if (is_first) {
            skip.held = added;
            skip.is_own = !passes;
        } else if (!skip.is_own) {
            skip.held = take({std::min(bytes, gradients_[skip.held].bytes), l, false});
            skip.is_own = true;
        }
        if (skip.held != kNone) {
            gradients_[skip.held].needed_by =
                std::min(gradients_[skip.held].needed_by, skip.is_own ? skip.stash() : skip.below(l));
        }
    }

    std::size_t take(const Gradient& gradient) {
        live_.push_back(gradients_.size());
        gradients_.push_back(gradient);
        return live_.back();
    }

    BackwardLook peaks(std::size_t l) const {
        Bytes live = sized_.transient[l] - freed_;
        for (const std::size_t g : live_) {
            live += g != kTop && gradients_[g].is_new ? gradients_[g].bytes : 0;
        }
        return {live, live - (top_is_gone_ ? gradients_[kTop].bytes : 0)};
    }

    /// Releases the gradients that only layer l needed.
    void end_layer(std::size_t l) {
        std::erase_if(live_, [&](std::size_t g) {
            gradients_[g].is_new = true;
            const bool goes = gradients_[g].needed_by >= l;
            top_is_gone_ = top_is_gone_ || (goes && g == kTop);
            return goes;
        });
    }

    /// Input gradient of a range that begins with layer l, the last one walked.
    Bytes input_gradient(std::size_t l) const {
        const bool lies_in_a_skip =
            std::ranges::any_of(skips_, [&](const Skip& skip) { return skip.stash() < l && skip.held == current_; });
        // A storage is never smaller than what lies in it, whatever the profile says.
        return l == 0 || lies_in_a_skip ? 0 : std::max(gradients_[current_].bytes, sized_.output[l - 1]);
    }

    const Profile& profile_;
    const SizedProfile& sized_;
    const std::vector<Bytes>& released_;
    std::vector<Skip> skips_;
    std::vector<Gradient> gradients_;
    std::vector<std::size_t> live_;  // indices of live gradients; few at a time
    std::size_t current_ = kTop;     // the gradient of the last walked layer's input
    Bytes freed_ = 0;                // of the graph
    bool top_is_gone_ = false;
};

Bytes highest(const std::vector<WorkPart>& parts) {
    Bytes most = 0;  // not above the start
    for (const WorkPart& part : parts) {
        most = std::max(most, part.peak.total());
    }
    return most;
}

/// Fills in the numbers from the layers' tapes.
void fill_in(PartitionWork work, RangePeaks& peaks) {
    using enum PartitionWork::Phase;
    const PartitionTape& tape = work.tape();
    const auto is_kept = [&](std::int32_t block) { return work.keeps(block); };
    peaks.graph = work.graph();
    peaks.input_kept = std::ranges::any_of(tape.inputs, is_kept);
    const auto distinct = [](const std::vector<std::int32_t>& blocks) {
        std::set<std::int32_t> set(blocks.begin(), blocks.end());
        set.erase(0);
        return set;
    };
    std::vector<PartitionWork::Going> own_input;
    std::vector<PartitionWork::Going> kept_output;
    for (const std::int32_t block : distinct(tape.inputs)) {
        if (!peaks.input_kept && work.role(block) == TapeBlock::Role::input) {
            own_input.push_back({{block}, work.bytes(block)});
        }
    }
    for (const std::int32_t block : distinct(tape.outputs)) {
        if (work.role(block) == TapeBlock::Role::output && is_kept(block)) {
            kept_output.push_back({{block}, work.bytes(block)});
        }
    }
    peaks.output_kept = !kept_output.empty();
    std::vector<PartitionWork::Going> with_gradient = kept_output;
    for (const std::int32_t block : distinct(tape.output_gradients)) {
        with_gradient.push_back({{block}, work.bytes(block)});
    }
    const auto forward_or_recompute = [&](const std::vector<PartitionWork::Going>& going) {
        // Copies of running statistics are held throughout a recompute, and counted separately.
        return std::max(highest(work.parts(forward, going)), highest(work.parts(recompute, going)) - tape.statistics);
    };
    peaks.checkpointed_forward = highest(work.parts(checkpointed_forward, {}));
    peaks.forward = forward_or_recompute({});
    peaks.forward_of_own_input = forward_or_recompute(own_input);
    peaks.backward = highest(work.parts(backward, with_gradient));
    peaks.backward_of_view = highest(work.parts(backward, kept_output));
}
}  // namespace

RangeTable::RangeTable(const Profile& profile, const SizedProfile& sized)
    : profile_(profile), sized_(sized), rows_(profile.layers.size()), columns_(profile.layers.size() + 1) {
    without_tape_ = {0};
    for (const LayerProfile& layer : profile.layers) {
        without_tape_.push_back(without_tape_.back() + (layer.tape.empty() ? 1 : 0));
        has_gathered_ = has_gathered_ ||
                        std::ranges::any_of(layer.tape, [](const LayerTape& tape) { return !tape.gathered.empty(); });
    }
    find_storages();
}

void RangeTable::find_storages() {
    const std::size_t layers = profile_.layers.size();
    bytes_ = {sized_.input};
    keeper_ = {layers};
    released_.assign(layers, 0);
    const auto keep = [&](std::size_t storage, std::size_t layer) {
        if (keeper_[storage] == layers) {
            keeper_[storage] = layer;
            released_[layer] +=
                storage == 0 ? 0 : bytes_[storage];  // the first layer to keep it is the last to free it
        }
    };
    std::size_t current = 0;
    for (std::size_t l = 0; l < layers; ++l) {
        const LayerProfile& layer = profile_.layers[l];
        if (layer.keeps_input) {
            keep(current, l);
        }
        if (!layer.aliases_input) {
            current = bytes_.size();
            bytes_.push_back(sized_.output[l]);
            keeper_.push_back(layers);
        }
        storage_.push_back(current);
        if (layer.keeps_output) {
            keep(current, l);
        }
    }
    own_output_from_.assign(layers + 1, layers);
    for (std::size_t l = layers; l-- > 0;) {
        own_output_from_[l] = profile_.layers[l].aliases_input ? own_output_from_[l + 1] : l;
    }
}

RangePeaks RangeTable::at(LayerRange layers) {
    return without_tape_[layers.first.index()] == without_tape_[layers.end.index()] ? played(layers)
                                                                                    : from_bytes(layers);
}

RangePeaks RangeTable::from_bytes(LayerRange layers) {
    const std::size_t first = layers.first.index();
    const std::size_t end = layers.end.index();
    if (rows_[first].empty()) {
        rows_[first] = forwards_from(first);
    }
    if (columns_[end].empty()) {
        columns_[end] = backwards_to(end);
    }
    const Forward& forward = rows_[first][end - 1 - first];
    const Backward& backward = columns_[end][first];
    return {before(first),         forward.input_kept,     before(end),
            forward.output_kept,   forward.graph,          forward.checkpointed,
            forward.input_stays,   forward.input_goes,     backward.handed_goes,
            backward.handed_stays, backward.input_gradient};
}

std::vector<RangeTable::Forward> RangeTable::forwards_from(std::size_t first) const {
    std::vector<Forward> row;
    row.reserve(profile_.layers.size() - first);
    constexpr Bytes kNone = std::numeric_limits<Bytes>::min() / 4;
    Bytes graph = 0;  // saved tensors, and kept storages that are no layer's input or output any more
    Bytes checkpointed = 0;
    Bytes on_input = kNone;  // peak of the layers that work on the range's input
    Bytes beyond = kNone;    // peak of the layers behind them
    bool input_kept = false;
    bool is_input = true;  // true while the layer works on the range's input
    bool is_kept = false;
    for (std::size_t l = first; l < profile_.layers.size(); ++l) {
        const LayerProfile& layer = profile_.layers[l];
        is_kept = is_kept || layer.keeps_input;
        const Bytes work = sized_.transient[l] + (is_input ? 0 : bytes_[storage_[l - 1]]) +
                           (layer.aliases_input ? 0 : sized_.output[l]);
        graph += sized_.saved[l];
        const Bytes with_saved = work + sized_.saved[l];  // freed at the layer's end
        checkpointed = l == first ? with_saved : std::max(checkpointed, with_saved);
        (is_input ? on_input : beyond) = std::max(is_input ? on_input : beyond, graph + work);
        input_kept = input_kept || (is_input && is_kept);
        if (!layer.aliases_input) {
            graph += !is_input && is_kept ? bytes_[storage_[l - 1]] : 0;
            is_input = is_kept = false;
        }
        is_kept = is_kept || layer.keeps_output;
        input_kept = input_kept || (is_input && is_kept);
        row.push_back({graph, checkpointed, std::max(on_input, beyond),
                       std::max(on_input, beyond - (input_kept ? 0 : before(first))), input_kept,
                       !is_input && is_kept});
    }
    return row;
}

std::vector<RangeTable::Backward> RangeTable::backwards_to(std::size_t end) const {
    std::vector<Bytes> released(released_.begin(), released_.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t output = storage_[end - 1];
    if (output != 0 && keeper_[output] < end) {
        released[keeper_[output]] -= bytes_[output];  // an output is counted separately
    }
    BackwardWalk walk(profile_, sized_, end, released);
    std::vector<BackwardLook> looks(end);
    for (std::size_t l = end; l-- > 0;) {
        looks[l] = walk.step_down(l);
    }
    std::vector<Backward> column(end);
    std::vector<Backward> own(end + 1);  // if the range works on its own storages only, its input's included
    for (std::size_t l = end; l-- > 0;) {
        own[l] = {looks[l].handed_stays, looks[l].handed_goes, looks[l].input_gradient};
        if (l + 1 < end) {
            own[l].handed_stays = std::max(own[l].handed_stays, own[l + 1].handed_stays);
            own[l].handed_goes = std::max(own[l].handed_goes, own[l + 1].handed_goes);
        }
        column[l] = own[l];
        const std::size_t storage = storage_[l];
        const std::size_t maker = own_output_from_[l];
        if (maker == l || maker >= end || storage == 0 || keeper_[storage] < l || keeper_[storage] > maker) {
            continue;
        }
        // A longer range frees here what is this range's input. It was never counted, so it is not freed either.
        column[l].handed_stays = own[maker].handed_stays;
        column[l].handed_goes = own[maker].handed_goes;
        for (std::size_t k = l; k < maker; ++k) {
            const Bytes stays = k < keeper_[storage] ? bytes_[storage] : 0;
            column[l].handed_stays = std::max(column[l].handed_stays, looks[k].handed_stays + stays);
            column[l].handed_goes = std::max(column[l].handed_goes, looks[k].handed_goes + stays);
        }
    }
    return column;
}

RangePeaks RangeTable::played(LayerRange layers) {
    const std::size_t width = profile_.layers.size() + 1;
    played_.resize(width * profile_.layers.size());
    std::unique_ptr<const RangePeaks>& known = played_[layers.first.index() * width + layers.end.index()];
    if (!known) {
        check_stop();
        RangePeaks peaks = from_bytes(layers);
        if (auto recorded = recorded_partition_tape(profile_, sized_, layers)) {
            fill_in(PartitionWork(sized_, layers, *std::move(recorded)), peaks);
            if (auto tape = has_gathered_ ? recorded_partition_tape(profile_, sized_, layers, {.gathered = true})
                                          : std::nullopt) {
                RangePeaks gathered = peaks;
                fill_in(PartitionWork(sized_, layers, *std::move(tape)), gathered);
                peaks.backward_of_view = gathered.backward_of_view;
            }
        }
        known = std::make_unique<const RangePeaks>(peaks);
    }
    return *known;
}
}  // namespace pipescope
