#pragma once

#include "balance/profile.h"
#include "simulator/partition_memory.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace pipescope {
/// The largest of any stretch of numbers. O(n log n) to build, O(1) to ask.
class RangeMaxima {
public:
    RangeMaxima() = default;  ///< of nothing
    explicit RangeMaxima(std::vector<Bytes> values);
    /// Of values[first..end). Precondition: the stretch is not empty.
    Bytes largest(std::size_t first, std::size_t end) const;

private:
    std::vector<std::vector<Bytes>> levels_;  // [k][i]: largest of 2^k values from i on
};

/// partition_memory() of ranges of plain layers, at once: those that hand on a storage of their own, keep gradients to
/// themselves and have no skips. Then what a range has kept when it comes to a layer, and let go when it comes back, is
/// a difference of running sums, and a peak the largest of a stretch. Threading: immutable.
class PlainRanges {
public:
    PlainRanges(const Profile& profile, const SizedProfile& sized);

    /// Every WorkPeak has its total as transient bytes. Nothing if a layer of the range is not plain, or the profile
    /// has tapes.
    std::optional<PartitionMemory> memory(LayerRange layers) const;

private:
    Bytes before(std::size_t layer) const { return layer == 0 ? input_ : output_[layer - 1]; }

    Bytes input_;
    std::vector<Bytes> output_, saved_, transient_;
    std::vector<bool> keeps_input_, keeps_output_;
    std::vector<std::size_t> others_;  // not plain, of all layers before
    // Of all layers before: what is saved; outputs kept by their own layer or the next; by their own; by the next only,
    // counted there.
    std::vector<Bytes> saved_before_, kept_before_, by_maker_before_, by_taker_before_;
    // By layer: what it works on; the same and all that is kept by then; its backward and all that is not let go yet.
    RangeMaxima work_, forward_, backward_;
};
}  // namespace pipescope
