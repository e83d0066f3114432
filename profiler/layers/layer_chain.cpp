#include "profiler/layers/layer_chain.h"

#include "engine/random.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::time_point from, Clock::time_point to) {
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

bool contains(const Tensors& tensors, const at::Tensor& tensor) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& each) { return each.is_same(tensor); });
}

/// When backward reached each layer of a segment; nothing for a layer that has no node of its own.
class BackwardClock {
public:
    explicit BackwardClock(std::size_t layers) : reached_(layers) {}

    /// Hooks the outputs that the layer made; what it only handed on belongs to an earlier layer.
    void watch(std::size_t layer, const Tensors& inputs, const Tensors& outputs) {
        for (const at::Tensor& output : outputs) {
            if (output.requires_grad() && !output.is_leaf() && !contains(inputs, output)) {
                output.register_hook([&reached = reached_[layer]](const at::Tensor&) {
                    if (!reached) {
                        reached = Clock::now();
                    }
                });
            }
        }
    }

    /// Each layer's time lasts until backward reached the next one below it.
    std::vector<double> durations(Clock::time_point end) const {
        std::vector<double> times(reached_.size(), 0);
        Clock::time_point until = end;
        for (std::size_t layer = 0; layer < reached_.size(); ++layer) {
            if (reached_[layer]) {
                times[layer] = std::max(0.0, nanoseconds(*reached_[layer], until));
                until = *reached_[layer];
            }
        }
        return times;
    }

private:
    std::vector<std::optional<Clock::time_point>> reached_;
};

void backward(const Tensors& outputs, const Tensors& gradients) {
    torch::autograd::variable_list roots;
    torch::autograd::variable_list root_gradients;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].requires_grad()) {
            roots.push_back(outputs[i]);
            root_gradients.push_back(gradients[i]);
        }
    }
    if (!roots.empty()) {
        torch::autograd::backward(roots, root_gradients);
    }
}

constexpr double kMadeUpGradient = 1e-3;

// Gradients of a segment's end that is not the model's: small and without a pattern that a normalisation would cancel.
Tensors made_up_gradients(const Tensors& outputs) {
    Tensors gradients;
    for (const at::Tensor& output : outputs) {
        gradients.push_back(output.requires_grad() ? at::randn_like(output) * kMadeUpGradient : at::Tensor());
    }
    return gradients;
}

// The gradients of the output, and how long the loss took: as in the engine, the output is joined first.
std::pair<Tensors, double> loss_gradients(const LayerChain& chain, const Tensors& outputs, const Tensors& target) {
    const auto start = Clock::now();
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
    return {gradients, nanoseconds(start, Clock::now())};
}
}  // namespace

void run_on_one_thread() {
    at::get_num_threads();  // a thread's first question brings the process's default back: ask before setting
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

LayerChain::LayerChain(const ModelSpec& model, std::uint64_t seed) : loss_(model.loss), seed_(seed) {
    for (const LayerSpec& layer : model.layers) {
        layers_.push_back(layer.make());
        layers_.back()->train(true);
        skips_.push_back(layers_.back()->skips());
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
    const SeededRandom random(random_seed(seed_, 0, MicroBatchId{0}, LayerId{static_cast<std::int64_t>(layer)}));
    SkipShelf shelf(skips_.at(layer), activation.skips);
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

void LayerChain::run_segment(std::size_t first, std::size_t end, Activation& at, const Tensors& target,
                             LayerTimes& times, const std::stop_token& stop) {
    {
        const torch::NoGradGuard no_grad;
        Activation running = at;
        for (std::size_t layer = first; layer < end && !stop.stop_requested(); ++layer) {
            const auto start = Clock::now();
            forward(layer, running);
            times.forward[layer] = nanoseconds(start, Clock::now());
        }
    }
    BackwardClock clock(end - first);
    Activation running = std::move(at);
    for (std::size_t layer = first; layer < end && !stop.stop_requested(); ++layer) {
        const Tensors inputs = running.tensors;
        const auto start = Clock::now();
        forward(layer, running);
        times.recompute[layer] = nanoseconds(start, Clock::now());
        clock.watch(layer - first, inputs, running.tensors);
    }
    if (stop.stop_requested()) {
        return;
    }
    Tensors gradients;
    if (end == size() && has_loss()) {
        std::tie(gradients, times.loss) = loss_gradients(*this, running.tensors, target);
    } else {
        gradients = made_up_gradients(running.tensors);
    }
    at = as_leaves(running);
    Tensors roots = std::exchange(running.tensors, {});
    for (auto& [name, tensor] : running.skips) {  // a later segment sends its gradient back
        if (tensor.defined() && tensor.requires_grad() && !tensor.is_leaf()) {
            roots.push_back(tensor);
            gradients.push_back(at::randn_like(tensor) * kMadeUpGradient);
        }
    }
    running.skips.clear();
    backward(std::exchange(roots, {}), std::exchange(gradients, {}));
    const std::vector<double> backward_times = clock.durations(Clock::now());
    std::copy(backward_times.begin(), backward_times.end(),
              times.backward.begin() + static_cast<std::ptrdiff_t>(first));
}
}  // namespace pipescope
