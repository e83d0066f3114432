#include "tests/fake_accelerator/fake_device.h"

#include "engine/tsan_annotations.h"
#include "tests/fake_accelerator/fake_memory.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <vector>

namespace pipescope::fake_accelerator {
namespace {
constexpr std::size_t kPool = 32;  // streams, handed out in turn, as many as CUDA's
constexpr std::size_t kRanks = 4;
constexpr std::size_t kFirstOfRanks = 1 + 2 * kPool;  // after the default one, and a pool for each priority
constexpr std::size_t kStreamsPerDevice = kFirstOfRanks + kRanks;
static_assert(kNumDevices * kStreamsPerDevice + kMostConnections <= kMostStreams);

struct Device {
    Device() {
        for (std::size_t k = 0; k < kPool; ++k) {
            streams.at(1 + k).set_role(Role::lane);
            streams.at(1 + kPool + k).set_role(Role::copies);
        }
    }
    std::array<Stream, kStreamsPerDevice> streams;
    std::atomic<std::size_t> next_ordinary{0};
    std::atomic<std::size_t> next_of_high_priority{0};
};

/// Never destroyed: threads of streams and static tensors outlive main().
std::array<Device, kNumDevices>& devices() {
    static auto* const all = new std::array<Device, kNumDevices>();
    return *all;
}

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kNumDevices> current_streams{};
std::atomic<std::int64_t> copy_count = 0;

c10::Device valid(c10::Device device) {
    return {kType, device.has_index() ? device.index() : current_device};
}

using Event = std::shared_ptr<Moment>;

class Guard final : public c10::impl::DeviceGuardImplInterface {
public:
    c10::DeviceType type() const override { return kType; }
    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device before(kType, current_device);
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override { return {kType, current_device}; }
    void setDevice(c10::Device device) const override { current_device = valid(device).index(); }
    void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = valid(device).index(); }
    c10::DeviceIndex deviceCount() const noexcept override { return kNumDevices; }

    c10::Stream getStream(c10::Device device) const override {
        return make(valid(device), current_streams.at(static_cast<std::size_t>(valid(device).index())));
    }
    c10::Stream getDefaultStream(c10::Device device) const override { return make(valid(device), 0); }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
        const c10::Device on = valid(device);
        Device& streams = devices().at(static_cast<std::size_t>(on.index()));
        const std::size_t turn = high_priority ? streams.next_of_high_priority++ : streams.next_ordinary++;
        return make(on, static_cast<c10::StreamId>(1 + (high_priority ? kPool : 0) + turn % kPool));
    }
    c10::Stream getNewStream(c10::Device device, int priority) const override {
        return getStreamFromGlobalPool(device, priority != 0);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override {
        const c10::Stream before = getStream(stream.device());
        current_streams.at(static_cast<std::size_t>(stream.device_index())) = stream.id();
        return before;
    }
    void* getStreamNativeHandle(const c10::Stream stream) const override { return &stream_of(stream); }
    bool queryStream(const c10::Stream& stream) const override { return stream_of(stream).is_idle(); }
    void synchronizeStream(const c10::Stream& stream) const override { stream_of(stream).synchronize(); }
    void synchronizeDevice(c10::DeviceIndex device) const override {
        for (Stream& stream : devices().at(static_cast<std::size_t>(device)).streams) {
            stream.synchronize();
        }
    }

    // An event may be waited for in another thread than the one that recorded it, as with a real driver. LibTorch
    // passes it on under a lock that the thread sanitizer does not see.
    void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
        if (*event == nullptr) {
            *event = new Event;
        }
        use(*event, [&](Event& moment) { moment = stream_of(stream).record(); });
    }
    void block(void* event, const c10::Stream& stream) const override {
        if (event != nullptr) {
            use(event, [&](const Event& moment) { stream_of(stream).wait_for(moment); });
        }
    }
    bool queryEvent(void* event) const override {
        bool passed = true;
        if (event != nullptr) {
            use(event, [&](const Event& moment) { passed = moment->passed(); });
        }
        return passed;
    }
    void synchronizeEvent(void* event) const override {
        if (event != nullptr) {
            use(event, [](const Event& moment) { wait_on_host(*moment); });
        }
    }
    double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
        const auto time = [](void* event) {
            std::chrono::steady_clock::time_point passed;
            use(event, [&](const Event& moment) { passed = moment->time(); });
            return passed;
        };
        return std::chrono::duration<double, std::milli>(time(to) - time(from)).count();
    }
    void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
        tsan_acquire(event);
        delete static_cast<Event*>(event);
    }
    void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
        c10::getDeviceAllocator(kType)->recordStream(data, stream);
    }

private:
    template <class Use>
    static void use(void* event, const Use& how) {
        tsan_acquire(event);
        how(*static_cast<Event*>(event));
        tsan_release(event);
    }
    static c10::Stream make(c10::Device device, c10::StreamId id) {
        return c10::Stream(c10::Stream::UNSAFE, device, id);
    }
};

class Hooks final : public at::PrivateUse1HooksInterface {
public:
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex deviceCount() const override { return kNumDevices; }
    c10::DeviceIndex getCurrentDevice() const override { return current_device; }
    void setCurrentDevice(c10::DeviceIndex device) const override { current_device = device; }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
        return std::exchange(current_device, device);
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
    bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
    at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
    // An ordinary generator suffices: kernels take a number from it when they are launched.
    at::Generator getNewGenerator(c10::DeviceIndex) const override {
        return at::make_generator<at::CPUGeneratorImpl>();
    }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
        static const at::Generator one = at::make_generator<at::CPUGeneratorImpl>();
        return one;
    }
};

const bool installed_before_main = (install(), true);
}  // namespace

void install() {
    static const bool once = [] {
        static Guard guard;
        static Hooks hooks;
        c10::register_privateuse1_backend("fake");
        c10::impl::registerDeviceGuard(kType, &guard);
        at::RegisterPrivateUse1HooksInterface(&hooks);
        c10::SetAllocator(kType, device_allocator(), 1);
        at::setHostAllocator(kType, pinned_allocator(), 1);
        return true;
    }();
    static_cast<void>(once);
    static_cast<void>(installed_before_main);
}

Stream& stream_of(const c10::Stream& stream) {
    return devices()
        .at(static_cast<std::size_t>(stream.device_index()))
        .streams.at(static_cast<std::size_t>(stream.id()));
}

Stream& current_stream(c10::DeviceIndex device) {
    return stream_of(c10::impl::getDeviceGuardImpl(kType)->getStream({kType, device}));
}

RankStreams::RankStreams(int rank) : id_(static_cast<c10::StreamId>(kFirstOfRanks + static_cast<std::size_t>(rank))) {
    for (Device& device : devices()) {
        device.streams.at(static_cast<std::size_t>(id_)).wait_for(device.streams.front().record());
    }
    current_streams.fill(id_);
}

RankStreams::~RankStreams() {
    for (Device& device : devices()) {
        device.streams.front().wait_for(device.streams.at(static_cast<std::size_t>(id_)).record());
    }
    current_streams.fill(0);
}

void synchronize() {
    for (Device& device : devices()) {
        for (Stream& stream : device.streams) {
            stream.synchronize();
        }
    }
}

std::int64_t copies() {
    return copy_count;
}
void count_copy() {
    ++copy_count;
}
}  // namespace pipescope::fake_accelerator
