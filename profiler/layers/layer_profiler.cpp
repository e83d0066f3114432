#include "profiler/layers/layer_profiler.h"

#include "profiler/layers/busy_lanes.h"
#include "profiler/layers/layer_bytes.h"
#include "profiler/layers/layer_chain.h"
#include "profiler/layers/repeats.h"
#include "profiler/memory/tracking_allocator.h"
#include "schedule/error.h"

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

// Long segments are what a partition is like; the limit only keeps models profilable that do not fit as a whole.
constexpr Bytes kSegmentBytes = Bytes{1} << 30;
constexpr std::size_t kMostRounds = 1000;
constexpr std::size_t kFewestRounds = 5;
constexpr int kOptimizerRepeats = 3;
constexpr std::chrono::milliseconds kProgressPeriod{100};

void check(const ModelSpec& model, const ProfileOptions& options) {
    const auto& samples = options.samples;
    if (model.layers.empty()) {
        throw UsageError("the model has no layers; a profile needs at least 1; add a layer");
    }
    if (samples.empty() || samples.front() < 1 ||
        std::adjacent_find(samples.begin(), samples.end(), std::greater_equal<>()) != samples.end()) {
        std::string list;
        for (const std::int64_t size : samples) {
            if (!list.empty()) {
                list += ',';
            }
            list += std::to_string(size);
        }
        throw UsageError("micro-batch sizes are '" + list +
                         "'; they must be whole numbers from 1 up, ascending; write them as 1,2,4");
    }
    if (options.co_running_lanes < 1) {
        throw UsageError("co-running lanes are " + std::to_string(options.co_running_lanes) +
                         "; the measured lane counts as one; give 1 or more");
    }
    if (!(options.time_limit_s > 0) || !(options.target_cv > 0)) {
        throw UsageError("the time limit is " + std::to_string(options.time_limit_s) + " s and the target error " +
                         std::to_string(options.target_cv) + "; both must be above 0; leave them at their defaults");
    }
    if (!tracking_allocator::installed()) {
        throw Error(
            "the tracking allocator is not installed; bytes cannot be measured without it; call "
            "tracking_allocator::install() before the first tensor is made");
    }
}

/// What the repeats at one micro-batch size gave.
struct SizeTimes {
    Repeats forward;
    Repeats recompute;
    Repeats backward;
    Repeats loss;
    // What the repeats come to, by layer; filled by finish().
    std::vector<double> forward_ns;
    std::vector<double> recompute_ns;
    std::vector<double> backward_ns;

    void add(const LayerTimes& times) {
        forward.add(times.forward);
        recompute.add(times.recompute);
        backward.add(times.backward);
        loss.add({times.loss});
    }
    void drop_warm_up() {
        for (Repeats* repeats : {&forward, &recompute, &backward, &loss}) {
            repeats->drop_warm_up();
        }
    }
    void finish() {
        drop_warm_up();
        forward_ns = forward.medians_to_sum();
        recompute_ns = recompute.medians_to_sum();
        backward_ns = backward.medians_to_sum();
    }
    double relative_error() const {
        return std::max({forward.relative_error(), recompute.relative_error(), backward.relative_error()});
    }
};

class Measurement {
public:
    Measurement(const ModelSpec& model, const ProfileOptions& options)
        : model_(model),
          options_(options),
          lanes_(
              std::min(options.co_running_lanes, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())))),
          start_(Clock::now()) {}

    /// Runs on a thread of its own, as a lane does: malloc serves it as it serves a lane, and torch's thread count is
    /// this thread's alone.
    Profile run() {
        run_on_one_thread();
        chain_.emplace(model_, options_.seed);
        measure_sizes();
        measure_times();
        Profile profile = assemble();
        profile.optimizer_ns = measure_optimizer();
        return profile;
    }

    double done() const { return std::min(1.0, elapsed() / options_.time_limit_s); }

