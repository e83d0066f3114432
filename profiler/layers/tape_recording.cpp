#include "profiler/layers/tape_recording.h"

#include "engine/gradients/gradient_needs.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/memory/allocation_log.h"
#include "profiler/profile/profile.h"

#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

/// Translates a log's block numbers to a tape's block numbers.
class TapeBuilder {
public:
    /// The tape's number of a logged block; new on first use.
    std::int32_t block(std::int64_t logged, Bytes bytes, Role role) {
        const auto [place, is_new] = numbers_.emplace(logged, static_cast<std::int32_t>(tape_.blocks.size() + 1));
        if (is_new) {
            tape_.blocks.push_back({role, bytes});
        }
        return place->second;
    }
    /// Maps another run's block to this number: the same input or output, allocated again.
    void is_again(std::int64_t logged, std::int32_t number) { numbers_.emplace(logged, number); }
    std::int32_t number_of(std::int64_t logged) const { return numbers_.at(logged); }
    bool knows(std::int64_t logged) const { return numbers_.contains(logged); }
    /// Tensors that cross the layer's border count with their storage's bytes, since an accelerator's allocator rounds
    /// up.
    void set_role(std::int64_t logged, Role role, const at::Tensor& tensor) {
        tape_.blocks[index_of(logged)] = {role, static_cast<Bytes>(tensor.storage().nbytes())};
    }
    Role role_of(std::int64_t logged) const { return tape_.blocks[index_of(logged)].role; }

    std::vector<std::int32_t> events(const std::vector<AllocationEvent>& logged) {
        std::vector<std::int32_t> events;
        for (const AllocationEvent& event : logged) {
            const bool is_taken = event.block > 0;
            const std::int32_t number = block(is_taken ? event.block : -event.block, event.bytes, Role::own);
            events.push_back(is_taken ? number : -number);
        }
        return events;
    }

    LayerTape& tape() { return tape_; }

private:
    std::size_t index_of(std::int64_t logged) const { return static_cast<std::size_t>(number_of(logged) - 1); }

    LayerTape tape_;
    std::map<std::int64_t, std::int32_t> numbers_;
};

/// If a tensor is in two places, gives them two tensors of one storage, as after a cut, so that each has its own
/// gradient.
Activation each_by_itself(Activation activation) {
    std::set<const void*> seen;
    const auto part = [&](at::Tensor& tensor) {
        if (tensor.defined() && !seen.insert(tensor.unsafeGetTensorImpl()).second) {
            tensor = tensor.detach().set_requires_grad(tensor.requires_grad());
        }
    };
    std::for_each(activation.tensors.begin(), activation.tensors.end(), part);
    for (auto& [name, tensor] : activation.skips) {
        part(tensor);
    }
    return activation;
}

/// A view that holds the whole tensor, so that autograd does not add to it in place.
at::Tensor as_part(const at::Tensor& whole) {
    return whole.as_strided(whole.sizes(), whole.strides());
}

class TapeRun {
public:
    TapeRun(LayerChain& chain, std::size_t index, const Activation& before, Activation* gradients, BackwardWay way)
        : chain_(chain), index_(index), before_(before), gradients_(gradients), way_(way), log_(chain.device()) {}

    LayerTape run() {
        forward_and_backward();
        checkpointed_forward();
        LayerTape tape = std::move(builder_.tape());
        tape.recompute = tape.forward;
        leave_out(tape, &LayerTape::inputs, inputs_of);
        leave_out(tape, &LayerTape::outputs, outputs_of);
        leave_out(tape, &LayerTape::output_gradients, output_gradients_of);
        return is_sound(tape) ? tape : LayerTape{};
    }

private:
    using Numbers = std::vector<std::int32_t>;
    bool is_sound(const LayerTape& tape) const {
        LayerTape whole;  // a split backward's tape is checked within another tape
        if (way_ == BackwardWay::in_halves) {
            whole.halves = {tape};
        }
        try {
            check_tape(way_ == BackwardWay::in_halves ? whole : tape, "tape");
        } catch (const ProfileError&) {
            return false;
        }
        return true;
    }
    /// Clears a list that the roles already imply.
    static void leave_out(PlainTape& tape, Numbers PlainTape::*list, Numbers (*list_of)(const PlainTape&)) {
        Numbers known = std::exchange(tape.*list, {});
        if (known != list_of(tape)) {
            tape.*list = std::move(known);
        }
    }

