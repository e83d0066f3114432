// A plugin for messages between devices of processes (engine/processes/device_plugin.h) for the fake accelerator, as
// NCCL's is for GPUs: an operation is a kernel in a stream of the connection's own, which blocks that stream until the
// other end has posted its part; parts are matched in order, and sizes that differ are an error that ends the program.
// abort() lets what is enqueued end without having moved anything, so received memory stays NaN.
//
// The bytes go through the group's store, so ends may be threads of one process, or processes. Ranks are taken to have
// devices of their own, as on different hosts, unless Behaviour::ranks_share_devices.

#include "engine/processes/device_plugin.h"
#include "tests/fake_accelerator/fake_device.h"

#include <torch/version.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pipescope::fake_accelerator {
namespace {
constexpr std::chrono::microseconds kLook{50};

/// What the kernels of a connection share with it; they may outlive it.
struct Wire {
    c10::intrusive_ptr<c10d::Store> store;
    std::atomic<bool> aborted = false;

    /// False: aborted. A store that is gone is waited for like a peer that is.
    bool wait_for(const std::string& key) {
        while (!aborted) {
            try {
                if (store->check({key})) {
                    return true;
                }
            } catch (const std::exception&) {
            }
            std::this_thread::sleep_for(kLook);
        }
        return false;
    }
    std::string take(const std::string& key) {
        const auto value = store->get(key);
        store->deleteKey(key);
        return {value.begin(), value.end()};
    }
    void put(const std::string& key, const std::string& value) {
        store->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
    }
};

struct Bytes {
    char* memory;
    std::size_t size;
};

void send_bytes(Wire& wire, const std::string& number, Bytes bytes) {
    if (!wire.wait_for(number + " wanted")) {
        return;
    }
    if (const std::string wanted = wire.take(number + " wanted"); wanted != std::to_string(bytes.size)) {
        std::fprintf(stderr, "fake messages: %zu bytes are sent where %s are received\n", bytes.size, wanted.c_str());
        std::abort();
    }
    wire.put(number + " bytes", {bytes.memory, bytes.size});
}

void receive_bytes(Wire& wire, const std::string& number, Bytes bytes) {
    wire.put(number + " wanted", std::to_string(bytes.size));
    if (wire.wait_for(number + " bytes")) {
        const std::string came = wire.take(number + " bytes");
        std::memcpy(bytes.memory, came.data(), came.size());
    }
}

/// A stream that nobody else has while this lives: as in a process that made it. Another connection's part in the same
/// queue could be what the other end waits for.
class OwnStream {
public:
    explicit OwnStream(Role role) {
        const std::lock_guard lock(pool().mutex);
        if (pool().free.empty()) {
            TORCH_CHECK(pool().made++ < kMostConnections, "too many fake connections at a time");
            pool().free.push_back(new Stream);  // never destroyed, as all streams
        }
        stream_ = pool().free.back();
        pool().free.pop_back();
        stream_->set_role(role);
    }
    ~OwnStream() {
        const std::lock_guard lock(pool().mutex);
        pool().free.push_back(stream_);
    }
    OwnStream(const OwnStream&) = delete;
    OwnStream& operator=(const OwnStream&) = delete;
    Stream* operator->() const { return stream_; }

private:
    struct Pool {
        std::mutex mutex;
        std::vector<Stream*> free;
        std::size_t made = 0;
    };
    static Pool& pool() {
        static auto* const one = new Pool;
        return *one;
    }
    Stream* stream_;
};

class FakeWork final : public c10d::Work {
public:
    FakeWork(c10::Device device, std::shared_ptr<Moment> end) : device_(device), end_(std::move(end)) {}
    void synchronize() override { current_stream(device_.index()).wait_for(end_); }

private:
    const c10::Device device_;
    const std::shared_ptr<Moment> end_;
};

class FakeBackend final : public c10d::Backend {
public:
    FakeBackend(c10::intrusive_ptr<c10d::Store> store, int rank, c10::Device device)
        : Backend(rank, 2),
          device_(device),
          // The wait for a departure shows only once memory is reused; that for an arrival is one that tests leave out.
          stream_(rank == 0 ? Role::caller : Role::lane),
          wire_(std::make_shared<Wire>()) {
        wire_->store = std::move(store);
    }
    ~FakeBackend() override { wire_->aborted = true; }

    const std::string getBackendName() const override { return "fake"; }
    c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
        TORCH_CHECK(getRank() == 0 && to == 1 && tag == 0,
                    "a fake connection sends from rank 0 to rank 1, without tags");
        return enqueue("send", tensors, &send_bytes);
    }
    c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override {
        TORCH_CHECK(getRank() == 1 && from == 0 && tag == 0, "a fake connection receives from rank 0, without tags");
        return enqueue("receive", tensors, &receive_bytes);
    }
    void abort() override { wire_->aborted = true; }

private:
    c10::intrusive_ptr<c10d::Work> enqueue(const char* name, const std::vector<at::Tensor>& tensors,
                                           void (*move)(Wire&, const std::string&, Bytes)) {
        TORCH_CHECK(!wire_->aborted, "the fake connection was aborted");
        TORCH_CHECK(tensors.size() == 1 && tensors[0].device() == device_ && tensors[0].is_contiguous(),
                    "a fake connection moves one contiguous tensor of its device");
        const at::Tensor& tensor = tensors[0];
        const Bytes bytes{static_cast<char*>(tensor.data_ptr()), tensor.nbytes()};
        const auto before = current_stream(device_.index()).record();
        void* const memory = tensor.storage().data_ptr().get_context();
        Stream::Uses uses;
        (getRank() == 0 ? uses.reads : uses.writes).push_back(memory);
        // The wait is the backend's own: not one of those that tests leave out.
        stream_->launch(
            name, uses,
            [wire = wire_, before, bytes, move, number = std::to_string(next_++)] {
                before->wait();
                while (behaviour().holds_copies && !wire->aborted) {
                    std::this_thread::sleep_for(kLook);
                }
                std::this_thread::sleep_for(std::chrono::microseconds(behaviour().copy_delay_us));
                try {
                    move(*wire, number, bytes);
                } catch (const std::exception&) {
                    wire->wait_for("the end");  // the store's process has ended: a device waits for ever
                }
            },
            before->clock());
        return c10::make_intrusive<FakeWork>(device_, stream_->record());
    }

    const c10::Device device_;
    const OwnStream stream_;
    const std::shared_ptr<Wire> wire_;
    std::int64_t next_ = 0;
};

std::string missing() {
    return "";
}

std::string identity(c10::Device device) {
    static std::atomic<int> count = 0;
    return behaviour().ranks_share_devices
               ? device.str()
               : std::to_string(::getpid()) + " " + device.str() + " " + std::to_string(count++);
}

c10d::Backend* connect(const DeviceEnd& end) {
    auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(end.store);
    return c10::make_intrusive<FakeBackend>(std::move(store), end.rank, end.device).release();
}
}  // namespace
}  // namespace pipescope::fake_accelerator

extern "C" const pipescope::DevicePlugin* pipescope_device_plugin() {
    using namespace pipescope;
    static const DevicePlugin plugin = {kDevicePluginAbi,          TORCH_VERSION,
                                        "the fake's own messages", "fake",
                                        fake_accelerator::missing, fake_accelerator::identity,
                                        fake_accelerator::connect};
    return &plugin;
}
