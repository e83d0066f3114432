#include "engine/processes/transport.h"

#include "base/thread_start.h"
#include "engine/device/lane_device.h"
#include "engine/device/stream_event.h"
#include "engine/processes/device_plugin.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
// A wait that expires closes every connection of its group, so waits never do: health is watched elsewhere. Each wait
// says so, since the group's own time-out is that of connecting.
constexpr std::chrono::hours kNever{24 * 365};
// A backend may find that a process has ended before the watch does, which has the words for it.
constexpr std::chrono::milliseconds kForTheWatch{1000};
// The store's own time-out. Its calls answer in microseconds; what takes longer than this is judged elsewhere.
constexpr std::chrono::minutes kStorePatience{30};
constexpr std::chrono::milliseconds kToConnect{200};  // beside c10d's own time-out

/// The first line of what c10d says: the others hold a stack trace.
std::string first_line(const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    return text.substr(0, text.find('\n'));
}

template <class Call>
auto call(const Call& it) {
    try {
        return it();
    } catch (const std::exception& error) {
        throw ConnectionLost(first_line(error));
    }
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
    return {text.begin(), text.end()};
}

std::string text_of(const std::vector<std::uint8_t>& bytes) {
    return {bytes.begin(), bytes.end()};
}

/// Connects within `patience`. c10d's client waits without limit for somebody who accepts it and never answers, such as
/// a stopped process; the thread that waits then stays behind until that one ends.
c10::intrusive_ptr<c10d::Store> connected_store(const std::string& host, const c10d::TCPStoreOptions& options,
                                                std::chrono::milliseconds patience) {
    std::packaged_task<c10::intrusive_ptr<c10d::Store>()> connecting(
        [host, options]() -> c10::intrusive_ptr<c10d::Store> {
            return c10::make_intrusive<c10d::TCPStore>(host, options);
        });
    auto store = connecting.get_future();
    start_thread("the connection to a store", std::move(connecting), [] {}).detach();
    if (store.wait_for(patience + kToConnect) == std::future_status::timeout) {
        throw ConnectionLost("it accepts connections and answers none");
    }
    return store.get();
}

at::Tensor as_tensor(std::span<const std::byte> memory) {
    // Gloo only reads from what it sends.
    return at::from_blob(const_cast<std::byte*>(memory.data()), {static_cast<std::int64_t>(memory.size())}, at::kByte);
}
}  // namespace

struct KeyStore::Impl {
    c10::intrusive_ptr<c10d::Store> store;
};

KeyStore::KeyStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KeyStore::~KeyStore() = default;
KeyStore::KeyStore(KeyStore&&) noexcept = default;
KeyStore& KeyStore::operator=(KeyStore&&) noexcept = default;

KeyStore::KeyStore(const Address& address, std::optional<int> listening, std::chrono::milliseconds patience) {
    // c10d logs each try to connect; our errors say what failed.
    [[maybe_unused]] static const int level_of_process = FLAGS_caffe2_log_level = c10::GLOG_FATAL;
    c10d::TCPStoreOptions options;
    options.port = address.port;
    options.isServer = listening.has_value();
    options.masterListenFd = listening;
    options.waitWorkers = false;
    options.timeout = patience;
    options.useLibUV = false;  // the other server cannot take over a socket
    impl_ = call([&] {
        auto store = connected_store(address.host, options, patience);
        store->setTimeout(kStorePatience);
        return std::make_unique<Impl>(Impl{std::move(store)});
    });
}

KeyStore KeyStore::copy() {
    return KeyStore(call([&] { return std::make_unique<Impl>(Impl{impl_->store->clone()}); }));
}

void KeyStore::set(const std::string& key, const std::string& value) {
    call([&] { impl_->store->set(key, bytes_of(value)); });
}

std::optional<std::string> KeyStore::get(const std::string& key) {
    return call([&]() -> std::optional<std::string> {
        if (!impl_->store->check({key})) {
            return std::nullopt;
        }
        return text_of(impl_->store->get(key));
    });
}

std::string KeyStore::set_once(const std::string& key, const std::string& value) {
    return call([&] { return text_of(impl_->store->compareSet(key, {}, bytes_of(value))); });
}

std::int64_t KeyStore::add(const std::string& key, std::int64_t number) {
    return call([&] { return impl_->store->add(key, number); });
}

struct Transfer::Impl {
    c10::intrusive_ptr<c10d::Work> work;
    std::atomic<bool> canceled = false;
    std::atomic<bool> done = false;
};

Transfer::Transfer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transfer::~Transfer() = default;
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;

bool Transfer::wait() {
    const bool arrived = call([&] { return !impl_->canceled && impl_->work->wait(kNever); });
    impl_->done = true;
    return arrived && !impl_->canceled;
}

void Transfer::cancel() {
    impl_->canceled = true;
    impl_->work->abort();
}

struct DeviceConnection::Impl {
    const std::string plugin;  // its name
    const End end;
    const c10::intrusive_ptr<c10d::Backend> backend;
    std::atomic<bool> canceled = false;
    StreamEvent last = {};                       // of what was enqueued
    std::mutex mutex = {};                       // of last, and against two aborts
    std::unique_ptr<Worker> aborting = nullptr;  // guarded by mutex
};

