#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace pipescope {
/// Repeated measurements of the same quantities, one per layer.
///
/// Problem: on a machine whose host takes time away, times are skewed to the right. A run pays for every disturbance,
/// so a task takes the mean of its layers' sum; a median, or a sum of medians, leaves the disturbances out. Idea: the
/// mean is the only estimate whose sums are right over whatever layers a partition has. Its price is a larger error, so
/// rounds go on until their error is small, and that error knows that rounds next to each other are alike.
class Repeats {
public:
    void add(const std::vector<double>& values) { rounds_.push_back(values); }
    std::size_t rounds() const noexcept { return rounds_.size(); }
    /// Forgets these rounds; ascending.
    void drop(std::span<const std::size_t> rounds);

    double mean(std::size_t layer) const;
    double mean_sum() const;
    double standard_deviation(std::size_t layer) const;
    /// Standard deviation over mean; 0 where the mean is 0.
    double coefficient_of_variation(std::size_t layer) const;
    /// What the layers' variations have in common: the variance of the rounds' sums beyond the sum of the layers' own
    /// variances, as a standard deviation over the mean sum. 0 where there is none, or fewer than two rounds.
    double common_variation() const;
    /// Standard error of the mean over the mean, both summed over the layers, as if the layers' errors never cancelled.
    /// Infinite with fewer than two rounds.
    double relative_error() const;
    /// Sums over the layers, by round.
    std::vector<double> sums() const;

private:
    std::size_t layers() const noexcept { return rounds_.empty() ? 0 : rounds_.front().size(); }
    std::vector<double> of_layer(std::size_t layer) const;

    std::vector<std::vector<double>> rounds_;
};

/// Of the mean of values that came one after the other: from all of them as if independent, or from the means of about
/// ten blocks of neighbours, whichever is more. A slow second of the machine makes a block slow, and then counts once.
/// Infinite with fewer than two values.
double standard_error(std::span<const double> values);

/// Rounds in which the machine stood still, as when it was suspended or swapped: more than a second and three times the
/// median. A run has none of them. Ascending.
std::vector<std::size_t> standstills(std::span<const double> pass_ns);

/// How much a lane's passes vary on their own from what other lanes do, in a way that lasts from one pass to the next,
/// as a standard deviation over the mean. `passes` are one lane's, in order; `others[k]` is what a pass of
/// `other_lanes` took at the same time, on average; NaN if that is not known. What the lanes have in common cancels in
/// the difference of the two, and what lasts is the covariance of neighbouring differences. 0 if that may be chance, or
/// if too little is known.
double lane_variation(std::span<const double> passes, std::span<const double> others, int other_lanes);

/// When an estimate is good enough, and when it must do.
struct RepeatGoal {
    double target_error = 0.02;  ///< an error below this is good enough
    double time_limit_s = 30;    ///< no further round where one like the last would end later
    std::size_t fewest = 20;     ///< rounds, unless long_enough_s have passed: noise that comes in bursts is to be met
    double long_enough_s = 5;    ///< after these, kFewestRounds do
    std::size_t most = 1000;
};
inline constexpr std::size_t kFewestRounds = 5;

/// Runs rounds until their estimate is good enough; returns how many. `elapsed_s` is the time since the start,
/// `relative_error` that of the rounds so far.
std::size_t repeat_rounds(const RepeatGoal& goal, const std::function<double()>& elapsed_s,
                          const std::function<void(std::size_t)>& round, const std::function<double()>& relative_error);
}  // namespace pipescope
