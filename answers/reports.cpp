#include "answers/reports.h"

#include "answers/kernel_report.h"
#include "answers/or_null.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "answers/verdict_report.h"
#include "base/printable.h"
#include "simulator/memory/memory_fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace pipescope {
using Json = nlohmann::ordered_json;

Json memory_json(const MemoryBreakdown& memory) {
    if (!memory.known()) {
        return nullptr;
    }
    Json object = Json::object();
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        object[std::string(to_string(category))] = memory[category];
    }
    return object;
}

std::string memory_text(const MemoryBreakdown& memory) {
    std::vector<std::pair<std::string_view, Bytes>> parts;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        if (memory[category] > 0) {
            parts.emplace_back(to_string(category), memory[category]);
        }
    }
    std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.second > b.second; });
    constexpr std::size_t kMostNamed = 4;
    if (parts.size() > kMostNamed) {
        Bytes rest = 0;
        for (std::size_t k = kMostNamed - 1; k < parts.size(); ++k) {
            rest += parts[k].second;
        }
        parts.resize(kMostNamed - 1);
        parts.emplace_back("others", rest);
    }
    std::string text;
    for (const auto& [category, bytes] : parts) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", category, format_bytes(bytes));
    }
    return text;
}

Json bytes_json(const Simulation& simulation, Bytes bytes) {
    return simulation.memory_unknown ? Json(nullptr) : Json(bytes);
}

namespace {
std::string layers_text(const LayerRange& layers) {
    return fmt::format("{}-{}", layers.first.value(), layers.end.value() - 1);
}

Json lane_json(const Simulation& simulation, const SimulatedLane& lane) {
    Json object{{"busy_ns", lane.busy.count()},
                {"bubble_fraction", lane.bubble_fraction},
                {"peak_bytes", bytes_json(simulation, lane.peak_bytes)}};
    if (lane.sums.count() > 0) {
        object["gradient_sum_ns"] = lane.sums.count();
    }
    if (lane.peak_reserved_bytes) {
        object["peak_reserved_bytes"] = *lane.peak_reserved_bytes;
    }
    object["peak"] = simulation.memory_unknown ? Json(nullptr) : memory_json(lane.peak);
    return object;
}

Json partition_json(const Simulation& simulation, const SimulatedPartition& partition) {
    Json object = {{"layers", {partition.layers.first.value(), partition.layers.end.value() - 1}},
                   {"lane", partition.lane.value()},
                   {"device", partition.device},
                   {"parameter_bytes", bytes_json(simulation, partition.parameter_bytes)}};
    if (partition.mirror_lane) {
        object["mirror_lane"] = partition.mirror_lane->value();
    }
    return object;
}

Json fraction_unless(bool lossy, double fraction) {
    return lossy ? Json(nullptr) : Json(fraction);
}
std::string percent_unless(bool lossy, double fraction) {
    return lossy ? "lost" : format_percent(fraction);
}
}  // namespace

std::string dump(const Json& object) {
    return object.dump(2) + "\n";
}

namespace {
/// Adds the keys of the expected step, if the profile knows its noise.
void add_expected_step(Json& object, const Simulation& simulation) {
    if (simulation.noise) {
        object["step_mean_ns"] = expected_step(simulation).count();
        object["bubble_mean"] = simulation.noise->bubble;
    }
}

double ns_of(Nanoseconds time) {
    return static_cast<double>(time.count());
}

double tokens_of(const Simulation& simulation) {
    return static_cast<double>(simulation.tokens_per_sample);
}

/// Adds figures made from the model's operations, if the profile knows them.
void add_flops(Json& object, const Simulation& simulation) {
    if (!simulation.flops) {
        return;
    }
    const ModelFlops& flops = *simulation.flops;
    object["model_flops"] = flops.step;
    const double step = ns_of(figures_without_noise(simulation).step);
    object["model_tflops_per_second"] = flops.per_second(step) / 1e12;
    object["mfu"] = or_null(flops.utilization(step));
    if (simulation.noise) {
        const double mean = ns_of(expected_step(simulation));
        object["model_tflops_per_second_mean"] = flops.per_second(mean) / 1e12;
        object["mfu_mean"] = or_null(flops.utilization(mean));
    }
}
}  // namespace

Json bound_json(std::int64_t lower_bound_ns) {
    return lower_bound_ns > 0 ? Json(lower_bound_ns) : Json(nullptr);
}

