// Trains models in one of several processes, and prints losses and a digest of every tensor of its layers.
//
//     process_trainer RANK SIZE RENDEZVOUS STEPS CONFIGURATION..
//     process_trainer RANK SIZE RENDEZVOUS clock BOOT_ID..
//     process_trainer RANK SIZE RENDEZVOUS groups NUMBER
//
// A configuration is MODEL BALANCE[@DEVICES] PLACEMENT SCHEDULE CHECKPOINT CHUNKS BATCH [REPLICAS [MICRO-BATCHES OF
// ALL]], joined by '|'. All run in one group. Without DEVICES, lanes are on cpu. With REPLICAS, models are of double,
// each replica takes its share of the batch, and sums of tensors are printed instead of digests. With `clock`, each
// process compares its clock with rank 0's as if it had the boot id of its rank: first with equal origins, then with
// one that is RANK * 1000 s later. It prints "RANK ERROR BOUND" of the offset, in ns. With the boot id "own" it has
// that of this machine and its own time namespace; PIPESCOPE_TEST_AHEAD_S says how far that is ahead. With `groups`,
// the processes form that many groups, one after the other, and train a model in each. After each, a process prints how
// many threads and descriptors it has open. PIPESCOPE_TEST_DEVICE_MESSAGES is GPipeOptions::device_messages. With
// PIPESCOPE_TEST_INPUT_RANK, only that rank passes an input. With PIPESCOPE_TEST_CLIP="MAX_NORM NORM_TYPE", gradients
// are clipped after each step and the norm is printed; PIPESCOPE_TEST_CLIP_EXCEPT is a rank that does not clip.

#include "base/parse_name.h"
#include "engine/gpipe.h"
#include "engine/processes/process_clock.h"
#include "engine/processes/processes.h"
#include "engine/skippable.h"
#include "models/zoo.h"
#include "schedule/schedules.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {
using namespace pipescope;

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, at);) {
        parts.push_back(part);
    }
    return parts;
}

std::vector<std::int64_t> numbers(const std::string& text) {
    std::vector<std::int64_t> values;
    for (const std::string& each : split(text, ',')) {
        values.push_back(std::stoll(each));
    }
    return values;
}

std::uint64_t digest(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    std::uint64_t hash = 14695981039346656037U;
    const auto* bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
    for (std::size_t k = 0; k < dense.nbytes(); ++k) {
        hash = (hash ^ bytes[k]) * 1099511628211U;
    }
    return hash;
}

/// A linear layer that takes its time; from its `end`-th forward on it throws.
struct SleepyImpl : torch::nn::Module {
    SleepyImpl(std::int64_t milliseconds, std::int64_t end) : pause(milliseconds), last(end) {
        linear = register_module("linear", torch::nn::Linear(8, 8));
    }
    at::Tensor forward(const at::Tensor& input) {
        std::this_thread::sleep_for(pause);
        if (last >= 0 && ++calls > last) {
            throw std::runtime_error("the sleepy layer woke up");
        }
        return linear(input);
    }
    torch::nn::Linear linear{nullptr};
    std::chrono::milliseconds pause;
    std::int64_t last;
    std::int64_t calls = 0;
};
TORCH_MODULE(Sleepy);

/// Three layers: the first passes one tensor on as output and as skip, the second changes it in place or not, the third
/// pops the skip.
ModelSpec make_aliasing(bool in_place) {
    const auto linear = [] { return std::make_shared<torch::nn::LinearImpl>(8, 8); };
    ModelSpec model;
    model.layers.push_back({"stash", [=] {
                                const auto module = linear();
                                return skippable_layer(module, {.stash = {{"", "s"}}},
                                                       [module](const Tensors& in, SkipContext& skips) {
                                                           const at::Tensor out = module->forward(in[0]) * 2;
                                                           skips.stash("s", out);
                                                           return Tensors{out};
                                                       });
                            }});
    model.layers.push_back({"change", [=] {
                                const auto module = linear();
                                return skippable_layer(module, {}, [=](const Tensors& in, SkipContext&) {
                                    return Tensors{module->forward(in_place ? in[0].mul_(3) : in[0].mul(3))};
                                });
                            }});
    model.layers.push_back({"pop", [=] {
                                const auto module = linear();
                                return skippable_layer(module, {.pop = {{"", "s"}}},
                                                       [module](const Tensors& in, SkipContext& skips) {
                                                           return Tensors{module->forward(in[0]) + skips.pop("s")};
                                                       });
                            }});
    return model;
}

at::Tensor counted_rows(const Tensors& target) {
    return target[0].select(1, 0) > -50;
}

