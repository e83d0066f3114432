#include "engine/gpipe.h"
#include "models/model_files.h"
#include "models/user_model.h"
#include "models/zoo.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

const std::string kExample = PIPESCOPE_EXAMPLE_LIBRARY;

std::string plugin(const std::string& name) {
    return PIPESCOPE_PLUGIN_FOLDER "/lib" + name + "_plugin.so";
}

TEST(PluginModel, TrainsThroughThePipelineLikeAModelOfTheZoo) {
    at::set_num_threads(1);
    torch::manual_seed(0);
    const ModelSpec model = make_model(kExample + ":width=8,blocks=2");
    EXPECT_EQ(model.name, kExample + ":width=8,blocks=2");
    ASSERT_EQ(model.layers.size(), 4U);
    EXPECT_EQ(model.layers[1].name, "block.0");
    GPipe pipeline(model, {.balance = {2, 2}, .devices = {"cpu", "cpu"}, .chunks = 2});
    const Batch batch = model.make_batch(8, 1);
    const at::Tensor loss = pipeline.step(batch.input, batch.target, model.loss);
    EXPECT_TRUE(std::isfinite(loss.item<double>()));
    for (const at::Tensor& parameter : pipeline.parameters()) {
        EXPECT_TRUE(parameter.grad().defined());
    }
}

TEST(PluginModel, HasDefaultsForItsOptions) {
    EXPECT_EQ(make_model(kExample).layers.size(), 8U);
}

TEST(PluginModel, IsCountedOnTheMetaDevice) {
    const ModelSize size = model_size(make_model(kExample + ":width=100000,blocks=3"));
    EXPECT_EQ(size.layers, 5U);
    const std::int64_t width = 100'000;
    EXPECT_EQ(size.parameters, 2 * width + width + 3 * (width * width + 3 * width) + 2 * width + 2);
}

TEST(PluginModel, PassesOnWhatTheLibrarySaysAboutItsOptions) {
    EXPECT_THAT(thrown<UsageError>([] { make_model(kExample + ":depth=3"); }),
                AllOf(HasSubstr(kExample), HasSubstr("'depth=3' is no option")));
    EXPECT_THAT(thrown<UsageError>([] { make_model(plugin("faulty") + ":usage"); }),
                AllOf(HasSubstr("libfaulty"), HasSubstr("depth is 0")));
}

void expect_refused(const std::string& model, const std::string& first, const std::string& second) {
    EXPECT_THAT(thrown<UserModelError>([&] { make_model(model); }), AllOf(HasSubstr(first), HasSubstr(second)))
        << model;
}

TEST(PluginModelErrors, NameTheLibraryThatThrew) {
    expect_refused(plugin("faulty") + ":exception", "libfaulty", "the weights are gone");
    expect_refused(plugin("faulty") + ":number", "libfaulty", "not a std::exception");
}

TEST(PluginModelErrors, SayWhatAModelLacks) {
    expect_refused(plugin("faulty") + ":no_layers", "without layers", "ModelSpec::layers");
    expect_refused(plugin("faulty") + ":no_factory", "layer 0", "LayerSpec::make");
}

TEST(PluginModelErrors, SayThatALibraryIsNoModel) {
    expect_refused(plugin("no_model"), "exports no function pipescope_model", "PIPESCOPE_USER_MODEL");
    expect_refused("./libmissing.so", "'./libmissing.so' is not a file", "check the path");
    const std::filesystem::path text = std::filesystem::path(testing::TempDir()) / "text.so";
    std::ofstream(text) << "no library";
    expect_refused(text.string(), "cannot be loaded", "find_package(pipescope)");
}

TEST(PluginModelErrors, SayThatALibraryWasBuiltForSomethingElse) {
    expect_refused(plugin("other_abi"), "version 99", "build it again");
    expect_refused(plugin("other_torch"), "LibTorch 1.13.1", "LibTorch " TORCH_VERSION);
}

TEST(PluginModelErrors, NameALibraryThatEndsTheProcessWhileItIsLoaded) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto load = [](const char* how) {
        ::setenv("PIPESCOPE_TEST_START", how, 1);
        make_model(plugin("faulty_start"));
    };
    EXPECT_EXIT(load("throw"), testing::ExitedWithCode(1),
                "libfaulty_start_plugin.so' threw an exception while it was loaded .the table is missing.; its static");
    EXPECT_EXIT(load("exit"), testing::ExitedWithCode(1), "called exit.. while it was loaded; its static objects");
}

TEST(ModelFile, IsPartedFromItsOptionsByTheColonBehindItsEnding) {
    const auto file = model_file("a:b/lib.so.d/net.so:x=1:2", ".so");
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(file->path, "a:b/lib.so.d/net.so");
    EXPECT_EQ(file->options, "x=1:2");
    EXPECT_EQ(model_file("net.so", ".so")->options, "");
    EXPECT_FALSE(model_file("unet:B=2", ".so").has_value());
    EXPECT_FALSE(model_file("net.sort:x", ".so").has_value());
}
}  // namespace
}  // namespace pipescope
