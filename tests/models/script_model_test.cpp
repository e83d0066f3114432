// TorchScript files as models. torch::jit writes the files here, so that the tests need no Python.

#include "engine/gpipe.h"
#include "engine/plain_model.h"
#include "models/meta_device.h"
#include "models/user_model.h"
#include "models/zoo.h"
#include "tests/models/script_file.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::string small_net(const std::string& name) {
    ScriptFile file(name);
    file.linear(6, 8);
    file.child("torch.tanh(x)");
    file.child("torch.dropout(x, 0.5, self.training)");
    file.linear(8, 3);
    return file.write();
}

class ScriptModel : public testing::Test {
protected:
    ScriptModel() { at::set_num_threads(1); }
};

TEST_F(ScriptModel, HasTheFilesChildrenAsLayersWithItsWeights) {
    const std::string path = small_net("layers");
    const ModelSpec model = make_model(path + ":input=6");
    ASSERT_EQ(model.layers.size(), 4U);
    torch::jit::Module whole = torch::jit::load(path);
    whole.train(false);
    const at::Tensor input = torch::randn({5, 6});
    Tensors tensors{input};
    for (const LayerSpec& spec : model.layers) {
        const auto layer = spec.make();
        layer->train(false);
        tensors = layer->forward(tensors);
    }
    EXPECT_TRUE(tensors.at(0).equal(whole.forward({input}).toTensor()));
    EXPECT_EQ(model.layers[3].make()->parameters().at(0).first, "weight");
    EXPECT_EQ(model_size(model).parameters, 6 * 8 + 8 + 8 * 3 + 3);
}

TEST_F(ScriptModel, GivesThePlainModelsGradientsThroughThePipeline) {
    const ModelSpec model = make_model(small_net("gradients") + ":input=6,loss=cross_entropy");
    PlainModel plain(model.layers, {.chunks = 3, .seed = 5});
    GPipe pipeline(model, {.balance = {1, 2, 1},
                           .devices = {"cpu", "cpu", "cpu"},
                           .chunks = 3,
                           .checkpoint = Checkpoint::always,
                           .seed = 5});
    plain.to(at::kDouble);
    pipeline.to(at::kDouble);
    const Batch batch = model.make_batch(7, 2);
    for (int step = 0; step < 2; ++step) {
        const Tensors input{batch.input[0].to(at::kDouble)};
        const at::Tensor expected = plain.step(input, batch.target, model.loss);
        EXPECT_NEAR(pipeline.step(input, batch.target, model.loss).item<double>(), expected.item<double>(), 1e-12);
    }
    const NamedTensors expected = plain.named_parameters();
    const NamedTensors parameters = pipeline.named_parameters();
    ASSERT_EQ(parameters.size(), 4U);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(parameters[i].second.scalar_type(), at::kDouble);
        ASSERT_TRUE(parameters[i].second.grad().defined()) << parameters[i].first;
        EXPECT_TRUE(at::allclose(parameters[i].second.grad(), expected[i].second.grad())) << parameters[i].first;
    }
}

