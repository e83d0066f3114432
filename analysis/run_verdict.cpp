#include "analysis/run_verdict.h"

#include "analysis/slow_step.h"
#include "base/sample_statistics.h"
#include "base/short_percent.h"
#include "schedule/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace pipescope {
namespace {
constexpr double kLeastShown = 0.01;   // shares below this are left out
constexpr double kLittleIdle = 0.03;   // less than this is nothing to act on
constexpr double kMostOfExact = 0.03;  // error of a simulation
constexpr double kNotablyLonger = 0.02;
constexpr std::size_t kMostParts = 3;

struct LongLane {
    LaneId lane;
    std::string than;  ///< "lane 1", "the other lanes"
    double longer = 0;
};

/// The lane that works longest, against the mean of the others. Empty without two recorded lanes.
std::optional<LongLane> longest_lane(std::span<const RunLane> lanes) {
    std::optional<std::size_t> longest;
    double sum = 0;
    std::vector<std::size_t> recorded;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        if (!lanes[lane].recorded) {
            continue;
        }
        recorded.push_back(lane);
        sum += static_cast<double>(lanes[lane].busy.count());
        if (!longest || lanes[lane].busy > lanes[*longest].busy) {
            longest = lane;
        }
    }
    if (recorded.size() < 2) {
        return std::nullopt;
    }
    const auto own = static_cast<double>(lanes[*longest].busy.count());
    const double others = (sum - own) / static_cast<double>(recorded.size() - 1);
    if (others <= 0) {
        return std::nullopt;
    }
    const std::size_t other = recorded[recorded[0] == *longest ? 1 : 0];
    return LongLane{LaneId{*longest}, recorded.size() == 2 ? fmt::format("lane {}", other) : "the other lanes",
                    own / others - 1};
}

VerdictPart part_of(RootCause root, const RootCauses& roots, std::span<const RunLane> lanes) {
    const std::string points = fmt::format(" ({})", short_points(roots.of(root).share));
    const std::optional<LongLane> longest = longest_lane(lanes);
    switch (root) {
        case RootCause::imbalance:
            if (longest && longest->longer >= kNotablyLonger) {
                return {fmt::format("lane {} works {} longer than {}", longest->lane.value(),
                                    short_percent(longest->longer), longest->than) +
                            points,
                        Evidence::lanes, std::nullopt, longest->lane};
            }
            return {std::string(describe(root)) + points, Evidence::lanes};
        case RootCause::slow_lane:
            return roots.slow_lane
                       ? VerdictPart{fmt::format("lane {} takes longer for the same work", roots.slow_lane->value()) +
                                         points,
                                     Evidence::lanes, std::nullopt, roots.slow_lane}
                       : VerdictPart{std::string(describe(root)) + points, Evidence::lanes};
        case RootCause::network: return {std::string(describe(root)) + points, Evidence::bubbles, BubbleCause::copy};
        case RootCause::launch: return {std::string(describe(root)) + points, Evidence::bubbles, BubbleCause::launch};
        case RootCause::late_rank:
        case RootCause::collective:
            return {std::string(describe(root)) + points, Evidence::bubbles, BubbleCause::collective};
        case RootCause::ramp:
        case RootCause::other: break;
    }
    return {std::string(describe(root)) + points, Evidence::bubbles};
}

/// The parts of at least kLeastShown, the main one first, unless that is what nothing explains, then the largest.
std::vector<VerdictPart> root_parts(const RootCauses& roots, std::span<const RunLane> lanes) {
    std::vector<RootCause> order;
    for (int number = 0; number < kNumRootCauses; ++number) {
        const auto root = static_cast<RootCause>(number);
        if (root == roots.main || roots.of(root).share >= kLeastShown) {
            order.push_back(root);
        }
    }
    std::ranges::stable_sort(order, [&roots](RootCause a, RootCause b) {
        const auto leads = [&roots](RootCause root) { return root == roots.main && root != RootCause::other; };
        const bool first = leads(a);
        return first != leads(b) ? first : roots.of(a).share > roots.of(b).share;
    });
    std::vector<VerdictPart> parts;
    for (const RootCause root : order) {
        parts.push_back(part_of(root, roots, lanes));
    }
    return parts;
}

double idle_of(const RootCauses& roots) {
    double idle = 0;
    for (const RootCauses::Part& part : roots.parts) {
        idle += part.share;
    }
    return idle;
}

