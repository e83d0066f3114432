// A TorchScript file as a model. The file is read once. Each layer is a deep copy of one child, since layers are
// created repeatedly: for the profile, for the plain model and for each lane's partition.

#include "engine/current_task.h"
#include "engine/gradients/leaf_gradients.h"
#include "models/made_up_data.h"
#include "models/model_files.h"
#include "models/script_chain.h"
#include "models/script_options.h"
#include "models/user_model.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
// Number of forms of the made-up target; each sample shows which one to predict.
constexpr std::int64_t kKinds = 16;
constexpr std::uint64_t kTargetSeed = 2;

class ScriptLayer final : public Layer {
public:
    explicit ScriptLayer(torch::jit::Module module) : module_(std::move(module)) {}

    Tensors forward(const Tensors& inputs) override {
        // TorchScript's optimiser specialises a function over its first calls. It would treat checkpointed and
        // recomputed forwards differently, so times and rounding would depend on the call order.
        const torch::jit::GraphOptimizerEnabledGuard plain(false);
        if (!is_recomputing()) {
            return unpacked(module_.get_method("forward")({packed(inputs)}));
        }
        const struct PutBack {
            State state;
            ~PutBack() { state.put_back(); }
        } before{State(module_)};
        if (const auto former = std::exchange(recompute_with_, nullptr); former) {
            former->put_back();
        }
        return unpacked(module_.get_method("forward")({packed(inputs)}));
    }
    NamedTensors parameters() const override { return listed(module_.named_parameters()); }
    NamedTensors buffers() const override { return listed(module_.named_buffers()); }
    HeldBuffers hold_buffers() override {
        if (held_ == nullptr || !held_->is_current()) {
            held_ = std::make_shared<const State>(module_);
        }
        return held_;
    }
    void recompute_with(HeldBuffers buffers) override {
        recompute_with_ = std::static_pointer_cast<const State>(std::move(buffers));
    }
    at::Tensor keeper_of(const at::Tensor& output) const override {
        for (const c10::IValue& value : module_.attributes()) {
            if (value.isTensor() && share_storage(value.toTensor(), output)) {
                return value.toTensor();
            }
        }
        return {};
    }
    void train(bool on) override { module_.train(on); }
    void to(at::ScalarType dtype) override {
        for (const NamedTensors& tensors : {parameters(), buffers()}) {
            for (const auto& [name, tensor] : tensors) {
                if (tensor.defined() && tensor.is_floating_point()) {
                    tensor.set_data(tensor.to(dtype));
                }
            }
        }
    }

private:
    /// The values of a script's attributes, buffers included, without parameters that train.
    class State {
    public:
        explicit State(const torch::jit::Module& module) {
            for (const torch::jit::Module& each : module.modules()) {
                const auto object = each._ivalue();
                for (std::size_t k = 0; k < object->type()->numAttributes(); ++k) {
                    const c10::IValue& value = object->getSlot(k);
                    const bool trains = object->type()->is_parameter(k) && value.isTensor() &&
                                        value.toTensor().defined() && value.toTensor().requires_grad();
                    if (!trains && !value.isObject()) {
                        values_.push_back({object, k, value});
                    }
                }
            }
        }
        bool is_current() const {
            return std::all_of(values_.begin(), values_.end(),
                               [](const Value& each) { return each.owner->getSlot(each.slot).is(each.value); });
        }
        void put_back() const {
            for (const Value& each : values_) {
                each.owner->setSlot(each.slot, each.value);
            }
        }

    private:
        struct Value {
            c10::intrusive_ptr<c10::ivalue::Object> owner;
            std::size_t slot;
            c10::IValue value;
        };
        std::vector<Value> values_;
    };

    template <class List>
    static NamedTensors listed(const List& list) {
        NamedTensors tensors;
        for (const auto& item : list) {
            tensors.emplace_back(item.name, item.value);
        }
        return tensors;
    }

