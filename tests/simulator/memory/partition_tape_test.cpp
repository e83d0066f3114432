#include "simulator/memory/partition_tape.h"
#include "simulator/memory/range_table.h"
#include "simulator/memory/task_work.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

LayerTape alone(PlainTape tape) {
    LayerTape without_variants;
    static_cast<PlainTape&>(without_variants) = std::move(tape);
    return without_variants;
}

/// Input 100, output 200. Saves 1000, needs 50 temporarily and 70 in backward, and keeps its input.
LayerTape linear_tape(bool has_input_gradient) {
    LayerTape tape;
    tape.blocks = {{Role::input, 100}, {Role::output, 200},          {Role::own, 1000},
                   {Role::own, 50},    {Role::output_gradient, 200}, {Role::own, 70}};
    tape.forward = tape.recompute = {3, 4, -4, 2};
    tape.checkpointed_forward = {4, -4, 2};
    tape.backward = {6, -3, -5, -6, -1};
    if (has_input_gradient) {
        tape.blocks.push_back({Role::input_gradient, 100});
        tape.backward = {6, -3, 7, -5, -6, -1};
    }
    return tape;
}

Profile two_layers() {
    Profile profile = profile_of({layer_of(1000, 2000, 200), layer_of(1000, 2000, 200)});
    profile.input_bytes = {100};
    profile.layers[0].tape = {linear_tape(false)};
    LayerTape second = linear_tape(true);
    second.blocks[0].bytes = second.blocks[6].bytes = 200;  // what the first one hands on
    profile.layers[1].tape = {second};
    return profile;
}

RangePeaks peaks_of(const Profile& profile, LayerRange layers) {
    const SizedProfile sized = at_size(profile, 1);
    return RangeTable(profile, sized).at(layers);
}

TEST(PartitionTape, PlaysItsLayersOneAfterTheOther) {
    const Profile profile = two_layers();
    const auto tape = recorded_partition_tape(profile, at_size(profile, 1), {LayerId{0}, LayerId{2}});
    ASSERT_TRUE(tape);
    EXPECT_NO_THROW(check_tape(alone(tape->tape), "partition"));
    // Layer 0's output is the own block 2. Layer 1 keeps it as its input, and it is freed after layer 1's backward.
    EXPECT_EQ(tape->tape.blocks[1], (TapeBlock{Role::own, 200}));
    EXPECT_EQ(tape->tape.forward, (std::vector<std::int32_t>{3, 4, -4, 2, 7, 8, -8, 6}));
    EXPECT_EQ(tape->tape.checkpointed_forward, (std::vector<std::int32_t>{4, -4, 2, 8, -8, 6, -2}));
    EXPECT_EQ(tape->needed_forward.at(1), 4u) << "of the input";
}

TEST(PartitionTape, GivesTheExactMemoryOfAPartition) {
    const Profile profile = two_layers();
    const RangePeaks memory = peaks_of(profile, {LayerId{0}, LayerId{2}});
    EXPECT_EQ(memory.graph, 1000 + 200 + 1000);
    EXPECT_TRUE(memory.input_kept);
    EXPECT_FALSE(memory.output_kept);
    EXPECT_EQ(memory.forward, 1000 + 200 + 1000 + 200);
    EXPECT_EQ(memory.checkpointed_forward, 200 + 200) << "both outputs for an instant";
    // Layer 1: 70 more at first, then its saved bytes are freed.
    EXPECT_EQ(memory.backward, 70);
}