/// False if a cause takes more than all idle time: the replay takes longer than the run did, as its tasks overlap.
bool explain(const RootCauses& roots, double idle) {
    return std::ranges::all_of(roots.parts,
                               [idle](const RootCauses::Part& part) { return part.share < idle + kLeastShown; });
}

std::vector<VerdictPart> cause_parts(const BubbleReport& report) {
    std::vector<BubbleCause> order;
    for (int number = 0; number < kNumBubbleCauses; ++number) {
        order.push_back(static_cast<BubbleCause>(number));
    }
    const auto share = [&report](BubbleCause cause) { return report.causes[static_cast<std::size_t>(cause)].share; };
    std::ranges::stable_sort(order, [&share](BubbleCause a, BubbleCause b) { return share(a) > share(b); });
    std::vector<VerdictPart> parts;
    for (const BubbleCause cause : order) {
        if (share(cause) >= kLeastShown || (parts.empty() && share(cause) > 0)) {
            parts.push_back(
                {fmt::format("{} ({})", describe(cause), short_points(share(cause))), Evidence::bubbles, cause});
        }
    }
    return parts;
}

void append(std::vector<VerdictPart>& parts, std::vector<VerdictPart> list) {
    list.resize(std::min(list.size(), kMostParts));
    for (std::size_t k = 0; k < list.size(); ++k) {
        if (k > 0) {
            parts.push_back({", "});
        }
        parts.push_back(std::move(list[k]));
        parts.back().role = VerdictRole::cause;
    }
}

VerdictPart change_part(std::string text) {
    return {std::move(text), Evidence::change, std::nullopt, std::nullopt, VerdictRole::change};
}

/// "layer conv3", "layers 3 to 5".
std::string layers_name(const Profile& profile, std::size_t first, std::size_t end) {
    if (end - first == 1) {
        const std::string& name = profile.layers.at(first).name;
        return "layer " + (name.empty() ? std::to_string(first) : name);
    }
    return fmt::format("layers {} to {}", first, end - 1);
}

/// "Moving layer 3 from lane 0 to lane 1", if that is all that the new cuts do; otherwise the move's title.
std::string name_of_change(const Move& move, const PipelineOptions& before, const Profile& profile) {
    const Balance& now = move.simulation.options.balance;
    if (move.kind != MoveKind::balance || now.num_partitions() != before.balance.num_partitions() ||
        profile.layers.size() != now.num_layers()) {
        return "The change \"" + move.title + "\"";
    }
    std::optional<std::size_t> changed;
    std::size_t count = 0;
    for (std::size_t cut = 0; cut + 1 < now.num_partitions(); ++cut) {
        const PartitionId partition{cut};
        if (now.layers_of(partition).end != before.balance.layers_of(partition).end) {
            changed = cut;
            ++count;
        }
    }
    if (count != 1) {
        return "The change \"" + move.title + "\"";
    }
    const PartitionId partition{*changed};
    const std::size_t was = before.balance.layers_of(partition).end.index();
    const std::size_t is = now.layers_of(partition).end.index();
    const bool to_next = is < was;
    const bool has_lanes = before.placement.empty();
    const std::string place = has_lanes ? "lane" : "partition";
    return fmt::format("Moving {} from {} {} to {} {}", layers_name(profile, std::min(was, is), std::max(was, is)),
                       place, to_next ? *changed : *changed + 1, place, to_next ? *changed + 1 : *changed);
}

/// A change of these kinds needs no other machine.
bool needs_no_hardware(MoveKind kind) {
    return kind == MoveKind::checkpoint || kind == MoveKind::micro_batches || kind == MoveKind::balance ||
           kind == MoveKind::schedule;
}
}  // namespace

std::string_view to_string(Evidence evidence) {
    switch (evidence) {
        case Evidence::none: return "none";
        case Evidence::bubbles: return "bubbles";
        case Evidence::lanes: return "lanes";
        case Evidence::change: return "change";
    }
    return "unknown";
}

std::string_view to_string(VerdictRole role) {
    switch (role) {
        case VerdictRole::words: return "words";
        case VerdictRole::idle: return "idle";
        case VerdictRole::cause: return "cause";
        case VerdictRole::aside: return "aside";
        case VerdictRole::change: return "change";
    }
    return "unknown";
}

std::string RunVerdict::text() const {
    std::string all;
    for (const VerdictPart& part : parts) {
        all += part.text;
    }
    return all;
}