Json balance_json(const FoundBalance& found, const Simulation& simulation) {
    Json object{{"balance", found.balance.layers_per_partition()}, {"step_ns", found.step_ns}};
    add_expected_step(object, simulation);
    object["lower_bound_ns"] = bound_json(found.lower_bound_ns);
    object["optimal"] = found.optimal;
    object["algorithm"] = to_string(found.algorithm);
    object["ranked_by_simulation"] = found.ranked_by_simulation;
    if (found.algorithm == BalanceAlgorithm::block) {
        object["repaired"] = found.repaired;
    }
    object["peak_bytes"] = simulation.memory_unknown ? Json(nullptr) : Json(found.peak_bytes);
    if (!found.feasible) {
        object["feasible"] = false;
        object["smallest_memory_limit"] = or_null(found.smallest_limit);
        if (!found.smallest_limits.empty()) {
            object["smallest_memory_limits"] = found.smallest_limits;
        }
        object["smallest_partitions"] = or_null(found.smallest_partitions);
        object["infeasible_because"] = or_null(found.infeasible_because);
    }
    return object;
}

std::string balance_text(const FoundBalance& found, const Simulation& simulation) {
    const std::string proof =
        found.optimal                           ? "optimal"
        : found.lower_bound_ns > 0              ? "lower bound " + format_duration(Nanoseconds{found.lower_bound_ns})
        : !simulation.options.placement.empty() ? "cut as if each partition had a lane; no lower bound is known"
                                                : "no lower bound is known";
    const StepFigures figures = expected_figures(simulation);
    std::string text = fmt::format("balance {}\n\nstep time {}, bubble {}", to_string(found.balance),
                                   format_duration(figures.step), format_percent(figures.waiting()));
    text += simulation.noise
                ? fmt::format("\nmeans of steps with the profile's noise; without noise a step would take {} ({})\n",
                              format_duration(Nanoseconds{found.step_ns}), proof)
                : fmt::format(" ({})\n", proof);
    if (found.ranked_by_simulation) {
        text +=
            "ranked by simulation: lanes share cores, a device, links or the launching process, which the exact "
            "search ignores\n";
    }
    if (found.repaired) {
        text += "repaired: torchgpipe's method left a partition empty, so layers were moved into it\n";
    }
    TextTable table({{"partition"}, {"lane"}, {"layers"}, {"peak of the lane"}});
    TextTable in_order({{"partition"}, {"layers"}, {"peak memory"}});
    const std::vector<LaneId>& placement = simulation.options.placement;
    for (std::size_t j = 0; j < found.balance.num_partitions(); ++j) {
        const PartitionId partition{j};
        const std::size_t lane = lane_of(placement, partition).index();
        const std::string layers = layers_text(found.balance.layers_of(partition));
        const std::string peak = lane < found.peak_bytes.size() ? peak_text(simulation, found.peak_bytes[lane]) : "";
        if (placement.empty()) {
            in_order.add_row({std::to_string(j), layers, peak});
        } else {
            table.add_row({std::to_string(j), std::to_string(lane), layers, peak});
        }
    }
    text += "\n" + (placement.empty() ? in_order : table).str();
    if (!found.feasible) {
        text += "\ninfeasible: " + found.infeasible_because.value_or("no balance keeps the memory limit") + "\n";
    }
    return text;
}

std::string peak_text(const Simulation& simulation, Bytes bytes) {
    return simulation.memory_unknown ? "unknown" : format_bytes(bytes);
}

std::string basis_text(const std::string& dtype, const PipelineOptions& options) {
    return fmt::format("dtype {}, optimizer {}{}\n", dtype, options.optimizer,
                       options.master_weights ? " with float32 master weights" : "");
}

namespace {
double gap_above(Nanoseconds step, Nanoseconds bound) {
    return bound.count() > 0 ? static_cast<double>(step.count()) / static_cast<double>(bound.count()) - 1 : 0;
}
}  // namespace