// Blocks are numbered as they are first seen: a tensor that is handed through comes before a new one, wherever it
// stands among the outputs. The partition once took the blocks' order for that of the tensors.
TEST(PartitionTape, HandsTensorsOnInTheirOwnOrder) {
    Profile profile = profile_of({layer_of(1000, 2000, 200), layer_of(1000, 2000, 200)});
    LayerTape split;  // {x * 2, x}
    split.blocks = {{Role::passed, 100}, {Role::output, 200}};
    split.forward = split.recompute = split.checkpointed_forward = {2};
    split.outputs = {2, 1};
    LayerTape square;  // of the first, which it keeps; the second passes by
    square.blocks = {{Role::input, 200}, {Role::passed, 100}, {Role::output, 300}, {Role::output_gradient, 300}};
    square.forward = square.recompute = square.checkpointed_forward = {3};
    square.backward = {-4, -1};
    square.outputs = {3, 2};
    profile.layers[0].tape = {split};
    profile.layers[1].tape = {square};
    const auto tape = recorded_partition_tape(profile, at_size(profile, 1), {LayerId{0}, LayerId{2}});
    ASSERT_TRUE(tape);
    EXPECT_EQ(tape->inputs, (std::vector<std::int32_t>{1}));
    EXPECT_EQ(tape->outputs, (std::vector<std::int32_t>{3, 1}));
    EXPECT_EQ(tape->tape.blocks[0], (TapeBlock{Role::passed, 100}));
    EXPECT_EQ(tape->tape.backward, (std::vector<std::int32_t>{-4, -2})) << "what was kept is the new one";
}

TEST(PartitionTape, HoldsAGradientThatTwoTensorsShareUntilBothAreThroughWithIt) {
    Profile profile = profile_of({layer_of(1000, 2000, 200), layer_of(1000, 2000, 200)});
    LayerTape split;  // {x, x}, whose gradients are one storage: their sum is a new one
    split.blocks = {{Role::passed, 100}, {Role::output_gradient, 100}, {Role::input_gradient, 100}};
    split.backward = {3, -2};
    split.outputs = {1, 1};
    split.output_gradients = {2, 2};
    LayerTape join;  // a + b: the gradient goes to both
    join.blocks = {{Role::input, 100}, {Role::output, 100}, {Role::passed_gradient, 100}};
    join.forward = join.recompute = join.checkpointed_forward = {2};
    join.inputs = {1, 1};
    join.input_gradients = {3, 3};
    profile.layers[0].tape = {split};
    profile.layers[1].tape = {join};
    const auto tape = recorded_partition_tape(profile, at_size(profile, 1), {LayerId{0}, LayerId{2}});
    ASSERT_TRUE(tape);
    const std::int32_t given = tape->output_gradients.at(0);
    const std::int32_t sum = tape->input_gradients.at(0);
    EXPECT_EQ(tape->tape.backward, (std::vector<std::int32_t>{sum, -given}));
}

/// Two layers of 100 whose second halves need input and output gradient; the upper one's input gradient too if it says.
Profile two_split_layers(bool upper_keeps_its_input_gradient) {
    Profile profile = profile_of({layer_of(1000, 2000, 100), layer_of(1000, 2000, 100)});
    LayerTape tape;
    tape.blocks = {{Role::input, 100}, {Role::output, 100}, {Role::output_gradient, 100}, {Role::input_gradient, 100}};
    tape.forward = tape.recompute = tape.checkpointed_forward = {2};
    tape.backward = {4, -3, -1};
    LayerTape halves = tape;
    halves.backward = {4};
    halves.backward_weight = {-3, -1};
    tape.halves = {halves};
    profile.layers[0].tape = {tape};
    if (upper_keeps_its_input_gradient) {
        tape.halves[0].backward_weight.push_back(-4);
    }
    profile.layers[1].tape = {tape};
    return profile;
}

