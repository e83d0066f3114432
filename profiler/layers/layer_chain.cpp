#include "profiler/layers/layer_chain.h"

#include "engine/current_task.h"
#include "engine/device/lane_device.h"
#include "engine/random.h"
#include "profiler/layers/layer_trial.h"

#include <ATen/Parallel.h>
#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
/// Start and end.
using Span = std::pair<Instant, Instant>;

double nanoseconds(const Span& span) {
    return DeviceClock::nanoseconds(span.first, span.second);
}

bool contains(const Tensors& tensors, const at::Tensor& tensor) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& each) { return each.is_same(tensor); });
}

/// Records when backward reached each layer of a segment. Empty for a layer without its own node.
class BackwardClock {
public:
    BackwardClock(const DeviceClock& clock, std::size_t layers) : clock_(clock), reached_(layers) {}

    /// Hooks the layer's new outputs. A tensor that it only passed on belongs to an earlier layer.
    void watch(std::size_t layer, const Tensors& inputs, const Tensors& outputs) {
        for (const at::Tensor& output : outputs) {
            if (output.requires_grad() && !output.is_leaf() && !contains(inputs, output)) {
                output.register_hook([this, &reached = reached_[layer]](const at::Tensor&) {
                    if (!reached) {
                        reached = clock_.now();
                    }
                });
            }
        }
    }

    /// Each layer's time lasts until backward reaches the next layer below.
    std::vector<double> durations(const Instant& end) const {
        std::vector<double> times(reached_.size(), 0);
        Instant until = end;
        for (std::size_t layer = 0; layer < reached_.size(); ++layer) {
            if (reached_[layer]) {
                times[layer] = DeviceClock::nanoseconds(*reached_[layer], until);
                until = *reached_[layer];
            }
        }
        return times;
    }

private:
    const DeviceClock& clock_;
    std::vector<std::optional<Instant>> reached_;
};

/// An output without a gradient is an output that the loss ignores, as in the engine.
void backward(const Tensors& outputs, const Tensors& gradients) {
    torch::autograd::variable_list roots;
    torch::autograd::variable_list root_gradients;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].requires_grad() && gradients[i].defined()) {
            roots.push_back(outputs[i]);
            root_gradients.push_back(gradients[i]);
        }
    }
    if (!roots.empty()) {
        torch::autograd::backward(roots, root_gradients);
    }
}

constexpr double kMadeUpGradient = 1e-3;

// Gradients for the end of a segment inside the model: small, without a pattern that a normalisation would cancel.
Tensors made_up_gradients(const Tensors& outputs) {
    Tensors gradients;
    for (const at::Tensor& output : outputs) {
        gradients.push_back(output.defined() && output.requires_grad() ? at::randn_like(output) * kMadeUpGradient
                                                                       : at::Tensor());
    }
    return gradients;
}

// The gradients of the output, and the loss's start and end. As in the engine, the output is gathered first.
std::pair<Tensors, Span> loss_gradients(const LayerChain& chain, const DeviceClock& clock, const Tensors& outputs,
                                        const Tensors& target) {
    const Instant start = clock.now();
    Tensors joined;
    for (const at::Tensor& output : outputs) {
        joined.push_back(output.detach().clone().set_requires_grad(output.requires_grad()));
    }
    const at::Tensor loss = chain.loss(joined, target);
    if (loss.requires_grad()) {
        loss.backward();
    }
    Tensors gradients;
    for (const at::Tensor& output : joined) {
        gradients.push_back(output.grad());
    }
    return {gradients, {start, clock.now()}};
}
}  // namespace

double LayerTimes::total() const {
    double sum = 0;
    for (const std::vector<double>* times : {&forward, &recompute, &backward}) {
        sum = std::accumulate(times->begin(), times->end(), sum);
    }
    return sum;
}

void run_on_one_thread() {
    at::get_num_threads();  // a thread's first query restores the process's default, so ask before setting
    at::set_num_threads(1);
}

Tensors as_leaves(const Tensors& tensors) {
    Tensors leaves;
    for (const at::Tensor& tensor : tensors) {
        leaves.push_back(tensor.detach().set_requires_grad(tensor.requires_grad()));
    }
    return leaves;
}

Activation as_leaves(const Activation& activation) {
    Activation leaves{as_leaves(activation.tensors), {}};
    for (const auto& [name, tensor] : activation.skips) {
        leaves.skips[name] = tensor.defined() ? tensor.detach().set_requires_grad(tensor.requires_grad()) : tensor;
    }
    return leaves;
}

LayerChain::LayerChain(const ModelSpec& model, std::uint64_t seed, c10::Device device)
    : loss_(model.loss), seed_(seed), device_(device), clock_(device) {
    for (const LayerSpec& layer : model.layers) {
        layers_.push_back(layer.make());
        if (!device.is_meta()) {  // on the meta device its factory places it
            move_layer(*layers_.back(), device);
        }
        layers_.back()->train(true);
        skips_.push_back(layers_.back()->skips());
    }
    popped_on_.resize(size());
    std::set<SkipName> popped;
    for (std::size_t layer = size(); layer-- > 0;) {
        for (const SkipName& name : skips_[layer].pop) {
            if (!popped.insert(name).second) {
                popped_on_[layer].insert(name);
            }
        }
    }
}