Json simulation_json(const Simulation& simulation, bool batch_known) {
    const PipelineOptions& options = simulation.options;
    const StepFigures figures = figures_without_noise(simulation);
    Json object{{"step_ns", figures.step.count()},
                {"bubble_fraction", figures.bubble},
                {"utilization", figures.utilization},
                {"speedup", figures.speedup},
                {"samples_per_second", batch_known ? Json(figures.samples_per_second) : Json(nullptr)}};
    if (simulation.after_pipeline.count() > 0) {
        object["pipeline_ns"] = simulation.step_time.count();
    }
    if (simulation.noise) {
        const StepBand band = longer_by(*simulation.noise, simulation.after_pipeline);
        object["step_band_ns"] = {band.low.count(), band.high.count()};
    }
    if (simulation.lower_bound) {
        const Nanoseconds bound = *simulation.lower_bound + simulation.after_pipeline;
        object["lower_bound_ns"] = bound.count();
        object["gap_above_bound"] = gap_above(figures.step, bound);
    }
    add_expected_step(object, simulation);
    if (simulation.noise) {
        const StepFigures expected = expected_figures(simulation);
        object["utilization_mean"] = expected.utilization;
        object["speedup_mean"] = expected.speedup;
        object["samples_per_second_mean"] = batch_known ? Json(expected.samples_per_second) : Json(nullptr);
    }
    if (batch_known && simulation.tokens_per_sample > 0) {
        object["tokens_per_second"] = figures.samples_per_second * tokens_of(simulation);
        if (simulation.noise) {
            object["tokens_per_second_mean"] = expected_figures(simulation).samples_per_second * tokens_of(simulation);
        }
    }
    add_flops(object, simulation);
    object["balance"] = options.balance.layers_per_partition();
    object["chunks"] = options.chunks;
    object["micro_batches"] = simulation.micro_batches;
    object["batch"] = options.batch;
    object["checkpoint"] = to_string(options.checkpoint);
    object["schedule"] = to_string(options.schedule);
    object["update"] = to_string(options.update);
    object["dtype"] = simulation.dtype;
    object["optimizer"] = options.optimizer;
    object["master_weights"] = options.master_weights;
    object["feasible"] = simulation.feasible;
    object["extrapolated"] = simulation.extrapolated;
    object["estimated"] = simulation.estimated;
    if (simulation.memory_unknown) {
        object["memory_unknown"] = true;
    }
    if (options.replicas > 1) {
        object["replicas"] = options.replicas;
    }
    if (simulation.device_idle_fraction) {
        object["device_idle_fraction"] = *simulation.device_idle_fraction;
    }
    object["partitions"] = Json::array();
    for (const SimulatedPartition& partition : simulation.partitions) {
        object["partitions"].push_back(partition_json(simulation, partition));
    }
    object["lanes"] = Json::array();
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        object["lanes"].push_back(lane_json(simulation, simulation.lanes[lane]));
        if (simulation.flops) {
            object["lanes"].back()["model_tflops_per_second"] =
                simulation.flops->lane_per_second(lane, ns_of(simulation.step_time)) / 1e12;
        }
    }
    return object;
}

std::string fewer_micro_batches(std::int64_t asked, std::int64_t samples) {
    return asked <= samples ? ""
                            : fmt::format("\n{} were requested; {} {}, of a sample each\n",
                                          counted(asked, "micro-batch", "micro-batches"),
                                          counted(samples, "sample makes", "samples make"), samples);
}
std::string fewer_micro_batches(const PipelineOptions& options) {
    return fewer_micro_batches(options.chunks, replica_batch(options));
}

namespace {
/// Lists every lane with a peak above its limit, the worst first.
std::string over_limit_text(const Simulation& simulation) {
    std::string text;
    for (const Shortfall& each : shortfalls(simulation)) {
        text += fmt::format("infeasible: lane {}'s peak of {} is above its memory limit of {}\n", each.lane.value(),
                            format_bytes(each.peak), format_bytes(each.limit));
    }
    return text.empty() ? "" : "\n" + text;
}
}  // namespace

std::string extrapolation_text(const std::string& profile_command) {
    return fmt::format(
        "\nextrapolated: a micro-batch is smaller or larger than every size in the profile; '{}' would include it\n",
        profile_command);
}

namespace {
/// "model: 1.23 TFLOP/s, by lane 600 GFLOP/s, 630 GFLOP/s; MFU 41.2 %". Empty if the profile has no operations.
std::string flops_text(const Simulation& simulation, Nanoseconds step) {
    if (!simulation.flops) {
        return "";
    }
    const ModelFlops& flops = *simulation.flops;
    std::string text = "model: " + format_operations(flops.per_second(ns_of(step)));
    if (flops.lanes.size() > 1) {
        text += ", by lane ";
        for (std::size_t lane = 0; lane < flops.lanes.size(); ++lane) {
            text += (lane == 0 ? "" : ", ") + format_operations(flops.lane_per_second(lane, ns_of(step)));
        }
    }
    if (const std::optional<double> mfu = flops.utilization(ns_of(step))) {
        text += fmt::format("; MFU {}", format_percent(*mfu));
    }
    return text + "\n";
}
}  // namespace

namespace {
/// A bubble is the time in which a lane neither computes nor sums gradients.
std::string lane_table(const Simulation& simulation) {
    const bool has_sums =
        std::ranges::any_of(simulation.lanes, [](const SimulatedLane& each) { return each.sums.count() > 0; });
    std::vector<Column> columns{{"lane"}, {"busy"}};
    if (has_sums) {
        columns.push_back({"gradient sums"});
    }
    columns.insert(columns.end(), {{"bubble"}, {"peak memory"}, {"consists of", Align::left}});
    TextTable lanes(columns);
    const auto step = static_cast<double>(std::max<std::int64_t>(1, simulation.step_time.count()));
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        const SimulatedLane& each = simulation.lanes[lane];
        std::vector<std::string> row{std::to_string(lane), format_duration(each.busy)};
        if (has_sums) {
            row.push_back(format_duration(each.sums));
        }
        const double waiting = each.bubble_fraction - static_cast<double>(each.sums.count()) / step;
        row.insert(row.end(), {format_percent(waiting), peak_text(simulation, each.peak_bytes),
                               simulation.memory_unknown ? "" : memory_text(each.peak)});
        lanes.add_row(row);
    }
    return lanes.str();
}
}  // namespace

