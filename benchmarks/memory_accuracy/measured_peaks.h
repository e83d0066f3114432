#pragma once

#include "benchmarks/memory_accuracy/random_models.h"
#include "profiler/profile/profile.h"
#include "schedule/memory_category.h"
#include "schedule/timeline.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Bytes of one lane in a run: counted by the tracking allocator, and computed by the memory model at the measured
/// instants, so that errors of time do not matter.
struct LanePeak {
    Bytes counted = 0;
    Bytes modelled = 0;
    MemoryBreakdown counted_parts;   ///< at the peak
    MemoryBreakdown modelled_parts;  ///< at the peak

    /// 0 for a lane that holds nothing, and is said to.
    double error() const {
        return modelled == counted ? 0 : static_cast<double>(modelled) / static_cast<double>(counted) - 1;
    }
};

/// The samples behind the peaks, of the steps that count: to find the task at which the two part.
struct PeakTrace {
    std::vector<MemorySample> counted;
    std::vector<MemorySample> modelled;  ///< step by step; their tasks have the number of the measured step
};

/// Runs a few steps on CPU lanes. `profile` must be of the same model. Empty if the model refuses the cut, because a
/// checkpointed partition would start with a layer that changes its input in place. Fills
/// `trace` unless it is null.
std::optional<std::vector<LanePeak>> lane_peaks(const ModelSpec& model, const Profile& profile,
                                                const PipelineOptions& options, PeakTrace* trace = nullptr);

/// One pipeline per schedule and checkpoint mode, random by seed.
std::vector<PipelineOptions> random_pipelines(const RandomModel& model, std::uint64_t seed);

/// Distinct micro-batch sizes of the pipelines, ascending.
std::vector<std::int64_t> micro_batches_of(const std::vector<PipelineOptions>& pipelines);

/// "1f1b always 4,3 m 4 batch 8".
std::string describe(const PipelineOptions& options);
}  // namespace pipescope