TEST_F(ScriptModel, IsRecomputedFromTheBuffersThatItsForwardSaw) {
    for (const std::string change : {"self.c = self.c + 0.5", "self.c.add_(0.5)", "self.k = self.k + 1",
                                     "self.n.add_(1)\n  if bool(self.n % 2 == 0):\n    self.c = self.c + 0.5"}) {
        ScriptFile file("counter");
        file.linear(6, 6);
        torch::jit::Module counter = file.child("self.count(x)");
        counter.register_buffer("c", torch::ones({6}));
        counter.register_buffer("n", torch::zeros({}));
        counter.register_attribute("k", c10::IntType::get(), 1);
        counter.define("def count(self, x):\n  " + change + "\n  return torch.sin(x * self.c.clone() * self.k)\n");
        file.linear(6, 3);
        const ModelSpec model = make_model(file.write() + ":input=6");
        PlainModel plain(model.layers, {.chunks = 3});
        plain.to(at::kDouble);
        const Batch batch = model.make_batch(7, 2);
        const Tensors input{batch.input[0].to(at::kDouble)};
        const Tensors target{batch.target[0].to(at::kDouble)};
        plain.step(input, target, model.loss);
        plain.step(input, target, model.loss);
        const NamedTensors expected = plain.named_parameters();
        for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            GPipe pipeline(model, {.balance = {1, 2},
                                   .devices = {"cpu", "cpu"},
                                   .chunks = 3,
                                   .checkpoint = Checkpoint::always,
                                   .schedule = schedule});
            pipeline.to(at::kDouble);
            pipeline.step(input, target, model.loss);
            pipeline.step(input, target, model.loss);
            const NamedTensors found = pipeline.named_parameters();
            for (std::size_t k = 0; k < expected.size(); ++k) {
                EXPECT_TRUE(at::allclose(found[k].second.grad(), expected[k].second.grad(), 1e-12, 1e-12))
                    << change << ", " << to_string(schedule) << ", " << expected[k].first;
            }
            EXPECT_TRUE(at::equal(pipeline.named_buffers()[0].second, plain.named_buffers()[0].second)) << change;
        }
    }
}

TEST_F(ScriptModel, MakesEachLayerAnew) {
    const ModelSpec model = make_model(small_net("anew") + ":input=6");
    const auto first = model.layers[0].make();
    const auto second = model.layers[0].make();
    const at::Tensor weight = first->parameters()[0].second;
    EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
    {
        const torch::NoGradGuard no_grad;
        at::Tensor(weight).zero_();
    }
    EXPECT_FALSE(second->parameters()[0].second.equal(weight));
    EXPECT_TRUE(first->parameters()[0].second.is_same(weight));
    for (const auto& layer : meta_layers(model)) {
        for (const auto& [name, tensor] : layer->parameters()) {
            EXPECT_TRUE(tensor.is_meta()) << name;
        }
    }
}

TEST_F(ScriptModel, DrawsInTrainingOnly) {
    const ModelSpec model = make_model(small_net("dropout") + ":input=6");
    const auto dropout = model.layers[2].make();
    const at::Tensor input = torch::ones({100});
    dropout->train(true);
    EXPECT_FALSE(dropout->forward({input})[0].equal(input));
    dropout->train(false);
    EXPECT_TRUE(dropout->forward({input})[0].equal(input));
}

TEST_F(ScriptModel, HandsTuplesOn) {
    ScriptFile file("tuples");
    file.linear(4, 4);
    file.child("(x, x + 1.)");
    torch::jit::Module sum(c10::QualifiedName("__torch__.Sum"), file.root()._ivalue()->compilation_unit());
    sum.register_attribute("training", c10::BoolType::get(), true);
    sum.define("def forward(self, x: Tuple[Tensor, Tensor]):\n  return x[0] * x[1]\n");
    file.add(sum);
    const ModelSpec model = make_model(file.write() + ":input=4");
    const Tensors pair = model.layers[1].make()->forward({torch::ones({2, 4})});
    ASSERT_EQ(pair.size(), 2U);
    EXPECT_TRUE(model.layers[2].make()->forward(pair)[0].equal(torch::full({2, 4}, 2.F)));
}