RunVerdict why_idle(const BubbleReport& report, std::span<const RunLane> lanes) {
    RunVerdict verdict;
    const double replayed = report.roots ? idle_of(*report.roots) : 0;
    const RootCauses* const roots = report.roots && explain(*report.roots, replayed) ? &*report.roots : nullptr;
    const double idle = roots != nullptr ? replayed : report.total();
    verdict.idle = idle;
    verdict.parts.push_back(
        {short_percent(idle) + " idle", Evidence::bubbles, std::nullopt, std::nullopt, VerdictRole::idle});
    if (idle < kLittleIdle) {
        verdict.parts.push_back({": nothing stands out."});
        return verdict;
    }
    if (roots != nullptr && roots->main == RootCause::ramp) {
        verdict.parts.push_back({": "});
        append(verdict.parts, root_parts(*roots, lanes));
        verdict.parts.push_back({"; no other cause takes 3 % of the step."});
        return verdict;
    }
    std::vector<VerdictPart> list = roots != nullptr ? root_parts(*roots, lanes) : cause_parts(report);
    if (!list.empty()) {
        verdict.parts.push_back({": "});
        append(verdict.parts, std::move(list));
    }
    verdict.parts.push_back({"."});
    return verdict;
}

RunVerdict unknown_idle(const std::string& why) {
    RunVerdict verdict;
    verdict.parts.push_back({"Idle time is not known: " + why + "."});
    return verdict;
}

void add_change(const Advice& advice, const Profile& profile, RunVerdict& verdict) {
    verdict.error = advice.model_error;
    const auto best = std::ranges::find_if(advice.moves, [](const Move& move) {
        return helps(move.effect) && !move.hypothetical && needs_no_hardware(move.kind);
    });
    verdict.parts.push_back({" "});
    if (best == advice.moves.end()) {
        verdict.parts.push_back({"No single change of cuts, micro-batches, checkpoints or schedule shortens the step.",
                                 Evidence::change, std::nullopt, std::nullopt, VerdictRole::aside});
        return;
    }
    verdict.change = *best;
    verdict.step_change = relative_change(advice, *best);
    const std::string name = name_of_change(*best, advice.base.options, profile);
    // A simulation from the run's own times that is off lacks something of the run, such as messages that wait.
    const bool is_exact =
        profile.from_trace && (!advice.model_error || std::abs(advice.model_error->error) <= kMostOfExact);
    const std::string effect = best->effect == MoveEffect::fits ? "would keep the memory limit"
                               : is_exact
                                   ? fmt::format("would save {} of the step, if its tasks take as long as in this run",
                                                 short_percent(-verdict.step_change))
                                   : saving_text(verdict.step_change, advice.model_error);
    VerdictPart change = change_part(name + " " + effect + ".");
    if (best->effect != MoveEffect::fits && !is_exact && advice.model_error &&
        advice.model_error->hides(verdict.step_change)) {
        change.role = VerdictRole::aside;
    }
    verdict.parts.push_back(std::move(change));
}