std::vector<at::Tensor> LayerChain::parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& layer : layers_) {
        for (const auto& [name, parameter] : layer->parameters()) {
            all.push_back(parameter);
        }
    }
    return all;
}

void LayerChain::forward(std::size_t layer, Activation& activation) {
    const SeededRandom random(random_seed(seed_, 0, MicroBatchId{0}, LayerId{layer}));
    SkipShelf shelf(skips_.at(layer), popped_on_.at(layer), activation.skips);
    activation.tensors = layers_.at(layer)->forward_with_skips(activation.tensors, shelf);
}

LayerTimes LayerChain::run(const Activation& start, const Tensors& target, const std::vector<std::size_t>& segments,
                           const std::stop_token& stop) {
    LayerTimes times{std::vector<double>(size()), std::vector<double>(size()), std::vector<double>(size()), 0};
    Activation at = as_leaves(start);
    std::size_t first = 0;
    for (const std::size_t end : segments) {
        run_segment(first, end, at, target, times, stop);
        if (stop.stop_requested()) {
            return times;
        }
        first = end;
    }
    return times;
}

SplitTimes LayerChain::run_split(const Activation& start, const std::vector<std::size_t>& segments) {
    SplitTimes times{std::vector<double>(size()), 0};
    Activation at = as_leaves(start);
    std::size_t first = 0;
    for (const std::size_t end : segments) {
        TrialGraph graph;
        LayerMarks marks;
        Activation running = graph.open(at);
        for (std::size_t layer = first; layer < end; ++layer) {
            marks.push_back(at::sequence_number::peek());
            forward(layer, running);
        }
        at = as_leaves(running);
        Tensors outputs = std::move(running.tensors);
        for (auto& [name, tensor] : running.skips) {
            outputs.push_back(std::move(tensor));
        }
        running = {};
        graph.close(outputs);
        Tensors gradients = made_up_gradients(std::exchange(outputs, {}));
        SplitNotes notes;
        const Instant begin = clock_.now();
        graph.backward_inputs(std::exchange(gradients, {}), marks, &notes);
        Instant before = clock_.now();
        std::vector<Span> weight_spans;  // of the last layer first
        for (std::size_t layer = end; layer-- > first;) {
            graph.backward_weights(marks[layer - first]);
            const Instant after = clock_.now();
            weight_spans.emplace_back(before, after);
            before = after;
        }
        for (std::size_t layer = first; layer < end; ++layer) {
            // Without such work, the span only times the clock itself.
            times.weights[layer] =
                notes[layer - first].has_weights_later ? nanoseconds(weight_spans[end - 1 - layer]) : 0;
        }
        times.both += nanoseconds({begin, before});
        first = end;
    }
    return times;
}

double LayerChain::time_loss(const Tensors& output, const Tensors& target) const {
    return has_loss() ? nanoseconds(loss_gradients(*this, clock_, output, target).second) : 0;
}

void LayerChain::run_segment(std::size_t first, std::size_t end, Activation& at, const Tensors& target,
                             LayerTimes& times, const std::stop_token& stop) {
    std::vector<Span> forward_spans;  // evaluated at the end, so as not to wait for an accelerator in between
    std::vector<Span> recompute_spans;
    {
        const at::NoGradGuard no_grad;
        Activation running = at;
        for (std::size_t layer = first; layer < end && !stop.stop_requested(); ++layer) {
            const Instant start = clock_.now();
            forward(layer, running);
            forward_spans.emplace_back(start, clock_.now());
        }
    }
    BackwardClock reached(clock_, end - first);
    Activation running = std::move(at);
    for (std::size_t layer = first; layer < end && !stop.stop_requested(); ++layer) {
        const Tensors inputs = running.tensors;
        const Instant start = clock_.now();
        {
            // As in the engine: a layer may behave differently the second time, and an emulated layer takes a different
            // time.
            const CurrentTaskScope recomputing({-1, TaskKind::recompute, 0, 0, -1}, LaneId{0}, false);
            forward(layer, running);
        }
        recompute_spans.emplace_back(start, clock_.now());
        reached.watch(layer - first, inputs, running.tensors);
    }
    if (stop.stop_requested()) {
        return;
    }
    Tensors gradients;
    std::optional<Span> loss;
    if (end == size() && has_loss()) {
        std::tie(gradients, loss) = loss_gradients(*this, clock_, running.tensors, target);
    } else {
        gradients = made_up_gradients(running.tensors);
    }
    at = as_leaves(running);
    Tensors roots = std::exchange(running.tensors, {});
    for (auto& [name, tensor] : running.skips) {  // a later segment sends the gradient back
        if (tensor.defined() && tensor.requires_grad() && !tensor.is_leaf()) {
            roots.push_back(tensor);
            gradients.push_back(at::randn_like(tensor) * kMadeUpGradient);
        }
    }
    running.skips.clear();
    backward(std::exchange(roots, {}), std::exchange(gradients, {}));
    const std::vector<double> backward_times = reached.durations(clock_.now());
    for (std::size_t layer = first; layer < end; ++layer) {
        times.forward[layer] = nanoseconds(forward_spans[layer - first]);
        times.recompute[layer] = nanoseconds(recompute_spans[layer - first]);
        times.backward[layer] = backward_times[layer - first];
    }
    times.loss = loss ? nanoseconds(*loss) : times.loss;
}
}  // namespace pipescope
