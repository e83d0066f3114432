#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// A batch that grows at the start of a run, as with Megatron-LM's --rampup-batch-size: from `start` samples by
/// `increment` at a time, after equal numbers of samples, until the full batch after `samples` samples.
struct BatchRamp {
    std::int64_t start = 1;
    std::int64_t increment = 1;
    std::int64_t samples = 0;

    friend bool operator==(const BatchRamp&, const BatchRamp&) = default;
};
/// Parses "32,32,1e6". Throws UsageError.
BatchRamp parse_batch_ramp(const std::string& text);
/// Throws UsageError unless increments lead from the start to the batch, in at most 1000.
void check_ramp(const BatchRamp& ramp, std::int64_t batch);

/// Consecutive steps of a run with the same batch.
struct RunPart {
    std::int64_t batch = 1;
    double steps = 0;
    double step_ns = 0;  ///< if known
};
/// The batches of the ramp, ascending; the last one is the full batch. Precondition: check_ramp() passes.
std::vector<std::int64_t> ramp_batches(const BatchRamp& ramp, std::int64_t batch);
/// The parts of a run of that many samples (rounded up to whole steps), or of that many steps; the other number is
/// infinite. The batch of a step follows from the samples before it: Megatron-LM,
/// megatron/core/num_microbatches_calculator.py, RampupBatchsizeNumMicroBatchesCalculator. Precondition: check_ramp()
/// passes.
std::vector<RunPart> run_parts(const BatchRamp& ramp, std::int64_t batch, double samples, double steps);
}  // namespace pipescope