std::string simulation_text(const Simulation& simulation, Rates rates) {
    const PipelineOptions& options = simulation.options;
    std::string text = fmt::format(
        "balance {}, batch of {} in {}, checkpoint {}, schedule {}{}\n\n", to_string(options.balance), options.batch,
        counted(simulation.micro_batches, "micro-batch", "micro-batches"), to_string(options.checkpoint),
        to_string(options.schedule), options.update == Update::staggered ? ", staggered updates" : "");
    text.insert(text.size() - 1, basis_text(simulation.dtype, options));
    if (options.replicas > 1) {
        text += fmt::format("{} replicas, {} each; one of them is shown\n\n", options.replicas,
                            counted(replica_batch(options), "sample", "samples"));
    }
    std::vector<Column> columns{{"step time"}, {"bubble"}};
    const StepFigures expected = expected_figures(simulation);
    std::vector<std::string> row{format_duration(expected.step), format_percent(expected.waiting())};
    if (expected.sums > 0) {
        columns.push_back({"gradient sums"});
        row.push_back(format_percent(expected.sums));
    }
    columns.push_back({"utilization"});
    row.push_back(format_percent(expected.utilization));
    if (rates == Rates::shown) {
        columns.push_back({"speedup"});
        columns.push_back({"samples/s"});
        row.push_back(fmt::format("{:.2f}", expected.speedup));
        row.push_back(fmt::format("{:.2f}", expected.samples_per_second));
    }
    if (rates == Rates::shown && simulation.tokens_per_sample > 0) {
        columns.push_back({"tokens/s"});
        row.push_back(fmt::format("{:.0f}", expected.samples_per_second * tokens_of(simulation)));
    }
    TextTable figures(columns);
    figures.add_row(row);
    text += figures.str() + "\n" + (rates == Rates::shown ? flops_text(simulation, expected.step) : "");
    if (simulation.noise) {
        text += fmt::format(
            "means of steps with the profile's noise; 90 % of steps take {} to {}; without noise a step "
            "would take {}; the lanes below are without noise\n",
            format_duration(simulation.noise->low), format_duration(simulation.noise->high),
            format_duration(simulation.step_time));
    }
    if (simulation.lower_bound) {
        text += fmt::format("lower bound of any order of these tasks: {}; without noise this one takes {}, {} more\n",
                            format_duration(*simulation.lower_bound), format_duration(simulation.step_time),
                            format_percent(gap_above(simulation.step_time, *simulation.lower_bound)));
    }
    if (simulation.device_idle_fraction) {
        text += fmt::format("lanes share a device, which is idle {} of the step\n",
                            format_percent(*simulation.device_idle_fraction));
    }
    TextTable partitions({{"partition"}, {"layers"}, {"lane"}, {"device", Align::left}, {"parameters"}});
    for (std::size_t j = 0; j < simulation.partitions.size(); ++j) {
        const SimulatedPartition& partition = simulation.partitions[j];
        const std::string mirror =
            partition.mirror_lane ? fmt::format(" and {}", partition.mirror_lane->value()) : std::string();
        partitions.add_row({std::to_string(j), layers_text(partition.layers),
                            fmt::format("{}{}", partition.lane.value(), mirror), partition.device,
                            peak_text(simulation, partition.parameter_bytes)});
    }
    text += partitions.str() + "\n" + lane_table(simulation);
    if (simulation.memory_unknown) {
        text += "\n" + std::string(kMemoryUnknown) + "\n";
    }
    if (simulation.estimated) {
        text += "\nestimated: the profile's times were not measured\n";
    }
    if (!simulation.feasible) {
        text += over_limit_text(simulation);
    }
    return text + fewer_micro_batches(options);
}

Json half_json(std::optional<BackwardHalf> half) {
    return half ? Json(std::string(1, static_cast<char>(*half))) : Json(nullptr);
}

Json load_json(const std::optional<MachineLoad>& load) {
    return load ? Json{{"others", load->others}, {"stolen", load->stolen}, {"pressure", or_null(load->pressure)}}
                : Json(nullptr);
}

namespace {
Json key_json(const std::optional<TaskKey>& task) {
    return task ? Json(to_string(*task)) : Json(nullptr);
}
}  // namespace

