#include "base/error.h"
#include "hardware/links_file.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

Link measured_link() {
    return {.times = {{1000, 500}, {2000, 700}, {4000, 2700}}};
}

PipelineOptions two_lanes(const Link& link) {
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 1;
    options.checkpoint = Checkpoint::never;
    options.hardware.link = link;
    return options;
}

TEST(Links, TakeMeasuredTimesLinearlyBetweenTheirSizes) {
    const Link link = measured_link();
    EXPECT_DOUBLE_EQ(link.copy_ns(0), 500);
    EXPECT_DOUBLE_EQ(link.copy_ns(1000), 500);
    EXPECT_DOUBLE_EQ(link.copy_ns(1500), 600);
    EXPECT_DOUBLE_EQ(link.copy_ns(2000), 700);
    EXPECT_DOUBLE_EQ(link.copy_ns(3000), 1700);
    EXPECT_DOUBLE_EQ(link.copy_ns(6000), 4700) << "beyond the last size as before it: 1 ns a byte";
    EXPECT_FALSE(link.is_free());
}

TEST(Links, OfTimesOnALineEqualABandwidthAndALatency) {
    // 100 ns and 2 ns a byte, from the first size on.
    const CheckedProfile profile = profile_of({layer_of(1000, 2000, 3000), layer_of(1000, 2000, 1)});
    const Link line{.times = {{100, 300}, {1000, 2100}}};
    EXPECT_EQ(simulate(profile, two_lanes(line)).step_time, simulate(profile, two_lanes({5e8, 100})).step_time);
}

TEST(Links, GiveTheStepItsCopies) {
    // Forwards 1000, backwards 2000, and 4000 bytes each way.
    const CheckedProfile profile = profile_of({layer_of(1000, 2000, 4000), layer_of(1000, 2000, 1)});
    EXPECT_EQ(simulate(profile, two_lanes(measured_link())).step_time.count(), 6000 + 2 * 2700);
}

TEST(Links, GiveTheAllReduceItsRing) {
    // Four replicas: 6 messages of a quarter of the 8000 bytes, one after the other.
    Profile profile = uniform_profile(1);
    profile.layers[0].gradient_bytes = 8000;
    PipelineOptions options = two_lanes(measured_link());
    options.balance = Balance({1});
    options.batch = options.replicas = 4;
    const std::int64_t step = simulate(CheckedProfile(profile), options).step_time.count();
    options.hardware.link = {};
    EXPECT_EQ(step - simulate(CheckedProfile(profile), options).step_time.count(), 6 * 700);
}

TEST(Links, GiveTheAllReduceMessagesThatCross) {
    Profile profile = uniform_profile(1);
    profile.layers[0].gradient_bytes = 4000;
    PipelineOptions options = two_lanes({.times = {{1000, 500, 600}, {2000, 700, 900}}});
    options.balance = Balance({1});
    options.batch = options.replicas = 2;
    const std::int64_t step = simulate(CheckedProfile(profile), options).step_time.count();
    options.hardware.link = {};
    EXPECT_EQ(step - simulate(CheckedProfile(profile), options).step_time.count(), 2 * 900);
    EXPECT_DOUBLE_EQ(measured_link().exchange_ns(2000), 700) << "as long as one alone";
}

TEST(Links, ShareAPortBeyondTheTimeOfTheirSmallestMessage) {
    // Lane 0 sends its output and the skip at once, lane 2 both gradients: each pair takes 500 of its own and twice the
    // 2200 of 4000 bytes.
    Profile profile = profile_of({layer_of(1000, 2000, 4000), layer_of(1000, 2000, 4000), layer_of(1000, 2000)});
    profile.layers[0].stash["far"] = {4000};
    profile.layers[2].pop = {"far"};
    PipelineOptions options = two_lanes(measured_link());
    options.balance = Balance({1, 1, 1});
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 9000 + 4 * 2700);
    options.hardware.link.sharing = LinkSharing::sender;
    EXPECT_EQ(simulate(CheckedProfile(profile), options).step_time.count(), 9000 + 4 * 2700 + 2 * 2200);
}

TEST(Links, AddARoundTripToEachCopyUnderRendezvous) {
    const CheckedProfile profile = profile_of({layer_of(1000, 2000, 4000), layer_of(1000, 2000, 1)});
    Link link = measured_link();
    link.protocol = LinkProtocol::rendezvous;
    EXPECT_EQ(simulate(profile, two_lanes(link)).step_time.count(), 6000 + 2 * (2700 + 2 * 500));
    const Link numbers{.bytes_per_second = 1e9, .latency_ns = 100, .protocol = LinkProtocol::rendezvous};
    EXPECT_EQ(simulate(profile, two_lanes(numbers)).step_time.count(), 6000 + 2 * (4000 + 3 * 100));
}

TEST(Links, NeverShareTheRoundTripOfARendezvous) {
    PipelineOptions options = two_lanes({.latency_ns = 100, .protocol = LinkProtocol::rendezvous});
    options.chunks = options.batch = 4;
    const std::int64_t apart = simulate(uniform_profile(2), options).step_time.count();
    options.hardware.link.sharing = LinkSharing::all;
    EXPECT_EQ(simulate(uniform_profile(2), options).step_time.count(), apart);
}

