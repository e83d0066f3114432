#include "profiler/layers/part_measurement.h"

#include "engine/device_memory.h"
#include "profiler/layers/batch_loss.h"
#include "profiler/layers/busy_lanes.h"
#include "profiler/layers/lane_slowdown.h"
#include "profiler/layers/layer_bytes.h"
#include "profiler/layers/layer_chain.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/layers/repeats.h"
#include "profiler/layers/size_times.h"
#include "profiler/layers/tape_recording.h"

#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

// Long segments resemble a partition. The limit only allows profiling of models that do not fit as a whole.
constexpr Bytes kSegmentBytes = Bytes{1} << 30;
constexpr Bytes kPartOfFreeDevice = 4;
constexpr int kOptimizerRepeats = 3;
constexpr double kPartForHalves = 0.25;
constexpr int kFewestHalves = 3;
constexpr int kMostHalves = 100;

/// Start and end of a pass at a size.
struct PassMoments {
    Clock::time_point start;
    Clock::time_point end;
};

class PartMeasurement {
public:
    PartMeasurement(const ModelPart& part, const PartOptions& options)
        : part_(part),
          options_(options),
          chain_(part.model, options.seed, options.device),
          start_(Clock::now()),
          slowdown_(options.lanes) {}

    MeasuredPart run() {
        measure_sizes();
        measure_times();
        MeasuredPart measured = assemble();
        measured.optimizer_ns = with_busy_lanes(measure_optimizer());
        return measured;
    }

private:
    /// Time so far, without the other work that takes turns with the rounds.
    double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_ - waited_).count(); }

    void measure_sizes() {
        for (std::size_t size = 0; size < part_.starts.size(); ++size) {
            LayerWalk walk(part_.starts[size]);
            std::vector<Activation> before;
            for (std::size_t layer = 0; layer < chain_.size(); ++layer) {
                if (options_.tapes) {
                    before.push_back(walk.activation());
                }
                walk.next(chain_, layer);
            }
            tapes_.push_back(record_tapes(chain_, before, part_.targets[size]));
            walk.loss(chain_, part_.targets[size]);
            bytes_.push_back(walk.bytes());
            ends_.push_back(walk.activation());
            sizes_.push_back({part_.starts[size], part_.targets[size], segments()});
        }
    }

    /// Segments as a lane runs its partition, or shorter if that is too large.
    std::vector<std::size_t> segments() const {
        std::vector<std::size_t> ends = segments_below(bytes_.back().layers, segment_bytes());
        ends.insert(ends.end(), options_.partition_ends.begin(), options_.partition_ends.end());
        std::ranges::sort(ends);
        const auto repeated = std::ranges::unique(ends);
        ends.erase(repeated.begin(), repeated.end());
        return ends;
    }

    Bytes segment_bytes() const {
        const std::optional<DeviceMemory> memory = device_memory(options_.device);
        return memory && memory->free > 0 ? memory->free / kPartOfFreeDevice : kSegmentBytes;
    }

    // Sizes and layers take turns within a round, so that a slow moment of the machine affects all of them.
    void measure_times() {
        times_.resize(sizes_.size());
        BusyLanes busy(part_.model, sizes_, options_.seed, options_.lanes - 1);
        if (options_.between_rounds) {
            measure_in_turns(busy);
        } else {
            repeat_rounds(
                {.target_error = options_.target_error, .time_limit_s = options_.time_limit_s},
                [&] { return elapsed(); }, [&](std::size_t round) { measure_round(round, busy); },
                [&] { return relative_error(); });
        }
        measure_halves(busy);
        std::vector<double> others;
        for (const PassMoments& pass : largest_) {
            others.push_back(busy.pass_over_mean(pass.start, pass.end, sizes_.size() - 1));
        }
        for (std::size_t size = 0; size < times_.size(); ++size) {
            times_[size].finish(size + 1 == times_.size() ? std::move(others) : std::vector<double>{},
                                std::max(1, busy.count()));
            times_[size].average_with(busy.mean_passes(size));
        }
        if (chain_.has_loss()) {
            measure_batch_loss(busy);
        }
        busy.check();
    }

    /// A step computes this loss while no lane has other work. Converted by with_busy_lanes().
    void measure_batch_loss(BusyLanes& busy) {
        let_busy(busy, 0);
        loss_batch_ = time_batch_loss(
            {chain_, part_.model, part_.starts.back().tensors, ends_.back().tensors, options_.output_dimensions},
            options_.batches, options_.seed);
        let_busy(busy, busy.count());
        for (double& ns : loss_batch_.ns) {
            ns = with_busy_lanes(ns);
        }
    }

    /// Converts a time of a lane alone to a time with all lanes busy, which all times of a profile are. A simulation
    /// converts it back.
    double with_busy_lanes(double ns) const {
        const PerLane slowdown = slowdown_.slowdown();
        return slowdown.empty() ? ns : ns * slowdown.back();
    }

    /// Measures backwards in two halves, for a quarter of the time of the whole ones. Leaves them out if layers share a
    /// graph behind their weights, which cannot run separately for each layer.
    void measure_halves(BusyLanes& busy) {
        try {
            run_halves(busy);
            has_halves_ = true;
        } catch (const c10::Error&) {
            has_halves_ = false;
        }
    }

    void run_halves(BusyLanes& busy) {
        const double until = elapsed() * (1 + kPartForHalves);
        for (int round = 0; round <= kFewestHalves || (round < kMostHalves && elapsed() < until); ++round) {
            for (std::size_t size = 0; size < sizes_.size(); ++size) {
                busy.set_size(size);
                const SplitTimes times = chain_.run_split(sizes_[size].start, sizes_[size].segments);
                if (round > 0) {  // the first is a warm-up
                    times_[size].add(times);
                }
            }
            busy.check();
        }
    }

    void measure_in_turns(BusyLanes& busy) {
        bool goes_on = true;
        for (std::size_t round = 0; goes_on; ++round) {
            measure_round(round, busy);
            let_busy(busy, 0);
            const Clock::time_point ready = Clock::now();
            goes_on = options_.between_rounds();
            waited_ += Clock::now() - ready;
            let_busy(busy, busy.count());
        }
    }

    void measure_round(std::size_t round, BusyLanes& busy) {
        double largest_ns = 0;
        for (std::size_t size = 0; size < sizes_.size(); ++size) {
            busy.set_size(size);
            const Clock::time_point start = Clock::now();
            const LayerTimes times = pass(size);
            if (size + 1 == sizes_.size()) {
                largest_.push_back({start, Clock::now()});
            }
            largest_ns = times.total();
            times_[size].add(times);
        }
        if (busy.count() > 0 && round % 2 == 1) {  // the first round is a warm-up
            run_with_fewer_busy(busy, largest_ns);
        }
        busy.check();
        if (options_.progress) {
            options_.progress(std::min(1.0, elapsed() / options_.time_limit_s));
        }
    }

    LayerTimes pass(std::size_t size, const std::stop_token& stop = {}) {
        return chain_.run(sizes_[size].start, sizes_[size].target, sizes_[size].segments, stop);
    }

    void let_busy(BusyLanes& busy, int count) {
        busy.set_busy(count, [this](const std::stop_token& stop) { pass(sizes_.size() - 1, stop); });
    }

    void run_with_fewer_busy(BusyLanes& busy, double all_ns) {
        let_busy(busy, slowdown_.next_busy() - 1);
        slowdown_.add(pass(sizes_.size() - 1).total(), all_ns);
        let_busy(busy, busy.count());
    }

    double relative_error() const {
        double worst = 0;
        for (const SizeTimes& times : times_) {
            worst = std::max(worst, times.relative_error());
        }
        return worst;
    }

    // A step with learning rate 0 costs as much as any step and leaves the parameters unchanged.
    double measure_optimizer() {
        const std::vector<at::Tensor> parameters = chain_.parameters();
        if (parameters.empty()) {
            return 0;
        }
        torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0));
        const DeviceClock clock(options_.device);
        double sum = 0;
        for (int repeat = 0; repeat <= kOptimizerRepeats; ++repeat) {
            const Instant start = clock.now();
            optimizer.step();
            sum += repeat > 0 ? DeviceClock::nanoseconds(start, clock.now()) : 0;  // the first is a warm-up
        }
        return sum / kOptimizerRepeats;
    }

    MeasuredPart assemble() {
        MeasuredPart measured;
        measured.ends = std::move(ends_);
        measured.loss_batch = std::move(loss_batch_);
        measured.co_running_slowdown = slowdown_.slowdown();
        measured.pass_ns = times_.back().pass_ns();
        for (std::size_t size = 0; size < sizes_.size(); ++size) {
            measured.loss_ns.push_back(times_[size].loss_ns());
            measured.loss_operators.push_back(bytes_[size].loss_work);
            measured.loss_chains.push_back(bytes_[size].loss_chains);
            measured.loss_transient_bytes.push_back(static_cast<double>(bytes_[size].loss_transient));
            if (const auto all = bytes_[size].all_gradients_loss_transient) {
                measured.loss_all_gradients_transient_bytes.push_back(static_cast<double>(*all));
            }
        }
        for (std::size_t layer = 0; layer < chain_.size(); ++layer) {
            measured.layers.push_back(assemble_layer(layer));
            add_dtypes(chain_.layer(layer), measured.dtypes);
        }
        measured.step_cv = times_.back().step_cv();
        measured.lane_cv = times_.back().lane_cv();
        return measured;
    }

    LayerProfile assemble_layer(std::size_t index) const {
        LayerProfile layer = described_layer(part_.model.layers[index].name, chain_.layer(index));
        for (std::size_t size = 0; size < sizes_.size(); ++size) {
            const SizeTimes& times = times_[size];
            layer.forward_ns.push_back(times.forward_ns(index));
            layer.recompute_ns.push_back(times.recompute_ns(index));
            layer.graph_forward_ns.push_back(times.recompute_ns(index));  // both keep a graph
            layer.backward_ns.push_back(times.backward_ns(index));
            if (has_halves_) {
                layer.backward_weight_ns.push_back(times.backward_weight_ns(index));
            }
            append_bytes(layer, bytes_[size].layers[index]);
            if (options_.tapes) {
                layer.tape.push_back(tapes_[size][index]);
            }
        }
        // One number for all sizes: the largest size's, where the clock's own noise is smallest.
        layer.forward_cv = times_.back().forward_cv(index);
        layer.backward_cv = times_.back().backward_cv(index);
        return layer;
    }

    const ModelPart& part_;
    const PartOptions& options_;
    LayerChain chain_;
    const Clock::time_point start_;
    Clock::duration waited_{0};
    std::vector<ModelBytes> bytes_;  // by size, like the following members
    std::vector<MeasuredSize> sizes_;
    std::vector<SizeTimes> times_;
    std::vector<PassMoments> largest_;  // passes at the largest size
    std::vector<std::vector<LayerTape>> tapes_;
    std::vector<Activation> ends_;
    LaneSlowdown slowdown_;
    bool has_halves_ = false;
    BatchLoss loss_batch_;
};
}  // namespace

MeasuredPart measure_part(const ModelPart& part, const PartOptions& options) {
    return PartMeasurement(part, options).run();
}
}  // namespace pipescope
