#include "simulator/memory/range_table.h"
#include "tests/simulator/memory/range_walk.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <ostream>

namespace pipescope {
void PrintTo(const RangePeaks& peaks, std::ostream* out) {
    *out << "input " << peaks.input << (peaks.input_kept ? " kept" : "") << ", output " << peaks.output
         << (peaks.output_kept ? " kept" : "") << ", graph " << peaks.graph << ", checkpointed forward "
         << peaks.checkpointed_forward << ", forward " << peaks.forward << ", of its own input "
         << peaks.forward_of_own_input << ", backward " << peaks.backward << ", of a view " << peaks.backward_of_view
         << ", input gradient " << peaks.input_gradient;
}

namespace {
void expect_every_range_as_walked(const Profile& profile, std::int64_t samples, const std::string& where) {
    const SizedProfile sized = at_size(profile, samples);
    RangeTable table(profile, sized);
    for (std::size_t first = 0; first < profile.layers.size(); ++first) {
        for (std::size_t end = first + 1; end <= profile.layers.size(); ++end) {
            const LayerRange range{LayerId{first}, LayerId{end}};
            ASSERT_EQ(table.at(range), walked_range(profile, sized, range))
                << where << " layers " << first << " to " << end;
        }
    }
}

TEST(RangeTable, HoldsWhatTheWalkThroughEachRangeFinds) {
    std::mt19937 random(31);
    for (int round = 0; round < 600; ++round) {
        const std::size_t layers = 1 + random() % 12;
        Profile profile = random_profile(random, layers, false);
        for (std::size_t skip = 0; layers > 1 && skip < random() % 4; ++skip) {
            const std::size_t from = random() % (layers - 1);
            const std::string name = "s" + std::to_string(skip);
            profile.layers[from].stash[name] = {static_cast<double>(random() % 90), 100};
            profile.layers[from + 1 + random() % (layers - from - 1)].pop.push_back(name);
        }
        if (round % 5 == 0) {
            for (LayerProfile& layer : profile.layers) {
                layer.aliases_input = layer.aliases_input || random() % 2 == 0;  // several in a row
            }
        }
        check_profile(profile);
        expect_every_range_as_walked(profile, 1 + static_cast<std::int64_t>(random() % 3),
                                     "round " + std::to_string(round));
    }
}

TEST(RangeTable, PlaysTheTapesOfRangesThatHaveAll) {
    Profile profile = uniform_profile(4);
    for (const std::size_t l : {1, 2}) {
        LayerTape tape;  // keeps 70 bytes that the layers' own bytes know nothing of
        tape.blocks = {{TapeBlock::Role::input, 0}, {TapeBlock::Role::output, 0}, {TapeBlock::Role::own, 70}};
        tape.forward = tape.recompute = {3, 2};
        tape.checkpointed_forward = {3, 2, -3};
        tape.backward = {-3};
        profile.layers[l].tape = {tape};
    }
    check_profile(profile);
    const SizedProfile sized = at_size(profile, 1);
    EXPECT_EQ(RangeTable(profile, sized).at({LayerId{1}, LayerId{3}}).graph, 140);
    EXPECT_EQ(RangeTable(profile, sized).at({LayerId{1}, LayerId{4}}).graph, 0) << "one has no tape";
}
}  // namespace
}  // namespace pipescope
