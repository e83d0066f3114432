#include "engine/torch_internals.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace impl = torch::autograd::impl;

/// Passes its gradients on.
class PassingNode final : public Node {
public:
    explicit PassingNode(edge_list edges, std::shared_ptr<int> held = nullptr)
        : Node(std::move(edges)), held_(std::move(held)) {}
    variable_list apply(variable_list&& gradients) override { return std::move(gradients); }

private:
    std::shared_ptr<int> held_;
};

at::Tensor matrix(std::vector<std::int64_t> sizes) {
    return torch::randn(sizes, at::TensorOptions().dtype(at::kDouble).requires_grad(true));
}

TEST(TorchNodes, AreOwnedByTheEdgesThatLeadToThem) {
    const auto held = std::make_shared<int>(1);
    auto node = make_node<PassingNode>(edge_list{}, held);
    Edge edge(node, 0);
    node = {};
    EXPECT_EQ(held.use_count(), 2);
    edge = {};
    EXPECT_EQ(held.use_count(), 1);
}

TEST(TorchNodes, CanBeOwnedThroughAReference) {
    const auto held = std::make_shared<int>(1);
    auto node = make_node<PassingNode>(edge_list{}, held);
    NodePtr<> owner = static_cast<Node&>(*node).getptr();
    node = {};
    EXPECT_EQ(held.use_count(), 2);
    owner = {};
    EXPECT_EQ(held.use_count(), 1);
}

TEST(TorchNodes, InALongChainAreFreedWithoutRecursion) {
    const auto held = std::make_shared<int>(1);
    NodePtr<> last = make_node<PassingNode>(edge_list{}, held);
    for (int k = 0; k < 300'000; ++k) {
        last = make_node<PassingNode>(edge_list{Edge(last, 0)});
    }
    last = {};
    EXPECT_EQ(held.use_count(), 1);
}

TEST(TorchNodes, HaveNumbersInTheOrderInWhichAThreadMadeThem) {
    const at::Tensor leaf = matrix({2});
    const at::Tensor first = leaf * 2;
    const auto own = make_node<PassingNode>(edge_list{});
    const at::Tensor second = first * 2;
    EXPECT_LT(first.grad_fn()->sequence_nr(), own->sequence_nr());
    EXPECT_LT(own->sequence_nr(), second.grad_fn()->sequence_nr());
}

