#include "engine/device/lane_link.h"
#include "engine/device/deferred_release.h"
#include "tests/engine/device/device_fixtures.h"

#include <torch/torch.h>

namespace pipescope {
namespace {
using fake_accelerator::behaviour;
using testing_support::DeviceTest;
using testing_support::on;

using LaneLinkTest = DeviceTest;

at::TensorOptions doubles_on(c10::Device device) {
    return torch::TensorOptions().dtype(torch::kFloat64).device(device);
}

/// A lane's result, with the event of its completion.
struct Made {
    at::Tensor tensor;
    StreamEvent event;
};
Made ones_made_by(const LaneDevice& lane) {
    const OnLaneDevice here(lane);
    const at::Tensor ones = torch::ones({4}, doubles_on(lane.device())) * 1.0;
    return {ones, lane.record()};
}

double sum_on(const LaneDevice& lane, const at::Tensor& tensor) {
    const OnLaneDevice here(lane);
    return tensor.sum().item<double>();
}

TEST_F(LaneLinkTest, CopiesBetweenDevicesOnceTheTensorIsMade) {
    const LaneDevice from(on(0));
    const LaneDevice to(on(1));
    behaviour().kernel_delay_us = 5'000;
    const Made made = ones_made_by(from);
    const Arrival arrival = LaneLink(on(0), on(1)).send({made.tensor}, made.event);
    EXPECT_TRUE(arrival.copied);
    EXPECT_EQ(arrival.tensors[0].device(), on(1));
    to.wait(arrival.ready);
    EXPECT_EQ(sum_on(to, arrival.tensors[0]), 4);
}

TEST_F(LaneLinkTest, NeedsItsReceiverToWait) {
    const LaneDevice from(on(0));
    const LaneDevice to(on(1));
    const Made made = ones_made_by(from);
    behaviour().holds_copies = true;
    const Arrival arrival = LaneLink(on(0), on(1)).send({made.tensor}, made.event);
    sum_on(to, arrival.tensors[0]);
    EXPECT_THAT(fake_accelerator::take_races(), ::testing::ElementsAre(::testing::HasSubstr("aten::sum")));
}

TEST_F(LaneLinkTest, LetsBothLanesComputeMeanwhile) {
    const LaneDevice from(on(0));
    const LaneDevice to(on(1));
    const Made made = ones_made_by(from);
    behaviour().holds_copies = true;
    const Arrival arrival = LaneLink(on(0), on(1)).send({made.tensor}, made.event);
    EXPECT_EQ(sum_on(from, ones_made_by(from).tensor), 4);
    EXPECT_EQ(sum_on(to, ones_made_by(to).tensor), 4);
    EXPECT_FALSE(arrival.ready.has_passed()) << "the copy still runs";
}

TEST_F(LaneLinkTest, HandsOverBetweenLanesOfOneDevice) {
    const LaneDevice from(on(0));
    const LaneDevice to(on(0));
    behaviour().kernel_delay_us = 5'000;
    const Made made = ones_made_by(from);
    const Arrival arrival = LaneLink(on(0), on(0)).send({made.tensor}, made.event);
    EXPECT_FALSE(arrival.copied);
    EXPECT_TRUE(arrival.tensors[0].is_same(made.tensor));
    to.wait(arrival.ready);
    EXPECT_EQ(sum_on(to, arrival.tensors[0]), 4);
}

TEST_F(LaneLinkTest, BringsHostMemoryToADeviceWithoutBlocking) {
    const LaneDevice to(on(0));
    behaviour().holds_copies = true;
    const Arrival arrival = LaneLink(c10::kCPU, on(0)).send({torch::ones({4}, torch::kFloat64)}, {});
    EXPECT_FALSE(arrival.ready.has_passed()) << "the host went on, since it copied from pinned memory";
    fake_accelerator::release();
    to.wait(arrival.ready);
    EXPECT_EQ(sum_on(to, arrival.tensors[0]), 4);
}

TEST_F(LaneLinkTest, BringsADevicesMemoryToTheHost) {
    const LaneDevice from(on(0));
    behaviour().copies_late = true;
    const Made made = ones_made_by(from);
    const Arrival arrival = LaneLink(on(0), c10::kCPU).send({made.tensor}, made.event);
    EXPECT_FALSE(arrival.ready.has_passed()) << "the sender's host went on";
    LaneDevice(c10::kCPU).wait(arrival.ready);
    EXPECT_TRUE(arrival.tensors[0].is_pinned());
    EXPECT_EQ(arrival.tensors[0].sum().item<double>(), 4);
}

TEST_F(LaneLinkTest, KeepsWhatATensorIs) {
    const at::Tensor number = torch::ones({3, 2}, doubles_on(on(0))).t().requires_grad_();
    const at::Tensor mask = torch::zeros({2}, torch::TensorOptions().dtype(torch::kBool).device(on(0)));
    const StreamEvent made = StreamEvent::record(current_stream(on(0)));
    const Arrival arrival = LaneLink(on(0), on(1)).send({number, at::Tensor(), mask}, made);
    arrival.ready.synchronize();
    EXPECT_TRUE(arrival.tensors[0].requires_grad());
    EXPECT_TRUE(arrival.tensors[0].is_leaf());
    EXPECT_EQ(arrival.tensors[0].strides(), number.strides());
    EXPECT_FALSE(arrival.tensors[1].defined());
    EXPECT_EQ(arrival.tensors[2].scalar_type(), torch::kBool);
}

TEST_F(LaneLinkTest, KeepsTensorsUntilTheirEventsHavePassed) {
    const LaneDevice lane(on(0));
    DeferredRelease deferred;
    behaviour().holds_kernels = true;
    const Made made = ones_made_by(lane);
    deferred.hold({made.tensor}, made.event);
    EXPECT_EQ(deferred.num_open(), 1);
    fake_accelerator::release();
    made.event.synchronize();
    deferred.hold({}, {});
    EXPECT_EQ(deferred.num_open(), 0);
}

TEST_F(LaneLinkTest, DoesNotLetTheHostRunAheadForEver) {
    const LaneDevice lane(on(0));
    DeferredRelease deferred;
    behaviour().kernel_delay_us = 1'000;
    for (std::size_t k = 0; k < 3 * DeferredRelease::kMostOpen; ++k) {
        const Made made = ones_made_by(lane);
        deferred.hold({made.tensor}, made.event);
        EXPECT_LE(deferred.num_open(), DeferredRelease::kMostOpen);
    }
}
}  // namespace
}  // namespace pipescope
