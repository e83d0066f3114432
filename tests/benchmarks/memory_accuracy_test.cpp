// The memory model and the tracking allocator at measured instants, for some of the random models of
// benchmarks/memory_accuracy (the table in docs/evidence/accuracy.md), and for cases that were once wrong. The tracking
// allocator replaces torch's for the whole process.

#include "benchmarks/memory_accuracy/measured_peaks.h"
#include "benchmarks/memory_accuracy/random_models.h"
#include "models/zoo.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/memory/tracking_allocator.h"
#include "schedule/micro_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr Bytes kValueOfLoss = 4;  // the model leaves it out; a lane may hold less than a hundred bytes besides

Profile quick_profile(const ModelSpec& model, const std::vector<PipelineOptions>& pipelines) {
    ProfileOptions options;
    options.samples = micro_batches_of(pipelines);
    options.co_running_lanes = 1;
    options.time_limit_s = 1e-3;
    return profile_model(model, options);
}

PipelineOptions two_lanes(const std::string& schedule, Checkpoint checkpoint, const std::vector<std::int64_t>& layers,
                          std::int64_t m, std::int64_t batch) {
    PipelineOptions options;
    options.schedule = parse_schedule(schedule);
    options.checkpoint = checkpoint;
    options.balance = Balance(layers);
    options.hardware.devices = {"cpu", "cpu"};
    options.chunks = m;
    options.batch = batch;
    return options;
}

void expect_within_a_percent(const ModelSpec& model, const PipelineOptions& pipeline) {
    tracking_allocator::install();
    const auto peaks = lane_peaks(model, quick_profile(model, {pipeline}), pipeline);
    ASSERT_TRUE(peaks);
    for (std::size_t lane = 0; lane < peaks->size(); ++lane) {
        EXPECT_LT(std::abs((*peaks)[lane].error()), 0.01)
            << model.name << " " << describe(pipeline) << " lane " << lane << ": counted " << (*peaks)[lane].counted
            << ", modelled " << (*peaks)[lane].modelled;
    }
}

TEST(MemoryAccuracy, HoldsForAMeanSquareOfTheGatheredOutput) {
    expect_within_a_percent(make_model("mlp:layers=6,width=256"),
                            two_lanes("gpipe", Checkpoint::except_last, {3, 3}, 4, 128));
}

TEST(MemoryAccuracy, HoldsForALossPerMicroBatchOfWhatIsRecomputed) {
    const ModelSpec model = make_model("transformer:layers=3,width=64,sequence=32");
    const auto layers = static_cast<std::int64_t>(model.layers.size());
    expect_within_a_percent(model, two_lanes("1f1b", Checkpoint::always, {layers - 2, 2}, 6, 12));
}

TEST(MemoryAccuracy, HoldsForASmallConvolutionalNetThatIsRecomputed) {
    const RandomModel model = random_model("image", 3);
    const auto layers = static_cast<std::int64_t>(model.spec.layers.size());
    expect_within_a_percent(model.spec,
                            two_lanes("gpipe", Checkpoint::always, {layers / 2, layers - layers / 2}, 4, 8));
}

/// All first halves before all second ones, on two lanes.
constexpr const char* kLateWeights =
    "0F0,0F1,0F2,0F3,0I0,0I1,0I2,0I3,0W0,0W1,0W2,0W3\n"
    "1F0,1F1,1F2,1F3,1I0,1I1,1I2,1I3,1W0,1W1,1W2,1W3\n";

/// With a split backward, in both ways to keep a graph. `micro_batch`: samples.
void expect_halves_within_a_percent(const std::string& name, std::int64_t micro_batch) {
    const ModelSpec model = make_model(name);
    const auto layers = static_cast<std::int64_t>(model.layers.size());
    for (const Checkpoint mode : {Checkpoint::never, Checkpoint::always}) {
        PipelineOptions pipeline =
            two_lanes("zero-bubble-h1", mode, {layers / 2, layers - layers / 2}, 4, 4 * micro_batch);
        expect_within_a_percent(model, pipeline);
        pipeline.schedule = Schedule::from_csv("late", kLateWeights);
        expect_within_a_percent(model, pipeline);
        pipeline.schedule = Schedule::zero_bubble_v;
        pipeline.balance = Balance({1, layers / 2, 1, layers - layers / 2 - 2});
        pipeline.placement = {LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}};
        expect_within_a_percent(model, pipeline);
    }
}

TEST(MemoryAccuracy, HoldsForSplitBackwards) {
    expect_halves_within_a_percent("mlp:layers=6,width=64", 8);
    expect_halves_within_a_percent("transformer:layers=3,width=32,sequence=16,vocabulary=50", 2);
    expect_halves_within_a_percent("unet:B=1,C=4,size=64", 1);
}

// What is estimated without tapes is what emulated layers hold.
TEST(MemoryAccuracy, HoldsForSplitBackwardsOfEmulatedLayers) {
    tracking_allocator::install();
    for (const char* const name :
         {"mlp:layers=6,width=64", "transformer:layers=4,width=32,sequence=16,vocabulary=50"}) {
        PipelineOptions pipeline = two_lanes("zero-bubble-h1", Checkpoint::never, {3, 3}, 4, 32);
        Profile profile = quick_profile(make_model(name), {pipeline});
        for (LayerProfile& layer : profile.layers) {
            layer.tape.clear();
        }
        for (const char* const table : {"", kLateWeights}) {
            pipeline.schedule = *table == '\0' ? pipeline.schedule : Schedule::from_csv("late", table);
            const auto peaks = lane_peaks(emulated_model(profile), profile, pipeline);
            for (const LanePeak& peak : peaks.value_or(std::vector<LanePeak>{})) {
                EXPECT_LT(std::abs(peak.error()), 0.01) << name << " " << describe(pipeline) << ": counted "
                                                        << peak.counted << ", modelled " << peak.modelled;
            }
        }
    }
}

