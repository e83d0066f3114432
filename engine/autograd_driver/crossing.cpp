#include "engine/autograd_driver/crossing.h"

#include "engine/autograd_driver/backward_span.h"
#include "engine/autograd_driver/graph_node.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/lanes/task_span.h"
#include "engine/pipeline.h"
#include "engine/task_observer.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <utility>

namespace pipescope {
namespace {
void notify_moved(TaskObserver* observer, const Tensors& tensors, LaneId to) {
    for (const at::Tensor& tensor : tensors) {
        if (observer != nullptr && tensor.defined()) {
            observer->moved(tensor, to);
        }
    }
}

void record_stream_use(const Tensors& tensors, const std::optional<c10::Stream>& used_by) {
    for (const at::Tensor& tensor : tensors) {
        if (used_by && tensor.defined() && tensor.device() == used_by->device()) {
            c10::impl::getDeviceGuardImpl(used_by->device_type())
                ->recordDataPtrOnStream(tensor.storage().data_ptr(), *used_by);
        }
    }
}

Arrival send(Pipeline& pipeline, const LaneLink& link, LaneId to, const Tensors& tensors, const StreamEvent& produced) {
    Arrival arrival = link.send(tensors, produced);
    record_stream_use(tensors, link.source());
    record_stream_use(arrival.tensors, pipeline.devices().of(to).stream());
    return arrival;
}

/// Backward of the Copy node, on the thread of the receiving lane's device.
Tensors copy_back(Pipeline& pipeline, const Crossing& crossing, const Tensors& gradients) {
    close_backward_span();
    TaskKey key = crossing.forward;
    key.kind = key.kind == TaskKind::skip_forward ? TaskKind::skip_backward : TaskKind::copy_backward;
    const TaskSpan span(key, crossing.to, false, pipeline.observer());
    PipelineDevices& devices = pipeline.devices();
    crossing.receiver->wait_on(devices.of(crossing.to));  // for gradients that only pass through that lane
    const Arrival arrival = send(pipeline, devices.link(crossing.to, crossing.from), crossing.from, gradients,
                                 devices.of(crossing.to).record());
    for (std::size_t k = 0; k < crossing.back_to.size(); ++k) {
        if (gradients[k].defined()) {
            crossing.back_to[k]->add(arrival.ready);
        }
    }
    notify_moved(pipeline.observer(), arrival.tensors, crossing.from);
    return arrival.tensors;
}
}  // namespace

void GradientArrivals::add(StreamEvent ready) {
    if (ready) {
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(ready));
    }
}

void GradientArrivals::wait_on(const LaneDevice& lane) {
    std::vector<StreamEvent> ready;
    {
        const std::lock_guard lock(mutex_);
        ready.swap(ready_);
    }
    for (const StreamEvent& event : ready) {
        lane.wait(event);
    }
}

Crossed cross(const std::shared_ptr<const AutogradForward>& forward, Crossing crossing, const Tensors& tensors,
              const StreamEvent& produced) {
    Pipeline& pipeline = *forward->pipeline;
    Arrival arrival;
    {
        const TaskSpan span(crossing.forward, crossing.from, false, pipeline.observer());
        arrival = send(pipeline, pipeline.devices().link(crossing.from, crossing.to), crossing.to, tensors, produced);
        notify_moved(pipeline.observer(), arrival.tensors, crossing.to);
    }
    if (any_requires_grad(tensors)) {
        // Autograd runs a node on the stream current at its creation: that of the lane whose gradients it takes.
        const OnLaneDevice on_receiver(pipeline.devices().of(crossing.to));
        GraphNode node{"Copy", [forward, crossing = std::move(crossing)](const Tensors& gradients) {
                           return copy_back(*forward->pipeline, crossing, gradients);
                       }};
        arrival.tensors = attach(std::move(node), tensors, arrival.tensors, gradient_needs(tensors));
    }
    return {std::move(arrival.tensors), std::move(arrival.ready)};
}

Crossed enter(const std::shared_ptr<const AutogradForward>& forward, LaneId to, const Tensors& tensors) {
    Pipeline& pipeline = *forward->pipeline;
    PipelineDevices& devices = pipeline.devices();
    const OnLaneDevice on_lane(devices.of(to));
    Crossed entered;
    for (const at::Tensor& tensor : tensors) {
        const c10::Device from = tensor.device();
        Arrival arrival = send(pipeline, devices.input_link(from, to), to, {tensor}, devices.caller_event(from));
        devices.of(to).wait(arrival.ready);
        if (from.is_cpu()) {
            entered.ready = arrival.ready;
        }
        if (tensor.requires_grad()) {
            arrival.tensors = attach({"Input",
                                      [from](const Tensors& gradients) {
                                          return Tensors{gradients[0].defined() ? gradients[0].to(from) : at::Tensor()};
                                      }},
                                     {tensor}, arrival.tensors, {true});
        }
        entered.tensors.push_back(std::move(arrival.tensors[0]));
    }
    return entered;
}

Tensors wait_for_gradients(const std::shared_ptr<const AutogradForward>& forward, LaneId lane,
                           std::shared_ptr<GradientArrivals> arrivals, const Tensors& outputs) {
    if (forward->pipeline->devices().on_host()) {
        return outputs;
    }
    const auto wait = [forward, lane, arrivals = std::move(arrivals)](const Tensors&) {
        arrivals->wait_on(forward->pipeline->devices().of(lane));
    };
    return any_requires_grad(outputs) ? send_through("Wait", wait, outputs) : outputs;
}
}  // namespace pipescope
