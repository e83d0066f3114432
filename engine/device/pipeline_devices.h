#pragma once

#include "base/ids.h"
#include "engine/device/deferred_release.h"
#include "engine/device/lane_device.h"
#include "engine/device/lane_link.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// The devices of a model's lanes, the links between them, and how they join the caller's streams.
///
/// Four rules give the order on the devices:
///   1. begin(): every lane's stream waits for the caller's, so that parameters and inputs are there.
///   2. A lane's stream runs its tasks in schedule order.
///   3. A tensor for another stream comes with an event, which the receiver waits for (LaneLink, LaneDevice::wait).
///   4. end(): the caller's streams wait for every lane's.
/// Memory is safe because a tensor that crosses streams is kept until the event of its last use has passed, or until
/// end(), after which the caller's streams are ordered after every lane's and after each such event.
/// Threading: begin(), end() and abandon() on the caller's thread while no lane runs; link() and input_link() from any
/// lane; deferred(k) by lane k.
class PipelineDevices {
public:
    /// Without `copy_streams`, copies between lanes run on the lanes' own streams. Throws EngineError as
    /// usable_device() does.
    explicit PipelineDevices(const std::vector<std::string>& names, bool copy_streams = true);

    /// True if every lane is on the CPU. Then no call here is needed or costs time.
    bool on_host() const noexcept { return accelerators_.empty(); }
    std::vector<bool> lanes_on_host() const;
    const LaneDevice& of(LaneId lane) const { return lanes_[lane.index()]; }

    const LaneLink& link(LaneId from, LaneId to);
    /// Gives a link its other end, which is in another process. Call before the first link().
    void set_peer(LaneId from, LaneId to, PeerDevice& peer);
    /// Link from the caller's memory to a lane.
    const LaneLink& input_link(c10::Device from, LaneId to);
    DeferredRelease& deferred(LaneId lane) { return deferred_[lane.index()]; }

    /// `inputs` come from the caller, and their devices count too. caller_event() is the event after the caller's work
    /// enqueued on them so far.
    void begin(const Tensors& inputs);
    StreamEvent caller_event(c10::Device device) const;
    void end();
    /// Call after a failure: waits until no device computes for this model any more.
    void abandon();

private:
    const LaneLink& cached_link(std::pair<int, int> key, const std::function<LaneLink()>& make);

    const bool copy_streams_;
    std::vector<LaneDevice> lanes_;
    std::vector<c10::Device> accelerators_;                     // of the lanes, without duplicates
    std::vector<DeferredRelease> deferred_;                     // per lane
    std::vector<std::pair<c10::Device, StreamEvent>> started_;  // the caller's streams at begin()
    std::mutex links_mutex_;
    std::map<std::pair<int, int>, std::unique_ptr<LaneLink>> links_;  // guarded by links_mutex_
    std::map<std::pair<int, int>, PeerDevice*> peers_;                // of links
};

/// Tells the allocator that the calling thread's current stream uses the tensors, which lanes' streams allocated. The
/// caller will free them.
void record_callers_stream(const Tensors& tensors);
}  // namespace pipescope
