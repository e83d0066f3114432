// End-to-end cost of recording a training step. One pipeline in one process alternates between steps with full
// recording (ranges, each lane's memory and its composition, SQLite) and steps without any, on torch's own allocator. A
// pair is two neighbouring steps in random order, so that slow phases of the machine affect both. The figure is the
// trimmed mean of the logarithms of the pairs' ratios, with a bootstrap confidence interval.
//
// The drain thread writes once after each recorded step, so each step pays only for its own rows, and their cost can be
// separated. Processor time includes all threads. Step plus writing is the time of a step if the drain thread had no
// core of its own and the lanes no idle time: the maximum cost of recording.
//
//     recording_cost_benchmark [MODEL [PAIRS]]

#include "base/sample_statistics.h"
#include "engine/gpipe.h"
#include "engine/task_observer.h"
#include "models/zoo.h"
#include "profiler/memory/lane_memory.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/recorder/recorder.h"
#include "profiler/recorder/recording.h"

#include <c10/core/CPUAllocator.h>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr int kWarmUpPairs = 10;
constexpr int kResamples = 2000;
constexpr std::int64_t kBatch = 32;

double seconds_of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Receives tasks in recorded steps only.
class Switched : public TaskObserver {
public:
    explicit Switched(TaskObserver& next) : next_(next) {}
    void set_on(bool on) { is_on_ = on; }

    void placed(const at::Tensor& tensor, LaneId lane) override { next_.placed(tensor, lane); }
    void task_started(const TaskKey& key, LaneId lane) override {
        if (is_on_) {
            next_.task_started(key, lane);
        }
    }
    void task_ended(const TaskKey& key, LaneId lane) override {
        if (is_on_) {
            next_.task_ended(key, lane);
        }
    }
    void moved(const at::Tensor& tensor, LaneId to) override {
        if (is_on_) {
            next_.moved(tensor, to);
        }
    }
    void kept(const at::Tensor& gradient, LaneId lane) override {
        if (is_on_) {
            next_.kept(gradient, lane);
        }
    }

private:
    TaskObserver& next_;
    std::atomic<bool> is_on_{false};  // changes only between steps
};

/// Costs of a step in seconds.
struct StepCost {
    double step = 0;       ///< wall time until the step returned
    double written = 0;    ///< wall time until its rows were in the file
    double processor = 0;  ///< CPU time of all threads until then
};

class Trainer {
public:
    explicit Trainer(const std::string& model) : model_(make_model(model)) {}
    ~Trainer() {
        recorder_.stop();
        std::filesystem::remove(path());
    }
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    StepCost step(bool recorded) {
        // Blocks know their own deleter, so the allocators can be swapped between steps.
        c10::SetCPUAllocator(recorded ? tracking_ : c10::GetDefaultCPUAllocator(), /*priority=*/1);
        observer_.set_on(recorded);
        running_recording = recorded ? recording_ : 0;  // as before a recorder existed
        StepCost cost;
        const double processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        const double start = seconds_of(CLOCK_MONOTONIC);
        const Nanoseconds step_start = recorder_.now();
        pipeline_.step(batch_.input, batch_.target, model_.loss);
        cost.step = seconds_of(CLOCK_MONOTONIC) - start;
        if (recorded) {
            recorder_.add_step({.step = static_cast<std::int32_t>(steps_++), .start = step_start});
            recorder_.flush();
        }
        cost.written = seconds_of(CLOCK_MONOTONIC) - start;
        cost.processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor;
        return cost;
    }

private:
    static std::filesystem::path path() {
        return std::filesystem::temp_directory_path() / "pipescope-recording-cost.sqlite";
    }
    GPipeOptions options() {
        const auto half = static_cast<std::int64_t>(model_.layers.size() / 2);
        return {.balance = {half, static_cast<std::int64_t>(model_.layers.size()) - half},
                .devices = {"cpu", "cpu"},
                .chunks = 8,
                .observer = &observer_};
    }

    ModelSpec model_;
    c10::Allocator* const tracking_ = c10::GetCPUAllocator();
    Recorder recorder_{
        {.path = path(), .if_exists = IfExists::replace, .drain_period = std::chrono::hours{1}}};  // flush() drains
    const std::uint64_t recording_ = running_recording;
    LaneMemory memory_{[this] { return recorder_.now(); },
                       [this](const MemorySample& sample) { recorder_.add_memory(sample); }};
    Switched observer_{memory_};
    GPipe pipeline_{model_, options()};
    const Batch batch_ = model_.make_batch(kBatch, 0);
    std::int64_t steps_ = 0;
};

/// Mean of the middle half: as robust as a median against steps disturbed by other programs, and more precise.
double trimmed_mean(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto cut = static_cast<std::ptrdiff_t>(values.size() / 4);
    const double sum = std::accumulate(values.begin() + cut, values.end() - cut, 0.0);
    return sum / static_cast<double>(values.size() - 2 * static_cast<std::size_t>(cut));
}

void report(const char* name, const std::vector<StepCost>& plain, const std::vector<StepCost>& recorded,
            double StepCost::*without, double StepCost::*with) {
    std::vector<double> plain_values;
    std::vector<double> ratios;
    for (std::size_t k = 0; k < plain.size(); ++k) {
        plain_values.push_back(plain[k].*without);
        ratios.push_back(std::log(recorded[k].*with / plain[k].*without));
    }
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::size_t> pick(0, ratios.size() - 1);
    std::vector<double> means;
    for (int resample = 0; resample < kResamples; ++resample) {
        std::vector<double> sample(ratios.size());
        std::generate(sample.begin(), sample.end(), [&] { return ratios[pick(random)]; });
        means.push_back(trimmed_mean(std::move(sample)));
    }
    std::sort(means.begin(), means.end());
    const auto percent = [](double log_ratio) { return 100 * std::expm1(log_ratio); };
    std::printf("%-36s %8.3f ms  %+.2f %%, 95 %% confidence %+.2f to %+.2f %%\n", name, 1e3 * median(plain_values),
                percent(trimmed_mean(ratios)), percent(means[kResamples / 40]),
                percent(means[kResamples - kResamples / 40]));
}

void run(const std::string& model, int pairs) {
    tracking_allocator::install();
    Trainer trainer(model);
    std::mt19937_64 random(0);
    std::vector<StepCost> plain;
    std::vector<StepCost> recorded;
    for (int pair = -kWarmUpPairs; pair < pairs; ++pair) {
        const bool first_recorded = random() % 2 == 0;
        const StepCost first = trainer.step(first_recorded);
        const StepCost second = trainer.step(!first_recorded);
        if (pair >= 0) {
            recorded.push_back(first_recorded ? first : second);
            plain.push_back(first_recorded ? second : first);
        }
    }
    std::printf("%s, %d pairs of steps           plain  cost of recording (goal: at most 1 %%)\n", model.c_str(),
                pairs);
    report("step", plain, recorded, &StepCost::step, &StepCost::step);
    report("step, and the writing after it", plain, recorded, &StepCost::step, &StepCost::written);
    report("processor time, writing included", plain, recorded, &StepCost::processor, &StepCost::processor);
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    const std::string model = argc > 1 ? argv[1] : "transformer:layers=4,width=128,sequence=32";
    pipescope::run(model, argc > 2 ? std::stoi(argv[2]) : 2000);
}
