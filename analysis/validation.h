#pragma once

#include "analysis/comparison.h"
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
    std::optional<MachineLoad> profile_load;
    std::optional<MachineLoad> run_load;
    std::string dtype;  ///< of the profile
};

/// A pipeline that was predicted and run, several times.
struct ValidatedCandidate {
    PipelineOptions options;
    std::vector<ValidatedRun> runs;  ///< at least one
};

/// How far a candidate's prediction was off. Times, step, bubble and peak error are those of one run, whose step error
/// is the median of all runs (the lower one of two), so that the error printed is that of the times beside it.
struct CandidateErrors {
    Nanoseconds measured_step_time{0};  ///< as Comparison::judged
    Nanoseconds simulated_step_time{0};
    bool is_mean = false;                       ///< of these two, as JudgedStep
    double step_error = 0;                      ///< simulated / measured - 1
    double bubble_error = 0;                    ///< difference of fractions, simulated - measured
    std::optional<double> peak_error;           ///< of the lane that is furthest off, with its sign
    std::optional<double> replayed_peak_error;  ///< that of the memory model at the measured instants, run furthest off
    std::optional<double> band_coverage;        ///< share of measured steps inside the predicted band, over all runs
    std::optional<double> replay_error;         ///< Replay::error of the run furthest off; nothing unless all have one
    std::optional<double> replay_with_gaps_error;  ///< the same of Replay::with_gaps_error
    /// How far equal runs differ: (slowest - quickest) / median of their measured step times; nothing of a single run.
    std::optional<double> spread;
};
/// Throws Error for a candidate without a run.
CandidateErrors errors_of(const ValidatedCandidate& candidate);

/// Those that have a run: a validation that was interrupted has others.
std::vector<ValidatedCandidate> candidates_that_ran(std::span<const ValidatedCandidate> candidates);

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
    std::size_t candidates = 0;
    double rank_correlation = 0;  ///< of predicted and measured throughput, medians over the runs
    double regret = 0;            ///< how much slower the candidate predicted quickest is than the quickest measured
    std::optional<double> band_coverage;
    std::optional<MachineLoad> load;  ///< of all profiles and runs the highest of each share
};
/// Throws Error for an empty list, or a candidate without a run.
ValidationSummary summarize(std::span<const ValidatedCandidate> candidates);

/// What a validation is to reach, errors without their signs. Beside it every one keeps 1 % in the worst replay, with
/// the measured gaps 0.1 %, and 1 % in the mean of peaks at the measured instants.
struct ValidationGoal {
    double step_error = 0.03;  ///< in the mean
    std::optional<double> worst_step_error = std::nullopt;
    std::optional<double> bubble_error = 0.02;  ///< in the mean, as a difference of fractions
    std::optional<double> peak_error = 0.01;    ///< in the mean
    double rank_correlation = 0.9;              ///< at least
    double regret = 0.03;
};
/// Step 1 % (3 % at worst) and bubble 0.5 points where layers only wait, 3 % and 2 points for real ones, 5 % and
/// neither bubble nor peak for those on more lanes than cores: which lane gets ahead there, and holds more, is the
/// cores' order. The regret is that of the step.
ValidationGoal validation_goal(bool emulated, int lanes, int cores);

/// One of a goal's parts beside what was found.
struct JudgedGoal {
    /// step_error_mean, step_error_max, bubble_error_mean, peak_error_mean, rank_correlation, regret,
    /// replayed_peak_error_mean, replay_error_max or replay_with_gaps_error_max
    std::string name;
    double allowed = 0;
    double found = 0;
    bool at_least = false;        ///< `found` is to be `allowed` or more
    std::string not_judged = {};  ///< why this machine cannot tell; empty: it can
    bool is_judged() const { return not_judged.empty(); }
    bool reached() const { return is_judged() && (at_least ? found >= allowed : found <= allowed); }
};
/// Every part the goal has and the summary knows, the mean step error first. Goals are absolute. What hangs on times is
/// not judged where equal runs differ by more than the step error that is allowed, or where no two runs are equal: then
/// a small error is luck and a large one the machine's.
std::vector<JudgedGoal> judge(const ValidationSummary& summary, const ValidationGoal& goal);
/// True if every goal is judged and reached, false if one is judged and missed, else nothing.
std::optional<bool> all_reached(std::span<const JudgedGoal> goals);

/// Spearman's: the correlation of ranks, equal values sharing the mean of theirs. 1 where fewer than two values differ
/// on both sides alike, 0 where only one side has no differences. Throws Error unless both are equally long.
double rank_correlation(std::span<const double> a, std::span<const double> b);
}  // namespace pipescope