// Blocks: 1 input, 2 the tensor between the layers, 3 output, 4 output's gradient, 5 and 6 the gradients below.
TEST(PartitionTape, PlaysFirstHalvesBeforeSecondOnes) {
    const Profile profile = two_split_layers(false);
    const auto tape = recorded_partition_tape(profile, at_size(profile, 1), {LayerId{0}, LayerId{2}}, {.halves = true});
    ASSERT_TRUE(tape);
    const std::int32_t above = tape->output_gradients.at(0);
    const std::int32_t below = tape->input_gradients.at(0);
    const std::int32_t between = below - 1;
    EXPECT_EQ(tape->tape.backward, (std::vector<std::int32_t>{between, below}));
    EXPECT_EQ(tape->tape.backward_weight, (std::vector<std::int32_t>{-above, -2, -between, -1}));
    EXPECT_EQ(tape->backward_weight_ends, (std::vector<std::size_t>{2, 4}));
    PartitionWork work(at_size(profile, 1), {LayerId{0}, LayerId{2}}, *tape, true);
    EXPECT_EQ(work.graph(), 100);
    EXPECT_EQ(work.graph_between(), 200) << "what is between the layers, and its gradient";
    EXPECT_TRUE(work.keeps_between(1) && work.keeps_between(above) && !work.keeps_between(below));
}

TEST(PartitionTape, HoldsAGradientForTheSecondHalfOfTheLayerThatMadeIt) {
    const Profile profile = two_split_layers(true);
    const SizedProfile sized = at_size(profile, 1);
    const auto both = recorded_partition_tape(profile, sized, {LayerId{0}, LayerId{2}}, {.halves = true});
    ASSERT_TRUE(both);
    const std::int32_t between = both->input_gradients.at(0) - 1;
    EXPECT_EQ(both->tape.backward_weight, (std::vector<std::int32_t>{-both->output_gradients.at(0), -2, -between, -1}))
        << "the lower one has it longer";
    const auto upper = recorded_partition_tape(profile, sized, {LayerId{1}, LayerId{2}}, {.halves = true});
    ASSERT_TRUE(upper);
    const std::int32_t leaving = upper->input_gradients.at(0);
    EXPECT_EQ(upper->tape.blocks[static_cast<std::size_t>(leaving) - 1].role, Role::input_gradient);
    EXPECT_EQ(upper->tape.backward_weight.back(), -leaving);
    EXPECT_TRUE(PartitionWork(sized, {LayerId{1}, LayerId{2}}, *upper, true).keeps_between(leaving));
}

TEST(PartitionTape, CopiesRunningStatisticsWhileItIsRecomputed) {
    Profile profile = two_layers();
    const LayerRange both{LayerId{0}, LayerId{2}};
    const RangePeaks before = peaks_of(profile, both);
    profile.layers[0].buffer_bytes = profile.layers[0].statistic_bytes = 30;
    profile.layers[1].buffer_bytes = profile.layers[1].statistic_bytes = 47;
    const auto tape = recorded_partition_tape(profile, at_size(profile, 1), both);
    ASSERT_TRUE(tape);
    EXPECT_NO_THROW(check_tape(alone(tape->tape), "partition"));
    const auto copies = static_cast<std::int32_t>(
        std::find(tape->tape.blocks.begin(), tape->tape.blocks.end(), TapeBlock{Role::own, 77}) -
        tape->tape.blocks.begin() + 1);
    EXPECT_EQ(tape->tape.recompute.front(), copies) << "of all layers, before the first runs";
    EXPECT_EQ(tape->tape.recompute.back(), -copies);
    EXPECT_EQ(std::count(tape->tape.forward.begin(), tape->tape.forward.end(), copies), 0);
    EXPECT_EQ(peaks_of(profile, both).forward, before.forward) << "bounds count the copies apart";
}

TEST(PartitionTape, IsNotMadeOfHalfTheTapes) {
    Profile profile = two_layers();
    profile.layers[1].tape.clear();
    EXPECT_FALSE(recorded_partition_tape(profile, at_size(profile, 1), {LayerId{0}, LayerId{2}}));
    EXPECT_TRUE(recorded_partition_tape(profile, at_size(profile, 1), {LayerId{0}, LayerId{1}}));
    EXPECT_FALSE(recorded_partition_tape(profile, at_size(profile, 3), {LayerId{0}, LayerId{1}}))
        << "no tape of that size";
}

