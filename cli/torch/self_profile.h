#pragma once

#include "engine/layer.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/profile/profile.h"
#include "simulator/simulation.h"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The profile file of "emulated:FILE"; empty for other models.
std::optional<std::filesystem::path> emulated_profile(const std::string& model);

/// The file behind a MODEL: a profile, a .so, a .pt or a .py; empty for built-in models and modules of Python.
std::optional<std::filesystem::path> file_of_model(const std::string& model);

/// Profiles the model under the pipeline's conditions: its micro-batch sizes, and equally many busy lanes.
/// `output_dimensions`: ProfileOptions::output_dimensions.
Profile profile_for_run(const ModelSpec& model, const PipelineOptions& pipeline, std::uint64_t seed,
                        std::function<void(double done)> progress, std::vector<std::int64_t> output_dimensions = {});

/// profile_for_run() in turns with other work, so that both meet the same machine even if its speed changes from second
/// to second. Threading: all calls from one thread. The other work runs on it, while a thread of the profile waits.
class ProfileInTurns {
public:
    /// Copies `model` and `pipeline`. Starts nothing yet.
    ProfileInTurns(ModelSpec model, const PipelineOptions& pipeline, std::uint64_t seed);
    ~ProfileInTurns();
    ProfileInTurns(const ProfileInTurns&) = delete;
    ProfileInTurns& operator=(const ProfileInTurns&) = delete;

    /// Gives the profile its turn. Returns after a few of its rounds, or at once if it failed.
    void take_turn();
    /// Returns the profile, after at least one turn. Throws the profile's exception, or Interrupted.
    Profile finish();

private:
    bool next_round();  // on the profile's thread

    const ModelSpec model_;
    ProfileOptions options_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool profiles_ = false;  // mutex_ guards this and the next member
    bool is_over_ = false;
    int rounds_ = 0;  // in this turn; used only by the profile's thread
    std::future<Profile> profile_;
};
}  // namespace pipescope