TEST_F(ScriptModel, MakesDataThatFitsTheLoss) {
    const std::string path = small_net("data");
    const auto batch_for = [&](const std::string& options) {
        const ModelSpec model = make_model(path + ":input=6" + options);
        Batch batch = model.make_batch(4, 0);
        EXPECT_TRUE(model.make_batch(4, 0).input[0].equal(batch.input[0]));
        EXPECT_EQ(model.loss({torch::randn({4, 3})}, batch.target).dim(), 0) << options;
        return batch;
    };
    EXPECT_EQ(batch_for("").target[0].sizes(), (std::vector<std::int64_t>{4, 3}));
    EXPECT_EQ(batch_for(",loss=cross_entropy").target[0].scalar_type(), at::kLong);
    const at::Tensor mask = batch_for(",loss=bce").target[0];
    EXPECT_TRUE(mask.eq(0).logical_or(mask.eq(1)).all().item<bool>());

    ScriptFile language("language");
    torch::jit::Module embedding = language.child("torch.embedding(self.weight, x)");
    embedding.register_parameter("weight", trainable(torch::randn({20, 5})), false);
    language.linear(5, 20);
    const ModelSpec model = make_model(language.write() + ":input=7,tokens=20,loss=next_token");
    const Batch batch = model.make_batch(3, 0);
    EXPECT_EQ(batch.input[0].sizes(), (std::vector<std::int64_t>{3, 7}));
    EXPECT_TRUE(batch.input[0].narrow(1, 1, 6).equal(batch.target[0].narrow(1, 0, 6)));
    EXPECT_EQ(model.loss({torch::randn({3, 7, 20})}, batch.target).dim(), 0);
}

TEST_F(ScriptModel, ComparesItsOutputInItsOwnDtype) {
    ScriptFile file("doubles");
    file.linear(6, 3);
    file.child("x.double()");
    const std::string path = file.write();
    for (const std::string loss : {"mse", "bce"}) {
        const ModelSpec model = make_model(path + ":input=6,loss=" + loss);
        const Batch batch = model.make_batch(4, 1);
        PlainModel plain(model.layers, {.seed = 5});
        const at::Tensor value = model.loss(plain.forward(batch.input), batch.target);
        EXPECT_EQ(value.scalar_type(), at::kDouble) << loss;
        EXPECT_NO_THROW(value.backward()) << loss;
    }
}

TEST_F(ScriptModel, LearnsItsMadeUpData) {
    for (const char* options : {":input=6", ":input=6,loss=bce", ":input=6,loss=cross_entropy"}) {
        const ModelSpec model = make_model(small_net("learns") + options);
        GPipe pipeline(model, {.balance = {4}, .devices = {"cpu"}});
        double first = 0;
        double last = 0;
        constexpr int kSteps = 60;
        for (int step = 0; step < kSteps; ++step) {
            const Batch batch = model.make_batch(64, static_cast<std::uint64_t>(step % 4));
            const double loss = pipeline.step(batch.input, batch.target, model.loss).item<double>();
            first += step < 4 ? loss : 0;
            last += step >= kSteps - 4 ? loss : 0;
            const torch::NoGradGuard no_grad;
            for (at::Tensor& parameter : pipeline.parameters()) {
                parameter.sub_(parameter.grad(), 0.2);
            }
            pipeline.zero_grad();
        }
        EXPECT_LT(last, 0.9 * first) << options;
    }
}

void expect_model_refused(const std::string& model, const std::string& first, const std::string& second) {
    EXPECT_THAT(thrown<UserModelError>([&] { make_model(model); }), AllOf(HasSubstr(first), HasSubstr(second)))
        << model;
}

TEST_F(ScriptModel, RefusesWhatIsNoTorchScript) {
    expect_model_refused("./missing.pt:input=3", "'./missing.pt' is not a file", "check the path");
    const std::filesystem::path text = std::filesystem::path(testing::TempDir()) / "text.pt";
    std::ofstream(text) << "no archive";
    expect_model_refused(text.string() + ":input=3", "not a TorchScript file", "torch.jit.script");
}

