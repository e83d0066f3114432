// A layer that costs what a profile says, without computing anything. It waits during forward, recompute and backward,
// and holds the bytes of the real layer: parameters, gradients, output, tensors saved by autograd, and the transient
// peak. Memory is allocated but never touched, so a CPU machine needs no 100 GB for a 100 GB model.

#include "engine/current_task.h"
#include "engine/gradients/graph_walk.h"
#include "models/emulated_device_wait.h"
#include "models/emulated_wait.h"
#include "models/zoo.h"
#include "profiler/profile/profile.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr double kFloatBytes = 4;

at::Tensor untouched_bytes(double bytes, c10::Device device) {
    return at::empty({static_cast<std::int64_t>(std::llround(bytes))}, at::device(device).dtype(at::kByte));
}

at::Tensor untouched_floats(double bytes) {
    return at::empty({static_cast<std::int64_t>(std::ceil(bytes / kFloatBytes))}, at::kFloat);
}

void wait_on(c10::Device device, double nanoseconds) {
    if (device.is_cpu() || device.is_meta()) {
        wait_in_task(nanoseconds);
    } else {
        wait_on_device(device, nanoseconds);
    }
}

// Floats per sample, from the largest measured size. A size per sample lets micro-batches be concatenated again.
std::int64_t features(const Profile& profile, const PerSize& bytes) {
    const double per_sample = bytes.empty() ? 0 : bytes.back() / static_cast<double>(profile.samples.back());
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(per_sample / kFloatBytes)));
}

// Bytes that the layer's graph holds between the halves of a split backward, according to its tapes.
struct BetweenHalves {
    PerSize bytes;          ///< without what autograd holds anyway: the output's gradient
    bool is_known = false;  ///< otherwise the layer holds everything that it saved
    bool keeps_input = false;
    bool keeps_output = false;
};

BetweenHalves between_halves(const LayerProfile& layer) {
    BetweenHalves between;
    between.is_known = !layer.tape.empty() && has_weight_half(layer);
    for (const LayerTape& each : layer.tape) {
        if (each.halves.empty()) {
            return {};
        }
        const LayerTape& tape = each.halves.front();
        using Role = TapeBlock::Role;
        std::vector<bool> is_held(tape.blocks.size() + 1, false);
        for (const auto* events : {&tape.forward, &tape.backward}) {
            for (const std::int32_t event : *events) {
                const auto block = static_cast<std::size_t>(std::abs(event));
                is_held[block] = event > 0 && tape.blocks[block - 1].role == Role::own;
            }
        }
        double bytes = 0;
        for (std::size_t block = 1; block < is_held.size(); ++block) {
            bytes += is_held[block] ? static_cast<double>(tape.blocks[block - 1].bytes) : 0;
        }
        for (const std::int32_t gradient : output_gradients_of(tape)) {
            const bool is_needed = std::ranges::find(tape.backward_weight, -gradient) != tape.backward_weight.end();
            if (gradient != 0 && !is_needed) {
                bytes -= static_cast<double>(tape.blocks[static_cast<std::size_t>(gradient) - 1].bytes);
            }
        }
        between.bytes.push_back(std::max(0., bytes));
        for (const std::int32_t event : tape.backward_weight) {
            const Role role = tape.blocks[static_cast<std::size_t>(std::abs(event)) - 1].role;
            between.keeps_input = between.keeps_input || role == Role::input || role == Role::passed;
            between.keeps_output = between.keeps_output || role == Role::output;
        }
    }
    return between;
}

// Bytes that a layer needs at its peak, above the start of each phase. Forward leaves out the bytes that it leaves
// behind, which are there from the start.
struct Transients {
    PerSize forward;       ///< with a graph
    PerSize checkpointed;  ///< without one
    PerSize recompute;
    PerSize backward;
    PerSize first, second;  ///< the halves of a split backward
};

double transient_of(const LayerTape& tape, const std::vector<std::int32_t>& events, bool is_forward) {
    double level = 0;
    double highest = 0;
    std::vector<bool> stays(tape.blocks.size() + 1, false);
    for (const std::int32_t event : events) {
        const auto block = static_cast<std::size_t>(std::abs(event));
        const auto bytes = static_cast<double>(tape.blocks[block - 1].bytes);
        level += event > 0 ? bytes : -bytes;
        highest = std::max(highest, level);
        stays[block] = event > 0;
    }
    double left = 0;
    for (std::size_t block = 1; block < stays.size(); ++block) {
        left += is_forward && stays[block] ? static_cast<double>(tape.blocks[block - 1].bytes) : 0;
    }
    return highest - left;
}

