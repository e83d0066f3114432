#include "profiler/profile/profile.h"

#include "profiler/profile/profile_file.h"
#include "profiler/profile/shared_parameter.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Interpolate, GivesMeasuredSizesAsTheyWere) {
    for (const std::int64_t at : {1, 2, 4}) {
        const Interpolated result = interpolate({1, 2, 4}, {10, 30, 31}, static_cast<double>(at));
        EXPECT_EQ(result.value, at == 1 ? 10 : at == 2 ? 30 : 31);
        EXPECT_FALSE(result.extrapolated);
    }
}

TEST(Interpolate, IsLinearBetweenTwoSizes) {
    const Interpolated result = interpolate({1, 2, 4}, {10, 20, 50}, 3);
    EXPECT_DOUBLE_EQ(result.value, 35);
    EXPECT_FALSE(result.extrapolated);
}

TEST(Interpolate, FollowsTheTwoNearestOutsideAndSaysSo) {
    const Interpolated above = interpolate({1, 2, 4}, {10, 20, 50}, 6);
    EXPECT_DOUBLE_EQ(above.value, 80);  // 15 a sample from 4 on
    EXPECT_TRUE(above.extrapolated);
    const Interpolated below = interpolate({2, 4, 8}, {20, 50, 60}, 1);
    EXPECT_DOUBLE_EQ(below.value, 5);  // 15 a sample from 2 down
    EXPECT_TRUE(below.extrapolated);
}

TEST(Interpolate, NeverFallsBelowZero) {
    EXPECT_EQ(interpolate({4, 8}, {10, 50}, 1).value, 0);  // the line gives -20
    EXPECT_EQ(interpolate({1, 2}, {10, 5}, 9).value, 0);
}

TEST(Interpolate, IsProportionalWithOneSize) {
    EXPECT_DOUBLE_EQ(interpolate({4}, {100}, 6).value, 150);
    EXPECT_TRUE(interpolate({4}, {100}, 6).extrapolated);
    EXPECT_FALSE(interpolate({4}, {100}, 4).extrapolated);
}

TEST(Interpolate, TakesAnAbsentArrayAsZero) {
    EXPECT_EQ(interpolate({1, 2}, {}, 7).value, 0);
    EXPECT_FALSE(interpolate({1, 2}, {}, 7).extrapolated);
}

TEST(LossTime, IsReadOffAtTheMiniBatchWhereItWasMeasuredThere) {
    Profile profile;
    profile.samples = {1, 4};
    profile.loss_ns = {10, 40};
    EXPECT_DOUBLE_EQ(loss_time(profile, 64).value, 640);
    EXPECT_TRUE(loss_time(profile, 64).extrapolated);
    profile.loss_batch = {{4, 64}, {50, 1250}, {}};  // caches end somewhere in between
    EXPECT_DOUBLE_EQ(loss_time(profile, 64).value, 1250);
    EXPECT_FALSE(loss_time(profile, 64).extrapolated);
    EXPECT_DOUBLE_EQ(loss_time(profile, 34).value, 650);
    EXPECT_DOUBLE_EQ(loss_time(profile, 4).value, 50);
    EXPECT_DOUBLE_EQ(loss_time(profile, 1).value, 10);
    profile.loss_ns.clear();
    EXPECT_DOUBLE_EQ(loss_time(profile, 34).value, 650);
}

TEST(LossTransient, IsThatOfAGatheredOutputWhereItWasMeasured) {
    Profile profile;
    profile.samples = {1, 2};
    profile.loss_transient_bytes = {100, 200};
    EXPECT_EQ(loss_transient(profile, 8, true), 800);
    profile.loss_batch = {{8, 32}, {1, 2}, {320, 1280}};  // no copy of an output that lies in one piece
    EXPECT_EQ(loss_transient(profile, 16, true), 640);
    EXPECT_EQ(loss_transient(profile, 2, false), 200);
}

Profile small() {
    Profile profile;
    profile.samples = {1, 2};
    LayerProfile layer;
    layer.name = "a";
    layer.forward_ns = {1, 2};
    layer.backward_ns = {2, 4};
    layer.output_bytes = {8, 16};
    profile.layers = {layer, layer, layer};
    return profile;
}

TEST(CheckProfile, AcceptsWhatHasTheRequiredArrays) {
    EXPECT_NO_THROW(check_profile(small()));
}

TEST(CheckProfile, RefusesNumbersThatAreNone) {
    Profile profile = small();
    profile.layers[2].backward_ns[1] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(profile); }),
                AllOf(StartsWith("layers[2].backward_ns[1] is nan"), HasSubstr("finite")));
    profile.layers[2].backward_ns[1] = std::numeric_limits<double>::infinity();
    EXPECT_THROW(check_profile(profile), ProfileError);
}

