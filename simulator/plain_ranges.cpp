#include "simulator/plain_ranges.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pipescope {
RangeMaxima::RangeMaxima(std::vector<Bytes> values) {
    levels_.push_back(std::move(values));
    for (std::size_t width = 1; 2 * width <= levels_.front().size(); width *= 2) {
        const std::vector<Bytes>& half = levels_.back();
        std::vector<Bytes> whole;
        for (std::size_t i = 0; i + 2 * width <= levels_.front().size(); ++i) {
            whole.push_back(std::max(half[i], half[i + width]));
        }
        levels_.push_back(std::move(whole));
    }
}

Bytes RangeMaxima::largest(std::size_t first, std::size_t end) const {
    const auto level = static_cast<std::size_t>(std::bit_width(end - first) - 1);
    return std::max(levels_[level][first], levels_[level][end - (std::size_t{1} << level)]);
}

PlainRanges::PlainRanges(const Profile& profile, const SizedProfile& sized)
    : input_(sized.input), output_(sized.output), saved_(sized.saved), transient_(sized.transient) {
    const std::size_t layers = profile.layers.size();
    others_ = {0};
    saved_before_ = kept_before_ = by_maker_before_ = by_taker_before_ = {0};
    for (std::size_t l = 0; l < layers; ++l) {
        const LayerProfile& layer = profile.layers[l];
        const bool is_plain = !layer.aliases_input && !layer.passes_gradient && layer.stash.empty() &&
                              layer.pop.empty() && layer.tape.empty();
        others_.push_back(others_.back() + (is_plain ? 0 : 1));
        keeps_input_.push_back(layer.keeps_input);
        keeps_output_.push_back(layer.keeps_output);
        const bool taker_keeps = l + 1 < layers && profile.layers[l + 1].keeps_input;
        const bool kept_by_this = l > 0 && layer.keeps_input && !keeps_output_[l - 1];
        saved_before_.push_back(saved_before_.back() + saved_[l]);
        kept_before_.push_back(kept_before_.back() + (layer.keeps_output || taker_keeps ? output_[l] : 0));
        by_maker_before_.push_back(by_maker_before_.back() + (layer.keeps_output ? output_[l] : 0));
        by_taker_before_.push_back(by_taker_before_.back() + (kept_by_this ? output_[l - 1] : 0));
    }
    std::vector<Bytes> work, forward, backward;
    for (std::size_t l = 0; l < layers; ++l) {
        work.push_back(transient_[l] + before(l) + output_[l]);
        forward.push_back(work[l] + saved_before_[l + 1] + (l > 0 ? kept_before_[l - 1] : 0));
        backward.push_back(work[l] - (l > 0 ? 0 : input_) + saved_before_[l + 1] + by_maker_before_[l + 1] +
                           by_taker_before_[l + 1]);
    }
    work_ = RangeMaxima(std::move(work));
    forward_ = RangeMaxima(std::move(forward));
    backward_ = RangeMaxima(std::move(backward));
}

std::optional<PartitionMemory> PlainRanges::memory(LayerRange layers) const {
    const std::size_t first = layers.first.index();
    const std::size_t end = layers.end.index();
    const std::size_t top = end - 1;
    if (others_[end] != others_[first]) {
        return std::nullopt;
    }
    PartitionMemory memory;
    memory.input = before(first);
    memory.input_kept = keeps_input_[first];
    memory.output = output_[top];
    memory.output_kept = keeps_output_[top];
    memory.graph = saved_before_[end] - saved_before_[first] + kept_before_[top] - kept_before_[first];
    memory.input_gradient = first == 0 ? 0 : memory.input;

    // The first layer works on the input, which is not counted here, and finds nothing kept.
    const Bytes at_first = transient_[first] + output_[first];
    Bytes checkpointed = at_first;
    Bytes forward = at_first + saved_[first];
    Bytes forward_of_own = forward;
    if (first < top) {
        checkpointed = std::max(checkpointed, work_.largest(first + 1, end));
        const Bytes later = forward_.largest(first + 1, end) - saved_before_[first] - kept_before_[first];
        forward_of_own = std::max(forward_of_own, later - (memory.input_kept ? 0 : memory.input));
        forward = std::max(forward, later);
    }
    // The last layer goes backward first, on a gradient that is not counted here; below it that gradient is gone.
    const Bytes at_top = transient_[top] + (top > 0 ? before(top) : 0);
    Bytes backward = at_top;
    Bytes backward_of_view = at_top;
    if (first < top) {
        const Bytes below =
            backward_.largest(first, top) - saved_before_[end] - by_maker_before_[top] - by_taker_before_[end];
        backward = std::max(backward, below - memory.output);
        backward_of_view = std::max(backward_of_view, below);
    }
    const auto work = [](Bytes bytes) { return WorkPeak{0, 0, 0, bytes}; };
    memory.checkpointed_forward = work(checkpointed);
    memory.forward = work(forward);
    memory.forward_of_own_input = work(forward_of_own);
    memory.backward = work(backward);
    memory.backward_of_view = work(backward_of_view);
    return memory;
}
}  // namespace pipescope
