// exit() while lanes run, in processes of their own.

#include "engine/lanes/process_end.h"
#include "engine/gpipe.h"
#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

namespace pipescope {
namespace {
using namespace testing_support;

class ProcessEnd : public ::testing::TestWithParam<Driver> {
protected:
    ProcessEnd() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // each process starts anew

    static GPipeOptions options() {
        return {.balance = {3, 3}, .devices = cpus(2), .chunks = 4, .driver = GetParam(), .host_cores = 2};
    }
};

/// Trains for ever in another thread, and calls exit() after some steps and a little more.
void train_and_exit(GPipeOptions options, int steps, int more_us) {
    std::atomic<int> done = 0;
    std::thread([&done, options] {
        GPipe model(dropout_mlp(), options);
        torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(1e-3));
        const at::Tensor input = samples(32);
        const at::Tensor target = samples(32, 4);
        while (true) {
            optimizer.zero_grad();
            if (done % 2 == 0) {
                mean_square(model.forward(input), target).backward();
            } else {
                model.step(input, target, mean_square);
            }
            optimizer.step();
            ++done;
        }
    }).detach();
    while (done < steps) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(more_us));
    std::exit(3);
}

TEST_P(ProcessEnd, HasExitsCodeWhileAnotherThreadTrains) {
    for (int k = 0; k < 6; ++k) {
        EXPECT_EXIT(train_and_exit(options(), 1 + k, 150 * k), ::testing::ExitedWithCode(3), "");
    }
}

// As an interpreter does before it destroys its own state.
TEST_P(ProcessEnd, StopsOtherThreadsBeforeExitOnRequest) {
    const auto ends = [] {
        static std::atomic<int> done = 0;
        std::thread([] {
            GPipe model(dropout_mlp(), options());
            while (true) {
                model.step(samples(8), samples(8, 4), mean_square);
                ++done;
            }
        }).detach();
        while (done < 3) {
            std::this_thread::yield();
        }
        const bool all_stopped = end_other_threads();
        const int at_the_end = done;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        std::exit(all_stopped && done == at_the_end ? 8 : 9);
    };
    EXPECT_EXIT(ends(), ::testing::ExitedWithCode(8), "");
}

TEST_P(ProcessEnd, HasExitsCodeWhereALayerCallsIt) {
    const auto exits = [] {
        GPipe model({function_layer("exits",
                                    [](const Tensors& in) -> Tensors {
                                        if (in[0].size(0) > 0) {
                                            std::exit(4);
                                        }
                                        return in;
                                    }),
                     linear(6, 4)},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 4, .driver = GetParam()});
        model.forward(samples(8));
    };
    EXPECT_EXIT(exits(), ::testing::ExitedWithCode(4), "");
}

TEST_P(ProcessEnd, DoesNotWaitForATaskThatTakesForEver) {
    const auto exits = [] {
        static std::atomic<bool> is_stuck = false;
        std::thread([] {
            GPipe model({function_layer("stuck",
                                        [](const Tensors& in) {
                                            is_stuck = true;
                                            std::this_thread::sleep_for(std::chrono::hours(1));
                                            return in;
                                        })},
                        {.balance = {1}, .devices = cpus(1), .driver = GetParam()});
            model.forward(samples(8));
        }).detach();
        while (!is_stuck) {
            std::this_thread::yield();
        }
        std::exit(5);
    };
    EXPECT_EXIT(exits(), ::testing::ExitedWithCode(5), "");
}

TEST_P(ProcessEnd, LetsTheThreadInExitUseAndFreeItsModels) {
    if (GetParam() == Driver::autograd) {
        GTEST_SKIP() << "torch's backward() runs in this thread, whose thread-local state exit() has destroyed by then";
    }
    const auto exits = [] {
        static std::unique_ptr<GPipe> model;
        samples(2).requires_grad_().sum().backward();  // what torch makes now outlives the handler
        std::atexit([] {                               // comes behind all that the model registers
            model->step(samples(8), samples(8, 4), mean_square);
            model.reset();
            std::fputs("trained in exit\n", stderr);
        });
        model = std::make_unique<GPipe>(dropout_mlp(), options());
        model->step(samples(8), samples(8, 4), mean_square);
        std::exit(6);
    };
    EXPECT_EXIT(exits(), ::testing::ExitedWithCode(6), "trained in exit");
}

// A data loader may fork: the child has no lanes, and must not wait for them.
TEST_P(ProcessEnd, AForkedChildDestroysATrainedModel) {
    const auto forks = [] {
        auto model = std::make_unique<GPipe>(dropout_mlp(), options());
        model->step(samples(8), samples(8, 4), mean_square);
        const pid_t child = ::fork();
        if (child == 0) {
            alarm(60);  // ends a child that hangs
            model.reset();
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        model->step(samples(8), samples(8, 4), mean_square);
        std::exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 7 : 8);
    };
    EXPECT_EXIT(forks(), ::testing::ExitedWithCode(7), "");
}

INSTANTIATE_TEST_SUITE_P(Drivers, ProcessEnd, ::testing::Values(Driver::scheduled, Driver::autograd),
                         [](const auto& each) { return each.param == Driver::scheduled ? "scheduled" : "autograd"; });
}  // namespace
}  // namespace pipescope
