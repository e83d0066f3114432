// A group of processes whose lanes are on accelerators. Here the processes are threads of one, so that the fake
// accelerator sees the streams of all of them.

#include "engine/engine_error.h"
#include "engine/processes/processes.h"
#include "tests/engine/device/device_fixtures.h"
#include "tests/engine/skips/readers_model.h"
#include "tests/models/process_group.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
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

/// Tensors between accelerators of two processes go through the hosts' memory.
using DeviceProcessesTest = DeviceTest;
/// They go from device to device.
class DeviceMessagesTest : public DeviceTest {};
const std::string kDirectly = PIPESCOPE_FAKE_MESSAGES;

using Group = std::shared_ptr<Processes>;

/// Calls `run` for each rank of a group, each in a thread of its own. Returns what they threw, by rank.
std::vector<std::exception_ptr> in_ranks(int size, const std::function<void(Group)>& run) {
    ::setenv("RES_OPTIONS", "timeout:1 attempts:1", 1);  // as launch does
    const std::string rendezvous = ProcessGroup::free_rendezvous();
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&, rank] {
            const fake_accelerator::RankStreams streams(rank);
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

/// Losses of a few steps, weights after them, and an output. Equal in all ranks, or there is one named "differs".
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
    // Copies are those between lanes only.
    const auto first_lane = pipe.partitions().front().is_here ? c10::Device(pipe.devices().front()) : c10::kCPU;
    for (int step = 0; step < steps; ++step) {
        const auto own = [&](const at::Tensor& all) { return all.chunk(replicas)[static_cast<std::size_t>(replica)]; };
        const at::Tensor input = own(numbers({8, 6}, step)).to(first_lane);
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
    const Tensors outputs = pipe.forward(Tensors{numbers({8, 6}, 0).chunk(replicas)[0].to(first_lane)});
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
            if (!is_new && !torch::equal(known->second, value)) {
                all["differs"] = value;
            }
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

GPipeOptions in_four(const Names& lanes, Schedule schedule, Checkpoint mode, const std::string& way = "host") {
    GPipeOptions options = on_lanes(lanes, 8, mode);
    options.device_messages = way;
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

void expect_values_of_one_process(const std::string& way) {
    behaviour().copy_delay_us = 200;
    const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b,
                                             Schedule::zero_bubble_h1};
    for (std::size_t k = 0; k < kFourLanes.size(); ++k) {
        for (std::size_t s = 0; s < schedules.size(); ++s) {
            // Each schedule runs on all lanes, in each mode, and in both sizes, but not in all combinations of them.
            const Checkpoint mode = kModes[(k + s) % kModes.size()];
            const int size = (k + s) % 2 == 0 ? 2 : 4;
            const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                               name_of(kFourLanes[k], mode) + " " + to_string(schedules[s]));
            const GPipeOptions options = in_four(kFourLanes[k], schedules[s], mode, way);
            const Values alone = trained(skip_chain(), options, nullptr, 5);
            EXPECT_GT(alone.size(), 10U);
            // The skip goes from lane 0 or 1 to lane 2 or 3, past a process where there are four.
            expect_equal(trained_in_ranks(size, skip_chain(), options), alone);
        }
    }
}

TEST_F(DeviceProcessesTest, TrainAsOneProcessDoesBitForBit) {
    expect_values_of_one_process("host");
}

TEST_F(DeviceMessagesTest, TrainAsOneProcessDoesBitForBit) {
    expect_values_of_one_process(kDirectly);
}

TEST_F(DeviceProcessesTest, TrainWithSkipsOfSeveralReadersAsOneProcessDoesBitForBit) {
    const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1};
    for (std::size_t k = 0; k < kFourLanes.size(); ++k) {
        const Checkpoint mode = kModes[k % kModes.size()];
        const Schedule schedule = schedules[k % schedules.size()];
        const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                           name_of(kFourLanes[k], mode) + " " + to_string(schedule));
        GPipeOptions options = on_lanes(kFourLanes[k], readers_model().size(), mode);
        options.device_messages = "host";
        options.schedule = schedule;
        options.seed = 5;
        const Values alone = trained(readers_model(), options, nullptr, 3);
        EXPECT_GT(alone.size(), 10U);
        expect_equal(trained_in_ranks(2, readers_model(), options, 3), alone);
        expect_equal(trained_in_ranks(4, readers_model(), options, 3), alone);
    }
}