namespace {
Json roots_json(const std::optional<RootCauses>& roots) {
    if (!roots) {
        return nullptr;
    }
    Json causes = Json::array();
    for (std::size_t cause = 0; cause < roots->parts.size(); ++cause) {
        causes.push_back({{"cause", to_string(static_cast<RootCause>(cause))},
                          {"ns", roots->parts[cause].time.count()},
                          {"share", roots->parts[cause].share}});
    }
    return {{"main", to_string(roots->main)},
            {"lane", roots->slow_lane ? Json(roots->slow_lane->value()) : Json(nullptr)},
            {"causes", std::move(causes)}};
}
}  // namespace

Json bubbles_json(const BubbleReport& report) {
    Json causes = Json::array();
    for (std::size_t cause = 0; cause < report.causes.size(); ++cause) {
        causes.push_back({{"cause", to_string(static_cast<BubbleCause>(cause))},
                          {"ns", report.causes[cause].time.count()},
                          {"share", report.causes[cause].share}});
    }
    Json largest = Json::array();
    for (const ListedBubble& each : report.largest) {
        largest.push_back({{"lane", each.lane.value()},
                           {"start_ns", each.start.count()},
                           {"ns", each.length.count()},
                           {"share", each.share},
                           {"cause", to_string(each.cause)},
                           {"culprit", key_json(each.culprit)},
                           {"next", key_json(each.next)}});
    }
    return {{"causes", std::move(causes)},
            {"step", report.step},
            {"largest", std::move(largest)},
            {"roots", roots_json(report.roots)}};
}

namespace {
/// "12.3 %" of each side by cause, without causes that neither side has. `expected`: the figures above this text
/// describe the expected step, with noise.
std::string bubbles_text(const ComparedBubbles& bubbles, bool lossy, bool expected) {
    TextTable table({{"bubbles by cause", Align::left},
                     {"measured, mean"},
                     {expected ? "simulated, no noise" : "simulated"},
                     {"difference"}});
    const auto add = [&](const std::string& name, double measured, double simulated) {
        table.add_row({name, percent_unless(lossy, measured), format_percent(simulated),
                       lossy ? "" : format_points(simulated - measured)});
    };
    for (std::size_t cause = 0; cause < bubbles.measured.causes.size(); ++cause) {
        const double measured = bubbles.measured.causes[cause].share;
        const double simulated = bubbles.simulated.causes[cause].share;
        if (simulated > 0 || (measured > 0 && !lossy)) {
            add(std::string(describe(static_cast<BubbleCause>(cause))), measured, simulated);
        }
    }
    add("together", bubbles.measured.total(), bubbles.simulated.total());
    return table.str();
}

std::string roots_text(const RootCauses& roots) {
    constexpr double kShown = 0.0005;
    TextTable table({{"root causes of idle time", Align::left}, {"share"}, {"", Align::left}});
    for (std::size_t number = 0; number < roots.parts.size(); ++number) {
        const auto cause = static_cast<RootCause>(number);
        const bool is_main = cause == roots.main;
        if (is_main || std::abs(roots.of(cause).share) >= kShown) {
            const std::string lane =
                roots.slow_lane && is_main ? fmt::format(": lane {}", roots.slow_lane->value()) : "";
            table.add_row({std::string(describe(cause)) + lane, format_percent(roots.of(cause).share),
                           is_main ? "main root cause" : ""});
        }
    }
    return table.str();
}
}  // namespace

namespace {
constexpr const char* kUnknownStep = "unknown";

/// A figure of the measured steps, possibly an optional; null if step times are withheld.
template <class Value>
Json of_steps(const TraceComparison& compared, const Value& value) {
    return compared.lacks_steps() ? Json(nullptr) : or_null(std::optional(value));
}

/// Empty if the trace does not say how many samples a step has.
std::optional<double> samples_per_second(const TraceComparison& compared, Nanoseconds step) {
    return compared.batch && step.count() > 0 ? std::optional(static_cast<double>(*compared.batch) / ns_of(step) * 1e9)
                                              : std::nullopt;
}

/// Rows of samples and operations a second, for the table of figures.
void add_rates(const TraceComparison& compared, const JudgedStep& judged, TextTable& figures) {
    const std::optional<double> measured = samples_per_second(compared, judged.measured);
    const std::optional<double> simulated = samples_per_second(compared, judged.simulated);
    const auto known = [&compared](std::string text) {
        return compared.lacks_steps() ? kUnknownStep : std::move(text);
    };
    if (measured && simulated) {
        figures.add_row({"samples/s", known(fmt::format("{:.2f}", *measured)), fmt::format("{:.2f}", *simulated), ""});
        if (const double tokens = tokens_of(compared.simulation); tokens > 0) {
            figures.add_row({"tokens/s", known(fmt::format("{:.0f}", *measured * tokens)),
                             fmt::format("{:.0f}", *simulated * tokens), ""});
        }
    }
    const std::optional<ModelFlops>& flops = compared.simulation.flops;
    if (!flops) {
        return;
    }
    figures.add_row({"model operations", known(format_operations(flops->per_second(ns_of(judged.measured)))),
                     format_operations(flops->per_second(ns_of(judged.simulated))), ""});
    const std::optional<double> used = flops->utilization(ns_of(judged.measured));
    const std::optional<double> predicted = flops->utilization(ns_of(judged.simulated));
    if (used && predicted && !compared.lacks_steps()) {
        figures.add_row({"MFU", format_percent(*used), format_percent(*predicted), format_points(*predicted - *used)});
    }
}
}  // namespace

