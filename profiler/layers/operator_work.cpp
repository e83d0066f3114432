#include "profiler/layers/operator_work.h"

#include "profiler/layers/operator_chains.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
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

/// The operations, and the shape if the operator is a product or attention.
struct Counted {
    double flops = 0;
    decltype(DeviceWork::shape) shape = {};
};
using Formula = Counted (*)(Values inputs, Values outputs);

double size_from_end(const at::Tensor& tensor, std::int64_t dimension) {
    return tensor.dim() >= dimension ? static_cast<double>(tensor.size(-dimension)) : 1;
}

template <std::size_t left>
Counted product(Values inputs, Values) {
    const at::Tensor& first = tensor_at(inputs, left);
    const at::Tensor& second = tensor_at(inputs, left + 1);
    ProductShape shape;
    shape.batch = first.dim() > 2 ? static_cast<double>(first.size(0)) : 1;
    shape.m = first.dim() > 1 ? size_from_end(first, 2) : 1;
    shape.n = second.dim() > 1 ? size_from_end(second, 1) : 1;
    shape.k = size_from_end(first, 1);
    return {product_flops(first, second), shape};
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Counted convolution(Values inputs, Values outputs) {
    return {convolution_flops(tensor_at(inputs, 0), tensor_at(inputs, 1), tensor_at(outputs, 0), inputs[6].toBool())};
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask)
Counted convolution_backward(Values inputs, Values) {
    const auto wanted = inputs[10].toBoolList();
    const double once =
        convolution_flops(tensor_at(inputs, 1), tensor_at(inputs, 2), tensor_at(inputs, 0), inputs[7].toBool());
    return {once * ((wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0))};
}

AttentionShape attention_shape(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               bool is_causal) {
    AttentionShape shape;
    shape.width = size_from_end(query, 1);
    shape.queries = size_from_end(query, 2);
    shape.keys = size_from_end(key, 2);
    shape.heads = elements(query) / std::max(1.0, shape.width * shape.queries);
    shape.value_width = size_from_end(value, 1);
    shape.pairs = is_causal ? 0.5 : 1;
    return shape;
}

// attention(query, key, value, dropout, is_causal, ..)
Counted attention(Values inputs, Values) {
    const at::Tensor& query = tensor_at(inputs, 0);
    const at::Tensor& key = tensor_at(inputs, 1);
    const at::Tensor& value = tensor_at(inputs, 2);
    return {attention_flops(query, key, value), attention_shape(query, key, value, inputs[4].toBool())};
}

// Five products instead of the forward's two, since the scores are recomputed.
// attention_backward(grad, query, key, value, output, sums, dropout, is_causal, ..)
Counted attention_backward(Values inputs, Values) {
    const at::Tensor& query = tensor_at(inputs, 1);
    const at::Tensor& key = tensor_at(inputs, 2);
    const at::Tensor& value = tensor_at(inputs, 3);
    AttentionShape shape = attention_shape(query, key, value, inputs[7].toBool());
    shape.is_backward = true;
    return {2.5 * attention_flops(query, key, value), shape};
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
    bool looks_up = false;       ///< reads rows of its first input
    bool fuses = true;           ///< a compiler makes it one kernel with others
    enum class Loss { none, log_softmax, log_softmax_backward, picks };  ///< `picks`: each sample's class
    Loss loss = Loss::none;  ///< part of a cross entropy that the operator may be
};

constexpr std::array<std::string_view, 7> kOverwriting = {"copy_",    "fill_",      "zero_",  "normal_",
                                                          "uniform_", "bernoulli_", "random_"};
constexpr std::array<std::string_view, 5> kLookUps = {"embedding", "index_select", "index", "gather", "take"};
// Words of operators whose elements need more of an input than its rows, or that write to places that depend on values.
// Backends and variants put words before and after them, as in cudnn_batch_norm, _adaptive_avg_pool2d and _unique2.
constexpr std::array<std::string_view, 18> kUnfused = {
    "sort",          "topk",      "cumsum",    "cumprod",
    "scatter",       "index_add", "index_put", "embedding_dense_backward",
    "embedding_bag", "nonzero",   "unique",    "multinomial",
    "batch_norm",    "max_pool",  "avg_pool",  "upsample",
    "grid_sampler",  "fft"};
// Operators with such words that write where no value decides, or only sum.
constexpr std::array<std::string_view, 5> kFusedAnyway = {"select_scatter", "slice_scatter", "diagonal_scatter",
                                                          "as_strided_scatter", "count_nonzero"};

/// True if the words stand in the name, at the beginning of one of its own words.
bool has_words(std::string_view name, std::string_view words) {
    for (std::size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
        if (at == 0 || name[at - 1] == '_') {
            return true;
        }
    }
    return false;
}

bool is_one_of(const auto& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

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
    traits.overwrites = is_one_of(kOverwriting, bare);
    traits.looks_up = is_one_of(kLookUps, bare);
    traits.fuses = traits.formula == nullptr &&
                   (is_one_of(kFusedAnyway, bare) ||
                    std::ranges::none_of(kUnfused, [&](std::string_view each) { return has_words(bare, each); }));
    traits.loss = bare == "_log_softmax"                 ? Traits::Loss::log_softmax
                  : bare == "_log_softmax_backward_data" ? Traits::Loss::log_softmax_backward
                  : bare.starts_with("nll_loss")         ? Traits::Loss::picks
                                                         : Traits::Loss::none;
    const std::vector<c10::Argument>& arguments = op->schema().arguments();
    traits.has_mask = !arguments.empty() && arguments.back().name() == "output_mask";
    for (const c10::Argument& result : op->schema().returns()) {
        traits.moves_nothing |= result.alias_info() != nullptr && !result.alias_info()->isWrite();
    }
    return traits;
}

/// What the operators read and wrote: the record for chains, and which value each storage has now.
class Recording {
public:
    /// What an operator reads of a tensor; nothing if the tensor has no storage.
    std::optional<OperatorRecord::Read> read_of(const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.has_storage()) {
            return std::nullopt;
        }
        const std::size_t value = known(tensor.storage(), bytes_in(tensor.storage())).value;
        return OperatorRecord::Read{value, std::min(static_cast<double>(tensor.nbytes()), record_.values[value].bytes)};
    }
    /// `logits`: elements of the first input, if the operator is a logarithm of a softmax.
    void add(OperatorRecord::Operator done, Traits::Loss loss, double logits, Values outputs,
             const c10::List<bool>& mask) {
        done.part = parts_;
        const Source source = source_of(done, loss, logits);
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            if (k < mask.size() && !mask[k]) {
                continue;
            }
            for_each_tensor(outputs[k], [&](const at::Tensor& tensor) { write(done, tensor); });
        }
        for (const OperatorRecord::Write& write : done.writes) {
            sources_.emplace(write.value, source);
        }
        record_.operators.push_back(std::move(done));
    }
    void end_part() { ++parts_; }
    void keep(const std::vector<at::Tensor>& tensors) {
        for (const at::Tensor& tensor : tensors) {
            if (const auto read = read_of(tensor)) {
                record_.values[read->value].is_result = true;
            }
        }
    }
    std::vector<Operators> chains() const {
        OperatorRecord record = record_;
        for (const auto& [storage, known] : known_) {
            record.values[known.value].is_result |= known.weak.use_count() > 0;
        }
        return fused_chains(record, parts_);
    }

    static void for_each_tensor(const c10::IValue& value, const auto& call) {
        if (value.isTensor()) {
            call(value.toTensor());
        } else if (value.isTensorList()) {
            for (const at::Tensor& tensor : value.toTensorList()) {
                call(tensor);
            }
        }
    }