    /// The tensor's block number in the tape; 0 if its allocation was not seen.
    std::int32_t name(const at::Tensor& tensor, Role role) {
        const std::int64_t block = tensor.defined() ? log_.block_of(tensor) : 0;
        return block == 0 ? 0 : builder_.block(block, static_cast<Bytes>(tensor.storage().nbytes()), role);
    }
    const std::vector<SkipName>& stashes() const { return chain_.skips(index_).stash; }
    const std::vector<SkipName>& pops() const { return chain_.skips(index_).pop; }
    static at::Tensor skip_of(const Activation& activation, const SkipName& name) {
        const auto found = activation.skips.find(name);
        return found == activation.skips.end() ? at::Tensor() : found->second;
    }

    static void add(std::int32_t block, Numbers& list) {
        if (block != 0) {
            list.push_back(block);
        }
    }

    /// Names the inputs before the forward, so that its allocations follow them.
    void name_inputs(const Activation& opened) {
        for (const at::Tensor& tensor : opened.tensors) {
            add(name(tensor, Role::input), builder_.tape().inputs);
        }
        for (const auto& [skip, tensor] : opened.skips) {  // some only pass by
            name(tensor, Role::skip);
        }
        for (const SkipName& skip : pops()) {
            builder_.tape().pop[profile_name(skip)].value = name(skip_of(opened, skip), Role::skip);
        }
        inputs_ = boundary(opened);
        log_.take();
    }

    /// Sets the roles that are known only after a forward.
    void name_results(const Activation& after) {
        for (const at::Tensor& output : after.tensors) {
            const std::int64_t block = log_.block_of(output);
            if (block == 0) {
                continue;
            }
            builder_.tape().outputs.push_back(name(output, Role::own));
            const Role role = builder_.role_of(block);
            if (role != Role::skip) {  // a popped skip that is also an output stays a skip
                const bool was_given = role == Role::input || role == Role::passed;
                builder_.set_role(block, was_given ? Role::passed : Role::output, output);
            }
        }
        for (const SkipName& skip : stashes()) {
            const at::Tensor tensor = skip_of(after, skip);
            builder_.tape().stash[profile_name(skip)].value = name(tensor, Role::own);
            if (const std::int64_t block = tensor.defined() ? log_.block_of(tensor) : 0;
                block != 0 && builder_.role_of(block) == Role::own) {
                builder_.set_role(block, Role::skip, tensor);
            }
        }
        outputs_ = boundary(after);
    }

    /// Inputs and outputs are the previous forward's; its other allocations are separate blocks.
    void checkpointed_forward() {
        Activation running = fresh_inputs(before_);
        match(boundary(running), inputs_);
        log_.take();
        const at::NoGradGuard no_grad;
        const Activation held = running;  // as a layer's caller holds it
        chain_.forward(index_, running);
        const std::vector<AllocationEvent> events = log_.take();
        match(boundary(running), outputs_);
        builder_.tape().checkpointed_forward = builder_.events(events);
        running = {};
        log_.take();
    }

    /// The blocks of an activation: its tensors, then the skips in order; 0 if there is none.
    std::vector<std::int64_t> boundary(const Activation& activation) {
        std::vector<std::int64_t> blocks;
        for (const at::Tensor& tensor : activation.tensors) {
            blocks.push_back(log_.block_of(tensor));
        }
        for (const auto& [skip, tensor] : activation.skips) {
            blocks.push_back(tensor.defined() ? log_.block_of(tensor) : 0);
        }
        return blocks;
    }

    void match(const std::vector<std::int64_t>& blocks, const std::vector<std::int64_t>& earlier) {
        for (std::size_t k = 0; k < std::min(blocks.size(), earlier.size()); ++k) {
            if (blocks[k] != 0 && earlier[k] != 0 && !builder_.knows(blocks[k])) {
                builder_.is_again(blocks[k], builder_.number_of(earlier[k]));
            }
        }
    }

