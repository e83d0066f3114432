#include "engine/gradients/micro_batch_graph.h"

#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/graph_walk.h"
#include "engine/tensor_state.h"
#include "engine/torch_internals.h"
#include "engine/tsan_annotations.h"

#include <algorithm>
#include <iterator>
#include <typeinfo>
#include <utility>

namespace pipescope {
/// The node before a partition's inputs: keeps their gradients.
class GradientCatcher final : public torch::autograd::Node {
public:
    GradientCatcher() { tsan_release(this); }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
        tsan_acquire(this);
        if (num_outputs() > 0) {
            throw EngineError(
                "the loss takes a gradient of the model's output with respect to the model's input; it sees the graph "
                "of the loss only, so the part that goes through the layers would be missing; take such gradients in "
                "a layer, or of the output of forward() with driver autograd and checkpoint never");
        }
        if (!awaits_) {
            throw EngineError(
                "a layer carries a tensor that requires a gradient from one micro-batch or step to another; each goes "
                "backward by itself, so a gradient would get lost; detach() what a layer keeps, or use chunks 1");
        }
        gradients_ = std::move(gradients);
        tsan_release(this);
        return {};
    }
    std::string name() const override { return "PartitionInput"; }

    void await() {
        awaits_ = true;
        tsan_release(this);
    }
    Tensors take() {
        tsan_acquire(this);
        awaits_ = false;
        gradients_.resize(num_inputs());  // if no gradient came
        return std::exchange(gradients_, {});
    }

private:
    Tensors gradients_;
    bool awaits_ = false;  // true while its own micro-batch goes backward
};

namespace {
/// Runs before a gradient of a partition's input is taken while the partition still goes forward.
struct RefuseGradients final : torch::autograd::FunctionPreHook {
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& /*gradients*/) override {
        throw EngineError(
            "a layer, or the loss, takes a gradient with respect to one of several tensors that an earlier partition "
            "returned; the others may depend on it, which the graph of this partition does not tell, so the gradient "
            "could lack a part; move the cut so that the layers between are in one partition");
    }
};

const bool catchers_may_be_walked = (allow_walk(typeid(GradientCatcher)), true);
}  // namespace

struct MicroBatchGraph::Ends {
    struct Output {
        NodePtr<> node;  // null if the output needs no gradient
        std::uint32_t number;
    };
    NodePtr<GradientCatcher> inputs;  // null once its gradients were taken
    std::vector<Output> outputs = {};
    std::uint64_t hooks_before = num_saved_tensor_hooks();  // when it was opened
    Runner runner = Runner::walk_if_possible;
};

MicroBatchGraph::MicroBatchGraph() = default;
MicroBatchGraph::~MicroBatchGraph() = default;
MicroBatchGraph::MicroBatchGraph(MicroBatchGraph&&) noexcept = default;
MicroBatchGraph& MicroBatchGraph::operator=(MicroBatchGraph&&) noexcept = default;

Tensors MicroBatchGraph::open(const Tensors& inputs, InputsFrom from) {
    return open(inputs, from, {});
}

Tensors MicroBatchGraph::open(const Tensors& inputs, InputsFrom from, std::vector<torch::autograd::Edge> sources) {
    ends_ = std::make_unique<Ends>(Ends{make_node<GradientCatcher>()});
    const NodePtr<GradientCatcher>& catcher = ends_->inputs;
    for (torch::autograd::Edge& edge : sources) {
        catcher->add_next_edge(std::move(edge));  // before anything leads here, as torch demands
    }
    Tensors opened;
    opened.reserve(inputs.size());
    for (const at::Tensor& input : inputs) {
        if (needs_gradient(input)) {
            opened.push_back(input.detach());
            torch::autograd::set_history(opened.back(), catcher);
        } else {
            opened.push_back(input);
            catcher->add_input_metadata(torch::autograd::Node::undefined_input());  // keeps positions
        }
    }
    if (from == InputsFrom::earlier_partition && std::ranges::count_if(inputs, needs_gradient) > 1) {
        catcher->add_tensor_pre_hook(std::make_unique<RefuseGradients>());
    }
    return opened;
}

