#include "engine/saved_training.h"

#include "engine/engine_error.h"
#include "engine/gpipe.h"
#include "save/save_error.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using torch::optim::Optimizer;

constexpr std::array<std::pair<at::ScalarType, const char*>, 10> kDtypes = {{{at::kDouble, "F64"},
                                                                             {at::kFloat, "F32"},
                                                                             {at::kHalf, "F16"},
                                                                             {at::kBFloat16, "BF16"},
                                                                             {at::kLong, "I64"},
                                                                             {at::kInt, "I32"},
                                                                             {at::kShort, "I16"},
                                                                             {at::kChar, "I8"},
                                                                             {at::kByte, "U8"},
                                                                             {at::kBool, "BOOL"}}};

std::string dtype_of(const std::string& name, const at::Tensor& tensor) {
    for (const auto& [type, dtype] : kDtypes) {
        if (type == tensor.scalar_type()) {
            return dtype;
        }
    }
    throw EngineError(name + " is of " + at::toString(tensor.scalar_type()) +
                      ", which safetensors files do not hold; cast it, such as to float32");
}

TensorToWrite to_write(const std::string& name, const at::Tensor& tensor) {
    return {name, dtype_of(name, tensor), tensor.sizes().vec(), [tensor] {
                const auto packed = std::make_shared<at::Tensor>(tensor.detach().cpu().contiguous());
                return std::shared_ptr<const void>(packed, packed->const_data_ptr());
            }};
}

/// A copy in the host's memory, which no later step changes.
at::Tensor copy_of(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    return at::empty(tensor.sizes(), tensor.options().device(at::kCPU)).copy_(tensor);
}

/// The model's tensors without those that an earlier name has too; `shared` gets these names with the earlier one.
NamedTensors without_repeats(const NamedTensors& tensors, std::map<std::string, std::string>& shared) {
    using Place = std::tuple<const void*, at::ScalarType, std::vector<std::int64_t>, std::vector<std::int64_t>>;
    std::map<Place, std::string> first_names;
    NamedTensors distinct;
    for (const auto& [name, tensor] : tensors) {
        if (tensor.numel() > 0) {  // tensors without elements have no place
            const Place place{tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(),
                              tensor.strides().vec()};
            if (const auto [first, is_new] = first_names.emplace(place, name); !is_new) {
                shared.emplace(name, first->second);
                continue;
            }
        }
        distinct.emplace_back(name, tensor);
    }
    return distinct;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
    std::ostringstream text;
    text << at::IntArrayRef(shape);
    return text.str();
}

/// Throws unless the stored tensor has this dtype and shape.
void check_fits(SavedTensors& saved, const std::string& name, const std::string& dtype,
                const std::vector<std::int64_t>& shape) {
    const StoredTensor& stored = saved.find(name);
    if (stored.dtype != dtype || stored.shape != shape) {
        throw SaveError(saved.step().string() + " holds " + name + " as " + stored.dtype + " of shape " +
                        text_of(stored.shape) + "; the model has " + dtype + " of shape " + text_of(shape) +
                        "; both must be the same; train the model that was saved, or save into another folder");
    }
}

at::Tensor read(SavedTensors& saved, const std::string& name, const at::TensorOptions& options, at::IntArrayRef shape) {
    at::Tensor value = at::empty(shape, options.device(at::kCPU).requires_grad(false));
    saved.read(name, {static_cast<std::byte*>(value.mutable_data_ptr()), value.nbytes()});
    return value;
}

