#pragma once

#include "balance/profile.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace pipescope {
/// Repeated measurements of the same quantities, one per layer.
class Repeats {
public:
    void add(const std::vector<double>& values) { rounds_.push_back(values); }
    std::size_t rounds() const noexcept { return rounds_.size(); }
    /// Forgets the first round, which still warmed caches and allocators, if there are others.
    void drop_warm_up();

    double median(std::size_t layer) const;
    double mean(std::size_t layer) const;
    /// Each layer's median, all scaled by one factor so that they sum to the median of the rounds' sums. A disturbance
    /// that hits some layer in every round, but each layer only now and then, is in no layer's median and in every sum:
    /// medians alone would make partitions of many small layers look quicker than they are.
    std::vector<double> medians_to_sum() const;
    double standard_deviation(std::size_t layer) const;
    /// Standard deviation over mean; 0 where the mean is 0.
    double coefficient_of_variation(std::size_t layer) const;
    /// What the layers' variations have in common: the variance of the rounds' sums beyond the sum of the layers' own
    /// variances, as a standard deviation over the mean sum. 0 where there is none, or fewer than two rounds.
    double common_variation() const;
    /// Standard error of the mean over the mean, both summed over the layers, as if the layers' errors never cancelled.
    double relative_error() const;

private:
    std::vector<std::vector<double>> rounds_;
};

/// When an estimate is good enough, and when it must do.
struct RepeatGoal {
    double target_error = 0.02;  ///< Repeats::relative_error below this is good enough
    double time_limit_s = 30;    ///< no further round where one like the last would end later
    std::size_t fewest = 5;      ///< rounds, unless the time ends before
    std::size_t most = 1000;
};

/// Runs rounds until their estimate is good enough; returns how many. `elapsed_s` is the time since the start,
/// `relative_error` that of the rounds so far.
std::size_t repeat_rounds(const RepeatGoal& goal, const std::function<double()>& elapsed_s,
                          const std::function<void(std::size_t)>& round, const std::function<double()>& relative_error);
}  // namespace pipescope
