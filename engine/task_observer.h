#pragma once

#include "base/ids.h"
#include "schedule/task_key.h"

#include <ATen/core/Tensor.h>

namespace pipescope {
/// Events for a memory profiler. NVTX gives times; this says whose memory it is.
/// Threading: task_started, task_ended, moved and kept run on the task's thread: the lane's worker, or with driver
/// autograd the caller's thread for losses and backwards on the CPU. placed runs on the thread that builds the model.
/// Must not throw.
class TaskObserver {
public:
    virtual ~TaskObserver() = default;

    /// A parameter or buffer belongs to this lane from now on.
    virtual void placed(const at::Tensor& tensor, LaneId lane) = 0;
    virtual void task_started(const TaskKey& key, LaneId lane) = 0;
    virtual void task_ended(const TaskKey& key, LaneId lane) = 0;
    /// A copy between lanes that share memory passed this tensor's storage on.
    virtual void moved(const at::Tensor& tensor, LaneId to) = 0;
    /// The running first half of a split backward keeps this gradient for the second half, and does not pass it on.
    virtual void kept(const at::Tensor& /*gradient*/, LaneId /*lane*/) {}
    /// A copy from another process brought this tensor. Called on the thread that receives it.
    virtual void received(const at::Tensor& tensor, const TaskKey& /*copy*/, LaneId to) { moved(tensor, to); }
};
}  // namespace pipescope
