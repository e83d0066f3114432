// PipeScope's part of benchmarks/peers/compare: the two cases of torchgpipe.py and pipelining.py. Prints one JSON
// object. All times are medians over interleaved rounds within this process.
//     pipescope_peer overhead never|always        ns for each (partition, micro-batch), beyond the plain model
//     pipescope_peer throughput                   samples/s: plain, two copies, two lanes

#include "engine/gpipe.h"
#include "engine/plain_model.h"

#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string_view>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

// Case "overhead": layers of negligible cost.
constexpr int kOverheadPartitions = 8;
constexpr int kOverheadMicroBatches = 32;
constexpr int kOverheadRounds = 60;
// Case "throughput": matrix products that keep one core busy, equal on both lanes.
constexpr int kWidth = 512;
constexpr int kLayers = 8;
constexpr int kThroughputMicroBatches = 8;
constexpr int kSamples = 2048;
constexpr int kThroughputRounds = 9;

double seconds(const std::function<void()>& work) {
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median_of(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

at::Tensor mean_of_output(const Tensors& output, const Tensors&) {
    return output[0].mean();
}

nlohmann::json overhead(Checkpoint mode) {
    const std::vector<LayerSpec> layers(
        kOverheadPartitions, {"linear", [] { return module_layer(torch::nn::AnyModule(torch::nn::Linear(8, 8))); }});
    PlainModel plain(layers, {.chunks = kOverheadMicroBatches});
    GPipe pipeline(layers, {.balance = std::vector<std::int64_t>(kOverheadPartitions, 1),
                            .devices = std::vector<std::string>(kOverheadPartitions, "cpu"),
                            .chunks = kOverheadMicroBatches,
                            .checkpoint = mode});
    const Tensors input{torch::randn({kOverheadMicroBatches, 8})};
    std::vector<double> plain_times;
    std::vector<double> pipeline_times;
    std::vector<double> differences;
    for (int round = 0; round < kOverheadRounds; ++round) {
        plain_times.push_back(seconds([&] { plain.step(input, {}, mean_of_output); }));
        pipeline_times.push_back(seconds([&] { pipeline.step(input, {}, mean_of_output); }));
        differences.push_back(pipeline_times.back() - plain_times.back());
    }
    const double to_ns_a_task = 1e9 / (kOverheadPartitions * kOverheadMicroBatches);
    return {{"plain_ns", median_of(plain_times) * to_ns_a_task},
            {"pipeline_ns", median_of(pipeline_times) * to_ns_a_task},
            {"overhead_ns", median_of(differences) * to_ns_a_task}};
}

struct HiddenImpl : torch::nn::Module {
    HiddenImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
    at::Tensor forward(const at::Tensor& input) { return torch::relu(linear(input)); }

    torch::nn::Linear linear;
};
TORCH_MODULE(Hidden);

std::vector<LayerSpec> compute_bound_layers() {
    return std::vector<LayerSpec>(kLayers, {"hidden", [] { return module_layer(torch::nn::AnyModule(Hidden())); }});
}

/// Two independent models in two threads: the maximum that two cores can reach.
double two_copies_seconds(const std::function<void()>& one, const std::function<void()>& other) {
    return seconds([&] {
        std::thread beside([&] {
            at::get_num_threads();
            at::set_num_threads(1);
            other();
        });
        one();
        beside.join();
    });
}

nlohmann::json throughput() {
    const std::vector<LayerSpec> layers = compute_bound_layers();
    PlainModel plain(layers, {.chunks = 1});
    PlainModel copy(layers, {.chunks = 1});
    GPipe pipeline(layers, {.balance = {kLayers / 2, kLayers / 2},
                            .devices = {"cpu", "cpu"},
                            .chunks = kThroughputMicroBatches,
                            .checkpoint = Checkpoint::never});
    const Tensors input{torch::randn({kSamples, kWidth})};
    const auto train = [&](auto& model) { return [&] { model.step(input, {}, mean_of_output); }; };
    const auto two_threads = [&] {
        at::set_num_threads(2);
        plain.step(input, {}, mean_of_output);
        at::set_num_threads(1);
    };
    const std::function<void()> of_plain = train(plain);
    const std::function<void()> of_copy = train(copy);
    const std::function<void()> of_pipeline = train(pipeline);

    std::vector<double> plain_times, copies_times, pipeline_times, threads_times, scalings, gains, attained;
    const double bound = static_cast<double>(kThroughputMicroBatches) / (kThroughputMicroBatches + 2 - 1);
    for (int round = -1; round < kThroughputRounds; ++round) {
        const double one = seconds(of_plain);
        const double two = two_copies_seconds(of_plain, of_copy);
        const double lanes = seconds(of_pipeline);
        const double threads = seconds(two_threads);
        if (round < 0) {
            continue;  // warms up allocators, caches and thread pools
        }
        plain_times.push_back(one);
        copies_times.push_back(two);
        pipeline_times.push_back(lanes);
        threads_times.push_back(threads);
        scalings.push_back(2 * one / two);
        gains.push_back(one / lanes);
        attained.push_back(one / lanes / (2 * one / two * bound));
    }
    return {{"plain_samples_per_second", kSamples / median_of(plain_times)},
            {"two_threads_samples_per_second", kSamples / median_of(threads_times)},
            {"two_copies_scaling", median_of(scalings)},
            {"pipeline_samples_per_second", kSamples / median_of(pipeline_times)},
            {"pipeline_over_plain", median_of(gains)},
            {"attained", median_of(attained)}};  // fraction of s * m / (m + n - 1)
}
}  // namespace
}  // namespace pipescope

int pipescope_peer_main(int argc, char** argv) {
    const std::vector<std::string_view> arguments(argv + 1, argv + argc);
    at::set_num_threads(1);
    try {
        if (arguments == std::vector<std::string_view>{"throughput"}) {
            std::cout << pipescope::throughput() << '\n';
        } else if (arguments.size() == 2 && arguments[0] == "overhead") {
            std::cout << pipescope::overhead(pipescope::parse_checkpoint(arguments[1])) << '\n';
        } else {
            std::cerr << "usage: pipescope_peer overhead never|except_last|always, or: pipescope_peer throughput\n";
            return 2;
        }
    } catch (const std::exception& error) {
        std::cerr << "pipescope_peer: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
