// A training that is saved and continued equals one that was never interrupted.

#include "engine/saved_training.h"

#include "save/save_error.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

namespace pipescope {
namespace {
using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

template <class Optimizer, class Options>
MakeOptimizer with(Options options) {
    return [options](std::vector<at::Tensor> parameters) {
        return std::make_unique<Optimizer>(std::move(parameters), options);
    };
}

std::vector<std::pair<std::string, MakeOptimizer>> every_optimizer() {
    using namespace torch::optim;
    return {{"sgd", with<SGD>(SGDOptions(0.05))},
            {"momentum", with<SGD>(SGDOptions(0.05).momentum(0.9))},
            {"adam", with<Adam>(AdamOptions(0.01))},
            {"amsgrad", with<Adam>(AdamOptions(0.01).amsgrad(true))},
            {"adamw", with<AdamW>(AdamWOptions(0.01))}};
}

/// A model with its optimizer, from the same initial weights each time.
struct Training {
    Training(GPipeOptions options, const MakeOptimizer& make)
        : model([&] {
              torch::manual_seed(3);
              return GPipe(dropout_mlp(), std::move(options));
          }()),
          optimizer(make(model.parameters())) {}

    /// The losses of some steps.
    std::vector<double> train(int steps) {
        std::vector<double> losses;
        for (int k = 0; k < steps; ++k) {
            torch::manual_seed(100 + model.next_step());
            const at::Tensor input = samples(8), target = samples(8, 4);
            optimizer->zero_grad();
            losses.push_back(model.step(input, target, mean_square).item<double>());
            optimizer->step();
        }
        return losses;
    }

