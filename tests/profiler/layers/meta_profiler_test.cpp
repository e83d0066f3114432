#include "profiler/layers/meta_profiler.h"

#include "base/error.h"
#include "models/cast_model.h"
#include "models/zoo.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/models/small_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <string>
#include <vector>

namespace pipescope {
namespace {
Bytes resident_bytes() {
    std::ifstream file("/proc/self/statm");
    Bytes pages = 0;
    file >> pages >> pages;
    return pages * 4096;
}

class MetaProfilerTest : public testing::Test {
protected:
    static void SetUpTestSuite() { tracking_allocator::install(); }

    static const DeviceType& v100() {
        static const std::vector<DeviceType> catalogue = device_catalogue();
        return find_device(catalogue, "V100");
    }
};

// The meta device must give the byte counts of the CPU without using memory.
TEST_F(MetaProfilerTest, FindsTheBytesThatTheCpuMeasures) {
    for (const std::string& name : kSmallModels) {
        const ModelSpec model = make_model(name);
        ProfileOptions options;
        options.samples = {1, 2};
        options.time_limit_s = 0.1;
        options.co_running_lanes = 1;
        const Profile measured = profile_model(model, options);
        const Profile meta = profile_on_meta(model, {{1, 2}, {}}, v100());
        const Profile estimate = retimed(measured, v100());
        EXPECT_EQ(estimate.loss_ns, meta.loss_ns) << name;
        EXPECT_EQ(estimate.optimizer_ns, meta.optimizer_ns) << name;
        EXPECT_EQ(meta.input_bytes, measured.input_bytes) << name;
        ASSERT_EQ(meta.layers.size(), measured.layers.size()) << name;
        for (std::size_t index = 0; index < meta.layers.size(); ++index) {
            const LayerProfile& found = meta.layers[index];
            const LayerProfile& truth = measured.layers[index];
            SCOPED_TRACE(name + " " + truth.name);
            EXPECT_EQ(found.parameter_bytes, truth.parameter_bytes);
            EXPECT_EQ(found.gradient_bytes, truth.gradient_bytes);
            EXPECT_EQ(found.buffer_bytes, truth.buffer_bytes);
            EXPECT_EQ(found.output_bytes, truth.output_bytes);
            EXPECT_EQ(found.saved_bytes, truth.saved_bytes);
            EXPECT_EQ(found.keeps_input, truth.keeps_input);
            EXPECT_EQ(found.keeps_output, truth.keeps_output);
            EXPECT_EQ(found.aliases_input, truth.aliases_input);
            EXPECT_EQ(found.flops, truth.flops);
            EXPECT_EQ(found.forward_operators, truth.forward_operators);
            EXPECT_EQ(found.backward_operators, truth.backward_operators);
            EXPECT_EQ(found.forward_ns, estimate.layers[index].forward_ns);
            EXPECT_EQ(found.backward_ns, estimate.layers[index].backward_ns);
            EXPECT_EQ(found.stash, truth.stash);
            EXPECT_EQ(found.pop, truth.pop);
        }
    }
}

// A model that creates its own bfloat16 parameters, as a user's library may, and one that is cast.
TEST_F(MetaProfilerTest, TakesTheDtypeOfTheParametersAndTheirBytes) {
    const std::vector<DeviceType> catalogue = device_catalogue();
    const DeviceType& a100 = find_device(catalogue, "A100");
    for (const std::string& name : kSmallModels) {
        SCOPED_TRACE(name);
        const Profile whole = profile_on_meta(make_model(name), {{2}, {}}, a100);
        const ModelSpec model = cast_model(make_model(name), torch::kBFloat16);
        const Profile half = profile_on_meta(model, {{2}, {}}, a100);
        EXPECT_EQ(whole.dtype, "float32");
        EXPECT_EQ(half.dtype, "bfloat16");
        EXPECT_EQ(half.token_input, name.starts_with("transformer"));
        EXPECT_EQ(half.tokens_per_sample,
                  half.token_input ? make_model(name).make_batch(1, 0).input.front().size(1) : 0);
        for (std::size_t l = 0; l < whole.layers.size(); ++l) {
            EXPECT_EQ(2 * half.layers[l].parameter_bytes, whole.layers[l].parameter_bytes) << half.layers[l].name;
            EXPECT_EQ(2 * half.layers[l].gradient_bytes, whole.layers[l].gradient_bytes) << half.layers[l].name;
            EXPECT_EQ(2 * half.layers[l].output_bytes[0], whole.layers[l].output_bytes[0]) << half.layers[l].name;
        }
        EXPECT_THROW(profile_on_meta(model, {{2}, {}}, v100()), UsageError) << "no rate for bfloat16";
    }
}

TEST_F(MetaProfilerTest, EstimatesTimesAndSaysSo) {
    const Profile profile = profile_on_meta(make_model("mlp:layers=3,width=4096"), {{8, 64}, {}}, v100());
    EXPECT_TRUE(profile.estimated);
    EXPECT_EQ(profile.device, "V100");
    EXPECT_GT(profile.loss_ns.at(0), 0);
    EXPECT_GT(profile.optimizer_ns, 0);
    for (const LayerProfile& layer : profile.layers) {
        EXPECT_GT(layer.forward_ns.at(0), 0);
        EXPECT_EQ(layer.recompute_ns, layer.forward_ns);
        EXPECT_GT(layer.backward_ns.at(1), layer.forward_ns.at(1));
    }
    // 64 samples through 4096 x 4096 use each weight 64 times. Reading the 67 MB of weights is the bottleneck, and no
    // time is below that of reading them once.
    EXPECT_GE(profile.layers[0].forward_ns.at(1),
              4096.0 * 4096 * 4 / (v100().memory_bytes_per_second * v100().memory_efficiency) * 1e9);
}

// 15.8 billion parameters: 63 GB, and as much again for their gradients.
TEST_F(MetaProfilerTest, TakesModelsLargerThanTheMachine) {
    const Bytes before = resident_bytes();
    const Profile profile = profile_on_meta(make_model("unet:B=4,C=1536,size=192"), {{32}, {}}, v100());
    Bytes parameters = 0;
    for (const LayerProfile& layer : profile.layers) {
        parameters += layer.parameter_bytes;
    }
    EXPECT_GT(parameters, Bytes{60} << 30);
    EXPECT_LT(resident_bytes() - before, Bytes{100} << 20);
}

TEST_F(MetaProfilerTest, ReportsItsProgressAndLeavesTheThreadAsItWas) {
    std::vector<double> seen;
    profile_on_meta(make_model("mlp:layers=2,width=8"), {{1, 2}, [&](double done) { seen.push_back(done); }}, v100());
    EXPECT_EQ(seen, (std::vector<double>{0.25, 0.5, 0.75, 1}));
    EXPECT_TRUE(torch::empty({1}).is_cpu());
}

TEST_F(MetaProfilerTest, RefusesSizesThatMakeNoSense) {
    EXPECT_THROW(profile_on_meta(make_model("mlp"), {{}, {}}, v100()), UsageError);
    EXPECT_THROW(profile_on_meta(ModelSpec{}, {{1}, {}}, v100()), UsageError);
}
}  // namespace
}  // namespace pipescope