TEST(TorchNodes, OfLeavesComeFirstAndLeadNowhere) {
    const NodePtr<> leaf = impl::gradient_edge(matrix({2})).function;
    EXPECT_EQ(leaf->sequence_nr(), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(leaf->num_outputs(), 0);
    EXPECT_NE(dynamic_cast<torch::autograd::AccumulateGrad*>(leaf.get()), nullptr);
}

TEST(TorchNodes, OfLeavesLiveAsLongAsAGraphLeadsToThem) {
    const at::Tensor leaf = matrix({2});
    EXPECT_FALSE(impl::try_get_grad_accumulator(leaf));
    at::Tensor result = leaf * 2;
    EXPECT_TRUE(impl::try_get_grad_accumulator(leaf));
    result = at::Tensor();
    EXPECT_FALSE(impl::try_get_grad_accumulator(leaf));
}

TEST(TorchNodes, GetTheGradientsOfTensorsThatHaveThemAsHistory) {
    const at::Tensor leaf = matrix({2});
    const auto node = make_node<PassingNode>(edge_list{Edge(), impl::gradient_edge(leaf)});
    node->add_input_metadata(Node::undefined_input());
    const at::Tensor with_history = leaf.detach();
    torch::autograd::set_history(with_history, node);
    EXPECT_EQ(impl::gradient_edge(with_history).input_nr, 1) << "after the input that is not used";
    with_history.sum().backward();
    EXPECT_TRUE(torch::equal(leaf.grad(), torch::ones_like(leaf)));
}

TEST(TorchNodes, OfProductsComputeOnlyTheGradientsThatTheirEdgesAskFor) {
    const at::Tensor a = matrix({2, 3});
    const at::Tensor b = matrix({3, 4});
    const at::Tensor many_a = matrix({5, 2, 3});
    const at::Tensor many_b = matrix({5, 3, 4});
    const std::vector<std::pair<std::string, at::Tensor>> products = {
        {"AddmmBackward0", torch::addmm(matrix({4}), a, b)},
        {"MmBackward0", torch::mm(a, b)},
        {"BmmBackward0", torch::bmm(many_a, many_b)},
        {"BaddbmmBackward0", torch::baddbmm(matrix({5, 2, 4}), many_a, many_b)},
        {"AddbmmBackward0", torch::addbmm(matrix({2, 4}), many_a, many_b)},
        {"MvBackward0", torch::mv(a, matrix({3}))},
        {"AddmvBackward0", torch::addmv(matrix({2}), a, matrix({3}))},
        {"ConvolutionBackward0", torch::conv1d(matrix({2, 3, 4}), matrix({5, 3, 2}))},
    };
    for (const auto& [name, result] : products) {
        Node& node = *result.grad_fn();
        EXPECT_EQ(node.name(), name);
        const std::size_t first = node.num_outputs() > 2 && name != "ConvolutionBackward0" ? 1 : 0;
        edge_list all = node.next_edges();
        for (std::size_t asked : {first, first + 1}) {
            node.next_edges().assign(all.size(), Edge());
            node.next_edges()[asked] = all[asked];
            const variable_list gradients = node({torch::ones_like(result)});
            for (std::size_t k = 0; k < gradients.size(); ++k) {
                EXPECT_EQ(gradients[k].defined(), k == asked) << name << ", output " << k;
            }
        }
    }
}

TEST(TorchNodes, FreeWhatTheySavedWhenAsked) {
    at::Tensor a = matrix({2, 3});
    const at::Tensor result = a * a.detach();
    const auto users = a.storage().use_count();
    result.grad_fn()->release_variables();
    EXPECT_LT(a.storage().use_count(), users);
    EXPECT_THROW((*result.grad_fn())({torch::ones_like(result)}), c10::Error);
}

TEST(TorchNodes, OfAChangedViewHoldTheChangeWhichLeadsToTheSameNodesButForTheFirst) {
    const at::Tensor base = matrix({4}) * 1;
    const at::Tensor factor = matrix({2});
    base.slice(0, 0, 2).mul_(factor);
    const auto* const change = dynamic_cast<const torch::autograd::CopySlices*>(base.grad_fn().get());
    ASSERT_NE(change, nullptr);
    ASSERT_TRUE(change->fn);
    EXPECT_EQ(change->fn->name(), "MulBackward0");
    ASSERT_EQ(change->num_outputs(), 2);
    EXPECT_EQ(change->fn->next_edge(1), change->next_edge(1));
    EXPECT_EQ(change->next_edge(1), impl::gradient_edge(factor));
}

TEST(TorchNodes, TakeTheirHooksBack) {
    const at::Tensor leaf = matrix({1});
    std::string calls;
    leaf.register_hook([&](const at::Tensor&) { calls += "tensor "; });
    auto taken = std::exchange(impl::hooks(leaf), {});
    EXPECT_EQ(taken.size(), 1);
    (leaf * 2).backward();
    EXPECT_EQ(calls, "");
    impl::hooks(leaf) = std::move(taken);
    (leaf * 2).backward();
    EXPECT_EQ(calls, "tensor ");
}

TEST(TorchNodes, TellWhetherABackwardRunsInThisThread) {
    EXPECT_EQ(torch::autograd::get_current_graph_task_exec_info(), nullptr);
    EXPECT_EQ(torch::autograd::get_current_graph_task_id(), -1);
    const at::Tensor leaf = matrix({1});
    bool inside = false;
    leaf.register_hook([&](const at::Tensor&) {
        const auto* const only_for = torch::autograd::get_current_graph_task_exec_info();
        inside = only_for != nullptr && only_for->empty() && torch::autograd::get_current_graph_task_id() != -1;
    });
    (leaf * 2).backward();
    EXPECT_TRUE(inside);
}

TEST(TorchNodes, SumGradientsInPlaceIfNothingElseHoldsThem) {
    torch::autograd::InputBuffer sum(1);
    at::Tensor first = torch::ones({3});
    const void* const memory = first.data_ptr();
    const auto node = make_node<PassingNode>(edge_list{});
    const at::NoGradGuard no_grad;
    sum.add(0, std::move(first), std::nullopt, std::nullopt, node.get());
    sum.add(0, torch::ones({3}), std::nullopt, std::nullopt, node.get());
    EXPECT_EQ(sum.buffer[0].data_ptr(), memory);
    EXPECT_TRUE(torch::equal(sum.buffer[0], torch::full({3}, 2.0)));
}

TEST(TorchVersions, CountChangesOfAViewApartOnceItHasACounterOfItsOwn) {
    const at::Tensor base = torch::zeros({4});
    const at::Tensor part = base.slice(0, 0, 2);
    part.add_(1);
    EXPECT_EQ(base._version(), 1);
    impl::set_version_counter(part, c10::VariableVersion(1));
    part.add_(1);
    EXPECT_EQ(base._version(), 1);
    EXPECT_EQ(part._version(), 2);
}

TEST(TorchVersions, OfAChangedTensorBelongToItsNewNode) {
    const at::Tensor leaf = matrix({2});
    const at::Tensor changed = leaf * 1;
    const auto node = make_node<PassingNode>(edge_list{impl::gradient_edge(changed)});
    node->add_input_metadata(changed);
    impl::rebase_history(changed, Edge(node, 0));
    EXPECT_EQ(changed.grad_fn().get(), node.get());
    changed.sum().backward();
    EXPECT_TRUE(torch::equal(leaf.grad(), torch::ones_like(leaf)));
}
}  // namespace
}  // namespace pipescope
