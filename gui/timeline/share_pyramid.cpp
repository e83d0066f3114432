#include "gui/timeline/share_pyramid.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
constexpr double kFullShare = 65535;
// Coarser levels would save nothing: a row has more columns than this.
constexpr std::size_t kFewestBins = 8;

/// Rounds up to a number that can be halved down to about kFewestBins without remainder, because half a bin would be
/// read as a whole one.
std::size_t roundedUp(std::size_t bins) {
    std::size_t unit = 1;
    while (bins > 2 * kFewestBins * unit) {
        unit *= 2;
    }
    return std::max<std::size_t>(1, (bins + unit - 1) / unit * unit);
}

/// Two, unless many kinds would make bins larger than their slices.
std::size_t slicesPerBin(std::size_t kinds) {
    return std::max<std::size_t>(2, kinds / 2);
}

std::uint16_t toStored(double share) {
    // Rounded up, so that a lone short slice stays visible.
    return static_cast<std::uint16_t>(std::min(kFullShare, std::ceil(share * kFullShare)));
}

}  // namespace

std::vector<TaskKind> kindsIn(std::span<const std::uint8_t> kind) {
    std::array<bool, kNumShownKinds> present{};
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

void ColumnShares::reset(std::span<const TaskKind> present, int columns) {
    kinds.assign(present.begin(), present.end());
    for (const TaskKind kind : kinds) {
        // One extra column, so that a slice that ends at the right edge needs no check.
        of[static_cast<std::size_t>(kind)].assign(static_cast<std::size_t>(columns) + 1, 0.0F);
    }
}

void addShares(const SliceColumns& slices, const TimeWindow& window, int columns, ColumnShares& shares) {
    const auto [left, end_time] = shownRange(window);
    const auto first = std::upper_bound(slices.end.begin(), slices.end.end(), left) - slices.end.begin();
    const auto last = std::lower_bound(slices.start.begin(), slices.start.end(), end_time) - slices.start.begin();
    const double right = static_cast<double>(columns);
    const double columns_per_ns = right / window.length;  // pixelOf() without a division per slice
    const double offset = -window.fraction * columns_per_ns;
    const auto columnOf = [&](std::int64_t time) {
        return std::clamp(static_cast<double>(time - window.start) * columns_per_ns + offset, 0.0, right);
    };
    std::array<float*, kNumShownKinds> of{};
    for (const TaskKind kind : shares.kinds) {
        of[static_cast<std::size_t>(kind)] = shares.of[static_cast<std::size_t>(kind)].data();
    }
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(std::max(first, last)); ++i) {
        const double from = columnOf(slices.start[i]);
        const double to = columnOf(slices.end[i]);
        float* const target = of[slices.kind[i]];
        const int first_column = std::min(static_cast<int>(from), columns - 1);
        const int last_column = static_cast<int>(to);
        // Most slices of a dense row touch one or two columns. Both are written, since a branch would be mispredicted.
        const double next = first_column + 1;
        target[first_column] += static_cast<float>(std::min(to, next) - from);
        if (last_column <= first_column + 1) {
            target[first_column + 1] += static_cast<float>(std::max(0.0, to - next));
            continue;
        }
        for (int column = first_column + 1; column < last_column; ++column) {
            target[column] += 1.0F;  // several rows may be added
        }
        target[last_column] += static_cast<float>(to - last_column);
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
    while (levels_.back().bins >= 2 * kFewestBins && levels_.back().bins % 2 == 0) {
        addCoarser();
    }
}

void SharePyramid::fillFinest(const SliceColumns& slices) {
    const std::size_t bins = roundedUp(slices.start.size() / slicesPerBin(kinds_.size()));
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
                break;  // the rest belongs to the next bin
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
    const double norm = 1 / (scale * kFullShare);
    for (int column = 0; column < columns; ++column) {
        const double a = std::clamp(offset / bin_length + column * scale, 0.0, last);
        const double b = std::clamp(offset / bin_length + (column + 1) * scale, 0.0, last);
        if (b <= a) {
            continue;
        }
        const auto first_bin = static_cast<std::size_t>(a);
        const std::size_t end_bin = std::min(static_cast<std::size_t>(b), level.bins - 1);
        const double before = a - static_cast<double>(first_bin);  // part of the first bin left of the column
        const double after = static_cast<double>(end_bin + 1) - b;
        for (std::size_t k = 0; k < kinds_.size(); ++k) {
            const std::uint16_t* stored = level.shares.data() + k * level.bins;
            std::uint64_t whole = 0;  // of two to five bins as a rule
            for (std::size_t bin = first_bin; bin <= end_bin; ++bin) {
                whole += stored[bin];
            }
            const double sum = static_cast<double>(whole) - before * stored[first_bin] - after * stored[end_bin];
            shares.of[static_cast<std::size_t>(kinds_[k])][static_cast<std::size_t>(column)] +=
                static_cast<float>(sum * norm);
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
