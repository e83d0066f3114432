#include "profiler/layers/layer_profiler.h"

#include "base/error.h"
#include "base/quantities.h"
#include "base/thread_start.h"
#include "engine/cores/usable_cores.h"
#include "engine/device/lane_device.h"
#include "profiler/layers/free_memory.h"
#include "profiler/layers/layer_chain.h"
#include "profiler/layers/part_measurement.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/layers/task_launch.h"
#include "profiler/recorder/load_meter.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
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
    const std::vector<std::int64_t>& batches = options.batches;
    if ((!batches.empty() && batches.front() < 1) ||
        std::adjacent_find(batches.begin(), batches.end(), std::greater_equal<>()) != batches.end()) {
        throw UsageError("the mini-batch sizes do not ascend from 1 up, each once; sort them");
    }
    if (!(options.time_limit_s > 0) || !(options.target_cv > 0)) {
        throw UsageError("the time limit is " + std::to_string(options.time_limit_s) + " s and the target error " +
                         std::to_string(options.target_cv) + "; both must be above 0; leave them at their defaults");
    }
}

int lanes_of(const ProfileOptions& options, c10::Device device) {
    return device.is_cpu() ? std::min(options.co_running_lanes, usable_cores()) : 1;
}

/// Why the model cannot be measured as a whole; empty if no reason is known.
std::string why_layer_by_layer(const ModelSpec& model, const ProfileOptions& options, c10::Device device) {
    const std::optional<Bytes> parameters = parameter_bytes_of(model);
    const std::optional<Bytes> limit =
        options.memory_limit > 0 ? std::optional(options.memory_limit) : free_memory(device);
    const int lanes = lanes_of(options, device);
    constexpr Bytes kWithGradients = 2;
    if (!parameters || !limit || kWithGradients * lanes * *parameters <= *limit) {
        return {};
    }
    return "parameters and gradients of " + counted(lanes, "busy lane", "busy lanes") + " take " +
           format_bytes(kWithGradients * lanes * *parameters) + " and " + format_bytes(*limit) +
           " are free; measuring one layer at a time";
}

Tensors moved(const Tensors& tensors, c10::Device device) {
    Tensors there;
    for (const at::Tensor& tensor : tensors) {
        there.push_back(tensor.to(device));
    }
    return there;
}

/// Combines the parts' slowdowns, weighted by their share of the time.
class SlowdownOfParts {
public:
    void add(const MeasuredPart& part) {
        if (part.co_running_slowdown.empty()) {
            return;
        }
        sums_.resize(std::max(sums_.size(), part.co_running_slowdown.size()), 0);
        const double alone_ns = part.pass_ns / part.co_running_slowdown.back();
        weight_ += alone_ns;
        for (std::size_t k = 0; k < part.co_running_slowdown.size(); ++k) {
            sums_[k] += alone_ns * part.co_running_slowdown[k];
        }
    }
    PerLane result() const {
        PerLane slowdown = sums_;
        for (double& each : slowdown) {
            each /= weight_;
        }
        return weight_ > 0 ? slowdown : PerLane{};
    }

private:
    PerLane sums_;
    double weight_ = 0;
};

/// Measures the model part by part: as a whole, or layer by layer.
class ModelMeasurement {
public:
    ModelMeasurement(const ModelSpec& model, const ProfileOptions& options, c10::Device device,
                     std::atomic<double>& done, const std::atomic<bool>& given_up)
        : model_(model), options_(options), device_(device), done_(done), given_up_(given_up) {}

