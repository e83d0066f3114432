#include "engine/autograd_driver/graph_node.h"

#include "engine/gradients/gradient_needs.h"
#include "engine/lanes/process_end.h"
#include "engine/torch_internals.h"
#include "engine/tsan_annotations.h"

#include <memory>
#include <utility>

namespace pipescope {
namespace {
class FunctionNode final : public torch::autograd::Node {
public:
    FunctionNode(GraphNode functions, torch::autograd::edge_list inputs)
        : Node(std::move(inputs)), functions_(std::move(functions)) {
        tsan_release(this);
    }
    ~FunctionNode() override { tsan_acquire(this); }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        const AtWork at_work;
        tsan_acquire(this);
        torch::autograd::variable_list passed_on = functions_.backward(std::move(gradients));
        tsan_release(this);
        return passed_on;
    }
    std::string name() const override { return functions_.name; }
    void release_variables() override {
        tsan_acquire(this);
        if (functions_.release) {
            functions_.release();
        }
    }

private:
    GraphNode functions_;
};
}  // namespace

Tensors attach(GraphNode node, const Tensors& inputs, const Tensors& outputs, const std::vector<bool>& differentiable) {
    torch::autograd::edge_list edges;
    for (const at::Tensor& input : inputs) {
        edges.push_back(needs_gradient(input) ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
    }
    const NodePtr<> made = make_node<FunctionNode>(std::move(node), std::move(edges));
    Tensors attached;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        attached.push_back(outputs[k].defined() ? outputs[k].detach() : at::Tensor());
        if (differentiable[k]) {
            torch::autograd::set_history(attached.back(), made);
        } else {
            made->add_input_metadata(torch::autograd::Node::undefined_input());  // keeps positions
        }
    }
    return attached;
}

Tensors send_through(std::string name, std::function<void(const Tensors& gradients)> pass, const Tensors& tensors) {
    GraphNode node{std::move(name), [pass = std::move(pass)](Tensors gradients) {
                       pass(gradients);
                       return gradients;
                   }};
    return attach(std::move(node), tensors, tensors, gradient_needs(tensors));
}
}  // namespace pipescope