void expect_shared_parameters_of_lanes_on_the_host(const std::string& way) {
    behaviour().copy_delay_us = 200;
    const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1};
    for (std::size_t k = 0; k < kFourLanes.size(); ++k) {
        const Checkpoint mode = kModes[k % kModes.size()];
        const Schedule schedule = schedules[k % schedules.size()];
        const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                           name_of(kFourLanes[k], mode) + " " + to_string(schedule));
        GPipeOptions options = in_four(kFourLanes[k], schedule, mode, way);
        options.shared = {{"1.weight", "3.weight", "5.weight"}, {"3.bias", "5.bias"}};  // of lanes 0, 1 and 2
        GPipeOptions on_host = options;
        on_host.devices.assign(4, "cpu");
        const Values host = trained(skip_chain(), on_host, nullptr, 4);
        const Values alone = trained(skip_chain(), options, nullptr, 4);
        EXPECT_FALSE(alone.contains("3.weight"));
        ASSERT_EQ(alone.size(), host.size());
        for (const auto& [name, value] : host) {
            EXPECT_TRUE(torch::allclose(alone.at(name), value, 1e-12, 1e-12)) << name;
        }
        expect_equal(trained_in_ranks(k % 2 == 0 ? 2 : 4, skip_chain(), options, 4), alone);
    }
}

TEST_F(DeviceProcessesTest, ShareParametersAsLanesOnTheHostDo) {
    expect_shared_parameters_of_lanes_on_the_host("host");
}

TEST_F(DeviceMessagesTest, ShareParametersAsLanesOnTheHostDo) {
    expect_shared_parameters_of_lanes_on_the_host(kDirectly);
}

TEST_F(DeviceProcessesTest, ShareParametersInReplicas) {
    GPipeOptions options = on_lanes({"cpu", "cpu"}, 8, Checkpoint::always);
    options.shared = {{"1.weight", "5.weight"}};
    const Values alone = trained(skip_chain(), options, nullptr, 3);
    options.replicas = 2;
    for (const int size : {2, 4}) {
        const Values replicas = trained_in_ranks(size, skip_chain(), options, 3);
        for (const auto& [name, value] : alone) {
            if (!name.starts_with("output")) {
                ASSERT_TRUE(replicas.contains(name)) << name;
                EXPECT_TRUE(torch::allclose(replicas.at(name), value, 1e-10, 1e-12)) << name;
            }
        }
    }
}

TEST_F(DeviceMessagesTest, LeaveTheHostsMemoryAlone) {
    const auto copies_of = [](const std::string& way) {
        std::atomic<std::int64_t> copies = 0;
        const auto thrown = in_ranks(2, [&](const Group& group) {
            const at::NoGradGuard no_grad;
            GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 8, Checkpoint::never);
            options.device_messages = way;
            options.processes = group;
            GPipe pipe(skip_chain(), options);
            const Tensors input = {numbers({8, 6}, 0).to(at::Device("fake:0"))};
            group->barrier();
            const std::int64_t before = fake_accelerator::copies();
            group->barrier();
            pipe.forward(input);
            group->barrier();
            copies = fake_accelerator::copies() - before;
        });
        EXPECT_EQ(text_of(thrown[0]) + text_of(thrown[1]), "");
        return copies.load();
    };
    EXPECT_EQ(copies_of(kDirectly), 0);
    EXPECT_EQ(copies_of("host"), 2 * 2 * 4);  // an output and a skip of four micro-batches, on both sides
}

TEST_F(DeviceProcessesTest, DrawTheRandomNumbersOfOneProcess) {
    const GPipeOptions options = on_lanes({"fake:0", "cpu", "fake:1"}, 6, Checkpoint::except_last);
    expect_equal(trained_in_ranks(3, dropout_mlp(), options), trained(dropout_mlp(), options, nullptr, 5));
}

