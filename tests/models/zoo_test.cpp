#include "models/zoo.h"

#include "base/error.h"
#include "models/meta_device.h"
#include "models/model_files.h"
#include "tests/models/skip_store.h"
#include "tests/models/small_models.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

// A plain model: the layers in sequence.
class PlainModel {
public:
    explicit PlainModel(const std::string& name) : spec(make_model(name)) {
        at::set_num_threads(1);  // beside other tests, threads that spin for each other take seconds
        torch::manual_seed(0);
        for (const LayerSpec& layer : spec.layers) {
            layers_.push_back(layer.make());
        }
    }

    Tensors forward(Tensors tensors) {
        SkipStore skips;
        for (const auto& layer : layers_) {
            tensors = skips.forward(*layer, tensors);
            most_skips = std::max(most_skips, skips.size());
        }
        EXPECT_TRUE(skips.empty());  // every skip was popped
        return tensors;
    }

    std::vector<at::Tensor> parameters() const {
        std::vector<at::Tensor> all;
        for (const auto& layer : layers_) {
            for (const auto& [name, parameter] : layer->parameters()) {
                all.push_back(parameter);
            }
        }
        return all;
    }

    void train(bool on) {
        for (const auto& layer : layers_) {
            layer->train(on);
        }
    }

    double train_step(double rate) {
        const Batch batch = spec.make_batch(4, 7);
        const at::Tensor loss = spec.loss(forward(batch.input), batch.target);
        loss.backward();
        const torch::NoGradGuard no_grad;
        for (at::Tensor& parameter : mutable_parameters()) {
            parameter.sub_(parameter.grad(), rate);
            parameter.mutable_grad().reset();
        }
        return loss.item<double>();
    }

    ModelSpec spec;
    std::size_t most_skips = 0;  // under way at once

private:
    std::vector<at::Tensor> mutable_parameters() { return parameters(); }

    std::vector<std::unique_ptr<Layer>> layers_;
};

// The figures of torchgpipe's benchmark models. Counting needs no memory, even for the largest.
TEST(Zoo, UnetHasThePapersLayersAndParameters) {
    const auto size = [](const std::string& model) { return model_size(make_model(model)); };
    EXPECT_EQ(size("unet:B=5,C=64").layers, 241U);
    EXPECT_EQ(size("unet:B=5,C=64").parameters, 232'687'328);
    EXPECT_EQ(size("unet:B=6,C=72").layers, 285U);
    EXPECT_EQ(size("unet:B=6,C=72").parameters, 362'157'516);
    EXPECT_EQ(size("unet:B=2,C=8").layers, 109U);
    EXPECT_EQ(size("unet:B=2,C=8").parameters, 1'129'900);
    EXPECT_EQ(size("unet:B=11,C=128").layers, 505U);
    EXPECT_EQ(size("unet:B=24,C=128").layers, 1077U);
    EXPECT_EQ(size("unet:B=48,C=160").layers, 2133U);
    EXPECT_NEAR(static_cast<double>(size("unet:B=48,C=160").parameters), 15.8e9, 0.1e9);
}

TEST(Zoo, AmoebaNetHasThePapersLayersAndParameters) {
    const auto size = [](const std::string& model) { return model_size(make_model(model)); };
    EXPECT_EQ(size("amoebanetd:L=18,D=256").layers, 24U);
    EXPECT_EQ(size("amoebanetd:L=18,D=256").parameters, 122'470'120);
    EXPECT_EQ(size("amoebanetd:L=6,D=32").layers, 12U);
    EXPECT_EQ(size("amoebanetd:L=6,D=32").parameters, 1'187'448);
    EXPECT_EQ(size("amoebanetd:L=36,D=544").layers, 42U);
    EXPECT_EQ(size("amoebanetd:L=72,D=512").layers, 78U);
}

TEST(Zoo, Resnet101HasThePapersLayersAndParameters) {
    const ModelSize size = model_size(make_model("resnet101"));
    EXPECT_EQ(size.layers, 370U);
    EXPECT_EQ(size.parameters, 44'549'160);
}