// An emulated U-Net once measured 10 % more than predicted: each half of its backwards held what the whole one holds.
TEST(MemoryAccuracy, HoldsForEmulatedLayersWithTapes) {
    for (const char* const name : {"mlp:layers=6,width=64", "transformer:layers=4,width=32,sequence=16,vocabulary=50",
                                   "unet:B=1,C=4,size=64", "amoebanetd:L=3,D=16,size=64,classes=10"}) {
        const ModelSpec model = make_model(name);
        const auto layers = static_cast<std::int64_t>(model.layers.size());
        std::vector<PipelineOptions> pipelines;
        for (const auto& [schedule, checkpoint] : {std::pair{"gpipe", Checkpoint::never},
                                                   {"1f1b", Checkpoint::never},
                                                   {"zero-bubble-h1", Checkpoint::never}}) {
            pipelines.push_back(two_lanes(schedule, checkpoint, {layers / 2, layers - layers / 2}, 4, 8));
        }
        pipelines.push_back(pipelines.back());
        pipelines.back().schedule = Schedule::from_csv("late", kLateWeights);
        tracking_allocator::install();
        const Profile profile = quick_profile(model, pipelines);
        for (const PipelineOptions& pipeline : pipelines) {
            const auto peaks = lane_peaks(emulated_model(profile), profile, pipeline);
            ASSERT_TRUE(peaks);
            for (const LanePeak& peak : *peaks) {
                EXPECT_LT(std::abs(peak.error()), 0.01) << name << " " << describe(pipeline) << ": counted "
                                                        << peak.counted << ", modelled " << peak.modelled;
            }
        }
    }
}

/// All pipelines of a random model whose lanes were once further off.
void expect_within_a_percent(const std::string& kind, std::uint64_t seed) {
    tracking_allocator::install();
    const RandomModel model = random_model(kind, seed);
    const std::vector<PipelineOptions> pipelines = random_pipelines(model, seed);
    const Profile profile = quick_profile(model.spec, pipelines);
    for (const PipelineOptions& pipeline : pipelines) {
        const auto peaks = lane_peaks(model.spec, profile, pipeline);
        for (const LanePeak& peak : peaks.value_or(std::vector<LanePeak>{})) {
            EXPECT_TRUE(std::abs(peak.error()) < 0.01 || peak.counted - peak.modelled == kValueOfLoss)
                << kind << " " << seed << " " << describe(pipeline) << ": counted " << peak.counted << ", modelled "
                << peak.modelled;
        }
    }
}

// Partitions above a checkpointed one compute gradients of data: it cannot tell which outputs need one.
TEST(MemoryAccuracy, HoldsForDataThatPassesCheckpointedPartitions) {
    expect_within_a_percent("tuple", 0);
    expect_within_a_percent("skip", 103);
}

// The frozen partition that stashes the data asks for no gradient of it.
TEST(MemoryAccuracy, HoldsForDataThatSkipsCheckpointedPartitions) {
    expect_within_a_percent("skip", 104);
}

// The skip's gradient is a part of a larger one, and comes first, so autograd adds nothing in place.
TEST(MemoryAccuracy, HoldsForASkipThatIsTheOutputToo) {
    expect_within_a_percent("skip", 7);
}

// The last micro-batch lets go of the whole gradient of the gathered output.
TEST(MemoryAccuracy, HoldsForTheLastPartOfAGatheredGradient) {
    expect_within_a_percent("skip", 5005);
    expect_within_a_percent("tuple", 5001);
}

// The last layer's output is transposed, but the gradient that the loss leaves is not.
TEST(MemoryAccuracy, HoldsForALossWhoseGradientHasAnotherLayout) {
    expect_within_a_percent("recurrent", 46);
}

TEST(MemoryAccuracy, HoldsForRandomModelsOfEveryKind) {
    tracking_allocator::install();
    const auto is_close = [](const LanePeak& peak) {
        return std::abs(peak.error()) < 0.03 || peak.counted - peak.modelled == kValueOfLoss;
    };
    std::vector<double> errors;
    for (const std::string& kind : random_model_kinds()) {
        for (const std::uint64_t seed : {100, 101}) {
            const RandomModel model = random_model(kind, seed);
            const std::vector<PipelineOptions> pipelines = random_pipelines(model, seed);
            const Profile profile = quick_profile(model.spec, pipelines);
            for (const PipelineOptions& pipeline : pipelines) {
                auto peaks = lane_peaks(model.spec, profile, pipeline);
                if (!std::ranges::all_of(peaks.value_or(std::vector<LanePeak>{}), is_close)) {
                    // On a busy machine a task's instant and its allocations can part. A fault of the model comes
                    // again.
                    peaks = lane_peaks(model.spec, profile, pipeline);
                }
                for (const LanePeak& peak : peaks.value_or(std::vector<LanePeak>{})) {
                    errors.push_back(std::abs(peak.error()));
                    // Lanes on one device share a skip that several of them pop; the model counts all of it on the
                    // last.
                    EXPECT_TRUE(is_close(peak) || (kind == "readers" && peak.error() > 0))
                        << errors.back() << ", " << kind << " " << seed << " " << describe(pipeline) << ": counted "
                        << peak.counted << ", modelled " << peak.modelled;
                }
            }
        }
    }
    std::sort(errors.begin(), errors.end());
    ASSERT_GT(errors.size(), 160u);
    EXPECT_LT(errors[errors.size() * 95 / 100], 0.01);
}
}  // namespace
}  // namespace pipescope
