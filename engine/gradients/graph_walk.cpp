#include "engine/gradients/graph_walk.h"

#include "engine/gradients/leaf_gradients.h"

#include <ATen/core/grad_mode.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::InputBuffer;
using torch::autograd::Node;

bool has_hooks(Node& node) {
    return has_pre_hooks(node) || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
           !node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr;
}

/// The shared library or program that contains an address.
const void* module_of(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// Types outside LibTorch that do not need the engine. Process-wide, as types are.
struct WalkedTypes {
    std::mutex mutex;
    std::unordered_set<std::type_index> types;
};
WalkedTypes& walked_types() {
    static WalkedTypes one;
    return one;
}
bool is_walked_type(const std::type_info& type) {
    const std::lock_guard lock(walked_types().mutex);
    return walked_types().types.contains(type);
}

/// False for users' nodes: a torch::autograd::Function is a type of theirs.
bool may_walk(const Node& node) {
    thread_local std::unordered_map<const std::type_info*, bool> known;
    const std::type_info& type = typeid(node);
    const auto [found, is_new] = known.try_emplace(&type);
    if (is_new) {
        static const void* const libtorch =
            module_of(reinterpret_cast<const void*>(&torch::autograd::Engine::get_default_engine));
        found->second = module_of(&type) == libtorch || is_walked_type(type);
    }
    return found->second;
}

class GraphWalk {
public:
    /// Finds the nodes behind `ends`; returns false if one of them needs the engine.
    bool find_nodes(const edge_list& ends);
    void run(const edge_list& ends, Tensors& gradients);

private:
    struct Visit {
        Node* node;
        int missing = 0;  ///< edges without a gradient so far
        std::optional<InputBuffer> inputs = {};
    };
    struct IsCreatedEarlier {
        bool operator()(const Visit* one, const Visit* other) const {
            return one->node->sequence_nr() < other->node->sequence_nr();
        }
    };

    bool count(const Edge& edge);
    void deliver(const Edge& edge, at::Tensor gradient);
    void run(Visit& visit);

    std::unordered_map<Node*, Visit> visits_;
    std::vector<Node*> found_;  // nodes whose edges are still to follow
    std::priority_queue<Visit*, std::vector<Visit*>, IsCreatedEarlier> ready_;
};

bool GraphWalk::find_nodes(const edge_list& ends) {
    for (const Edge& end : ends) {
        if (!count(end)) {
            return false;
        }
    }
    while (!found_.empty()) {
        const Node* const node = found_.back();
        found_.pop_back();
        for (const Edge& edge : node->next_edges()) {
            if (edge.is_valid() && !count(edge)) {
                return false;
            }
        }
    }
    return true;
}

bool GraphWalk::count(const Edge& edge) {
    Node* const node = edge.function.get();
    const auto [visit, is_new] = visits_.try_emplace(node, Visit{node});
    ++visit->second.missing;
    if (is_new) {
        found_.push_back(node);
    }
    return !is_new || (node->device().is_cpu() && !has_hooks(*node) && may_walk(*node));
}

void GraphWalk::run(const edge_list& ends, Tensors& gradients) {
    torch::autograd::validate_outputs(ends, gradients, [](const std::string& what) { return what; });
    for (std::size_t k = 0; k < ends.size(); ++k) {
        deliver(ends[k], std::move(gradients[k]));
    }
    gradients.clear();
    while (!ready_.empty()) {
        Visit& visit = *ready_.top();
        ready_.pop();
        run(visit);
    }
}

void GraphWalk::deliver(const Edge& edge, at::Tensor gradient) {
    Visit& visit = visits_.at(edge.function.get());
    if (!visit.inputs) {
        visit.inputs.emplace(visit.node->num_inputs());
    }
    visit.inputs->add(edge.input_nr, std::move(gradient), std::nullopt, std::nullopt, visit.node);
    if (--visit.missing == 0) {
        ready_.push(&visit);
    }
}

void GraphWalk::run(Visit& visit) {
    Node& node = *visit.node;
    Tensors inputs = std::move(std::exchange(visit.inputs, std::nullopt)->buffer);
    own_leaf_gradient(node, inputs);
    node.will_release_variables();
    Tensors outputs = node(std::move(inputs));
    inputs.clear();  // so that a gradient held only by this node may be added to in place
    torch::autograd::validate_outputs(node.next_edges(), outputs, [&node](const std::string& what) {
        return "Function " + node.name() + " returned an " + what;
    });
    node.release_variables();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (node.next_edge(k).is_valid()) {
            deliver(node.next_edge(k), std::move(outputs[k]));
        }
    }
}
}  // namespace

void allow_walk(const std::type_info& node) {
    const std::lock_guard lock(walked_types().mutex);
    walked_types().types.insert(node);
}

bool walk_backward(const edge_list& ends, Tensors& gradients) {
    if (torch::autograd::AnomalyMode::is_enabled() || torch::autograd::get_current_graph_task_exec_info() != nullptr) {
        return false;
    }
    GraphWalk walk;
    if (!walk.find_nodes(ends)) {
        return false;
    }
    const at::AutoGradMode no_graph_of_gradients(false);
    walk.run(ends, gradients);
    return true;
}

void run_backward(const edge_list& ends, Tensors gradients) {
    if (!walk_backward(ends, gradients)) {
        own_leaf_gradients(ends, nullptr);
        torch::autograd::Engine::get_default_engine().execute(ends, gradients, /*keep_graph=*/false,
                                                              /*create_graph=*/false, /*accumulate_grad=*/true);
    }
}
}  // namespace pipescope
