#include "cli/torch/self_profile.h"

#include "base/thread_start.h"
#include "cli/stop_signals.h"
#include "models/model_files.h"

#include <set>
#include <string_view>
#include <utility>

namespace pipescope {
std::optional<std::filesystem::path> emulated_profile(const std::string& model) {
    if (!model.starts_with(kEmulatedPrefix)) {
        return std::nullopt;
    }
    return std::filesystem::path(model.substr(kEmulatedPrefix.size()));
}

std::optional<std::filesystem::path> file_of_model(const std::string& model) {
    for (const std::string_view suffix : {".so", ".pt", ".py"}) {
        if (const auto file = model_file(model, suffix)) {
            return file->path;
        }
    }
    return emulated_profile(model);
}

namespace {
constexpr int kRoundsOfATurn = 4;  // the first round of a turn starts with cold caches

ProfileOptions options_for_run(std::size_t num_layers, const PipelineOptions& pipeline, std::uint64_t seed) {
    const auto sizes = micro_batch_sizes(pipeline);
    const std::set<std::int64_t> distinct(sizes.begin(), sizes.end());
    ProfileOptions options;
    options.samples.assign(distinct.begin(), distinct.end());
    options.co_running_lanes = num_lanes(pipeline);
    if (pipeline.balance.num_layers() == num_layers) {  // otherwise the cuts are not known yet
        for (std::size_t j = 0; j < pipeline.balance.num_partitions(); ++j) {
            options.partition_ends.push_back(pipeline.balance.layers_of(PartitionId{j}).end.index());
        }
    }
    options.seed = seed;
    return options;
}
}  // namespace

Profile profile_for_run(const ModelSpec& model, const PipelineOptions& pipeline, std::uint64_t seed,
                        std::function<void(double done)> progress, std::vector<std::int64_t> output_dimensions) {
    ProfileOptions options = options_for_run(model.layers.size(), pipeline, seed);
    options.output_dimensions = std::move(output_dimensions);
    options.progress = [&](double done) {
        throw_if_stopped();
        progress(done);
    };
    return profile_model(model, options);
}

ProfileInTurns::ProfileInTurns(ModelSpec model, const PipelineOptions& pipeline, std::uint64_t seed)
    : model_(std::move(model)), options_(options_for_run(model_.layers.size(), pipeline, seed)) {
    options_.progress = [](double) { throw_if_stopped(); };
    options_.between_rounds = [this] { return next_round(); };
}

ProfileInTurns::~ProfileInTurns() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
}  // the future waits for its thread

void ProfileInTurns::take_turn() {
    std::unique_lock lock(mutex_);
    profiles_ = !is_over_;
    if (!profile_.valid()) {
        profile_ = start_work("the profiler", [this] {
            const auto end = [this] {
                const std::lock_guard at_end(mutex_);
                is_over_ = true;
                changed_.notify_all();
            };
            try {
                Profile profile = profile_model(model_, options_);
                end();
                return profile;
            } catch (...) {
                end();
                throw;
            }
        });
    }
    changed_.notify_all();
    changed_.wait(lock, [this] { return !profiles_ || is_over_; });
}

bool ProfileInTurns::next_round() {
    if (++rounds_ < kRoundsOfATurn) {
        return true;
    }
    rounds_ = 0;
    std::unique_lock lock(mutex_);
    profiles_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return profiles_ || is_over_; });
    return !is_over_;
}

Profile ProfileInTurns::finish() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
        changed_.notify_all();
    }
    return profile_.get();
}
}  // namespace pipescope