    void forward_and_backward() {
        TrialGraph graph;
        Activation running = graph.open(each_by_itself(fresh_inputs(before_)));
        name_inputs(running);
        std::vector<bool> wants_gradient;
        for (const at::Tensor& tensor : running.tensors) {
            wants_gradient.push_back(tensor.requires_grad());
        }
        Activation held = running;  // as a layer's caller holds it
        const LayerMarks marks{at::sequence_number::peek()};
        chain_.forward(index_, running);
        builder_.tape().forward = builder_.events(log_.take());
        name_results(running);

        std::vector<bool> gives_gradient;
        for (const at::Tensor& tensor : running.tensors) {
            gives_gradient.push_back(tensor.requires_grad());
        }
        // Skips first, as in the engine: autograd adds later gradients in place to the first to arrive.
        Tensors outputs;
        for (const SkipName& skip : stashes()) {
            outputs.push_back(skip_of(running, skip));
        }
        outputs.insert(outputs.end(), running.tensors.begin(), running.tensors.end());
        graph.close(outputs);
        outputs.clear();
        running = {};
        held = {};
        Tensors gradients = from_above(graph.output_gradients());
        const std::size_t first = stashes().size();
        for (std::size_t k = 0; k < gives_gradient.size(); ++k) {
            const std::int32_t block = name(gradients[first + k], Role::output_gradient);
            builder_.tape().output_gradients.push_back(gives_gradient[k] ? block : 0);
        }
        for (std::size_t k = 0; k < stashes().size(); ++k) {
            builder_.tape().stash[profile_name(stashes()[k])].gradient = name(gradients[k], Role::skip);
        }
        log_.take();  // frees by this release belong to the caller
        Tensors arrived = way_ == BackwardWay::whole ? graph.backward(std::move(gradients))
                                                     : graph.backward_inputs(std::move(gradients), marks);
        builder_.tape().backward = builder_.events(log_.take());
        name_input_gradients(arrived, wants_gradient);
        if (way_ == BackwardWay::in_halves) {
            backward_weights(graph, arrived);
        }
        if (gradients_ != nullptr) {
            hand_down(arrived, wants_gradient.size());
        }
    }

    /// `arrived`: gradients that go to the layer below. If this half needs one of them too, the layer below gets it as
    /// a part of a whole that others hold. If others hold a gradient here (we, or another layer of the model), the half
    /// frees what it needs at its end.
    void backward_weights(TrialGraph& graph, Tensors& arrived) {
        std::set<std::int64_t> kept;
        for (const at::Tensor& gradient : graph.weight_gradients()) {
            kept.insert(log_.block_of(gradient));
        }
        graph.backward_weights();
        Numbers& events = builder_.tape().backward_weight;
        events = builder_.events(log_.take());
        for (const std::int64_t block : kept) {
            const std::int32_t number = builder_.knows(block) ? builder_.number_of(block) : 0;
            if (number != 0 && std::find(events.begin(), events.end(), -number) == events.end()) {
                events.push_back(-number);
            }
        }
        for (at::Tensor& gradient : arrived) {
            if (gradient.defined() && kept.contains(log_.block_of(gradient))) {
                gradient = as_part(gradient);
            }
        }
    }

    /// Uses the gradients from the layers above, since layout and sharing matter: a layer may copy a transposed or
    /// expanded gradient, and autograd does not add in place to a shared one. Undefined gradients stay undefined.
    /// Order: the stashed skips', then the outputs'.
    Tensors from_above(Tensors gradients) {
        if (gradients_ == nullptr) {
            return gradients;
        }
        const auto take = [this](at::Tensor& gradient, at::Tensor left) {
            const bool fits = left.defined() && gradient.defined() && left.sizes() == gradient.sizes() &&
                              left.scalar_type() == gradient.scalar_type();
            if (fits && log_.block_of(left) == 0) {  // from another log, as on an accelerator; only its layout matters
                left = left.is_view() ? as_part(left.clone()) : left.clone();
            }
            gradient = fits || !left.defined() ? std::move(left) : gradient;
        };
        const std::size_t first = stashes().size();
        for (std::size_t k = 0; k < first; ++k) {
            if (auto skip = gradients_->skips.extract(stashes()[k])) {
                take(gradients[k], std::move(skip.mapped()));
            }
        }
        Tensors above = std::exchange(gradients_->tensors, {});
        for (std::size_t k = 0; k < std::min(gradients.size() - first, above.size()); ++k) {
            take(gradients[first + k], std::move(above[k]));
        }
        return gradients;
    }
    void hand_down(const Tensors& arrived, std::size_t inputs) {
        const auto of = [&](std::size_t k) { return k < arrived.size() ? arrived[k] : at::Tensor(); };
        for (std::size_t k = 0; k < inputs; ++k) {
            gradients_->tensors.push_back(of(k));
        }
        std::size_t place = inputs;
        for (const auto& [skip, tensor] : before_.skips) {
            if (std::find(pops().begin(), pops().end(), skip) != pops().end()) {
                add_to(gradients_->skips[skip], of(place));
            }
            ++place;
        }
    }