Json comparison_json(const TraceComparison& compared) {
    const Comparison& comparison = compared.comparison;
    const bool lossy = compared.lossy();
    Json object{{"steps", comparison.steps},
                {"measured_step_ns", of_steps(compared, comparison.measured_step_time.count())},
                {"simulated_step_ns", comparison.simulated_step_time.count()},
                {"measured_step_mean_ns", of_steps(compared, comparison.measured_step_mean.count())},
                {"simulated_step_mean_ns", or_null(comparison.simulated_step_mean)},
                {"step_error", of_steps(compared, comparison.step_error)},
                {"lower_bound_ns", or_null(compared.simulation.lower_bound)},
                {"measured_bubble_fraction", fraction_unless(lossy, comparison.measured_bubble_fraction)},
                {"simulated_bubble_fraction", comparison.simulated_bubble_fraction},
                {"measured_bubble_mean", fraction_unless(lossy, comparison.measured_bubble_mean)},
                {"simulated_bubble_mean", or_null(comparison.simulated_bubble_mean)}};
    object["measured_wall_step_ns"] = or_null(comparison.measured_wall_step_time);
    const std::optional<Replay> replay = compared.lacks_steps() ? std::nullopt : comparison.replay;
    object["replay_step_ns"] = replay ? Json(replay->step_time.count()) : Json(nullptr);
    object["replay_error"] = replay ? Json(replay->error) : Json(nullptr);
    object["replay_with_gaps_error"] = replay ? Json(replay->with_gaps_error) : Json(nullptr);
    const JudgedStep judged = comparison.judged();
    object["measured_samples_per_second"] = of_steps(compared, samples_per_second(compared, judged.measured));
    object["simulated_samples_per_second"] = or_null(samples_per_second(compared, judged.simulated));
    if (const double tokens = tokens_of(compared.simulation); tokens > 0) {
        for (const char* side : {"measured_", "simulated_"}) {
            const Json& samples = object[side + std::string("samples_per_second")];
            object[side + std::string("tokens_per_second")] =
                samples.is_null() ? samples : Json(samples.get<double>() * tokens);
        }
    }
    if (const std::optional<ModelFlops>& flops = compared.simulation.flops) {
        object["model_flops"] = flops->step;
        object["measured_model_tflops_per_second"] =
            of_steps(compared, flops->per_second(ns_of(judged.measured)) / 1e12);
        object["simulated_model_tflops_per_second"] = flops->per_second(ns_of(judged.simulated)) / 1e12;
        object["measured_mfu"] = of_steps(compared, flops->utilization(ns_of(judged.measured)));
        object["simulated_mfu"] = or_null(flops->utilization(ns_of(judged.simulated)));
    }
    object["tasks_matched"] = comparison.tasks_matched;
    object["tasks_unmatched"] = comparison.tasks_unmatched;
    object["lanes"] = Json::array();
    for (std::size_t index = 0; index < comparison.lanes.size(); ++index) {
        const ComparedLane& lane = comparison.lanes[index];
        object["lanes"].push_back(
            {{"measured_busy_ns", lane.recorded ? Json(lane.measured_busy.count()) : Json(nullptr)},
             {"simulated_busy_ns", lane.simulated_busy.count()},
             {"measured_bubble_fraction", fraction_unless(lossy, lane.measured_bubble_fraction)},
             {"simulated_bubble_fraction", lane.simulated_bubble_fraction},
             {"measured_peak_bytes", or_null(lane.measured_peak_bytes)},
             {"simulated_peak_bytes", or_null(lane.simulated_peak_bytes)},
             {"replayed_peak_bytes",
              replay && index < replay->peak_bytes.size() ? Json(replay->peak_bytes[index]) : Json(nullptr)}});
    }
    if (const std::optional<ModelFlops>& flops = compared.simulation.flops) {
        for (std::size_t lane = 0; lane < std::min(flops->lanes.size(), object["lanes"].size()); ++lane) {
            object["lanes"][lane]["measured_model_tflops_per_second"] =
                of_steps(compared, flops->lane_per_second(lane, ns_of(judged.measured)) / 1e12);
        }
    }
    for (const LaneDeviceTime& device : compared.devices) {
        if (device.lane < object["lanes"].size()) {
            object["lanes"][device.lane]["device_busy_ns"] = device.busy.count();
            object["lanes"][device.lane]["unattributed_share"] = device.share();
        }
    }
    object["unattributed_share"] = unattributed_json(compared.devices);
    object["kernels"] = kernels_json(compared.kernels);
    object["worst"] = Json::array();
    for (const ComparedTask& task : comparison.worst) {
        object["worst"].push_back({{"task", to_string(task.task)},
                                   {"half", half_json(task.half)},
                                   {"measured_ns", task.measured.count()},
                                   {"simulated_ns", task.simulated.count()}});
    }
    object["bubbles"] = {{"measured", lossy ? Json(nullptr) : bubbles_json(compared.bubbles.measured)},
                         {"simulated", bubbles_json(compared.bubbles.simulated)}};
    object["verdict"] = verdict_json(compared.verdict);
    object["load"] = {{"profile", load_json(compared.profile_load)}, {"run", load_json(compared.run_load)}};
    object["profile_from_trace"] = compared.profile_from_trace;
    object["processes"] = compared.processes;
    object["clock_bound_ns"] = or_null(compared.clock_bound);
    object["drops"] = Json::array();
    for (const DropRecord& drop : compared.drops) {
        object["drops"].push_back({{"source", drop.source},
                                   {"thread", drop.thread},
                                   {"recorded", drop.recorded},
                                   {"dropped", drop.dropped},
                                   {"truncated", drop.truncated},
                                   {"open_at_exit", drop.open_at_exit}});
    }
    object["warnings"] = texts_of(compared.warnings);
    object["refused"] = Json::array();
    if (lossy) {
        object["refused"] = {"measured_bubble_fraction", "measured_bubble_mean", "lanes.measured_bubble_fraction",
                             "bubbles.measured"};
    }
    if (compared.lacks_steps()) {
        for (const char* field : {"measured_step_ns", "measured_step_mean_ns", "step_error",
                                  "measured_samples_per_second", "replay_step_ns", "replay_error"}) {
            object["refused"].push_back(field);
        }
    }
    return object;
}

