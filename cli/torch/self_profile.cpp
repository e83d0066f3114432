#include "cli/torch/self_profile.h"

#include "cli/stop_signals.h"
#include "models/model_files.h"
#include "profiler/layers/layer_profiler.h"
#include "schedule/micro_batches.h"

#include <set>
#include <string_view>
#include <utility>

namespace pipescope {
std::optional<std::filesystem::path> emulated_profile(const std::string& model) {
    constexpr std::string_view kPrefix = "emulated:";
    if (!std::string_view(model).starts_with(kPrefix)) {
        return std::nullopt;
    }
    return std::filesystem::path(model.substr(kPrefix.size()));
}

std::optional<std::filesystem::path> file_of_model(const std::string& model) {
    for (const std::string_view suffix : {".so", ".pt"}) {
        if (const auto file = model_file(model, suffix)) {
            return file->path;
        }
    }
    return emulated_profile(model);
}

Profile profile_for_run(const ModelSpec& model, const PipelineOptions& pipeline, std::uint64_t seed,
                        std::function<void(double done)> progress) {
    const auto sizes = micro_batch_sizes(pipeline.batch, pipeline.chunks);
    const std::set<std::int64_t> distinct(sizes.begin(), sizes.end());
    ProfileOptions options;
    options.samples.assign(distinct.begin(), distinct.end());
    options.co_running_lanes = num_lanes(pipeline);
    options.seed = seed;
    options.progress = [&](double done) {
        throw_if_stopped();
        progress(done);
    };
    return profile_model(model, options);
}
}  // namespace pipescope
