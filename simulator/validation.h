#pragma once

#include "simulator/comparison.h"
#include "simulator/simulation.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// One run of a candidate beside its prediction.
struct ValidatedRun {
    Comparison comparison;
    std::vector<Nanoseconds> measured_steps;                  ///< warm-up left out
    std::optional<std::pair<Nanoseconds, Nanoseconds>> band;  ///< predicted 5 and 95 %
};

/// A pipeline that was predicted and run, several times.
struct ValidatedCandidate {
    PipelineOptions options;
    std::vector<ValidatedRun> runs;  ///< at least one
};

/// Medians over a candidate's runs, each against the prediction made for it.
struct CandidateErrors {
    Nanoseconds measured_step_time{0};
    Nanoseconds simulated_step_time{0};
    double step_error = 0;                      ///< simulated / measured - 1
    double bubble_error = 0;                    ///< difference of fractions, simulated - measured
    std::optional<double> peak_error;           ///< of the lane that is furthest off, with its sign
    std::optional<double> replayed_peak_error;  ///< the same of the memory model at the measured instants
    std::optional<double> band_coverage;        ///< share of measured steps inside the predicted band
    std::optional<double> replay_error;         ///< Replay::error of the run furthest off; nothing unless all have one
    std::optional<double> replay_with_gaps_error;  ///< the same of Replay::with_gaps_error
    /// How far equal runs differ: (slowest - quickest) / median of their measured step times; nothing of a single run.
    std::optional<double> spread;
};
/// Throws Error for a candidate without a run.
CandidateErrors errors_of(const ValidatedCandidate& candidate);

struct MeanAndMax {
    double mean = 0;
    double max = 0;
};

/// Over all candidates; errors without their signs.
struct ValidationSummary {
    MeanAndMax step_error;
    MeanAndMax bubble_error;
    std::optional<MeanAndMax> peak_error;
    std::optional<MeanAndMax> replayed_peak_error;
    std::optional<MeanAndMax> replay_error;  ///< of the candidates that have one
    std::optional<MeanAndMax> replay_with_gaps_error;
    std::optional<double> spread;  ///< mean of the candidates that have one
    double rank_correlation = 0;   ///< of predicted and measured throughput
    double regret = 0;             ///< how much slower the candidate predicted quickest is than the quickest measured
    std::optional<double> band_coverage;
};
/// Throws Error for an empty list.
ValidationSummary summarize(std::span<const ValidatedCandidate> candidates);

/// What a validation is to reach, errors without their signs. Beside it every one keeps 1 % in the worst replay, with
/// the measured gaps 0.1 %.
struct ValidationGoal {
    double step_error = 0.03;  ///< in the mean
    /// Or twice the spread of equal runs, whichever is more: a machine that repeats itself no better hides the rest.
    bool or_twice_spread = true;
    std::optional<double> worst_step_error = std::nullopt;
    std::optional<double> bubble_error = 0.02;  ///< in the mean, as a difference of fractions
    std::optional<double> peak_error = 0.01;    ///< in the mean
};
/// Step 1 % (3 % at worst) and bubble 0.5 points where layers only wait, 3 % and 2 points for real ones, 5 % and
/// neither bubble nor peak for those on more lanes than cores: which lane gets ahead there, and holds more, is the
/// cores' order.
ValidationGoal validation_goal(bool emulated, int lanes, int cores);

/// One of a goal's parts beside what was found.
struct JudgedGoal {
    std::string name;  ///< step_error_mean, step_error_max, bubble_error_mean, peak_error_mean, replay_error_max or
                       ///< replay_with_gaps_error_max
    double allowed = 0;
    double found = 0;
    bool reached() const { return found <= allowed; }
};
/// Every part the goal has and the summary knows, the mean step error first.
std::vector<JudgedGoal> judge(const ValidationSummary& summary, const ValidationGoal& goal);
/// The error that is allowed: the goal's, or twice the summary's spread where that is known, counts and is more.
double allowed_step_error(const ValidationSummary& summary, const ValidationGoal& goal);

/// Spearman's: the correlation of ranks, equal values sharing the mean of theirs. 1 where fewer than two values differ
/// on both sides alike, 0 where only one side has no differences. Throws Error unless both are equally long.
double rank_correlation(std::span<const double> a, std::span<const double> b);
}  // namespace pipescope
