#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/recorded_run.h"
#include "cluster/layout.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace pipescope {
/// The parts of a step, as shares of its time, mean over the lanes of a pipeline. They sum to 1.
struct StepParts {
    double compute = 0;      ///< layers' operators and losses, without the parts below
    double recompute = 0;    ///< operators that repeat a forward
    double collectives = 0;  ///< sums over tensor-parallel devices, and gathering of ZeRO 3's parameters
    double all_to_all = 0;   ///< tokens' ways to experts and back
    double context = 0;      ///< waits for other devices' keys and values
    double sends = 0;        ///< lanes wait for their copies
    double gradients = 0;    ///< exposed sums over replicas, including tied embeddings and gathered parameters
    double optimizer = 0;
    double program = 0;  ///< what the program adds once per step (TrainingProgram::step_ns)
    /// Lanes wait for others, or have no work yet or no more, by cause. Includes sums of gradients that end before the
    /// last lane stops computing: they are hidden.
    std::array<double, kNumBubbleCauses> bubbles{};

    double bubble() const;
};
/// Precondition: the step has its timeline and profile.
StepParts step_parts(const LayoutStep& step);

/// The step, for the trace of its pipeline (write_simulation()).
StepOnCluster step_on_cluster(const LayoutStep& step);
/// The pipeline's simulation with the options for which its memory was counted: a language model's layers include
/// recompute, and its optimizer's state is given in bytes.
Simulation as_counted(const LayoutStep& step);

/// A part with its name for JSON and for people.
struct NamedPart {
    std::string name;   ///< "compute"; for a bubble its cause: "next_partition"
    std::string about;  ///< "waits for the next partition"
    double share = 0;
    bool is_bubble = false;
};
/// All parts in the order of StepParts, the bubble by cause. Shares sum to 1.
std::vector<NamedPart> named_parts(const StepParts& parts);
/// "compute 71 %, recompute 18 %, bubble 6 %, ..": largest first, without parts below half a per cent. The bubble is
/// one part.
std::string to_string(const StepParts& parts);

/// Something that limits a step, and how long the step would be without it.
struct StepLimit {
    std::string name;  ///< "bubble", "memory", "recompute", "links of a node", "links between nodes", "optimizer",
                       ///< "host", "even cuts", "own cuts"
    double step_ns = 0;
    std::string remedy;
};
/// Simulates a layout on a cluster, with its memory, which may decide the cuts.
using LayoutSimulator = std::function<LayoutStep(const Cluster& cluster, const Layout& layout)>;
/// The limits of a layout's step, the largest gain first. Simulates free links for links, no recompute for memory
/// (which more memory would allow), no time to launch kernels for the host, and the quickest cuts for even and own
/// cuts. If the present memory allows no
/// recompute, recompute is the limit instead of memory. For the bubble and the optimizer, subtracts their time.
/// Precondition: as for step_parts().
std::vector<StepLimit> step_limits(const LayoutStep& step, const Cluster& cluster, const LayoutSimulator& simulate);
/// What cuts that are even, or were given, cost against the quickest ones, as a sentence; empty below 1 % of the step.
std::optional<std::string> cost_of_cuts(const LayoutStep& step, const std::vector<StepLimit>& limits);
/// Names what to change first, from step_limits(): the limit with the largest gain, and the memory that is left.
std::string next_constraint(const LayoutStep& step, const std::vector<StepLimit>& limits);
}  // namespace pipescope