bool has_tapes(const LayerProfile& layer) {
    return !layer.tape.empty() && std::ranges::none_of(layer.tape, &LayerTape::empty);
}

/// From the layer's tapes. Without tapes, the profile's transient bytes, which leave out a backward's gradients.
Transients transients_of(const LayerProfile& layer) {
    const PerSize& all = layer.transient_bytes;
    if (!has_tapes(layer)) {
        return {all, all, all, all, all, all};
    }
    Transients found;
    for (const LayerTape& tape : layer.tape) {
        found.forward.push_back(transient_of(tape, tape.forward, true));
        found.checkpointed.push_back(transient_of(tape, tape.checkpointed_forward, true));
        found.recompute.push_back(transient_of(tape, tape.recompute, true));
        found.backward.push_back(transient_of(tape, tape.backward, false));
        const LayerTape& halves = tape.halves.empty() ? tape : tape.halves.front();
        found.first.push_back(transient_of(halves, halves.backward, false));
        found.second.push_back(transient_of(halves, halves.backward_weight, false));
    }
    return found;
}

// One call of the layer at the current micro-batch size. Autograd does not look for tensors inside a struct, so the
// parameter is not an input of the function.
struct Call {
    const LayerProfile& layer;
    double forward_ns = 0;
    double backward_ns = 0;
    double backward_weight_ns = 0;  ///< part of backward_ns
    bool weights_apart = true;      ///< a second half computes the parameter's gradient
    const BetweenHalves& between;
    double between_bytes = 0;
    double saved_bytes = 0;
    double forward_transient = 0;
    double backward_transient = 0;
    double first_transient = 0;  ///< of the halves of a split backward
    double second_transient = 0;
    std::int64_t output_features = 1;
    at::Tensor parameter;
    bool keep = true;  ///< keep the graph for a backward
};

// Gradients of a layer's input and skips. If the layer passes its output's gradient on, as an addition or a
// concatenation does, they are parts of it; otherwise they are uninitialised memory.
class GradientParts {
public:
    GradientParts(at::Tensor passed, c10::Device device) : passed_(std::move(passed)), device_(device) {}

    at::Tensor take(at::IntArrayRef sizes) {
        if (passed_.defined() && passed_.sizes() == sizes) {
            return passed_;
        }
        if (passed_.defined() && sizes.size() == 2 && passed_.dim() == 2 && passed_.size(0) == sizes[0] &&
            column_ + sizes[1] <= passed_.size(1)) {
            const at::Tensor part = passed_.narrow(1, column_, sizes[1]);
            column_ += sizes[1];
            return part;
        }
        return at::empty(sizes, at::device(device_).dtype(at::kFloat));
    }

private:
    at::Tensor passed_;
    c10::Device device_;
    std::int64_t column_ = 0;  // of the part not yet taken
};

