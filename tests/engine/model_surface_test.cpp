#include "engine/current_task.h"
#include "engine/partition.h"
#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InnerImpl final : public torch::nn::Module {  // with a module below it that owns no tensor
public:
    at::Tensor forward(const at::Tensor& x) { return drop(dense(x)); }
    torch::nn::Linear dense = register_module("dense", torch::nn::Linear(8, 8));
    torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.1));
};

torch::nn::Sequential plain_module() {
    torch::nn::Sequential module;
    module->push_back("first", torch::nn::Linear(6, 8));
    module->push_back("relu", torch::nn::ReLU());
    module->push_back("inner", std::make_shared<InnerImpl>());
    module->push_back("norm", torch::nn::BatchNorm1d(8));
    return module;
}

std::vector<LayerSpec> layers_like(bool wide = false) {
    const std::int64_t width = wide ? 9 : 8;
    return {linear(6, width), tanh_layer(), linear(width, 4)};
}

TEST(ModelSurface, ShowsItsLayersInOrder) {
    for (const auto& balance : std::vector<std::vector<std::int64_t>>{{4}, {1, 3}}) {
        const GPipe model(plain_module(), {.balance = balance, .devices = cpus(2)});
        ASSERT_EQ(model.size(), 4u);
        EXPECT_EQ(model[0].key, "first");
        EXPECT_EQ(model[3].key, "norm");
        std::vector<std::string> names;
        for (const LayerInfo& layer : model) {
            EXPECT_EQ(layer.id.index(), names.size());
            names.push_back(layer.name);
        }
        EXPECT_THAT(names, ElementsAre("first", "relu", "inner", "norm"));
        EXPECT_EQ(model[3].partition.index(), balance.size() - 1);
        EXPECT_EQ(model[0].layer->parameters().size(), 2u);
        EXPECT_THAT(thrown<UsageError>([&] { model[4]; }), AllOf(HasSubstr("layer 4"), HasSubstr("4 layers")));
    }
}

TEST(ModelSurface, ShowsItsPartitions) {
    const GPipe model(plain_module(), {.balance = {1, 3}, .devices = cpus(3)});
    ASSERT_EQ(model.partitions().size(), 2u);
    EXPECT_EQ(model.partitions()[1].layers, (LayerRange{LayerId{1}, LayerId{4}}));
    EXPECT_EQ(model.partitions()[1].lane, LaneId{1});
    EXPECT_EQ(model.partitions()[1].device, "cpu");
}

TEST(ModelSurface, SavesAFileThatThePlainModuleLoads) {
    torch::manual_seed(1);
    const torch::nn::Sequential source = plain_module();
    GPipe model(source, {.balance = {1, 2, 1}, .devices = cpus(3), .chunks = 2});
    model.step(torch::randn({8, 6}), torch::randn({8, 8}), mean_square);  // statistics that are no longer initial
    std::stringstream file;
    torch::save(model, file);
    torch::nn::Sequential loaded = plain_module();
    torch::load(loaded, file);
    const auto expected = source->named_parameters();
    for (const auto& item : loaded->named_parameters()) {
        EXPECT_TRUE(torch::equal(item.value(), expected[item.key()])) << item.key();
    }
    for (const auto& item : loaded->named_buffers()) {
        EXPECT_TRUE(torch::equal(item.value(), source->named_buffers()[item.key()])) << item.key();
    }
}

TEST(ModelSurface, LoadsAFileOfThePlainModuleAndOfAnyBalance) {
    torch::manual_seed(1);
    const torch::nn::Sequential source = plain_module();
    std::stringstream of_plain;
    torch::save(source, of_plain);
    GPipe first(plain_module(), {.balance = {2, 2}, .devices = cpus(2)});
    torch::load(first, of_plain);
    std::stringstream of_model;
    torch::save(first, of_model);
    GPipe second(plain_module(), {.balance = {1, 1, 2}, .devices = cpus(3)});
    const at::Tensor before = second.parameters()[0];
    torch::load(second, of_model);
    EXPECT_TRUE(before.is_same(second.parameters()[0])) << "optimizers keep their tensors";
    for (const auto& [name, tensor] : second.named_parameters()) {
        EXPECT_TRUE(torch::equal(tensor, source->named_parameters()[name])) << name;
    }
}

TEST(ModelSurface, StateGoesIntoAModelOfAnotherBalance) {
    GPipe from(layers_like(), {.balance = {1, 2}, .devices = cpus(2)});
    GPipe to(layers_like(), {.balance = {2, 1}, .devices = cpus(2)});
    to.load_state_dict(from.state_dict());
    const at::Tensor input = samples(3);
    EXPECT_TRUE(torch::equal(from.forward(input), to.forward(input)));
}

