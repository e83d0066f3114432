#pragma once

#include "engine/device/lane_link.h"
#include "engine/engine_error.h"
#include "engine/lanes/worker.h"

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The small part of torch's c10d that the engine uses: a store of keys for all processes, messages of bytes between two
// of them, and the way of bytes between their devices. Only transport.cpp includes c10d's headers.

namespace pipescope {
struct DevicePlugin;

/// The other end of a connection is gone, or the store does not answer. The message holds no stack trace.
class ConnectionLost : public EngineError {
public:
    using EngineError::EngineError;
};

/// Keys and values that all processes see: a client of c10d's TCPStore.
/// Threading: one thread at a time; use copy() for another. Every call may block for as long as the store's host does
/// not answer. Errors: ConnectionLost.
class KeyStore {
public:
    struct Address {
        std::string host;
        std::uint16_t port = 0;
    };
    /// Connects within `patience`. With `listening`, a bound and listening socket that it takes over, this process
    /// hosts the store until the last copy of it ends.
    KeyStore(const Address& address, std::optional<int> listening, std::chrono::milliseconds patience);
    ~KeyStore();
    KeyStore(KeyStore&&) noexcept;
    KeyStore& operator=(KeyStore&&) noexcept;

    /// A client of its own for another thread.
    KeyStore copy();

    void set(const std::string& key, const std::string& value);
    /// Empty if nobody has set the key.
    std::optional<std::string> get(const std::string& key);
    /// Sets the key unless it is set already; returns what it then holds.
    std::string set_once(const std::string& key, const std::string& value);
    std::int64_t add(const std::string& key, std::int64_t number);

private:
    friend class Connections;
    struct Impl;
    explicit KeyStore(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// A message on its way. Keep it, and its memory, until wait() has returned or its Connections are gone.
/// Threading: wait() from one thread, cancel() from any.
class Transfer {
public:
    struct Impl;
    explicit Transfer(std::unique_ptr<Impl> impl);
    ~Transfer();
    Transfer(Transfer&&) noexcept;
    Transfer& operator=(Transfer&&) noexcept;

    /// Blocks until the message was handed over. False: it was canceled. Throws ConnectionLost.
    bool wait();
    void cancel();

private:
    std::shared_ptr<Impl> impl_;
    friend class Connections;
};

/// The way of bytes from a device of one process to that of another, by a plugin's c10d backend.
/// Threading: as PeerDevice; cancel() from any thread.
/// Errors: EngineError if the backend fails; ConnectionLost once it was canceled, or the group has ended.
class DeviceConnection final : public PeerDevice {
public:
    enum class End { sends, receives };
    struct Impl;
    explicit DeviceConnection(std::unique_ptr<Impl> impl);
    /// Ends what is still enqueued.
    ~DeviceConnection() override;

    void send(const at::Tensor& bytes) override { enqueue(bytes); }
    void receive(const at::Tensor& bytes) override { enqueue(bytes); }
    /// Blocks until all that was enqueued has passed on the device. False: it was canceled.
    bool wait();
    /// Whatever is enqueued ends soon, and nothing is enqueued any more. Does not block.
    void cancel();

private:
    void enqueue(const at::Tensor& bytes);

    std::unique_ptr<Impl> impl_;
};

/// Connections between each two of `size` processes, of their own: another object's messages do not mix with these.
/// Threading: all methods from any thread. Destroying it closes the connections; peers that still use them get
/// ConnectionLost.
class Connections {
public:
    /// Collective: every rank calls it with the same name, which must be new. Connects within `patience`.
    /// `local_address`: that of this host which the others can reach.
    Connections(KeyStore& store, const std::string& name, int rank, int size, const std::string& local_address,
                std::chrono::milliseconds patience);
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    /// Messages of one sender, receiver and tag arrive in the order in which they were sent.
    Transfer send(std::span<const std::byte> message, int to, int tag);
    /// `memory` must hold the longest message that may come: a longer one ends the process (a limit of Gloo).
    Transfer receive(std::span<std::byte> memory, int from, int tag);
    const std::string& name() const noexcept { return name_; }
    /// One end of a new way from device to device; `name` is equal on both ends, and new. The first bytes may block
    /// until the other end has enqueued its part. It lives as long as this. Throws EngineError that says why the
    /// devices cannot be connected.
    DeviceConnection& connect_devices(const DevicePlugin& plugin, const std::string& name, DeviceConnection::End end,
                                      c10::Device device, std::chrono::milliseconds patience);
    /// From now on every transfer, also a later one, is canceled.
    void cancel_all();
    /// Like cancel_all(), for transfers from device to device.
    void cancel_devices();

private:
    Transfer keep(std::unique_ptr<Transfer::Impl> impl);

    struct Impl;
    const std::string name_;
    std::unique_ptr<Impl> impl_;
    std::mutex mutex_;
    bool canceled_ = false;                                   // guarded by mutex_
    std::vector<std::weak_ptr<Transfer::Impl>> pending_;      // guarded by mutex_
    bool devices_canceled_ = false;                           // guarded by mutex_
    std::vector<std::unique_ptr<DeviceConnection>> devices_;  // guarded by mutex_
};
}  // namespace pipescope