    /// Several layers may pop one skip.
    static void add_to(at::Tensor& sum, at::Tensor gradient) {
        const at::NoGradGuard no_grad;
        sum = sum.defined() && gradient.defined() ? sum + gradient
              : sum.defined()                     ? std::move(sum)
                                                  : std::move(gradient);
    }

    /// `arrived`: the tensors' gradients, then the skips' by name.
    void name_input_gradients(const Tensors& arrived, const std::vector<bool>& wants_gradient) {
        const auto gradient = [&](std::size_t k) { return k < arrived.size() ? arrived[k] : at::Tensor(); };
        for (std::size_t k = 0; k < wants_gradient.size(); ++k) {
            builder_.tape().input_gradients.push_back(
                wants_gradient[k] ? name_gradient(gradient(k), Role::input_gradient) : 0);
        }
        std::size_t place = wants_gradient.size();
        for (const auto& [skip, tensor] : before_.skips) {
            const auto pop = builder_.tape().pop.find(profile_name(skip));
            if (pop != builder_.tape().pop.end()) {
                pop->second.gradient = name_gradient(gradient(place), Role::skip);
            }
            ++place;
        }
    }
    std::int32_t name_gradient(const at::Tensor& gradient, Role role) {
        const std::int64_t block = gradient.defined() ? log_.block_of(gradient) : 0;
        if (block == 0 || !builder_.knows(block)) {
            return 0;
        }
        if (builder_.role_of(block) == Role::own) {
            builder_.set_role(block, role, gradient);
        } else if (builder_.role_of(block) == Role::output_gradient && role == Role::input_gradient) {
            builder_.set_role(block, Role::passed_gradient, gradient);
        }
        return builder_.number_of(block);
    }

    LayerChain& chain_;
    std::size_t index_;
    const Activation& before_;
    Activation* gradients_;  // in: of the outgoing tensors; out: of the incoming ones; may be null
    BackwardWay way_;
    AllocationLog log_;
    TapeBuilder builder_;
    std::vector<std::int64_t> inputs_;  // like outputs_, the forward's boundary in the log's numbers
    std::vector<std::int64_t> outputs_;
};
}  // namespace

LayerTape record_tape(LayerChain& chain, std::size_t index, const Activation& before, Activation* gradients,
                      BackwardWay way) {
    return TapeRun(chain, index, before, gradients, way).run();
}

