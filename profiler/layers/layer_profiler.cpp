#include "profiler/layers/layer_profiler.h"

#include "profiler/layers/layer_chain.h"
#include "profiler/layers/part_measurement.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/layers/profile_options.h"
#include "profiler/layers/task_launch.h"
#include "schedule/error.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
constexpr std::chrono::milliseconds kProgressPeriod{100};

void check(const ModelSpec& model, const ProfileOptions& options) {
    check_model_and_sizes(model, options.samples);
    if (options.co_running_lanes < 1) {
        throw UsageError("co-running lanes are " + std::to_string(options.co_running_lanes) +
                         "; the measured lane counts as one; give 1 or more");
    }
    if (!(options.time_limit_s > 0) || !(options.target_cv > 0)) {
        throw UsageError("the time limit is " + std::to_string(options.time_limit_s) + " s and the target error " +
                         std::to_string(options.target_cv) + "; both must be above 0; leave them at their defaults");
    }
}

int usable_cores() {
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// The model part by part, one after the other: as a whole, or layer by layer.
class ModelMeasurement {
public:
    ModelMeasurement(const ModelSpec& model, const ProfileOptions& options, std::atomic<double>& done)
        : model_(model), options_(options), done_(done) {}

    /// Runs on a thread of its own, as a lane does: malloc serves it as it serves a lane, and torch's thread count is
    /// this thread's alone.
    Profile run() {
        run_on_one_thread();
        Profile profile;
        profile.model = model_.name;
        profile.co_running_lanes = std::min(options_.co_running_lanes, usable_cores());
        profile.host_cores = usable_cores();
        profile.samples = options_.samples;
        profile.launch_ns = measure_task_launch();
        std::vector<Activation> starts;
        for (const std::int64_t size : options_.samples) {
            Batch batch = model_.make_batch(size, options_.seed);
            profile.input_bytes.push_back(input_bytes(batch.input));
            starts.push_back({std::move(batch.input), {}});
            targets_.push_back(std::move(batch.target));
        }
        const std::size_t count = options_.one_layer_at_a_time ? model_.layers.size() : 1;
        for (std::size_t part = 0; part < count; ++part) {
            MeasuredPart measured = measure_part(part_of(part, std::move(starts)), part_options(part, count, profile));
            starts = std::move(measured.ends);
            profile.optimizer_ns += measured.optimizer_ns;
            profile.step_cv = std::max(profile.step_cv, measured.step_cv);
            profile.loss_ns = std::move(measured.loss_ns);  // the last part's stays
            profile.loss_transient_bytes = std::move(measured.loss_transient_bytes);
            std::move(measured.layers.begin(), measured.layers.end(), std::back_inserter(profile.layers));
        }
        return profile;
    }

private:
    ModelPart part_of(std::size_t part, std::vector<Activation> starts) const {
        ModelPart result{model_, std::move(starts), targets_};
        if (options_.one_layer_at_a_time) {
            result.model.layers = {model_.layers[part]};
            if (part + 1 < model_.layers.size()) {
                result.model.loss = nullptr;
            }
        }
        return result;
    }

    PartOptions part_options(std::size_t part, std::size_t count, const Profile& profile) const {
        PartOptions options;
        options.lanes = profile.co_running_lanes;
        options.time_limit_s = options_.time_limit_s / static_cast<double>(count);
        options.target_error = options_.target_cv;
        options.seed = options_.seed;
        options.tapes = options_.tapes;
        options.progress = [this, part, count](double done) {
            done_ = (static_cast<double>(part) + done) / static_cast<double>(count);
        };
        return options;
    }

    const ModelSpec& model_;
    const ProfileOptions& options_;
    std::atomic<double>& done_;
    std::vector<Tensors> targets_;
};
}  // namespace

Profile profile_model(const ModelSpec& model, const ProfileOptions& options) {
    check(model, options);
    // Asked before another thread sets its own: the default of threads that start later follows whoever sets it last.
    const int threads_here = at::get_num_threads();
    std::atomic<double> done{0};
    ModelMeasurement measurement(model, options, done);
    std::future<Profile> profile = std::async(std::launch::async, [&] { return measurement.run(); });
    while (profile.wait_for(kProgressPeriod) != std::future_status::ready) {
        if (options.progress) {
            options.progress(done);
        }
    }
    at::set_num_threads(threads_here);
    Profile result = profile.get();
    if (options.progress) {
        options.progress(1);
    }
    return result;
}
}  // namespace pipescope
