#include "simulator/search/schedule_search.h"

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"
#include "schedule/schedules.h"
#include "simulator/clock/task_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>

namespace pipescope {
namespace {
using Ns = std::int64_t;

PipelineShape shape_of(const ScheduleCosts& costs) {
    PipelineShape shape;
    shape.num_partitions = static_cast<int>(costs.partitions.size());
    shape.num_micro_batches = costs.micro_batches;
    shape.checkpoint = costs.checkpoint;
    for (const ScheduleCosts::Partition& each : costs.partitions) {
        shape.placement.push_back(each.lane);
    }
    shape.loss = LossScope::micro_batch;
    shape.backward_order = BackwardOrder::first_first;
    shape.recompute_start = costs.recompute_start;
    return shape;
}

/// The step on the simulator's clock.
Ns clocked(const ScheduleCosts& costs, const TaskGraph& graph) {
    const bool splits =
        std::ranges::any_of(graph.tasks(), [](const Task& task) { return task.key.kind == TaskKind::backward_weight; });
    std::vector<Ns> durations;
    for (const Task& task : graph.tasks()) {
        const ScheduleCosts::Partition& at = costs.at(std::max<int>(0, task.key.partition), task.key.micro_batch);
        switch (task.key.kind) {
            case TaskKind::forward: {
                const bool keeps =
                    !is_checkpointed(costs.checkpoint, MicroBatchId{task.key.micro_batch}, costs.micro_batches);
                durations.push_back(at.forward + (keeps ? at.kept_more : 0));
                break;
            }
            case TaskKind::recompute: durations.push_back(at.recompute); break;
            case TaskKind::backward: durations.push_back(at.backward + (splits ? 0 : at.backward_weight)); break;
            case TaskKind::backward_weight: durations.push_back(at.backward_weight); break;
            case TaskKind::copy_forward:
            case TaskKind::copy_backward: durations.push_back(at.copy); break;
            default: durations.push_back(0);
        }
    }
    std::vector<Ns> ends(durations.size());
    TaskClock(graph).run(std::span<const Ns>(durations), ends);
    return *std::ranges::max_element(ends);
}

/// Most bytes that micro-batches hold on each lane at once.
std::vector<Bytes> held(const ScheduleCosts& costs, const std::vector<LaneProgram>& programs) {
    std::vector<Bytes> most;
    for (const LaneProgram& program : programs) {
        Bytes now = 0;
        Bytes peak = 0;
        for (const TaskKey& task : program) {
            const ScheduleCosts::Partition& at = costs.at(task.partition, task.micro_batch);
            const bool recomputed =
                task.micro_batch >= 0 &&
                is_checkpointed(costs.checkpoint, MicroBatchId{task.micro_batch}, costs.micro_batches);
            switch (task.kind) {
                case TaskKind::forward: now += recomputed ? at.input : at.saved; break;
                case TaskKind::recompute: now += at.saved - at.input; break;
                case TaskKind::backward_weight: now -= at.saved; break;
                default: break;
            }
            peak = std::max(peak, now);
        }
        most.push_back(peak);
    }
    return most;
}

struct Random {
    explicit Random(unsigned seed) : engine(seed) {}
    Ns operator()(Ns least, Ns most) { return std::uniform_int_distribution<Ns>(least, most)(engine); }
    std::mt19937 engine;
};

/// `rounds` partitions a lane, in turn or, as a V, there and back.
ScheduleCosts random_costs(Random& random, int lanes, int rounds, int micro_batches, bool is_v, Ns most_copy) {
    ScheduleCosts costs;
    costs.micro_batches = micro_batches;
    const int partitions = lanes * rounds;
    for (int j = 0; j < partitions; ++j) {
        ScheduleCosts::Partition& at = costs.partitions.emplace_back();
        const int lane = is_v && (j / lanes) % 2 == 1 ? lanes - 1 - j % lanes : j % lanes;
        at.lane = LaneId{lane};
        at.forward = random(0, 20) == 0 ? 0 : random(300, 1500);
        at.backward = random(300, 1500);
        at.backward_weight = random(0, 10) == 0 ? 0 : random(200, 1500);
        at.recompute = at.forward;
        at.copy = random(0, most_copy);
        at.input = random(1, 20);
        at.saved = random(20, 100);
    }
    for (int j = 0; j + 1 < partitions; ++j) {
        ScheduleCosts::Partition& at = costs.partitions[static_cast<std::size_t>(j)];
        if (at.lane == costs.partitions[static_cast<std::size_t>(j) + 1].lane) {
            at.copy = 0;
        }
    }
    return costs;
}

/// Makes the last `smaller` micro-batches cheaper, by a factor of their own for each task.
void make_smaller(Random& random, ScheduleCosts& costs, int smaller) {
    costs.num_larger = costs.micro_batches - smaller;
    costs.smaller = costs.partitions;
    for (ScheduleCosts::Partition& at : costs.smaller) {
        for (Ns* const ns : {&at.forward, &at.recompute, &at.backward, &at.backward_weight, &at.copy}) {
            *ns = *ns * random(10, 95) / 100;
        }
        at.saved = at.saved * 3 / 4;
        at.input = std::min(at.input, at.saved);
    }
}

/// Every order of a lane's tasks with ascending micro-batches. With except_last, the one at place `kept` is the one
/// that is not recomputed.
void all_orders(const ScheduleCosts& costs, int j, int kept, std::string& order, std::vector<std::string>& all) {
    const auto count = [&](char kind) { return static_cast<int>(std::ranges::count(order, kind)); };
    const int m = costs.micro_batches;
    const auto is_recomputed = [&](int i) {
        return costs.checkpoint == Checkpoint::always || (costs.checkpoint == Checkpoint::except_last && i != kept);
    };
    if (count('W') == m) {
        all.push_back(order);
        return;
    }
    const auto go_on = [&](char kind) {
        order.push_back(kind);
        Bytes bytes = 0;
        for (int i = count('W'); i < count('F'); ++i) {
            const int recomputes = count('R') + (kept < i && !is_recomputed(kept) ? 1 : 0);
            bytes += is_recomputed(i) && i >= recomputes ? costs.at(j, i).input : costs.at(j, i).saved;
        }
        if (costs.limits.empty() || bytes <= costs.limits[static_cast<std::size_t>(j)]) {
            all_orders(costs, j, kept, order, all);
        }
        order.pop_back();
    };
    if (count('F') < m) {
        go_on('F');
    }
    const int recompute = count('R') + (count('R') >= kept && !is_recomputed(kept) ? 1 : 0);
    if (recompute < count('F') && is_recomputed(recompute)) {
        go_on('R');
    }
    const int next = count('I');
    if (next < count('F') && (!is_recomputed(next) || next < recompute)) {
        go_on('I');
    }
    if (count('W') < count('I')) {
        go_on('W');
    }
}

/// The step of one order for each lane, by repeating all rules until nothing changes; empty for a deadlock.
std::optional<Ns> step_of(const ScheduleCosts& costs, int kept, const std::vector<const std::string*>& orders) {
    const std::size_t n = orders.size();
    std::map<std::tuple<char, std::size_t, int>, Ns> ends;
    std::vector<std::size_t> place(n, 0);
    std::vector<Ns> free(n, 0);
    bool moved = true;
    while (moved) {
        moved = false;
        for (std::size_t j = 0; j < n; ++j) {
            while (place[j] < orders[j]->size()) {
                const char kind = (*orders[j])[place[j]];
                const auto i = static_cast<int>(
                    std::count(orders[j]->begin(), orders[j]->begin() + static_cast<std::ptrdiff_t>(place[j]), kind));
                std::optional<Ns> ready = Ns{0};
                const auto wait_for = [&](char other, std::size_t where, Ns copy) {
                    const auto found = ends.find({other, where, i});
                    ready = found == ends.end() ? std::nullopt : std::optional(found->second + copy);
                };
                if (kind == 'F' && j > 0) {
                    wait_for('F', j - 1, costs.at(static_cast<int>(j) - 1, i).copy);
                } else if (kind == 'I') {
                    j + 1 < n ? wait_for('I', j + 1, costs.at(static_cast<int>(j), i).copy) : wait_for('F', j, 0);
                } else if (kind == 'W') {
                    wait_for('I', j, 0);
                }
                if (!ready) {
                    break;
                }
                const auto& at = costs.at(static_cast<int>(j), i);
                const bool keeps = costs.checkpoint == Checkpoint::except_last && i == kept;
                free[j] = std::max(free[j], *ready) + (kind == 'F'   ? at.forward + (keeps ? at.kept_more : 0)
                                                       : kind == 'R' ? at.recompute
                                                       : kind == 'I' ? at.backward
                                                                     : at.backward_weight);
                ends[{kind, j, i}] = free[j];
                ++place[j];
                moved = true;
            }
        }
    }
    for (std::size_t j = 0; j < n; ++j) {
        if (place[j] < orders[j]->size()) {
            return std::nullopt;
        }
    }
    return *std::ranges::max_element(free);
}

/// The shortest step of all orders with ascending micro-batches. One partition a lane; copies must be shorter than the
/// tasks that send them, so that links are never busy.
Ns best_of_all(const ScheduleCosts& costs, int kept) {
    const std::size_t n = costs.partitions.size();
    std::vector<std::vector<std::string>> orders(n);
    for (std::size_t j = 0; j < n; ++j) {
        std::string order;
        all_orders(costs, static_cast<int>(j), kept, order, orders[j]);
    }
    Ns best = std::numeric_limits<Ns>::max();
    std::vector<std::size_t> at(n, 0);
    while (true) {
        std::vector<const std::string*> chosen;
        for (std::size_t j = 0; j < n; ++j) {
            chosen.push_back(&orders[j][at[j]]);
        }
        best = std::min(best, step_of(costs, kept, chosen).value_or(best));
        std::size_t j = 0;
        while (j < n && ++at[j] == orders[j].size()) {
            at[j++] = 0;
        }
        if (j == n) {
            return best;
        }
    }
}
Ns best_of_all(const ScheduleCosts& costs) {
    Ns best = best_of_all(costs, costs.micro_batches - 1);
    for (int kept = 0; kept + 1 < costs.micro_batches && costs.checkpoint == Checkpoint::except_last; ++kept) {
        best = std::min(best, best_of_all(costs, kept));
    }
    return best;
}
}  // namespace

TEST(ScheduleSearch, FindsTheBestOfAllOrdersOfSmallPipelines) {
    Random random(1);
    for (int round = 0; round < 24; ++round) {
        const bool is_deep = round % 3 == 0;
        ScheduleCosts costs = random_costs(random, is_deep ? 3 : 2, 1, 2, false, round % 2 == 0 ? 0 : 150);
        for (ScheduleCosts::Partition& each : costs.partitions) {
            each.forward = std::max<Ns>(each.forward, 300);
            each.saved = 10;
        }
        if (round % 4 == 3) {
            costs.limits.assign(costs.partitions.size(), 10 + 10 * random(0, 1));
        }
        const FoundSchedule found = find_schedule(costs);
        EXPECT_EQ(found.step_ns, best_of_all(costs)) << "round " << round;
        EXPECT_LE(found.bound_ns, found.step_ns) << "round " << round;
        EXPECT_TRUE(found.is_optimal) << "round " << round;
    }
}

TEST(ScheduleSearch, FindsTheBestOfAllOrdersThatRecompute) {
    Random random(11);
    int earlier = 0;
    for (int round = 0; round < 40; ++round) {
        ScheduleCosts costs = random_costs(random, round % 10 == 0 ? 3 : 2, 1, 2, false, round % 2 == 0 ? 0 : 150);
        costs.checkpoint = round % 3 == 0 ? Checkpoint::except_last : Checkpoint::always;
        for (ScheduleCosts::Partition& each : costs.partitions) {
            each.forward = std::max<Ns>(each.forward, 300);
            each.recompute = random(200, 1500);
            each.kept_more = round % 2 == 0 ? 0 : each.recompute / 8 * (round % 5 == 0 ? -1 : 1);
            each.input = 4;
            each.saved = 10;
        }
        if (round % 4 == 3) {
            costs.limits.assign(costs.partitions.size(), 14 + 6 * random(0, 1));
        }
        const FoundSchedule found = find_schedule(costs);
        EXPECT_EQ(found.step_ns, best_of_all(costs)) << "round " << round;
        EXPECT_LE(found.bound_ns, found.step_ns) << "round " << round;
        EXPECT_EQ(clocked(costs, TaskGraph(shape_of(costs), found.programs)), found.step_ns) << "round " << round;
        if (!found.plain.empty()) {
            EXPECT_GT(clocked(costs, TaskGraph(shape_of(costs), found.plain)), found.step_ns) << "round " << round;
            ++earlier;
        }
        for (std::size_t lane = 0; lane < costs.limits.size(); ++lane) {
            EXPECT_LE(held(costs, found.programs)[lane], costs.limits[lane]) << "round " << round;
        }
    }
    EXPECT_GE(earlier, 4);
}

TEST(ScheduleSearch, RecomputesInPausesOfLargePipelines) {
    Random random(12);
    int earlier = 0;
    for (int round = 0; round < 12; ++round) {
        ScheduleCosts costs = random_costs(random, static_cast<int>(random(3, 8)), static_cast<int>(random(1, 2)),
                                           static_cast<int>(random(6, 24)), false, 300);
        costs.checkpoint = random(0, 1) == 1 ? Checkpoint::except_last : Checkpoint::always;
        for (ScheduleCosts::Partition& each : costs.partitions) {
            each.kept_more = round % 2 == 0 ? 0 : each.recompute / 8;
        }
        const FoundSchedule found = find_schedule(costs);
        EXPECT_EQ(clocked(costs, TaskGraph(shape_of(costs), found.programs)), found.step_ns) << "round " << round;
        EXPECT_LE(found.bound_ns, found.step_ns) << "round " << round;
        earlier += found.plain.empty() ? 0 : 1;
        EXPECT_EQ(find_schedule(costs).programs, found.programs) << "round " << round;
    }
    EXPECT_GE(earlier, 3);
}

TEST(ScheduleSearch, FindsTheBestOfAllOrdersOfMicroBatchesOfTwoSizes) {
    Random random(8);
    for (int round = 0; round < 24; ++round) {
        ScheduleCosts costs = random_costs(random, round % 3 == 0 ? 3 : 2, 1, 2, false, round % 2 == 0 ? 0 : 100);
        for (ScheduleCosts::Partition& each : costs.partitions) {
            each.forward = std::max<Ns>(each.forward, 300);
            each.saved = 40;
        }
        make_smaller(random, costs, 1);
        for (std::size_t j = 0; j < costs.partitions.size(); ++j) {  // so that links are never busy
            costs.smaller[j].copy = std::min<Ns>(costs.smaller[j].copy, 20);
        }
        if (round % 4 == 3) {
            costs.limits.assign(costs.partitions.size(), 40 + 30 * random(0, 1));
        }
        const FoundSchedule found = find_schedule(costs);
        const Ns best = best_of_all(costs);
        EXPECT_EQ(found.step_ns, best) << "round " << round;
        EXPECT_LE(found.bound_ns, best) << "round " << round;
    }
}

TEST(ScheduleSearch, FindsTheBestOfAllOrdersOfThreeMicroBatches) {
    Random random(2);
    for (int round = 0; round < 3; ++round) {
        ScheduleCosts costs = random_costs(random, 2, 1, 3, false, 0);
        for (ScheduleCosts::Partition& each : costs.partitions) {
            each.saved = 10;
        }
        if (round == 1) {
            costs.limits = {20, 20};
        }
        const FoundSchedule found = find_schedule(costs);
        EXPECT_EQ(found.step_ns, best_of_all(costs)) << "round " << round;
    }
}

namespace {
/// Any order at all: lanes run tasks whose inputs are there, in whatever order.
LanePrograms any_order(Random& random, const ScheduleCosts& costs) {
    const PipelineShape shape = shape_of(costs);
    const int n = shape.num_partitions;
    LanePlans plans(shape);
    std::vector<std::array<int, 3>> done(static_cast<std::size_t>(n), {0, 0, 0});  // F, I, W of each partition
    for (int left = 3 * n * costs.micro_batches; left > 0;) {
        const auto j = static_cast<std::size_t>(random(0, n - 1));
        const auto kind = static_cast<std::size_t>(random(0, 2));
        const int i = done[j][kind];
        const bool is_last = static_cast<int>(j) + 1 == n;
        const bool is_ready = kind == 0   ? j == 0 || done[j - 1][0] > i
                              : kind == 1 ? done[is_last ? j : j + 1][is_last ? 0 : 1] > i
                                          : done[j][1] > i;
        if (i == costs.micro_batches || !is_ready) {
            continue;
        }
        const Cell at{MicroBatchId{i}, PartitionId{static_cast<std::int64_t>(j)}};
        LanePlan& plan = plans.of(at.j);
        switch (kind) {
            case 0: plan.forward(at); break;
            case 1: plan.backward(at); break;
            default: plan.backward_weight(at); break;
        }
        ++done[j][kind];
        --left;
    }
    return plans.take();
}
}  // namespace

TEST(ScheduleSearch, HasABoundThatNoOrderWithinTheLimitsBeats) {
    Random random(9);
    int tighter = 0;
    for (int round = 0; round < 2000; ++round) {
        ScheduleCosts costs = random_costs(random, static_cast<int>(random(1, 3)), static_cast<int>(random(1, 2)),
                                           static_cast<int>(random(1, 6)), random(0, 1) == 1, 100);
        costs.checkpoint = std::array{Checkpoint::never, Checkpoint::always,
                                      Checkpoint::except_last}[static_cast<std::size_t>(random(0, 2))];
        if (costs.micro_batches > 1 && random(0, 2) == 0) {
            make_smaller(random, costs, static_cast<int>(random(1, costs.micro_batches - 1)));
        }
        const LanePrograms order = any_order(random, costs);
        const Ns step = clocked(costs, TaskGraph(shape_of(costs), order));
        const Ns without = step_bound(costs);
        costs.limits = held(costs, order);
        ASSERT_LE(step_bound(costs), step) << "round " << round;
        tighter += step_bound(costs) > without ? 1 : 0;
    }
    EXPECT_GE(tighter, 100);
}

TEST(ScheduleSearch, TakesTheTimeOnTheSimulatorsClockThatItPromises) {
    Random random(3);
    for (int round = 0; round < 200; ++round) {
        ScheduleCosts costs = random_costs(random, static_cast<int>(random(1, 6)), static_cast<int>(random(1, 3)),
                                           static_cast<int>(random(1, 12)), random(0, 1) == 1, 400);
        costs.checkpoint = std::array{Checkpoint::never, Checkpoint::always,
                                      Checkpoint::except_last}[static_cast<std::size_t>(random(0, 2))];
        costs.recompute_start = random(0, 1) == 1 ? RecomputeStart::early : RecomputeStart::ordinary;
        if (random(0, 1) == 1) {
            costs.limits.assign(static_cast<std::size_t>(costs.num_lanes()), random(300, 1500));
        }
        if (costs.micro_batches > 1 && random(0, 2) == 0) {
            make_smaller(random, costs, static_cast<int>(random(1, costs.micro_batches - 1)));
        }
        const FoundSchedule found = find_schedule(costs);
        ASSERT_FALSE(found.programs.empty()) << "round " << round;
        const TaskGraph graph(shape_of(costs), found.programs);
        if (costs.recompute_start == RecomputeStart::early || costs.checkpoint == Checkpoint::never) {
            EXPECT_EQ(clocked(costs, graph), found.step_ns) << "round " << round;
        }
        EXPECT_LE(found.bound_ns, found.step_ns) << "round " << round;
        EXPECT_TRUE(!found.is_optimal || found.bound_ns <= found.step_ns);
        if (!costs.limits.empty()) {
            for (const Bytes bytes : held(costs, found.programs)) {
                EXPECT_LE(bytes, costs.limits.front()) << "round " << round;
            }
        }
    }
}

TEST(ScheduleSearch, IsNeverSlowerThanNamedSchedules) {
    Random random(4);
    for (int round = 0; round < 60; ++round) {
        const auto lanes = static_cast<int>(random(2, 10));
        const ScheduleCosts costs = random_costs(random, lanes, 1, static_cast<int>(random(1, 30)), false, 200);
        const FoundSchedule found = find_schedule(costs);
        for (const Schedule named : {Schedule::one_f_one_b, Schedule::zero_bubble_h1, Schedule::model_parallel}) {
            const Ns step = clocked(costs, make_schedule(named, shape_of(costs)));
            EXPECT_LE(found.step_ns, step) << to_string(named) << ", round " << round;
            EXPECT_LE(found.bound_ns, step) << to_string(named) << ", round " << round;
        }
    }
}

TEST(ScheduleSearch, StaysWithinTheMemoryOf1F1B) {
    Random random(5);
    for (int round = 0; round < 30; ++round) {
        const auto lanes = static_cast<int>(random(2, 8));
        ScheduleCosts costs = random_costs(random, lanes, 1, static_cast<int>(random(lanes, 24)), false, 0);
        for (int j = 0; j < lanes; ++j) {
            costs.limits.push_back((lanes - j) * costs.partitions[static_cast<std::size_t>(j)].saved);
        }
        const FoundSchedule found = find_schedule(costs);
        const std::vector<Bytes> bytes = held(costs, found.programs);
        for (std::size_t lane = 0; lane < bytes.size(); ++lane) {
            EXPECT_LE(bytes[lane], costs.limits[lane]) << "round " << round;
        }
        EXPECT_LE(found.step_ns, clocked(costs, make_schedule(Schedule::one_f_one_b, shape_of(costs))));
    }
}

TEST(ScheduleSearch, ReachesTheBoundOfEqualTasks) {
    // The last lane starts p - 1 forwards late; then it can work without a pause (arXiv 2401.10241, section 3.1).
    for (const auto& [lanes, micro_batches] : {std::pair{4, 8}, {8, 32}, {16, 64}}) {
        ScheduleCosts costs;
        costs.micro_batches = micro_batches;
        for (int j = 0; j < lanes; ++j) {
            costs.partitions.push_back({LaneId{j}, 1000, 1000, 1000, 1000, 0, 1, 100});
            costs.limits.push_back(100 * lanes);
        }
        const FoundSchedule found = find_schedule(costs);
        EXPECT_EQ(found.step_ns, 1000 * (lanes - 1) + 3000 * micro_batches);
        EXPECT_TRUE(found.is_optimal);
    }
}

TEST(ScheduleSearch, SaysThatNothingFits) {
    ScheduleCosts costs;
    costs.micro_batches = 4;
    costs.partitions = {{LaneId{0}, 10, 10, 10, 10, 0, 1, 100}, {LaneId{1}, 10, 10, 10, 10, 0, 1, 100}};
    costs.limits = {100, 99};
    EXPECT_TRUE(find_schedule(costs).programs.empty());
}

TEST(ScheduleSearch, FindsTheSameEveryTime) {
    Random random(6);
    const ScheduleCosts costs = random_costs(random, 6, 2, 16, true, 300);
    EXPECT_EQ(find_schedule(costs).programs, find_schedule(costs).programs);
}
}  // namespace pipescope