TEST_F(DeviceProcessesTest, TrainReplicasAsOnePipelineWithAllTheirSamples) {
    behaviour().copy_delay_us = 200;
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
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

/// Passes on values whose strides and shared memory matter, and computes with what arrives.
std::vector<LayerSpec> odd_tensors() {
    const auto make = [](const Tensors& in) {
        const at::Tensor x = (in[0] * 2).t().contiguous().t();
        return Tensors{x,
                       x.narrow(1, 1, 3),
                       x.select(1, 2).unsqueeze(1).expand({-1, 5}),
                       x.to(at::kFloat),
                       x.narrow(1, 0, 0),
                       torch::stack({x, x}, 2).select(2, 1),  // every second number of its memory
                       x.cpu()};
    };
    const auto look = [](const Tensors& in) {
        std::vector<double> seen;
        for (const at::Tensor& tensor : in) {
            seen.insert(seen.end(), tensor.strides().begin(), tensor.strides().end());
        }
        const double shares = in[0].is_alias_of(in[1]) ? 1 : 0;
        return Tensors{in[0] + shares + torch::tensor(seen, torch::kFloat64).sin().sum().item<double>(),
                       in[1],
                       in[2],
                       in[3],
                       in[4],
                       in[5] + 1,
                       in[6].to(in[0].device()) + in[0]};
    };
    return {function_layer("make", make), function_layer("look", look)};
}

void expect_strides_and_shared_memory(const std::string& way) {
    be_slow();
    const auto outputs_of = [&way](const Names& lanes, const Group& group) {
        const at::NoGradGuard no_grad;
        GPipe pipe(odd_tensors(),
                   {.balance = {1, 1}, .devices = lanes, .chunks = 2, .processes = group, .device_messages = way});
        Tensors outputs = pipe.forward(Tensors{numbers({4, 6}, 0)});
        for (at::Tensor& output : outputs) {
            output = output.cpu();
        }
        return outputs;
    };
    for (const Names& lanes : {Names{"fake:0", "fake:1"}, {"cpu", "fake:0"}, {"fake:0", "cpu"}}) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, Checkpoint::never));
        // One process copies nothing between lanes of one device.
        const Tensors alone = outputs_of({"fake:0", "fake:0"}, nullptr);
        const auto thrown = in_ranks(2, [&](const Group& group) {
            const Tensors together = outputs_of(lanes, group);
            ASSERT_EQ(together.size(), group->rank() == 1 ? alone.size() : 0U);
            for (std::size_t k = 0; k < together.size(); ++k) {
                EXPECT_TRUE(torch::equal(together[k], alone[k])) << k;
            }
        });
        EXPECT_EQ(text_of(thrown[0]) + text_of(thrown[1]), "");
    }
}

TEST_F(DeviceProcessesTest, KeepStridesAndSharedMemory) {
    expect_strides_and_shared_memory("host");
}

TEST_F(DeviceMessagesTest, KeepStridesAndSharedMemory) {
    expect_strides_and_shared_memory(kDirectly);
}

/// Passes on two values, of which the next layer uses one, so that the other's gradient is undefined.
TEST_F(DeviceMessagesTest, KeepUndefinedGradients) {
    be_slow();
    const auto two = function_layer("two", [](const Tensors& x) { return Tensors{x[0] * 2, x[0] * 3}; });
    const auto second = function_layer("second", [](const Tensors& x) { return Tensors{x[1]}; });
    const std::vector<LayerSpec> layers = {linear(6, 8), two, second, linear(8, 4)};
    for (const Checkpoint mode : kModes) {
        GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 4, mode);
        options.device_messages = kDirectly;
        expect_equal(trained_in_ranks(2, layers, options), trained(layers, options, nullptr, 5));
    }
}

TEST_F(DeviceMessagesTest, TrainReplicasAsTheHostsMemoryDoes) {
    GPipeOptions options = in_four({"fake:0", "fake:1"}, Schedule::one_f_one_b, Checkpoint::except_last);
    options.chunks = 2;
    options.replicas = 2;
    const Values through_the_host = trained_in_ranks(4, skip_chain(), options);
    options.device_messages = kDirectly;
    expect_equal(trained_in_ranks(4, skip_chain(), options), through_the_host);
}

