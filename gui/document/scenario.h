#pragma once

#include "balance/profile.h"
#include "gui/document/trace_document.h"
#include "simulator/balance_search.h"
#include "simulator/pipeline_options.h"
#include "simulator/simulation.h"

#include <QString>

#include <memory>
#include <string>
#include <vector>

namespace pipescope {
/// A way to run a profile: balance, micro-batches, batch, checkpoint mode, schedule, placement, links, speeds, memory
/// limit and optimizer. A plain value.
struct Scenario {
    PipelineOptions options;
    std::string deviceType;  ///< of the catalogue, for which times are estimated; empty: the profiled device

    friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// What there is to say about a scenario, for people.
struct ScenarioMessage {
    enum class Kind {
        note,     ///< it runs, but not quite as asked, or its figures are less sure
        warning,  ///< it would not fit the devices
        error,    ///< it cannot run at all
    };
    Kind kind = Kind::note;
    QString text;

    friend bool operator==(const ScenarioMessage&, const ScenarioMessage&) = default;
};

/// A scenario on the virtual clock: the simulated half of a document. Threading: immutable once made, shared.
struct SimulatedScenario {
    Scenario scenario;
    std::shared_ptr<const TimelineStore> timeline;  ///< null if it cannot run: then a message says why
    Simulation simulation;                          ///< its timeline and memory moved to the members beside it
    std::vector<MemoryTrack> memory;                ///< per lane
    std::vector<ScenarioMessage> messages;
    /// The profile knows its noise, but the simulation does not have it yet: it takes hundreds of simulations.
    bool noisePending = false;

    bool runs() const { return timeline != nullptr; }
};

/// Something sensible for a profile that nobody said anything about: up to four partitions of even cost, four
/// micro-batches for each, of a size that was measured.
Scenario defaultScenario(const Profile& profile);
/// What the document's run was configured to be; nothing without a profile or a configuration that can be simulated.
std::optional<Scenario> recordedScenario(const TraceDocument& document);

// Changes that touch more than one option. What the user chose stays wherever it still makes sense.

/// Lanes of the scenario, and partitions on each (more than one where schedule interleaved puts them there).
int lanesOf(const Scenario& scenario);
int partitionsPerLane(const Scenario& scenario);
/// Other numbers of lanes and partitions on each: kept within the profile's layers, cut evenly if the number of
/// partitions changes; further lanes are like the last one.
Scenario withLanes(const Profile& profile, const Scenario& scenario, int lanes, int perLane);
/// Partitions on lanes of the user's choice; empty: each on its own. Further lanes are like the last one.
Scenario withPlacement(const Scenario& scenario, std::vector<LaneId> placement);
/// Whether partition j is on lane j modulo the number of lanes, as withLanes() puts it.
bool placedInTurn(const Scenario& scenario);
/// Another schedule. Interleaved puts two partitions or more on each lane; leaving it puts one there again.
Scenario withSchedule(const Profile& profile, const Scenario& scenario, Schedule schedule);

/// The profile on the scenario's device. Throws Error for a type that is not in the catalogue, or a profile that tells
/// nothing about other devices.
std::shared_ptr<const Profile> profileOn(const std::shared_ptr<const Profile>& profile, const std::string& deviceType);

/// Simulates, without noise. `profile` is that of the scenario's device, as profileOn() gives it. Never
/// throws: what is wrong with the scenario becomes a message. Threading: any thread. Deterministic.
SimulatedScenario simulateScenario(const Profile& profile, const Scenario& scenario);

/// Where the steps of a run lie, by the variation that the profile tells of.
struct StepBand {
    Nanoseconds low{0};   ///< 5 % of steps are shorter
    Nanoseconds high{0};  ///< 5 % of steps are longer
    Nanoseconds mean{0};
    double bubble = 0;  ///< of a step that takes the mean

    friend bool operator==(const StepBand&, const StepBand&) = default;
};
/// The noise that the simulation has; nothing if it has none.
std::optional<StepBand> stepBand(const Simulation& simulation);
/// Nothing for a profile that tells of no variation, or a scenario that cannot run.
/// Cost: some hundred simulations. Threading: any thread. Deterministic.
std::optional<StepBand> stepBand(const Profile& profile, const Scenario& scenario);

/// The scenario with its noise. Everything large is shared with the original.
SimulatedScenario withNoise(const SimulatedScenario& simulated, const StepBand& band);

/// Layers cut into `partitions` so that the largest has the least to do, at the scenario's micro-batches and checkpoint
/// mode. Quick. Throws BalanceError unless there are as many layers.
Balance evenBalance(const Profile& profile, const Scenario& scenario, int partitions);
/// The balance an algorithm finds for the scenario's partitions. Where several of them share a lane, or there are too
/// many layers for an exact search, the evenest balance stands in for the optimal one. Throws as find_balance() does.
/// Threading: any thread; may take a second.
Balance foundBalance(const Profile& profile, const Scenario& scenario, BalanceAlgorithm algorithm);

/// The document with its simulated half replaced. Everything large is shared with the original.
std::shared_ptr<const TraceDocument> withScenario(const TraceDocument& document, const SimulatedScenario& simulated);
/// The medians of measured against the scenario's simulated step, joined task by task; nothing without measured steps.
/// Of a long run some steps, as compared_steps.h says. Threading: any thread.
std::optional<Comparison> compareWithMeasured(const TraceDocument& document, const SimulatedScenario& simulated);

/// "8 lanes, 32 micro-batches, batch 64, checkpoint except_last, 1f1b": what tells scenarios apart in a list.
QString scenarioName(const Scenario& scenario);
}  // namespace pipescope