TEST(ModelSurface, RefusesAStateThatDoesNotFitAndChangesNothing) {
    GPipe model(layers_like(), {.balance = {3}, .devices = cpus(1)});
    const at::Tensor before = model.parameters()[0].clone();
    GPipe wide(layers_like(true), {.balance = {3}, .devices = cpus(1)});
    EXPECT_THAT(thrown<EngineError>([&] { model.load_state_dict(wide.state_dict()); }),
                AllOf(HasSubstr("0.weight has shape [9, 6]"), HasSubstr("[8, 6]")));
    NamedTensors state = model.state_dict();
    for (auto& [name, tensor] : state) {
        tensor = torch::zeros_like(tensor);
    }
    NamedTensors less(state.begin(), state.end() - 1);
    EXPECT_THAT(thrown<EngineError>([&] { model.load_state_dict(less); }), HasSubstr("holds no 2.bias"));
    state.emplace_back("9.weight", torch::zeros({1}));
    EXPECT_THAT(thrown<EngineError>([&] { model.load_state_dict(state); }), HasSubstr("holds 9.weight"));
    std::stringstream file;
    torch::save(GPipe({linear(6, 8)}, {.balance = {1}, .devices = cpus(1)}), file);
    EXPECT_THAT(thrown<EngineError>([&] { torch::load(model, file); }), HasSubstr("the file holds no 2.weight"));
    EXPECT_TRUE(torch::equal(before, model.parameters()[0]));
}

TEST(ModelSurface, RefusesToMoveAndCasts) {
    GPipe model(layers_like(), {.balance = {1, 2}, .devices = cpus(2)});
    EXPECT_THAT(thrown<UsageError>([&] { model.to(torch::kCUDA); }),
                AllOf(HasSubstr("cuda"), HasSubstr("GPipeOptions::devices")));
    EXPECT_THROW(model.to(torch::kCPU), UsageError);
    EXPECT_THROW(model.to(at::Device("cpu")), UsageError);
    model.to(torch::kHalf);
    EXPECT_EQ(model.parameters()[0].scalar_type(), torch::kHalf);
    model.to(torch::kFloat64);
    EXPECT_EQ(model.parameters()[0].scalar_type(), torch::kFloat64);
}

TEST(ModelSurface, WithoutLayersIsTheIdentity) {
    GPipe model(std::vector<LayerSpec>{}, {});
    const at::Tensor input = samples(3).requires_grad_();
    EXPECT_TRUE(torch::equal(model.forward(input), input));
    const Tensors pair = model.forward(Tensors{input, samples(3)});
    EXPECT_EQ(pair.size(), 2u);
    pair[0].sum().backward();
    EXPECT_TRUE(torch::equal(input.grad(), torch::ones_like(input)));
    EXPECT_EQ(model.size(), 0u);
    EXPECT_TRUE(model.partitions().empty());
    EXPECT_TRUE(model.state_dict().empty());
    EXPECT_THROW(model.forward(Tensors{at::Tensor()}), EngineError) << "its input is checked all the same";
    EXPECT_THROW(GPipe(std::vector<LayerSpec>{}, {.balance = {1}, .devices = cpus(1)}), BalanceError);
}

TEST(ModelSurface, KnowsWhetherItTrains) {
    GPipe model(plain_module(), {.balance = {4}, .devices = cpus(1)});
    EXPECT_TRUE(model.is_training());
    model.eval();
    EXPECT_FALSE(model.is_training());
    torch::nn::Sequential evaluating = plain_module();
    evaluating->eval();
    EXPECT_FALSE(GPipe(evaluating, {.balance = {4}, .devices = cpus(1)}).is_training());
}

TEST(Partition, ListsATensorOfTwoNamesOnce) {
    const at::Tensor w = torch::ones({4}).requires_grad_();
    std::vector<ModelLayer> layers;
    layers.push_back({"tied", "0",
                      std::make_unique<FunctionLayer>([w](const Tensors& in) { return Tensors{in[0] * w * w}; },
                                                      NamedTensors{{"a", w}, {"b", w}})});
    const Partition partition(PartitionId{0}, LayerId{0}, std::move(layers), {});
    EXPECT_EQ(partition.trained_parameters().size(), 1u) << "replicas would sum its gradient twice";
}

TEST(ModelSurface, LeavesFrozenModulesInTheirMode) {
    torch::nn::Sequential module(torch::nn::Linear(5, 5), torch::nn::BatchNorm1d(5), torch::nn::Dropout(0.5),
                                 torch::nn::Linear(5, 5));
    const auto children = module->children();
    children[1]->eval();
    GPipe model(module, {.balance = {2, 2}, .devices = cpus(2), .chunks = 2});
    EXPECT_TRUE(model.is_training());
    EXPECT_FALSE(children[1]->is_training());
    EXPECT_TRUE(children[2]->is_training());
    const at::Tensor mean = module->named_buffers()["1.running_mean"].clone();
    model.forward(torch::randn({4, 5})).sum().backward();
    EXPECT_TRUE(torch::equal(module->named_buffers()["1.running_mean"], mean));

    module->eval();
    children[2]->train();  // as for Monte Carlo dropout
    const GPipe sampling(module, {.balance = {2, 2}, .devices = cpus(2)});
    EXPECT_FALSE(sampling.is_training());
    EXPECT_TRUE(children[2]->is_training());
}

