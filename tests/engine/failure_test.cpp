#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/plain_model.h"
#include "engine/task_observer.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

namespace pipescope {
namespace {
using namespace testing_support;

struct Defect : std::runtime_error {
    Defect() : std::runtime_error("defect") {}
};
struct NotAStandardException {
    int value;
};

/// The task in which a layer fails.
struct Fault {
    TaskKind kind = TaskKind::forward;
    int micro_batch = 0;
    std::function<void()> raise = [] { throw Defect(); };
    bool armed = true;
};

void fail_if_here(const Fault& fault) {
    const auto task = current_task();
    if (fault.armed && task && task->key.kind == fault.kind && task->key.micro_batch == fault.micro_batch) {
        fault.raise();
    }
}

/// y = 2x, with the given fault. Backward has a hook, which autograd runs in the lane's backward task.
LayerSpec faulty(std::string name, const Fault& fault) {
    return function_layer(std::move(name), [&fault](const Tensors& in) {
        fail_if_here(fault);
        at::Tensor out = in[0] * 2;
        if (out.requires_grad()) {
            out.register_hook([&fault](const at::Tensor& gradient) {
                fail_if_here(fault);
                return gradient;
            });
        }
        return Tensors{out};
    });
}

at::Tensor ones() {
    return torch::ones({6, 2}, torch::kFloat64).requires_grad_();
}

class FailingLayer : public ::testing::TestWithParam<std::tuple<TaskKind, Driver>> {
protected:
    TaskKind kind() const { return std::get<TaskKind>(GetParam()); }

    Fault fault_{.kind = kind(), .micro_batch = 1};
    GPipe model_{{linear(2, 2), faulty("faulty", fault_), linear(2, 2)},
                 {.balance = {1, 1, 1},
                  .devices = cpus(3),
                  .chunks = 3,
                  .checkpoint = Checkpoint::except_last,
                  .driver = std::get<Driver>(GetParam())}};

    void expect_usable() {
        fault_.armed = false;
        model_.zero_grad();
        const at::Tensor input = ones();
        model_.forward(input).sum().backward();
        EXPECT_TRUE(input.grad().defined());
        EXPECT_TRUE(std::isfinite(model_.step(input, input, sum_of).item<double>()));
    }
};

TEST_P(FailingLayer, ReachesTheCallerOfStepUnchangedAndLeavesTheModelUsable) {
    EXPECT_THROW(model_.step(ones(), ones(), sum_of), Defect);
    const Failure failure = model_.last_failure().value();
    EXPECT_EQ(failure.task, (TaskKey{0, kind(), 1, 1, -1}));
    EXPECT_EQ(failure.lane, LaneId{1});
    EXPECT_EQ(failure.layer, LayerId{1});
    EXPECT_EQ(failure.layer_name, "faulty");
    expect_usable();
}

TEST_P(FailingLayer, ReachesTheCallerOfForwardAndBackwardUnchanged) {
    EXPECT_THROW(model_.forward(ones()).sum().backward(), Defect);
    ASSERT_TRUE(model_.last_failure());
    EXPECT_EQ(model_.last_failure()->task.kind, kind());
    expect_usable();
}

TEST_P(FailingLayer, MayThrowWhatIsNoStandardException) {
    fault_.raise = [] { throw NotAStandardException{7}; };
    // A caller's backward() runs torch's engine, which passes on standard exceptions only. Others become EngineError.
    const bool engine_runs_it = kind() != TaskKind::forward;
    // Runs in a separate thread: torch's engine miscounts after such exceptions in the calling thread.
    std::thread([&] {
        for (int repeat = 0; repeat < 3; ++repeat) {
            try {
                model_.step(ones(), ones(), sum_of);
                ADD_FAILURE() << "nothing was thrown";
            } catch (const NotAStandardException& exception) {
                EXPECT_EQ(exception.value, 7);
            }
            if (engine_runs_it) {
                EXPECT_THROW(model_.forward(ones()).sum().backward(), EngineError);
            } else {
                EXPECT_THROW(model_.forward(ones()).sum().backward(), NotAStandardException);
            }
        }
    }).join();
    expect_usable();
}
INSTANTIATE_TEST_SUITE_P(In, FailingLayer,
                         ::testing::Combine(::testing::Values(TaskKind::forward, TaskKind::recompute,
                                                              TaskKind::backward),
                                            ::testing::Values(Driver::scheduled, Driver::autograd)),
                         [](const auto& each) {
                             return std::string(to_string(std::get<TaskKind>(each.param))) +
                                    (std::get<Driver>(each.param) == Driver::autograd ? "_autograd" : "");
                         });

TEST(Failure, OfNoStandardExceptionEndsNoProcessHoweverOften) {
    Fault fault{.kind = TaskKind::backward, .micro_batch = 1, .raise = [] { throw NotAStandardException{7}; }};
    GPipe model({linear(2, 2), faulty("faulty", fault)}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 3});
    for (int repeat = 0; repeat < 70; ++repeat) {
        EXPECT_THROW(model.step(ones(), ones(), sum_of), NotAStandardException);
        EXPECT_THROW(model.forward(ones()).sum().backward(), EngineError);
        EXPECT_EQ(model.last_failure()->layer_name, "faulty");
    }
    fault.armed = false;
    EXPECT_TRUE(std::isfinite(model.step(ones(), ones(), sum_of).item<double>()));
}

TEST(Failure, OfTheLossReachesTheCallerUnchanged) {
    GPipe model({linear(2, 2), linear(2, 2)}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 3});
    EXPECT_THROW(model.step(ones(), ones(), [](const at::Tensor&, const at::Tensor&) -> at::Tensor { throw Defect(); }),
                 Defect);
    EXPECT_EQ(model.last_failure()->task.kind, TaskKind::loss);
}

