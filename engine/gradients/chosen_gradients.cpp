#include "engine/gradients/chosen_gradients.h"

#include "engine/engine_error.h"

#include <torch/csrc/autograd/graph_task.h>

namespace pipescope {
void refuse_chosen_gradients() {
    const auto* const only_for = torch::autograd::get_current_graph_task_exec_info();
    if (only_for != nullptr && !only_for->empty()) {
        throw EngineError(
            "autograd::grad and backward(inputs) cannot pass through this pipeline, whose backward adds to every "
            "parameter's .grad; call backward() and read .grad, or use driver autograd with checkpoint never");
    }
}
}  // namespace pipescope