// Every wait on a tensor's way is necessary. In each run one of the two ranks leaves out one.

enum class WaitKind { of_copies, of_host };

/// Leaves out each wait from the `first` on. Returns how many there were.
int expect_each_is_missed_in_ranks(const std::vector<LayerSpec>& layers, const GPipeOptions& options, WaitKind waits,
                                   int first = 0) {
    behaviour().reset();
    const Values expected = trained_in_ranks(2, layers, options, 1);
    EXPECT_THAT(fake_accelerator::take_races(), ::testing::IsEmpty());
    for (int left_out = first;; ++left_out) {
        behaviour().reset();
        behaviour().copies_late = waits == WaitKind::of_host;  // else it depends on timing what the host reads
        (waits == WaitKind::of_copies ? behaviour().left_out_copy_wait : behaviour().left_out_host_wait) = left_out;
        Values values = trained_in_ranks(2, layers, options, 1);
        fake_accelerator::synchronize();
        const std::int64_t all =
            waits == WaitKind::of_copies ? fake_accelerator::copy_waits() : fake_accelerator::host_waits();
        if (all <= left_out) {
            return left_out;
        }
        bool is_missed = !fake_accelerator::take_races().empty() || values.contains("differs");
        for (const auto& [name, value] : expected) {
            is_missed = is_missed || !torch::equal(values[name], value);
        }
        EXPECT_TRUE(is_missed) << "wait " << left_out << " of " << all;
    }
}

TEST_F(DeviceProcessesTest, NeedEachWaitOfACopy) {
    const std::vector<LayerSpec> chain = {linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)};
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 4, Checkpoint::never);
        options.schedule = schedule;
        // For each of four micro-batches and each direction: to the host, and from there. The output of forward() too.
        EXPECT_GE(expect_each_is_missed_in_ranks(chain, options, WaitKind::of_copies), 4 * 2 * 2);
        EXPECT_GE(expect_each_is_missed_in_ranks(chain, options, WaitKind::of_host), 4 * 2);
    }
}

TEST_F(DeviceMessagesTest, NeedEachWaitOfTheirs) {
    const std::vector<LayerSpec> chain = {linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)};
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 4, Checkpoint::never);
        options.schedule = schedule;
        options.device_messages = kDirectly;
        // The first two are for the first bytes of the connections, which nothing reads. Then for each of four
        // micro-batches and each direction: of the link for the tensors, and for their arrival, and of the lane for
        // the link. The output of forward() too.
        EXPECT_EQ(expect_each_is_missed_in_ranks(chain, options, WaitKind::of_copies, 2), 2 + 4 * 3 * 3);
    }
}

TEST_F(DeviceMessagesTest, KeepWhatIsOnItsWay) {
    constexpr std::int64_t kWidth = 4096;
    int forwards = 0;
    std::int64_t kept = 0;  // before the step ends on the host, which may let go of what its streams still use
    std::atomic<std::int64_t> before = 0;
    const auto wide = function_layer("wide", [&](const Tensors& x) {
        const Tensors outputs = {x[0].narrow(1, 0, 1).expand({-1, kWidth}) + 1};
        if (++forwards == 4) {
            kept = fake_accelerator::allocated_bytes(0) - before;
            fake_accelerator::release();
        }
        return outputs;
    });
    const auto thrown = in_ranks(2, [&](const Group& group) {
        const at::NoGradGuard no_grad;
        GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 2, Checkpoint::never);
        options.processes = group;
        options.device_messages = kDirectly;
        GPipe pipe({wide, tanh_layer()}, std::move(options));
        const Tensors input = {numbers({8, 6}, 0).to(at::Device("fake:0"))};
        group->barrier();
        before = fake_accelerator::allocated_bytes(0);
        behaviour().holds_copies = true;
        group->barrier();
        pipe.forward(input);
    });
    EXPECT_EQ(text_of(thrown[0]) + text_of(thrown[1]), "");
    EXPECT_EQ(forwards, 4);
    constexpr std::int64_t kSent = 2 * kWidth * 8;  // bytes of a micro-batch's output
    EXPECT_GE(kept, 3 * kSent);
}