    c10::IValue packed(const Tensors& inputs) const {
        if (inputs.size() == 1) {
            return inputs[0];
        }
        return c10::ivalue::Tuple::create(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
    }

    static Tensors unpacked(const c10::IValue& value) {
        if (value.isTensor()) {
            return {value.toTensor()};
        }
        if (value.isTensorList()) {
            return value.toTensorVector();
        }
        Tensors outputs;
        if (value.isTuple()) {
            for (const c10::IValue& element : value.toTupleRef().elements()) {
                if (!element.isTensor()) {
                    throw UserModelError("a layer returns a tuple that holds " + element.tagKind() +
                                         "; layers exchange only tensors; return tensors only");
                }
                outputs.push_back(element.toTensor());
            }
            return outputs;
        }
        throw UserModelError("a layer returns " + value.tagKind() +
                             "; layers exchange a tensor, a tuple or a list of tensors; return one of them");
    }

    torch::jit::Module module_;
    std::shared_ptr<const State> held_;
    std::shared_ptr<const State> recompute_with_;
};

/// The first informative line of one of torch's errors.
std::string first_line(const std::exception& error) {
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    const std::size_t begin = std::min(text.find_first_not_of("\n"), text.size());
    return text.substr(begin, text.find('\n', begin) - begin);
}

torch::jit::Module load_script(const std::string& path) {
    if (!std::filesystem::is_regular_file(path)) {
        throw UserModelError("'" + path +
                             "' is not a file; a model ending in .pt is a TorchScript file; check the path");
    }
    try {
        return torch::jit::load(path, at::kCPU);
    } catch (const std::exception& error) {  // a damaged pickle also gives exceptions other than c10::Error
        throw UserModelError("'" + path + "' is not a TorchScript file: " + first_line(error) +
                             "; write it by torch.jit.script(model).save(), not by torch.save()");
    }
}

/// A tensor shared by two layers would become two tensors when copied.
void refuse_shared_parameters(const ScriptChildren& children, const std::string& path) {
    std::map<const void*, std::string> owners;
    for (const auto& [name, child] : children) {
        for (const at::Tensor& parameter : child.parameters()) {
            const auto [owner, is_new] = owners.emplace(parameter.unsafeGetTensorImpl(), name);
            if (!is_new && owner->second != name) {
                throw UserModelError("'" + path + "' shares a parameter between its children '" + owner->second +
                                     "' and '" + name +
                                     "'; layers may be cut apart, so each has its own; untie them before saving");
            }
        }
    }
}

void refuse_nothing_to_train(const torch::jit::Module& module, const std::string& path) {
    for (const at::Tensor& parameter : module.parameters()) {
        if (parameter.requires_grad()) {
            return;
        }
    }
    throw UserModelError("'" + path +
                         "' has no parameter that requires a gradient; training needs one; save it unfrozen, with "
                         "requires_grad set");
}

/// A copy that shares no storage with the file's module, on the current default device.
torch::jit::Module copied(const torch::jit::Module& module) {
    const torch::NoGradGuard no_grad;  // otherwise the copies would be connected to the originals in a graph
    // A MetaDevice redirects new tensors to meta, but not copies.
    const bool on_meta = at::empty({0}).is_meta();
    torch::jit::Module copy = on_meta ? module.deepcopy(at::Device(at::kMeta)) : module.deepcopy();
    auto original = module.named_parameters().begin();
    for (const auto& parameter : copy.named_parameters()) {
        parameter.value.set_requires_grad((*original).value.requires_grad());
        ++original;
    }
    return copy;
}

at::Tensor next_tokens(const Tensors& output, const Tensors& target) {
    return torch::cross_entropy_loss(output.at(0).flatten(0, -2), target.at(0).flatten());
}

/// The made-up target is float32; a model may compute in another dtype.
at::Tensor in_dtype_of(const Tensors& output, const Tensors& target) {
    return target.at(0).to(output.at(0).scalar_type());
}

std::function<at::Tensor(const Tensors&, const Tensors&)> loss_of(ScriptLoss loss) {
    switch (loss) {
        case ScriptLoss::bce:
            return [](const Tensors& output, const Tensors& target) {
                return torch::binary_cross_entropy_with_logits(output.at(0), in_dtype_of(output, target));
            };
        case ScriptLoss::cross_entropy: return &classification_loss;
        case ScriptLoss::next_token: return &next_tokens;
        case ScriptLoss::mse: break;
    }
    return [](const Tensors& output, const Tensors& target) {
        return torch::mse_loss(output.at(0), in_dtype_of(output, target));
    };
}

/// A script's own message about an unsuitable input is the last line, after its trace.
std::string last_line(std::string text) {
    text = text.substr(0, text.find("\nException raised from"));
    text.erase(text.find_last_not_of("\n ") + 1);
    const std::size_t line = text.rfind('\n');
    return line == std::string::npos ? text : text.substr(line + 1);
}

/// Shape of one sample's output, from a forward. It uses two samples, to find the batch dimension, and the largest
/// token, to check that the model accepts it.
std::vector<std::int64_t> output_shape(const ModelSpec& model, const ScriptOptions& options, const std::string& path) {
    const torch::NoGradGuard no_grad;
    std::vector<std::int64_t> shape = options.input;
    shape.insert(shape.begin(), 2);
    Tensors tensors{options.tokens == 0 ? at::zeros(shape, at::kFloat)
                                        : at::full(shape, options.tokens - 1, at::kLong)};
    const std::string largest = options.tokens == 0 ? "" : ", with tokens up to " + std::to_string(options.tokens - 1);
    for (const LayerSpec& layer : model.layers) {
        const std::unique_ptr<Layer> made = layer.make();
        made->train(false);
        try {
            tensors = made->forward(tensors);
        } catch (const std::exception& error) {
            throw UserModelError("'" + path + "' does not take the input it is given" + largest + "; its layer '" +
                                 layer.name + "' throws " + last_line(error.what()) +
                                 "; set input and tokens to what the model accepts");
        }
    }
    if (tensors.empty() || tensors[0].dim() == 0 || tensors[0].size(0) != 2) {
        throw UserModelError(
            "'" + path +
            "' does not return a result for each sample; the output's first dimension must be the batch's; "
            "leave reductions to the loss");
    }
    return tensors[0].sizes().slice(1).vec();
}

struct ScriptData {
    ScriptOptions options;
    std::vector<std::int64_t> output;  ///< shape of one sample's output
};

void check_loss(const ScriptData& data, const std::string& path) {
    if (data.options.loss == ScriptLoss::cross_entropy && data.output.empty()) {
        throw UsageError("'" + path +
                         "' returns one number per sample; cross_entropy needs a score for each class; choose another "
                         "loss");
    }
    if (data.options.loss == ScriptLoss::next_token &&
        (data.options.input.size() != 1 || data.output.size() != 2 || data.output[0] != data.options.input[0])) {
        throw UsageError("'" + path +
                         "' does not map tokens to scores; next_token needs input (tokens) and output (tokens, "
                         "classes); choose another loss");
    }
}

at::Tensor target_of(const ScriptData& data, const at::Tensor& label) {
    std::vector<std::int64_t> shape = data.output;
    shape.insert(shape.begin(), label.size(0));
    if (data.options.loss == ScriptLoss::cross_entropy) {
        std::vector<std::int64_t> one_each(shape.size() - 1, 1);
        one_each[0] = label.size(0);
        shape.erase(shape.begin() + 1);
        return label.remainder(data.output[0]).view(one_each).expand(shape).contiguous();
    }
    const at::Tensor target =
        fixed_patterns(data.output, kKinds, kTargetSeed).index_select(0, label).expand(shape).contiguous();
    return data.options.loss == ScriptLoss::bce ? target.gt(0).to(at::kFloat) : target;
}

Batch batch_of(const ScriptData& data, std::int64_t batch, std::uint64_t seed) {
    const ScriptOptions& options = data.options;
    if (options.loss == ScriptLoss::next_token) {
        const at::Tensor tokens = counting_tokens(options.tokens, options.input[0] + 1, batch, seed);
        return {{tokens.narrow(1, 0, options.input[0]).contiguous()},
                {tokens.narrow(1, 1, options.input[0]).contiguous()}};
    }
    if (options.tokens == 0) {
        const LabelledSamples samples = labelled_samples(options.input, kKinds, batch, seed);
        return {{samples.input}, {target_of(data, samples.label)}};
    }
    std::vector<std::int64_t> shape = options.input;
    shape.insert(shape.begin(), batch);
    const at::Tensor tokens = counting_tokens(options.tokens, c10::multiply_integers(options.input), batch, seed);
    return {{tokens.view(shape)}, {target_of(data, tokens.select(1, 0))}};
}
}  // namespace

ModelSpec script_model(const ModelFile& file) {
    ScriptData data{.options = parse_script_options(file.path, file.options), .output = {}};
    const torch::jit::Module whole = load_script(file.path);
    const ScriptChildren children = script_chain(whole, file.path);
    refuse_shared_parameters(children, file.path);
    refuse_nothing_to_train(whole, file.path);
    ModelSpec model;
    for (const auto& [name, child] : children) {
        model.layers.push_back({name, [module = child] { return std::make_unique<ScriptLayer>(copied(module)); }});
    }
    data.output = output_shape(model, data.options, file.path);
    check_loss(data, file.path);
    model.loss = loss_of(data.options.loss);
    model.make_batch = [data](std::int64_t batch, std::uint64_t seed) { return batch_of(data, batch, seed); };
    return model;
}
}  // namespace pipescope
