#include "analysis/trace_profile.h"

#include "profiler/profile/profile_file.h"
#include "simulator/clock/host_launches.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/plan/planner.h"
#include "simulator/search/balance_search.h"
#include "tests/analysis/sample_run.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kPauseBetweenSteps = 1'000'000;

/// Three layers of different cost, in micro-batches of 8 samples.
Profile three_layers() {
    Profile profile;
    profile.model = "m";
    profile.samples = {8};
    for (const double cost : {100'000.0, 150'000.0, 80'000.0}) {
        LayerProfile layer;
        layer.name = "layer";
        layer.gradient_bytes = layer.parameter_bytes = 64;
        layer.forward_ns = {cost};
        layer.backward_ns = {2 * cost};
        layer.backward_weight_ns = {cost};
        layer.output_bytes = {1 << 20};
        profile.layers.push_back(layer);
    }
    return profile;
}

PipelineOptions of_three_lanes(Schedule schedule) {
    PipelineOptions options;
    options.balance = Balance({1, 1, 1});
    options.chunks = 6;
    options.batch = 48;
    options.checkpoint = Checkpoint::never;
    options.schedule = schedule;
    options.hardware.link = {1e10, 20'000};
    return options;
}

/// The simulated step three times, as another program could have recorded it: the profiler does not see the loss, and
/// `keeps` chooses the tasks that it sees.
Timeline recorded(const Simulation& simulation, const std::function<bool(const Slice&)>& keeps = {}) {
    Timeline measured{Source::measured, simulation.timeline.lanes, {}};
    for (int step = 0; step < 3; ++step) {
        const Nanoseconds begin{step * (simulation.step_time.count() + kPauseBetweenSteps)};
        for (Slice slice : simulation.timeline.slices) {
            slice.key.step = step;
            slice.start += begin;
            slice.end += begin;
            if (slice.key.kind != TaskKind::loss && (!keeps || keeps(slice))) {
                measured.slices.push_back(slice);
            }
        }
    }
    sort_slices(measured);
    return measured;
}

RecordedRun of_another_program() {
    RecordedRun run;
    run.origin = TraceOrigin::kineto;
    run.of_another_program = true;
    run.micro_batch_samples = 8;
    return run;
}

TraceProfile profile_of(const RecordedRun& run, const Timeline& measured) {
    return profile_of_trace(run, measured, whole_steps(run, measured));
}

class ProfileOfSchedule : public testing::TestWithParam<Schedule> {};

// What a profile of layers predicts comes back from the prediction's own tasks.
TEST_P(ProfileOfSchedule, PredictsTheStepThatItIsMeasuredFrom) {
    PipelineOptions options = of_three_lanes(GetParam());
    Profile profile = three_layers();
    if (GetParam() == Schedule::interleaved_1f1b) {
        profile.layers.push_back(profile.layers.front());
        options.balance = Balance({1, 1, 1, 1});
        options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
    }
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    const TraceProfile made = profile_of(of_another_program(), recorded(simulation));
    EXPECT_TRUE(made.known_schedule);
    EXPECT_EQ(made.options.schedule, options.schedule);
    EXPECT_EQ(made.options.placement, options.placement);
    EXPECT_EQ(made.options.checkpoint, Checkpoint::never);
    EXPECT_EQ(made.options.batch, 48);
    EXPECT_THAT(made.profile->samples, ElementsAre(8));
    EXPECT_THAT(made.profile->layers[1].forward_ns, ElementsAre(150'000));
    EXPECT_THAT(made.profile->layers[1].backward_ns, ElementsAre(300'000));
    EXPECT_THAT(made.profile->layers[1].output_bytes, ElementsAre(1 << 20));
    EXPECT_TRUE(made.profile->from_trace);
    EXPECT_TRUE(made.profile->memory_unknown);
    const auto predicted = static_cast<double>(simulate(made.profile, made.options).step_time.count());
    EXPECT_NEAR(predicted, static_cast<double>(simulation.step_time.count()), 100.0);  // the link is rounded
}

INSTANTIATE_TEST_SUITE_P(TraceProfile, ProfileOfSchedule,
                         testing::Values(Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b,
                                         Schedule::zero_bubble_h1),
                         [](const auto& schedule) {
                             std::string name = to_string(schedule.param);
                             std::ranges::replace(name, '-', '_');
                             return name;
                         });

/// What a profiler sees of a run whose hosts launch ahead.
TaskLaunches launches_of(const Timeline& measured, const Profile& profile, const PipelineOptions& options) {
    const TaskCosts costs(profile, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    const HostLaunches launches = *host_launches(profile, options, graph);
    std::map<std::int32_t, Nanoseconds> begins;
    for (const Slice& slice : measured.slices) {
        begins.try_emplace(slice.key.step, slice.start);
    }
    std::vector<TaskOnDevice> tasks;
    for (const Slice& slice : measured.slices) {
        TaskKey key = slice.key;
        key.step = -1;
        const TaskIndex task = *graph.find(key);
        const Nanoseconds busy = std::min(slice.duration(), Nanoseconds{costs.duration(graph.tasks()[task])});
        const auto time = [&](double ns) { return Nanoseconds{std::llround(ns)}; };
        const double paced = is_copy(key.kind) ? 0
                                               : profile.layers[static_cast<std::size_t>(key.partition)]
                                                     .launches.at(std::string(to_string(key.kind)))
                                                     .paced_ns;
        // A launch before the step counts as of its start.
        const double launched = launches.launched[task] + launches.paced[task] - paced;
        tasks.push_back({slice.key, 4, 0, slice.start, slice.end, busy, begins.at(slice.key.step) + time(launched),
                         slice.duration() - busy, time(paced)});
    }
    return TaskLaunches(tasks);
}

// The first lane's host needs longer than its device, the second one's for some tasks, and the third is far ahead.
TEST(TraceProfile, KeepsWhatHostsAndDevicesTakeApart) {
    Profile profile = three_layers();
    profile.device = "cuda";
    const auto launch = [](LayerProfile& layer, double forward, double backward) {
        layer.launches["forward"] = {forward, std::max(layer.forward_ns[0], 0.9 * forward), 0.9 * forward, 5'000};
        layer.launches["backward"] = {backward, std::max(layer.backward_ns[0], 0.9 * backward), 0.9 * backward, 5'000};
    };
    launch(profile.layers[0], 260'000, 250'000);
    launch(profile.layers[1], 80'000, 380'000);
    launch(profile.layers[2], 20'000, 30'000);
    PipelineOptions options = of_three_lanes(Schedule::one_f_one_b);
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    const Timeline measured = recorded(simulation);
    RecordedRun run = of_another_program();
    run.launches = launches_of(measured, profile, options);
    const TraceProfile made = profile_of(run, measured);
    EXPECT_THAT(made.profile->layers[0].forward_ns, ElementsAre(100'000));
    EXPECT_THAT(made.profile->layers[1].backward_ns, ElementsAre(300'000));
    EXPECT_NEAR(made.profile->layers[0].launches.at("forward").host_ns, 260'000, 1);
    EXPECT_NEAR(made.profile->layers[0].launches.at("forward").paced_ns, 234'000, 1);
    EXPECT_NEAR(made.profile->layers[0].launches.at("forward").sends_ns, 234'000, 1);
    const auto expected = static_cast<double>(simulation.step_time.count());
    EXPECT_NEAR(static_cast<double>(simulate(made.profile, made.options).step_time.count()), expected,
                0.002 * expected);
    // More micro-batches follow the same rule.
    options.chunks = 12;
    options.batch = 96;
    PipelineOptions more = made.options;
    more.chunks = 12;
    more.batch = 96;
    const auto longer = static_cast<double>(simulate(CheckedProfile(profile), options).step_time.count());
    EXPECT_NEAR(static_cast<double>(simulate(made.profile, more).step_time.count()), longer, 0.002 * longer);
}

// A host that waits for each input launches late, and would launch early if the input came early.
TEST(TraceProfile, CountsLaunchesOfHostsThatWaitAsTheirTasksTime) {
    const PipelineOptions options = of_three_lanes(Schedule::one_f_one_b);
    const Timeline measured = recorded(simulate(CheckedProfile(three_layers()), options));
    std::vector<TaskOnDevice> tasks;
    for (const Slice& slice : measured.slices) {
        tasks.push_back(
            {slice.key, 4, 0, slice.start, slice.end, slice.duration(), slice.start, Nanoseconds{0}, slice.duration()});
    }
    RecordedRun run = of_another_program();
    run.launches = TaskLaunches(tasks);
    const TraceProfile made = profile_of(run, measured);
    for (const LayerProfile& layer : made.profile->layers) {
        EXPECT_TRUE(layer.launches.empty());
    }
}

// Data parallelism sums gradients once a step, after the last backward of each lane.
TEST(TraceProfile, LeavesSumsOfGradientsOutOfTheLastBackward) {
    const Timeline measured = recorded(simulate(three_layers(), of_three_lanes(Schedule::one_f_one_b)));
    std::map<std::pair<std::int32_t, std::int32_t>, const Slice*> lasts;  // backwards, by step and partition
    for (const Slice& slice : measured.slices) {
        if (slice.key.kind == TaskKind::backward) {
            lasts[{slice.key.step, slice.key.partition}] = &slice;
        }
    }
    for (const std::int64_t early : {0, 10'000}) {  // within the last backward, too
        std::vector<LaneWork> sums;
        for (const auto& [name, slice] : lasts) {
            sums.push_back({slice->lane, LaneWorkKind::collective, slice->end - Nanoseconds{early},
                            slice->end + Nanoseconds{900'000}});
        }
        RecordedRun run = of_another_program();
        const TraceProfile plain = profile_of(run, measured);
        run.launches = TaskLaunches({}, joined_work(sums));
        const TraceProfile summed = profile_of(run, measured);
        for (std::size_t partition = 0; partition < 3; ++partition) {
            EXPECT_EQ(summed.profile->layers[partition].backward_ns, plain.profile->layers[partition].backward_ns);
        }
    }
}

TEST(TraceProfile, FindsTheOrderOfBackwardsAndTheCheckpointMode) {
    PipelineOptions options = of_three_lanes(Schedule::gpipe);
    options.backward_order = BackwardOrder::first_first;
    options.checkpoint = Checkpoint::except_last;
    const TraceProfile made = profile_of(of_another_program(), recorded(simulate(three_layers(), options)));
    EXPECT_EQ(made.options.backward_order, BackwardOrder::first_first);
    EXPECT_EQ(made.options.checkpoint, Checkpoint::except_last);
    EXPECT_THAT(made.profile->layers[0].recompute_ns, ElementsAre(100'000));
}

// A thread needs 10 us between two tasks. They belong to the cost of the second; the wait for an input does not.
TEST(TraceProfile, CountsTheTimeToStartATaskButNotItsWait) {
    RecordedRun run = of_another_program();
    Timeline measured{Source::measured, {{"rank 0", ""}, {"rank 1", ""}}, {}};
    const auto task = [&](TaskKind kind, int partition, int micro_batch, int lane, int start, int end) {
        measured.slices.push_back({{0, kind, partition, micro_batch, -1},
                                   LaneId{lane},
                                   Nanoseconds{start * 1000},
                                   Nanoseconds{end * 1000},
                                   is_copy(kind) ? 4096 : 0});
    };
    task(TaskKind::forward, 0, 0, 0, 0, 100);
    task(TaskKind::copy_forward, 0, 0, 0, 100, 105);
    task(TaskKind::forward, 0, 1, 0, 110, 200);
    task(TaskKind::copy_forward, 0, 1, 0, 200, 205);
    task(TaskKind::forward, 1, 0, 1, 105, 155);
    task(TaskKind::forward, 1, 1, 1, 205, 255);
    task(TaskKind::backward, 1, 0, 1, 265, 365);
    task(TaskKind::copy_backward, 0, 0, 1, 365, 370);
    task(TaskKind::backward, 1, 1, 1, 375, 475);
    task(TaskKind::copy_backward, 0, 1, 1, 475, 480);
    task(TaskKind::backward, 0, 0, 0, 370, 400);
    task(TaskKind::backward, 0, 1, 0, 480, 510);
    sort_slices(measured);
    const TraceProfile made = profile_of(run, measured);
    // The second forward took 90 and 10 to start it; the first one has nothing before it.
    EXPECT_THAT(made.profile->layers[0].forward_ns, ElementsAre(100'000));
    EXPECT_THAT(made.profile->layers[1].forward_ns, ElementsAre(50'000));
    EXPECT_THAT(made.profile->layers[1].backward_ns, ElementsAre(110'000));
    EXPECT_THAT(made.profile->layers[0].backward_ns, ElementsAre(30'000));
    EXPECT_EQ(made.options.hardware.link.latency_ns, 5000);
    EXPECT_EQ(made.messages, 4U);
    EXPECT_EQ(simulate(made.profile, made.options).step_time, Nanoseconds{510'000});
}

// The last partition works 300 us between its phases, once a step, and 10 us before each backward.
Timeline with_time_between_phases(Timeline measured, std::int64_t time) {
    for (Slice& slice : measured.slices) {
        const bool is_last = slice.lane == LaneId{2} && !is_copy(slice.key.kind);
        const Nanoseconds late{slice.key.kind == TaskKind::forward || slice.key.kind == TaskKind::copy_forward ? 0
                                                                                                               : time};
        slice.start += late + Nanoseconds{is_last && slice.key.kind == TaskKind::backward ? 10'000 : 0};
        slice.end += late;
    }
    return measured;
}

TEST(TraceProfile, TakesTheTimeBetweenThePhasesForTheLossOfTheMiniBatch) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::gpipe));
    const Timeline measured = with_time_between_phases(recorded(simulation), 300'000);
    const TraceProfile made = profile_of(of_another_program(), measured);
    EXPECT_THAT(made.profile->layers[2].backward_ns, ElementsAre(160'000)) << "with the 10 us before each";
    ASSERT_EQ(made.profile->loss_ns.size(), 1U);
    EXPECT_NEAR(made.profile->loss_ns[0], 300'000.0 / 6, 1);
    EXPECT_THAT(made.notes, Contains(HasSubstr("takes 0.3 ms from its last forward to its first backward")));
    const auto predicted = static_cast<double>(simulate(made.profile, made.options).step_time.count());
    EXPECT_NEAR(predicted, static_cast<double>(simulation.step_time.count()) + 300'000, 100.0);
    EXPECT_THAT(profile_of(of_another_program(), with_time_between_phases(recorded(simulation), 200'000'000'000)).notes,
                Contains(HasSubstr("takes 200.0 s from its last forward")));
}

// Likewise, where the thread needs the 10 us before it recomputes. The loss is before or after the first recompute.
TEST(TraceProfile, TellsTheLossFromTheTimeBeforeRecomputes) {
    for (const bool before : {true, false}) {
        PipelineOptions options = of_three_lanes(Schedule::gpipe);
        options.checkpoint = Checkpoint::always;
        const Simulation simulation = simulate(three_layers(), options);
        Timeline measured = recorded(simulation);
        std::map<std::int32_t, Nanoseconds> late;  // by step
        std::set<std::int32_t> opened;
        for (Slice& slice : measured.slices) {  // by start
            const bool recomputes = slice.lane == LaneId{2} && slice.key.kind == TaskKind::recompute;
            const Nanoseconds loss{recomputes && opened.insert(slice.key.step).second ? 300'000 : 0};
            Nanoseconds& by = late[slice.key.step];
            by += Nanoseconds{recomputes ? 10'000 : 0} + (before ? loss : Nanoseconds{0});
            slice.start += by;
            slice.end += by;
            by += before ? Nanoseconds{0} : loss;
        }
        const TraceProfile made = profile_of(of_another_program(), measured);
        ASSERT_EQ(made.profile->loss_ns.size(), 1U) << before;
        EXPECT_NEAR(made.profile->loss_ns[0], 300'000.0 / 6, 1) << before;
        const auto near = [](double ns) { return ElementsAre(testing::DoubleNear(ns, 2'000)); };
        EXPECT_THAT(made.profile->layers[2].recompute_ns, near(90'000)) << before;
        EXPECT_THAT(made.profile->layers[2].backward_ns, near(160'000)) << before;
    }
}

// In the first step, the recorder did not see recomputes.
TEST(TraceProfile, IsMeasuredFromStepsWithTheTasksThatMostStepsHave) {
    PipelineOptions options = of_three_lanes(Schedule::gpipe);
    options.checkpoint = Checkpoint::always;
    Timeline measured = recorded(simulate(three_layers(), options));
    std::erase_if(measured.slices,
                  [](const Slice& slice) { return slice.key.step == 0 && slice.key.kind == TaskKind::recompute; });
    const TraceProfile made = profile_of(of_another_program(), measured);
    EXPECT_THAT(made.steps, ElementsAre(1, 2));
    EXPECT_EQ(made.options.checkpoint, Checkpoint::always);
    EXPECT_TRUE(made.known_schedule);
}

// Two sizes of messages tell latency and bandwidth apart: 1 MiB at 10 GB/s.
TEST(TraceProfile, MeasuresLatencyAndBandwidthOfMessagesOfTwoSizes) {
    Profile profile = three_layers();
    profile.layers[1].output_bytes = {4 << 20};
    const PipelineOptions options = of_three_lanes(Schedule::gpipe);
    const TraceProfile made = profile_of(of_another_program(), recorded(simulate(CheckedProfile(profile), options)));
    EXPECT_NEAR(made.options.hardware.link.bytes_per_second, 1e10, 1e6);
    EXPECT_NEAR(made.options.hardware.link.latency_ns, 20'000, 10);
    EXPECT_THAT(made.notes, Not(Contains(HasSubstr("cannot be told apart"))));
}

TEST(TraceProfile, GivesAPairOfLanesWhoseMessagesTakeLongerALinkOfItsOwn) {
    PipelineOptions options = of_three_lanes(Schedule::one_f_one_b);
    options.hardware.pairs = {{1, 2, {1e9, 200'000}}};
    const Simulation simulation = simulate(three_layers(), options);
    const TraceProfile made = profile_of(of_another_program(), recorded(simulation));
    const auto message = [](const PipelineOptions& of, int lane) {
        return link_between(of.hardware, LaneId{lane}, LaneId{lane + 1}).message_ns(1 << 20);
    };
    EXPECT_NEAR(message(made.options, 0), message(options, 0), 10);
    EXPECT_NEAR(message(made.options, 1), message(options, 1), 10);
    EXPECT_NEAR(static_cast<double>(simulate(made.profile, made.options).step_time.count()),
                static_cast<double>(simulation.step_time.count()), 200);
    EXPECT_THAT(made.notes, Contains(HasSubstr("messages do not take equally long over all links")));
    const TraceProfile equal =
        profile_of(of_another_program(), recorded(simulate(three_layers(), of_three_lanes(Schedule::one_f_one_b))));
    EXPECT_TRUE(equal.options.hardware.pairs.empty());
}

// A stream of NCCL runs one kernel after the other, so a receive holds up the sends behind it.
TEST(TraceProfile, SeesThatTheMessagesOfADeviceTakeTurns) {
    for (const LinkProtocol protocol : {LinkProtocol::in_turn, LinkProtocol::eager}) {
        PipelineOptions options = of_three_lanes(Schedule::gpipe);
        options.hardware.link.protocol = protocol;
        const Simulation simulation = simulate(three_layers(), options);
        const Timeline measured = recorded(simulation);
        std::vector<TaskOnDevice> tasks;
        for (const Slice& slice : measured.slices) {
            const Nanoseconds launch{slice.key.step * (simulation.step_time.count() + kPauseBetweenSteps)};
            tasks.push_back({slice.key, 4, 0, slice.start, slice.end, slice.duration(), launch});
        }
        RecordedRun run = of_another_program();
        EXPECT_EQ(profile_of(run, measured).options.hardware.link.protocol, LinkProtocol::eager) << "no stream is seen";
        run.launches = TaskLaunches(tasks);
        const TraceProfile made = profile_of(run, measured);
        EXPECT_EQ(made.options.hardware.link.protocol, protocol);
        EXPECT_NEAR(static_cast<double>(simulate(made.profile, made.options).step_time.count()),
                    static_cast<double>(simulation.step_time.count()), 100);
    }
}

TEST(TraceProfile, TakesTheTimeBetweenTasksForTheLinkWithoutMessages) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::one_f_one_b));
    Timeline measured = recorded(simulation, [](const Slice& slice) { return !is_copy(slice.key.kind); });
    for (Slice& slice : measured.slices) {  // clocks of ranks may differ by more than a message takes
        slice.start += Nanoseconds{slice.lane.value() * 500'000};
        slice.end += Nanoseconds{slice.lane.value() * 500'000};
    }
    sort_slices(measured);
    const TraceProfile made = profile_of(of_another_program(), measured);
    EXPECT_EQ(made.messages, 0U);
    EXPECT_NEAR(made.options.hardware.link.latency_ns, 20'000 + 104'858, 2);
    EXPECT_THAT(made.notes, Contains(HasSubstr("shows no messages between partitions")));
    EXPECT_THAT(made.notes, Not(Contains(HasSubstr("their ranges hold the wait"))));
    for (Slice& slice : measured.slices) {  // each lane's task begins once the one before has ended
        const bool waits = slice.key.kind == TaskKind::forward ? slice.key.partition > 0 : slice.key.partition < 2;
        slice.start -= Nanoseconds{waits ? 200'000 : 0};
    }
    sort_slices(measured);
    EXPECT_THAT(profile_of(of_another_program(), measured).notes, Contains(HasSubstr("their ranges hold the wait")));
}

TEST(TraceProfile, SaysThatTheOrderIsOfNoKnownSchedule) {
    Timeline measured = recorded(simulate(three_layers(), of_three_lanes(Schedule::gpipe)));
    for (Slice& slice : measured.slices) {
        if (slice.key.micro_batch == 1 || slice.key.micro_batch == 4) {
            slice.key.micro_batch = 5 - slice.key.micro_batch;
        }
    }
    const TraceProfile made = profile_of(of_another_program(), measured);
    EXPECT_FALSE(made.known_schedule);
    EXPECT_EQ(made.options.schedule, Schedule::gpipe);
    EXPECT_THAT(made.notes, Contains(AllOf(HasSubstr("no schedule that is known here"), HasSubstr("67 %"))));
}

TEST(TraceProfile, RefusesARunWithoutAWholeStep) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::gpipe));
    const auto refused = [&](const std::function<bool(const Slice&)>& keeps) {
        return thrown<Error>([&] { profile_of(of_another_program(), recorded(simulation, keeps)); });
    };
    EXPECT_THAT(refused([](const Slice& slice) {
                    const TaskKey& key = slice.key;
                    return key.kind != TaskKind::backward || key.partition != 1 || key.micro_batch != 2;
                }),
                HasSubstr("5 of 6 tasks"));
    EXPECT_THAT(refused([](const Slice& slice) { return slice.key.partition != 1; }),
                HasSubstr("step 0 lacks forward (0, 1)"));
}

TEST(TraceProfile, SaysThatPartitionsAreNumberedFrom0) {
    Timeline measured = recorded(simulate(three_layers(), of_three_lanes(Schedule::gpipe)));
    for (Slice& slice : measured.slices) {
        slice.key.partition += slice.key.partition >= 0 ? 1 : 0;
    }
    EXPECT_THAT(thrown<Error>([&] { profile_of(of_another_program(), measured); }),
                HasSubstr("holds tasks of the partitions 1 to 3, and none of partition 0"));
}

// The simulated tasks of other partitions would wait for its backwards.
TEST(TraceProfile, RefusesAFrozenPartition) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::gpipe));
    const Timeline measured = recorded(simulation, [](const Slice& slice) {
        return slice.key.partition > 0 || slice.key.kind == TaskKind::forward ||
               slice.key.kind == TaskKind::copy_forward;
    });
    EXPECT_THAT(thrown<Error>([&] { profile_of(of_another_program(), measured); }),
                AllOf(HasSubstr("holds no backward of partition 0 in any step"), HasSubstr("frozen"),
                      HasSubstr("compares it with another recorded run")));
}

TEST(TraceProfile, RefusesARunWithoutTheRanksThatItsTasksWaitFor) {
    const Timeline measured = recorded(simulate(three_layers(), of_three_lanes(Schedule::gpipe)));
    for (const bool other : {true, false}) {
        RecordedRun run = of_another_program();
        run.of_another_program = other;
        run.profile = other ? std::nullopt : std::optional<CheckedProfile>(three_layers());
        run.options = other ? std::nullopt : std::optional(of_three_lanes(Schedule::gpipe));
        run.missing = MissingRanks{{3, 4}, 5};
        EXPECT_THAT(thrown<Error>([&] { profile_of(run, measured); }), HasSubstr("ranks 3, 4 of 5"));
    }
}

// A task's range holds the wait for its input, 400 us, where no message shows the arrival.
TEST(TraceProfile, LeavesOutTimesThatMayContainAWait) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::gpipe));
    const auto unseen = [](const TaskKey& copy) {
        return copy.kind == TaskKind::copy_backward && copy.partition == 0 && copy.micro_batch == 2;
    };
    Timeline measured =
        recorded(simulation, [&](const Slice& slice) { return slice.key.step == 0 || !unseen(slice.key); });
    const auto waits = [](const TaskKey& key) {
        return key.kind == TaskKind::backward && key.partition == 0 && key.micro_batch == 2 && key.step > 0;
    };
    for (Slice& slice : measured.slices) {
        slice.start -= Nanoseconds{waits(slice.key) ? 400'000 : 0};
    }
    sort_slices(measured);
    const TraceProfile made = profile_of(of_another_program(), measured);
    EXPECT_THAT(made.profile->layers[0].backward_ns, ElementsAre(200'000)) << "of 2 of 3 steps a time would be 600 us";
    EXPECT_THAT(made.notes, Contains(HasSubstr("2 tasks are no part of the costs, since no message is seen to bring")));

    const Timeline forwards = recorded(simulation, [](const Slice& slice) {
        return slice.key.kind != TaskKind::copy_backward || slice.key.partition != 1;
    });
    EXPECT_THAT(profile_of(of_another_program(), forwards).notes,
                Contains(HasSubstr("bring the input of these tasks: backward of partition 1; if their ranges")));
}

// The last mini-batch is cut into as many micro-batches, of 5 samples.
TEST(TraceProfile, TakesTheSamplesOfItsOwnSteps) {
    RecordedRun run = of_another_program();
    run.other_samples = {{2, 5}};
    const Timeline measured = recorded(simulate(three_layers(), of_three_lanes(Schedule::gpipe)));
    const auto samples_of = [&](std::vector<std::int32_t> numbers) {
        MeasuredSteps steps = whole_steps(run, measured);
        std::erase_if(steps.steps,
                      [&](const StepRecord& step) { return std::ranges::find(numbers, step.step) == numbers.end(); });
        return profile_of_trace(run, measured, steps).micro_batch_samples;
    };
    EXPECT_EQ(samples_of({0, 1}), 8);
    EXPECT_EQ(samples_of({2}), 5);
    EXPECT_EQ(samples_of({0, 2}), std::nullopt);
}

TEST(TraceProfile, SaysThatMicroBatchesOfAStepDiffer) {
    RecordedRun run = of_another_program();
    run.micro_batch_samples.reset();
    run.other_samples = {{0, 0}, {1, 0}, {2, 0}};
    const Timeline measured = recorded(simulate(three_layers(), of_three_lanes(Schedule::gpipe)));
    const TraceProfile made = profile_of(run, measured);
    EXPECT_TRUE(made.unequal);
    EXPECT_THAT(made.notes, Contains(HasSubstr("micro-batches of one step have different numbers of samples")));
    EXPECT_THAT(made.notes, Not(Contains(HasSubstr("the trace does not say how many samples"))));
    take_measured_profile(run, measured, whole_steps(run, measured));
    EXPECT_TRUE(is_batch_unknown(run));
    EXPECT_THAT(run.warnings, Contains(AllOf(Field(&TraceWarning::severity, Severity::caution),
                                             Field(&TraceWarning::text, HasSubstr("takes the mean of their times")))));
}

TEST(TraceProfile, RefusesMemoryLimitsSinceMemoryIsUnknown) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::gpipe));
    TraceProfile made = profile_of(of_another_program(), recorded(simulation));
    const Simulation unknown = simulate(made.profile, made.options);
    EXPECT_TRUE(unknown.memory_unknown);
    EXPECT_TRUE(unknown.memory.empty()) << "bytes of messages alone";
    made.options.hardware.memory_limit = Bytes{1} << 30;
    const auto refused = AllOf(HasSubstr("--memory-limit is 1.00 GiB"), HasSubstr("does not say what the layers hold"));
    EXPECT_THAT(thrown<UsageError>([&] { simulate(made.profile, made.options); }), refused);
    EXPECT_THAT(thrown<UsageError>([&] { find_balance(made.profile, made.options, 2, BalanceAlgorithm::optimal); }),
                refused);
    EXPECT_THAT(thrown<UsageError>([&] {
                    PlanRequest request;
                    request.batch = 48;
                    request.hardware = made.options.hardware;
                    plan(made.profile, request);
                }),
                refused);
}

TEST(TraceProfile, IsReadBackAsItWasWritten) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::gpipe));
    const TraceProfile made = profile_of(of_another_program(), recorded(simulation));
    const Profile read = parse_profile(to_json(made.profile));
    EXPECT_EQ(read.layers[1].backward_ns, made.profile->layers[1].backward_ns);
    EXPECT_EQ(read.layers[1].output_bytes, made.profile->layers[1].output_bytes);
    EXPECT_TRUE(read.from_trace);
    EXPECT_TRUE(read.memory_unknown);
}

// Layers of an own run keep their shares; both were predicted to take half of what they took.
TEST(TraceProfile, ScalesTheLayersOfAnOwnRun) {
    PipelineOptions options = of_three_lanes(Schedule::gpipe);
    options.balance = Balance({2, 1});
    options.hardware.devices = {"cpu", "cpu"};
    Profile profile = three_layers();
    const Timeline measured = [&] {
        Profile slower = profile;
        for (LayerProfile* layer : {&slower.layers[0], &slower.layers[1]}) {
            layer->forward_ns[0] *= 2;
            layer->backward_ns[0] *= 3;
        }
        return recorded(simulate(CheckedProfile(slower), options));
    }();
    RecordedRun run;
    run.profile = CheckedProfile(profile);
    run.options = options;
    const TraceProfile made = profile_of(run, measured);
    const auto near = [](double ns) { return ElementsAre(testing::DoubleNear(ns, 1e-3)); };
    EXPECT_THAT(made.profile->layers[0].forward_ns, near(200'000));
    EXPECT_THAT(made.profile->layers[1].forward_ns, near(300'000));
    EXPECT_THAT(made.profile->layers[2].forward_ns, near(80'000));
    EXPECT_THAT(made.profile->layers[0].backward_ns, near(600'000));
    EXPECT_THAT(made.profile->layers[2].backward_ns, near(160'000));
    EXPECT_FALSE(made.profile->memory_unknown);
    EXPECT_EQ(made.profile->layers[0].parameter_bytes, 64);
    EXPECT_EQ(made.profile->co_running_lanes, 2);
}

TEST(TraceProfile, GivesAnotherProgramsRunWhatItNeedsToBeSimulated) {
    const Simulation simulation = simulate(three_layers(), of_three_lanes(Schedule::one_f_one_b));
    const Timeline measured = recorded(simulation);
    RecordedRun run = of_another_program();
    run.why_not_simulated = "holds no profile";
    take_measured_profile(run, measured, whole_steps(run, measured));
    EXPECT_EQ(run.why_not_simulated, "");
    ASSERT_TRUE(run.graph);
    EXPECT_THAT(texts_of(run.warnings), Contains(HasSubstr("the profile is measured from this trace, from 3 steps")));
    const std::optional<Simulation> twin = simulate_run(run);
    ASSERT_TRUE(twin);
    EXPECT_NEAR(static_cast<double>(twin->step_time.count()), static_cast<double>(simulation.step_time.count()), 100.0);
}

TEST(TraceProfile, SimulatesARunInItsOwnOrderWhereThatHasNoName) {
    std::string csv;
    for (const char lane : {'0', '1', '2'}) {
        for (const std::string_view task : {"F0", "F1", "F2", "F3", "B0", "B1", "F4", "F5", "B2", "B3", "B4", "B5"}) {
            csv += lane;
            csv += task;
            csv += task == "B5" ? "\n" : ",";
        }
    }
    PipelineOptions options = of_three_lanes(Schedule::gpipe);
    options.schedule = Schedule::from_csv("odd.csv", csv);
    const Simulation simulation = simulate(three_layers(), options);
    const Timeline measured = recorded(simulation);
    RecordedRun run = of_another_program();
    take_measured_profile(run, measured, whole_steps(run, measured));
    ASSERT_TRUE(run.recorded_order) << run.why_not_simulated;
    EXPECT_TRUE(run.graph);
    EXPECT_THAT(texts_of(run.warnings), Contains(HasSubstr("this run is simulated in its own order")));
    const std::optional<Simulation> twin = simulate_run(run);
    ASSERT_TRUE(twin);
    const auto wanted = static_cast<double>(simulation.step_time.count());
    EXPECT_NEAR(static_cast<double>(twin->step_time.count()), wanted, 100.0);
    const Simulation similar = simulate(*run.profile, *run.options);
    EXPECT_GT(std::abs(static_cast<double>(similar.step_time.count()) - wanted), 1000.0);
    PipelineOptions more = *run.options;  // the most similar named schedule runs other numbers of micro-batches too
    more.chunks = 12;
    more.batch = 96;
    EXPECT_NO_THROW(simulate(*run.profile, more));
}
}  // namespace
}  // namespace pipescope