void expect_lane_to_issue_ahead(const std::string& way) {
    const auto forwards = std::make_shared<std::atomic<int>>(0);
    std::vector<LayerSpec> layers = {linear(6, 8),
                                     function_layer("count",
                                                    [forwards](const Tensors& x) {
                                                        ++*forwards;
                                                        return x;
                                                    }),
                                     linear(8, 8), linear(8, 4)};
    GPipeOptions options = on_lanes({"fake:0", way == "host" ? "cpu" : "fake:1"}, 4, Checkpoint::never);
    options.device_messages = way;
    std::thread watcher([&] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (*forwards < 4 && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(*forwards, 4) << "the lane waits for its copies";
        fake_accelerator::release();
    });
    const auto thrown = in_ranks(2, [&](const Group& group) {
        GPipeOptions own = options;
        own.processes = group;
        GPipe pipe(layers, own);
        const Tensors input = {numbers({8, 6}, 0).to(at::Device("fake:0"))};
        group->barrier();
        behaviour().holds_copies = true;  // nothing reaches the host, or the other device
        group->barrier();
        pipe.step(input, {numbers({8, 4}, 0)}, first_mean_square);
    });
    watcher.join();
    EXPECT_EQ(text_of(thrown[0]) + text_of(thrown[1]), "");
}

TEST_F(DeviceProcessesTest, LetALaneIssueWhileItsTensorsAreOnTheirWay) {
    expect_lane_to_issue_ahead("host");
}

TEST_F(DeviceMessagesTest, LetALaneIssueWhileItsTensorsAreOnTheirWay) {
    expect_lane_to_issue_ahead(kDirectly);
}

/// Trains until a rank throws. Returns what each rank's caller got.
std::vector<std::string> failures_of(int size, const std::vector<LayerSpec>& layers, const Names& lanes,
                                     const std::string& way = "host") {
    std::vector<std::string> texts;
    const auto thrown = in_ranks(size, [&](const Group& group) {
        GPipeOptions options = on_lanes(lanes, layers.size(), Checkpoint::except_last);
        options.device_messages = way;
        options.schedule = Schedule::one_f_one_b;
        options.processes = group;
        GPipe pipe(layers, options);
        group->together([&] {
            for (int step = 0; step < 100; ++step) {
                pipe.step({numbers({8, 6}, 0)}, {numbers({8, 4}, 0)}, first_mean_square);
            }
            return 0;
        });
    });
    for (const std::exception_ptr& each : thrown) {
        texts.push_back(text_of(each));
    }
    return texts;
}

void expect_one_cause_and_nothing_left(const Names& lanes, const std::string& way) {
    be_slow();
    for (std::size_t thrower = 0; thrower < 4; ++thrower) {
        const auto calls = std::make_shared<std::atomic<int>>(0);
        std::vector<LayerSpec> layers = {linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)};
        layers[thrower] = function_layer("fails", [calls, thrower](const Tensors& x) {
            if (++*calls == 10) {
                throw std::domain_error("the layer is tired");
            }
            return thrower == 0 ? Tensors{torch::cat({x[0], x[0].narrow(1, 0, 2)}, 1)}
                                : Tensors{thrower == 3 ? x[0].narrow(1, 0, 4) : x[0]};
        });
        const std::int64_t before = fake_accelerator::allocated_bytes(0) + fake_accelerator::allocated_bytes(1);
        const auto texts = failures_of(4, layers, lanes, way);
        for (std::size_t rank = 0; rank < 4; ++rank) {
            if (rank == thrower) {
                EXPECT_EQ(texts[rank], "the layer is tired");
            } else {
                EXPECT_THAT(texts[rank], HasSubstr("rank " + std::to_string(thrower) + " (host "));
                EXPECT_THAT(texts[rank], HasSubstr(", lane " + std::to_string(thrower) + ", step "));
                EXPECT_THAT(texts[rank], HasSubstr("layer fails: the layer is tired"));
            }
        }
        EXPECT_EQ(fake_accelerator::allocated_bytes(0) + fake_accelerator::allocated_bytes(1), before);
    }
}