// The fields of each optimizer's state of a parameter, by their names in files.
using TensorField = std::pair<const char*, at::Tensor*>;
struct StateFields {
    std::vector<TensorField> tensors;
    std::int64_t* step = nullptr;  ///< null: has none
};
StateFields fields_of(torch::optim::SGDParamState& state) {
    return {{{"momentum_buffer", &state.momentum_buffer()}}};
}
template <class AdamState>
StateFields fields_of(AdamState& state) {
    return {{{"exp_avg", &state.exp_avg()},
             {"exp_avg_sq", &state.exp_avg_sq()},
             {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
            &state.step()};
}

/// Calls `use` with a new state of the optimizer's kind, to be filled in or thrown away, or with `existing`.
template <class Use>
void with_state(Optimizer& optimizer, torch::optim::OptimizerParamState* existing, Use use) {
    const auto call = [&]<class State>(std::unique_ptr<State> fresh) {
        State& state = existing != nullptr ? static_cast<State&>(*existing) : *fresh;
        use(fields_of(state), std::move(fresh));
    };
    if (dynamic_cast<torch::optim::SGD*>(&optimizer) != nullptr) {
        call(std::make_unique<torch::optim::SGDParamState>());
    } else if (dynamic_cast<torch::optim::Adam*>(&optimizer) != nullptr) {
        call(std::make_unique<torch::optim::AdamParamState>());
    } else if (dynamic_cast<torch::optim::AdamW*>(&optimizer) != nullptr) {
        call(std::make_unique<torch::optim::AdamWParamState>());
    } else {
        throw EngineError(
            "the optimizer is of a kind whose state has no stored form; SGD, Adam and AdamW have one; use one of them");
    }
}

/// The parameters of an optimizer by the names in the model. A parameter with two names has its first.
NamedTensors named_parameters_of(Optimizer& optimizer, const GPipe& model) {
    std::map<const c10::TensorImpl*, std::string> names;
    for (const auto& [name, tensor] : model.named_parameters()) {
        names.emplace(tensor.unsafeGetTensorImpl(), name);
    }
    NamedTensors parameters;
    for (const auto& group : optimizer.param_groups()) {
        for (const at::Tensor& parameter : group.params()) {
            const auto name = names.find(parameter.unsafeGetTensorImpl());
            if (name == names.end()) {
                throw EngineError(
                    "the optimizer updates a tensor that is no parameter of the model; its state would have no name; "
                    "give it the model's parameters only");
            }
            parameters.emplace_back(name->second, parameter);
            names.erase(name);  // twice in an optimizer, it has one state all the same
        }
    }
    return parameters;
}

// No name of an optimizer's tensor is without a dot.
std::string name_of_random_state(int rank) {
    return "random_state_" + std::to_string(rank);
}

/// The tensors that one process saves: the training's own, or copies of them.
struct OwnTensors {
    NamedTensors model;
    NamedTensors optimizer;
    std::map<std::string, std::string> shared;

    template <class Use>
    void for_each(const Use& use) {
        for (NamedTensors* const kind : {&model, &optimizer}) {
            for (auto& [name, tensor] : *kind) {
                use(name, tensor);
            }
        }
    }
};

void add_state(Optimizer& optimizer, const GPipe& model, NamedTensors& tensors) {
    for (const auto& [name, parameter] : named_parameters_of(optimizer, model)) {
        const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
        if (found == optimizer.state().end()) {
            continue;  // no step yet, or no gradient
        }
        with_state(optimizer, found->second.get(), [&, name = name](const StateFields& fields, const auto&) {
            for (const auto& [field, tensor] : fields.tensors) {
                if (tensor->defined()) {
                    tensors.emplace_back(name + "." + field, *tensor);
                }
            }
            if (fields.step != nullptr) {
                tensors.emplace_back(name + ".step", at::scalar_tensor(*fields.step, at::kLong));
            }
        });
    }
}

/// The state of torch's default CPU generator.
at::Tensor random_state() {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
}

OwnTensors own_tensors(int rank, const GPipe& model, const std::vector<Optimizer*>& optimizers) {
    OwnTensors own;
    own.optimizer.emplace_back(name_of_random_state(rank), random_state());
    if (model.replica() != 0) {
        return own;  // the first replica holds the same
    }
    own.model = without_repeats(model.state_dict(), own.shared);
    for (Optimizer* optimizer : optimizers) {
        add_state(*optimizer, model, own.optimizer);
    }
    return own;
}

std::vector<TensorToWrite> to_write(const NamedTensors& tensors) {
    std::vector<TensorToWrite> all;
    for (const auto& [name, tensor] : tensors) {
        all.push_back(to_write(name, tensor));
    }
    return all;
}

/// The number of fields that are saved for this parameter. Throws if the optimizer does not know one of them.
int count_saved(const SavedTensors& saved, const std::string& parameter, const StateFields& fields) {
    const std::string prefix = parameter + ".";
    int count = 0;
    for (auto each = saved.files().lower_bound(prefix); each != saved.files().end(); ++each) {
        if (!each->first.starts_with(prefix)) {
            break;
        }
        const std::string field = each->first.substr(prefix.size());
        if (field.find('.') != std::string::npos) {
            continue;  // of a parameter whose name is longer
        }
        bool known = field == "step" && fields.step != nullptr;
        for (const auto& [name, tensor] : fields.tensors) {
            known = known || field == name;
        }
        if (!known) {
            throw SaveError(saved.step().string() + " holds " + each->first +
                            ", which this optimizer does not have; use the optimizer that was saved");
        }
        ++count;
    }
    return count;
}
}  // namespace

void begin_saving(SaveFolder& folder, const TrainingState& state, const GPipe& model,
                  const std::vector<Optimizer*>& optimizers, std::uint64_t most_copied) {
    OwnTensors own = own_tensors(folder.rank(), model, optimizers);
    std::uint64_t bytes = 0;
    own.for_each([&](const std::string& name, const at::Tensor& tensor) {
        dtype_of(name, tensor);  // throws before anything is copied
        bytes += tensor.nbytes();
    });
    const Writing writing = bytes <= most_copied ? Writing::in_background : Writing::at_once;
    if (writing == Writing::in_background) {
        own.for_each([](const std::string& /*name*/, at::Tensor& tensor) { tensor = copy_of(tensor); });
    }
    folder.begin(state, {to_write(own.model), to_write(own.optimizer), std::move(own.shared)}, writing);
}

std::filesystem::path save_training(SaveFolder& folder, const TrainingState& state, const GPipe& model,
                                    const std::vector<Optimizer*>& optimizers) {
    begin_saving(folder, state, model, optimizers, 0);
    return folder.finish();
}

void check_savable(const GPipe& model) {
    for (const auto& [name, tensor] : model.state_dict()) {
        dtype_of(name, tensor);
    }
}

SavedTraining::SavedTraining(const std::filesystem::path& step) : SavedTraining(step, load_training_record(step)) {}

SavedTraining::SavedTraining(const std::filesystem::path& step, const TrainingRecord& record)
    : state_(record.state),
      has_checksums_(record.checksums.has_value()),
      model_(step, TensorKind::model, record),
      optimizer_(step, TensorKind::optimizer, record) {}

void SavedTraining::load(GPipe& model, bool is_whole) {
    std::map<std::string, std::string> shared;
    const NamedTensors tensors = without_repeats(model.state_dict(), shared);
    std::map<std::string, std::string> unknown = model_.files();
    for (const auto& [name, tensor] : tensors) {
        if (unknown.erase(name) == 0) {
            throw SaveError(path().string() + " holds no " + name +
                            ", which the model has; train the model that was saved, or save into another folder");
        }
        check_fits(model_, name, dtype_of(name, tensor), tensor.sizes().vec());
    }
    if (is_whole && !unknown.empty()) {
        throw SaveError(path().string() + " holds " + unknown.begin()->first +
                        ", which the model does not have; train the model that was saved, or save into another folder");
    }
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : tensors) {
        at::Tensor(tensor).copy_(read(model_, name, tensor.options(), tensor.sizes()));
    }
    model.set_next_step(static_cast<std::int32_t>(state_.step));
}

