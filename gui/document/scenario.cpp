#include "gui/document/scenario.h"

#include "balance/contiguous_partition.h"
#include "base/error.h"
#include "base/quantities.h"
#include "gui/document/document_builder.h"
#include "gui/style/number_format.h"
#include "gui/style/work_pool.h"
#include "hardware/device_catalogue.h"
#include "schedule/micro_batches.h"
#include "schedule/placement.h"
#include "schedule/schedules.h"
#include "simulator/pipeline_defaults.h"
#include "simulator/plan/planner.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/search/balanced_pipeline.h"
#include "simulator/search/cut_problems.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace pipescope {
namespace {
constexpr int kDefaultLanes = 4;
constexpr int kDefaultMicroBatchesPerLane = 4;
constexpr std::size_t kMostLayersSearched = 1000;   // an exact search's tables grow with the square
constexpr std::int64_t kMostForwardsOrdered = 256;  // by schedule auto for each of some 75 balances: about 2 s
constexpr std::int64_t kMostForwards = 200'000;     // for an interactive simulation: a few hundred MB

/// Rejects options that cannot be cut into micro-batches, or are too large to simulate interactively.
void checkSize(const PipelineOptions& options) {
    check_micro_batches(options.batch, options.chunks);
    const std::int64_t microBatches = std::min(options.batch, options.chunks);
    const auto partitions = static_cast<std::int64_t>(options.balance.num_partitions());
    if (microBatches > kMostForwards / partitions) {
        throw UsageError(std::to_string(partitions) + " partitions with " + std::to_string(microBatches) +
                         " micro-batches are more than the " + std::to_string(kMostForwards) +
                         " forwards that are simulated here; use fewer, or pipescope simulate");
    }
}

QString samples(std::int64_t count) {
    return formatCount(count, translated("sample"), translated("samples"));
}

QString overTheLimit(const std::vector<Shortfall>& found) {
    QStringList lanes;
    for (const Shortfall& each : found) {
        lanes << QString::number(each.lane.value());
    }
    return translated(
               "Does not fit: lane %1 needs %2, above its limit of %3 (lanes over the limit: %4). Use more partitions, "
               "more micro-batches or checkpointing, or raise the limit.")
        .arg(found.front().lane.value())
        .arg(formatBytes(found.front().peak), formatBytes(found.front().limit), lanes.join(QStringLiteral(", ")));
}

QString extrapolated(const Profile& profile, const PipelineOptions& options, std::int64_t microBatches) {
    const std::int64_t size = (replica_batch(options) + microBatches - 1) / microBatches;
    return translated(
               "Micro-batches of %1 are outside the sizes profiled (%2 to %3): their costs are extrapolated. Profile "
               "that size to be sure.")
        .arg(samples(size))
        .arg(profile.samples.front())
        .arg(profile.samples.back());
}
/// Reason why copies take no time although the link has a bandwidth or a latency; empty if some copies do.
QString linkWithoutEffect(const Simulation& simulation) {
    const PipelineOptions& options = simulation.options;
    if (options.hardware.link.is_free()) {
        return {};  // no link was configured
    }
    const std::vector<SimulatedPartition>& partitions = simulation.partitions;
    for (std::size_t j = 1; j < partitions.size(); ++j) {
        if (!share_device(options.hardware, partitions[j].lane, partitions[j - 1].lane, num_lanes(options))) {
            return {};
        }
    }
    if (simulation.lanes.size() < 2) {
        return translated("Link bandwidth and latency have no effect: one lane copies nothing. Use more lanes.");
    }
    return translated(
               "Link bandwidth and latency have no effect: all lanes are on the device %1, where copies cost nothing. "
               "Name a device for each lane, or clear Devices, to see them.")
        .arg(QString::fromStdString(partitions.front().device));
}

/// The first device that several lanes name, other than the host, whose lanes have a core each; or empty.
QString sharedDevice(const PipelineOptions& options) {
    const std::vector<std::string>& devices = options.hardware.devices;
    for (int lane = 0; lane < num_lanes(options); ++lane) {
        for (int other = 0; other < lane && !runs_on_host(options.hardware, LaneId{lane}); ++other) {
            if (share_device(options.hardware, LaneId{other}, LaneId{lane}, num_lanes(options))) {
                return QString::fromStdString(devices[static_cast<std::size_t>(lane)]);
            }
        }
    }
    return {};
}
}  // namespace

Scenario defaultScenario(const Profile& profile) {
    Scenario scenario;
    PipelineOptions& options = scenario.options;
    const int lanes = static_cast<int>(std::min<std::size_t>(kDefaultLanes, profile.layers.size()));
    options.chunks = kDefaultMicroBatchesPerLane * lanes;
    options.batch = options.chunks * profile.samples[profile.samples.size() / 2];
    assume(options, profile, lanes);
    options.balance = evenBalance(profile, scenario, lanes);
    return scenario;
}