/// Two linear layers. Some rows of the target are -100 and do not count in the loss, a mean over the others.
ModelSpec make_padded() {
    ModelSpec model;
    for (const char* name : {"first", "second"}) {
        model.layers.push_back({name, [] { return module_layer(torch::nn::AnyModule(torch::nn::Linear(8, 8))); }});
    }
    model.make_batch = [](std::int64_t batch, std::uint64_t seed) {
        at::manual_seed(seed);
        const at::Tensor target = at::randn({batch, 8});
        target.narrow(0, 0, 5).fill_(-100);
        target[batch - 2].fill_(-100);
        return Batch{{at::randn({batch, 8})}, {target}};
    };
    model.loss = [](const Tensors& output, const Tensors& target) {
        const at::Tensor counts = counted_rows(target);
        return ((output[0] - target[0]).pow(2).sum(1) * counts).sum() / counts.sum();
    };
    return model;
}

/// "padded", "sleepy:LAYERS:MILLISECONDS", or "sleepy:LAYERS:MILLISECONDS:LAYER:CALL" for a layer that throws in that
/// call.
ModelSpec make(const std::string& name) {
    const std::vector<std::string> words = split(name, ':');
    if (words[0] == "padded") {
        return make_padded();
    }
    if (words[0] != "sleepy" && words[0] != "aliasing") {
        return make_model(name);
    }
    ModelSpec model = words[0] == "aliasing" ? make_aliasing(words.at(1) == "in_place") : ModelSpec();
    model.name = name;
    for (std::int64_t k = 0; words[0] == "sleepy" && k < std::stoll(words.at(1)); ++k) {
        const std::int64_t end = words.size() > 4 && std::stoll(words[3]) == k ? std::stoll(words[4]) : -1;
        model.layers.push_back({"sleepy " + std::to_string(k), [pause = std::stoll(words.at(2)), end] {
                                    return module_layer(torch::nn::AnyModule(Sleepy(pause, end)));
                                }});
    }
    model.make_batch = [](std::int64_t batch, std::uint64_t seed) {
        at::manual_seed(seed);
        return Batch{{at::randn({batch, 8})}, {at::randn({batch, 8})}};
    };
    model.loss = [](const Tensors& output, const Tensors& target) { return at::mse_loss(output[0], target[0]); };
    return model;
}

bool is_to_clip(const std::shared_ptr<Processes>& processes) {
    const char* const except = std::getenv("PIPESCOPE_TEST_CLIP_EXCEPT");
    return except == nullptr || std::stoi(except) != processes->rank();
}

void train(const std::string& configuration, int steps, const std::shared_ptr<Processes>& processes) {
    const std::vector<std::string> field = split(configuration, '|');
    const ModelSpec model = make(field.at(0));
    GPipeOptions options;
    const std::vector<std::string> cut = split(field.at(1), '@');
    options.balance = numbers(cut.at(0));
    options.placement = numbers(field.at(2));
    options.schedule = parse_schedule(field.at(3));
    options.checkpoint = parse_checkpoint(field.at(4));
    options.chunks = std::stoll(field.at(5));
    const std::int64_t batch = std::stoll(field.at(6));
    std::int64_t lanes = static_cast<std::int64_t>(options.balance.size());
    if (!options.placement.empty()) {
        lanes = *std::max_element(options.placement.begin(), options.placement.end()) + 1;
    }
    options.devices.assign(static_cast<std::size_t>(lanes), "cpu");
    if (cut.size() > 1) {
        options.devices = split(cut[1], ',');
    }
    if (field[0] == "padded") {
        options.weight = [](const Tensors& target) { return counted_rows(target).sum().item<double>(); };
    }
    options.seed = 7;
    options.processes = processes;
    if (const char* const way = std::getenv("PIPESCOPE_TEST_DEVICE_MESSAGES")) {
        options.device_messages = way;
    }
    const bool is_double = field.size() > 7;
    options.replicas = is_double ? std::stoi(field[7]) : 1;
    const std::int64_t share = batch / options.replicas;
    const std::int64_t first = processes ? share * (processes->rank() / (processes->size() / options.replicas)) : 0;
    at::manual_seed(3);
    GPipe pipeline(model, options);
    if (is_double) {
        pipeline.to(at::kDouble);
    }
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < steps; ++step) {
        Batch data = model.make_batch(batch, static_cast<std::uint64_t>(step));
        if (is_double) {
            data.input[0] = data.input[0].narrow(0, first, share);
            data.target[0] = data.target[0].narrow(0, first, share);
            for (at::Tensor* tensor : {&data.input[0], &data.target[0]}) {
                *tensor = tensor->is_floating_point() ? tensor->to(at::kDouble) : *tensor;
            }
        }
        if (const char* const only = std::getenv("PIPESCOPE_TEST_INPUT_RANK");
            only != nullptr && std::atoi(only) != processes->rank()) {
            data.input.clear();
        }
        pipeline.zero_grad();
        const at::Tensor loss = pipeline.step(data.input, data.target, model.loss);
        if (const char* const clip = std::getenv("PIPESCOPE_TEST_CLIP"); clip != nullptr && is_to_clip(processes)) {
            const std::vector<std::string> words = split(clip, ' ');
            const at::Tensor norm = pipeline.clip_grad_norm_(std::stod(words.at(0)), std::stod(words.at(1)));
            if (is_double) {
                std::printf("step %d norm|%.17g\n", step, norm.item<double>());
            } else {
                std::printf("%s step %d norm %a\n", configuration.c_str(), step, norm.item<double>());
            }
        }
        optimizer.step();
        if (is_double) {
            std::printf("step %d loss|%.17g\n", step, loss.item<double>());
        } else {
            std::printf("%s step %d loss %a\n", configuration.c_str(), step, loss.item<double>());
        }
        std::fflush(stdout);
    }
    if (is_double) {
        for (const auto& [name, tensor] : pipeline.state_dict()) {
            const at::Tensor places = at::arange(1, tensor.numel() + 1, at::kDouble);
            std::printf("%s|%.17g\n", name.c_str(), (tensor.reshape({-1}) * places.sin()).sum().item<double>());
        }
        return;
    }
    for (const auto& [name, tensor] : pipeline.state_dict()) {
        std::printf("%s %s %016lx\n", configuration.c_str(), name.c_str(), digest(tensor));
    }
    const at::NoGradGuard no_grad;
    pipeline.eval();
    for (const at::Tensor& output : pipeline.forward(model.make_batch(batch, 99).input)) {
        std::printf("%s output %016lx\n", configuration.c_str(), digest(output));
    }
}

