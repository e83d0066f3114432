#pragma once

#include "analysis/comparison.h"
#include "simulator/simulation.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
/// One run of a candidate with its prediction.
struct ValidatedRun {
    Comparison comparison;
    std::vector<Nanoseconds> measured_steps;  ///< without warm-up
    std::optional<StepBand> band;             ///< predicted
    std::optional<MachineLoad> profile_load;
    std::optional<MachineLoad> run_load;
    std::string dtype;  ///< the profile's
};

/// A pipeline with its prediction, run several times.
struct ValidatedCandidate {
    PipelineOptions options;
    std::vector<ValidatedRun> runs;  ///< at least one
};

/// Errors of a candidate's prediction. Times, step, bubble and peak error are from one run, so that printed errors
/// match printed times: the run with the median step error (the lower of two).
struct CandidateErrors {
    Nanoseconds measured_step_time{0};  ///< as Comparison::judged
    Nanoseconds simulated_step_time{0};
    bool is_mean = false;                       ///< both times are means, as in JudgedStep
    double step_error = 0;                      ///< simulated / measured - 1
    double bubble_error = 0;                    ///< difference of fractions, simulated - measured
    std::optional<double> peak_error;           ///< of the lane with the largest error, signed
    std::optional<double> replayed_peak_error;  ///< of the memory model at the measured instants, in the run with the
                                                ///< largest error
    std::optional<double> band_coverage;        ///< share of measured steps inside the predicted band, over all runs
    std::optional<double> replay_error;  ///< Replay::error of the run with the largest one; empty unless all have one
    std::optional<double> replay_with_gaps_error;  ///< likewise for Replay::with_gaps_error
    /// Spread of equal runs: (slowest - fastest) / median of their measured step times; empty for a single run.
    std::optional<double> spread;
    /// Twice the standard error of the median step error, for errors with a normal distribution: 2.5 s / sqrt(runs),
    /// with s their standard deviation. More runs make it smaller. Empty for a single run.
    std::optional<double> uncertainty;
};
/// Throws Error for a candidate without a run.
CandidateErrors errors_of(const ValidatedCandidate& candidate);

/// The candidates with a run. An interrupted validation has others too.
std::vector<ValidatedCandidate> candidates_that_ran(std::span<const ValidatedCandidate> candidates);

struct MeanAndMax {
    double mean = 0;
    double max = 0;
};

/// Over all candidates; absolute errors.
struct ValidationSummary {
    MeanAndMax step_error;
    MeanAndMax bubble_error;
    std::optional<MeanAndMax> peak_error;
    std::optional<MeanAndMax> replayed_peak_error;
    std::optional<MeanAndMax> replay_error;  ///< over the candidates that have one
    std::optional<MeanAndMax> replay_with_gaps_error;
    std::optional<double> spread;       ///< mean over the candidates that have one
    std::optional<double> uncertainty;  ///< likewise
    std::size_t candidates = 0;
    double rank_correlation = 0;  ///< between predicted and measured throughput, medians over the runs
    double regret = 0;            ///< relative slowdown of the candidate predicted fastest against the measured fastest
    std::optional<double> band_coverage;
    std::optional<MachineLoad> load;  ///< highest of each share, over all profiles and runs
};
/// Throws Error for an empty list, or a candidate without a run.
ValidationSummary summarize(std::span<const ValidatedCandidate> candidates);

/// Goals of a validation, as absolute errors. Every validation must also keep 1 % in the worst replay, 0.1 % with the
/// measured gaps, and 1 % in the mean of peaks at the measured instants.
struct ValidationGoal {
    double step_error = 0.03;  ///< mean
    std::optional<double> worst_step_error = std::nullopt;
    std::optional<double> bubble_error = 0.02;  ///< mean, as a difference of fractions
    std::optional<double> peak_error = 0.01;    ///< mean
    double rank_correlation = 0.9;              ///< at least
    double regret = 0.03;
};
/// If layers only wait: step 1 % (3 % at worst) and bubble 0.5 points. For real layers: 3 % and 2 points. With more
/// lanes than cores: 5 %, and no goal for bubble or peak, which depend on the order in which lanes get cores. The
/// regret's goal is that of the step. With a calibrated profile: 1.5 % (3.8 % at worst) and 1 point for any number of
/// lanes; beside busy processes 4 %, and no goal for the worst, bubble or peak.
ValidationGoal validation_goal(bool emulated, int lanes, int cores, bool calibrated = false, bool busy = false);

/// One part of a goal with the result.
struct JudgedGoal {
    /// step_error_mean, step_error_max, bubble_error_mean, peak_error_mean, rank_correlation, regret,
    /// replayed_peak_error_mean, replay_error_max or replay_with_gaps_error_max
    std::string name;
    double allowed = 0;
    double found = 0;
    bool at_least = false;        ///< `found` must be at least `allowed`, not at most
    std::string not_judged = {};  ///< reason why this machine cannot judge it; empty if it can
    bool is_judged() const { return not_judged.empty(); }
    bool reached() const { return is_judged() && (at_least ? found >= allowed : found <= allowed); }
};
/// Judges every part of the goal that the summary has, mean step error first. Goals are absolute. Parts that depend on
/// times are not judged if equal runs differ by more than the allowed step error, or if no candidate ran twice: a small
/// error would then be luck, and a large one machine noise.
std::vector<JudgedGoal> judge(const ValidationSummary& summary, const ValidationGoal& goal);
/// True if every goal is judged and reached, false if one is judged and missed, otherwise empty.
std::optional<bool> all_reached(std::span<const JudgedGoal> goals);

/// Spearman's rank correlation; equal values share the mean of their ranks. 1 if each side has only equal values, 0 if
/// one side has. Throws Error unless both have the same length.
double rank_correlation(std::span<const double> a, std::span<const double> b);
}  // namespace pipescope
