#pragma once

#include "benchmarks/experiments/validation.h"
#include "engine/layer.h"
#include "profiler/profile/profile.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace pipescope {
/// A range of pipelines for a model on the lanes of this host: even and uneven balances, few and many micro-batches,
/// all checkpoint modes. The profile gives the number of layers; `micro_batches` is at most `batch`.
std::vector<PipelineOptions> real_candidates(const CheckedProfile& profile, int lanes, std::int64_t micro_batches,
                                             std::int64_t batch);
/// The numbers of micro-batches of those, the requested one first.
std::vector<std::int64_t> real_chunks(std::int64_t micro_batches, std::int64_t batch);
/// Likewise for emulated layers, on up to 8 lanes with up to 32 micro-batches of one sample.
std::vector<PipelineOptions> emulated_candidates(const CheckedProfile& profile);

/// Records a run of each layout, `steps` after the warm-up, and calibrates the profile with all of them
/// (analysis/calibration.h). Throws Interrupted if a run was stopped. Precondition: the tracking allocator is
/// installed.
CheckedProfile calibrated_by_runs(const ModelSpec& model, const CheckedProfile& earlier,
                                  const std::vector<PipelineOptions>& layouts, std::int64_t steps, std::int64_t warmup,
                                  std::uint64_t seed);

struct ValidationPlan {
    std::vector<PipelineOptions> candidates;
    std::int64_t rounds = 3;  ///< each round runs every candidate once
    std::int64_t steps = 5;   ///< measured steps per run, after one or two of warm-up
    std::int64_t warmup = 2;
    bool emulated = false;
    std::uint64_t seed = 0;
    /// The profile for a candidate's prediction, requested right before each of its runs, because machines change
    /// during a measurement.
    std::function<Profile(const PipelineOptions& candidate)> profile;
    std::function<void(double done)> progress;
    /// Called before each profile and after each run. Once it returns true, nothing more is run, and a run that it
    /// interrupted does not count. May be empty.
    std::function<bool()> stop;
};

/// Predicts and runs every candidate in every round. If stopped early, candidates may have different numbers of runs,
/// or none. Precondition: the tracking allocator is installed.
std::vector<ValidatedCandidate> validate(const ModelSpec& model, const ValidationPlan& plan);
}  // namespace pipescope