TEST(Zoo, CountsTheParametersThatTheLayersReallyHave) {
    for (const std::string& name : kSmallModels) {
        const PlainModel model(name);
        std::int64_t parameters = 0;
        for (const at::Tensor& parameter : model.parameters()) {
            EXPECT_TRUE(parameter.is_cpu());
            parameters += parameter.numel();
        }
        EXPECT_EQ(model_size(model.spec).parameters, parameters) << name;
        EXPECT_EQ(model_size(model.spec).layers, model.spec.layers.size()) << name;
    }
}

TEST(Zoo, TransformerHasALayerPerBlockAndOneOnEachEnd) {
    const ModelSize size =
        model_size(make_model("transformer:layers=12,width=512,heads=8,sequence=128,vocabulary=1000"));
    EXPECT_EQ(size.layers, 14U);
    // block: 12 w^2 weights, 13 w biases and norms; ends: (vocabulary + sequence) w, then 2 w + vocabulary w
    EXPECT_EQ(size.parameters, 12 * (12 * 512 * 512 + 13 * 512) + (1000 + 128) * 512 + 2 * 512 + 1000 * 512);
}

TEST(Zoo, ModelsLearnTheirMadeUpData) {
    for (const std::string& name : kSmallModels) {
        PlainModel model(name);
        const double first = model.train_step(0.1);
        double last = first;
        for (int step = 1; step < 20; ++step) {
            last = model.train_step(0.1);
        }
        EXPECT_LT(last, 0.9 * first) << name;
    }
}

TEST(Zoo, BatchesAreTheSameForTheSameSeed) {
    for (const std::string& name : kSmallModels) {
        const ModelSpec model = make_model(name);
        const Batch batch = model.make_batch(3, 5);
        const Batch same = model.make_batch(3, 5);
        const Batch other = model.make_batch(3, 6);
        EXPECT_EQ(batch.input[0].size(0), 3) << name;
        EXPECT_TRUE(batch.input[0].equal(same.input[0])) << name;
        EXPECT_TRUE(batch.target[0].equal(same.target[0])) << name;
        EXPECT_FALSE(batch.input[0].equal(other.input[0])) << name;
    }
}

TEST(Zoo, TransformerSeesNoTokenAhead) {
    PlainModel model("transformer:layers=2,width=16,heads=2,sequence=8,vocabulary=20");
    model.train(false);
    const at::Tensor tokens = torch::arange(8).unsqueeze(0);
    at::Tensor changed = tokens.clone();
    changed[0][5] = 19;
    const at::Tensor output = model.forward({tokens}).at(0);
    const at::Tensor after = model.forward({changed}).at(0);
    EXPECT_TRUE(output.narrow(1, 0, 5).equal(after.narrow(1, 0, 5)));
    EXPECT_FALSE(output[0][5].equal(after[0][5]));
}

TEST(Zoo, UnetKeepsTheImagesSideWhateverItIs) {
    PlainModel model("unet:B=1,C=4,size=75");
    const Tensors output = model.forward(model.spec.make_batch(2, 0).input);
    ASSERT_EQ(output.size(), 1U);  // every skip was popped
    EXPECT_EQ(output[0].sizes(), (std::vector<std::int64_t>{2, 1, 75, 75}));
}

TEST(Zoo, UnetAndResnetDeclareTheirSkipsInSpacesOfTheirOwn) {
    const auto skips_of = [](const std::string& name) {
        std::vector<SkipName> stashed;
        std::vector<SkipName> popped;
        for (const auto& layer : meta_layers(make_model(name))) {
            const SkipNames names = layer->skips();
            stashed.insert(stashed.end(), names.stash.begin(), names.stash.end());
            popped.insert(popped.end(), names.pop.begin(), names.pop.end());
        }
        std::sort(stashed.begin(), stashed.end());
        std::sort(popped.begin(), popped.end());
        EXPECT_EQ(stashed, popped) << name;
        EXPECT_EQ(std::adjacent_find(stashed.begin(), stashed.end()), stashed.end()) << name;
        return stashed.size();
    };
    EXPECT_EQ(skips_of("unet"), 5U);
    EXPECT_EQ(skips_of("resnet101"), 33U);
}

