#include "profiler/profile/profile.h"
#include "profiler/profile/profile_file.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Role = TapeBlock::Role;

/// A layer that saves 4096 bytes and its input, and needs 512 bytes temporarily.
LayerTape linear_tape() {
    LayerTape tape;
    tape.blocks = {{Role::input, 1024}, {Role::output, 2048},          {Role::own, 4096},
                   {Role::own, 512},    {Role::output_gradient, 2048}, {Role::input_gradient, 1024}};
    tape.forward = {3, 4, 2, -4};
    tape.recompute = tape.forward;
    tape.checkpointed_forward = {4, 2, -4};
    tape.backward = {6, -3, -5, -1};
    return tape;
}

TEST(LayerTape, AcceptsWhatALayerDoes) {
    EXPECT_NO_THROW(check_tape(linear_tape(), "tape"));
    EXPECT_FALSE(linear_tape().empty());
    EXPECT_TRUE(LayerTape{}.empty());
}

TEST(LayerTape, LetsGoOfWhatItSavedWhereNothingIsKept) {
    EXPECT_EQ(forward_that_keeps_nothing(linear_tape()), (std::vector<std::int32_t>{3, 4, 2, -4, -3}));
}

TEST(LayerTape, LeavesSkipsToTheSchedule) {
    LayerTape tape = linear_tape();
    tape.blocks.push_back({Role::skip, 64});
    tape.forward.push_back(7);
    tape.recompute.push_back(7);
    EXPECT_NO_THROW(check_tape(tape, "tape"));
}

TEST(LayerTape, RefusesEventsThatCannotBe) {
    const auto refuses = [](const char* starts, const char* holds, auto spoil) {
        LayerTape tape = linear_tape();
        spoil(tape);
        EXPECT_THAT(thrown<ProfileError>([&] { check_tape(tape, "tape"); }),
                    AllOf(StartsWith(starts), HasSubstr(holds)));
    };
    refuses("tape.forward[0] is 0", "number of a block", [](LayerTape& t) { t.forward[0] = 0; });
    refuses("tape.forward[0] is 9", "number of a block", [](LayerTape& t) { t.forward[0] = 9; });
    refuses("tape.forward[4] takes block 3", "once", [](LayerTape& t) { t.forward.push_back(3); });
    refuses("tape.forward[4] lets go of block 4", "once", [](LayerTape& t) { t.forward.push_back(-4); });
    refuses("tape.forward[4] lets go of the input block 1", "backward", [](LayerTape& t) { t.forward.push_back(-1); });
    refuses("tape.forward never takes the output, block 2", "outputs", [](LayerTape& t) { t.forward = {3}; });
    refuses("tape.checkpointed_forward still holds block 3", "keeps nothing",
            [](LayerTape& t) { t.checkpointed_forward = t.forward; });
    refuses("tape.recompute leaves other blocks", "save the same", [](LayerTape& t) { t.recompute = {2}; });
    refuses("tape.backward still holds block 3", "lets go", [](LayerTape& t) { t.backward = {6}; });
    refuses("tape.outputs[0] is 7", "number of a block", [](LayerTape& t) { t.outputs = {7}; });
    refuses("tape.inputs[1] is 0", "leave it out", [](LayerTape& t) { t.inputs = {1, 0}; });
    refuses("tape.blocks[2] has -1 bytes", "from 0", [](LayerTape& t) { t.blocks[2].bytes = -1; });
}

/// The same layer, whose second half needs its input and the gradient of its output.
LayerTape split_linear_tape() {
    LayerTape halves = linear_tape();
    halves.blocks.push_back({Role::own, 8192});
    halves.backward = {6, -3};
    halves.backward_weight = {7, -7, -5, -1};
    return halves;
}

TEST(LayerTape, HoldsTheHalvesOfASplitBackward) {
    LayerTape tape = linear_tape();
    tape.halves = {split_linear_tape()};
    EXPECT_NO_THROW(check_tape(tape, "tape"));
    EXPECT_EQ(variant_of(tape, {.halves = true}), tape.halves.front());
    EXPECT_EQ(variant_of(linear_tape(), {.halves = true}), linear_tape());
    LayerTape other = tape;
    other.all_gradients = {tape};
    EXPECT_NO_THROW(check_tape(other, "tape"));

    const auto refuses = [&](const char* starts, const char* holds, auto spoil) {
        LayerTape spoilt = tape;
        spoil(spoilt);
        EXPECT_THAT(thrown<ProfileError>([&] { check_tape(spoilt, "tape"); }),
                    AllOf(StartsWith(starts), HasSubstr(holds)));
    };
    refuses("tape.halves.backward_weight still holds block 7", "lets go",
            [](LayerTape& t) { t.halves[0].backward_weight = {7}; });
    refuses("tape.halves.backward_weight[0] lets go of block 3", "not held",
            [](LayerTape& t) { t.halves[0].backward_weight.insert(t.halves[0].backward_weight.begin(), -3); });
    refuses("tape.backward_weight is there", "halves", [](LayerTape& t) { t.backward_weight = {-1}; });
    refuses("tape.halves holds more than one", "one variant", [&](LayerTape& t) { t.halves = {tape, tape}; });
    refuses("tape.halves holds more than one", "one variant", [&](LayerTape& t) { t.halves[0].halves = t.halves; });
}