private:
    double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

    void measure_sizes() {
        for (const std::int64_t size : options_.samples) {
            Batch batch = model_.make_batch(size, options_.seed);
            bytes_.push_back(measure_bytes(*chain_, batch));
            sizes_.push_back({std::move(batch), segments_below(bytes_.back().layers, kSegmentBytes)});
        }
    }

    // Sizes and layers take turns within a round, so that a slow moment of the machine falls on all of them.
    void measure_times() {
        times_.resize(sizes_.size());
        BusyLanes busy(model_, sizes_, options_.seed, lanes_ - 1);
        for (std::size_t round = 0; round < kMostRounds; ++round) {
            const double round_start = elapsed();
            for (std::size_t size = 0; size < sizes_.size(); ++size) {
                busy.set_size(size);
                times_[size].add(chain_->run(sizes_[size].batch, sizes_[size].segments, {}));
            }
            busy.check();
            const double now = elapsed();
            const bool no_time_left = now + (now - round_start) > options_.time_limit_s;
            if (no_time_left || (round + 1 >= kFewestRounds && relative_error() < options_.target_cv)) {
                break;
            }
        }
        for (SizeTimes& times : times_) {
            times.finish();
        }
    }

    double relative_error() const {
        double worst = 0;
        for (SizeTimes times : times_) {
            times.drop_warm_up();
            worst = std::max(worst, times.relative_error());
        }
        return worst;
    }

    // A step of size 0 costs what any step costs and leaves the parameters as they are.
    double measure_optimizer() {
        torch::optim::SGD optimizer(chain_->parameters(), torch::optim::SGDOptions(0));
        Repeats repeats;
        for (int repeat = 0; repeat <= kOptimizerRepeats; ++repeat) {
            const auto start = Clock::now();
            optimizer.step();
            repeats.add({std::chrono::duration<double, std::nano>(Clock::now() - start).count()});
        }
        repeats.drop_warm_up();
        return repeats.median(0);
    }

    Profile assemble() const {
        Profile profile;
        profile.model = model_.name;
        profile.co_running_lanes = lanes_;
        profile.samples = options_.samples;
        for (std::size_t size = 0; size < sizes_.size(); ++size) {
            double input_bytes = 0;
            for (const at::Tensor& tensor : sizes_[size].batch.input) {
                input_bytes += static_cast<double>(tensor.nbytes());
            }
            profile.input_bytes.push_back(input_bytes);
            profile.loss_ns.push_back(times_[size].loss.median(0));
            profile.loss_transient_bytes.push_back(static_cast<double>(bytes_[size].loss_transient));
        }
        for (std::size_t layer = 0; layer < chain_->size(); ++layer) {
            profile.layers.push_back(assemble_layer(layer));
        }
        return profile;
    }

    LayerProfile assemble_layer(std::size_t index) const {
        LayerProfile layer;
        layer.name = model_.layers[index].name;
        for (const auto& [name, parameter] : chain_->layer(index).parameters()) {
            layer.parameter_bytes += static_cast<Bytes>(parameter.nbytes());
            layer.gradient_bytes += parameter.grad().defined() ? static_cast<Bytes>(parameter.grad().nbytes()) : 0;
        }
        for (const auto& [name, buffer] : chain_->layer(index).buffers()) {
            layer.buffer_bytes += static_cast<Bytes>(buffer.nbytes());
        }
        for (std::size_t size = 0; size < sizes_.size(); ++size) {
            const SizeTimes& times = times_[size];
            layer.forward_ns.push_back(times.forward_ns.at(index));
            layer.recompute_ns.push_back(times.recompute_ns.at(index));
            layer.backward_ns.push_back(times.backward_ns.at(index));
            const LayerBytes& bytes = bytes_[size].layers[index];
            layer.output_bytes.push_back(static_cast<double>(bytes.output));
            layer.saved_bytes.push_back(static_cast<double>(bytes.saved));
            layer.transient_bytes.push_back(static_cast<double>(bytes.transient));
        }
        // One number for all sizes: that of the largest, where the clock's own noise is least.
        layer.forward_cv = times_.back().forward.coefficient_of_variation(index);
        layer.backward_cv = times_.back().backward.coefficient_of_variation(index);
        layer.keeps_input = bytes_.back().layers[index].keeps_input;
        layer.keeps_output = bytes_.back().layers[index].keeps_output;
        layer.aliases_input = bytes_.back().layers[index].aliases_input;
        return layer;
    }

    const ModelSpec& model_;
    const ProfileOptions& options_;
    const int lanes_;
    const Clock::time_point start_;
    std::optional<LayerChain> chain_;
    std::vector<ModelBytes> bytes_;  // by size
    std::vector<MeasuredSize> sizes_;
    std::vector<SizeTimes> times_;
};
}  // namespace

Profile profile_model(const ModelSpec& model, const ProfileOptions& options) {
    check(model, options);
    // Asked before another thread sets its own: the default of threads that start later follows whoever sets it last.
    const int threads_here = at::get_num_threads();
    Measurement measurement(model, options);
    std::future<Profile> profile = std::async(std::launch::async, [&] { return measurement.run(); });
    while (profile.wait_for(kProgressPeriod) != std::future_status::ready) {
        if (options.progress) {
            options.progress(measurement.done());
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
