#include "profiler/layers/tape_recording.h"

#include "balance/profile.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/memory/allocation_log.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

/// Numbers the blocks of a log as a tape does.
class TapeBuilder {
public:
    /// Blocks of the log get a number in the tape when they are first named.
    std::int32_t block(std::int64_t logged, Bytes bytes, Role role) {
        const auto [place, is_new] = numbers_.emplace(logged, static_cast<std::int32_t>(tape_.blocks.size() + 1));
        if (is_new) {
            tape_.blocks.push_back({role, bytes});
        }
        return place->second;
    }
    /// Another run's block of that number: the same input or output, taken again.
    void is_again(std::int64_t logged, std::int32_t number) { numbers_.emplace(logged, number); }
    std::int32_t number_of(std::int64_t logged) const { return numbers_.at(logged); }
    bool knows(std::int64_t logged) const { return numbers_.contains(logged); }
    /// What crosses the layer's border has the bytes of its storage: an accelerator's allocator rounds its blocks up.
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

class TapeRun {
public:
    TapeRun(LayerChain& chain, std::size_t index, const Activation& before)
        : chain_(chain), index_(index), before_(before), log_(chain.device()) {}

    LayerTape run() {
        forward_and_backward();
        checkpointed_forward();
        LayerTape tape = std::move(builder_.tape());
        tape.recompute = tape.forward;
        try {
            check_tape(tape, "tape");
        } catch (const ProfileError&) {
            return {};
        }
        return tape;
    }

private:
    void name(const Tensors& tensors, Role role) {
        for (const at::Tensor& tensor : tensors) {
            const std::int64_t block = log_.block_of(tensor);
            if (block != 0 && !builder_.knows(block)) {
                builder_.block(block, static_cast<Bytes>(tensor.storage().nbytes()), role);
            }
        }
    }

    /// Inputs before the forward: what is taken there comes after them.
    Activation start(Tensors* leaves) {
        Activation running = fresh_inputs(before_, leaves);
        name(running.tensors, Role::input);
        name(popped_tensors(running, chain_.skips(index_)), Role::skip);
        for (const auto& [skip, tensor] : running.skips) {  // only passes by
            if (tensor.defined()) {
                name({tensor}, Role::skip);
            }
        }
        log_.take();
        return running;
    }

    /// Roles that only the result of a forward shows.
    void name_results(const Activation& after) {
        for (const at::Tensor& skip : stashed_tensors(after, chain_.skips(index_))) {
            const std::int64_t block = log_.block_of(skip);
            if (block != 0 && builder_.role_of(block) == Role::own) {
                builder_.set_role(block, Role::skip, skip);
            }
        }
        for (const at::Tensor& output : after.tensors) {
            const std::int64_t block = log_.block_of(output);
            if (block == 0) {
                continue;
            }
            const Role role = builder_.role_of(block);
            const bool was_given = role == Role::input || role == Role::passed;
            builder_.set_role(block, was_given ? Role::passed : Role::output, output);
        }
    }

    /// Its inputs and outputs are those of the forward before; what it makes for itself are blocks of their own.
    void checkpointed_forward() {
        Activation running = fresh_inputs(before_);
        match(boundary(running), inputs_);
        log_.take();
        const at::NoGradGuard no_grad;
        const Activation held = running;  // as the caller of a layer does
        chain_.forward(index_, running);
        const std::vector<AllocationEvent> events = log_.take();
        match(boundary(running), outputs_);
        builder_.tape().checkpointed_forward = builder_.events(events);
        running = {};
        log_.take();
    }

    /// The blocks of an activation: its tensors, and the skips in their order; 0 where there is none.
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
        Tensors leaves;
        Activation running = start(&leaves);
        inputs_ = boundary(running);
        Activation held = running;  // as the caller of a layer does
        chain_.forward(index_, running);
        builder_.tape().forward = builder_.events(log_.take());
        name(running.tensors, Role::own);
        name_results(running);
        outputs_ = boundary(running);

        Tensors outputs = running.tensors;
        for (const at::Tensor& skip : stashed_tensors(running, chain_.skips(index_))) {
            outputs.push_back(skip);
        }
        TrialGraph graph(outputs);
        outputs.clear();
        running = {};
        held = {};
        Tensors gradients = graph.output_gradients();
        name(gradients, Role::output_gradient);
        log_.take();  // what the letting go freed belongs to the caller
        graph.backward(std::move(gradients));
        std::vector<AllocationEvent> events = log_.take();
        builder_.tape().backward = builder_.events(events);
        for (const at::Tensor& leaf : leaves) {
            if (leaf.grad().defined()) {
                name_input_gradient(leaf.grad());
            }
        }
    }

    void name_input_gradient(const at::Tensor& gradient) {
        const std::int64_t block = log_.block_of(gradient);
        if (block == 0 || !builder_.knows(block)) {
            return;
        }
        const bool was_given = builder_.role_of(block) == Role::output_gradient;
        builder_.set_role(block, was_given ? Role::passed_gradient : Role::input_gradient, gradient);
    }

    LayerChain& chain_;
    std::size_t index_;
    const Activation& before_;
    AllocationLog log_;
    TapeBuilder builder_;
    std::vector<std::int64_t> inputs_;  // the forward's boundary, in the log's numbers
    std::vector<std::int64_t> outputs_;
};
}  // namespace

LayerTape record_tape(LayerChain& chain, std::size_t index, const Activation& before) {
    return TapeRun(chain, index, before).run();
}
}  // namespace pipescope