std::optional<Scenario> recordedScenario(const TraceDocument& document) {
    if (!document.run.profile || !document.simulation) {
        return std::nullopt;
    }
    return Scenario{document.simulation->options, {}};
}

int lanesOf(const Scenario& scenario) {
    return num_lanes(scenario.options);
}

int partitionsPerLane(const Scenario& scenario) {
    return std::max(1, static_cast<int>(scenario.options.balance.num_partitions()) / std::max(1, lanesOf(scenario)));
}

Scenario withLanes(const Profile& profile, const Scenario& scenario, int lanes, int perLane) {
    Scenario changed = scenario;
    const int layers = static_cast<int>(std::min<std::size_t>(profile.layers.size(), kMostPartitions));
    perLane = std::clamp(perLane, 1, layers);
    lanes = std::clamp(lanes, 1, layers / perLane);
    const int partitions = lanes * perLane;
    PipelineOptions& options = changed.options;
    const bool same = options.balance.num_layers() == profile.layers.size() &&
                      options.balance.num_partitions() == static_cast<std::size_t>(partitions);
    if (!same) {
        options.balance = evenBalance(profile, scenario, partitions);
    }
    options.placement.clear();
    if (perLane > 1) {
        const auto count = static_cast<std::size_t>(partitions);
        options.placement = placement_of(options.schedule, count, static_cast<std::size_t>(lanes));
        if (options.placement.size() != count) {  // not the schedule's, or it needs none
            options.placement = placement_in_turn(count, static_cast<std::size_t>(lanes));
        }
    }
    options.hardware = with_lanes(std::move(options.hardware), lanes);
    return changed;
}

Scenario withPlacement(const Scenario& scenario, std::vector<LaneId> placement) {
    Scenario changed = scenario;
    PipelineOptions& options = changed.options;
    options.placement = std::move(placement);
    options.hardware = with_lanes(std::move(options.hardware), lanesOf(changed));
    return changed;
}

bool placedInTurn(const Scenario& scenario) {
    const std::vector<LaneId>& placement = scenario.options.placement;
    return placement == placement_in_turn(placement.size(), static_cast<std::size_t>(std::max(1, lanesOf(scenario))));
}

namespace {
/// As the file has them: partitions, lanes, micro-batches, of at least a sample each.
Scenario withFile(const Profile& profile, const Scenario& scenario) {
    Scenario changed = scenario;
    PipelineOptions& options = changed.options;
    const PipelineShape& shape = options.schedule.file()->shape;
    const auto partitions = static_cast<std::size_t>(shape.num_partitions);
    if (partitions > profile.layers.size()) {
        throw UsageError("the schedule " + to_string(options.schedule) + " has " +
                         counted(partitions, "partition", "partitions") + "; the model has " +
                         counted(profile.layers.size(), "layer", "layers") +
                         ", and each partition needs one; use another schedule");
    }
    if (options.balance.num_partitions() != partitions) {
        options.balance = evenBalance(profile, scenario, shape.num_partitions);
    }
    follow_file(options, {});
    options.batch = std::max<std::int64_t>(options.batch, std::int64_t{shape.num_micro_batches} * options.replicas);
    options.hardware = with_lanes(std::move(options.hardware), lanesOf(changed));
    return changed;
}
}  // namespace

Scenario withSchedule(const Profile& profile, const Scenario& scenario, const Schedule& schedule) {
    Scenario changed = scenario;
    changed.options.schedule = schedule;
    if (schedule.file()) {
        return withFile(profile, changed);
    }
    const bool wasPlaced = !runs_one_partition_a_lane(scenario.options.schedule);
    if (runs_one_partition_a_lane(schedule)) {
        return wasPlaced ? withLanes(profile, changed, lanesOf(scenario), 1) : changed;
    }
    const auto lanes = static_cast<std::size_t>(lanesOf(scenario));
    const std::size_t partitions = scenario.options.balance.num_partitions();
    const bool fits =
        wasPlaced && partitions > lanes && placement_of(schedule, partitions, lanes) == scenario.options.placement;
    return fits ? changed
                : withLanes(profile, changed, lanesOf(scenario),
                            static_cast<int>(usual_partitions(schedule, lanes) / std::max<std::size_t>(1, lanes)));
}

Scenario asAsked(PipelineOptions options, std::string deviceType) {
    const Schedule automatic = Schedule::automatic;
    // No file has this name: names of files end in .csv.
    if (options.schedule.file() && to_string(options.schedule) == to_string(automatic)) {
        options.schedule = automatic;
    }
    return {std::move(options), std::move(deviceType)};
}

