#include "simulator/plan/advice.h"

#include "base/error.h"
#include "schedule/schedule_table.h"
#include "schedule/schedules.h"
#include "simulator/plan/planner.h"
#include "simulator/search/automatic_schedule.h"
#include "tests/simulator/profiles.h"
#include "tests/simulator/random_pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <set>

namespace pipescope {
namespace {
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

PipelineOptions pipeline_of(const std::vector<std::int64_t>& balance, std::int64_t m, std::int64_t batch) {
    PipelineOptions options;
    options.balance = Balance(balance);
    options.chunks = m;
    options.batch = batch;
    return options;
}

/// Layers that keep 1000 bytes per sample for their backward and hand on 100.
Profile profile_with_memory(int layers) {
    Profile profile = uniform_profile(layers);
    for (LayerProfile& layer : profile.layers) {
        layer.saved_bytes = {1000};
        layer.output_bytes = {100};
        layer.parameter_bytes = layer.gradient_bytes = 10;
    }
    return profile;
}

std::vector<std::string> titles_of(const Advice& advice) {
    std::vector<std::string> titles;
    for (const Move& move : advice.moves) {
        titles.push_back(move.title);
    }
    return titles;
}

const Move& titled(const Advice& advice, const std::string& title) {
    const auto found = std::ranges::find(advice.moves, title, &Move::title);
    EXPECT_NE(found, advice.moves.end()) << title << " is not among " << ::testing::PrintToString(titles_of(advice));
    return found == advice.moves.end() ? advice.moves.front() : *found;
}

TEST(Advice, TriesEveryKindOfMove) {
    PipelineOptions options = pipeline_of({3, 1, 2, 2}, 8, 32);
    options.hardware.link = {1e8, 100};
    const Advice advice = advise(profile_with_memory(8), options);
    std::vector<std::string> titles = titles_of(advice);
    std::vector<std::string> expected{"Balance: 2,2,2,2 instead of 3,1,2,2",
                                      "Checkpoint: always instead of except_last",
                                      "Checkpoint: never instead of except_last",
                                      "Lanes: 3 instead of 4, with new cuts",
                                      "Lanes: 5 instead of 4, with new cuts",
                                      "Links: copies for free",
                                      "Links: twice as fast",
                                      "Micro-batches: 16 instead of 8",
                                      "Micro-batches: 32 instead of 8",
                                      "Micro-batches: 4 instead of 8"};
    for (const Schedule& each : runnable_schedules()) {
        if (each != Schedule::gpipe && each != Schedule::model_parallel) {
            expected.push_back("Schedule: " + to_string(each) + " instead of gpipe");
        }
    }
    EXPECT_THAT(titles, UnorderedElementsAreArray(expected));
    EXPECT_FALSE(advice.cancelled);
    for (const Move& move : advice.moves) {
        EXPECT_EQ(move.hypothetical, move.title == "Links: copies for free") << move.title;
    }
    EXPECT_THAT(advice.situation, HasSubstr("lane 0 is the bottleneck: it works 50.0 % longer than the mean lane"));
}

TEST(Advice, SaysWhichOptionsToChange) {
    PipelineOptions options = pipeline_of({3, 1, 2, 2}, 8, 32);
    options.hardware.devices = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    options.hardware.link = {1e9, 3000};
    const Advice advice = advise(profile_with_memory(8), options);
    using Changes = std::vector<OptionText>;
    EXPECT_EQ(titled(advice, "Checkpoint: never instead of except_last").changes, (Changes{{"checkpoint", "never"}}));
    EXPECT_EQ(titled(advice, "Micro-batches: 16 instead of 8").changes, (Changes{{"chunks", "16"}}));
    EXPECT_EQ(titled(advice, "Balance: 2,2,2,2 instead of 3,1,2,2").changes, (Changes{{"balance", "2,2,2,2"}}));
    EXPECT_EQ(titled(advice, "Links: twice as fast").changes,
              (Changes{{"link-bandwidth", "2GB/s"}, {"link-latency", "1.5us"}}));
    EXPECT_EQ(titled(advice, "Links: copies for free").changes,
              (Changes{{"link-bandwidth", ""}, {"link-latency", ""}}));
    EXPECT_EQ(titled(advice, "Schedule: interleaved instead of gpipe").changes,
              (Changes{{"balance", "1,1,1,1,1,1,1,1"}, {"schedule", "interleaved"}, {"placement", "0,1,2,3,0,1,2,3"}}));
    const Move& more = titled(advice, "Lanes: 5 instead of 4, with new cuts");
    EXPECT_THAT(more.changes, Contains(OptionText{"devices", "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4"}));
    EXPECT_EQ(more.note, "needs another device");
    EXPECT_EQ(titled(advice, "Schedule: zero-bubble-h1 instead of gpipe").note, "");
}

TEST(Advice, ChangesEveryLink) {
    PipelineOptions options = pipeline_of({2, 2, 2, 2}, 8, 32);
    options.hardware.link = {1e9, 0};
    options.hardware.nearer = {{2, {1e8, 2000}}};
    options.hardware.pairs = {{1, 2, {1e7, 4000}}};
    const Advice advice = advise(profile_with_memory(8), options);
    const Hardware& faster = titled(advice, "Links: twice as fast").simulation.options.hardware;
    EXPECT_EQ(faster.link, (Link{2e9, 0}));
    EXPECT_EQ(faster.nearer.front().link, (Link{2e8, 1000}));
    EXPECT_EQ(faster.pairs.front().link, (Link{2e7, 2000}));
    const Move& free = titled(advice, "Links: copies for free");
    const Simulation without = simulate(profile_with_memory(8), pipeline_of({2, 2, 2, 2}, 8, 32));
    EXPECT_EQ(free.simulation.step_time, without.step_time);
    EXPECT_TRUE(free.hypothetical);
    EXPECT_THAT(titles_of(advice), Not(Contains(HasSubstr("Lanes:")))) << "a further lane's links are unknown";

    options.hardware.link = Link{};
    options.hardware.nearer.clear();
    EXPECT_THAT(titles_of(advise(profile_with_memory(8), options)), Contains("Links: copies for free"))
        << "the link of one pair takes time";
}

TEST(Advice, GivesLanesThatShareTheirOwnDeviceOrCore) {
    PipelineOptions options = pipeline_of({2, 2, 2, 2}, 4, 4);
    options.hardware.devices = {"cuda:0", "cuda:0", "cpu", "cpu"};
    options.hardware.host_cores = 1;
    const Advice advice = advise(profile_with_memory(8), options);
    EXPECT_EQ(titled(advice, "Devices: one for each lane").simulation.options.hardware.devices,
              (std::vector<std::string>{"cuda:0", "cuda:1", "cpu", "cpu"}));
    const Move& cores = titled(advice, "Cores: 2 instead of 1, one for each lane");
    EXPECT_EQ(cores.simulation.options.hardware.host_cores, 2);
    EXPECT_LT(relative_change(advice, cores), 0);
    EXPECT_THAT(titles_of(advice), Not(Contains(HasSubstr("Lanes:")))) << "a further lane's device is unknown";
}

TEST(Advice, ExplainsAStepByWorkAndWaiting) {
    // 4 lanes of 2 layers, 4 micro-batches of one sample: a lane works 4 x 2 x 3000 ns and recomputes 3 of 4.
    const Advice advice = advise(uniform_profile(8), pipeline_of({2, 2, 2, 2}, 4, 4));
    const Move& never = titled(advice, "Checkpoint: never instead of except_last");
    EXPECT_EQ(never.effect, MoveEffect::faster);
    EXPECT_THAT(never.why, HasSubstr("the lanes work 20.0 % less")) << "24000 instead of 30000 ns";
    EXPECT_DOUBLE_EQ(relative_change(advice, never), static_cast<double>(never.simulation.step_time.count()) /
                                                             static_cast<double>(advice.base.step_time.count()) -
                                                         1);
    EXPECT_THAT(advice.situation, HasSubstr("all lanes work equally long"));
}

TEST(Advice, RanksFasterMovesFirstAndOnesOverTheLimitBehindThem) {
    const CheckedProfile profile = profile_with_memory(8);
    PipelineOptions options = pipeline_of({2, 2, 2, 2}, 4, 8);
    options.hardware.memory_limit = highest_peak(simulate(profile, options));
    const Advice advice = advise(profile, options);
    EXPECT_TRUE(advice.base.feasible);
    const Move& never = titled(advice, "Checkpoint: never instead of except_last");
    EXPECT_EQ(never.effect, MoveEffect::over_limit);
    EXPECT_THAT(never.why, HasSubstr("above its limit"));
    ASSERT_FALSE(advice.moves.empty());
    for (std::size_t k = 1; k < advice.moves.size(); ++k) {
        const Move& before = advice.moves[k - 1];
        const Move& after = advice.moves[k];
        EXPECT_LE(before.effect, after.effect);
        if (before.effect == after.effect) {
            EXPECT_LE(before.hypothetical, after.hypothetical) << "what can be done comes first";
        }
        if (before.effect == after.effect && before.hypothetical == after.hypothetical) {
            EXPECT_LE(before.simulation.step_time, after.simulation.step_time);
        }
    }
    EXPECT_EQ(advice.moves.front().effect, MoveEffect::faster);
}

TEST(Advice, LeadsABaseThatDoesNotFitToOnesThatDo) {
    const CheckedProfile profile = profile_with_memory(8);
    PipelineOptions options = pipeline_of({2, 2, 2, 2}, 4, 4);
    options.checkpoint = Checkpoint::never;
    PipelineOptions frugal = options;
    frugal.checkpoint = Checkpoint::always;
    options.hardware.memory_limit = highest_peak(simulate(profile, frugal));
    const Advice advice = advise(profile, options);
    EXPECT_FALSE(advice.base.feasible);
    EXPECT_THAT(advice.situation, HasSubstr("KiB above its limit"));
    EXPECT_EQ(advice.moves.front().effect, MoveEffect::fits);
    EXPECT_EQ(titled(advice, "Checkpoint: always instead of never").effect, MoveEffect::fits);
    Bytes last = 0;
    for (const Move& move : advice.moves) {
        EXPECT_EQ(move.simulation.feasible, move.effect == MoveEffect::fits) << move.title;
        if (move.effect == MoveEffect::over_limit && !move.hypothetical) {
            EXPECT_GE(largest_shortfall(move.simulation), last) << "the one that needs least comes first";
            last = largest_shortfall(move.simulation);
        }
    }
}

TEST(Advice, DoublesMicroBatchesUntilTheyFit) {
    const CheckedProfile profile = profile_with_memory(8);
    PipelineOptions options = pipeline_of({2, 2, 2, 2}, 2, 32);
    PipelineOptions frugal = options;
    frugal.chunks = 16;
    options.hardware.memory_limit = highest_peak(simulate(profile, frugal));
    const Advice advice = advise(profile, options);
    EXPECT_EQ(titled(advice, "Micro-batches: 8 instead of 2").effect, MoveEffect::over_limit);
    EXPECT_EQ(titled(advice, "Micro-batches: 16 instead of 2").effect, MoveEffect::fits);
}

TEST(Advice, FindsTheOnlyMicroBatchesThatFit) {
    // A micro-batch keeps 900 bytes and 100 per sample, and needs 3000 per sample while it is computed: neither few nor
    // many micro-batches fit.
    Profile profile = uniform_profile(4);
    profile.samples = {1, 2};
    for (LayerProfile& layer : profile.layers) {
        layer.forward_ns = {1000, 2000};
        layer.backward_ns = {2000, 4000};
        layer.recompute_ns = {1000, 2000};
        layer.output_bytes = {1, 2};
        layer.saved_bytes = {1000, 1100};
        layer.transient_bytes = {3000, 6000};
    }
    for (const std::int64_t batch : {24, 23}) {  // with and without numbers that divide it
        PipelineOptions options = pipeline_of({2, 2}, 1, batch);
        options.checkpoint = Checkpoint::never;
        Bytes least = std::numeric_limits<Bytes>::max();
        for (std::int64_t m = 2; m < batch; ++m) {
            options.chunks = m;
            const bool counts = (batch == 23 || batch % m == 0) && m != 2;
            least = counts ? std::min(least, highest_peak(simulate(CheckedProfile(profile), options))) : least;
        }
        options.chunks = 1;
        options.hardware.memory_limit = least;
        const Advice advice = advise(CheckedProfile(profile), options);
        EXPECT_FALSE(advice.base.feasible);
        const auto fits = [](const Move& move) {
            return move.kind == MoveKind::micro_batches && move.effect == MoveEffect::fits;
        };
        EXPECT_EQ(std::ranges::count_if(advice.moves, fits), 1) << batch;
    }
}

TEST(Advice, LetsOneLaneTakeTurnsToFit) {
    PipelineOptions options = pipeline_of({4}, 4, 4);
    options.checkpoint = Checkpoint::never;
    PipelineOptions frugal = options;
    frugal.schedule = Schedule::one_f_one_b;
    const CheckedProfile profile = profile_with_memory(4);
    options.hardware.memory_limit = highest_peak(simulate(profile, frugal));
    const Advice advice = advise(profile, options);
    EXPECT_FALSE(advice.base.feasible);
    EXPECT_EQ(titled(advice, "Schedule: 1f1b instead of gpipe").effect, MoveEffect::fits);
}

TEST(Advice, DoesNotTakeLanesOfDifferentDevicesForAlike) {
    PipelineOptions options = pipeline_of({2, 2}, 4, 4);
    options.hardware.devices = {"gpu", "cpu"};
    options.hardware.host_cores = 2;
    EXPECT_THAT(titles_of(advise(profile_with_memory(4), options)), Not(Contains(HasSubstr("Lanes:"))));
    options.hardware.host_cores = 0;
    options.hardware.devices = {"gpu:0", "gpu:1"};
    EXPECT_THAT(titles_of(advise(profile_with_memory(4), options)), Contains(HasSubstr("Lanes: 3")));
}

TEST(Advice, DoesNotTakeLuckOfTheDrawForAGain) {
    std::mt19937 random(9);
    int doubtful = 0;
    for (int round = 0; round < 20; ++round) {
        Profile profile = uniform_profile(4);
        for (LayerProfile& layer : profile.layers) {
            layer.forward_ns = {static_cast<double>(900 + random() % 201) * 1000};
            layer.backward_ns = {2 * layer.forward_ns.front()};
            layer.recompute_ns = {2000};
            layer.forward_cv = layer.backward_cv = 0.2;
        }
        Advice advice = advise(CheckedProfile(profile), pipeline_of({1, 1, 1, 1}, 4, 4));
        add_noise(CheckedProfile(profile), advice);
        EXPECT_EQ(titled(advice, "Checkpoint: always instead of except_last").effect, MoveEffect::none) << "more work";
        EXPECT_GT(advice.base.noise->mean_error_ns, 0);
        for (const Move& move : advice.moves) {
            const bool shorter = relative_change(advice, move) < -kPlanTie;
            EXPECT_EQ(is_within_noise(advice, move), shorter && move.effect == MoveEffect::none) << move.title;
            EXPECT_EQ(move.why.find("so it may be noise") != std::string::npos, is_within_noise(advice, move));
            doubtful += is_within_noise(advice, move) ? 1 : 0;
        }
    }
    EXPECT_GT(doubtful, 0);
}

TEST(Advice, LeavesOutWhatCannotRun) {
    // 9 micro-batches on 4 lanes cannot be interleaved, nor can 18; and one lane has nothing to cut or to order.
    EXPECT_THAT(titles_of(advise(uniform_profile(8), pipeline_of({2, 2, 2, 2}, 9, 18))),
                Not(Contains(HasSubstr("interleaved"))));
    const Advice alone = advise(uniform_profile(1), pipeline_of({1}, 1, 1));
    EXPECT_THAT(titles_of(alone),
                UnorderedElementsAre("Checkpoint: never instead of except_last",
                                     "Checkpoint: always instead of except_last", "Schedule: 1f1b instead of gpipe"));
    EXPECT_EQ(alone.situation, "one lane does all the work");
    PipelineOptions folded = pipeline_of({2, 2, 2, 2}, 4, 4);
    folded.placement = {LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}};
    EXPECT_THAT(titles_of(advise(uniform_profile(8), folded)),
                Not(Contains(::testing::AnyOf(HasSubstr("Lanes:"), HasSubstr("Balance:"), HasSubstr("1f1b")))));
}

TEST(Advice, SearchesAnOrderThatBeatsTheNamedSchedules) {
    std::mt19937 random(3);
    const PipelineOptions options = pipeline_of({2, 2, 2, 2}, 8, 8);
    PipelineOptions automatic = options;
    automatic.schedule = Schedule::automatic;
    int found = 0;
    for (int round = 0; round < 20; ++round) {
        Profile profile = profile_with_memory(8);
        for (LayerProfile& layer : profile.layers) {
            layer.forward_ns[0] *= static_cast<double>(1 + random() % 4);
            layer.backward_ns[0] *= static_cast<double>(1 + random() % 4);
        }
        const Advice advice = advise(CheckedProfile(profile), options);
        const auto move = std::ranges::find(advice.moves, "Schedule: auto instead of gpipe", &Move::title);
        if (move == advice.moves.end()) {
            continue;  // a named schedule is as good
        }
        ++found;
        EXPECT_EQ(move->changes, (std::vector<OptionText>{{"schedule", "auto"}}));
        EXPECT_FALSE(move->hypothetical);
        EXPECT_EQ(move->simulation.step_time, find_and_simulate(CheckedProfile(profile), automatic).step_time);
        for (const char* name : {"1f1b", "zero-bubble-h1", "zero-bubble-2p"}) {
            const Simulation& named = titled(advice, "Schedule: " + std::string(name) + " instead of gpipe").simulation;
            const bool needs_less = highest_peak(move->simulation) < highest_peak(named);
            EXPECT_LE(move->simulation.step_time, named.step_time) << name;
            EXPECT_TRUE(needs_less || move->simulation.step_time < named.step_time) << name;
        }
    }
    EXPECT_GT(found, 0);
}

// Each change has the best order that is found for it.
TEST(Advice, SearchesAnOrderForEachChangeOfAuto) {
    PipelineOptions options = pipeline_of({3, 2, 3}, 4, 8);
    options.schedule = Schedule::automatic;
    Profile profile = profile_with_memory(8);
    profile.layers[1].forward_ns[0] *= 3;
    const Advice advice = advise(CheckedProfile(profile), options);
    EXPECT_EQ(advice.base.step_time, find_and_simulate(CheckedProfile(profile), options).step_time);
    std::set<MoveKind> kinds;
    for (const Move& move : advice.moves) {
        kinds.insert(move.kind);
        const auto schedule = std::ranges::find(move.changes, "schedule", &OptionText::option);
        EXPECT_EQ(schedule != move.changes.end(), move.kind == MoveKind::schedule) << move.title;
        PipelineOptions asked = move.simulation.options;
        if (move.kind != MoveKind::schedule) {
            asked.schedule = Schedule::automatic;
        } else if (asked.balance == options.balance) {
            EXPECT_GE(move.simulation.step_time, advice.base.step_time) << move.title;
        }
        EXPECT_EQ(move.simulation.step_time, find_and_simulate(CheckedProfile(profile), asked).step_time) << move.title;
    }
    EXPECT_THAT(kinds, IsSupersetOf({MoveKind::checkpoint, MoveKind::micro_batches, MoveKind::balance,
                                     MoveKind::schedule, MoveKind::lanes}));
    EXPECT_THAT(titles_of(advice), Not(Contains(HasSubstr("Schedule: auto"))));
}

/// The order of a named schedule as a file, with its partitions on lanes `placement`.
Schedule file_of(Schedule::Name name, int micro_batches, const std::vector<LaneId>& placement) {
    const PipelineShape shape{.num_partitions = static_cast<int>(placement.size()),
                              .num_micro_batches = micro_batches,
                              .checkpoint = Checkpoint::never,
                              .placement = placement};
    return Schedule::from_csv("mine.csv", to_csv(schedule_table(make_schedule(name, shape))));
}

// What a schedule alone gains, not with new cuts as well.
TEST(Advice, KeepsTheCutsAndLanesOfAFile) {
    PipelineOptions options = pipeline_of({3, 3}, 4, 8);
    options.checkpoint = Checkpoint::never;
    options.placement = {LaneId{1}, LaneId{0}};
    options.schedule = file_of(Schedule::one_f_one_b, 4, options.placement);
    Profile profile = profile_with_memory(6);
    profile.layers[0].forward_ns[0] *= 5;
    const Advice advice = advise(CheckedProfile(profile), options);
    for (const char* name : {"gpipe", "1f1b", "zero-bubble-h1"}) {
        const Move& move = titled(advice, "Schedule: " + std::string(name) + " instead of mine.csv");
        EXPECT_EQ(move.simulation.options.balance, options.balance) << name;
        EXPECT_EQ(move.simulation.options.placement, options.placement) << name;
        EXPECT_THAT(move.changes, ElementsAre(OptionText{"schedule", name}, OptionText{"placement", "1,0"})) << name;
    }
}

TEST(Advice, LeavesOutAnOrderThatIsNoBetterThanTheFiles) {
    PipelineOptions automatic = pipeline_of({2, 1, 1}, 4, 8);
    automatic.checkpoint = Checkpoint::never;
    automatic.schedule = Schedule::automatic;
    Profile profile = profile_with_memory(4);
    profile.layers[0].backward_ns[0] *= 3;
    const Simulation found = find_and_simulate(CheckedProfile(profile), automatic);
    PipelineOptions options = automatic;
    options.schedule = found.options.schedule;
    if (found.options.schedule.file()) {
        EXPECT_THAT(titles_of(advise(CheckedProfile(profile), options)), Not(Contains(HasSubstr("Schedule: auto"))));
    }
}

// Lanes that make each other three times as slow are better off one at a time.
TEST(Advice, NamesModelParallelWhereItIsTheBest) {
    Profile profile = uniform_profile(6);
    profile.co_running_lanes = 2;
    profile.co_running_slowdown = {1, 3};
    PipelineOptions options = pipeline_of({3, 3}, 4, 8);
    options.schedule = Schedule::one_f_one_b;
    options.hardware.devices = {"cpu", "cpu"};
    options.hardware.host_cores = 2;
    const Advice advice = advise(CheckedProfile(profile), options);
    const Move& move = titled(advice, "Schedule: model-parallel instead of 1f1b");
    EXPECT_EQ(move.effect, MoveEffect::faster);
    EXPECT_THAT(move.changes, ElementsAre(OptionText{"schedule", "model-parallel"}));
    EXPECT_THAT(titles_of(advise(uniform_profile(6), options)), Not(Contains(HasSubstr("model-parallel"))));
}

TEST(Advice, ShortensTitlesOfLongBalances) {
    std::vector<std::int64_t> layers(14, 2);
    layers.front() = 4;
    const Advice advice = advise(uniform_profile(30), pipeline_of(layers, 4, 4));
    EXPECT_EQ(titled(advice, "Balance: other cuts").changes.front().option, "balance");
}

TEST(Advice, TurnsInterleavedLanesBackIntoOnePartitionEach) {
    PipelineOptions options = pipeline_of({1, 1, 2, 1, 1, 2}, 6, 6);
    options.schedule = Schedule::interleaved_1f1b;
    options.placement = {LaneId{0}, LaneId{1}, LaneId{2}, LaneId{0}, LaneId{1}, LaneId{2}};
    const Advice advice = advise(uniform_profile(8), options);
    const PipelineOptions& plain = titled(advice, "Schedule: 1f1b instead of interleaved").simulation.options;
    EXPECT_EQ(plain.balance.num_partitions(), 3);
    EXPECT_TRUE(plain.placement.empty());
    EXPECT_EQ(titled(advice, "Lanes: 2 instead of 3, with new cuts").simulation.options.balance.num_partitions(), 4);
}

TEST(Advice, KeepsTheBaseAndItsBestMoveInStepWithSimulate) {
    std::mt19937 random(7);
    int helped = 0;
    for (int round = 0; round < 60; ++round) {
        const std::size_t layers = 4 + random() % 6;
        const CheckedProfile profile = random_profile(random, layers, round % 3 == 0);
        const int n = 1 + static_cast<int>(random() % 4);
        PipelineOptions options = random_options(random, random_balance(random, layers, n));
        if (round % 2 == 0) {
            options.hardware.memory_limit = highest_peak(simulate(profile, options)) - (round % 4 == 0 ? 1 : 0);
        }
        const Advice advice = advise(profile, options);
        const Simulation base = simulate(profile, options, {.noise = false});
        EXPECT_EQ(advice.base.step_time, base.step_time);
        EXPECT_EQ(advice.base.feasible, base.feasible);
        for (const Move& move : advice.moves) {
            const Simulation again = simulate(profile, move.simulation.options, {.noise = false});
            EXPECT_EQ(move.simulation.step_time, again.step_time) << move.title;
            EXPECT_EQ(highest_peak(move.simulation), highest_peak(again)) << move.title;
            EXPECT_EQ(move.simulation.bubble_fraction, again.bubble_fraction) << move.title;
            EXPECT_EQ(move.simulation.feasible, again.feasible) << move.title;
            EXPECT_FALSE(move.changes.empty()) << move.title;
            EXPECT_EQ(move.simulation.options.batch, options.batch) << "every move trains the same mini-batch";
            if (helps(move.effect)) {
                ++helped;
                EXPECT_TRUE(again.feasible) << move.title;
                EXPECT_TRUE(!base.feasible || again.step_time < base.step_time) << move.title;
            }
        }
    }
    EXPECT_GT(helped, 60) << "the pipelines leave room for improvement";
}

TEST(Advice, RanksByExpectedStepsOnceNoiseIsAdded) {
    Profile profile = profile_with_memory(8);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = 0.2;
    }
    const PipelineOptions options = pipeline_of({2, 2, 2, 2}, 4, 4);
    Advice advice = advise(CheckedProfile(profile), options);
    EXPECT_FALSE(advice.base.noise);
    add_noise(CheckedProfile(profile), advice);
    EXPECT_EQ(advice.base.noise, simulate(CheckedProfile(profile), options).noise);
    for (const Move& move : advice.moves) {
        EXPECT_EQ(move.simulation.noise, simulate(CheckedProfile(profile), move.simulation.options).noise)
            << move.title;
    }
    const Move& best = advice.moves.front();
    EXPECT_DOUBLE_EQ(relative_change(advice, best), static_cast<double>(best.simulation.noise->mean.count()) /
                                                            static_cast<double>(advice.base.noise->mean.count()) -
                                                        1);
}