DeviceConnection::DeviceConnection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DeviceConnection::~DeviceConnection() {
    cancel();
    const std::lock_guard lock(impl_->mutex);
    impl_->aborting.reset();  // returns once the abort has
}

void DeviceConnection::enqueue(const at::Tensor& bytes) {
    try {
        if (!impl_->canceled) {
            std::vector<at::Tensor> one = {bytes};
            const int peer = impl_->end == End::sends ? 1 : 0;
            const auto work =
                impl_->end == End::sends ? impl_->backend->send(one, peer, 0) : impl_->backend->recv(one, peer, 0);
            work->synchronize();
            StreamEvent passed = StreamEvent::record(current_stream(bytes.device()));
            const std::lock_guard lock(impl_->mutex);
            impl_->last = std::move(passed);
            return;
        }
    } catch (const std::exception& error) {
        const auto until = std::chrono::steady_clock::now() + kForTheWatch;
        while (!impl_->canceled && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        if (!impl_->canceled) {
            throw EngineError("tensors cannot go from device to device by " + impl_->plugin + " (" + first_line(error) +
                              "); look at its own messages, or send them through the host's memory");
        }
    }
    throw ConnectionLost("the connection of two devices was canceled");
}

bool DeviceConnection::wait() {
    StreamEvent last;
    {
        const std::lock_guard lock(impl_->mutex);
        last = impl_->last;
    }
    last.synchronize();
    return !impl_->canceled;
}

void DeviceConnection::cancel() {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->canceled.exchange(true)) {
        return;
    }
    // Freeing memory of one connection may wait for the kernels of another, so all are aborted at once.
    impl_->aborting = std::make_unique<Worker>("abort", [] {});
    impl_->aborting->post([backend = impl_->backend] {
        try {
            backend->abort();
        } catch (const std::exception&) {
            // It has ended by itself.
        }
    });
}

struct Connections::Impl {
    c10::intrusive_ptr<c10d::Store> store;
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

Connections::Connections(KeyStore& store, const std::string& name, int rank, int size, const std::string& local_address,
                         std::chrono::milliseconds patience)
    : name_(name) {
    impl_ = call([&] {
        auto options = c10d::ProcessGroupGloo::Options::create(patience);
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(local_address));
        options->threads = 1;
        auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(name, store.impl_->store), rank, size, options);
        return std::make_unique<Impl>(Impl{store.impl_->store, std::move(group)});
    });
}

Connections::~Connections() {
    cancel_devices();  // all before the first is waited for
}

DeviceConnection& Connections::connect_devices(const DevicePlugin& plugin, const std::string& name,
                                               DeviceConnection::End end, c10::Device device,
                                               std::chrono::milliseconds patience) {
    try {
        c10::intrusive_ptr<c10d::Store> own = impl_->store->clone();
        own->setTimeout(patience);
        own = c10::make_intrusive<c10d::PrefixStore>(name_ + "/" + name, std::move(own));
        auto backend = c10::intrusive_ptr<c10d::Backend>::reclaim(plugin.connect(
            {own.get(), name_ + "/" + name, end == DeviceConnection::End::sends ? 0 : 1, device, patience}));
        auto impl =
            std::unique_ptr<DeviceConnection::Impl>(new DeviceConnection::Impl{plugin.name, end, std::move(backend)});
        const std::lock_guard lock(mutex_);
        DeviceConnection& made = *devices_.emplace_back(std::make_unique<DeviceConnection>(std::move(impl)));
        if (devices_canceled_) {
            made.cancel();
        }
        return made;
    } catch (const std::exception& error) {
        throw EngineError("device " + device.str() + " cannot be connected by " + plugin.name + " (" +
                          first_line(error) + "); look at its own messages, or send tensors through the host's memory");
    }
}

Transfer Connections::send(std::span<const std::byte> message, int to, int tag) {
    return keep(call([&] {
        std::vector<at::Tensor> tensors = {as_tensor(message)};
        auto impl = std::make_unique<Transfer::Impl>();
        impl->work = impl_->group->send(tensors, to, tag);
        return impl;
    }));
}

Transfer Connections::receive(std::span<std::byte> memory, int from, int tag) {
    return keep(call([&] {
        std::vector<at::Tensor> tensors = {as_tensor(memory)};
        auto impl = std::make_unique<Transfer::Impl>();
        impl->work = impl_->group->recv(tensors, from, tag);
        return impl;
    }));
}

Transfer Connections::keep(std::unique_ptr<Transfer::Impl> impl) {
    Transfer transfer(std::move(impl));
    const std::lock_guard lock(mutex_);
    std::erase_if(pending_, [](const auto& each) {
        const auto still = each.lock();
        return !still || still->done;
    });
    pending_.push_back(transfer.impl_);
    if (canceled_) {
        transfer.cancel();
    }
    return transfer;
}

void Connections::cancel_all() {
    const std::lock_guard lock(mutex_);
    canceled_ = true;
    for (const auto& each : pending_) {
        if (const auto still = each.lock()) {
            still->canceled = true;
            still->work->abort();
        }
    }
}

void Connections::cancel_devices() {
    const std::lock_guard lock(mutex_);
    devices_canceled_ = true;
    for (const auto& each : devices_) {
        each->cancel();
    }
}
}  // namespace pipescope
