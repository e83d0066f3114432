#pragma once

#include "engine/driver.h"
#include "engine/layer.h"
#include "simulator/pipeline_options.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// One row of the paper's table: a driver with some of its parts, and its results.
struct AblationRow {
    std::string name;
    Driver driver = Driver::autograd;
    AutogradParts parts = {};
    std::optional<std::string> skipped_because = {};  ///< not run: meaningless on these devices
    double samples_per_second = 0;                    ///< median over the rounds
    double utilization = 0;                           ///< 1 - bubble fraction, median over the rounds
    std::vector<Bytes> peak_bytes = {};               ///< per lane, maximum over the rounds
};

struct AblationPlan {
    PipelineOptions pipeline;
    std::int64_t rounds = 3;  ///< the rows alternate
    std::int64_t steps = 4;   ///< measured steps per turn, after one warm-up step
    std::uint64_t seed = 0;
    std::function<void(double done)> progress;
};

/// Trains the model with the parts of the paper's driver added one by one, and finally with the scheduled driver.
/// Precondition: the tracking allocator is installed. Source: torchgpipe (arXiv 2004.09910), table 1.
std::vector<AblationRow> run_ablation(const ModelSpec& model, const AblationPlan& plan);

nlohmann::ordered_json ablation_json(const std::string& model, const PipelineOptions& pipeline,
                                     const std::vector<AblationRow>& rows);
std::string ablation_text(const std::vector<AblationRow>& rows, bool markdown);
}  // namespace pipescope
