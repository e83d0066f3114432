#include "engine/gpipe.h"

#include "base/quantities.h"
#include "engine/autograd_bridge.h"
#include "engine/autograd_driver/autograd_run.h"
#include "engine/current_task.h"
#include "engine/gradient_norm.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/lanes/process_end.h"
#include "engine/model_layers.h"
#include "engine/pipeline.h"
#include "engine/skippable.h"
#include "engine/state_archive.h"
#include "engine/step/staggered_run.h"
#include "engine/step/step_run.h"
#include "schedule/micro_batches.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// Continues from a step's input into the graph it comes from, as loss.backward() would.
void continue_backward(const Tensors& input, const Tensors& gradients) {
    Tensors ends, end_gradients;
    for (std::size_t k = 0; k < input.size(); ++k) {
        if (gradients[k].defined()) {
            ends.push_back(input[k]);
            end_gradients.push_back(gradients[k]);
        }
    }
    if (!ends.empty()) {
        torch::autograd::backward(ends, end_gradients);
    }
}

/// Calls `run`, whose failure in this process ends the group of processes, if there is one.
template <class Run>
auto run_in_group(const std::shared_ptr<Processes>& processes, const Run& run) {
    return processes && processes->size() > 1 ? processes->together(run) : run();
}
}  // namespace

struct GPipe::Impl {
    Impl(std::vector<ModelLayer> of, GPipeOptions options) {
        const bool is_empty = of.empty() && options.balance.empty();
        if (is_empty) {
            of.push_back(
                {"identity", "0", skippable_layer(nullptr, {}, [](const Tensors& in, SkipContext&) { return in; })});
            options.balance = {1};
            if (options.devices.empty()) {
                options.devices = {"cpu"};
            }
        }
        pipeline = std::make_shared<Pipeline>(std::move(of), std::move(options));
        if (!is_empty) {
            list();
        }
    }

    void list() {
        for (Partition& partition : pipeline->partitions()) {
            const LaneId lane = pipeline->lane_of(partition.id());
            partitions.push_back({partition.id(), partition.range(), lane, pipeline->options().devices[lane.index()],
                                  pipeline->is_here(lane)});
            for (ModelLayer& each : partition.layers()) {
                layers.push_back({LayerId{layers.size()}, each.name, each.key, partition.id(), each.layer.get()});
            }
        }
    }

    /// Its steps would be counted, and its random numbers and running statistics drawn and changed, a second time.
    void refuse_recomputes() const {
        if (pipeline->is_training() && (is_checkpointing() || is_recomputing())) {
            throw UsageError(
                "a model that trains is called by a layer of another that computes its forwards again; the second call "
                "would be another step of the inner model; use checkpoint never for the outer model, or eval()");
        }
    }

    RunFor purpose_of_forward(const Tensors& input) const {
        if (!at::GradMode::is_enabled() || (!pipeline->has_trainable_parameters() && !any_requires_grad(input))) {
            return RunFor::values;
        }
        return pipeline->is_training() ? RunFor::training : RunFor::gradients;
    }

    template <class Run>
    auto together(const Run& run) const {
        return run_in_group(pipeline->options().processes, run);
    }

    /// `of_partition` returns a partition's tensors by their keys.
    NamedTensors named(const std::function<NamedTensors(const Partition&)>& of_partition) const {
        NamedTensors all;
        for (const Partition& partition : pipeline->partitions()) {
            NamedTensors own = of_partition(partition);
            std::move(own.begin(), own.end(), std::back_inserter(all));
        }
        return all;
    }

    std::shared_ptr<Pipeline> pipeline;
    std::vector<LayerInfo> layers;
    std::vector<PartitionInfo> partitions;
};

GPipe::GPipe(const ModelSpec& model, GPipeOptions options) : GPipe(model.layers, std::move(options)) {}

GPipe::GPipe(const std::vector<LayerSpec>& layers, GPipeOptions options)
    : impl_(run_in_group(options.processes, [&] {
          return std::make_unique<Impl>(make_layers(layers, layers_here(options, layers.size())), options);
      })) {}

template <std::same_as<torch::nn::Sequential> Module>
GPipe::GPipe(Module module, GPipeOptions options)
    : impl_(run_in_group(options.processes, [&] {
          return std::make_unique<Impl>(layers_of(*module, layers_here(options, module->size())), options);
      })) {
    impl_->pipeline->take_mode(module->is_training());
}
template GPipe::GPipe(torch::nn::Sequential module, GPipeOptions options);

