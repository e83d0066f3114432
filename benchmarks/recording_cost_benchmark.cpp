// What recording costs a training step, end to end: the same model trained in turns with everything recorded (ranges,
// memory of each lane, SQLite beside it) and with nothing. Pairs of short blocks in random order, so that a slow moment
// of the machine falls on both; the confidence interval is that of the median of the pairs' ratios, by bootstrap.
//
//     recording_cost_benchmark [MODEL [PAIRS]]

#include "engine/gpipe.h"
#include "engine/task_observer.h"
#include "models/zoo.h"
#include "profiler/memory/lane_memory.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/recorder/recorder.h"
#include "schedule/median.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

constexpr int kStepsPerBlock = 4;
constexpr int kResamples = 10'000;

struct Setting {
    ModelSpec model;
    std::int64_t batch = 32;
    std::filesystem::path trace = std::filesystem::temp_directory_path() / "pipescope-recording-cost.sqlite";

    GPipeOptions options(TaskObserver* observer) const {
        const auto half = static_cast<std::int64_t>(model.layers.size() / 2);
        return {.balance = {half, static_cast<std::int64_t>(model.layers.size()) - half},
                .devices = {"cpu", "cpu"},
                .chunks = 8,
                .observer = observer};
    }
};

/// Hears of tasks only while recording: one pipeline serves both, with the same threads and the same memory.
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

private:
    TaskObserver& next_;
    std::atomic<bool> is_on_{false};  // changes between steps only
};

double seconds_a_step(GPipe& pipeline, const Batch& batch, const ModelSpec& model) {
    pipeline.step(batch.input, batch.target, model.loss);  // a recorder's first rows, and what the turn changed
    const auto start = Clock::now();
    for (int step = 0; step < kStepsPerBlock; ++step) {
        pipeline.step(batch.input, batch.target, model.loss);
    }
    return std::chrono::duration<double>(Clock::now() - start).count() / kStepsPerBlock;
}

double recorded_block(const Setting& setting, GPipe& pipeline, Switched& observer, Recorder*& current,
                      const Batch& batch) {
    Recorder recorder({.path = setting.trace, .if_exists = IfExists::replace});
    current = &recorder;
    observer.set_on(true);
    const double seconds = seconds_a_step(pipeline, batch, setting.model);
    observer.set_on(false);
    current = nullptr;
    recorder.stop();
    return seconds;
}

void report(const std::vector<double>& plain, const std::vector<double>& recorded) {
    std::vector<double> ratios;
    for (std::size_t k = 0; k < plain.size(); ++k) {
        ratios.push_back(recorded[k] / plain[k] - 1);
    }
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::size_t> pick(0, ratios.size() - 1);
    std::vector<double> medians;
    for (int resample = 0; resample < kResamples; ++resample) {
        std::vector<double> sample(ratios.size());
        std::generate(sample.begin(), sample.end(), [&] { return ratios[pick(random)]; });
        medians.push_back(median(std::move(sample)));
    }
    std::sort(medians.begin(), medians.end());
    std::printf("step, nothing recorded   %.3f ms (median of %zu blocks of %d steps)\n", 1e3 * median(plain),
                plain.size(), kStepsPerBlock);
    std::printf("step, all recorded       %.3f ms\n", 1e3 * median(recorded));
    std::printf("cost of recording        %+.2f %%, 95 %% confidence %+.2f to %+.2f %% (goal: at most 1 %%)\n",
                100 * median(ratios), 100 * medians[kResamples / 40], 100 * medians[kResamples - kResamples / 40]);
}

void run(const std::string& model, int pairs) {
    tracking_allocator::install();
    at::get_num_threads();
    const Setting setting{make_model(model)};
    Recorder* current = nullptr;
    LaneMemory memory([&] { return current == nullptr ? Nanoseconds{0} : current->now(); },
                      [&](const MemorySample& sample) {
                          if (current != nullptr) {
                              current->add_memory(sample);
                          }
                      });
    Switched observer(memory);
    GPipe pipeline(setting.model, setting.options(&observer));
    const Batch batch = setting.model.make_batch(setting.batch, 0);
    std::mt19937_64 random(0);
    std::vector<double> plain_seconds;
    std::vector<double> recorded_seconds;
    for (int pair = -2; pair < pairs; ++pair) {  // the first two warm up
        double first = 0;
        double second = 0;
        if (random() % 2 == 0) {
            first = seconds_a_step(pipeline, batch, setting.model);
            second = recorded_block(setting, pipeline, observer, current, batch);
        } else {
            second = recorded_block(setting, pipeline, observer, current, batch);
            first = seconds_a_step(pipeline, batch, setting.model);
        }
        if (pair >= 0) {
            plain_seconds.push_back(first);
            recorded_seconds.push_back(second);
        }
    }
    std::filesystem::remove(setting.trace);
    report(plain_seconds, recorded_seconds);
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    const std::string model = argc > 1 ? argv[1] : "transformer:layers=4,width=128,sequence=32";
    pipescope::run(model, argc > 2 ? std::stoi(argv[2]) : 100);
}
