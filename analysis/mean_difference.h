#pragma once

#include <span>

namespace pipescope {
/// Two means, and whether their difference exceeds the noise of the values behind them.
///
/// Rule: Welch's t-test at 95 %. The standard error of the difference is sqrt(s1^2 / n1 + s2^2 / n2), with the standard
/// deviations s of the values. The limit is this error times Student's t for Welch's degrees of freedom, rounded down:
/// 12.7 for 1, 4.3 for 2, 2.0 for many.
///
/// If nothing changed, one pair of runs in twenty exceeds the limit, fewer if the runs are short. The rule knows only
/// the noise within each run. Steps of one run share the machine's state, which may differ in another run.
struct MeanDifference {
    double before = 0;
    double after = 0;
    double standard_error = 0;   ///< of after - before
    double limit = 0;            ///< a larger difference exceeds the noise
    bool noise_is_known = true;  ///< false with fewer than two values on a side; error and limit are then 0

    double difference() const { return after - before; }
    /// False if the noise is not known.
    bool exceeds_noise() const { return noise_is_known && (difference() > limit || -difference() > limit); }
};
/// Precondition: neither is empty.
MeanDifference mean_difference(std::span<const double> before, std::span<const double> after);

/// The 97.5th percentile of Student's t distribution, for degrees of freedom rounded down; at least 1.
double student_t(double degrees_of_freedom);
}  // namespace pipescope
