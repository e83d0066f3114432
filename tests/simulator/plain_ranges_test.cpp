#include "simulator/plain_ranges.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
void expect_same(const PartitionMemory& quick, const PartitionMemory& walked, const std::string& where) {
    EXPECT_EQ(quick.input, walked.input) << where;
    EXPECT_EQ(quick.input_kept, walked.input_kept) << where;
    EXPECT_EQ(quick.output, walked.output) << where;
    EXPECT_EQ(quick.output_kept, walked.output_kept) << where;
    EXPECT_EQ(quick.graph, walked.graph) << where;
    EXPECT_EQ(quick.input_gradient, walked.input_gradient) << where;
    EXPECT_EQ(quick.checkpointed_forward.total(), walked.checkpointed_forward.total()) << where;
    EXPECT_EQ(quick.forward.total(), walked.forward.total()) << where;
    EXPECT_EQ(quick.forward_of_own_input.total(), walked.forward_of_own_input.total()) << where;
    EXPECT_EQ(quick.backward.total(), walked.backward.total()) << where;
    EXPECT_EQ(quick.backward_of_view.total(), walked.backward_of_view.total()) << where;
    EXPECT_TRUE(walked.skip_gradients.empty()) << where;
}

TEST(PlainRanges, HoldWhatTheWalkThroughTheirLayersFinds) {
    std::mt19937 random(31);
    int known = 0;
    int unknown = 0;
    for (int round = 0; round < 400; ++round) {
        const std::size_t layers = 1 + random() % 12;
        Profile profile = random_profile(random, layers, round % 4 == 0);
        for (LayerProfile& layer : profile.layers) {
            if (round % 2 == 1) {
                layer.aliases_input = layer.passes_gradient = false;
            }
        }
        const SizedProfile sized = at_size(profile, 1 + static_cast<std::int64_t>(random() % 3));
        const PlainRanges plain(profile, sized);
        for (std::size_t first = 0; first < layers; ++first) {
            for (std::size_t end = first + 1; end <= layers; ++end) {
                const LayerRange range{LayerId{static_cast<std::int64_t>(first)},
                                       LayerId{static_cast<std::int64_t>(end)}};
                const auto quick = plain.memory(range);
                ++(quick ? known : unknown);
                if (quick) {
                    expect_same(*quick, partition_memory(profile, sized, range),
                                "round " + std::to_string(round) + " layers " + std::to_string(first) + " to " +
                                    std::to_string(end));
                }
            }
        }
    }
    EXPECT_GT(known, 5000);
    EXPECT_GT(unknown, 1000);
}

TEST(PlainRanges, LeaveLayersWithTapesToTheWalk) {
    Profile profile = uniform_profile(2);
    LayerTape tape;
    tape.blocks = {{TapeBlock::Role::input, 1}, {TapeBlock::Role::output, 1}};
    profile.layers[1].tape = {tape};
    const PlainRanges plain(profile, at_size(profile, 1));
    EXPECT_TRUE(plain.memory({LayerId{0}, LayerId{1}}));
    EXPECT_FALSE(plain.memory({LayerId{0}, LayerId{2}}));
}

TEST(RangeMaxima, AreThoseOfEveryStretch) {
    std::mt19937 random(32);
    std::vector<Bytes> values(37);
    for (Bytes& value : values) {
        value = static_cast<Bytes>(random() % 100);
    }
    const RangeMaxima maxima(values);
    for (std::size_t first = 0; first < values.size(); ++first) {
        Bytes most = values[first];
        for (std::size_t end = first + 1; end <= values.size(); ++end) {
            most = std::max(most, values[end - 1]);
            EXPECT_EQ(maxima.largest(first, end), most) << first << " to " << end;
        }
    }
}
}  // namespace
}  // namespace pipescope