private:
    /// A storage, which does not keep its bytes, but whose address no other gets.
    struct Known {
        c10::weak_intrusive_ptr<c10::StorageImpl> weak;
        std::size_t value = 0;
    };
    /// What a value is computed from, as far as a cross entropy may be recognised by it.
    struct Source {
        std::optional<std::size_t> log_softmax;  ///< operator
        double logits = 0;                       ///< of that operator
        bool is_picked = false;                  ///< the gradient of picked classes
    };
    /// The source of what the operator writes. A logarithm of a softmax is part of a cross entropy if classes are
    /// picked from what it computes, and so is its backward if its gradient comes from there. Sets their `logits`.
    Source source_of(OperatorRecord::Operator& done, Traits::Loss loss, double logits) {
        Source source;
        for (const OperatorRecord::Read& read : done.reads) {
            const auto known = sources_.find(read.value);
            if (known == sources_.end()) {
                continue;
            }
            source.is_picked |= known->second.is_picked;
            if (known->second.log_softmax) {
                source.log_softmax = known->second.log_softmax;
                source.logits = known->second.logits;
            }
        }
        switch (loss) {
            case Traits::Loss::none: return done.flops > 0 || !done.fuses ? Source() : source;
            case Traits::Loss::log_softmax: return {record_.operators.size(), logits, false};
            case Traits::Loss::log_softmax_backward: done.logits = source.is_picked ? logits : 0; return {};
            case Traits::Loss::picks: break;
        }
        if (source.log_softmax) {
            record_.operators[*source.log_softmax].logits = source.logits;
        }
        return {{}, 0, true};
    }
    static double bytes_in(const c10::Storage& storage) { return static_cast<double>(storage.nbytes()); }
    std::size_t new_value(double bytes) {
        record_.values.push_back({bytes});
        return record_.values.size() - 1;
    }
    Known& known(const c10::Storage& storage, double bytes) {
        const auto found = known_.find(storage.unsafeGetStorageImpl());
        if (found != known_.end()) {
            return found->second;
        }
        return known_.emplace(storage.unsafeGetStorageImpl(), Known{storage.getWeakStorageImpl(), new_value(bytes)})
            .first->second;
    }
    void write(OperatorRecord::Operator& done, const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.has_storage()) {
            return;
        }
        const double whole = bytes_in(tensor.storage());
        const double bytes = std::min(whole, static_cast<double>(tensor.nbytes()));
        const auto before = known_.find(tensor.storage().unsafeGetStorageImpl());
        if (before != known_.end() && bytes < whole) {  // the rest stays as it was
            record_.values[before->second.value].is_result = true;
        }
        Known& now = known(tensor.storage(), whole);
        now.value = new_value(whole);
        done.writes.push_back({now.value, bytes});
    }

    OperatorRecord record_;
    std::unordered_map<std::size_t, Source> sources_;  // by value
    std::size_t parts_ = 0;
    std::unordered_map<const c10::StorageImpl*, Known> known_;
};

