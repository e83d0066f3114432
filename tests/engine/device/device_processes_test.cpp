// A group of processes whose lanes are on accelerators. Here the processes are threads of one, so that the fake
// accelerator sees the streams of all of them.

#include "engine/engine_error.h"
#include "engine/processes/processes.h"
#include "tests/engine/device/device_fixtures.h"
#include "tests/models/process_group.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using fake_accelerator::behaviour;
using ::testing::HasSubstr;

using DeviceProcessesTest = DeviceTest;
using Group = std::shared_ptr<Processes>;

/// Calls `run` for each rank of a group, each in a thread of its own. Returns what they threw, by rank.
std::vector<std::exception_ptr> in_ranks(int size, const std::function<void(const Group&)>& run) {
    const std::string rendezvous = ProcessGroup::free_rendezvous();
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&, rank] {
            try {
                ProcessOptions options{.rank = rank, .size = size, .rendezvous = rendezvous};
                options.patience = std::chrono::seconds(30);
                options.silence = std::chrono::seconds(60);
                run(Processes::join(options));
            } catch (...) {
                thrown[static_cast<std::size_t>(rank)] = std::current_exception();
            }
        });
    }
    for (std::thread& rank : ranks) {
        rank.join();
    }
    return thrown;
}

std::string text_of(const std::exception_ptr& thrown) {
    if (!thrown) {
        return "";
    }
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        return error.what();
    }
}

/// Numbers between -0.4 and 0.4, equal in all ranks: they would draw from one generator of this process.
at::Tensor numbers(at::IntArrayRef sizes, double shift) {
    return (torch::arange(c10::multiply_integers(sizes), torch::kFloat64) * 1.7 + shift).sin().mul(0.4).reshape(sizes);
}

void set_weights(GPipe& pipe) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : pipe.named_parameters()) {
        double shift = 0;
        for (const char letter : name) {
            shift = shift * 3 + letter;
        }
        parameter.copy_(numbers(parameter.sizes(), shift));
    }
}

/// Losses and weights after a few steps.
using Values = std::map<std::string, at::Tensor>;

/// `group`: null for one process.
Values trained(const std::vector<LayerSpec>& layers, GPipeOptions options, const Group& group, int steps) {
    options.processes = group;
    const int replicas = options.replicas;
    const int replica = group ? group->rank() * replicas / group->size() : 0;
    GPipe pipe(layers, std::move(options));
    set_weights(pipe);
    torch::optim::SGD optimizer(pipe.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    Values values;
    for (int step = 0; step < steps; ++step) {
        const auto own = [&](const at::Tensor& all) { return all.chunk(replicas)[static_cast<std::size_t>(replica)]; };
        const at::Tensor input = own(numbers({8, 6}, step));
        const at::Tensor target = own(numbers({8, 4}, -step));
        pipe.zero_grad();
        const at::Tensor loss = pipe.step({input}, {target}, first_mean_square);
        values["loss " + std::to_string(step)] = loss.cpu();
        optimizer.step();
    }
    for (const auto& [name, tensor] : pipe.state_dict()) {
        values[name] = tensor.detach().cpu();
    }
    const at::NoGradGuard no_grad;
    pipe.eval();
    const Tensors outputs = pipe.forward(Tensors{numbers({8, 6}, 0).chunk(replicas)[0]});
    for (const at::Tensor& output : outputs) {
        values["output " + std::to_string(replica)] = output.cpu();
    }
    return values;
}

Values trained_in_ranks(int size, const std::vector<LayerSpec>& layers, const GPipeOptions& options, int steps = 5) {
    std::mutex mutex;
    Values all;
    const auto thrown = in_ranks(size, [&](const Group& group) {
        const Values own = trained(layers, options, group, steps);
        const std::lock_guard lock(mutex);
        for (const auto& [name, value] : own) {
            const auto [known, is_new] = all.emplace(name, value);
            EXPECT_TRUE(is_new || torch::equal(known->second, value)) << name << " differs between ranks";
        }
    });
    for (const std::exception_ptr& each : thrown) {
        EXPECT_EQ(text_of(each), "");
    }
    return all;
}

void expect_equal(const Values& some, const Values& others) {
    EXPECT_EQ(some.size(), others.size());
    for (const auto& [name, value] : others) {
        const auto found = some.find(name);
        ASSERT_NE(found, some.end()) << name;
        EXPECT_TRUE(torch::equal(found->second, value)) << name << ": " << found->second << " and " << value;
    }
}

GPipeOptions in_four(const Names& lanes, Schedule schedule, Checkpoint mode) {
    GPipeOptions options = on_lanes(lanes, 8, mode);
    options.schedule = schedule;
    if (schedule == Schedule::interleaved_1f1b) {
        options.balance.assign(2 * lanes.size(), static_cast<std::int64_t>(4 / lanes.size()));
    }
    return options;
}

const std::vector<Names> kFourLanes = {{"fake:0", "fake:1", "fake:0", "fake:1"},
                                       {"fake:0", "fake:0", "fake:0", "fake:0"},
                                       {"cpu", "fake:0", "cpu", "fake:1"},
                                       {"fake:1", "fake:1", "cpu", "cpu"}};

TEST_F(DeviceProcessesTest, TrainAsOneProcessDoesBitForBit) {
    be_slow();
    for (const Names& lanes : kFourLanes) {
        for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b}) {
            for (const Checkpoint mode : kModes) {
                const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode) + " " + to_string(schedule));
                const GPipeOptions options = in_four(lanes, schedule, mode);
                const Values alone = trained(skip_chain(), options, nullptr, 5);
                EXPECT_GT(alone.size(), 10U);
                // The skip goes from lane 0 or 1 to lane 2 or 3, past a process where there are four.
                for (const int size : {2, 4}) {
                    expect_equal(trained_in_ranks(size, skip_chain(), options), alone);
                }
            }
        }
    }
}

TEST_F(DeviceProcessesTest, DrawTheRandomNumbersOfOneProcess) {
    const GPipeOptions options = on_lanes({"fake:0", "cpu", "fake:1"}, 6, Checkpoint::except_last);
    expect_equal(trained_in_ranks(3, dropout_mlp(), options), trained(dropout_mlp(), options, nullptr, 5));
}

TEST_F(DeviceProcessesTest, TrainReplicasAsOnePipelineWithAllTheirSamples) {
    be_slow();
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        const GPipeOptions whole = in_four({"fake:0", "fake:1"}, schedule, Checkpoint::except_last);
        const Values alone = trained(skip_chain(), whole, nullptr, 5);
        for (const int size : {2, 4}) {
            GPipeOptions options = whole;
            options.chunks = 2;
            options.replicas = 2;
            Values together = trained_in_ranks(size, skip_chain(), options);
            for (const auto& [name, value] : alone) {
                if (!name.starts_with("output")) {
                    ASSERT_TRUE(together.contains(name)) << name;
                    EXPECT_TRUE(torch::allclose(together[name], value, 1e-10, 1e-12)) << name;
                }
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
