#include "gui/timeline/share_pyramid.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pipescope {
namespace {
constexpr double kFullShare = 65535;
constexpr std::size_t kSlicesPerBin = 4;

std::uint16_t toStored(double share) {
    // Rounded up, so that a lone short slice never vanishes.
    return static_cast<std::uint16_t>(std::min(kFullShare, std::ceil(share * kFullShare)));
}

std::vector<TaskKind> kindsIn(std::span<const std::uint8_t> kind) {
    std::array<bool, kNumTaskKinds> present{};
    for (const std::uint8_t each : kind) {
        present[each] = true;
    }
    std::vector<TaskKind> kinds;
    for (std::size_t k = 0; k < present.size(); ++k) {
        if (present[k]) {
            kinds.push_back(static_cast<TaskKind>(k));
        }
    }
    return kinds;
}
}  // namespace

void ColumnShares::reset(std::span<const TaskKind> present, int columns) {
    kinds.assign(present.begin(), present.end());
    for (const TaskKind kind : kinds) {
        of[static_cast<std::size_t>(kind)].assign(static_cast<std::size_t>(columns), 0.0F);
    }
}

void addShares(const SliceColumns& slices, const TimeWindow& window, int columns, ColumnShares& shares) {
    const std::int64_t left = window.start;
    const auto first = std::upper_bound(slices.end.begin(), slices.end.end(), left);
    const double right = static_cast<double>(columns);
    const double columns_per_ns = right / window.length;  // pixelOf, but without its division per slice
    const double offset = -window.fraction * columns_per_ns;
    const auto columnOf = [&](std::int64_t time) { return static_cast<double>(time - left) * columns_per_ns + offset; };
    for (auto i = static_cast<std::size_t>(first - slices.end.begin()); i < slices.start.size(); ++i) {
        const double from = std::max(0.0, columnOf(slices.start[i]));
        const double to = std::min(right, columnOf(slices.end[i]));
        if (from >= right) {
            break;
        }
        if (to <= from) {
            continue;
        }
        std::vector<float>& of = shares.of[slices.kind[i]];
        const auto first_column = static_cast<std::size_t>(from);
        const auto last_column = std::min(static_cast<std::size_t>(to), static_cast<std::size_t>(columns) - 1);
        if (first_column == last_column) {
            of[first_column] += static_cast<float>(to - from);
            continue;
        }
        of[first_column] += static_cast<float>(static_cast<double>(first_column + 1) - from);
        std::fill(of.begin() + static_cast<std::ptrdiff_t>(first_column) + 1,
                  of.begin() + static_cast<std::ptrdiff_t>(last_column), 1.0F);
        of[last_column] += static_cast<float>(to - static_cast<double>(last_column));
    }
}

SharePyramid::SharePyramid(const SliceColumns& slices) : kinds_(kindsIn(slices.kind)) {
    if (slices.start.empty()) {
        return;
    }
    range_ = {slices.start.front(), slices.end.back()};
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
        position_[static_cast<std::size_t>(kinds_[k])] = static_cast<std::uint8_t>(k);
    }
    fillFinest(slices);
    while (levels_.back().bins > 1) {
        addCoarser();
    }
}

void SharePyramid::fillFinest(const SliceColumns& slices) {
    const std::size_t bins = std::bit_ceil(std::max<std::size_t>(1, slices.start.size() / kSlicesPerBin));
    binLength_ = std::max(1.0, static_cast<double>(range_.length())) / static_cast<double>(bins);
    Level level{bins, std::vector<std::uint16_t>(bins * kinds_.size())};
    std::vector<double> busy(kinds_.size());
    std::size_t next = 0;
    for (std::size_t bin = 0; bin < bins; ++bin) {
        const double left = static_cast<double>(bin) * binLength_;
        const double right = left + binLength_;
        std::fill(busy.begin(), busy.end(), 0.0);
        for (; next < slices.start.size(); ++next) {
            const double start = static_cast<double>(slices.start[next] - range_.start);
            const double end = static_cast<double>(slices.end[next] - range_.start);
            busy[position_[slices.kind[next]]] += std::max(0.0, std::min(right, end) - std::max(left, start));
            if (end > right) {
                break;  // the rest of it belongs to the next bin
            }
        }
        for (std::size_t k = 0; k < kinds_.size(); ++k) {
            level.shares[k * bins + bin] = toStored(busy[k] / binLength_);
        }
    }
    levels_.push_back(std::move(level));
}

void SharePyramid::addCoarser() {
    const Level& fine = levels_.back();
    Level level{fine.bins / 2, std::vector<std::uint16_t>(fine.bins / 2 * kinds_.size())};
    for (std::size_t i = 0; i < level.shares.size(); ++i) {
        level.shares[i] = static_cast<std::uint16_t>((fine.shares[2 * i] + fine.shares[2 * i + 1] + 1) / 2);
    }
    levels_.push_back(std::move(level));
}

bool SharePyramid::resolves(double ns_per_column) const {
    return !levels_.empty() && ns_per_column >= 2 * binLength_;
}

void SharePyramid::addShares(const TimeWindow& window, int columns, ColumnShares& shares) const {
    if (levels_.empty()) {
        return;
    }
    const double ns_per_column = window.length / columns;
    std::size_t depth = 0;
    double bin_length = binLength_;
    while (depth + 1 < levels_.size() && ns_per_column >= 4 * bin_length) {
        ++depth;
        bin_length *= 2;
    }
    const Level& level = levels_[depth];
    const double last = static_cast<double>(level.bins);
    const double offset = static_cast<double>(window.start - range_.start) + window.fraction;
    const double scale = ns_per_column / bin_length;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
        const std::uint16_t* stored = level.shares.data() + k * level.bins;
        float* of = shares.of[static_cast<std::size_t>(kinds_[k])].data();
        double to = offset / bin_length;
        for (int column = 0; column < columns; ++column) {
            const double from = to;
            to = from + scale;
            const double a = std::clamp(from, 0.0, last);
            const double b = std::clamp(to, 0.0, last);
            if (b <= a) {
                continue;
            }
            const auto first_bin = static_cast<std::size_t>(a);
            const std::size_t end_bin = std::min(static_cast<std::size_t>(b), level.bins - 1);
            double sum = 0;
            for (std::size_t bin = first_bin; bin <= end_bin; ++bin) {
                const double bin_start = static_cast<double>(bin);
                sum += (std::min(b, bin_start + 1) - std::max(a, bin_start)) * stored[bin];
            }
            of[column] += static_cast<float>(sum / (scale * kFullShare));
        }
    }
}

std::size_t SharePyramid::sizeBytes() const {
    std::size_t bytes = 0;
    for (const Level& level : levels_) {
        bytes += level.shares.size() * sizeof(std::uint16_t);
    }
    return bytes;
}
}  // namespace pipescope