GPipe::~GPipe() = default;
GPipe::GPipe(GPipe&&) noexcept = default;
GPipe& GPipe::operator=(GPipe&&) noexcept = default;

GPipe::Impl& GPipe::impl() const {
    if (!impl_) {
        throw UsageError(
            "the model was moved from, so this object holds none; a moved-from GPipe can only be assigned to or "
            "destroyed; use the one that it was moved to");
    }
    return *impl_;
}

Tensors GPipe::forward(const Tensors& input) {
    const AtWork at_work;
    impl().refuse_recomputes();
    if (impl().pipeline->channels() != nullptr) {
        if (at::GradMode::is_enabled()) {
            throw UsageError(
                "forward() is called with gradients on, in several processes; torch's graph cannot cross from one to "
                "another; call step(), or forward() under no_grad");
        }
        return impl().together([&] { return StepRun(impl().pipeline, input, RunFor::values).forward(); });
    }
    const RunFor purpose = impl().purpose_of_forward(input);
    const Schedule schedule = impl().pipeline->options().schedule;
    if (purpose == RunFor::training && needs_loss_inside(schedule)) {
        throw UsageError("forward is called with the schedule " + to_string(schedule) +
                         ", which goes backward while it still goes forward; it needs the loss inside; call step(), "
                         "or use the schedule gpipe");
    }
    if (purpose == RunFor::values) {
        return StepRun(impl().pipeline, input, purpose).forward();
    }
    if (impl().pipeline->options().driver == Driver::autograd) {
        return AutogradRun(impl().pipeline, input, purpose).forward();
    }
    const auto run = std::make_shared<StepRun>(impl().pipeline, input, purpose);
    Tensors output = attach_to_graph(run, input, impl().pipeline->trained_parameters(), run->forward());
    run->guard_input(input);
    return output;
}

at::Tensor GPipe::forward(const at::Tensor& input) {
    Tensors output = forward(Tensors{input});
    if (output.size() != 1) {
        throw UsageError("the model returns " + std::to_string(output.size()) +
                         " tensors; this forward returns one; pass the input as Tensors to get them all");
    }
    return std::move(output[0]);
}

at::Tensor GPipe::step(const Tensors& input, const Tensors& target, const LossFunction& loss) {
    const AtWork at_work;
    impl().refuse_recomputes();
    if (!loss) {
        throw UsageError("step is given no loss function; it goes backward from a loss; pass one");
    }
    if (!at::GradMode::is_enabled()) {
        throw UsageError("step is called under no_grad; it computes gradients; turn them on, or use forward()");
    }
    if (impl().pipeline->channels() == nullptr && !impl().pipeline->has_trainable_parameters() &&
        !any_requires_grad(input)) {
        throw UsageError(
            "step is called where no parameter and no input requires a gradient; it computes gradients; let one "
            "require it, or use forward()");
    }
    if (impl().pipeline->options().driver == Driver::autograd) {
        return AutogradRun(impl().pipeline, input, RunFor::training).step(target, loss);
    }
    return impl().together([&] {
        StepRun run(impl().pipeline, input, RunFor::training);
        at::Tensor value = run.step(target, loss);
        if (impl().pipeline->is_first_here()) {
            continue_backward(input, run.take_input_gradients());
            run.guard_input(input);
        }
        return value;
    });
}

at::Tensor GPipe::step(const at::Tensor& input, const at::Tensor& target,
                       const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& loss) {
    return step(Tensors{input}, Tensors{target}, [&loss](const Tensors& output, const Tensors& targets) {
        if (output.size() != 1) {
            throw UsageError("the model returns " + std::to_string(output.size()) +
                             " tensors; this loss takes one; use the step() of Tensors");
        }
        return loss(output[0], targets[0]);
    });
}

void GPipe::train_staggered(const StaggeredTraining& training) {
    StaggeredRun(impl().pipeline, training).run();
}

at::Tensor GPipe::clip_grad_norm_(double max_norm, double norm_type, bool error_if_nonfinite) {
    const AtWork at_work;
    return clip_gradients(*impl().pipeline, max_norm, norm_type, error_if_nonfinite);
}

bool GPipe::any_process(bool here) {
    const AtWork at_work;
    LaneChannels* const channels = impl().pipeline->channels();
    if (channels == nullptr) {
        return here;
    }
    const std::vector<double> all =
        impl().together([&] { return channels->gather(LaneChannels::Purpose::any, {here ? 1.0 : 0.0}); });
    return std::ranges::any_of(all, [](double each) { return each != 0; });
}

