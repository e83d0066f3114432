#include "balance/automatic_balance.h"
#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

Profile profile_of_times(const std::vector<double>& forward) {
    Profile profile;
    profile.samples = {1};
    for (const double time : forward) {
        LayerProfile layer;
        layer.name = "layer";
        layer.forward_ns = {time};
        layer.backward_ns = {2 * time};
        layer.output_bytes = {0};
        profile.layers.push_back(layer);
    }
    return profile;
}

TEST(BalanceByTime, AnswersAsTorchgpipesBlocks) {
    EXPECT_EQ(to_string(balance_by_time(2, profile_of_times({1, 2, 3, 4, 5, 6}), 1)), "4,2");
    EXPECT_EQ(to_string(balance_by_time(3, profile_of_times({1, 2, 3, 4, 5, 6}), 1)), "3,2,1");
    EXPECT_EQ(to_string(balance_by_time(2, profile_of_times({6, 5, 4, 3, 2, 1}), 8)), "2,4");
}

TEST(BalanceBySize, CountsWhatOneMicroBatchLeavesAndTheCopiesOfTheParameters) {
    Profile profile = profile_of_times({1, 1, 1, 1});
    const std::vector<double> latent{100, 200, 300, 400};
    const std::vector<Bytes> parameters{400, 300, 200, 100};
    for (std::size_t l = 0; l < 4; ++l) {
        profile.layers[l].output_bytes = {latent[l] / 2};
        profile.layers[l].saved_bytes = {latent[l] / 2};
        profile.layers[l].parameter_bytes = parameters[l];
    }
    // 8 samples in 2 micro-batches, 2 copies: 1200, 1400, 1600, 1800 of latents and 800, 600, 400, 200 of parameters.
    EXPECT_EQ(to_string(balance_by_size(2, CheckedProfile(profile), 8, 2, 0)), "3,1");
    EXPECT_EQ(to_string(balance_by_size(2, CheckedProfile(profile), 8, 8, 1000)), "1,3");
}

TEST(BalanceBySize, RefusesWhatIsNoCount) {
    const Profile profile = profile_of_times({1, 1});
    EXPECT_THAT(thrown<UsageError>([&] { balance_by_size(2, CheckedProfile(profile), 8, 0); }),
                HasSubstr("chunks is 0"));
    EXPECT_THAT(thrown<UsageError>([&] { balance_by_size(2, CheckedProfile(profile), 8, 1, -1); }),
                HasSubstr("param_scale"));
    EXPECT_THAT(thrown<UsageError>([&] { balance_by_time(2, CheckedProfile(profile), 0); }), HasSubstr("samples is 0"));
    EXPECT_THROW(balance_by_time(3, CheckedProfile(profile), 1), BalanceError);
}
}  // namespace
}  // namespace pipescope
