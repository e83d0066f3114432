#include "engine/autograd_driver/dependency.h"

#include "engine/autograd_driver/graph_node.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <thread>

namespace pipescope {
namespace {
using ::testing::ElementsAre;

/// Appends the entry to the list when backward passes through.
Tensors logged(std::vector<std::string>& list, const std::string& entry, const Tensors& tensors) {
    return send_through(
        "Log", [&list, entry](const Tensors&) { list.push_back(entry); }, tensors);
}

TEST(Dependency, LeavesValuesAndGradientsAsTheyAre) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const Forked forked = fork({x * 2.0});
    const Tensors joined = join({x * 3.0}, forked.phony);
    EXPECT_TRUE(torch::equal(joined[0], torch::full({2}, 3.0)));
    (forked.tensors[0] + joined[0]).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 5.0)));
}

/// Goes backward through two branches. Autograd prefers nodes with high numbers, which count per thread: those of the
/// joined branch, created in a new thread, are the lowest.
std::vector<std::string> order_of_two_branches(bool tied) {
    std::vector<std::string> order;
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    at::Tensor warm_up = x * 1.0;
    for (int k = 0; k < 20; ++k) {
        warm_up = warm_up * 1.0;
    }
    const Forked forked = fork(logged(order, "forked", {x}));
    const Tensors behind_fork{forked.tensors[0] * 1.0};
    Tensors joined;
    std::thread([&] {
        joined = tied ? join({x * 1.0}, forked.phony) : Tensors{x * 1.0};
        joined = logged(order, "joined", joined);
    }).join();
    torch::autograd::backward({behind_fork[0], joined[0]}, {torch::ones({2}), torch::ones({2})});
    return order;
}

TEST(Dependency, HoldsTheForkedGradientBackUntilTheJoinWasReached) {
    EXPECT_THAT(order_of_two_branches(false), ElementsAre("forked", "joined"));
    EXPECT_THAT(order_of_two_branches(true), ElementsAre("joined", "forked"));
}

TEST(Dependency, KeepsNothingAliveBehindAForkOnceItWentBackward) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    at::Tensor kept = torch::ones({2});
    const auto storage = kept.storage().getWeakStorageImpl();
    const Forked forked = fork({x * kept});  // the product saves what it multiplies by
    kept = at::Tensor();
    const Tensors joined = join({x * 1.0}, forked.phony);
    const at::Tensor sum = (forked.tensors[0] + joined[0]).sum();
    EXPECT_FALSE(storage.expired());
    sum.backward();
    EXPECT_TRUE(storage.expired()) << "though the forked and the joined tensors live on";
}

TEST(Dependency, GivesNoPhonyWithoutGradients) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const at::NoGradGuard no_grad;
    const Forked forked = fork({x});
    EXPECT_FALSE(forked.phony.defined());
    EXPECT_TRUE(forked.tensors[0].is_same(x));
    EXPECT_TRUE(join({x}, forked.phony)[0].is_same(x));
}

TEST(Dependency, ForksNothingThatNeedsNoGradient) {
    const at::Tensor x = torch::ones({2});
    EXPECT_FALSE(fork({x}).phony.defined());
}

TEST(Dependency, MakesTheJoinedTensorRequireAGradient) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const at::Tensor plain = torch::ones({3});
    EXPECT_TRUE(join({plain}, fork({x}).phony)[0].requires_grad());
    EXPECT_FALSE(plain.requires_grad());
}

TEST(Dependency, PassesByTensorsThatCarryNoGradient) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const at::Tensor numbers = torch::ones({2}, torch::kLong);
    const Tensors joined = join({numbers, x, at::Tensor()}, fork({x}).phony);
    EXPECT_TRUE(joined[0].is_same(numbers));
    EXPECT_EQ(joined[1].grad_fn()->name(), "Join");
    EXPECT_FALSE(joined[2].defined());
}

TEST(Dependency, APhonyHasNoElements) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    EXPECT_EQ(fork({x}).phony.numel(), 0);
}
}  // namespace
}  // namespace pipescope