Scenario asSimulated(const SimulatedScenario& simulated) {
    Scenario scenario = simulated.scenario;
    if (simulated.runs()) {
        scenario.options.schedule = simulated.simulation.options.schedule;
    }
    return scenario;
}

std::optional<CheckedProfile> profileOn(const std::optional<CheckedProfile>& profile, const std::string& deviceType) {
    if (deviceType.empty()) {
        return profile;
    }
    return retimed(**profile, find_device(device_catalogue(), deviceType));
}

namespace {
/// Says that the rest of the layout's step stays as it was, if the scenario would change it.
void addKept(SimulatedScenario& simulated, const RecordedLayout& layout) {
    std::vector<std::string> changes = changes_after_pipeline(layout.options, simulated.scenario.options);
    if (!simulated.scenario.deviceType.empty()) {
        changes.emplace_back("other devices");
    }
    if (QString kept = QString::fromStdString(kept_text(layout.step, changes)); !kept.isEmpty()) {
        kept[0] = kept[0].toUpper();
        simulated.messages.push_back(
            {ScenarioMessage::Kind::note,
             translated("%1. For the step with these, use pipescope simulate --cluster.").arg(kept)});
    }
}

/// Throws as simulate() does.
SimulatedScenario simulatedWithoutNoise(const CheckedProfile& profile, const Scenario& scenario,
                                        const std::optional<RecordedLayout>& layout) {
    SimulatedScenario simulated;
    simulated.scenario = scenario;
    checkSize(scenario.options);
    simulated.simulation = find_and_simulate(profile, scenario.options, {.noise = false});
    add_lower_bound(profile, simulated.simulation);
    Simulation& simulation = simulated.simulation;
    simulated.timeline = storeOf(simulation);
    if (!simulation.memory_unknown) {
        simulated.memory = memoryTracks(simulation.memory, simulated.timeline->lanes().size());
    }
    simulation.timeline = {};
    simulation.memory = {};
    simulated.messages = scenarioMessages(profile, simulation);
    if (layout) {
        add_rest_of_step(simulation, layout->step);
        addKept(simulated, *layout);
    }
    simulated.noisePending = has_noise(profile);
    return simulated;
}
}  // namespace

SimulatedScenario refusedScenario(const Scenario& scenario, const QString& why) {
    SimulatedScenario refused;
    refused.scenario = scenario;
    refused.simulation.options = scenario.options;
    refused.messages = {{ScenarioMessage::Kind::error, why}};
    return refused;
}

SimulatedScenario simulateScenario(const CheckedProfile& profile, const Scenario& scenario,
                                   const std::optional<RecordedLayout>& layout) {
    try {
        return simulatedWithoutNoise(profile, scenario, layout);
    } catch (...) {
        return refusedScenario(scenario, handledExceptionText());
    }
}

SimulatedScenario withNoise(const SimulatedScenario& simulated, const StepBand& band) {
    SimulatedScenario noisy = simulated;
    noisy.simulation.noise = band;
    noisy.noisePending = false;
    return noisy;
}

SizedProfile atFirstMicroBatch(const Profile& profile, const PipelineOptions& options) {
    const std::int64_t chunks = std::max<std::int64_t>(1, options.chunks);
    return at_size(profile, std::max<std::int64_t>(1, (replica_batch(options) + chunks - 1) / chunks));
}

std::vector<double> layerTimes(const Profile& profile, const PipelineOptions& options) {
    const std::int64_t microBatches =
        std::clamp<std::int64_t>(options.chunks, 1, std::max<std::int64_t>(1, replica_batch(options)));
    return layer_times(atFirstMicroBatch(profile, options), options.checkpoint, static_cast<int>(microBatches));
}

Balance evenBalance(const Profile& profile, const Scenario& scenario, int partitions) {
    return minmax_partition(layerTimes(profile, scenario.options), partitions);
}

Balance foundBalance(const CheckedProfile& profile, const Scenario& scenario, BalanceAlgorithm algorithm) {
    const int partitions = static_cast<int>(scenario.options.balance.num_partitions());
    const bool searchable = scenario.options.placement.empty() && profile->layers.size() <= kMostLayersSearched;
    const bool isAutomatic = scenario.options.schedule == Schedule::automatic;
    // At most a second, since the user waits for it.
    constexpr SearchEffort kEffort{100'000, 500'000, false, false};
    if (algorithm == BalanceAlgorithm::optimal && searchable && isAutomatic) {
        const std::int64_t forwards = std::min(scenario.options.chunks, scenario.options.batch) * partitions;
        if (forwards <= kMostForwardsOrdered) {
            return find_automatic_balance(profile, scenario.options, partitions, algorithm, kEffort).balance;
        }
    } else if (algorithm == BalanceAlgorithm::optimal && searchable) {
        return find_balance(profile, scenario.options, partitions, algorithm, kEffort).balance;
    }
    return partition_by_costs(algorithm, layerTimes(profile, scenario.options), partitions).balance;
}

