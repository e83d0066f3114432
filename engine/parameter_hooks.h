#pragma once

#include "engine/layer.h"

#include <memory>
#include <vector>

namespace pipescope {
/// Whether torch calls anything when the parameter, which requires a gradient, gets one.
bool has_hooks(const at::Tensor& parameter);

/// Gives the hooks of parameters the gradient of a whole step, once, as one backward() of the plain model would.
///
/// Problem: each micro-batch goes backward on its own, so torch would call a parameter's hooks once for each, with its
/// part of the gradient. Idea: while the micro-batches go backward, the hooks are taken off and .grad is put aside.
/// What the micro-batches then leave in .grad is the step's sum; it goes through torch's engine like any other
/// gradient, which calls the hooks and adds to .grad. Cost: none for parameters without hooks; for the others the
/// step's gradient is held beside .grad. Threading: made, asked and destroyed in one thread, while no lane runs. The
/// destructor puts back what was taken off.
class SummedForHooks {
public:
    explicit SummedForHooks(const std::vector<at::Tensor>& parameters);
    ~SummedForHooks();
    SummedForHooks(const SummedForHooks&) = delete;
    SummedForHooks& operator=(const SummedForHooks&) = delete;

    /// Puts hooks and .grad back. Returns the sums by parameter: undefined where a parameter has no hook, and where no
    /// gradient came. From then on an undefined gradient calls no hook of these parameters, so that a node may lead to
    /// a parameter and have nothing for it.
    Tensors take();

private:
    struct Parameter;
    void put_back();

    const std::size_t count_;
    std::vector<std::unique_ptr<Parameter>> hooked_;
};

/// Sends the sums, as take() returns them, through torch's engine to their parameters.
void add_to_gradients(const std::vector<at::Tensor>& parameters, Tensors sums);
}  // namespace pipescope
