#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;

struct GradientCase {
    std::vector<std::int64_t> balance;
    std::int64_t chunks;
    std::int64_t batch;
    Checkpoint checkpoint;
    int host_cores = 0;
};

std::string name_of(const GradientCase& c) {
    return "balance " + to_string(Balance(c.balance)) + ", chunks " + std::to_string(c.chunks) + ", batch " +
           std::to_string(c.batch) + ", " + to_string(c.checkpoint);
}

/// All modes over even, odd, short and single micro-batches. One test for all, because starting a process costs more
/// than a case.
std::vector<GradientCase> cases(const std::vector<std::int64_t>& balance) {
    std::vector<GradientCase> all;
    for (const auto& [chunks, batch] : {std::pair{1, 4}, {3, 7}, {4, 8}, {8, 5}}) {
        for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
            all.push_back({balance, chunks, batch, mode});
        }
    }
    return all;
}

/// Two steps each, so that step numbers and accumulated gradients take part.
void expect_plain_gradients(const std::vector<LayerSpec>& layers, const GradientCase& c) {
    torch::manual_seed(7);
    const at::Tensor input = torch::randn({c.batch, 6}, torch::kFloat64);
    const at::Tensor target = torch::randn({c.batch, 4}, torch::kFloat64);
    const auto loss = [](const Tensors& output, const Tensors& targets) { return mean_square(output[0], targets[0]); };

    torch::manual_seed(1);
    PlainModel plain(layers, {.chunks = c.chunks, .seed = 42});
    const at::Tensor plain_input = input.clone().requires_grad_();
    const double first = plain.step({plain_input}, {target}, loss).item<double>();
    const double second = plain.step({plain_input}, {target}, loss).item<double>();

    torch::manual_seed(1);
    GPipe stepped(layers, {.balance = c.balance,
                           .devices = cpus(c.balance.size()),
                           .chunks = c.chunks,
                           .checkpoint = c.checkpoint,
                           .seed = 42,
                           .host_cores = c.host_cores});
    EXPECT_DOUBLE_EQ(stepped.step({input}, {target}, loss).item<double>(), first);
    EXPECT_DOUBLE_EQ(stepped.step({input}, {target}, loss).item<double>(), second);
    expect_equal_norm_wise(gradients_of(stepped.named_parameters()), gradients_of(plain.named_parameters()));

    torch::manual_seed(1);
    GPipe wrapped(layers, {.balance = c.balance,
                           .devices = cpus(c.balance.size()),
                           .chunks = c.chunks,
                           .checkpoint = c.checkpoint,
                           .seed = 42,
                           .host_cores = c.host_cores});
    const at::Tensor own_input = input.clone().requires_grad_();
    for (const double expected : {first, second}) {
        const at::Tensor value = mean_square(wrapped.forward(own_input), target);
        EXPECT_DOUBLE_EQ(value.item<double>(), expected);
        value.backward();
    }
    expect_equal_norm_wise(gradients_of(wrapped.named_parameters()), gradients_of(plain.named_parameters()));
    expect_equal_norm_wise({{"input", own_input.grad()}}, {{"input", plain_input.grad()}});
}

TEST(Gradients, WithDropoutEqualThePlainModelsWhateverTheBalanceAndMode) {
    for (const auto& balance :
         std::vector<std::vector<std::int64_t>>{{6}, {3, 3}, {1, 5}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}}) {
        for (const GradientCase& c : cases(balance)) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(c));
            expect_plain_gradients(dropout_mlp(), c);
        }
    }
}

TEST(Gradients, EqualThePlainModelsWhereLanesTakeOneCoreInTurns) {
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        expect_plain_gradients(dropout_mlp(), {{2, 2, 2}, 4, 8, mode, 1});
    }
}

TEST(Gradients, ThroughTuplesEqualThePlainModelsWhateverTheBalanceAndMode) {
    for (const auto& balance : std::vector<std::vector<std::int64_t>>{{5}, {2, 3}, {1, 2, 1, 1}}) {
        for (const GradientCase& c : cases(balance)) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(c));
            expect_plain_gradients(tuple_model(), c);
        }
    }
}

TEST(Gradients, EqualTheFullBatchModelsWhereNoLayerLooksAcrossSamples) {
    const std::vector<LayerSpec> layers = {linear(6, 8), tanh_layer(), linear(8, 4)};
    const at::Tensor input = torch::randn({10, 6}, torch::kFloat64);
    const at::Tensor target = torch::randn({10, 4}, torch::kFloat64);
    torch::manual_seed(3);
    PlainModel plain(layers, {.chunks = 1});
    plain.step({input}, {target}, [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]); });
    torch::manual_seed(3);
    GPipe model(layers, {.balance = {2, 1}, .devices = cpus(2), .chunks = 4});
    model.step(input, target, mean_square);
    expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
}
}  // namespace
}  // namespace pipescope