TEST(Advice, StopsWhenAsked) {
    const CheckedProfile profile = profile_with_memory(8);
    const PipelineOptions options = pipeline_of({2, 2, 2, 2}, 4, 4);
    int asked = 0;
    const Advice stopped = advise(profile, options, [&asked] { return ++asked > 2; });
    EXPECT_TRUE(stopped.cancelled);
    EXPECT_EQ(stopped.moves.size(), 2);
    EXPECT_LT(asked, 5);
}

TEST(Advice, RefusesABaseThatCannotRun) {
    EXPECT_THROW(advise(uniform_profile(8), pipeline_of({2, 2}, 4, 4)), BalanceError);
    EXPECT_THAT(advise(uniform_profile(2), pipeline_of({1, 1}, 1, 1)).moves, Not(IsEmpty()));
}

TEST(Advice, TakesMillisecondsForEightLanes) {
    std::mt19937 random(3);
    const CheckedProfile profile = random_profile(random, 48, false);
    PipelineOptions options = pipeline_of({6, 6, 6, 6, 6, 6, 6, 6}, 32, 64);
    options.hardware.link = {1e9, 100};
    const auto start = std::chrono::steady_clock::now();
    const Advice advice = advise(profile, options);
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_GT(advice.moves.size(), 10);
    EXPECT_LT(took, std::chrono::seconds(10)) << "it takes about a hundredth of that";
}
}  // namespace
}  // namespace pipescope