TEST(CheckProfile, CountsKernelsInWholeNumbers) {
    Profile profile = small();
    profile.layers[1].forward_operators.assign(2, {{2, 100, 100}});
    EXPECT_NO_THROW(check_profile(profile));
    profile.layers[1].forward_operators[1][0].kernels = 1.5;
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(profile); }),
                AllOf(StartsWith("layers[1].forward_operators[1][0][0] is 1.5"), HasSubstr("whole number")));
}

TEST(CheckProfile, WantsEverySkipStashedOnceAndPoppedLater) {
    Profile profile = small();
    profile.layers[0].stash["s"] = {4, 8};
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(profile); }),
                AllOf(StartsWith("layers[0].stash.s is never popped"), HasSubstr("add it")));
    profile.layers[2].pop = {"s"};
    EXPECT_NO_THROW(check_profile(profile));
    profile.layers[1].stash["s"] = {4, 8};
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(profile); }),
                StartsWith("layers[1].stash.s is stashed by layers[0].stash.s already"));
    profile.layers[1].stash.clear();
    profile.layers[1].pop = {"s"};  // by two layers
    EXPECT_NO_THROW(check_profile(profile));
    profile.layers[1].pop = {"s", "s"};
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(profile); }), StartsWith("layers[1].pop[1] is 's'"));
}

TEST(CheckProfile, WantsLayersToAgreeOnWhatTheyShare) {
    Profile profile = small();
    const Bytes own = profile.layers[0].parameter_bytes;
    profile.layers[0].parameter_bytes = profile.layers[0].gradient_bytes = own + 100;
    profile.layers[0].shared["w"] = {100, 100};
    const auto message = [&] { return thrown<ProfileError>([&] { check_profile(profile); }); };
    EXPECT_THAT(message(), StartsWith("layers[0].shared['w'] is of no other layer"));
    profile.layers[2].shared["w"] = {100, 0};
    EXPECT_THAT(message(), StartsWith("layers[2].shared['w'] has other bytes than layers[0].shared['w']"));
    profile.layers[2].shared["w"] = {100, 100};
    EXPECT_NO_THROW(check_profile(profile));
    profile.layers[0].parameter_bytes = 99;
    EXPECT_THAT(message(), StartsWith("layers[0].shared holds more bytes than its parameter_bytes"));
    profile.layers[0].parameter_bytes = 100;
    const Profile read = parse_profile(to_json(profile));
    EXPECT_EQ(read.layers[2].shared, profile.layers[2].shared);
}

TEST(Profile, NamesADtypeThatIsKnown) {
    EXPECT_EQ(dtype_bytes("float64"), 8);
    EXPECT_EQ(dtype_bytes("tf32"), 4);
    EXPECT_EQ(dtype_bytes("bfloat16"), 2);
    for (const std::string& name : dtypes()) {
        EXPECT_GE(dtype_bytes(name), 2) << name;
    }
    Profile profile;
    profile.samples = {1};
    profile.layers.resize(1);
    profile.layers[0].forward_ns = profile.layers[0].backward_ns = profile.layers[0].output_bytes = {1};
    check_profile(profile);
    profile.dtype = "nonsense";
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(profile); }),
                testing::HasSubstr(
                    "dtype is 'nonsense'; it must be one of float64, float32, tf32, float16, bfloat16; correct it"));
}

TEST(SharedParameter, IsCountedInItsFirstLayerAndNamedInAll) {
    Profile profile;
    profile.samples = {1};
    profile.layers.resize(3);
    for (LayerProfile& each : profile.layers) {
        each.parameter_bytes = each.gradient_bytes = 100;
        each.backward_ns = {10};
    }
    profile.layers[2].parameter_bytes = profile.layers[2].gradient_bytes = 80;  // nothing of its own
    count_once(profile, {{.keys = {"0.weight", "2.weight"}, .elements = 20, .bytes = 80, .trains = true}});
    EXPECT_EQ(profile.layers[0].parameter_bytes, 100);
    EXPECT_EQ(profile.layers[2].parameter_bytes, 0);
    EXPECT_EQ(profile.layers[2].gradient_bytes, 0);
    EXPECT_EQ(profile.layers[0].shared, profile.layers[2].shared);
    EXPECT_TRUE(profile.layers[1].shared.empty());
    EXPECT_EQ(profile.layers[2].shared.at("weight").gradient_bytes, 80);
    EXPECT_TRUE(has_weight_half(profile.layers[2])) << "it computes gradients of what it shares";
    EXPECT_EQ(backward_weight_time(profile, profile.layers[2], 1).value, 5);
    profile.layers[2].shared.at("weight").gradient_bytes = 0;
    EXPECT_FALSE(has_weight_half(profile.layers[2])) << "frozen";
}
}  // namespace
}  // namespace pipescope
