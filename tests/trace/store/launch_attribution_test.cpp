#include "trace/store/launch_attribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace pipescope {
namespace {
std::vector<std::optional<std::size_t>> tasks_of(const std::vector<LaunchingTask>& tasks,
                                                 const std::vector<LaunchedWork>& work) {
    std::vector<std::optional<std::size_t>> found;
    for (const Attribution& each : attribute_launches(tasks, work)) {
        found.push_back(each.task);
    }
    return found;
}

TEST(LaunchAttribution, FindsTheTaskThatBeganLastAndStillRan) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        std::vector<LaunchingTask> tasks(random() % 20);
        for (LaunchingTask& task : tasks) {
            task.start = random() % 30;
            task.end = task.start + random() % 12;
        }
        std::ranges::stable_sort(tasks, {}, &LaunchingTask::start);
        std::vector<LaunchedWork> work(45);
        std::vector<std::optional<std::size_t>> wanted;
        for (std::size_t k = 0; k < work.size(); ++k) {
            const auto time = static_cast<std::int64_t>(k) - 1;
            work[k].launch = time;
            wanted.emplace_back();
            for (std::size_t t = 0; t < tasks.size(); ++t) {
                wanted.back() = tasks[t].start <= time && time <= tasks[t].end ? t : wanted.back();
            }
        }
        EXPECT_EQ(tasks_of(tasks, work), wanted);
    }
}

// Autograd's thread may use a stream of its own, on which no task's thread ever launches.
TEST(LaunchAttribution, KnowsStreamsOfAutogradAloneByTheThreadOrTheOnlyLane) {
    const std::vector<LaunchingTask> tasks{{1, 0, true, 0, 10}, {1, 0, true, 20, 30}};
    const LaunchedWork own{1, 5, 7};
    const LaunchedWork by_stream{2, 6, 7};
    const LaunchedWork alone{2, 25, 13};
    EXPECT_EQ(tasks_of(tasks, {own, by_stream, alone}), (std::vector<std::optional<std::size_t>>{0, 0, 1}));
    EXPECT_EQ(tasks_of(tasks, {alone}), (std::vector<std::optional<std::size_t>>{1}));
    EXPECT_EQ(tasks_of(tasks, {{2, 15, 13}}), (std::vector<std::optional<std::size_t>>{std::nullopt}));
    const std::vector<LaunchingTask> two{{1, 0, true, 0, 10}, {3, 1, true, 0, 10}};
    EXPECT_EQ(tasks_of(two, {{2, 5, 13}}), (std::vector<std::optional<std::size_t>>{std::nullopt})) << "which lane?";
}

// A launch after 100,000 nested tasks once cost a walk over all of them.
TEST(LaunchAttribution, IsQuickForDeeplyNestedTasks) {
    constexpr std::size_t kDepth = 100'000;
    std::vector<LaunchingTask> tasks(kDepth);
    for (std::size_t k = 0; k < kDepth; ++k) {
        tasks[k].start = static_cast<std::int64_t>(k);
        tasks[k].end = static_cast<std::int64_t>(k == 0 ? 10 * kDepth : 2 * kDepth - k);
    }
    std::vector<LaunchedWork> work(kDepth);
    for (std::size_t k = 0; k < kDepth; ++k) {
        work[k].launch = static_cast<std::int64_t>(3 * kDepth + k);
    }
    const std::clock_t begin = std::clock();
    EXPECT_EQ(tasks_of(tasks, work), std::vector<std::optional<std::size_t>>(kDepth, 0));
    EXPECT_LT(std::clock() - begin, 4 * CLOCKS_PER_SEC) << "it takes a tenth of a second, or 20 if it is quadratic";
}
}  // namespace
}  // namespace pipescope