std::vector<at::Tensor> GPipe::parameters() const {
    std::vector<at::Tensor> all;
    for (auto& [name, tensor] : named_parameters()) {
        all.push_back(std::move(tensor));
    }
    return all;
}

NamedTensors GPipe::named_parameters() const {
    return impl().named([](const Partition& partition) { return partition.own_parameters(); });
}

NamedTensors GPipe::named_buffers() const {
    return impl().named([](const Partition& partition) { return partition.named(&Layer::buffers); });
}

NamedTensors GPipe::state_dict() const {
    NamedTensors all = named_parameters();
    for (auto& buffer : named_buffers()) {
        if (buffer.second.defined()) {
            all.push_back(std::move(buffer));
        }
    }
    return all;
}

void GPipe::load_state_dict(const NamedTensors& state) {
    copy_into(state_dict(), state);
}

void GPipe::save(torch::serialize::OutputArchive& archive) const {
    impl().pipeline->shared().refresh();  // a plain model of these layers loads all of their tensors
    for (const LayerInfo& each : layers()) {
        torch::serialize::OutputArchive layer(archive.compilation_unit());
        each.layer->save(layer);
        archive.write(each.key, layer);
    }
}

void GPipe::load(torch::serialize::InputArchive& archive) {
    load_state_dict(read_tensors(archive, state_dict()));
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const GPipe& model) {
    model.save(archive);
    return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, GPipe& model) {
    model.load(archive);
    return archive;
}

void GPipe::list_tensors() {
    impl().pipeline->list_tensors();
}

void GPipe::set_split(MiniBatchSplit split) {
    impl().pipeline->set_split(std::move(split));
}

void GPipe::train(bool on) {
    impl().pipeline->train(on);
}

bool GPipe::is_training() const {
    return impl().pipeline->is_training();
}

void GPipe::to(at::ScalarType dtype) {
    for (Partition& partition : impl().pipeline->partitions()) {
        partition.to(dtype);
    }
}

void GPipe::to(at::Device device) {
    throw UsageError("the model is to move to " + device.str() +
                     "; a pipeline's partitions live on the devices it was built with; name them in "
                     "GPipeOptions::devices");
}

void GPipe::zero_grad() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters()) {
        if (parameter.grad().defined()) {
            parameter.mutable_grad().detach_();
            parameter.mutable_grad().zero_();
        }
    }
}

const std::vector<LayerInfo>& GPipe::layers() const {
    return impl().layers;
}
const LayerInfo& GPipe::operator[](std::size_t layer) const {
    if (layer >= size()) {
        throw UsageError("layer " + std::to_string(layer) + " is asked for; the model has " +
                         counted(size(), "layer", "layers") + ", counted from 0; ask for one of them");
    }
    return layers()[layer];
}
const std::vector<PartitionInfo>& GPipe::partitions() const {
    return impl().partitions;
}
std::shared_ptr<const TaskGraph> GPipe::task_graph(std::int64_t batch) const {
    return impl().pipeline->graph(static_cast<int>(micro_batch_sizes(batch, chunks()).size()), RunFor::training);
}

int GPipe::replica() const {
    return impl().pipeline->replica();
}
const Balance& GPipe::balance() const {
    return impl().pipeline->balance();
}
const std::vector<std::string>& GPipe::devices() const {
    return impl().pipeline->options().devices;
}
std::int64_t GPipe::chunks() const {
    return impl().pipeline->options().chunks;
}
Checkpoint GPipe::checkpoint() const {
    return impl().pipeline->options().checkpoint;
}
std::int32_t GPipe::next_step() const {
    return impl().pipeline->next_step();
}
void GPipe::set_next_step(std::int32_t step) {
    if (step < 0) {
        throw UsageError("the next step is to have the number " + std::to_string(step) +
                         "; steps count from 0; pass the number of steps done");
    }
    impl().pipeline->set_next_step(step);
}
std::vector<UnsplitLayer> GPipe::unsplit_layers() const {
    std::vector<UnsplitLayer> layers;
    for (const Partition& partition : impl().pipeline->partitions()) {
        for (std::size_t k = 0; k < partition.split_notes().size(); ++k) {
            const LayerSplit& note = partition.split_notes()[k];
            if (!note.whole.empty()) {
                layers.push_back({LayerId{partition.range().first.index() + k},
                                  partition.layers()[k].name,
                                  note.has_weights_later,
                                  {note.whole.begin(), note.whole.end()}});
            }
        }
    }
    return layers;
}

std::optional<Failure> GPipe::last_failure() const {
    return impl().pipeline->last_failure();
}
}  // namespace pipescope