namespace {
/// More forwards in a step take longer than a reader of a summary waits.
constexpr std::int64_t kMostForwardsForVerdict = 2'048;

/// The advice that add_change() takes, without noise. Null if the run cannot be simulated, if it is too large, or if
/// cancelled.
std::shared_ptr<const Advice> advice_for_verdict(const RecordedRun& run, const std::optional<ModelError>& error,
                                                 const std::function<bool()>& cancelled) {
    if (!run.why_not_simulated.empty() || !run.profile || !run.options) {
        return nullptr;
    }
    const PipelineOptions options = options_as_recorded(run);
    const auto partitions = static_cast<std::int64_t>(options.balance.num_partitions());
    if (std::min(options.chunks, options.batch) * partitions > kMostForwardsForVerdict) {
        return nullptr;
    }
    try {
        Advice advice = advise(*run.profile, options, cancelled);
        advice.model_error = error;
        if (run.on_cluster) {
            add_rest_of_step(advice, *run.on_cluster, *run.options);
            leave_out_unknown(advice, *run.on_cluster, *run.options, *run.profile);
        }
        return advice.cancelled ? nullptr : std::make_shared<const Advice>(std::move(advice));
    } catch (const Error&) {
        return nullptr;  // the pipeline cannot be simulated, which the warnings about the run say
    }
}

/// The steps of a run in which the machine had little other load, against the others.
struct QuietSteps {
    std::size_t count = 0;
    double idle = 0;       ///< mean of these steps
    double explained = 0;  ///< how much more all steps idle; 0: not more than chance explains
    double shorter = 0;    ///< than the others, as share of these; 0: likewise
};

struct StepSample {
    std::vector<double> idle;
    std::vector<double> time;  ///< ns
};

/// By how much the mean of `more` is larger; 0 if that is less than two standard errors.
double certain_difference(const std::vector<double>& more, const std::vector<double>& less) {
    constexpr double kErrors = 2;
    const auto squared_error = [](const std::vector<double>& values) {
        const double deviation = standard_deviation(values);
        return deviation * deviation / static_cast<double>(values.size());
    };
    const double difference = mean_of(more) - mean_of(less);
    return difference > kErrors * std::sqrt(squared_error(more) + squared_error(less)) ? difference : 0;
}

/// Empty without kLeastSteps steps at a load that is not notable, and as many at one that is. A replay of the tasks
/// cannot tell what a load did, but steps of the same work can.
std::optional<QuietSteps> quiet_steps(const RecordedRun& run, const std::map<std::int32_t, double>& idle_by_step) {
    constexpr std::size_t kLeastSteps = 5;
    StepSample quiet;
    StepSample busy;
    for (const auto& [step, idle] : idle_by_step) {
        const StepRecord* record = run.record_of(step);
        const std::optional<StepLoad> load = load_of_step(run, step);
        if (record != nullptr && load) {
            StepSample& sample = is_notable(load->shares) ? busy : quiet;
            sample.idle.push_back(idle);
            sample.time.push_back(static_cast<double>((record->end - record->start).count()));
        }
    }
    const std::size_t all = quiet.idle.size() + busy.idle.size();
    if (quiet.idle.size() < kLeastSteps || busy.idle.size() < kLeastSteps) {
        return std::nullopt;
    }
    const double share_of_busy = static_cast<double>(busy.idle.size()) / static_cast<double>(all);
    const double time = mean_of(busy.time);
    return QuietSteps{quiet.idle.size(), mean_of(quiet.idle), certain_difference(busy.idle, quiet.idle) * share_of_busy,
                      time > 0 ? certain_difference(busy.time, quiet.time) / time : 0};
}

/// Says what other load took, and how much of the idle time that explains, if steps can tell.
VerdictPart load_part(const MachineLoad& load, const std::optional<QuietSteps>& quiet) {
    std::string text = fmt::format(" {} took {} of the cores' time meanwhile",
                                   load.stolen > load.others ? "The host of this virtual machine" : "Other processes",
                                   short_percent(std::max(load.stolen, load.others)));
    if (!quiet) {
        text += ", which explains a part of the idle time.";
    } else {
        const std::string steps =
            fmt::format("{} steps with less than {} of load", quiet->count, short_percent(kNotableLoad));
        const std::string shorter =
            quiet->shorter > 0 ? fmt::format("are {} shorter than the others", short_percent(quiet->shorter)) : "";
        if (quiet->explained > 0) {
            text += fmt::format(", which explains about {} of the idle time: {} idle {}{}{}.",
                                short_points(quiet->explained), steps, short_percent(quiet->idle),
                                shorter.empty() ? "" : ", and ", shorter);
        } else {
            text += fmt::format(": {} idle no smaller share{}{}.", steps, shorter.empty() ? "" : ", but ", shorter);
        }
    }
    return {std::move(text), Evidence::none, std::nullopt, std::nullopt, VerdictRole::aside};
}
}  // namespace

RunVerdict verdict_of(const RecordedRun& run, const BubbleReport& report, std::span<const RunLane> lanes,
                      const std::optional<ModelError>& error, const std::function<bool()>& cancelled) {
    RunVerdict verdict = why_idle(report, lanes);
    if (run.load && is_notable(*run.load) && *verdict.idle >= kLittleIdle) {
        verdict.parts.push_back(load_part(*run.load, quiet_steps(run, report.idle_by_step)));
    }
    verdict.advice = advice_for_verdict(run, error, cancelled);
    if (verdict.advice) {
        add_change(*verdict.advice, *run.profile, verdict);
    }
    return verdict;
}

std::vector<RunLane> measured_lanes(const Comparison& comparison) {
    std::vector<RunLane> lanes;
    for (const ComparedLane& lane : comparison.lanes) {
        lanes.push_back({lane.measured_busy, lane.measured_bubble_fraction, lane.measured_peak_bytes, lane.recorded});
    }
    return lanes;
}
}  // namespace pipescope
