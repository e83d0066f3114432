#pragma once

#include "base/ids.h"
#include "engine/autograd_driver/recomputation.h"
#include "engine/device/stream_event.h"
#include "engine/layer.h"
#include "schedule/task_key.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace pipescope {
class LaneDevice;

/// Tracks when the gradients of a task's outputs are back on its lane: the copies report it, the task's Wait node waits
/// for it.
///
/// Separate from the copy itself, so that a recompute, which does not need the gradient yet, does not wait for it.
/// Threading: any; gradients may come from several devices, each with its own autograd thread.
class GradientArrivals {
public:
    void add(StreamEvent ready);
    /// Makes the lane's next work wait for everything added so far. Call once.
    void wait_on(const LaneDevice& lane);

private:
    std::mutex mutex_;
    std::vector<StreamEvent> ready_;  // guarded by mutex_
};

/// A copy from one lane to another.
struct Crossing {
    TaskKey forward;  ///< copy_forward or skip_forward
    LaneId from;
    LaneId to;
    std::vector<std::shared_ptr<GradientArrivals>> back_to;  ///< by tensor: its producer's
    std::shared_ptr<GradientArrivals> receiver;              ///< the receiving task's
};

/// Tensors on a lane, in the caller's graph. They are valid from `ready` on.
struct Crossed {
    Tensors tensors;
    StreamEvent ready;
};

/// Copies the tensors, which are valid from `produced` on, and adds a node that copies their gradients back. Lanes that
/// share memory pass the tensors on. Autograd frees memory that crosses streams, at moments unknown here, so the
/// allocator is told which streams use it (torch's record_stream). Call on the thread that builds the graph.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3: Copy and Wait.
Crossed cross(const std::shared_ptr<const AutogradForward>& forward, Crossing crossing, const Tensors& tensors,
              const StreamEvent& produced);

/// Copies a micro-batch's input from any device to a lane on an accelerator.
Crossed enter(const std::shared_ptr<const AutogradForward>& forward, LaneId to, const Tensors& tensors);

/// Adds a node after a task's outputs: backward waits there until their gradients have arrived on the lane. No effect
/// if all lanes are on the host.
Tensors wait_for_gradients(const std::shared_ptr<const AutogradForward>& forward, LaneId lane,
                           std::shared_ptr<GradientArrivals> arrivals, const Tensors& outputs);
}  // namespace pipescope
