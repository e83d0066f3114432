#pragma once

#include "schedule/schedules.h"
#include "simulator/simulation.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// A published configuration with the times of a stage, and published bubbles. Times in ms per micro-batch.
struct ZeroBubbleRow {
    std::string model;
    int lanes = 1;
    int micro_batches = 1;
    double forward = 0;
    double backward_input = 0;
    double backward_weight = 0;
    double copy = 0;
    double one_f_one_b = 0;
    double zero_bubble_h1 = 0;
    double zero_bubble_2p = 0;
};

/// Zero Bubble Pipeline Parallelism (arXiv 2401.10241), tables 5 and 9: A100-SXM-80G, Megatron-LM.
/// From benchmarks/published/zero_bubble.csv in that folder.
std::vector<ZeroBubbleRow> zero_bubble_rows(const std::filesystem::path& folder);

/// The schedule on the row's stages: a layer per lane, or two of half its times for schedules in a V. A layer keeps
/// kActivation bytes for its backward, or half of them, and nothing else.
Simulation simulated_row(const ZeroBubbleRow& row, const Schedule& schedule);
constexpr Bytes kActivation = 1'000'000;

/// (cost - work) / cost, as the paper defines it: cost is the longest time from the first to the last task of a lane,
/// which is shorter than the step if lanes start one after the other.
double bubble_of_lanes(const Simulation& simulation);
/// The longest time from the first to the last task of a lane, in ns.
double span_of_lanes(const Simulation& simulation);
/// Largest peak of a lane, in activations of one micro-batch through all of a lane's layers.
double most_activations(const Simulation& simulation);
}  // namespace pipescope
