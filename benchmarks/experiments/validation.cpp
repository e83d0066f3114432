#include "benchmarks/experiments/validation.h"

#include "base/error.h"
#include "base/quantities.h"
#include "base/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

namespace pipescope {
namespace {
constexpr double kReplayError = 0.01;
constexpr double kReplayWithGapsError = 0.001;
constexpr double kReplayedPeakError = 0.01;
constexpr std::size_t kFewestToRank = 3;

/// The value furthest from 0.
std::optional<double> furthest(const std::vector<double>& values) {
    const auto found =
        std::max_element(values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    return found == values.end() ? std::nullopt : std::optional(*found);
}

/// Peak error of the lane with the largest one; empty if memory was not recorded. `peaks`: predicted, by lane.
std::optional<double> peak_error_of(const Comparison& comparison, std::span<const Bytes> peaks) {
    std::vector<double> errors;
    for (std::size_t lane = 0; lane < std::min(comparison.lanes.size(), peaks.size()); ++lane) {
        const Bytes measured = comparison.lanes[lane].measured_peak_bytes.value_or(0);
        if (measured > 0) {
            errors.push_back(static_cast<double>(peaks[lane]) / static_cast<double>(measured) - 1);
        }
    }
    return furthest(errors);
}

std::vector<Bytes> simulated_peaks(const Comparison& comparison) {
    std::vector<Bytes> peaks;
    for (const ComparedLane& lane : comparison.lanes) {
        peaks.push_back(lane.simulated_peak_bytes.value_or(0));
    }
    return peaks;
}

/// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> ranks(values.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t end = first + 1;
        while (end < order.size() && values[order[end]] == values[order[first]]) {
            ++end;
        }
        const double shared = (static_cast<double>(first + 1) + static_cast<double>(end)) / 2;
        for (; first < end; ++first) {
            ranks[order[first]] = shared;
        }
    }
    return ranks;
}

std::optional<MeanAndMax> mean_and_max(const std::vector<double>& errors) {
    if (errors.empty()) {
        return std::nullopt;
    }
    MeanAndMax result;
    for (const double error : errors) {
        result.mean += std::abs(error) / static_cast<double>(errors.size());
        result.max = std::max(result.max, std::abs(error));
    }
    return result;
}

std::size_t steps_inside(const ValidatedRun& run) {
    return static_cast<std::size_t>(
        std::count_if(run.measured_steps.begin(), run.measured_steps.end(),
                      [&](Nanoseconds step) { return run.band && run.band->low <= step && step <= run.band->high; }));
}

/// The run with the median step error; the lower of two.
const ValidatedRun& middle_run(const std::vector<ValidatedRun>& runs) {
    std::vector<const ValidatedRun*> sorted;
    for (const ValidatedRun& run : runs) {
        sorted.push_back(&run);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const ValidatedRun* a, const ValidatedRun* b) {
        return a->comparison.step_error < b->comparison.step_error;
    });
    return *sorted[(sorted.size() - 1) / 2];
}

/// Median over the runs of the measured or the simulated step time.
Nanoseconds median_over_runs(const ValidatedCandidate& candidate, Nanoseconds JudgedStep::*which) {
    std::vector<Nanoseconds> times;
    for (const ValidatedRun& run : candidate.runs) {
        times.push_back(run.comparison.judged().*which);
    }
    return median(std::move(times));
}

/// CandidateErrors::uncertainty, from the runs' step errors. Precondition: two runs.
double uncertainty_of_median(const std::vector<ValidatedRun>& runs) {
    std::vector<double> errors;
    for (const ValidatedRun& run : runs) {
        errors.push_back(run.comparison.step_error);
    }
    return 2 * standard_deviation(errors) * std::sqrt(std::numbers::pi / 2 / static_cast<double>(runs.size()));
}

void add_highest(const std::optional<MachineLoad>& load, std::optional<MachineLoad>& highest) {
    if (!load) {
        return;
    }
    MachineLoad& most = highest ? *highest : highest.emplace();
    most.others = std::max(most.others, load->others);
    most.stolen = std::max(most.stolen, load->stolen);
    if (load->pressure) {
        most.pressure = std::max(most.pressure.value_or(0), *load->pressure);
    }
}

/// Reason why times cannot be judged; empty if they can.
std::string why_times_say_nothing(const ValidationSummary& summary, const ValidationGoal& goal) {
    if (!summary.uncertainty) {
        return "how far equal runs differ is not known; use --rounds 3 or more";
    }
    if (*summary.uncertainty <= goal.step_error) {
        return {};
    }
    std::string percent = std::to_string(std::round(1000 * *summary.uncertainty) / 10);
    return "medians are uncertain by " + percent.substr(0, percent.find('.') + 2) + " %; use more --rounds";
}
}  // namespace