/// All processes of one host read one clock, so the true offset is the difference of the origins.
void compare_clocks(Processes& processes, const std::string& boot_id) {
    for (const std::int64_t shift : {std::int64_t{0}, std::int64_t{1'000'000'000'000}}) {
        const std::int64_t origin = shift * processes.rank();
        const char* const ahead = std::getenv("PIPESCOPE_TEST_AHEAD_S");
        const std::int64_t expected = origin - (ahead != nullptr ? std::stoll(ahead) : 0) * 1'000'000'000;
        const ClockReading reading = measure_clock(
            processes, boot_id == "own" ? process_clock(origin) : ProcessClock{origin, boot_id, "time:[1]"});
        std::printf("%d %lld %lld\n", processes.rank(), static_cast<long long>(reading.offset.count() - expected),
                    static_cast<long long>(reading.bound.count()));
    }
    processes.barrier();
}
/// Entries of a folder of /proc.
std::ptrdiff_t count_of(const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
}

void form_groups(ProcessOptions options, int number) {
    for (; options.attempt < number; ++options.attempt) {
        train("mlp:layers=2,width=8|1,1||gpipe|never|2|4", 1, Processes::join(options));
        std::printf("open %td %td\n", count_of("/proc/self/task"), count_of("/proc/self/fd"));
    }
}
}  // namespace

int main(int argc, char** argv) try {
    at::set_num_threads(1);
    ProcessOptions options;
    options.rank = std::atoi(argv[1]);
    options.size = std::atoi(argv[2]);
    options.rendezvous = argv[3];
    const char* const silence = std::getenv("PIPESCOPE_TEST_SILENCE_MS");
    const char* const patience = std::getenv("PIPESCOPE_TEST_PATIENCE_MS");
    // A loaded machine starts processes slowly.
    options.patience = std::chrono::milliseconds(patience != nullptr ? std::stoll(patience) : 30000);
    options.silence = std::chrono::milliseconds(silence != nullptr ? std::stoll(silence) : 60000);
    options.end_after = std::chrono::milliseconds(500);
    if (std::string(argv[4]) == "groups") {
        form_groups(options, std::atoi(argv[5]));
        return 0;
    }
    const auto processes = options.size == 1 ? nullptr : Processes::join(options);
    if (std::string(argv[4]) == "clock") {
        compare_clocks(*processes, argv[5 + options.rank]);
        return 0;
    }
    for (int k = 5; k < argc; ++k) {
        train(argv[k], std::atoi(argv[4]), processes);
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "pipescope: %s\n", error.what());
    return 1;
}