TEST_F(DeviceProcessesTest, EndWithOneCauseAndLeaveNothingBehind) {
    expect_one_cause_and_nothing_left({"fake:0", "fake:1", "cpu", "fake:0"}, "host");
}

TEST_F(DeviceMessagesTest, EndWithOneCauseAndLeaveNothingBehind) {
    expect_one_cause_and_nothing_left({"fake:0", "fake:1", "fake:0", "fake:1"}, kDirectly);
}

/// What is on its way never arrives, and nobody releases it: the failure must.
TEST_F(DeviceMessagesTest, EndSoonThoughTensorsAreOnTheirWay) {
    using Clock = std::chrono::steady_clock;
    const auto calls = std::make_shared<std::atomic<int>>(0);
    std::atomic<Clock::duration::rep> threw = 0;
    const auto throws = function_layer("throws", [calls, &threw](const Tensors& x) {
        if (++*calls == 3) {
            threw = Clock::now().time_since_epoch().count();
            throw std::domain_error("the layer is tired");
        }
        return x;
    });
    const std::vector<LayerSpec> layers = {linear(6, 8), throws, linear(8, 8), linear(8, 4)};
    const auto thrown = in_ranks(2, [&](const Group& group) {
        GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 4, Checkpoint::never);
        options.processes = group;
        options.device_messages = kDirectly;
        GPipe pipe(layers, std::move(options));
        const Tensors input = {numbers({8, 6}, 0).to(at::Device("fake:0"))};
        const Tensors target = {numbers({8, 4}, 0).to(at::Device("fake:1"))};
        group->barrier();
        behaviour().holds_copies = true;  // two micro-batches leave and do not arrive
        group->barrier();
        pipe.step(input, target, first_mean_square);
    });
    const auto took = Clock::duration(Clock::now().time_since_epoch().count() - threw);
    EXPECT_EQ(text_of(thrown[0]), "the layer is tired");
    EXPECT_THAT(text_of(thrown[1]), HasSubstr("layer throws: the layer is tired"));
    EXPECT_LT(took, std::chrono::seconds(20));  // the processes take a second to part
}

TEST_F(DeviceMessagesTest, SayWhyDevicesCannotBeConnected) {
    const std::vector<LayerSpec> layers = {linear(6, 8), linear(8, 4)};
    const auto text_by = [&](const Names& lanes, const std::string& way) {
        const auto thrown = in_ranks(2, [&](const Group& group) {
            GPipeOptions options = on_lanes(lanes, 2, Checkpoint::never);
            options.processes = group;
            options.device_messages = way;
            const GPipe pipe(layers, options);
        });
        EXPECT_NE(text_of(thrown[1]), "") << way;
        return text_of(thrown[0]);
    };
    const std::string faulty = PIPESCOPE_FAULTY_MESSAGES;
    const Names two = {"fake:0", "fake:1"};
    EXPECT_THAT(text_by(two, faulty + "/libother_abi_messages.so"),
                HasSubstr("libother_abi_messages.so' has version 8 of the interface for device messages, and this "
                          "program version 1; both must be equal; build the library with this PipeScope"));
    EXPECT_THAT(text_by(two, faulty + "/libother_torch_messages.so"),
                HasSubstr("libother_torch_messages.so' was built with torch 1.13.0, and this program with "));
    EXPECT_THAT(text_by(two, faulty + "/libmissing_messages.so"),
                HasSubstr("device messages cannot go by the faulty plugin: the cable is not plugged in; send them "
                          "through the host"));
    EXPECT_THAT(
        text_by(two, "./no_such_messages.so"),
        HasSubstr("'./no_such_messages.so' cannot be loaded (./no_such_messages.so: cannot open shared object "));
    EXPECT_THAT(text_by(two, PIPESCOPE_TEST_SPIN_LIBRARY), HasSubstr("has no function pipescope_device_plugin; "));
    EXPECT_THAT(text_by(two, "nccl"), HasSubstr("on fake:0: NCCL connects CUDA devices only; use CUDA devices, or "));
    EXPECT_THAT(text_by(two, "ncll"),
                HasSubstr("device-messages is 'ncll'; it must be host, auto, nccl, or a plugin library's path"));
    behaviour().ranks_share_devices = true;
    EXPECT_THAT(text_by({"fake:1", "fake:1"}, kDirectly),
                ::testing::MatchesRegex(".*lane 0 of rank 0 .* on fake:1 and lane 1 of rank 1 .* on fake:1 are one "
                                        "device \\(fake:1\\); it cannot be connected with itself; give each .*"));
}