CandidateErrors errors_of(const ValidatedCandidate& candidate) {
    if (candidate.runs.empty()) {
        throw Error("a candidate has no run; its errors are medians over runs; run it at least once");
    }
    std::vector<Nanoseconds> measured;
    std::vector<double> replay_errors, replay_with_gaps_errors, replayed_peak_errors;
    std::size_t steps = 0;
    std::size_t inside = 0;
    for (const ValidatedRun& run : candidate.runs) {
        measured.push_back(run.comparison.judged().measured);
        if (const auto& replay = run.comparison.replay) {
            replay_errors.push_back(replay->error);
            if (const auto error = peak_error_of(run.comparison, replay->peak_bytes)) {
                replayed_peak_errors.push_back(*error);
            }
            replay_with_gaps_errors.push_back(replay->with_gaps_error);
        }
        if (run.band) {
            steps += run.measured_steps.size();
            inside += steps_inside(run);
        }
    }
    const Comparison& middle = middle_run(candidate.runs).comparison;
    const JudgedStep judged = middle.judged();
    CandidateErrors errors;
    errors.measured_step_time = judged.measured;
    errors.simulated_step_time = judged.simulated;
    errors.is_mean = judged.is_mean;
    errors.step_error = middle.step_error;
    errors.bubble_error = judged.simulated_bubble - judged.measured_bubble;
    errors.peak_error = peak_error_of(middle, simulated_peaks(middle));
    if (replay_errors.size() == candidate.runs.size()) {
        errors.replay_error = furthest(replay_errors);
        errors.replay_with_gaps_error = furthest(replay_with_gaps_errors);
        errors.replayed_peak_error = furthest(replayed_peak_errors);
    }
    if (steps > 0) {
        errors.band_coverage = static_cast<double>(inside) / static_cast<double>(steps);
    }
    if (measured.size() > 1) {
        const auto [quickest, slowest] = std::minmax_element(measured.begin(), measured.end());
        errors.spread = static_cast<double>((*slowest - *quickest).count()) /
                        static_cast<double>(std::max<std::int64_t>(1, median(measured).count()));
        errors.uncertainty = uncertainty_of_median(candidate.runs);
    }
    return errors;
}

std::vector<ValidatedCandidate> candidates_that_ran(std::span<const ValidatedCandidate> candidates) {
    std::vector<ValidatedCandidate> ran;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(ran),
                 [](const ValidatedCandidate& each) { return !each.runs.empty(); });
    return ran;
}

ValidationSummary summarize(std::span<const ValidatedCandidate> candidates) {
    if (candidates.empty()) {
        throw Error("there is no candidate; a validation compares at least one; name one");
    }
    std::vector<double> step_errors, bubble_errors, peak_errors, measured_rates, simulated_rates;
    std::vector<double> replay_errors, replay_with_gaps_errors, replayed_peak_errors, spreads, uncertainties, coverages;
    ValidationSummary summary;
    const auto add = [](const std::optional<double>& value, std::vector<double>& values) {
        values.insert(values.end(), value ? 1 : 0, value.value_or(0));
    };
    for (const ValidatedCandidate& candidate : candidates) {
        const CandidateErrors errors = errors_of(candidate);
        add(errors.step_error, step_errors);
        add(errors.bubble_error, bubble_errors);
        add(errors.peak_error, peak_errors);
        add(errors.replay_error, replay_errors);
        add(errors.replay_with_gaps_error, replay_with_gaps_errors);
        add(errors.replayed_peak_error, replayed_peak_errors);
        add(errors.band_coverage, coverages);
        add(errors.spread, spreads);
        add(errors.uncertainty, uncertainties);
        const auto samples = static_cast<double>(candidate.options.batch);
        const auto rate = [&](Nanoseconds JudgedStep::*which) {
            return samples / static_cast<double>(median_over_runs(candidate, which).count());
        };
        measured_rates.push_back(rate(&JudgedStep::measured));
        simulated_rates.push_back(rate(&JudgedStep::simulated));
        for (const ValidatedRun& run : candidate.runs) {
            add_highest(run.profile_load, summary.load);
            add_highest(run.run_load, summary.load);
        }
    }
    const auto mean = [](const std::optional<MeanAndMax>& errors) {
        return errors ? std::optional(errors->mean) : std::nullopt;
    };
    summary.spread = mean(mean_and_max(spreads));
    summary.uncertainty = mean(mean_and_max(uncertainties));
    summary.step_error = *mean_and_max(step_errors);
    summary.bubble_error = *mean_and_max(bubble_errors);
    summary.peak_error = mean_and_max(peak_errors);
    summary.replay_error = mean_and_max(replay_errors);
    summary.replay_with_gaps_error = mean_and_max(replay_with_gaps_errors);
    summary.replayed_peak_error = mean_and_max(replayed_peak_errors);
    summary.band_coverage = mean(mean_and_max(coverages));
    summary.candidates = candidates.size();
    summary.rank_correlation = rank_correlation(simulated_rates, measured_rates);
    const auto chosen = std::max_element(simulated_rates.begin(), simulated_rates.end()) - simulated_rates.begin();
    const double best = *std::max_element(measured_rates.begin(), measured_rates.end());
    summary.regret = best / measured_rates[static_cast<std::size_t>(chosen)] - 1;
    return summary;
}

