#include "engine/gradients/graph_walk.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using torch::autograd::Edge;

std::vector<Edge> edges_of(const Tensors& ends) {
    std::vector<Edge> edges;
    for (const at::Tensor& end : ends) {
        edges.push_back(torch::autograd::impl::gradient_edge(end));
    }
    return edges;
}

bool walk(const Tensors& ends, Tensors gradients) {
    return walk_backward(edges_of(ends), gradients);
}

/// y = x. Backward records the name.
struct Logged : torch::autograd::Function<Logged> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const std::string& name,
                              std::int64_t log) {
        context->saved_data["name"] = name;
        context->saved_data["log"] = log;
        return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        auto* const log = reinterpret_cast<std::vector<std::string>*>(context->saved_data["log"].toInt());
        log->push_back(context->saved_data["name"].toStringRef());
        return {gradients[0], at::Tensor(), at::Tensor()};
    }
};

/// Throws an exception of a type that no engine knows.
struct Throwing : torch::autograd::Function<Throwing> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
        throw 42;
    }
};

const bool own_nodes_may_be_walked = [] {
    allow_walk(typeid(torch::autograd::CppNode<Logged>));
    allow_walk(typeid(torch::autograd::CppNode<Throwing>));
    return true;
}();

struct Graph {
    Tensors leaves;
    Tensors ends;  // the second is on the way to the first
    Tensors gradients;
    std::shared_ptr<std::vector<std::string>> log = std::make_shared<std::vector<std::string>>();
};

/// Forks, joins, an unused output, an in-place change, a sparse gradient, and an end after another.
Graph tangled_graph() {
    torch::manual_seed(3);
    Graph graph;
    const auto options = at::TensorOptions().dtype(at::kDouble).requires_grad(true);
    const at::Tensor x = torch::randn({4, 6}, options);
    const at::Tensor bias = torch::randn({3}, options);
    const at::Tensor table = torch::randn({5, 3}, options);
    graph.leaves = {x, bias, table};
    const auto logged = [log = reinterpret_cast<std::int64_t>(graph.log.get())](const at::Tensor& tensor,
                                                                                const char* name) {
        return Logged::apply(tensor, std::string(name), log);
    };
    const Tensors thirds = x.chunk(3, 1);
    const at::Tensor left = logged(torch::cat({thirds[0], thirds[0].slice(1, 0, 1)}, 1), "left") + bias;
    at::Tensor right = logged(logged(x.slice(1, 0, 3), "right, first") * 2, "right, second");
    right.mul_(left.sigmoid());
    const at::Tensor looked_up = torch::embedding(table, torch::tensor({0, 2, 2, 4}), -1, false, /*sparse=*/true);
    const at::Tensor sum = logged(left + right, "sum");
    graph.ends = {logged(sum * looked_up, "end"), logged(sum, "end on the way")};
    graph.gradients = {torch::randn({4, 3}, at::kDouble), torch::randn({4, 3}, at::kDouble)};
    return graph;
}

TEST(GraphWalk, GivesWhatTheEngineGives) {
    const Graph walked = tangled_graph();
    const Graph expected = tangled_graph();
    ASSERT_TRUE(walk(walked.ends, walked.gradients));
    torch::autograd::backward(expected.ends, expected.gradients);
    for (std::size_t k = 0; k < walked.leaves.size(); ++k) {
        EXPECT_EQ(walked.leaves[k].grad().is_sparse(), expected.leaves[k].grad().is_sparse());
        EXPECT_TRUE(torch::equal(walked.leaves[k].grad().to_dense(), expected.leaves[k].grad().to_dense())) << k;
    }
}

TEST(GraphWalk, TakesTheNodesInTheEnginesOrder) {
    const Graph walked = tangled_graph();
    const Graph expected = tangled_graph();
    ASSERT_TRUE(walk(walked.ends, walked.gradients));
    torch::autograd::backward(expected.ends, expected.gradients);
    EXPECT_EQ(walked.log->size(), 6U);
    EXPECT_EQ(*walked.log, *expected.log);
}

TEST(GraphWalk, AddsToGradientsThatAreThere) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    for (int round = 0; round < 2; ++round) {
        ASSERT_TRUE(walk({x * 3}, {torch::ones({2})}));
    }
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 6.0)));
}

TEST(GraphWalk, FreesWhatTheGraphSaved) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const at::Tensor y = x.exp();
    ASSERT_TRUE(walk({y}, {torch::ones({2})}));
    EXPECT_THROW(walk({y}, {torch::ones({2})}), c10::Error);
}

// The walk once held a node's inputs while it added up its outputs, and autograd adds in place only to a gradient that
// nobody else holds: a sum took a new tensor, unlike in torch's engine.
TEST(GraphWalk, AddsInPlaceToAGradientThatOnlyTheNodeBeforeHeldToo) {
    struct Catch : torch::autograd::Function<Catch> {
        static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
        static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                       torch::autograd::variable_list gradients) {
            seen() = gradients[0].data_ptr();
            return {gradients[0] * 2};
        }
        static const void*& seen() {
            static const void* address = nullptr;
            return address;
        }
    };
    allow_walk(typeid(torch::autograd::CppNode<Catch>));
    const at::Tensor x = torch::ones({4}, torch::requires_grad());
    const at::Tensor y = Catch::apply(x);
    const Tensors ends = {y, torch::tanh(y)};
    Tensors gradients = {torch::ones({4})};
    gradients.push_back(gradients[0]);  // as an addition leaves them
    const void* const address = gradients[0].data_ptr();
    const std::vector<Edge> edges = edges_of(ends);
    ASSERT_TRUE(walk_backward(edges, gradients));
    EXPECT_EQ(Catch::seen(), address);
}