namespace {
/// The model's outputs as in a lane: leaves without a graph.
Tensors outputs_of_model(LayerChain& chain, const Activation& before) {
    TrialGraph graph;  // its inputs are not leaves, so the layer may change them in place
    Activation running = graph.open(fresh_inputs(before));
    chain.forward(chain.size() - 1, running);
    return as_leaves(running.tensors);
}

/// A gathered loss works on contiguous outputs, even if a micro-batch's outputs are not, and a micro-batch's gradients
/// are views of the gathered gradient.
Tensors gathered(const Tensors& outputs) {
    const at::NoGradGuard no_grad;
    Tensors whole;
    for (const at::Tensor& output : outputs) {
        whole.push_back(output.clone(at::MemoryFormat::Contiguous).set_requires_grad(output.requires_grad()));
    }
    return whole;
}
Tensors as_parts(Tensors gradients) {
    for (at::Tensor& gradient : gradients) {
        gradient = gradient.defined() ? as_part(gradient) : gradient;
    }
    return gradients;
}

bool has_layout(const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_sparse() && tensor.has_storage();
}

/// True if the layers below can distinguish these gradients from the gradients of a loss of the micro-batch alone.
bool differ(const Activation& gathered, const Activation& alone) {
    const auto differs = [](const at::Tensor& one, const at::Tensor& other) {
        return has_layout(one) && has_layout(other) &&
               (one.is_view() != other.is_view() || one.strides() != other.strides());
    };
    for (std::size_t k = 0; k < std::min(gathered.tensors.size(), alone.tensors.size()); ++k) {
        if (differs(gathered.tensors[k], alone.tensors[k])) {
            return true;
        }
    }
    return std::any_of(gathered.skips.begin(), gathered.skips.end(), [&](const auto& each) {
        const auto other = alone.skips.find(each.first);
        return differs(each.second, other == alone.skips.end() ? at::Tensor() : other->second);
    });
}
}  // namespace

namespace {
bool trains(const LayerChain& chain, std::size_t layer) {
    const NamedTensors parameters = chain.layer(layer).parameters();
    return std::any_of(parameters.begin(), parameters.end(),
                       [](const auto& each) { return each.second.requires_grad(); });
}

/// The tapes of the layers from `first` on; the others are empty.
std::vector<LayerTape> record_down_to(std::size_t first, LayerChain& chain, const std::vector<Activation>& before,
                                      const Tensors& target) {
    std::vector<LayerTape> tapes(before.size());
    bool is_gathered = chain.has_loss() && !before.empty();
    Activation alone;
    Activation in_halves;
    Activation of_gathered;
    if (is_gathered) {
        const Tensors outputs = outputs_of_model(chain, before.back());
        alone.tensors = loss_gradients(chain, outputs, target);
        in_halves.tensors = loss_gradients(chain, outputs, target);
        of_gathered.tensors = as_parts(loss_gradients(chain, gathered(outputs), target));
    }
    for (std::size_t layer = before.size(); layer-- > first;) {
        tapes[layer] = record_tape(chain, layer, before[layer], &alone);
        if (is_gathered) {
            LayerTape tape = record_tape(chain, layer, before[layer], &of_gathered);
            if (!tape.empty() && !tapes[layer].empty() && tape != tapes[layer]) {
                tapes[layer].gathered = {std::move(tape)};
            }
            is_gathered = differ(of_gathered, alone);
        }
        LayerTape halves = record_tape(chain, layer, before[layer], &in_halves, BackwardWay::in_halves);
        const PlainTape& whole = tapes[layer];
        if (!halves.empty() && !whole.empty() && (trains(chain, layer) || halves != whole)) {
            tapes[layer].halves = {std::move(halves)};
        }
    }
    return tapes;
}

/// The first layer that may follow a checkpointed partition that trains. At most the last layer, whose outputs'
/// gradients matter; chain.size() if no layer trains.
std::size_t first_behind_a_trained_one(LayerChain& chain) {
    std::size_t layer = 0;
    while (layer < chain.size() && !trains(chain, layer)) {
        ++layer;
    }
    return std::min(layer + 1, layer < chain.size() ? chain.size() - 1 : layer);
}
}  // namespace

std::vector<LayerTape> record_tapes(LayerChain& chain, const std::vector<Activation>& before, const Tensors& target) {
    std::vector<LayerTape> tapes = record_down_to(0, chain, before, target);
    const std::size_t first = std::min(first_behind_a_trained_one(chain), before.size());
    if (std::none_of(before.begin() + static_cast<std::ptrdiff_t>(first), before.end(), lacks_a_gradient)) {
        return tapes;
    }
    std::vector<Activation> all = before;
    std::transform(before.begin(), before.end(), all.begin(), requiring_gradients);
    std::vector<LayerTape> with_all = record_down_to(first, chain, all, target);
    for (std::size_t layer = first; layer < tapes.size(); ++layer) {
        if (!with_all[layer].empty() && !tapes[layer].empty() && with_all[layer] != tapes[layer]) {
            tapes[layer].all_gradients = {std::move(with_all[layer])};
        }
    }
    return tapes;
}
}  // namespace pipescope
