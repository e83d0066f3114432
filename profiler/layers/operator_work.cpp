#include "profiler/layers/operator_work.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
using Values = c10::ArrayRef<const c10::IValue>;

double elements(const at::Tensor& tensor) {
    return static_cast<double>(tensor.numel());
}

const at::Tensor& tensor_at(Values values, std::size_t index) {
    return values[index].toTensor();
}

// (.., m, k) times (.., k, n), batched or not.
double product_flops(const at::Tensor& left, const at::Tensor& right) {
    return 2 * elements(left) * static_cast<double>(right.dim() > 1 ? right.size(-1) : 1);
}

double convolution_flops(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& output, bool transposed) {
    const double per_channel = elements(weight) / static_cast<double>(std::max<std::int64_t>(1, weight.size(0)));
    return 2 * elements(transposed ? input : output) * per_channel;
}

double attention_flops(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
    const double features = static_cast<double>(query.size(-1) + value.size(-1));
    return 2 * elements(query) / static_cast<double>(std::max<std::int64_t>(1, query.size(-1))) *
           static_cast<double>(key.size(-2)) * features;
}

using Formula = double (*)(Values inputs, Values outputs);

template <std::size_t left>
double product(Values inputs, Values) {
    return product_flops(tensor_at(inputs, left), tensor_at(inputs, left + 1));
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
double convolution(Values inputs, Values outputs) {
    return convolution_flops(tensor_at(inputs, 0), tensor_at(inputs, 1), tensor_at(outputs, 0), inputs[6].toBool());
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask)
double convolution_backward(Values inputs, Values) {
    const auto wanted = inputs[10].toBoolList();
    const double once =
        convolution_flops(tensor_at(inputs, 1), tensor_at(inputs, 2), tensor_at(inputs, 0), inputs[7].toBool());
    return once * ((wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0));
}

double attention(Values inputs, Values) {
    return attention_flops(tensor_at(inputs, 0), tensor_at(inputs, 1), tensor_at(inputs, 2));
}

// Five products instead of the forward's two, since the scores are recomputed.
double attention_backward(Values inputs, Values) {
    return 2.5 * attention_flops(tensor_at(inputs, 1), tensor_at(inputs, 2), tensor_at(inputs, 3));
}

const std::map<std::string_view, Formula>& formulas() {
    static const std::map<std::string_view, Formula> table = {
        {"aten::mm", &product<0>},
        {"aten::bmm", &product<0>},
        {"aten::mv", &product<0>},
        {"aten::dot", &product<0>},
        {"aten::addmm", &product<1>},
        {"aten::addmm_", &product<1>},
        {"aten::baddbmm", &product<1>},
        {"aten::baddbmm_", &product<1>},
        {"aten::addmv", &product<1>},
        {"aten::convolution", &convolution},
        {"aten::convolution_backward", &convolution_backward},
        {"aten::_scaled_dot_product_flash_attention_for_cpu", &attention},
        {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward},
    };
    return table;
}

struct Traits {
    Formula formula = nullptr;
    bool is_operator = false;    ///< a registered operator, unlike autograd's own nodes
    bool is_whole = false;       ///< counts as one operator, including any that it calls
    bool moves_nothing = false;  ///< creates a view or uninitialised memory
    bool overwrites = false;     ///< does not read its first input, which is its output
    bool has_mask = false;       ///< its last input, output_mask, selects the outputs
};

constexpr std::array<std::string_view, 7> kOverwriting = {"copy_",    "fill_",      "zero_",  "normal_",
                                                          "uniform_", "bernoulli_", "random_"};

Traits traits_of(const c10::OperatorName& name) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) {
        return {};
    }
    Traits traits;
    traits.is_operator = true;
    const auto formula = formulas().find(name.name);
    traits.formula = formula == formulas().end() ? nullptr : formula->second;
    // An operator composed of others does not have its own kernel.
    traits.is_whole = traits.formula != nullptr || op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
    const std::string_view bare = std::string_view(name.name).substr(name.name.rfind(':') + 1);
    traits.moves_nothing = bare.starts_with("empty") || bare.starts_with("new_empty") || bare.starts_with("resize") ||
                           bare.starts_with("set_");
    traits.overwrites = std::find(kOverwriting.begin(), kOverwriting.end(), bare) != kOverwriting.end();
    const std::vector<c10::Argument>& arguments = op->schema().arguments();
    traits.has_mask = !arguments.empty() && arguments.back().name() == "output_mask";
    for (const c10::Argument& result : op->schema().returns()) {
        traits.moves_nothing |= result.alias_info() != nullptr && !result.alias_info()->isWrite();
    }
    return traits;
}

/// The operators running on this thread, outermost first.
struct Running {
    struct Frame {
        const Traits* traits = nullptr;
        bool has_inner = false;  ///< an operator inside was counted
        bool is_inside = false;  ///< an enclosing operator counts as a whole
        // Inputs are copied here, since torch releases them before the operator ends.
        double input_bytes = 0;
        std::vector<const void*> input_tensors;
        std::vector<c10::IValue> inputs;  ///< only if a formula needs them
        c10::List<bool> mask;             ///< of the outputs; empty: all are needed
    };
    std::vector<Frame> frames;
    Operators done;
};
thread_local Running running_operators;