void add_peaks(std::size_t lane, const Comparison& comparison, TextTable& figures) {
    const auto add = [&](const char* what, const std::optional<Bytes>& measured,
                         const std::optional<Bytes>& simulated) {
        figures.add_row({fmt::format("lane {} {}", lane, what), measured ? format_bytes(*measured) : "",
                         simulated ? format_bytes(*simulated) : "unknown",
                         measured && simulated ? format_error_percent(relative_error(static_cast<double>(*simulated),
                                                                                     static_cast<double>(*measured)))
                                               : ""});
    };
    const ComparedLane& each = comparison.lanes[lane];
    add("peak memory", each.measured_peak_bytes, each.simulated_peak_bytes);
    // How many tensors wait on a lane depends on which lane runs ahead. If these two peaks differ, the times are wrong,
    // not the memory model.
    const bool is_replayed = comparison.replay && lane < comparison.replay->peak_bytes.size();
    if (is_replayed && each.measured_peak_bytes && comparison.replay->peak_bytes[lane] != each.simulated_peak_bytes) {
        add("peak at the measured instants", each.measured_peak_bytes, comparison.replay->peak_bytes[lane]);
    }
}

std::string comparison_text(const TraceComparison& compared) {
    const Comparison& comparison = compared.comparison;
    const bool lossy = compared.lossy();
    TextTable figures({{"", Align::left}, {"measured"}, {"simulated"}, {"error"}});
    const JudgedStep judged = comparison.judged();
    const bool no_steps = compared.lacks_steps();
    figures.add_row({"step time", no_steps ? kUnknownStep : format_duration(judged.measured),
                     format_duration(judged.simulated), no_steps ? "" : format_error_percent(comparison.step_error)});
    figures.add_row({"bubble fraction", percent_unless(lossy, judged.measured_bubble),
                     format_percent(judged.simulated_bubble),
                     lossy ? "" : format_points(judged.simulated_bubble - judged.measured_bubble)});
    if (compared.simulation.lower_bound) {
        figures.add_row({"lower bound of any order, even with split backwards", "",
                         format_duration(*compared.simulation.lower_bound), ""});
    }
    if (comparison.measured_wall_step_time) {
        figures.add_row({"wall step time, median", format_duration(*comparison.measured_wall_step_time), "", ""});
    }
    add_rates(compared, judged, figures);
    for (std::size_t lane = 0; lane < comparison.lanes.size(); ++lane) {
        const ComparedLane& each = comparison.lanes[lane];
        figures.add_row(
            {fmt::format("lane {} busy", lane), each.recorded ? format_duration(each.measured_busy) : "not recorded",
             format_duration(each.simulated_busy),
             each.recorded ? format_error_percent(relative_error(each.simulated_busy, each.measured_busy)) : ""});
        if (each.measured_peak_bytes || each.simulated_peak_bytes) {
            add_peaks(lane, comparison, figures);
        }
    }
    if (comparison.replay && !no_steps) {
        figures.add_row({"replay with measured durations", format_duration(comparison.measured_step_time),
                         format_duration(comparison.replay->step_time),
                         format_error_percent(comparison.replay->error)});
        figures.add_row(
            {"replay with durations and gaps", "", "", format_error_percent(comparison.replay->with_gaps_error)});
    }
    std::string text = verdict_text(compared.verdict);
    for (const TraceWarning& warning : compared.warnings) {
        text += fmt::format("warning: {}\n", printable(warning.text));
    }
    text += fmt::format("{} ({}), {} matched, {} unmatched\n", counted(comparison.steps.size(), "step", "steps"),
                        judged.is_mean ? "means of step and bubble, medians of the rest" : "median",
                        counted(comparison.tasks_matched, "task", "tasks"), comparison.tasks_unmatched);
    if (compared.clock_bound) {
        text += fmt::format("{} processes, whose clocks agree within {}\n", compared.processes,
                            format_duration(*compared.clock_bound));
    }
    text += basis_text(compared.simulation.dtype, compared.simulation.options) + "\n" + figures.str() + "\n";
    text += bubbles_text(compared.bubbles, lossy, judged.is_mean) + "\n";
    if (compared.bubbles.measured.roots && !lossy) {
        text += roots_text(*compared.bubbles.measured.roots) + "\n";
    }
    if (const std::string device = device_text(compared.devices); !device.empty()) {
        text += device + "\n";
    }
    TextTable worst({{"largest errors of medians", Align::left}, {"measured"}, {"simulated"}, {"difference"}});
    for (const ComparedTask& task : comparison.worst) {
        worst.add_row({shown_name(task.task, task.half), format_duration(task.measured),
                       format_duration(task.simulated), format_duration(task.simulated - task.measured)});
    }
    text += worst.str();
    const std::string kernels = kernels_text(compared.kernels);
    return text + (kernels.empty() ? "" : "\n" + kernels);
}