TEST(Zoo, UnetHasFiveSkipsUnderWayAtItsBottom) {
    PlainModel model("unet:B=1,C=4,size=64");
    EXPECT_EQ(model.forward(model.spec.make_batch(1, 0).input).size(), 1U);
    EXPECT_EQ(model.most_skips, 5U);
}

TEST(Zoo, ListsItsModelsWithTheirOptions) {
    std::vector<std::string> names;
    for (const ZooEntry& entry : zoo()) {
        names.push_back(entry.name);
        EXPECT_FALSE(entry.description.empty());
        EXPECT_NO_THROW(make_model(entry.name));
        for (const auto& [option, meaning] : entry.options) {
            EXPECT_THAT(meaning, HasSubstr("  "));
        }
    }
    EXPECT_EQ(names, (std::vector<std::string>{"mlp", "transformer", "unet", "amoebanetd", "resnet101"}));
    EXPECT_EQ(make_model("mlp:layers=3").name, "mlp:layers=3");
}

TEST(PythonFunctions, AreFilesOrModulesWithAName) {
    const auto named = [](const char* text) {
        const auto function = python_function(text);
        return function ? function->module + " " + function->name : std::string();
    };
    EXPECT_EQ(named("model.py:make"), "model.py make");
    EXPECT_EQ(named("a:b/my.model.py"), "a:b/my.model.py make");
    EXPECT_EQ(named("package.module:make_2"), "package.module make_2");
    for (const char* other : {"mlp", "unet:B=5", "unet:B", "package.module", "net.pt:input", "net.pt2:input",
                              "lib.so:my.py", "emulated:model.py", "emulated:p.json", "package..module:make",
                              "package.1:make", ".a:b", "package.module:1"}) {
        EXPECT_EQ(named(other), "") << other;
    }
}

void expect_refused(const std::string& model, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
        EXPECT_THAT(thrown<UsageError>([&] { make_model(model); }), HasSubstr(part)) << model;
    }
}

TEST(ZooErrors, NameTheModelsThereAre) {
    expect_refused("resnt", {"'resnt'", "mlp, transformer, unet, amoebanetd, resnet101", "emulated:"});
    expect_refused("model.py:make", {"'model.py:make' is a function in Python", "'profile' and 'run'"});
    expect_refused("", {"''", "mlp, transformer, unet, amoebanetd, resnet101"});
}

TEST(ZooErrors, NameTheOptionsThereAre) {
    expect_refused("unet:depth=3", {"'depth' is not an option of unet", "B, C, size"});
    expect_refused("unet:dtype=bfloat16", {"'dtype' is not an option of unet", "'pipescope profile --dtype'"});
    expect_refused("unet:", {});
    expect_refused("unet:B=2,", {"comma"});
    expect_refused("unet:B=2,B=3", {"option B of unet is given twice"});
}

TEST(ZooErrors, NameTheValuesAnOptionTakes) {
    expect_refused("unet:B=two", {"option B of unet is 'two'", "whole number from 1", "unet:B=5"});
    expect_refused("unet:B=0", {"'0'", "from 1"});
    expect_refused("unet:C=-8", {"'-8'"});
    expect_refused("unet:B", {"option B of unet is ''"});
    expect_refused("unet:size=32", {"from 64"});
    expect_refused("mlp:width=2.5", {"whole number"});
    expect_refused("mlp:width=1e30", {"to 1000000"});
    expect_refused("transformer:dropout=nan", {"option dropout"});
    expect_refused("transformer:dropout=1", {"from 0 to 0.9"});
}

TEST(ZooErrors, NameWhatAnOptionMustBeAMultipleOf) {
    expect_refused("amoebanetd:L=4", {"L=4 of amoebanetd", "multiple of 3", "try L=6"});
    expect_refused("amoebanetd:D=100", {"D=100", "multiple of 8", "try D=104"});
    expect_refused("amoebanetd:size=100", {"size=100", "multiple of 32", "try size=128"});
}

TEST(ZooErrors, SayThatHeadsMustDivideTheWidth) {
    expect_refused("transformer:width=10,heads=3", {"heads=3", "width=10", "multiple of heads"});
}
}  // namespace
}  // namespace pipescope
