#pragma once

#include "engine/layer.h"

#include <memory>
#include <vector>

namespace pipescope {
/// True if torch calls a hook when the parameter gets a gradient. Precondition: it requires one.
bool has_hooks(const at::Tensor& parameter);

/// Calls parameters' hooks once per step with the step's gradient, as one backward() of the plain model would.
///
/// Problem: each micro-batch goes backward on its own, so torch would call a parameter's hooks once for each, with its
/// part of the gradient. Idea: while the micro-batches go backward, the hooks are removed and .grad is put aside. The
/// micro-batches then leave the step's sum in .grad. It goes through torch's engine like any other gradient, which
/// calls the hooks and adds to .grad. Cost: none for parameters without hooks; for the others the step's gradient is
/// held in addition to .grad. Threading: create, use and destroy it in one thread, while no other thread uses the
/// parameters. The destructor restores what was removed.
class SummedForHooks {
public:
    /// `all`: puts the gradients of parameters without hooks aside too.
    explicit SummedForHooks(const std::vector<at::Tensor>& parameters, bool all = false);
    ~SummedForHooks();
    SummedForHooks(const SummedForHooks&) = delete;
    SummedForHooks& operator=(const SummedForHooks&) = delete;

    /// Restores hooks and .grad. Returns the sums by parameter: undefined if a parameter has no hook or got no
    /// gradient. From then on an undefined gradient calls no hook of these parameters, so a node may lead to a
    /// parameter without having a gradient for it.
    Tensors take();

private:
    struct Parameter;
    void put_back();

    const std::size_t count_;
    std::vector<std::unique_ptr<Parameter>> hooked_;
};

/// Sends the sums that take() returned through torch's engine to their parameters.
void add_to_gradients(const std::vector<at::Tensor>& parameters, Tensors sums);
}  // namespace pipescope