// Holds memory and waits like the real layer. A split backward calls it twice: first without the edge to `phony`, which
// stands for the weights, then with that edge only. In between it keeps what its tape says and the gradient of its
// output, as simulated.
struct Emulate : torch::autograd::Function<Emulate> {
    // `phony` requires grad, so a backward exists even if the input needs none.
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor&,
                              const Call& call, at::TensorList popped) {
        const at::Tensor transient = untouched_bytes(call.forward_transient, input.device());
        at::Tensor output = make_output(input, call);
        if (call.keep) {
            keep(context, input, output, call, popped);
        }
        wait_on(input.device(), call.forward_ns);
        return output;
    }

    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& gradients) {
        auto& data = context->saved_data;
        // The edges' order: input, `phony`, skips.
        const auto num_skips = data.at("skip_features").toIntVector().size();
        const bool for_weights = context->needs_input_grad(1);
        const bool for_activations = context->needs_input_grad({{0, 1}, {2, 2 + num_skips}});
        const c10::Device device = data.at("device").toDevice();
        const bool is_second_half = !data.emplace("is_split", at::IValue(true)).second;
        const bool goes_on = !is_second_half && !for_weights && data.at("weights_apart").toBool();
        const char* const held = is_second_half ? "second_transient"
                                 : goes_on      ? "first_transient"
                                                : "backward_transient";
        at::Tensor transient = untouched_bytes(data.at(held).toDouble(), device);
        torch::autograd::variable_list input_gradients(3);  // of the input, `phony` and the call
        const std::vector<std::int64_t> input_sizes = data.at("input_sizes").toIntVector();
        const std::vector<std::int64_t> skip_features = data.at("skip_features").toIntVector();
        GradientParts parts(data.at("passes_gradient").toBool() ? gradients.at(0) : at::Tensor(), device);
        const auto make_gradients = [&] {
            for (std::size_t k = 0; k < num_skips; ++k) {
                const bool is_needed = for_activations && skip_features[k] >= 0;
                input_gradients.push_back(is_needed ? parts.take({input_sizes.front(), skip_features[k]})
                                                    : at::Tensor());
            }
            if (context->needs_input_grad(0)) {
                input_gradients.front() = parts.take(input_sizes);
            }
        };
        const bool covers_gradients = data.at("covers_gradients").toBool();
        if (!covers_gradients) {
            make_gradients();
        }
        // Set here instead of returned: autograd would add it to the existing gradient. That is real work over the
        // whole parameter, and the backward time already includes it.
        const bool sets_gradient = for_weights || !data.at("weights_apart").toBool();
        if (const auto parameter = data.find("parameter"); sets_gradient && parameter != data.end()) {
            at::Tensor with_gradient = parameter->second.toTensor();
            if (!with_gradient.grad().defined()) {
                with_gradient.mutable_grad() =
                    at::empty_like(with_gradient, with_gradient.options().requires_grad(false));
            }
        }
        const double whole_ns = data.at("backward_ns").toDouble();
        const double weight_ns = data.at("backward_weight_ns").toDouble();
        wait_on(device, is_second_half ? weight_ns : for_weights ? whole_ns : whole_ns - weight_ns);
        transient = at::Tensor();
        if (!goes_on) {
            data.erase("kept");
        } else if (data.find("between_bytes") != data.end()) {
            std::vector<at::Tensor> kept = data.at("kept").toTensorVector();
            data.erase("kept");
            const std::vector<std::int64_t> staying = data.at("staying").toIntVector();
            std::vector<at::Tensor> stays;
            for (const std::int64_t which : staying) {
                stays.push_back(kept.at(static_cast<std::size_t>(which)));
            }
            kept.clear();
            stays.push_back(untouched_bytes(data.at("between_bytes").toDouble(), device));
            data["kept"] = std::move(stays);
        }
        if (covers_gradients) {
            make_gradients();
        }
        return input_gradients;
    }

private:
    static at::Tensor make_output(const at::Tensor& input, const Call& call) {
        const std::int64_t samples = input.size(0);
        if (call.layer.aliases_input && input.is_contiguous() && input.numel() == samples * call.output_features) {
            // Shares the storage without being a view for autograd: this function provides the gradient.
            return at::empty({0}, input.options().requires_grad(false))
                .set_(input.storage(), input.storage_offset(), {samples, call.output_features});
        }
        return at::empty({samples, call.output_features}, at::device(input.device()).dtype(at::kFloat));
    }

    static void keep(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& output,
                     const Call& call, at::TensorList popped) {
        // Not saved variables: nobody could release those before the second half of a backward.
        std::vector<at::Tensor> kept = {untouched_bytes(call.saved_bytes, input.device())};
        std::vector<std::int64_t> staying;  // bytes that stay until the second half
        const auto add = [&kept, &staying](const at::Tensor& tensor, bool stays) {
            if (stays) {
                staying.push_back(static_cast<std::int64_t>(kept.size()));
            }
            kept.push_back(tensor.detach());
        };
        if (call.layer.keeps_input) {
            add(input, call.between.keeps_input);
        }
        if (call.layer.keeps_output) {
            add(output, call.between.keeps_output);
        }
        std::vector<std::int64_t> skip_features;
        for (const at::Tensor& skip : popped) {
            skip_features.push_back(skip.is_floating_point() ? skip.size(1) : -1);  // -1: it has no gradient
            if (!call.layer.passes_gradient) {  // as simulated: an addition or a concatenation needs no skip later
                add(skip, false);
            }
        }
        context->saved_data["kept"] = std::move(kept);
        if (call.between.is_known) {
            context->saved_data["between_bytes"] = call.between_bytes;
            context->saved_data["staying"] = std::move(staying);
        }
        context->saved_data["skip_features"] = std::move(skip_features);
        context->saved_data["passes_gradient"] = call.layer.passes_gradient;
        context->saved_data["backward_ns"] = call.backward_ns;
        context->saved_data["backward_weight_ns"] = call.backward_weight_ns;
        context->saved_data["weights_apart"] = call.weights_apart;
        context->saved_data["device"] = input.device();
        context->saved_data["covers_gradients"] = has_tapes(call.layer);  // the transient bytes cover them
        context->saved_data["backward_transient"] = call.backward_transient;
        context->saved_data["first_transient"] = call.first_transient;
        context->saved_data["second_transient"] = call.second_transient;
        context->saved_data["input_sizes"] = input.sizes().vec();
        if (call.parameter.defined()) {
            context->saved_data["parameter"] = call.parameter;
        }
    }
};

