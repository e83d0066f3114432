#pragma once

#include "analysis/validation.h"
#include "balance/profile.h"
#include "engine/layer.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace pipescope {
/// A spread of pipelines for a model on the lanes of this host: even and uneven balances, few and many micro-batches,
/// every checkpoint mode. `layers` is the model's, `micro_batches` at most `batch`.
std::vector<PipelineOptions> real_candidates(const Profile& profile, int lanes, std::int64_t micro_batches,
                                             std::int64_t batch);
/// The same for emulated layers, on up to 8 lanes with up to 32 micro-batches of one sample.
std::vector<PipelineOptions> emulated_candidates(const Profile& profile);

struct ValidationPlan {
    std::vector<PipelineOptions> candidates;
    std::int64_t rounds = 3;  ///< each runs every candidate once, in turn
    std::int64_t steps = 5;   ///< measured in a run, behind one or two of warm-up
    std::int64_t warmup = 2;
    bool emulated = false;
    std::uint64_t seed = 0;
    /// What a candidate is predicted from, asked right before each of its runs: machines change while one measures.
    std::function<Profile(const PipelineOptions& candidate)> profile;
    std::function<void(double done)> progress;
    /// Asked before each profile and after each run; once it says so, no more is run, and a run that it cut short does
    /// not count. May be empty.
    std::function<bool()> stop;
};

/// Predicts and runs every candidate in every round; stopped early, some have fewer runs than others, or none.
/// Precondition: the tracking allocator is installed.
std::vector<ValidatedCandidate> validate(const ModelSpec& model, const ValidationPlan& plan);
}  // namespace pipescope