TEST(PartitionTape, LiesBetweenTheTapesOfTwoSizesWithEqualEvents) {
    Profile profile = profile_of({layer_of(1000, 2000, 200)});
    profile.samples = {1, 3};
    for (PerSize* values :
         {&profile.layers[0].forward_ns, &profile.layers[0].backward_ns, &profile.layers[0].output_bytes}) {
        *values = {1, 3};
    }
    LayerTape large = linear_tape(false);
    for (TapeBlock& block : large.blocks) {
        block.bytes *= 3;
    }
    profile.layers[0].tape = {linear_tape(false), large};
    EXPECT_EQ(recorded_tape(profile, at_size(profile, 2), LayerId{0})->blocks[2].bytes, 2000);
    profile.layers[0].tape[1].forward = profile.layers[0].tape[1].recompute = {4, -4, 3, 2};
    EXPECT_FALSE(recorded_tape(profile, at_size(profile, 2), LayerId{0}));
}

TEST(PartitionTape, MadeUpFromBytesIsAlwaysATape) {
    std::mt19937 random(21);
    for (int round = 0; round < 500; ++round) {
        const Profile profile = with_readers(random_profile(random, 1 + random() % 6, random() % 2 == 0), random);
        const SizedProfile sized = at_size(profile, 1 + static_cast<std::int64_t>(random() % 4));
        const LayerRange all{LayerId{0}, LayerId{profile.layers.size()}};
        for (std::size_t l = 0; l < profile.layers.size(); ++l) {
            EXPECT_NO_THROW(check_tape(alone(tape_from_bytes(profile, sized, LayerId{l})), "layer"));
        }
        EXPECT_NO_THROW(check_tape(alone(partition_tape_from_bytes(profile, sized, all).tape), "partition"))
            << "round " << round;
    }
}

PipelineOptions on_accelerators(int n, int m) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1));
    options.chunks = options.batch = m;
    options.checkpoint = Checkpoint::never;
    return options;
}

TEST(ReservedMemory, CountsWholeSegments) {
    // Parameters and gradients of 6 MiB each share a segment of 20 MiB. Everything else fits into the small pool's 2
    // MiB.
    Profile profile = two_layers();
    profile.layers[0].parameter_bytes = profile.layers[0].gradient_bytes = Bytes{6} << 20;
    const Simulation simulation = simulate(CheckedProfile(profile), on_accelerators(2, 4), {.reserved = true});
    EXPECT_EQ(simulation.lanes[0].peak_reserved_bytes, Bytes{22} << 20);
    EXPECT_EQ(simulation.lanes[1].peak_reserved_bytes, Bytes{2} << 20);
    EXPECT_EQ(simulation.memory.back().reserved, Bytes{22} << 20) << "of lane 0, whose backward is the last";
}

TEST(ReservedMemory, PlaysTheTapesInTheOrderOfTheSchedule) {
    // One layer, one lane, in MiB: input 12 (the mini-batch, present from the start), output 14 and 30 saved;
    // temporarily 11 more in forward and 16 in backward. All blocks are above 10 MiB, so none share a segment.
    LayerTape tape;
    constexpr Bytes mib = Bytes{1} << 20;
    tape.blocks = {{Role::input, 12 * mib}, {Role::output, 14 * mib},          {Role::own, 30 * mib},
                   {Role::own, 11 * mib},   {Role::output_gradient, 14 * mib}, {Role::own, 16 * mib}};
    tape.forward = tape.recompute = {3, 4, -4, 2};
    tape.checkpointed_forward = {4, -4, 2};
    tape.backward = {6, -3, -5, -6, -1};
    Profile profile = profile_of({layer_of(1000, 2000, 14.0 * mib)});
    profile.input_bytes = {12.0 * mib};
    profile.layers[0].tape = {tape};
    const auto reserved = [&](int m, Checkpoint checkpoint) {
        PipelineOptions options = on_accelerators(1, m);
        options.checkpoint = checkpoint;
        return simulate(CheckedProfile(profile), options, {.reserved = true}).lanes[0].peak_reserved_bytes.value() >>
               20;
    };
    // Input 12, saved 30, scratch 12 (11, in whole 2 MiB), output 14. The loss' gradient takes 14. No free block holds
    // backward's 16.
    EXPECT_EQ(reserved(1, Checkpoint::never), 12 + 30 + 12 + 14 + 14 + 16);
    // Two micro-batches: the inputs are 24. Forwards: 30, 12, 14; then 30, the 12 again, 14. The loss gathers 28 and
    // takes 28 for their gradient. Backward's 16 fits into the gathered 28.
    EXPECT_EQ(reserved(2, Checkpoint::never), 24 + 30 + 12 + 14 + 30 + 14 + 28 + 28);
    // With recompute: forwards keep only 14 each and share the 12; the loss takes 28 and 28. Then 30 are saved: they do
    // not fit into the gathered 28, but backward's 16 do.
    EXPECT_EQ(reserved(2, Checkpoint::always), 24 + 12 + 14 + 14 + 28 + 28 + 30);
}

