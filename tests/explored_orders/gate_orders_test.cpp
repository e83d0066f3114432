#include "engine/cores/usable_cores.h"
#include "engine/lanes/task_gate.h"
#include "schedule/schedules.h"
#include "tests/explored_orders/order_explorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The gate and the turns on cores, in every order of their lanes: the classes of the engine, with tasks that only
// combine numbers.

namespace pipescope {
namespace {
using explored::Limits;
using explored::Outcome;
using explored::require;

constexpr long kRandomOrders = 2000;

/// One run of a task graph on lanes, as the engine's step runs one.
class LanesRun {
public:
    /// `cores`: that the lanes share; 0: each has its own.
    LanesRun(const TaskGraph& graph, std::size_t cores, std::optional<TaskIndex> failing)
        : graph_(graph), failing_(failing), values_(graph.tasks().size()) {
        if (cores > 0) {
            turns_ =
                std::make_unique<CoreScheduler>(std::vector<bool>(static_cast<std::size_t>(graph.num_lanes()), true),
                                                std::vector<int>(cores, usable_core_numbers().front()));
        }
        gate_.emplace(graph, turns_.get());
    }

    /// Runs all lanes, the first in this thread; fails the order if the outcome depends on it.
    void run() {
        {
            std::deque<Thread> others;
            for (int lane = 1; lane < graph_.num_lanes(); ++lane) {
                others.emplace_back([this, lane] { run_lane(LaneId{lane}); });
            }
            run_lane(LaneId{0});
        }
        require(gate_->stopped() == failing_.has_value(), "the run stopped without a failure, or failed unseen");
        require(failed_ == failing_, "another task failed");
        if (!failing_) {
            require(std::none_of(values_.begin(), values_.end(), [](std::uint64_t each) { return each == 0; }),
                    "a task did not run");
        }
    }

private:
    void run_lane(LaneId lane) {
        run_tasks(lane);
        gate_->leave(lane);
    }

    void run_tasks(LaneId lane) {
        for (const TaskIndex task : graph_.lane_order(lane)) {
            if (!gate_->wait(task)) {
                return;
            }
            if (!run_task(task)) {
                return;
            }
            for (const TaskIndex next : graph_.dependents(task)) {
                if (is_copy(graph_.tasks()[next].key.kind) && !run_task(next)) {
                    return;
                }
            }
        }
    }

    /// A task's value follows from those of its dependencies. False if it fails.
    bool run_task(TaskIndex task) {
        if (task == failing_) {
            failed_ = task;
            gate_->stop();
            return false;
        }
        std::uint64_t value = task + 1;
        for (const TaskIndex needed : graph_.dependencies(task)) {
            require(values_[needed] != 0, "a task ran before a dependency");
            value = value * 31 + values_[needed];
        }
        require(values_[task] == 0, "a task ran twice");
        values_[task] = value;
        gate_->finish(task);
        return true;
    }

    const TaskGraph& graph_;
    const std::optional<TaskIndex> failing_;
    std::vector<std::uint64_t> values_;  // by task; 0: not yet run
    std::optional<TaskIndex> failed_;
    std::unique_ptr<CoreScheduler> turns_;
    std::optional<TaskGate> gate_;
};

struct Case {
    Schedule schedule = Schedule::gpipe;
    int lanes = 2;
    int micro_batches = 2;
    std::size_t cores = 0;
};

TaskGraph graph_of(const Case& run) {
    return make_schedule(run.schedule, {.num_partitions = run.lanes, .num_micro_batches = run.micro_batches});
}

/// Explores runs without a failure, then, for each task, runs in which the task fails; prints the number of orders.
void explore_all(const Case& run, const Limits& whole, const Limits& failed) {
    const TaskGraph graph = graph_of(run);
    long orders = 0;
    const auto expect_good = [&](const Outcome& outcome, bool must_be_complete) {
        orders += outcome.orders;
        EXPECT_EQ(outcome.failure, "") << to_string(outcome);
        EXPECT_TRUE(outcome.is_complete || !must_be_complete) << "more orders than " << outcome.orders;
        return outcome.failure.empty();
    };
    const auto program_with = [&](std::optional<TaskIndex> failing) {
        return [&, failing] { LanesRun(graph, run.cores, failing).run(); };
    };
    ASSERT_TRUE(expect_good(explored::explore(program_with(std::nullopt), whole), true));
    ASSERT_TRUE(expect_good(explored::explore_randomly(program_with(std::nullopt), 1, kRandomOrders, whole.time_limits),
                            false));
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {
        ASSERT_TRUE(expect_good(explored::explore(program_with(task), failed), true)) << "failing task " << task;
    }
    std::printf("%ld orders of %zu tasks on %d lanes, %zu cores\n", orders, graph.tasks().size(), run.lanes, run.cores);
}

TEST(GateOrders, TwoLanesEndAlike) {
    explore_all({.lanes = 2, .micro_batches = 2}, {.preemptions = 3}, {.preemptions = 2});
}

TEST(GateOrders, ThreeLanesEndAlike) {
    explore_all({.lanes = 3, .micro_batches = 3}, {.preemptions = 1}, {.preemptions = 1});
}

TEST(GateOrders, OneForwardOneBackwardEndsAlike) {
    explore_all({.schedule = Schedule::one_f_one_b, .lanes = 2, .micro_batches = 3}, {.preemptions = 2},
                {.preemptions = 1});
}

TEST(GateOrders, LanesThatShareACoreEndAlike) {
    explore_all({.lanes = 2, .micro_batches = 2, .cores = 1}, {.preemptions = 3}, {.preemptions = 2});
}

TEST(GateOrders, ThreeLanesOnTwoCoresEndAlike) {
    explore_all({.lanes = 3, .micro_batches = 2, .cores = 2}, {.preemptions = 1}, {.preemptions = 1});
}

/// As when the system is slow: a lane's patience ends while the others are about to hand it a core.
TEST(GateOrders, LanesThatLosePatienceEndAlike) {
    testing::internal::CaptureStderr();
    explore_all({.lanes = 2, .micro_batches = 2, .cores = 1},
                {.preemptions = 2, .time_limits = explored::TimeLimits::at_any_time},
                {.preemptions = 1, .time_limits = explored::TimeLimits::at_any_time});
    EXPECT_NE(testing::internal::GetCapturedStderr().find("a lane waited longer"), std::string::npos);
}
}  // namespace
}  // namespace pipescope