// Makes a skip of the right size, which may share the input's storage. `phony` as in Emulate.
struct EmulateStash : torch::autograd::Function<EmulateStash> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input, const at::Tensor&,
                              std::int64_t features, bool is_input) {
        if (is_input && input.is_contiguous() && input.numel() == input.size(0) * features) {
            return at::empty({0}, input.options().requires_grad(false))
                .set_(input.storage(), input.storage_offset(), {input.size(0), features});
        }
        return at::empty({input.size(0), features}, at::device(input.device()).dtype(at::kFloat));
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list&) {
        return {{}, {}, {}, {}};
    }
};

class EmulatedLayer : public Layer {
public:
    EmulatedLayer(std::shared_ptr<const Profile> profile, std::size_t index)
        : profile_(std::move(profile)),
          layer_(profile_->layers.at(index)),
          output_features_(features(*profile_, layer_.output_bytes)),
          between_(between_halves(layer_)),
          transients_(transients_of(layer_)),
          phony_(at::empty({0}, at::kFloat).requires_grad_()) {
        const Bytes trained = std::min(layer_.parameter_bytes, layer_.gradient_bytes);
        if (trained > 0) {
            trained_ = untouched_floats(static_cast<double>(trained)).requires_grad_();
            parameters_.emplace_back("weight", trained_);
        } else {  // with checkpoints, the engine must know that there is a backward
            parameters_.emplace_back("no_bytes", phony_);
        }
        if (const Bytes frozen = layer_.parameter_bytes - trained; frozen > 0) {
            parameters_.emplace_back("frozen", untouched_floats(static_cast<double>(frozen)));
        }
        const Bytes others = layer_.buffer_bytes - layer_.statistic_bytes;
        if (others > 0) {
            buffers_.emplace_back("buffer", untouched_floats(static_cast<double>(others)));
        }
        if (layer_.statistic_bytes > 0) {  // the name makes a recompute copy it, as it does in the real model
            buffers_.emplace_back("running_mean", untouched_floats(static_cast<double>(layer_.statistic_bytes)));
        }
    }

    Tensors forward(const Tensors& inputs) override { return emulate(inputs.at(0), {}); }

    SkipNames skips() const override {
        SkipNames names;
        for (const auto& [name, bytes] : layer_.stash) {
            names.stash.push_back({"", name});
        }
        for (const std::string& name : layer_.pop) {
            names.pop.push_back({"", name});
        }
        return names;
    }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override {
        Tensors popped;
        for (const std::string& name : layer_.pop) {
            popped.push_back(skips.pop(name));
        }
        for (const auto& [name, bytes] : layer_.stash) {
            if (layer_.without_gradient.contains(name)) {
                skips.stash(name, at::empty({inputs.at(0).size(0), features(*profile_, bytes)},
                                            at::device(inputs.at(0).device()).dtype(at::kInt)));
                continue;
            }
            const at::Tensor phony = inputs.at(0).requires_grad() ? phony_.detach() : phony_;
            skips.stash(name,
                        EmulateStash::apply(inputs.at(0), phony, features(*profile_, bytes), stashes_input(name)));
        }
        return emulate(inputs.at(0), popped);
    }

