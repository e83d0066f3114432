#include "simulator/range_table.h"

#include "simulator/backward_walk.h"

#include <algorithm>
#include <limits>

namespace pipescope {
RangeTable::RangeTable(const Profile& profile, const SizedProfile& sized)
    : profile_(profile), sized_(sized), rows_(profile.layers.size()), columns_(profile.layers.size() + 1) {
    without_tape_ = {0};
    for (const LayerProfile& layer : profile.layers) {
        without_tape_.push_back(without_tape_.back() + (layer.tape.empty() ? 1 : 0));
    }
    find_storages();
}

void RangeTable::find_storages() {
    const std::size_t layers = profile_.layers.size();
    bytes_ = {sized_.input};
    keeper_ = {layers};
    let_go_.assign(layers, 0);
    const auto keep = [&](std::size_t storage, std::size_t layer) {
        if (keeper_[storage] == layers) {
            keeper_[storage] = layer;
            let_go_[layer] += storage == 0 ? 0 : bytes_[storage];  // the first layer to keep it is the last to free it
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
    const std::size_t first = layers.first.index();
    const std::size_t end = layers.end.index();
    if (without_tape_[first] == without_tape_[end]) {
        return played(layers);
    }
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
        checkpointed = l == first ? work : std::max(checkpointed, work);
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
    std::vector<Bytes> let_go(let_go_.begin(), let_go_.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t output = storage_[end - 1];
    if (output != 0 && keeper_[output] < end) {
        let_go[keeper_[output]] -= bytes_[output];  // an output is counted separately
    }
    const std::vector<BackwardLook> looks =
        walk_backward_from(profile_, sized_, LayerId{static_cast<std::int64_t>(end)}, let_go);
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
        const PartitionMemory memory = partition_memory(profile_, sized_, layers);
        known = std::make_unique<const RangePeaks>(
            RangePeaks{memory.input, memory.input_kept, memory.output, memory.output_kept, memory.graph,
                       memory.checkpointed_forward.total(), memory.forward.total(), memory.forward_of_own_input.total(),
                       memory.backward.total(), memory.backward_of_view.total(), memory.input_gradient});
    }
    return *known;
}
}  // namespace pipescope