TEST_F(ScriptModel, RefusesAForwardThatIsNoChainOfTheChildren) {
    const auto with_forward = [](const std::string& name, const std::string& forward) {
        ScriptFile file(name);
        file.linear(4, 4);
        file.linear(4, 4);
        return file.write("def forward(self, x):\n" + forward) + ":input=4";
    };
    const std::string first = "getattr(self, \"0\").forward(x)";
    const std::string second = "getattr(self, \"1\").forward(x)";
    expect_model_refused(with_forward("residual", "  y = " + first + "\n  return x + y\n"), "not a Sequential",
                         "aten::add");
    expect_model_refused(with_forward("left_out", "  return " + first + "\n"), "does not call its child '1'", "cut");
    expect_model_refused(with_forward("twice", "  x = " + first + "\n  return " + first + "\n"), "'0' twice", "cut");
    expect_model_refused(with_forward("beside", "  y = " + first + "\n  return " + second + "\n"), "not a Sequential",
                         "cut");
    expect_model_refused(
        with_forward("branch", "  if x.size(0) > 3:\n    x = " + first + "\n  return " + second + "\n"),
        "not a Sequential", "cut");
    ScriptFile own("own_parameter");
    own.linear(4, 4);
    own.root().register_parameter("scale", torch::ones({1}), false);
    expect_model_refused(own.write() + ":input=4", "parameter of its own, 'scale'", "cut");
}

TEST_F(ScriptModel, RefusesParametersThatTwoLayersShare) {
    ScriptFile file("shared");
    const at::Tensor weight = trainable(torch::randn({4, 4}));
    file.child("torch.mm(x, self.weight)").register_parameter("weight", weight, false);
    file.child("torch.mm(x, self.weight)").register_parameter("weight", weight, false);
    expect_model_refused(file.write() + ":input=4", "shares a parameter between its children '0' and '1'", "untie");
}

TEST_F(ScriptModel, RefusesAFileWithNothingToTrain) {
    ScriptFile file("frozen");
    file.child("torch.mm(x, self.weight)").register_parameter("weight", torch::randn({4, 4}), false);
    expect_model_refused(file.write() + ":input=4", "no parameter that requires a gradient", "requires_grad");
}

TEST_F(ScriptModel, SaysWhichLayerCannotTakeTheInput) {
    const std::string path = small_net("wrong_input");
    expect_model_refused(path + ":input=5", "its layer '0' throws", "set input and tokens");
    ScriptFile text("returns_text");
    text.linear(4, 4);
    text.child("\"text\"");
    expect_model_refused(text.write() + ":input=4", "returns String", "tensors");
    ScriptFile reduced("reduced");
    reduced.linear(4, 4);
    reduced.child("torch.sum(x)");
    expect_model_refused(reduced.write() + ":input=4", "does not return a result for each sample",
                         "leave reductions to the loss");
}

TEST_F(ScriptModel, RefusesMoreTokensThanTheModelHas) {
    ScriptFile file("tokens");
    file.child("torch.embedding(self.weight, x)").register_parameter("weight", trainable(torch::randn({16, 4})), false);
    const std::string path = file.write();
    EXPECT_EQ(make_model(path + ":input=5,tokens=16").layers.size(), 1U);
    expect_model_refused(path + ":input=5,tokens=17", "with tokens up to 16; its layer '0' throws",
                         "set input and tokens");
}

TEST_F(ScriptModel, NamesTheMethodThatForwardCalls) {
    ScriptFile file("calls_method");
    file.linear(4, 4);
    file.root().define("def doubled(self, x):\n  return x + x\n");
    const std::string path =
        file.write("def forward(self, x):\n  return self.doubled(getattr(self, \"0\").forward(x))\n");
    expect_model_refused(path + ":input=4", "forward calls the method doubled", "cut");
}

TEST_F(ScriptModel, SaysWhatAFileOfAnotherKindShouldBe) {
    for (const std::string suffix : {".pt2", ".pth", ".onnx"}) {
        EXPECT_THAT(thrown<UsageError>([&] { make_model("net" + suffix + ":input=6"); }),
                    AllOf(HasSubstr("ends in " + suffix), HasSubstr("torch.jit.script")));
    }
}

TEST_F(ScriptModel, RefusesALossThatTheOutputCannotHave) {
    const std::string path = small_net("wrong_loss");
    EXPECT_THAT([&] { make_model(path + ":input=6,tokens=9,loss=next_token"); }, testing::Throws<Error>());
    EXPECT_THAT(thrown<UsageError>([&] { make_model(path); }), HasSubstr("no input shape"));
}
}  // namespace
}  // namespace pipescope