const Traits& known_traits(const c10::OperatorName& name) {
    thread_local std::unordered_map<c10::OperatorName, Traits> known;
    const auto found = known.find(name);
    return found != known.end() ? found->second : known.emplace(name, traits_of(name)).first->second;
}

double bytes_of(Values values) {
    double bytes = 0;
    for (const c10::IValue& value : values) {
        if (value.isTensor() && value.toTensor().defined()) {
            bytes += static_cast<double>(value.toTensor().nbytes());
        } else if (value.isTensorList()) {
            for (const at::Tensor& tensor : value.toTensorList()) {
                bytes += tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0;
            }
        }
    }
    return bytes;
}

// Excludes outputs that were not requested; on the meta device they are tensors too.
double output_bytes(Values outputs, const c10::List<bool>& mask) {
    double bytes = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        bytes += k < mask.size() && !mask[k] ? 0 : bytes_of(outputs.slice(k, 1));
    }
    return bytes;
}

// True if the output is the input, as for a dropout outside training.
bool only_hands_on(const std::vector<const void*>& inputs, Values outputs) {
    const auto is_input = [&](const c10::IValue& output) {
        return output.isTensor() &&
               std::find(inputs.begin(), inputs.end(), output.toTensor().unsafeGetTensorImpl()) != inputs.end();
    };
    return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), is_input);
}

bool writes_its_input(std::string_view name) {
    return name.ends_with('_');
}

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
    static const Traits kNoOperator;
    const auto name = function.operator_name();
    Running::Frame frame;
    frame.traits = name ? &known_traits(*name) : &kNoOperator;
    if (!running_operators.frames.empty()) {
        const Running::Frame& outer = running_operators.frames.back();
        frame.is_inside = outer.is_inside || outer.traits->is_whole;
    }
    if (frame.traits->is_operator && !frame.is_inside && !frame.traits->moves_nothing) {
        const Values inputs = function.inputs();
        frame.input_bytes = bytes_of(frame.traits->overwrites ? inputs.slice(1) : inputs);
        for (const c10::IValue& input : inputs) {
            if (input.isTensor()) {
                frame.input_tensors.push_back(input.toTensor().unsafeGetTensorImpl());
            }
        }
        if (frame.traits->formula != nullptr) {
            frame.inputs.assign(inputs.begin(), inputs.end());
        }
        if (frame.traits->has_mask && inputs.back().isBoolList()) {
            frame.mask = inputs.back().toBoolList();
        }
    }
    running_operators.frames.push_back(std::move(frame));
    return nullptr;
}

void ended(const at::RecordFunction& function, at::ObserverContext*) {
    if (running_operators.frames.empty()) {
        return;  // started before this count
    }
    const Running::Frame frame = std::move(running_operators.frames.back());
    running_operators.frames.pop_back();
    const Values outputs(function.outputs().data(), function.outputs().size());
    const Formula formula = frame.traits->formula;
    bool counts = frame.traits->is_operator && !frame.is_inside && !frame.traits->moves_nothing &&
                  (frame.traits->is_whole || !frame.has_inner);
    if (counts && formula == nullptr && !writes_its_input(function.name())) {
        counts = !only_hands_on(frame.input_tensors, outputs);
    }
    // An operator that throws has no outputs, for example if a hook on saved tensors throws.
    const bool has_formula = formula != nullptr && !outputs.empty();
    const double bytes = counts ? frame.input_bytes + output_bytes(outputs, frame.mask) : 0;
    counts = bytes > 0;
    if (counts) {
        running_operators.done.push_back(
            {has_formula ? formula(Values(frame.inputs.data(), frame.inputs.size()), outputs) : 0, bytes, 1});
    }
    if ((counts || frame.has_inner) && !running_operators.frames.empty()) {
        running_operators.frames.back().has_inner = true;
    }
}
}  // namespace

OperatorCount::OperatorCount() {
    running_operators = {};
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&started, &ended)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

OperatorCount::~OperatorCount() {
    at::removeCallback(handle_);
    running_operators = {};
}

Operators OperatorCount::take() {
    Operators operators;
    for (const DeviceWork& done : std::exchange(running_operators.done, {})) {
        const auto same = std::find_if(operators.begin(), operators.end(), [&](const DeviceWork& each) {
            return each.flops == each.kernels * done.flops && each.bytes_moved == each.kernels * done.bytes_moved;
        });
        if (same == operators.end()) {
            operators.push_back(done);
        } else {
            *same = {same->flops + done.flops, same->bytes_moved + done.bytes_moved, same->kernels + done.kernels};
        }
    }
    return operators;
}

double total_flops(const Operators& work) {
    double flops = 0;
    for (const DeviceWork& each : work) {
        flops += each.flops;
    }
    return flops;
}
}  // namespace pipescope
