#pragma once

#include "engine/task_observer.h"
#include "schedule/task_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <vector>

namespace pipescope::testing_support {
/// Records calls of an observer: every task by lane, and the number of values placed on or moved to a lane.
class TaskLog final : public TaskObserver {
public:
    void placed(const at::Tensor& tensor, LaneId lane) override { placed_[lane] += tensor.numel(); }
    void task_started(const TaskKey& key, LaneId lane) override {
        const std::lock_guard lock(mutex_);
        started_[lane].push_back(key);
    }
    void task_ended(const TaskKey& key, LaneId lane) override {
        const std::lock_guard lock(mutex_);
        EXPECT_EQ(started_[lane].back(), key) << "tasks of a lane do not overlap";
        ++ended_;
    }
    void moved(const at::Tensor& tensor, LaneId to) override {
        const std::lock_guard lock(mutex_);
        moved_[to] += tensor.numel();
    }

    std::int64_t placed(LaneId lane) { return placed_[lane]; }
    std::int64_t moved(LaneId to) { return moved_[to]; }
    const std::vector<TaskKey>& started(LaneId lane) { return started_[lane]; }

    /// Expects one complete step 0 of the graph: each lane's tasks in order, and every copy once, on the sending lane.
    void expect_ran(const TaskGraph& graph) {
        EXPECT_EQ(ended_, graph.tasks().size());
        for (int lane = 0; lane < graph.num_lanes(); ++lane) {
            std::vector<TaskKey> expected;
            for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
                expected.push_back(graph.tasks()[task].key);
            }
            std::vector<TaskKey> compute;
            for (const TaskKey& key : started_[LaneId{lane}]) {
                if (is_copy(key.kind)) {
                    const auto task = graph.find(key);
                    ASSERT_TRUE(task) << to_string(key);
                    EXPECT_EQ(graph.tasks()[*task].lane, LaneId{lane}) << to_string(key);
                } else {
                    compute.push_back(key);
                }
            }
            EXPECT_EQ(compute, expected);
        }
    }

private:
    std::mutex mutex_;
    std::map<LaneId, std::int64_t> placed_;
    std::map<LaneId, std::vector<TaskKey>> started_;
    std::map<LaneId, std::int64_t> moved_;
    std::size_t ended_ = 0;
};
}  // namespace pipescope::testing_support
