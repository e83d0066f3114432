#pragma once

#include <optional>
#include <span>

namespace pipescope {
/// How much larger one value is than its partner, over pairs that were measured one after the other.
///
/// Rule: a paired t-test at 95 % of the logarithms of the ratios after / before. The ratio is their geometric mean. The
/// interval is exp(m -+ t s / sqrt(n)), with mean m and standard deviation s of the n logarithms, and Student's t for
/// n - 1. Both values of a pair met the same state of the machine, so changes from pair to pair do not count.
///
/// If nothing changed, one check in twenty finds a difference.
struct PairedRatio {
    int pairs = 0;
    double ratio = 1;      ///< after / before
    double deviation = 0;  ///< s; 0 for one pair
    double low = 1;        ///< of the interval; equal to `ratio` for one pair
    double high = 1;

    /// False for fewer than two pairs, whose noise is not known.
    bool is_distinct() const { return pairs > 1 && (low > 1 || high < 1); }
    /// The smallest change of the ratio that as many pairs with this noise would show: "half the interval".
    double least_change() const;
    /// How many pairs in all would show a difference of this size in four checks of five: the smallest n > `pairs` with
    /// (t + 0.84) s / sqrt(n) <= |m|. Empty if the difference is distinct, the noise is not known, or n is above
    /// kMostPairs.
    std::optional<int> pairs_to_decide() const;

    static constexpr int kMostPairs = 1000;
};
/// Precondition: equally many values above 0 on both sides, at least one.
PairedRatio paired_ratio(std::span<const double> before, std::span<const double> after);
}  // namespace pipescope