TEST(Failure, OfSeveralLanesIsTheFirstInScheduleOrder) {
    // Lane 0 fails in (1, 0) and lane 1 in (0, 1), each only when the other is about to fail: both throw.
    for (int repeat = 0; repeat < 20; ++repeat) {
        Rendezvous both(2);
        const auto fail_as = [&](int micro_batch, int partition, const char* name) {
            return function_layer(name, [&both, micro_batch, partition, name](const Tensors& in) {
                const TaskKey key = current_task()->key;
                if (key.micro_batch == micro_batch && key.partition == partition) {
                    EXPECT_TRUE(both.meet());
                    throw std::runtime_error(name);
                }
                return in;
            });
        };
        GPipe model({fail_as(1, 0, "second"), fail_as(0, 1, "first")},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 4});
        EXPECT_THAT(thrown<std::runtime_error>([&] { model.forward(ones()); }), "first");
        EXPECT_EQ(model.last_failure()->lane, LaneId{1});
    }
}

/// References to the caller's thread-local state, which every lane holds while it runs a step.
long references_to_callers_state() {
    return c10::ThreadLocalDebugInfo::current().use_count();
}

TEST(Failure, StopsTheOtherLanesAtTheirNextTask) {
    const c10::DebugInfoGuard carried(c10::DebugInfoKind::TEST_INFO, std::make_shared<c10::DebugInfoBase>());
    for (int repeat = 0; repeat < 10; ++repeat) {
        Rendezvous both(2);
        std::atomic<long> both_at_work = 0;
        int ran = 0;
        const auto count = function_layer("count", [&](const Tensors& in) {
            ++ran;
            if (current_task()->key.micro_batch == 1) {
                EXPECT_TRUE(both.meet());
                while (references_to_callers_state() >= both_at_work) {  // until the lane that failed is done
                    std::this_thread::yield();
                }
            }
            return in;
        });
        const auto raise = function_layer("raise", [&](const Tensors&) -> Tensors {
            both_at_work = references_to_callers_state();
            EXPECT_TRUE(both.meet());
            throw Defect();
        });
        GPipe model({count, raise}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 20});
        EXPECT_THROW(model.forward(torch::ones({20, 2})), Defect);
        EXPECT_EQ(ran, 2) << "the task that ran when the other lane failed was the last";
    }
}

TEST(Failure, FreesWhatTheStepHeld) {
    LiveTensors live;
    Fault fault{.kind = TaskKind::backward, .micro_batch = 1};
    GPipe model({live.layer("a"), faulty("faulty", fault), live.layer("b")},
                {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 3, .checkpoint = Checkpoint::never});
    EXPECT_THROW(model.step(ones(), ones(), sum_of), Defect);
    EXPECT_EQ(live.count(), 0);
}

/// Counts tasks that have not ended.
class OpenTasks final : public TaskObserver {
public:
    void placed(const at::Tensor&, LaneId) override {}
    void task_started(const TaskKey&, LaneId) override { ++open_; }
    void task_ended(const TaskKey&, LaneId) override { --open_; }
    void moved(const at::Tensor&, LaneId) override {}
    int count() const { return open_; }

private:
    std::atomic<int> open_ = 0;
};

// Autograd calls no callback of a backward that fails. What is left open would outlive the model and its observer.
TEST(Failure, EndsTheBackwardTaskThatAutogradRan) {
    for (const auto mode : {Checkpoint::never, Checkpoint::except_last}) {
        Fault fault{TaskKind::backward, 3};
        OpenTasks tasks;
        GPipeOptions options = on_host({1, 1}, 4, mode, Driver::autograd);
        options.observer = &tasks;
        GPipe model({faulty("a", fault), faulty("b", fault)}, options);
        EXPECT_THROW(model.forward(ones()).sum().backward(), Defect);
        EXPECT_EQ(tasks.count(), 0);
        EXPECT_FALSE(current_task());
    }
}

TEST(Failure, NamesTheLayerThatRanAnotherModelBefore) {
    PlainModel inner({linear(2, 2), linear(2, 2), linear(2, 2)}, {});
    const LayerSpec outer = function_layer("outer", [&inner](const Tensors& in) -> Tensors {
        inner.forward(in);
        throw Defect();
    });
    GPipe model({linear(2, 2), outer}, {.balance = {1, 1}, .devices = cpus(2)});
    EXPECT_THROW(model.forward(ones()), Defect);
    EXPECT_EQ(model.last_failure()->layer, LayerId{1});
    EXPECT_EQ(model.last_failure()->layer_name, "outer");
}

TEST(Failure, ForgetsNothingOfAnEarlierForward) {
    Fault fault;
    fault.armed = false;
    GPipe model({linear(2, 2), faulty("faulty", fault)}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 3});
    const at::Tensor input = ones();
    const at::Tensor output = model.forward(input);
    fault.armed = true;
    EXPECT_THROW(model.forward(ones()), Defect);
    output.sum().backward();
    EXPECT_TRUE(input.grad().defined());
}
}  // namespace
}  // namespace pipescope
