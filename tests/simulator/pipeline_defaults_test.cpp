#include "simulator/pipeline_defaults.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace pipescope {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Profile profile_on(const std::string& device, int host_cores) {
    Profile profile;
    profile.device = device;
    profile.host_cores = host_cores;
    return profile;
}

using Assumed = std::map<std::string, std::string>;

Assumed assumed(PipelineOptions& options, const Profile& profile, const GivenOptions& given = {}) {
    Assumed all;
    for (const Assumption& each : assume(options, profile, 2, given)) {
        all[each.option] = each.value;
    }
    return all;
}

TEST(Assume, WhatRunDoesWhereTheProfileWasMeasuredOnTheHost) {
    PipelineOptions options;
    EXPECT_EQ(assumed(options, profile_on("cpu", 4)),
              (Assumed{{"optimizer", "sgd"}, {"devices", "cpu"}, {"cores", "4"}}));
    EXPECT_THAT(options.hardware.devices, ElementsAre("cpu", "cpu"));
    EXPECT_EQ(options.hardware.host_cores, 4);
    // A handwritten profile, one of an accelerator and an estimated one imply nothing about lanes on this host.
    for (const Profile& other : {profile_on("cpu", 0), profile_on("cuda:0", 4)}) {
        options = {};
        EXPECT_EQ(assumed(options, other), (Assumed{{"optimizer", "sgd"}}));
        EXPECT_TRUE(options.hardware.devices.empty());
    }
    Profile estimated = profile_on("cpu", 4);
    estimated.estimated = true;
    options = {};
    EXPECT_EQ(assumed(options, estimated).count("devices"), 0u);
    options = {};
    options.hardware.link.latency_ns = 1;
    EXPECT_EQ(assumed(options, profile_on("cpu", 4)).count("devices"), 0u);
    // Named devices also get the profile's cores, as in run; named cores are kept.
    options = {};
    options.hardware.devices = {"cpu", "cpu"};
    EXPECT_EQ(assumed(options, profile_on("cpu", 4)), (Assumed{{"optimizer", "sgd"}, {"cores", "4"}}));
    options.hardware.host_cores = 1;
    EXPECT_EQ(assumed(options, profile_on("cpu", 4), {.optimizer = true, .cores = true}), Assumed{});
    EXPECT_EQ(options.hardware.host_cores, 1);
}

TEST(Assume, LanesOnTheHostThatAreToShareItsCores) {
    Profile estimated = profile_on("cpu", 0);
    estimated.estimated = true;
    for (const Profile& profile : {profile_on("cpu", 0), estimated}) {
        PipelineOptions options;
        options.hardware.host_cores = 2;
        EXPECT_EQ(assumed(options, profile, {.optimizer = true, .cores = true}), (Assumed{{"devices", "cpu"}}));
        EXPECT_THAT(options.hardware.devices, ElementsAre("cpu", "cpu"));
        EXPECT_EQ(options.hardware.host_cores, 2);
    }
}

TEST(Assume, RefusesCoresThatNoLaneUses) {
    const auto refusal = [](const Profile& profile, PipelineOptions options, bool device_types = false) {
        options.hardware.host_cores = 2;
        try {
            assume(options, profile, 2, {.cores = true, .device_types = device_types});
        } catch (const UsageError& error) {
            return error.message(OptionNames::command_line);
        }
        return std::string();
    };
    const std::string rule = "--cores is 2, and no lane is on cpu; only lanes on cpu share cores; ";
    const std::string remedy = "name cpu in --devices, such as cpu,cpu, or leave out --cores";
    EXPECT_EQ(refusal(profile_on("cuda:0", 4), {}), rule + remedy);
    PipelineOptions linked;
    linked.hardware.link.latency_ns = 1;
    EXPECT_EQ(refusal(profile_on("cpu", 4), linked), rule + remedy) << "a link joins devices";
    PipelineOptions named;
    named.hardware.devices = {"cuda:0", "cuda:1"};
    EXPECT_EQ(refusal(profile_on("cpu", 4), named), rule + remedy);
    named.hardware.devices = {"cpu", "cuda:0"};
    EXPECT_EQ(refusal(profile_on("cpu", 4), named), "");
    EXPECT_EQ(refusal(profile_on("cpu", 4), {}, true), rule + "leave out --device-types, or leave out --cores");
}

TEST(Assume, AdamForALanguageModel) {
    Profile profile = profile_on("A100", 0);
    profile.token_input = true;
    PipelineOptions options;
    const std::vector<Assumption> assumptions = assume(options, profile, 2);
    EXPECT_EQ(options.optimizer, "adam");
    ASSERT_EQ(assumptions.size(), 1u);
    EXPECT_THAT(assumptions.front().because, HasSubstr("as for a language model"));
    options.optimizer = "sgd";
    EXPECT_TRUE(assume(options, profile, 2, {.optimizer = true}).empty());
    EXPECT_EQ(options.optimizer, "sgd");
}
}  // namespace
}  // namespace pipescope