TEST(Links, StartLateIfReceivesBlock) {
    PipelineOptions options = two_lanes({.latency_ns = 100});
    options.chunks = options.batch = 4;
    const CheckedProfile profile = uniform_profile(2);
    const std::int64_t ahead = simulate(profile, options).step_time.count();
    options.hardware.link.protocol = LinkProtocol::blocking;
    // The lane that receives is busy while all but the first forward's outputs, and the first backward's, are there.
    EXPECT_EQ(simulate(profile, options).step_time.count(), ahead + 6 * 100);
    options.hardware.devices = {"cpu", "cpu"};
    const std::int64_t together = simulate(profile, options).step_time.count();
    options.hardware.link.protocol = LinkProtocol::eager;
    EXPECT_EQ(simulate(profile, options).step_time.count(), together) << "nothing is received";
    options.hardware.link.protocol = LinkProtocol::blocking;
    options.schedule = Schedule::one_f_one_b;
    options.most_in_flight = 2;
    EXPECT_THAT(thrown<Error>([&] { simulate(profile, options); }), HasSubstr("link protocol blocking"));
}

// Forwards 1000, backwards 2000, copies 500; times at which lane 0's last backward ends.
TEST(Links, MayKeepLanesWaiting) {
    const CheckedProfile profile = uniform_profile(2);
    const auto step = [&](Sends sends) {
        PipelineOptions options = two_lanes({.latency_ns = 500, .sends = sends});
        options.schedule = Schedule::one_f_one_b;
        options.chunks = options.batch = 2;
        const Simulation simulation = simulate(profile, options);
        EXPECT_EQ(simulation.lanes[0].busy.count(), 6000);
        EXPECT_EQ(simulation.lanes[1].busy.count(), 6000);
        return simulation.step_time.count();
    };
    // Lane 1: forward 1500-2500, backward -4500, forward -5500, backward -7500; lane 0 has its gradient at 8000.
    EXPECT_EQ(step(Sends::overlapped), 10000);
    // Lane 1 sends the first gradient from 4500 to 5000, so its second backward ends 500 later.
    EXPECT_EQ(step(Sends::blocking), 10500);
    // It also takes 500 for each input, as lane 0 does for each gradient.
    EXPECT_EQ(step(Sends::serial), 12000);
}

TEST(Links, OfNearLanesReplaceTheOthers) {
    PipelineOptions options = two_lanes({.latency_ns = 1000});
    options.balance = Balance({1, 1, 1, 1});
    options.hardware.nearer = {{2, {.latency_ns = 10}}};
    // Copies 0-1 and 2-3 are near; each goes both ways.
    EXPECT_EQ(simulate(uniform_profile(4), options).step_time.count(), 4 * 3000 + 2 * (10 + 1000 + 10));
    options.hardware.nearer.push_back({2, {}});
    EXPECT_THAT(thrown<UsageError>([&] { simulate(uniform_profile(4), options); }), HasSubstr("sort them"));
}

TEST(Links, ComeFromAFile) {
    const std::vector<LinkTime> times = parse_links(
        R"({"format": "pipescope.links", "version": 1, "times": [{"bytes": 1024, "ns": 5e3}, {"bytes": 4096, "ns": 6e3, "exchange_ns": 7e3}]})");
    EXPECT_EQ(times, (std::vector<LinkTime>{{1024, 5000}, {4096, 6000, 7000}}));
    EXPECT_EQ(parse_links(links_json(times)), times);
}

TEST(Links, HaveNoOtherKeys) {
    EXPECT_THAT(thrown<ProfileError>(
                    [] { parse_links(R"({"format": "pipescope.links", "version": 1, "tims": [], "times": []})"); }),
                testing::HasSubstr("times"));
}

TEST(Links, TakeMinusZeroForZero) {
    const std::vector<LinkTime> times = parse_links(
        R"({"format": "pipescope.links", "version": 1, "times": [{"bytes": 0, "ns": -0.0}, {"bytes": 8, "ns": 1}]})");
    EXPECT_FALSE(std::signbit(times.at(0).ns));
}

TEST(Links, RefuseWhatNoLinkCanHave) {
    const auto refuses = [](const std::string& times, const std::string& says) {
        const std::string text = R"({"format": "pipescope.links", "version": 1, "times": )" + times + "}";
        EXPECT_THAT(thrown<Error>([&] { parse_links(text); }), HasSubstr(says)) << times;
    };
    refuses("[]", "times is empty");
    refuses("7", "times is 7");
    refuses(R"([{"bytes": 1, "ns": 1}])", "at least two");
    refuses(R"([{"bytes": 1, "ns": 1}, 7])", "times[1] is 7");
    refuses(R"([{"bytes": 1, "ns": 1}, {"bytes": 2}])", "times[1].ns is");
    refuses(R"([{"bytes": 1.5, "ns": 1}, {"bytes": 2, "ns": 1}])", "times[0].bytes is 1.5");
    refuses(R"([{"bytes": 2, "ns": 1}, {"bytes": 2, "ns": 1}])", "sort the sizes");
    refuses(R"([{"bytes": 1, "ns": 2}, {"bytes": 2, "ns": 1}])", "times[1].ns is 1");
    refuses(R"([{"bytes": 1, "ns": -2}, {"bytes": 2, "ns": 1}])", "times[0].ns is -2");
    refuses(R"([{"bytes": 1, "ns": 2, "exchange_ns": 4}, {"bytes": 2, "ns": 3}])", "times[1].exchange_ns is 0");
    refuses(R"([{"bytes": 1, "ns": 2}, {"bytes": 2, "ns": 3, "exchange_ns": 2}])",
            "times[1].exchange_ns is 2; it must be at least ns");
    EXPECT_THAT(thrown<Error>([] { parse_links("{}"); }), HasSubstr("format is not pipescope.links"));
    Link both = measured_link();
    both.latency_ns = 1;
    EXPECT_THAT(thrown<UsageError>([&] { check_link(both); }), AllOf(HasSubstr("links"), HasSubstr("leave out one")));
}
}  // namespace
}  // namespace pipescope