TEST(GraphWalk, BuildsNoGraphOfGradients) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    ASSERT_TRUE(walk({x * x}, {torch::ones({2})}));
    EXPECT_FALSE(x.grad().requires_grad());
}

TEST(GraphWalk, PassesOnWhatANodeThrows) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    EXPECT_THROW(walk({Throwing::apply(x)}, {torch::ones({2})}), int);
}

TEST(GraphWalk, RefusesAGradientOfAnotherShape) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    EXPECT_THROW(walk({x * 3}, {torch::ones({3})}), c10::Error);
}

// Graphs that only torch's engine supports are left to it: nothing may be changed.

void expect_left_to_the_engine(const Tensors& ends, const at::Tensor& leaf) {
    Tensors gradients(ends.size(), at::ones_like(ends[0]));
    EXPECT_FALSE(walk_backward(edges_of(ends), gradients));
    EXPECT_TRUE(gradients[0].defined());
    EXPECT_FALSE(leaf.grad().defined());
    torch::autograd::backward(ends, gradients);
    EXPECT_TRUE(leaf.grad().defined());
}

TEST(GraphWalk, LeavesHooksToTheEngine) {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const at::Tensor y = x * 3;
    y.register_hook([](const at::Tensor& gradient) { return gradient; });
    expect_left_to_the_engine({y}, x);

    const at::Tensor with_hook = torch::ones({2}, torch::requires_grad());
    with_hook.register_hook([](const at::Tensor& gradient) { return gradient; });
    expect_left_to_the_engine({with_hook * 3}, with_hook);

    const at::Tensor z = torch::ones({2}, torch::requires_grad());
    const at::Tensor retained = z * 3;
    retained.retain_grad();
    expect_left_to_the_engine({retained * 2}, z);
}

struct CountsAccumulations final : torch::autograd::PostAccumulateGradHook {
    explicit CountsAccumulations(int& count) : count_(count) {}
    void operator()(const torch::autograd::Variable&) override { ++count_; }

    int& count_;
};

TEST(GraphWalk, LeavesHooksOnAccumulatedGradientsToTheEngine) {
    int count = 0;
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    torch::autograd::impl::set_post_acc_grad_hooks(x, std::make_unique<CountsAccumulations>(count));
    expect_left_to_the_engine({x * 3}, x);
    EXPECT_EQ(count, 1);
}

/// y = x. Backward queues a callback for its end.
struct QueuesCallback : torch::autograd::Function<QueuesCallback> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, std::int64_t count) {
        context->saved_data["count"] = count;
        return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        auto* const count = reinterpret_cast<int*>(context->saved_data["count"].toInt());
        torch::autograd::Engine::get_default_engine().queue_callback([count] { ++*count; });
        return {gradients[0], at::Tensor()};
    }
};

TEST(GraphWalk, LeavesNodesThatAreNotLibTorchsToTheEngineForTheyMayQueueCallbacks) {
    int count = 0;
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    const at::Tensor y = QueuesCallback::apply(x, reinterpret_cast<std::int64_t>(&count)) * 3;
    expect_left_to_the_engine({y}, x);
    EXPECT_EQ(count, 1);
}

TEST(GraphWalk, WalksLibTorchsOwnNodes) {
    const at::Tensor x = torch::ones({2, 2}, torch::requires_grad());
    Tensors gradients{torch::ones({2, 2})};
    const at::Tensor y = torch::dropout(torch::conv1d(x.mm(x).tanh(), torch::ones({2, 2, 1})), 0.5, true);
    EXPECT_TRUE(walk_backward(edges_of({y}), gradients));
    EXPECT_TRUE(x.grad().defined());
}

TEST(GraphWalk, LeavesOtherDevicesToTheEngine) {
    const at::Tensor x = torch::ones({2}, at::TensorOptions(at::kMeta).requires_grad(true));
    expect_left_to_the_engine({x * 3}, x);
}

TEST(GraphWalk, LeavesAnomalyDetectionToTheEngine) {
    const torch::autograd::DetectAnomalyGuard anomaly;
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    expect_left_to_the_engine({x * 3}, x);
}

TEST(GraphWalk, LeavesABackwardInsideABackwardToTheEngine) {
    const at::Tensor inner = torch::ones({2}, torch::requires_grad());
    const at::Tensor outer = torch::ones({2}, torch::requires_grad());
    const at::Tensor y = outer * 3;
    int asked = 0;
    y.register_hook([&](const at::Tensor&) {
        ++asked;
        EXPECT_FALSE(walk({inner * 3}, {torch::ones({2})}));
    });
    y.backward(torch::ones({2}));
    EXPECT_EQ(asked, 1);
}
}  // namespace
}  // namespace pipescope
