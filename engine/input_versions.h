#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// Counts in-place changes of a mini-batch's input for each micro-batch by itself.
///
/// Problem: the micro-batches are views of one tensor, so torch counts a change of any of them as a change of all. A
/// first layer that works in place would spoil what the micro-batch before it saved. Idea: each part has a version
/// counter of its own. Changes by layers are passed on to the caller's tensor after the forward, and changes by the
/// caller to the parts before the backward, so torch refuses what it refuses in the plain model. Parts that may share
/// memory with other parts keep the counter of their input.
/// Ownership: holds counters, no memory.
/// Threading: check(), note_history() and tell_parts() from any lane, the first two from one lane at a time for each
/// micro-batch; the others while no lane runs.
class InputVersions {
public:
    InputVersions() = default;
    /// `parts[i][k]` is the part of `input[k]` that micro-batch i computes on. `trains`: a backward may come.
    InputVersions(const Tensors& input, const std::vector<Tensors>& parts, bool trains);

    /// After a forward task of the micro-batch. Throws EngineError if a layer changed an input in place that must stay:
    /// one that torch lets nobody change, or one whose micro-batches may share memory.
    void check(int micro_batch) const;
    /// After the first partition ran: `parts` are the tensors that it was given. A change in place may have made one
    /// require a gradient.
    void note_history(int micro_batch, const Tensors& parts);
    /// After the forward: counts the layers' changes for the caller's tensors.
    void tell_input();
    /// Before a backward: counts the caller's changes since the forward for the parts.
    void tell_parts() const;
    /// After the forward, when the caller's edges to the input were taken. Only the lanes' graphs know how a layer
    /// changed an input, so a gradient that reaches it by another way would be wrong: from now on that throws
    /// EngineError in the caller's backward.
    void guard(const Tensors& input) const;

private:
    struct Input {
        c10::VariableVersion counter;
        std::uint32_t before;
        std::vector<c10::VariableVersion> parts;  // by micro-batch; the input's own counter where memory may be shared
        std::uint32_t parts_before;
        bool has_own_parts;
        bool needs_gradient;
        std::string must_stay;          // why it must not be changed; empty: it may be
        std::vector<char> has_history;  // by micro-batch
        bool changed = false;
    };
    std::vector<Input> inputs_;        // those whose changes torch counts
    std::vector<std::size_t> places_;  // of those, in the caller's list
};
}  // namespace pipescope