TEST(ReservedMemory, IsNothingOnTheHost) {
    PipelineOptions options = on_accelerators(2, 4);
    options.hardware.devices = {"cpu", "cpu"};
    EXPECT_EQ(simulate(two_layers(), options, {.reserved = true}).lanes[0].peak_reserved_bytes, 0);
}

/// Storages large enough for the allocator's large pool.
Profile profile_of_large_blocks(std::mt19937& random, std::size_t layers) {
    Profile profile = with_readers(random_profile(random, layers, random() % 2 == 0), random);
    for (LayerProfile& layer : profile.layers) {
        for (PerSize* sizes : {&layer.output_bytes, &layer.saved_bytes, &layer.transient_bytes}) {
            for (double& bytes : *sizes) {
                bytes = std::floor(bytes) * 100'000;
            }
        }
        for (auto& [name, sizes] : layer.stash) {
            for (double& bytes : sizes) {
                bytes = std::floor(bytes) * 100'000;
            }
        }
    }
    return profile;
}

TEST(ReservedMemory, HoldsAllThatTensorsHoldWhenALaneEndsATask) {
    std::mt19937 random(22);
    const std::vector<Schedule> schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1,
                                             Schedule::pipedream};
    for (int round = 0; round < 400; ++round) {
        const std::size_t layers = 2 + random() % 5;
        const CheckedProfile profile = profile_of_large_blocks(random, layers);
        PipelineOptions options =
            random_options(random, random_balance(random, layers, 1 + static_cast<int>(random() % layers)));
        options.placement.clear();
        options.hardware.expandable_segments = random() % 2 == 0;
        options.schedule = schedules[random() % schedules.size()];
        SCOPED_TRACE("round " + std::to_string(round) + ", " + to_string(options.schedule));
        const Simulation simulation = simulate(profile, options, {.reserved = true});
        for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
            const bool on_host = runs_on_host(options.hardware, LaneId{lane});
            const SimulatedLane& each = simulation.lanes[lane];
            EXPECT_EQ(each.peak_reserved_bytes == 0, on_host);
            // peak_bytes adds to a task's work all that arrives during it; the replay lets it arrive in sequence.
            EXPECT_TRUE(on_host ||
                        static_cast<double>(*each.peak_reserved_bytes) > 0.5 * static_cast<double>(each.peak_bytes));
            EXPECT_TRUE(on_host || simulation.lanes.size() > 1 || each.peak_reserved_bytes >= each.peak_bytes)
                << "nothing arrives on the only lane";
        }
        for (const MemorySample& sample : simulation.memory) {
            const bool is_own = sample.task >= 0 && is_compute(unpack(static_cast<std::uint64_t>(sample.task))->kind);
            const bool shares = std::count(options.hardware.devices.begin(), options.hardware.devices.end(),
                                           device_of(options.hardware, sample.lane)) > 1;  // storages of other streams
            if (is_own && !shares && device_of(options.hardware, sample.lane) != "cpu") {
                EXPECT_GE(sample.reserved, sample.allocated);
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