std::optional<StepBand> stepBand(const CheckedProfile& profile, const Scenario& scenario) {
    try {
        checkSize(scenario.options);
        return find_and_simulate(profile, scenario.options, {.noise = true, .memory = false}).noise;
    } catch (const std::exception&) {
        return std::nullopt;  // it cannot run; its simulation gives the reason
    }
}

std::shared_ptr<const TraceDocument> withScenario(const TraceDocument& document, const SimulatedScenario& simulated) {
    auto changed = std::make_shared<TraceDocument>(document);
    changed->simulated = simulated.timeline;
    changed->simulation.reset();
    if (simulated.runs()) {
        changed->simulation = simulated.simulation;
    }
    changed->simulatedMemory = simulated.memory;
    const PipelineOptions& options = simulated.scenario.options;
    changed->memoryLimits = memory_limits_of(options.hardware, num_lanes(options));
    changed->comparison.reset();
    if (document.simulated && !document.simulated->steps().empty()) {
        changed->simulatedBefore = document.simulation;
    }
    return changed;
}

std::optional<Comparison> compareWithMeasured(const TraceDocument& document, const SimulatedScenario& simulated) {
    if (!document.measured || !simulated.runs()) {
        return std::nullopt;
    }
    const ComparedTasks tasks = comparedTasks(document);
    Simulation simulation = simulated.simulation;
    simulation.timeline = timelineOf(*simulated.timeline);
    try {
        return compare(runTasks(document, tasks).measured(), simulation);
    } catch (const Error&) {
        return std::nullopt;  // no step can be compared
    }
}

QString scenarioName(const Scenario& scenario) {
    const PipelineOptions& options = scenario.options;
    QString name = formatCount(lanesOf(scenario), translated("lane"), translated("lanes"));
    if (!scenario.deviceType.empty()) {
        name += QLatin1Char(' ') + QString::fromStdString(scenario.deviceType);
    }
    return translated("%1, %2, batch %3, checkpoint %4, %5")
        .arg(name)
        .arg(formatCount(options.chunks, translated("micro-batch"), translated("micro-batches")))
        .arg(options.batch)
        .arg(QString::fromStdString(to_string(options.checkpoint)),
             QString::fromStdString(to_string(options.schedule)) +
                 (options.update == Update::staggered ? translated(", staggered updates") : QString()));
}

std::vector<ScenarioMessage> scenarioMessages(const Profile& profile, const Simulation& simulation) {
    using Kind = ScenarioMessage::Kind;
    const PipelineOptions& options = simulation.options;
    std::vector<ScenarioMessage> messages;
    if (const std::vector<Shortfall> found = shortfalls(simulation); !found.empty()) {
        messages.push_back({Kind::warning, overTheLimit(found)});
    }
    if (options.chunks > simulation.micro_batches) {
        messages.push_back(
            {Kind::note,
             translated("%1 micro-batches of %2 are not possible: %3 of one sample each run. Use a larger batch.")
                 .arg(options.chunks)
                 .arg(samples(replica_batch(options)))
                 .arg(simulation.micro_batches)});
    } else if (replica_batch(options) % simulation.micro_batches != 0) {
        messages.push_back(
            {Kind::note, translated("%1 samples do not divide by %2: micro-batches differ by one sample.")
                             .arg(replica_batch(options))
                             .arg(simulation.micro_batches)});
    }
    if (const QString device = sharedDevice(options); !device.isEmpty()) {
        messages.push_back(
            {Kind::note,
             translated("Lanes of the same name in Devices are on one device: those on %1 share its speed, and copies "
                        "between them cost nothing. If each has a device of its own, name them apart, as %1:0,%1:1.")
                 .arg(device)});
    }
    if (const QString why = linkWithoutEffect(simulation); !why.isEmpty()) {
        messages.push_back({Kind::note, why});
    }
    if (simulation.extrapolated) {
        messages.push_back({Kind::note, extrapolated(profile, options, simulation.micro_batches)});
    }
    if (simulation.estimated) {
        messages.push_back(
            {Kind::note,
             translated("Times are estimated from operation counts, not measured: expect errors of 10 to 40 %.")});
    }
    if (simulation.memory_unknown) {
        messages.push_back({Kind::note, translated("Memory is unknown: the profile was measured from a trace that does "
                                                   "not say what the layers hold.")});
    }
    if (is_for_comparison_only(options.schedule)) {
        messages.push_back(
            {Kind::note,
             translated("Schedule %1 is there to compare with: it is simulated only. A run takes another one%2.")
                 .arg(QString::fromStdString(to_string(options.schedule)),
                      QString::fromStdString(nearest_runnable_text(options.schedule)))});
    }
    return messages;
}
}  // namespace pipescope