TEST(LayerTape, KeepsTheHalvesOfASplitBackwardInTheFile) {
    Profile profile = parse_profile(
        R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [{"name": "a",
            "forward_ns": [1], "backward_ns": [1], "output_bytes": [8]}]})");
    LayerTape tape = linear_tape();
    tape.halves = {split_linear_tape()};
    LayerTape other = tape;
    other.halves[0].forward = {4, 3, 2, -4};  // its own forwards
    other.halves[0].recompute = other.halves[0].forward;
    tape.all_gradients = {other};
    profile.layers[0].tape = {tape};
    const std::string json = to_json(profile);
    EXPECT_EQ(parse_profile(json)->layers[0].tape[0], tape) << json;
    EXPECT_THAT(thrown<ProfileError>(
                    [&] { parse_profile(std::regex_replace(json, std::regex("\"halves\""), "\"gathered\"")); }),
                HasSubstr("forward"));
}

TEST(LayerTape, ListsItsTensorsByRoleUnlessItSaysOtherwise) {
    LayerTape tape = linear_tape();
    EXPECT_EQ(inputs_of(tape), (std::vector<std::int32_t>{1}));
    EXPECT_EQ(outputs_of(tape), (std::vector<std::int32_t>{2}));
    EXPECT_EQ(output_gradients_of(tape), (std::vector<std::int32_t>{5}));
    EXPECT_EQ(input_gradients_of(tape), (std::vector<std::int32_t>{6}));
    tape.outputs = {2, 2};
    EXPECT_EQ(outputs_of(tape), tape.outputs);
}

TEST(LayerTape, KeepsTheListsOfItsTensorsInTheFile) {
    Profile profile = parse_profile(
        R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [{"name": "a",
            "forward_ns": [1], "backward_ns": [1], "output_bytes": [8], "buffer_bytes": 9, "statistic_bytes": 8}]})");
    LayerTape tape = linear_tape();
    tape.inputs = {1, 1};
    tape.outputs = {2, 1};
    tape.output_gradients = {5, 0};
    tape.input_gradients = {6, 6};
    profile.layers[0].tape = {tape};
    const Profile again = parse_profile(to_json(profile));
    EXPECT_EQ(again.layers[0].tape.at(0), tape);
    EXPECT_EQ(again.layers[0].statistic_bytes, 8);
}

TEST(LayerTape, KeepsItsVariantsInTheFile) {
    Profile profile = parse_profile(
        R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [{"name": "a",
            "forward_ns": [1], "backward_ns": [1], "output_bytes": [8]}]})");
    const auto with_block = [](Bytes bytes) {
        LayerTape tape = linear_tape();
        tape.blocks[2].bytes = bytes;
        return tape;
    };
    LayerTape tape = with_block(1);
    tape.gathered = {with_block(2)};
    tape.all_gradients = {with_block(3)};
    tape.all_gradients[0].gathered = {with_block(4)};
    profile.layers[0].tape = {tape};
    const LayerTape again = parse_profile(to_json(profile))->layers[0].tape.at(0);
    EXPECT_EQ(again, tape);
    const auto bytes = [&](TapeVariant variant) { return variant_of(again, variant).blocks[2].bytes; };
    EXPECT_EQ(bytes({}), 1);
    EXPECT_EQ(bytes({.gathered = true}), 2);
    EXPECT_EQ(bytes({.all_gradients = true}), 3);
    EXPECT_EQ(bytes({.gathered = true, .all_gradients = true}), 4);

    LayerTape nested = linear_tape();
    nested.all_gradients = {tape};
    EXPECT_THAT(thrown<ProfileError>([&] { check_tape(nested, "tape"); }),
                AllOf(StartsWith("tape.all_gradients"), HasSubstr("one variant")));
}

TEST(LayerTape, FollowsTheSimplerTapeWhereAVariantDoesNotDiffer) {
    LayerTape tape = linear_tape();
    EXPECT_EQ(&variant_of(tape, {.gathered = true, .all_gradients = true}), &tape);
    tape.gathered = {linear_tape()};
    EXPECT_EQ(&variant_of(tape, {.gathered = true, .all_gradients = true}), &tape.gathered[0]);
}

TEST(LayerTape, IsReadFromTheFileWithItsDefaults) {
    const Profile profile = parse_profile(
        R"({"format": "pipescope.profile", "version": 1, "samples": [1, 2], "layers": [{"name": "a",
            "forward_ns": [1, 2], "backward_ns": [1, 2], "output_bytes": [8, 16],
            "tape": [null, {"blocks": [["output", 16], ["own", 32]], "forward": [2, 1], "backward": [-2]}]}]})");
    const LayerTape& tape = profile.layers[0].tape.at(1);
    EXPECT_TRUE(profile.layers[0].tape[0].empty());
    EXPECT_EQ(tape.recompute, tape.forward);
    EXPECT_EQ(tape.checkpointed_forward, (std::vector<std::int32_t>{2, 1, -2}));
    EXPECT_EQ(tape.blocks[1], (TapeBlock{Role::own, 32}));
}
}  // namespace
}  // namespace pipescope
