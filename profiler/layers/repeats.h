#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace pipescope {
/// Repeated measurements of the same quantities, one per layer.
///
/// Problem: on a machine whose host takes time away, times are skewed to the right. A run suffers every disturbance, so
/// a task takes the mean of its layers' sum. A median, or a sum of medians, would ignore the disturbances.
///
/// Idea: use the mean, the only estimate whose sums are right for any layers of a partition. Its price is a larger
/// error, so rounds continue until the error is small. The error takes into account that neighbouring rounds are alike.
class Repeats {
public:
    void add(const std::vector<double>& values) { rounds_.push_back(values); }
    std::size_t rounds() const noexcept { return rounds_.size(); }
    /// Discards these rounds; ascending.
    void drop(std::span<const std::size_t> rounds);

    double mean(std::size_t layer) const;
    double mean_sum() const;
    double standard_deviation(std::size_t layer) const;
    /// Standard deviation over mean; 0 if the mean is 0.
    double coefficient_of_variation(std::size_t layer) const;
    /// Variation that the layers share: the variance of the rounds' sums beyond the sum of the layers' own variances,
    /// as a standard deviation over the mean sum. 0 if there is none, or for fewer than two rounds.
    double common_variation() const;
    /// Standard error of the mean over the mean, both summed over the layers, as if the layers' errors never cancelled.
    /// Infinite for fewer than two rounds.
    double relative_error() const;
    /// Sums over the layers, by round.
    std::vector<double> sums() const;

private:
    std::size_t layers() const noexcept { return rounds_.empty() ? 0 : rounds_.front().size(); }
    std::vector<double> of_layer(std::size_t layer) const;

    std::vector<std::vector<double>> rounds_;
};

/// Standard error of the mean of consecutive values. The larger of two estimates: from all values as if independent,
/// and from the means of about ten blocks of neighbours, where a slow second of the machine makes only one block slow.
/// Infinite for fewer than two values.
double standard_error(std::span<const double> values);

/// Rounds in which the machine was suspended or swapped: longer than a second and than three times the median. Real
/// runs do not have such rounds. Ascending.
std::vector<std::size_t> standstills(std::span<const double> pass_ns);

/// Variation of a lane's passes that is independent of other lanes and lasts from one pass to the next, as a standard
/// deviation over the mean.
///
/// `passes`: one lane's, in order. `others[k]`: the average time of a pass of `other_lanes` at the same time; NaN if
/// unknown. In the difference of the two, noise that the lanes share cancels; the covariance of neighbouring
/// differences is the lasting noise. 0 if that may be chance, or if there is too little data.
double lane_variation(std::span<const double> passes, std::span<const double> others, int other_lanes);

/// Decides when an estimate is good enough, and when to stop anyway.
struct RepeatGoal {
    double target_error = 0.02;  ///< an error below this is good enough
    double time_limit_s = 30;    ///< stops if a round like the last would end later
    /// Minimum of rounds, so that bursts of noise are included, until long_enough_s have passed.
    std::size_t fewest = 20;
    double long_enough_s = 5;  ///< after this time, kFewestRounds are enough
    std::size_t most = 1000;
};
inline constexpr std::size_t kFewestRounds = 5;

/// Runs rounds until their estimate is good enough; returns their number. `elapsed_s` is the time since the start,
/// `relative_error` the error of the rounds so far.
std::size_t repeat_rounds(const RepeatGoal& goal, const std::function<double()>& elapsed_s,
                          const std::function<void(std::size_t)>& round, const std::function<double()>& relative_error);
}  // namespace pipescope