/// The operators running on this thread, outermost first.
struct Running {
    struct Frame {
        const Traits* traits = nullptr;
        bool has_inner = false;  ///< an operator inside was counted
        bool is_inside = false;  ///< an enclosing operator counts as a whole
        // Inputs are copied here, since torch releases them before the operator ends.
        double table_bytes = 0;  ///< of an input in which rows are looked up
        double input_bytes = 0;  ///< of the others
        double first_elements = 0;
        std::vector<const void*> input_tensors;
        std::vector<OperatorRecord::Read> reads;
        std::vector<c10::IValue> inputs;  ///< only if a formula needs them
        c10::List<bool> mask;             ///< of the outputs; empty: all are needed
    };
    std::vector<Frame> frames;
    Operators done;
    Recording recording;
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
        const bool skips_first = frame.traits->overwrites || frame.traits->looks_up;
        frame.input_bytes = bytes_of(skips_first ? inputs.slice(1) : inputs);
        frame.table_bytes = frame.traits->looks_up ? bytes_of(inputs.slice(0, 1)) : 0;
        for (std::size_t k = 0; k < inputs.size(); ++k) {
            if (inputs[k].isTensor()) {
                frame.input_tensors.push_back(inputs[k].toTensor().unsafeGetTensorImpl());
            }
            Recording::for_each_tensor(inputs[k], [&](const at::Tensor& tensor) {
                if (const auto read = running_operators.recording.read_of(tensor);
                    read && !(k == 0 && frame.traits->overwrites)) {
                    frame.reads.push_back(*read);
                }
            });
        }
        if (frame.traits->loss != Traits::Loss::none && inputs[0].isTensor()) {
            frame.first_elements = elements(inputs[0].toTensor());
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
    const double written = counts ? output_bytes(outputs, frame.mask) : 0;
    const double bytes = counts ? frame.input_bytes + std::min(frame.table_bytes, written) + written : 0;
    counts = bytes > 0;
    if (counts) {
        const Counted counted =
            has_formula ? formula(Values(frame.inputs.data(), frame.inputs.size()), outputs) : Counted{};
        running_operators.done.push_back({counted.flops, bytes, 1, counted.shape});
        OperatorRecord::Operator done{
            .fuses = frame.traits->fuses, .flops = counted.flops, .bytes = bytes, .reads = frame.reads};
        if (frame.traits->looks_up && !done.reads.empty()) {
            done.reads.front().bytes = std::min(done.reads.front().bytes, written);
        }
        running_operators.recording.add(std::move(done), frame.traits->loss, frame.first_elements, outputs, frame.mask);
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
    running_operators.recording.end_part();
    return merged(std::exchange(running_operators.done, {}));
}

void OperatorCount::keep(const std::vector<at::Tensor>& tensors) {
    running_operators.recording.keep(tensors);
}

std::vector<Operators> OperatorCount::chains() const {
    return running_operators.recording.chains();
}

double total_flops(const Operators& work) {
    double flops = 0;
    for (const DeviceWork& each : work) {
        flops += each.flops;
    }
    return flops;
}
}  // namespace pipescope