    GPipe model;
    std::unique_ptr<torch::optim::Optimizer> optimizer;
};

GPipeOptions three_lanes() {
    return on_host({2, 2, 2}, 4, Checkpoint::except_last);
}

std::filesystem::path save(const TemporaryFolder& folder, Training& training) {
    SaveFolder saves(folder / "saves");
    return save_training(saves, {.step = training.model.next_step()}, training.model, {training.optimizer.get()});
}

TEST(SavedTraining, ContinuesBitForBitWithEveryOptimizer) {
    for (const auto& [name, make] : every_optimizer()) {
        const TemporaryFolder folder;
        Training undisturbed(three_lanes(), make);
        const std::vector<double> expected = undisturbed.train(5);
        Training first(three_lanes(), make);
        first.train(3);
        SavedTraining saved(save(folder, first));
        Training second(three_lanes(), make);
        second.train(1);  // other weights, and another state of the optimizer
        saved.load(second.model);
        saved.load(*second.optimizer, second.model);
        EXPECT_EQ(second.model.next_step(), 3) << name;
        EXPECT_EQ(second.train(2), std::vector<double>(expected.begin() + 3, expected.end())) << name;
        const NamedTensors actual = second.model.state_dict(), wanted = undisturbed.model.state_dict();
        for (std::size_t k = 0; k < wanted.size(); ++k) {
            EXPECT_TRUE(torch::equal(actual[k].second, wanted[k].second)) << name << " " << wanted[k].first;
        }
    }
}

// A thread writes what the model was when the save began, however far the training has gone since.
TEST(SavedTraining, HoldsTheStepAtWhichSavingBegan) {
    for (const auto& [name, make] : every_optimizer()) {
        const TemporaryFolder folder;
        Training undisturbed(three_lanes(), make);
        const std::vector<double> expected = undisturbed.train(5);
        Training first(three_lanes(), make);
        first.train(3);
        SaveFolder saves(folder / "saves");
        begin_saving(saves, {.step = 3}, first.model, {first.optimizer.get()});
        EXPECT_TRUE(saves.is_saving());
        EXPECT_EQ(first.train(2), std::vector<double>(expected.begin() + 3, expected.end())) << name;
        SavedTraining saved(saves.finish());
        Training second(three_lanes(), make);
        saved.load(second.model);
        saved.load(*second.optimizer, second.model);
        EXPECT_EQ(second.train(2), std::vector<double>(expected.begin() + 3, expected.end())) << name;
    }
}

TEST(SavedTraining, IsWrittenAtOnceIfACopyWouldBeTooLarge) {
    const TemporaryFolder folder;
    Training training(three_lanes(), every_optimizer()[2].second);
    training.train(1);
    SaveFolder saves(folder / "saves");
    begin_saving(saves, {.step = 1}, training.model, {training.optimizer.get()}, 100);
    EXPECT_TRUE(saves.is_written());
    saves.finish();
}

/// Draws data and a noisy loss from torch's default generator.
std::vector<double> train_with_own_random_numbers(Training& training, int steps) {
    std::vector<double> losses;
    for (int k = 0; k < steps; ++k) {
        const at::Tensor input = samples(8), target = samples(8, 4);
        training.optimizer->zero_grad();
        const auto noisy = [](const at::Tensor& output, const at::Tensor& wanted) {
            return mean_square(output, wanted) + (output * torch::randn_like(output)).mean();
        };
        losses.push_back(training.model.step(input, target, noisy).item<double>());
        training.optimizer->step();
    }
    return losses;
}

TEST(SavedTraining, ContinuesTheRandomNumbersOfTheProgram) {
    const MakeOptimizer make = every_optimizer()[0].second;
    const TemporaryFolder folder;
    Training undisturbed(three_lanes(), make);
    const std::vector<double> expected = train_with_own_random_numbers(undisturbed, 5);
    Training first(three_lanes(), make);
    train_with_own_random_numbers(first, 3);
    SavedTraining saved(save(folder, first));
    Training second(three_lanes(), make);
    saved.load(second.model);
    EXPECT_TRUE(saved.load_random());
    EXPECT_EQ(train_with_own_random_numbers(second, 2), std::vector<double>(expected.begin() + 3, expected.end()));
    EXPECT_TRUE(saved.load_random(7)) << "of rank 0, since one process saved";
}

TEST(SavedTraining, ContinuesToRoundingUnderAnotherLayout) {
    const MakeOptimizer make = every_optimizer()[2].second;
    const TemporaryFolder folder;
    Training undisturbed(three_lanes(), make);
    const std::vector<double> expected = undisturbed.train(5);
    Training first(three_lanes(), make);
    first.train(3);
    SavedTraining saved(save(folder, first));
    GPipeOptions other = on_host({1, 5}, 4, Checkpoint::never);
    other.schedule = Schedule::one_f_one_b;
    Training second(other, make);
    saved.load(second.model);
    saved.load(*second.optimizer, second.model);
    const std::vector<double> losses = second.train(2);
    EXPECT_NEAR(losses[0], expected[3], 1e-10);
    EXPECT_NEAR(losses[1], expected[4], 1e-10);
}

/// A layer with these tensors, which passes its input on.
LayerSpec holder(const NamedTensors& tensors) {
    return {"holder",
            [tensors] { return std::make_unique<FunctionLayer>([](const Tensors& in) { return in; }, tensors); }};
}

TEST(SavedTraining, HoldsEveryDtypeStrideAndName) {
    const TemporaryFolder folder;
    NamedTensors tensors;
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                                      at::kShort, at::kChar, at::kByte, at::kBool}) {
        tensors.emplace_back(at::toString(type), torch::arange(6).remainder(2).to(type).reshape({2, 3}));
    }
    tensors.emplace_back("turned", torch::randn({2, 3}).t());
    tensors.emplace_back("empty", torch::zeros({0, 3}));
    tensors.emplace_back("empty_too", torch::zeros({0, 3}));
    tensors.emplace_back("nan", torch::full({}, std::nan("")));
    tensors.emplace_back("tied", tensors.front().second);
    GPipe model({holder(tensors)}, on_host({1}, 1, Checkpoint::never));
    SaveFolder saves(folder / "saves");
    const auto step = save_training(saves, {}, model, {});
    NamedTensors before;
    for (const auto& [name, tensor] : tensors) {
        before.emplace_back(name, tensor.clone());
    }
    for (const auto& [name, tensor] : tensors) {
        tensor.zero_();
    }
    SavedTraining saved(step);
    saved.load(model);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        EXPECT_TRUE(torch::allclose(tensors[k].second, before[k].second, 0, 0, /*equal_nan=*/true)) << tensors[k].first;
    }
    const SafetensorsFile file(step / "model-00001-of-00001.safetensors");
    EXPECT_EQ(file.header().metadata.at("0.tied"), "0.Double") << "one storage is stored once";
    EXPECT_EQ(file.header().tensors.size(), tensors.size() - 1);
}

