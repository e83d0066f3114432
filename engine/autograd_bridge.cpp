#include "engine/autograd_bridge.h"

#include "engine/device/lane_device.h"
#include "engine/engine_error.h"
#include "engine/first_failure.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/process_end.h"
#include "engine/step/step_run.h"
#include "engine/torch_internals.h"
#include "engine/tsan_annotations.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <utility>
#include <vector>

namespace pipescope {
namespace {
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Runs the backward phase on the gradients that the gate left here.
class PipelineBackward final : public Node {
public:
    /// `edges` lead to the inputs, then to the parameters.
    PipelineBackward(std::shared_ptr<StepRun> run, torch::autograd::edge_list edges, std::vector<at::Tensor> parameters)
        : Node(std::move(edges)), run_(std::move(run)), parameters_(std::move(parameters)) {
        tsan_release(this);
    }

    /// Called on the thread of the output's device, whose current stream already waits for the gradients.
    void set_gradients(variable_list gradients) {
        tsan_acquire(this);
        for (const at::Tensor& gradient : gradients) {
            if (gradient.defined() && !gradient.is_cpu()) {
                arrived_.emplace_back(gradient.device(), StreamEvent::record(current_stream(gradient.device())));
            }
        }
        gradients_ = std::move(gradients);
        tsan_release(this);
    }

    variable_list apply(variable_list&& /*token*/) override {
        const AtWork at_work;
        tsan_acquire(this);
        refuse_chosen_gradients();
        if (!run_) {
            throw EngineError(
                "backward runs through this output a second time; a pipeline frees each micro-batch as it "
                "goes backward; call forward() again");
        }
        const std::shared_ptr<StepRun> run = std::move(run_);
        for (const auto& [device, event] : std::exchange(arrived_, {})) {
            event.block(current_stream(device));  // the lanes wait for the caller's stream
        }
        SummedForHooks summed(parameters_);
        variable_list gradients = backward_of(*run);
        for (at::Tensor& sum : summed.take()) {
            gradients.push_back(std::move(sum));
        }
        return gradients;
    }
    std::string name() const override { return "PipelineBackward"; }
    void release_variables() override {
        run_.reset();
        gradients_.clear();
    }

private:
    variable_list backward_of(StepRun& run) {
        try {
            return run.backward(std::exchange(gradients_, {}));
        } catch (...) {
            if (is_standard(std::current_exception())) {
                throw;
            }
            throw EngineError(
                "a layer threw something that is no std::exception in its backward, and torch's engine, which runs "
                "this backward(), passes on nothing else; throw a std::exception, or call step()");
        }
    }

    std::shared_ptr<StepRun> run_;  // null once used
    std::vector<at::Tensor> parameters_;
    variable_list gradients_;
    std::vector<std::pair<c10::Device, StreamEvent>> arrived_;
};

/// Takes the output's gradients on the device's autograd thread, and passes the token's on.
class OutputGate final : public Node {
public:
    OutputGate(NodePtr<PipelineBackward> pipeline, torch::autograd::edge_list token)
        : Node(std::move(token)), pipeline_(std::move(pipeline)) {
        tsan_release(this);
    }

    variable_list apply(variable_list&& gradients) override {
        tsan_acquire(this);
        if (at::GradMode::is_enabled()) {
            throw EngineError(
                "create_graph is on; a pipeline has no gradient of its gradients; turn it off, or use the "
                "plain module");
        }
        pipeline_->set_gradients(std::move(gradients));
        return {at::zeros({1})};
    }
    std::string name() const override { return "PipelineOutput"; }

private:
    NodePtr<PipelineBackward> pipeline_;
};
}  // namespace

void refuse_chosen_gradients() {
    const auto* const only_for = torch::autograd::get_current_graph_task_exec_info();
    if (only_for != nullptr && !only_for->empty()) {
        throw EngineError(
            "autograd::grad and backward(inputs) cannot pass through this pipeline, whose backward adds to every "
            "parameter's .grad; call backward() and read .grad, or use driver autograd with checkpoint never");
    }
}

Tensors attach_to_graph(std::shared_ptr<StepRun> run, const Tensors& input, std::vector<at::Tensor> parameters,
                        Tensors output) {
    torch::autograd::edge_list edges;
    for (const Tensors& tensors : {input, parameters}) {
        for (const at::Tensor& tensor : tensors) {
            edges.push_back(tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor)
                                                   : torch::autograd::Edge());
        }
    }
    const NodePtr<PipelineBackward> pipeline =
        make_node<PipelineBackward>(std::move(run), std::move(edges), std::move(parameters));
    const at::Tensor token = at::zeros({1});
    torch::autograd::set_history(token, pipeline);
    const NodePtr<> gate =
        make_node<OutputGate>(pipeline, torch::autograd::edge_list{torch::autograd::impl::gradient_edge(token)});
    for (at::Tensor& tensor : output) {
        if (tensor.requires_grad()) {
            tensor = tensor.detach();  // a leaf that requires a gradient cannot get a history
            torch::autograd::set_history(tensor, gate);
        } else {
            gate->add_input_metadata(Node::undefined_input());  // keeps positions
        }
    }
    return output;
}
}  // namespace pipescope