TEST(ModelSurface, TakesATupleOfOneAndReturnsOne) {
    GPipe model(layers_like(), {.balance = {1, 2}, .devices = cpus(2), .chunks = 2});
    const at::Tensor input = samples(4).requires_grad_();
    const Tensors output = model.forward(Tensors{input});
    ASSERT_EQ(output.size(), 1u);
    output[0].sum().backward();
    EXPECT_TRUE(input.grad().defined());
    EXPECT_TRUE(model.parameters()[0].grad().defined());
}

TEST(ModelSurface, TellsTheMicroBatchToLayersAndLosses) {
    std::vector<std::int64_t> seen;
    const auto probe = function_layer("probe", [&](const Tensors& in) {
        seen.push_back(current_micro_batch().value().value());
        return in;
    });
    GPipe model({probe}, {.balance = {1}, .devices = cpus(1), .chunks = 3});
    model.forward(samples(6));
    EXPECT_THAT(seen, ElementsAre(0, 1, 2));
    EXPECT_FALSE(current_micro_batch());
    model.step(samples(6).requires_grad_(), {}, [](const at::Tensor& output, const at::Tensor&) {
        EXPECT_FALSE(current_micro_batch()) << "the loss is the mini-batch's";
        return output.sum();
    });
}

// Differences from torchgpipe, where that loses samples, time or the process.

/// Sizes of the micro-batches that a layer receives.
std::vector<std::int64_t> sizes_seen(std::int64_t batch, std::int64_t chunks) {
    std::vector<std::int64_t> sizes;
    GPipe model({function_layer("probe",
                                [&](const Tensors& in) {
                                    sizes.push_back(in[0].size(0));
                                    return in;
                                })},
                {.balance = {1}, .devices = cpus(1), .chunks = chunks});
    model.forward(samples(batch));
    return sizes;
}

TEST(UnlikeTorchgpipe, CutsIntoAsManyMicroBatchesAsAskedFor) {
    EXPECT_THAT(sizes_seen(9, 8), ElementsAre(2, 1, 1, 1, 1, 1, 1, 1)) << "torch.chunk gives 5 of 2 and 1";
    EXPECT_THAT(sizes_seen(5, 4), ElementsAre(2, 1, 1, 1));
    EXPECT_THAT(sizes_seen(7, 4), ElementsAre(2, 2, 2, 1));
    EXPECT_THAT(sizes_seen(2, 4), ElementsAre(1, 1));
}

TEST(UnlikeTorchgpipe, CheckpointsNotTheLastOfAShortBatch) {
    std::vector<bool> checkpointing;
    GPipe model({linear(6, 6), function_layer("probe",
                                              [&](const Tensors& in) {
                                                  if (!is_recomputing()) {
                                                      checkpointing.push_back(is_checkpointing());
                                                  }
                                                  return in;
                                              })},
                {.balance = {2}, .devices = cpus(1), .chunks = 8, .checkpoint = Checkpoint::except_last});
    model.forward(samples(3)).sum().backward();
    EXPECT_THAT(checkpointing, ElementsAre(true, true, false));
}

TEST(UnlikeTorchgpipe, AddsNothingToTheStateForDeferredBatchNorm) {
    const auto keys = [](bool deferred) {
        std::vector<std::string> names;
        const GPipe model(plain_module(), {.balance = {2, 2}, .devices = cpus(2), .deferred_batch_norm = deferred});
        for (const auto& [name, tensor] : model.state_dict()) {
            names.push_back(name);
        }
        return names;
    };
    EXPECT_EQ(keys(true), keys(false));
    EXPECT_THAT(keys(true),
                ElementsAre("first.weight", "first.bias", "inner.dense.weight", "inner.dense.bias", "norm.weight",
                            "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
}

TEST(UnlikeTorchgpipe, KeepsItsThreads) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    const auto note = [&](const Tensors& in) {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        return Tensors{in[0] * 1};
    };
    GPipe model({function_layer("a", note), function_layer("b", note)},
                {.balance = {1, 1}, .devices = cpus(2), .chunks = 3});
    for (int step = 0; step < 5; ++step) {
        model.forward(samples(6).requires_grad_()).sum().backward();
    }
    EXPECT_EQ(threads.size(), 2u);
    EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

class NestedTupleImpl final : public torch::nn::Module {
public:
    std::tuple<at::Tensor, std::tuple<at::Tensor, at::Tensor>> forward(const at::Tensor& x) { return {x, {x, x}}; }
};

TEST(UnlikeTorchgpipe, NamesTheLayerThatReturnsATupleOfTuples) {
    GPipe model(torch::nn::Sequential(torch::nn::Linear(6, 6), std::make_shared<NestedTupleImpl>()),
                {.balance = {1, 1}, .devices = cpus(2)});
    EXPECT_THAT(thrown<LayerError>([&] {
                    model.forward(torch::randn({4, 6}));
                }),
                AllOf(HasSubstr("layer 1"), HasSubstr("forward returned std::tuple")));
}
}  // namespace
}  // namespace pipescope
