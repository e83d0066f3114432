#pragma once

#include "engine/autograd_driver/recomputation.h"
#include "engine/layer.h"
#include "engine/stream_event.h"
#include "schedule/ids.h"
#include "schedule/task_key.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace pipescope {
class LaneDevice;

/// When the gradients of a task's outputs are back on its lane: the copies tell it, the task's Wait node asks.
///
/// Apart from the copy itself, so that what a lane recomputes before it needs its gradient does not wait for it.
/// Threading: any; gradients may come from several devices, each of which autograd gives a thread.
class GradientArrivals {
public:
    void add(StreamEvent ready);
    /// What the lane does next comes after all that came so far; once.
    void wait_on(const LaneDevice& lane);

private:
    std::mutex mutex_;
    std::vector<StreamEvent> ready_;  // guarded by mutex_
};

/// From one lane to another.
struct Crossing {
    TaskKey forward;  ///< copy_forward or skip_forward
    LaneId from;
    LaneId to;
    std::vector<std::shared_ptr<GradientArrivals>> back_to;  ///< of each tensor's producer
    std::shared_ptr<GradientArrivals> receiver;              ///< of the task on `to`
};

/// Tensors on a lane, in the caller's graph, and the moment they are there.
struct Crossed {
    Tensors tensors;
    StreamEvent ready;
};

/// Copies the tensors, which are there at `produced`, and puts a node behind them that copies their gradients back.
/// Lanes that share memory hand over. Memory that crosses streams is autograd's to free, at moments nobody here knows,
/// so the allocator is told which streams use it (torch's record_stream). Call on the thread that builds the graph.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3: Copy and Wait.
Crossed cross(const std::shared_ptr<const AutogradForward>& forward, Crossing crossing, const Tensors& tensors,
              const StreamEvent& produced);

/// Brings a micro-batch's input from wherever it is to a lane on an accelerator.
Crossed enter(const std::shared_ptr<const AutogradForward>& forward, LaneId to, const Tensors& tensors);

/// Behind a task's outputs: backward goes on when their gradients have arrived on the lane. Nothing where all lanes are
/// on the host.
Tensors wait_for_gradients(const std::shared_ptr<const AutogradForward>& forward, LaneId lane,
                           std::shared_ptr<GradientArrivals> arrivals, const Tensors& outputs);
}  // namespace pipescope
