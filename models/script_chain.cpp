#include "models/script_chain.h"

#include "base/quantities.h"
#include "models/user_model.h"

#include <torch/script.h>

#include <algorithm>
#include <string>

namespace pipescope {
namespace {
[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw UserModelError("'" + path + "' is not a Sequential: " + what +
                         "; its forward must pass the input through its children one by one, so that it can be cut; "
                         "save a torch.nn.Sequential");
}

/// Name of the child that a node calls, or empty: %child = prim::GetAttr[name](%self), then
/// prim::CallMethod[forward](%child, %previous).
std::string called_child(const torch::jit::Node& node, const torch::jit::Value& self,
                         const torch::jit::Value& previous) {
    if (node.kind() != c10::prim::CallMethod || node.s(c10::attr::name) != "forward" || node.inputs().size() != 2 ||
        node.inputs()[1] != &previous) {
        return {};
    }
    const torch::jit::Node& child = *node.inputs()[0]->node();
    return child.kind() == c10::prim::GetAttr && child.inputs()[0] == &self ? child.s(c10::attr::name) : std::string{};
}

/// Describes a node that is not a call of a child's forward.
std::string action_of(const torch::jit::Node& node) {
    if (node.kind() == c10::prim::CallFunction) {
        const torch::jit::Node& function = *node.inputs()[0]->node();
        return "calls the function " +
               (function.hasAttribute(c10::attr::name) ? function.s(c10::attr::name) : "(unnamed)");
    }
    if (node.kind() == c10::prim::CallMethod) {
        const std::string method = node.s(c10::attr::name);
        return method == "forward" ? "calls a child with something other than the result of the previous one"
                                   : "calls the method " + method;
    }
    return std::string("does ") + node.kind().toQualString();
}

std::vector<std::string> children_in_order(const torch::jit::Graph& graph, const std::string& path) {
    if (graph.inputs().size() != 2 || graph.outputs().size() != 1) {
        refuse(path, "forward takes " + counted(graph.inputs().size() - 1, "input", "inputs") + " and gives " +
                         counted(graph.outputs().size(), "result", "results"));
    }
    const torch::jit::Value& self = *graph.inputs()[0];
    const torch::jit::Value* previous = graph.inputs()[1];
    std::vector<std::string> names;
    for (const torch::jit::Node* const node : graph.nodes()) {
        if (node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::Constant) {
            continue;
        }
        const std::string name = called_child(*node, self, *previous);
        if (name.empty()) {
            refuse(path, "forward " + action_of(*node) + " besides calling its children");
        }
        if (std::find(names.begin(), names.end(), name) != names.end()) {
            refuse(path, "forward calls its child '" + name + "' twice");
        }
        names.push_back(name);
        previous = node->output();
    }
    if (names.empty() || graph.outputs()[0] != previous) {
        refuse(path, names.empty() ? "forward calls no child" : "forward does not return the result of its last child");
    }
    return names;
}
}  // namespace

ScriptChildren script_chain(const torch::jit::Module& module, const std::string& path) {
    const auto forward = module.find_method("forward");
    if (!forward) {
        refuse(path, "it has no forward");
    }
    ScriptChildren children;
    for (const std::string& name : children_in_order(*forward->graph(), path)) {
        children.emplace_back(name, module.attr(name).toModule());
    }
    for (const auto& child : module.named_children()) {
        const bool called =
            std::any_of(children.begin(), children.end(), [&](const auto& each) { return each.first == child.name; });
        if (!called && child.value.parameters().size() > 0) {
            refuse(path, "forward does not call its child '" + child.name + "', which has parameters");
        }
    }
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
        refuse(path, "it has a parameter of its own, '" + parameter.name + "'");
    }
    return children;
}
}  // namespace pipescope