    /// Runs on its own thread, like a lane, so that malloc serves it like a lane and torch's thread count applies to
    /// this thread only.
    Profile run() {
        run_on_one_thread();
        const LaneDevice lane(device_);
        const OnLaneDevice here(lane);
        Profile profile;
        profile.model = model_.name;
        profile.device = device_.str();
        profile.co_running_lanes = lanes_of(options_, device_);
        profile.host_cores = usable_cores();
        profile.samples = options_.samples;
        profile.launch_ns = measure_task_launch(device_);
        std::vector<Activation> starts;
        for (const std::int64_t size : options_.samples) {
            Batch batch = model_.make_batch(size, options_.seed);
            profile.input_bytes.push_back(input_bytes(batch.input));
            profile.token_input = holds_tokens(batch.input);
            profile.tokens_per_sample = tokens_per_sample(batch.input);
            starts.push_back({moved(batch.input, device_), {}});
            targets_.push_back(moved(batch.target, device_));
        }
        SlowdownOfParts slowdown;
        DtypeBytes dtypes;
        const std::size_t count = options_.one_layer_at_a_time ? model_.layers.size() : 1;
        for (std::size_t part = 0; part < count; ++part) {
            MeasuredPart measured = measure_part(part_of(part, std::move(starts)), part_options(part, count, profile));
            starts = std::move(measured.ends);
            profile.optimizer_ns += measured.optimizer_ns;
            profile.step_cv = std::max(profile.step_cv, measured.step_cv);
            profile.lane_cv = std::max(profile.lane_cv, measured.lane_cv);
            profile.loss_ns = std::move(measured.loss_ns);  // the last part's remains
            profile.loss_operators = std::move(measured.loss_operators);
            profile.loss_chains = std::move(measured.loss_chains);
            profile.loss_transient_bytes = std::move(measured.loss_transient_bytes);
            profile.loss_all_gradients_transient_bytes = std::move(measured.loss_all_gradients_transient_bytes);
            profile.loss_batch = std::move(measured.loss_batch);
            slowdown.add(measured);
            for (const auto& [dtype, bytes] : measured.dtypes) {
                dtypes[dtype] += bytes;
            }
            std::move(measured.layers.begin(), measured.layers.end(), std::back_inserter(profile.layers));
        }
        profile.co_running_slowdown = slowdown.result();
        profile.dtype = main_dtype(dtypes);
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
        options.device = device_;
        options.batches = options_.batches;
        options.output_dimensions = options_.output_dimensions;
        options.lanes = profile.co_running_lanes;
        options.time_limit_s = options_.time_limit_s / static_cast<double>(count);
        options.target_error = options_.target_cv;
        options.seed = options_.seed;
        options.tapes = options_.tapes;
        options.partition_ends = count == 1 ? options_.partition_ends : std::vector<std::size_t>{};
        options.between_rounds = options_.between_rounds;
        options.progress = [this, part, count](double done) {
            if (given_up_) {
                throw Error("the profile was given up");
            }
            done_ = (static_cast<double>(part) + done) / static_cast<double>(count);
        };
        return options;
    }

    const ModelSpec& model_;
    const ProfileOptions& options_;
    c10::Device device_;
    std::atomic<double>& done_;
    const std::atomic<bool>& given_up_;
    std::vector<Tensors> targets_;
};
}  // namespace

Profile profile_model(const ModelSpec& model, const ProfileOptions& asked) {
    check(model, asked);
    const c10::Device device = usable_device(asked.device);
    ProfileOptions options = asked;
    if (!options.one_layer_at_a_time) {
        const std::string why = why_layer_by_layer(model, options, device);
        options.one_layer_at_a_time = !why.empty();
        if (!why.empty() && options.announce) {
            options.announce(why);
        }
    }
    if (options.one_layer_at_a_time && options.between_rounds) {
        throw Error("the model is measured one layer at a time, which leaves no turns between the rounds; free memory");
    }
    // Ask before another thread sets its own: threads that start later get the number that was set last.
    const int threads_here = at::get_num_threads();
    const LoadMeter meter(usable_core_numbers());
    std::atomic<double> done{0};
    std::atomic<bool> given_up{false};
    ModelMeasurement measurement(model, options, device, done, given_up);
    std::future<Profile> profile = start_work("the profiler", [&] { return measurement.run(); });
    while (profile.wait_for(kProgressPeriod) != std::future_status::ready) {
        if (options.progress) {
            try {
                options.progress(done);
            } catch (...) {
                given_up = true;  // its exception is rethrown once the measuring thread has noticed
                profile.wait();
                at::set_num_threads(threads_here);
                throw;
            }
        }
    }
    at::set_num_threads(threads_here);
    Profile result = profile.get();
    result.load = meter.load();
    if (options.progress) {
        options.progress(1);
    }
    return result;
}
}  // namespace pipescope