ValidationGoal validation_goal(bool emulated, int lanes, int cores, bool calibrated, bool busy) {
    ValidationGoal goal;
    if (emulated) {
        goal.step_error = 0.01;
        goal.worst_step_error = 0.03;
        goal.bubble_error = 0.005;
    } else if (lanes > cores) {
        goal.step_error = 0.05;
        goal.bubble_error.reset();
        goal.peak_error.reset();
    }
    if (calibrated && !emulated) {
        if (busy) {
            goal.peak_error.reset();
        }
        goal.step_error = busy ? 0.04 : 0.015;
        goal.worst_step_error = busy ? std::nullopt : std::optional(0.038);
        goal.bubble_error = busy ? std::nullopt : std::optional(0.01);
    }
    goal.regret = goal.step_error;
    return goal;
}

std::vector<JudgedGoal> judge(const ValidationSummary& summary, const ValidationGoal& goal) {
    std::vector<JudgedGoal> goals;
    const std::string silent = why_times_say_nothing(summary, goal);
    const auto add_timed = [&](const std::string& name, double allowed, double found, bool at_least = false) {
        goals.push_back({name, allowed, found, at_least, silent});
    };
    add_timed("step_error_mean", goal.step_error, summary.step_error.mean);
    if (goal.worst_step_error) {
        add_timed("step_error_max", *goal.worst_step_error, summary.step_error.max);
    }
    if (goal.bubble_error) {
        add_timed("bubble_error_mean", *goal.bubble_error, summary.bubble_error.mean);
    }
    if (goal.peak_error && summary.peak_error) {
        add_timed("peak_error_mean", *goal.peak_error, summary.peak_error->mean);
    }
    add_timed("rank_correlation", goal.rank_correlation, summary.rank_correlation, true);
    add_timed("regret", goal.regret, summary.regret);
    if (summary.candidates < kFewestToRank && silent.empty()) {
        for (JudgedGoal* each : {&goals.back(), &goals.back() - 1}) {
            each->not_judged =
                "only " + counted(summary.candidates, "of the pipelines was run", "of the pipelines were run");
        }
    }
    if (summary.replay_error) {
        add_timed("replay_error_max", kReplayError, summary.replay_error->max);
    }
    if (summary.replay_with_gaps_error) {
        goals.push_back({"replay_with_gaps_error_max", kReplayWithGapsError, summary.replay_with_gaps_error->max});
    }
    if (summary.replayed_peak_error) {
        goals.push_back({"replayed_peak_error_mean", kReplayedPeakError, summary.replayed_peak_error->mean});
    }
    return goals;
}

std::optional<bool> all_reached(std::span<const JudgedGoal> goals) {
    if (std::any_of(goals.begin(), goals.end(),
                    [](const JudgedGoal& each) { return each.is_judged() && !each.reached(); })) {
        return false;
    }
    const bool all = std::all_of(goals.begin(), goals.end(), [](const JudgedGoal& each) { return each.is_judged(); });
    return all ? std::optional(true) : std::nullopt;
}

double rank_correlation(std::span<const double> a, std::span<const double> b) {
    if (a.size() != b.size()) {
        throw Error("ranks of " + std::to_string(a.size()) + " and " + std::to_string(b.size()) +
                    " values cannot be compared; they come in pairs; give as many of each");
    }
    const std::vector<double> of_a = ranks_of(a);
    const std::vector<double> of_b = ranks_of(b);
    const double mean = (static_cast<double>(a.size()) + 1) / 2;
    double products = 0, squares_a = 0, squares_b = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        products += (of_a[i] - mean) * (of_b[i] - mean);
        squares_a += (of_a[i] - mean) * (of_a[i] - mean);
        squares_b += (of_b[i] - mean) * (of_b[i] - mean);
    }
    if (squares_a == 0 && squares_b == 0) {
        return 1;
    }
    return squares_a == 0 || squares_b == 0 ? 0 : products / std::sqrt(squares_a * squares_b);
}
}  // namespace pipescope