bool SavedTraining::load_random(int rank) {
    const std::string own = name_of_random_state(rank);
    const std::string name = optimizer_.contains(own) ? own : name_of_random_state(0);
    if (!optimizer_.contains(name)) {
        return false;
    }
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    const at::Tensor now = generator.get_state();
    check_fits(optimizer_, name, dtype_of(name, now), now.sizes().vec());
    generator.set_state(read(optimizer_, name, now.options(), now.sizes()));
    return true;
}

void SavedTraining::load(Optimizer& optimizer, const GPipe& model) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : named_parameters_of(optimizer, model)) {
        with_state(optimizer, nullptr, [&, name = name, parameter = parameter](const StateFields& fields, auto state) {
            if (count_saved(optimizer_, name, fields) == 0) {
                return;  // the parameter had no gradient
            }
            for (const auto& [field, tensor] : fields.tensors) {
                const std::string full = name + "." + field;
                // The largest second moment exists only with the option amsgrad.
                if (optimizer_.contains(full) || std::string(field) != "max_exp_avg_sq") {
                    check_fits(optimizer_, full, dtype_of(full, parameter), parameter.sizes().vec());
                    *tensor = read(optimizer_, full, parameter.options(), parameter.sizes()).to(parameter.device());
                }
            }
            if (fields.step != nullptr) {
                check_fits(optimizer_, name + ".step", "I64", {});
                optimizer_.read(name + ".step", std::as_writable_bytes(std::span(fields.step, 1)));
            }
            optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
        });
    }
}
}  // namespace pipescope