TEST_F(DeviceMessagesTest, TakeTheHostsWayWhereTheyMay) {
    const std::vector<LayerSpec> chain = {linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)};
    GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 4, Checkpoint::never);
    options.device_messages = "auto";  // there is no CUDA device
    expect_equal(trained_in_ranks(2, chain, options), trained(chain, options, nullptr, 5));
    options.device_messages = "nccl";  // which lanes on the host do not need
    options.devices = {"cpu", "fake:0"};
    expect_equal(trained_in_ranks(2, chain, options), trained(chain, options, nullptr, 5));
}

TEST_F(DeviceProcessesTest, ThrowTheLayersExceptionThoughEarlierTensorsCannotLeaveAnyMore) {
    const auto calls = std::make_shared<std::atomic<int>>(0);
    const auto throws = function_layer("throws", [calls](const Tensors& x) {
        if (++*calls == 3) {
            throw std::domain_error("the layer is tired");
        }
        return x;
    });
    const std::vector<LayerSpec> layers = {linear(6, 8), throws, linear(8, 8), linear(8, 4)};
    std::atomic<bool> other_is_gone = false;
    std::thread watcher([&] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!other_is_gone && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        fake_accelerator::release();
    });
    const auto thrown = in_ranks(2, [&](Group group) {
        GPipeOptions options = on_lanes({"fake:0", "cpu"}, 4, Checkpoint::never);
        options.processes = group;
        try {
            GPipe pipe(layers, std::move(options));
            const Tensors input = {numbers({8, 6}, 0).to(at::Device("fake:0"))};
            group->barrier();
            behaviour().holds_copies = true;  // two micro-batches wait for the way to the host
            group->barrier();
            pipe.step(input, {numbers({8, 4}, 0)}, first_mean_square);
        } catch (const ProcessError&) {
            options.processes.reset();
            group.reset();
            other_is_gone = true;
            throw;
        }
    });
    watcher.join();
    EXPECT_EQ(text_of(thrown[0]), "the layer is tired");
    EXPECT_THAT(text_of(thrown[1]), HasSubstr("layer throws: the layer is tired"));
}

TEST_F(DeviceProcessesTest, FailAtATensorThatTheirLaneDoesNotHold) {
    const auto elsewhere = function_layer("elsewhere", [](const Tensors& x) { return Tensors{x[0].to("fake:1")}; });
    for (const std::string lane : {"fake:0", "cpu"}) {
        const auto texts = failures_of(2, {linear(6, 8), elsewhere, linear(8, 8), linear(8, 4)}, {lane, "fake:1"});
        EXPECT_EQ(texts[0], "a tensor on fake:1 goes to another process from a lane on " + lane +
                                "; it must be on its lane's device or on cpu; move it there in the layer");
        EXPECT_THAT(texts[1], HasSubstr("lane 0, step 0 copy"));
        EXPECT_THAT(texts[1], HasSubstr(texts[0]));
    }
    const auto on_host = function_layer("on host", [](const Tensors& x) { return Tensors{x[0].cpu()}; });
    const std::vector<LayerSpec> layers = {linear(6, 8), on_host, linear(8, 8), linear(8, 4)};
    const GPipeOptions options = on_lanes({"fake:0", "fake:1"}, 4, Checkpoint::never);
    expect_equal(trained_in_ranks(2, layers, options, 0), trained(layers, options, nullptr, 0));
}
}  // namespace
}  // namespace pipescope