TEST(SavedTraining, IsLoadedInPartsByProcessesThatHaveOnlySomeLayers) {
    using torch::nn::Linear;
    const auto part = [](const std::vector<std::string>& names) {
        torch::nn::Sequential module;
        for (const std::string& name : names) {
            module->push_back(name, torch::nn::AnyModule(Linear(4, 4)));
        }
        return GPipe(module, on_host({static_cast<std::int64_t>(names.size())}, 1, Checkpoint::never));
    };
    const TemporaryFolder folder;
    GPipe whole = part({"0", "1", "2"});
    torch::optim::SGD optimizer(whole.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    whole.step(torch::randn({2, 4}), torch::randn({2, 4}), mean_square);
    optimizer.step();
    SaveFolder saves(folder / "saves");
    SavedTraining saved(save_training(saves, {.step = 1}, whole, {&optimizer}));

    GPipe last = part({"2"});
    torch::optim::SGD own(last.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    saved.load(last, /*is_whole=*/false);
    saved.load(own, last);
    EXPECT_TRUE(torch::equal(last.state_dict().at(0).second, whole.state_dict().at(4).second));
    EXPECT_EQ(own.state().size(), 2U);
    EXPECT_THAT(thrown<SaveError>([&] { saved.load(last); }), HasSubstr("which the model does not have"));
}

TEST(SavedTraining, OfAnotherModelIsRefusedAndLeavesTheModel) {
    const TemporaryFolder folder;
    SaveFolder saves(folder / "saves");
    const auto model_of = [](const NamedTensors& tensors) {
        return GPipe({holder(tensors)}, on_host({1}, 1, Checkpoint::never));
    };
    const GPipe model = model_of({{"a", torch::ones({2})}, {"b", torch::ones({2, 3})}});
    SavedTraining saved(save_training(saves, {}, model, {}));
    const auto refuses = [&](const at::Tensor& b, const std::string& name, const std::string& why) {
        const at::Tensor a = torch::zeros({2});
        GPipe other = model_of({{"a", a}, {name, b}});
        EXPECT_THAT(thrown<SaveError>([&] { saved.load(other); }),
                    AllOf(HasSubstr("step-000000 holds"), HasSubstr(why), HasSubstr("train the model that was saved")));
        EXPECT_EQ(a.sum().item<float>(), 0);
    };
    refuses(torch::zeros({3, 2}), "b", "0.b as F32 of shape [2, 3]; the model has F32 of shape [3, 2]");
    refuses(torch::zeros({2, 3}, torch::kHalf), "b", "the model has F16");
    refuses(torch::zeros({2, 3}), "c", "holds no 0.c");
    GPipe fewer = model_of({{"a", torch::zeros({2})}});
    EXPECT_THAT(thrown<SaveError>([&] { saved.load(fewer); }), HasSubstr("0.b, which the model does not have"));
    const GPipe complex = model_of({{"a", torch::zeros({2}, torch::kComplexFloat)}});
    EXPECT_THAT(thrown<EngineError>([&] { save_training(saves, {.step = 1}, complex, {}); }),
                HasSubstr("0.a is of ComplexFloat"));
    EXPECT_THAT(thrown<EngineError>([&] { check_savable(complex); }), HasSubstr("0.a is of ComplexFloat"));
    check_savable(model);
}

TEST(SavedTraining, OfAnotherOptimizerIsRefused) {
    const TemporaryFolder folder;
    const auto all = every_optimizer();
    Training adam(three_lanes(), all[2].second);
    adam.train(1);
    SavedTraining saved(save(folder, adam));
    Training momentum(three_lanes(), all[1].second);
    EXPECT_THAT(thrown<SaveError>([&] { saved.load(*momentum.optimizer, momentum.model); }),
                AllOf(HasSubstr("0.weight.exp_avg"), HasSubstr("optimizer that was saved")));

    torch::optim::Adagrad adagrad(adam.model.parameters());
    EXPECT_THAT(thrown<EngineError>([&] { saved.load(adagrad, adam.model); }), HasSubstr("SGD, Adam and AdamW"));
    torch::optim::SGD stranger({torch::ones({1}).requires_grad_()}, 0.1);
    EXPECT_THAT(thrown<EngineError>([&] { saved.load(stranger, adam.model); }), HasSubstr("no parameter of the model"));
}

TEST(SavedTraining, CountsStepsFromZero) {
    GPipe model({linear(6, 4)}, on_host({1}, 1, Checkpoint::never));
    model.set_next_step(7);
    EXPECT_EQ(model.next_step(), 7);
    EXPECT_THAT(thrown<UsageError>([&] { model.set_next_step(-1); }), HasSubstr("number -1"));
}
}  // namespace
}  // namespace pipescope