    NamedTensors parameters() const override { return parameters_; }
    NamedTensors buffers() const override { return buffers_; }
    void train(bool) override {}
    // Does nothing: bytes come from the profile, in the profile's dtype.
    void to(at::ScalarType) override {}

private:
    Tensors emulate(const at::Tensor& input, at::TensorList popped) {
        const auto samples = static_cast<double>(input.size(0));
        const auto at = [&](const PerSize& values) { return interpolate(profile_->samples, values, samples).value; };
        const Call call{.layer = layer_,
                        .forward_ns = at(forward_times()),
                        .backward_ns = at(layer_.backward_ns),
                        .backward_weight_ns = backward_weight_time(*profile_, layer_, samples).value,
                        .weights_apart = has_weight_half(layer_),
                        .between = between_,
                        .between_bytes = between_.is_known ? at(between_.bytes) : 0,
                        .saved_bytes = at(layer_.saved_bytes),
                        .forward_transient = at(forward_transients()),
                        .backward_transient = at(transients_.backward),
                        .first_transient = at(transients_.first),
                        .second_transient = at(transients_.second),
                        .output_features = output_features_,
                        .parameter = trained_,
                        .keep = at::GradMode::is_enabled()};
        return {Emulate::apply(input, weights_or_none(input, popped), call, popped)};
    }
    const PerSize& forward_times() const {
        const PerSize& own = is_recomputing()             ? layer_.recompute_ns
                             : at::GradMode::is_enabled() ? layer_.graph_forward_ns
                                                          : layer_.forward_ns;
        return own.empty() ? layer_.forward_ns : own;
    }
    const PerSize& forward_transients() const {
        return is_recomputing()             ? transients_.recompute
               : at::GradMode::is_enabled() ? transients_.forward
                                            : transients_.checkpointed;
    }
    /// The edge to the weights. Detached if they have no work in a backward, unless the layer would then have no
    /// backward.
    at::Tensor weights_or_none(const at::Tensor& input, at::TensorList popped) const {
        const bool has_gradient =
            input.requires_grad() ||
            std::any_of(popped.begin(), popped.end(), [](const at::Tensor& skip) { return skip.requires_grad(); });
        return has_weight_half(layer_) || !has_gradient ? phony_ : phony_.detach();
    }
    /// True if that skip is the layer's input, according to its tapes.
    bool stashes_input(const std::string& name) const {
        return !layer_.tape.empty() && std::ranges::all_of(layer_.tape, [&name](const LayerTape& tape) {
            const auto skip = tape.stash.find(name);
            if (skip == tape.stash.end() || skip->second.value == 0) {
                return false;
            }
            const auto role = tape.blocks.at(static_cast<std::size_t>(skip->second.value) - 1).role;
            return role == TapeBlock::Role::input || role == TapeBlock::Role::passed;
        });
    }

    std::shared_ptr<const Profile> profile_;
    const LayerProfile& layer_;  // element of profile_
    std::int64_t output_features_;
    BetweenHalves between_;
    Transients transients_;
    at::Tensor phony_;
    at::Tensor trained_;  // element of parameters_ that gets a gradient; undefined: none
    NamedTensors parameters_;
    NamedTensors buffers_;
};

// Waits as long as the loss takes, holds its memory, and returns zero: an emulated model has nothing to learn.
struct EmulateLoss : torch::autograd::Function<EmulateLoss> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& output, double nanoseconds,
                              Bytes transient) {
        context->saved_data["sizes"] = output.sizes().vec();
        context->saved_data["device"] = output.device();
        context->saved_data["transient"] = transient;
        wait_on(output.device(), nanoseconds);
        return at::zeros({}, at::device(output.device()).dtype(at::kFloat));
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list&) {
        const c10::Device device = context->saved_data["device"].toDevice();
        at::Tensor gradient =
            at::empty(context->saved_data["sizes"].toIntVector(), at::device(device).dtype(at::kFloat));
        // The profiled transient bytes, beside the output and its gradient.
        untouched_bytes(static_cast<double>(context->saved_data["transient"].toInt()), device);
        return {std::move(gradient), {}, {}};
    }
};
}  // namespace

ModelSpec emulated_model(const Profile& profile) {
    static const bool may_be_walked = [] {
        allow_split(typeid(torch::autograd::CppNode<Emulate>));
        allow_walk(typeid(torch::autograd::CppNode<EmulateLoss>));
        allow_split(typeid(torch::autograd::CppNode<EmulateStash>));
        return true;
    }();
    static_cast<void>(may_be_walked);
    const auto shared = std::make_shared<const Profile>(profile);
    ModelSpec model;
    model.name = profile.model;
    for (std::size_t index = 0; index < shared->layers.size(); ++index) {
        model.layers.push_back(
            {shared->layers[index].name, [shared, index] { return std::make_unique<EmulatedLayer>(shared, index); }});
    }
    model.make_batch = [shared](std::int64_t batch, std::uint64_t) {
        return Batch{{at::empty({batch, features(*shared, shared->input_bytes)}, at::kFloat)}, {at::empty({batch, 1})}};
    };
    model.loss = [shared](const Tensors& output, const Tensors&) {
        const std::int64_t samples = output.at(0).size(0);
        const bool is_gathered = samples > shared->samples.back();  // of all micro-batches
        return EmulateLoss::apply(output.at(0), loss_time(*shared, static_cast<double>(samples)).value,
                                  loss_transient(*shared, samples, is_gathered));
    };
    return model;
}
}  // namespace pipescope