void MicroBatchGraph::close(const Tensors& outputs) {
    if (num_saved_tensor_hooks() != ends_->hooks_before) {
        ends_->runner = Runner::torch_engine;
    }
    GradientCatcher& catcher = *ends_->inputs;
    catcher.next_edges().clear();
    if (!catcher.tensor_pre_hooks().empty()) {  // other hooks are a layer's own
        std::erase_if(catcher.tensor_pre_hooks(),
                      [](const auto& hook) { return dynamic_cast<const RefuseGradients*>(hook.get()) != nullptr; });
    }
    ends_->outputs.clear();
    ends_->outputs.reserve(outputs.size());
    for (const at::Tensor& output : outputs) {
        if (needs_gradient(output)) {
            torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(output);
            ends_->outputs.push_back({std::move(edge.function), edge.input_nr});
        } else {
            ends_->outputs.push_back({{}, 0});
        }
    }
}

/// `run` takes the ends and their gradients.
template <class Run>
Tensors MicroBatchGraph::backward_with(Tensors gradients, const Run& run) {
    torch::autograd::edge_list ends;
    torch::autograd::variable_list end_gradients;
    std::vector<Ends::Output>& outputs = ends_->outputs;
    for (std::size_t k = 0; k < outputs.size() && k < gradients.size(); ++k) {
        if (outputs[k].node && gradients[k].defined()) {
            ends.emplace_back(std::move(outputs[k].node), outputs[k].number);
            end_gradients.push_back(std::move(gradients[k]));
        }
    }
    outputs.clear();
    gradients.clear();
    ends_->inputs->await();
    if (!ends.empty()) {
        run(ends, end_gradients);
    }
    return std::exchange(ends_->inputs, {})->take();
}

Tensors MicroBatchGraph::backward(Tensors gradients) {
    // Not torch::autograd::backward(), which needs the output tensors; those are gone.
    return backward_with(std::move(gradients), [runner = ends_->runner](const auto& ends, Tensors& of_ends) {
        run_backward(ends, std::move(of_ends), runner);
    });
}

Tensors MicroBatchGraph::backward_inputs(Tensors gradients, const LayerMarks& marks, SplitNotes& notes) {
    if (ends_->runner == Runner::torch_engine) {
        return backward(std::move(gradients));
    }
    return backward_with(std::move(gradients), [&](torch::autograd::edge_list& ends, Tensors& of_ends) {
        run_input_half(ends, of_ends, ends_->inputs.get(), marks, notes);
        for (torch::autograd::Edge& end : ends) {
            ends_->outputs.push_back({std::move(end.function), end.input_nr});
        }
        weight_gradients_ = std::move(of_ends);
        weight_versions_.clear();
        std::ranges::transform(weight_gradients_, std::back_inserter(weight_versions_), version_of);
    });
}

void MicroBatchGraph::backward_weights(std::uint64_t from) {
    torch::autograd::edge_list ends;
    Tensors gradients;
    for (std::size_t k = 0; k < ends_->outputs.size(); ++k) {
        auto& [node, number] = ends_->outputs[k];
        if (node && node->sequence_nr() >= from) {
            if (version_of(weight_gradients_[k]) != weight_versions_[k]) {
                throw EngineError("a gradient that " + node->name() +
                                  " keeps for the second half of its backward was changed in place after the first, as "
                                  "by a backward that fills one buffer each time; return a new tensor, as clone() "
                                  "makes one, or use a schedule that does not split the backward");
            }
            ends.emplace_back(std::move(node), number);
            gradients.push_back(std::move(weight_gradients_[k]));
        }
    }
    if (!ends.empty()) {
        run_backward(ends, std::move(gradients));
    }
}
}  // namespace pipescope
