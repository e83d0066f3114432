#pragma once

#include "gui/document/trace_document.h"
#include "profiler/profile/profile.h"
#include "simulator/pipeline_options.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"
#include "simulator/sized_profile.h"

#include <QString>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A way to run a profile: balance, micro-batches, batch, checkpoint mode, schedule, placement, links, speeds, memory
/// limit and optimizer. A plain value.
struct Scenario {
    PipelineOptions options;
    std::string deviceType;  ///< in the catalogue, times are estimated for it; empty: the profiled device

    friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// A message about a scenario, for people.
struct ScenarioMessage {
    enum class Kind {
        note,     ///< it runs, but not exactly as requested, or its figures are less certain
        warning,  ///< it would not fit the devices
        error,    ///< it cannot run at all
    };
    Kind kind = Kind::note;
    QString text;

    friend bool operator==(const ScenarioMessage&, const ScenarioMessage&) = default;
};

/// A scenario on the virtual clock: the simulated half of a document. Threading: immutable once created, shared.
struct SimulatedScenario {
    Scenario scenario;
    std::shared_ptr<const TimelineStore> timeline;  ///< null if it cannot run; a message then says why
    Simulation simulation;            ///< without timeline and memory, which the neighbouring members hold
    std::vector<MemoryTrack> memory;  ///< per lane
    std::vector<ScenarioMessage> messages;
    /// The profile has noise, but the simulation does not include it yet: that takes hundreds of simulations.
    bool noisePending = false;

    bool runs() const { return timeline != nullptr; }
};

/// The layout on a cluster whose pipeline the recorded scenario is, if it is one. Scenarios then keep the rest of its
/// step, and say so.
struct RecordedLayout {
    StepOnCluster step;
    PipelineOptions options;  ///< as recorded
};

/// A sensible default for a profile without a configuration: up to four partitions of even cost, with four
/// micro-batches each, of a measured size.
Scenario defaultScenario(const Profile& profile);
/// The configuration of the document's run; empty without a profile or a configuration that can be simulated.
std::optional<Scenario> recordedScenario(const TraceDocument& document);

// Changes of more than one option. They keep the user's choices that still make sense.

/// Number of lanes, and of partitions on each lane (above one if the schedule puts several there).
int lanesOf(const Scenario& scenario);
int partitionsPerLane(const Scenario& scenario);
/// Changes the number of lanes and of partitions per lane, within the profile's layers. Cuts evenly if the number of
/// partitions changes. Additional lanes copy the last one.
Scenario withLanes(const Profile& profile, const Scenario& scenario, int lanes, int perLane);
/// Sets the lane of each partition; empty: each on its own lane. Additional lanes copy the last one.
Scenario withPlacement(const Scenario& scenario, std::vector<LaneId> placement);
/// True if partition j is on lane j modulo the number of lanes, as withLanes() places it.
bool placedInTurn(const Scenario& scenario);
/// Sets the schedule and the placement that it needs: as a rule two partitions on each lane, or one. A file also sets
/// lanes and micro-batches, and the batch to at least a sample for each; throws UsageError if the model has fewer
/// layers than the file has partitions.
Scenario withSchedule(const Profile& profile, const Scenario& scenario, const Schedule& schedule);

/// The scenario of options that another search found: if their schedule is a table that auto found, it asks for auto
/// again, which follows changes of the other options. It gives the same step.
Scenario asAsked(PipelineOptions options, std::string deviceType);

/// The profile on the scenario's device. Throws Error for a type that is not in the catalogue, or for a profile that
/// cannot be estimated for other devices.
std::optional<CheckedProfile> profileOn(const std::optional<CheckedProfile>& profile, const std::string& deviceType);

/// The scenario with the order that was simulated: with schedule auto, the order found. So its noise takes no search.
Scenario asSimulated(const SimulatedScenario& simulated);

/// A scenario that cannot run, with the reason as its message.
SimulatedScenario refusedScenario(const Scenario& scenario, const QString& why);

/// Simulates without noise, with the lower bound of the pipeline. `profile` is that of the scenario's device, from
/// profileOn(). Never throws: problems, even a lack of memory, become messages. Threading: any thread. Deterministic.
SimulatedScenario simulateScenario(const CheckedProfile& profile, const Scenario& scenario,
                                   const std::optional<RecordedLayout>& layout = {});

/// The noise of its simulation. Empty for a profile without noise, or a scenario that cannot run; never throws. Cost: a
/// few hundred simulations. Threading: any thread. Deterministic.
std::optional<StepBand> stepBand(const CheckedProfile& profile, const Scenario& scenario);

/// Adds noise to the scenario. Shares everything large with the original.
SimulatedScenario withNoise(const SimulatedScenario& simulated, const StepBand& band);

/// The profile at the size of a step's first micro-batch; of one sample for options that cannot be cut.
SizedProfile atFirstMicroBatch(const Profile& profile, const PipelineOptions& options);
/// Time of each layer in that micro-batch, in ns (layer_times()).
std::vector<double> layerTimes(const Profile& profile, const PipelineOptions& options);

/// Cuts the layers into `partitions` so that the largest partition has the least work, at the scenario's micro-batches
/// and checkpoint mode. Fast. Throws BalanceError if there are fewer layers.
Balance evenBalance(const Profile& profile, const Scenario& scenario, int partitions);
/// The balance that an algorithm finds for the scenario's partitions. If several of them share a lane, or there are too
/// many layers for an exact search, the most even balance replaces the optimal one. Throws as find_balance() does.
/// Threading: any thread; may take a second.
Balance foundBalance(const CheckedProfile& profile, const Scenario& scenario, BalanceAlgorithm algorithm);

/// Replaces the document's simulated half. Shares everything large with the original.
std::shared_ptr<const TraceDocument> withScenario(const TraceDocument& document, const SimulatedScenario& simulated);
/// Compares medians of measured steps with the scenario's simulated step, task by task; empty without measured steps.
/// Uses some steps of a long run (steps_to_compare()). Threading: any thread.
std::optional<Comparison> compareWithMeasured(const TraceDocument& document, const SimulatedScenario& simulated);

/// "8 lanes, 32 micro-batches, batch 64, checkpoint except_last, 1f1b": distinguishes scenarios in a list.
QString scenarioName(const Scenario& scenario);

/// Messages about a simulated scenario: differences from the request, estimated figures, lanes over the memory limit.
/// Most serious first.
std::vector<ScenarioMessage> scenarioMessages(const Profile& profile, const Simulation& simulation);
}  // namespace pipescope