namespace {
/// Remarks beyond the figures: an asynchronous update, and a peak above the limit.
std::string remarks(const ComparedSchedule& compared) {
    std::string text = compared.simulation.feasible ? "" : "above the memory limit";
    if (!compared.note.empty()) {
        text += (text.empty() ? "" : "; ") + compared.note;
    }
    return text;
}
}  // namespace

Json schedules_json(const ScheduleComparison& comparison) {
    Json object{{"schedules", Json::array()}, {"left_out", Json::array()}};
    for (const ComparedSchedule& compared : comparison.schedules) {
        Json each{{"name", compared.name}};
        each.update(simulation_json(compared.simulation));
        each["synchronous"] = compared.synchronous;
        each["communicated_bytes"] = compared.communicated_bytes;
        each["note"] = compared.note;
        object["schedules"].push_back(std::move(each));
    }
    for (const LeftOutSchedule& each : comparison.left_out) {
        object["left_out"].push_back({{"name", each.name}, {"because", each.because}});
    }
    return object;
}

std::string schedules_text(const ScheduleComparison& comparison) {
    TextTable table({{"schedule", Align::left},
                     {"step time"},
                     {"bubble"},
                     {"utilization"},
                     {"speedup"},
                     {"samples/s"},
                     {"peak memory"},
                     {"sent per step"},
                     {"above bound"},
                     {"", Align::left}});
    for (const ComparedSchedule& compared : comparison.schedules) {
        const Simulation& each = compared.simulation;
        const StepFigures figures = expected_figures(each);
        table.add_row({compared.name, format_duration(figures.step), format_percent(figures.waiting()),
                       format_percent(figures.utilization), fmt::format("{:.2f}", figures.speedup),
                       fmt::format("{:.2f}", figures.samples_per_second), peak_text(each, highest_peak(each)),
                       format_bytes(compared.communicated_bytes),
                       each.lower_bound ? format_percent(gap_above(each.step_time, *each.lower_bound)) : "-",
                       remarks(compared)});
    }
    std::string text;
    if (!comparison.schedules.empty()) {
        const Simulation& first = comparison.schedules.front().simulation;
        text = basis_text(first.dtype, first.options) + "\n";
    }
    text += table.str();
    if (std::ranges::any_of(comparison.schedules,
                            [](const ComparedSchedule& each) { return each.simulation.noise.has_value(); })) {
        text += "\nmeans of steps with the profile's noise\n";
    }
    text += "\nabove bound: the step without noise against the lower bound of any order, with backwards split or not\n";
    if (!comparison.schedules.empty() && comparison.schedules.front().simulation.options.update == Update::staggered) {
        text += kStaggeredNote;
    }
    for (const LeftOutSchedule& each : comparison.left_out) {
        text += fmt::format("\nleft out: {}: {}\n", each.name, each.because);
    }
    return text;
}
}  // namespace pipescope
