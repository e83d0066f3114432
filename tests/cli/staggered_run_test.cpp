// Runs whose updates are staggered: equal to synchronous ones, saved, interrupted, refused, and compared.

#include "tests/cli/user.h"
#include "trace/store/trace_reader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;

std::vector<double> losses_in(const CommandResult& run) {
    std::vector<double> losses;
    const auto object = run.json();
    for (const auto& step : object.at("steps")) {
        losses.push_back(step.at("loss").get<double>());
    }
    return losses;
}

TEST(StaggeredRun, EqualsTheSynchronousOneBitForBit) {
    const User user;
    const std::string transformer = "transformer:layers=2,width=32,sequence=16,vocabulary=50 --balance 1,2,1 ";
    const std::string two_a_lane = "mlp:layers=4,width=16 --balance 1,1,1,1 --devices cpu,cpu ";
    const std::string skips = "unet:B=1,C=2,size=64 --balance 25,20,20 ";
    for (const std::string& run : {transformer + "--schedule gpipe --checkpoint except_last --optimizer adam",
                                   transformer + "--schedule zero-bubble-2p --checkpoint never --optimizer adamw",
                                   transformer + "--schedule 1f1b --checkpoint always --optimizer momentum",
                                   skips + "--schedule zero-bubble-h1 --checkpoint except_last --optimizer sgd",
                                   two_a_lane + "--schedule interleaved --checkpoint except_last --optimizer sgd",
                                   two_a_lane + "--schedule zero-bubble-v --checkpoint always --optimizer momentum",
                                   two_a_lane + "--schedule dualpipe-v --checkpoint never --optimizer adam"}) {
        user.types_to_shell("rm -rf s d");
        const std::string line = "run " + run + " -m 4 --batch 8 --steps 4 --seed 5 --json ";
        const CommandResult synchronous = user.succeeds(line + "--save s");
        const CommandResult staggered = user.succeeds(line + "--save d --update staggered");
        EXPECT_EQ(losses_in(staggered), losses_in(synchronous)) << run;
        EXPECT_EQ(staggered.json().at("update"), "staggered");
        for (const char* file : {"model", "optimizer"}) {
            const std::string name = "/step-000004/" + std::string(file) + "-00001-of-00001.safetensors";
            EXPECT_EQ(user.types_to_shell("cmp s" + name + " d" + name).code, 0) << run;
        }
    }
}

TEST(StaggeredRun, DrainsBeforeASave) {
    const User user;
    const std::string line =
        "run mlp:layers=4,width=16 --balance 2,2 -m 4 --batch 8 --schedule 1f1b --optimizer adam --json ";
    const std::vector<double> expected = losses_in(user.succeeds(line + "--steps 7"));
    const CommandResult saved = user.succeeds(line + "--steps 5 --update staggered --save d --save-every 2");
    EXPECT_EQ(saved.json().at("save_ns").size(), 3U) << "after steps 2, 4 and 5";
    const CommandResult resumed = user.succeeds(line + "--steps 7 --update staggered --save d --resume");
    std::vector<double> losses = losses_in(saved);
    const std::vector<double> rest = losses_in(resumed);
    losses.insert(losses.end(), rest.begin(), rest.end());
    EXPECT_EQ(losses, expected);
}

TEST(StaggeredRun, IsComparedWithAStaggeredSimulation) {
    const User user;
    user.succeeds(
        "run mlp:layers=4,width=64 --balance 2,2 -m 4 --batch 16 --schedule 1f1b --steps 6 --update staggered "
        "--trace t.sqlite");
    const CommandResult compared = user.succeeds("compare t.sqlite --json");
    const auto object = compared.json();
    EXPECT_EQ(object.at("tasks_unmatched"), 0) << "updates are tasks of the step";
    double share = 0;
    for (const auto& cause : object.at("bubbles").at("measured").at("causes")) {
        share += cause.at("share").get<double>();
    }
    EXPECT_NEAR(share, object.at("measured_bubble_mean").get<double>(), 1e-9);
    user.succeeds("compare t.sqlite t.sqlite");
    ASSERT_EQ(object.at("steps").size(), 3u) << "two were warm-up, and the last one drains the pipeline";
    EXPECT_EQ(object.at("steps").back(), 4);
}

// The record of a synchronous step ends with its last gradients of weights, here 20 ms after those of inputs.
TEST(SplitBackwards, EndWithinTheRecordOfTheirStep) {
    const User user;
    const std::string layer =
        R"("forward_ns": [5000000], "backward_ns": [40000000], "backward_weight_ns": [20000000],
           "output_bytes": [8], "parameter_bytes": 4096})";
    user.writes("p.json", R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [{"name": "a", )" +
                              layer + R"(, {"name": "b", )" + layer + "]}");
    user.succeeds(
        "run emulated:p.json --balance 1,1 -m 2 --batch 2 --checkpoint never --schedule zero-bubble-h1 --steps 3 "
        "--trace t.sqlite");
    const TraceReader reader(user.folder() / "t.sqlite");
    std::map<std::int32_t, Nanoseconds> last;
    for (const Slice& slice : reader.timeline(Source::measured).slices) {
        if (slice.key.kind == TaskKind::backward_weight) {
            last[slice.key.step] = std::max(last[slice.key.step], slice.end);
        }
    }
    ASSERT_EQ(last.size(), 3u);
    for (const StepRecord& step : reader.steps()) {
        EXPECT_GT(step.end + Nanoseconds{10'000'000}, last[step.step]) << "it is taken just before the range ends";
    }
}

TEST(StaggeredRun, IsRefusedWhereItCannotBe) {
    const User user;
    const std::string line = "run mlp:layers=4,width=16 --balance 2,2 -m 4 --batch 8 --update ";
    EXPECT_THAT(user.types(line + "late").err, HasSubstr("update is 'late'; it must be one of synchronous, "
                                                         "staggered"));
    EXPECT_THAT(user.types(line + "staggered --devices cpu,cuda:0").err,
                HasSubstr("--update is staggered with a lane on cuda:0"));
    EXPECT_THAT(user.types("launch -n 2 -- " + line + "staggered").err,
                HasSubstr("--update is staggered in several processes"));
    EXPECT_THAT(user.types("launch -n 2 -- " + line + "staggered --replicas 2").err,
                HasSubstr("update is staggered with replicas 2"));
}
}  // namespace
}  // namespace pipescope
