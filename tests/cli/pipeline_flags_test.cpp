#include "cli/pipeline_flags.h"

#include "schedule/error.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

PipelineFlags valid_flags() {
    PipelineFlags flags;
    flags.balance = "2,3";
    flags.chunks = 8;
    flags.batch = 64;
    return flags;
}

TEST(PipelineFlags, BecomeOptions) {
    PipelineFlags flags = valid_flags();
    flags.checkpoint = "always";
    flags.placement = "0,0";
    flags.devices = "cpu";
    flags.speed = ".5";
    flags.link_bandwidth = "12GB/s";
    flags.link_latency = "10us";
    flags.memory_limit = "1GiB";
    flags.optimizer = "adam";
    const PipelineOptions options = pipeline_options(flags);
    EXPECT_EQ(options.balance, Balance({2, 3}));
    EXPECT_EQ(options.chunks, 8);
    EXPECT_EQ(options.batch, 64);
    EXPECT_EQ(options.checkpoint, Checkpoint::always);
    EXPECT_THAT(options.placement, ElementsAre(LaneId{0}, LaneId{0}));
    EXPECT_THAT(options.devices, ElementsAre("cpu"));
    EXPECT_THAT(options.speeds, ElementsAre(0.5));
    EXPECT_EQ(options.link, (Link{12e9, 1e4}));
    EXPECT_EQ(options.memory_limit, Bytes{1} << 30);
    EXPECT_EQ(options.optimizer, "adam");
}

TEST(PipelineFlags, LeftOutAreTheDocumentedDefaults) {
    const PipelineOptions options = pipeline_options(valid_flags());
    EXPECT_EQ(options.checkpoint, Checkpoint::except_last);
    EXPECT_EQ(options.schedule, "gpipe");
    EXPECT_EQ(options.link, Link{});
    EXPECT_TRUE(options.speeds.empty());
    EXPECT_EQ(options.optimizer, "sgd");
    EXPECT_FALSE(options.memory_limit.has_value());
}

TEST(PipelineFlags, LimitTheMemoryOfAllLanesAlikeOrOfEach) {
    PipelineFlags flags = valid_flags();
    flags.memory_limit = "1GiB,2KiB";
    const PipelineOptions options = pipeline_options(flags);
    EXPECT_FALSE(options.memory_limit.has_value());
    EXPECT_THAT(options.memory_limits, ElementsAre(Bytes{1} << 30, 2048));
    flags.memory_limit = "1GiB,much";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("--memory-limit is 'much'")));
}

TEST(PipelineFlags, RefuseWhatCannotWork) {
    PipelineFlags flags = valid_flags();
    flags.chunks = 0;
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("chunks is 0")));
    flags = valid_flags();
    flags.speed = "1,0";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("above 0")));
    flags = valid_flags();
    flags.placement = "0,-1";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("--placement is '0,-1'")));
    flags = valid_flags();
    flags.placement = "0,4294967296";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("placement[1] is 4294967296")));
    flags = valid_flags();
    flags.devices = "cpu,,cpu";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("item 1 is empty")));
    flags = valid_flags();
    flags.balance = "2;3";
    EXPECT_THROW(pipeline_options(flags), BalanceError);
}
}  // namespace
}  // namespace pipescope
