// Clipping by the norm of all gradients, in one process. tests/models/processes_test.cpp has several.

#include "engine/engine_error.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <limits>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

GPipe stepped() {
    torch::manual_seed(4);
    GPipe model(dropout_mlp(), on_host({2, 2, 2}, 3, Checkpoint::except_last));
    torch::manual_seed(5);
    model.step(samples(6), samples(6, 4), mean_square);
    return model;
}

TEST(GradientNorm, ClipsAsTorchDoes) {
    for (const double type : {2.0, kInfinity, 1.0, 1.5}) {
        for (const double max_norm : {1e-3, 1e6}) {
            GPipe model = stepped();
            GPipe reference = stepped();
            const at::Tensor norm = model.clip_grad_norm_(max_norm, type);
            EXPECT_EQ(norm.item<double>(), torch::nn::utils::clip_grad_norm_(reference.parameters(), max_norm, type));
            EXPECT_EQ(norm.dim(), 0);
            const std::vector<at::Tensor> expected = reference.parameters();
            for (std::size_t k = 0; k < expected.size(); ++k) {
                // To one rounding: in C++ torch divides by the norm; in Python, as here, it takes the reciprocal.
                EXPECT_TRUE(torch::allclose(model.parameters()[k].grad(), expected[k].grad(), 1e-15, 0))
                    << type << " " << k;
            }
        }
    }
}

TEST(GradientNorm, OfAParameterThatALayerListsTwiceCountsItOnce) {
    const at::Tensor w = torch::ones({1}, torch::kFloat64).requires_grad_();
    GPipe model({{"twice",
                  [w] {
                      return std::make_unique<FunctionLayer>([w](const Tensors& in) { return Tensors{in[0] * w * 3}; },
                                                             NamedTensors{{"w", w}, {"same", w}});
                  }}},
                on_host({1}, 1, Checkpoint::never));
    model.forward(torch::ones({1, 1}, torch::kFloat64)).sum().backward();
    EXPECT_EQ(model.clip_grad_norm_(0.5).item<double>(), 3);
    EXPECT_NEAR(w.grad().item<double>(), 0.5, 1e-6);
}

TEST(GradientNorm, OfNoGradientIsZero) {
    GPipe model(dropout_mlp(), on_host({3, 3}, 2, Checkpoint::never));
    EXPECT_EQ(model.clip_grad_norm_(1).item<double>(), 0);
}

TEST(GradientNorm, ThatIsNotFiniteIsRefusedIfAsked) {
    GPipe model = stepped();
    model.parameters()[1].mutable_grad()[0] = kInfinity;
    const at::Tensor before = model.parameters()[0].grad().clone();
    EXPECT_THAT(thrown<EngineError>([&] { model.clip_grad_norm_(1, 2, /*error_if_nonfinite=*/true); }),
                AllOf(HasSubstr("the norm of all gradients is inf"), HasSubstr("skip this step")));
    EXPECT_TRUE(torch::equal(model.parameters()[0].grad(), before));
    EXPECT_EQ(model.clip_grad_norm_(1).item<double>(), kInfinity);  // scales by 0, as torch does
    EXPECT_EQ(model.parameters()[0].grad().abs().sum().item<double>(), 0);
}
}  // namespace
}  // namespace pipescope
