#include "engine/processes/process_clock.h"

#include "engine/lanes/process_end.h"
#include "engine/processes/transport.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>
#include <vector>

namespace pipescope {
namespace {
constexpr int kTag = 1;

/// Tells whether two processes read the same clock, and where the trace of each begins on it.
struct Identity {
    std::string clock;  // empty: unknown
    std::int64_t origin_ns = 0;
};

Identity identity_of(const std::string& gathered) {
    Identity identity;
    std::istringstream(gathered) >> identity.origin_ns >> identity.clock;
    return identity;
}

bool is_same(const Identity& one, const Identity& other) {
    return !one.clock.empty() && one.clock == other.clock;
}

/// Messages of one time each between this process and a peer.
class ClockLine {
public:
    ClockLine(Processes& processes, Connections& connections, int peer)
        : processes_(processes), connections_(connections), peer_(peer) {}

    /// Posts the receive of the next message, so that it need not wait for one when it comes.
    void expect() {
        processes_.exchange(peer_, [&] {
            coming_.emplace(connections_.receive(std::as_writable_bytes(std::span(came_)), peer_, kTag));
            return true;
        });
    }
    /// The message of the last expect().
    std::int64_t receive() {
        processes_.exchange(peer_, [&] { return coming_->wait(); });
        return came_[0];
    }
    void send(std::int64_t time) {
        processes_.exchange(peer_, [&] {
            const std::array<std::int64_t, 1> message = {time};
            return connections_.send(std::as_bytes(std::span(message)), peer_, kTag).wait();
        });
    }

private:
    Processes& processes_;
    Connections& connections_;
    const int peer_;
    std::array<std::int64_t, 1> came_{};
    std::optional<Transfer> coming_;
};

void answer(ClockLine& line, const ProcessClock& clock) {
    line.expect();
    line.send(0);  // it is the peer's turn
    for (int k = 0; k < kPings; ++k) {
        line.receive();
        const Nanoseconds now = clock.now();
        if (k + 1 < kPings) {
            line.expect();
        }
        line.send(now.count());
    }
}

ClockReading ask(ClockLine& line, const ProcessClock& clock) {
    line.expect();
    line.receive();
    ClockReading best;
    for (int k = 0; k < kPings; ++k) {
        line.expect();
        const Nanoseconds sent = clock.now();
        line.send(0);
        const Nanoseconds theirs{line.receive()};
        const Nanoseconds trip = clock.now() - sent;
        const Nanoseconds bound = (trip + Nanoseconds{1}) / 2;
        if (k == 0 || bound < best.bound) {
            best = {sent + bound, theirs - sent - bound, bound};
        }
    }
    return best;
}
}  // namespace

Nanoseconds ProcessClock::now() const {
    return std::chrono::steady_clock::now().time_since_epoch() - Nanoseconds{origin_ns};
}

ProcessClock process_clock(std::int64_t origin_ns) {
    ProcessClock clock{origin_ns, {}, {}};
    std::ifstream("/proc/sys/kernel/random/boot_id") >> clock.boot_id;
    std::error_code unknown;
    clock.time_namespace = std::filesystem::read_symlink("/proc/self/ns/time", unknown).string();
    return clock;
}

ClockReading measure_clock(Processes& processes, const ProcessClock& clock) {
    const bool is_known = !clock.boot_id.empty() && !clock.time_namespace.empty();
    std::vector<Identity> all;
    for (const std::string& each : processes.gather(std::to_string(clock.origin_ns) + " " +
                                                    (is_known ? clock.boot_id + "/" + clock.time_namespace : ""))) {
        all.push_back(identity_of(each));
    }
    const Identity& first = all.front();
    const Identity& own = all[static_cast<std::size_t>(processes.rank())];
    ClockReading reading;
    if (std::ranges::any_of(all, [&](const Identity& each) { return &each != &first && !is_same(each, first); })) {
        const AtRest while_waiting;
        const std::shared_ptr<Connections> connections = processes.connect();
        for (int rank = 1; rank < processes.size(); ++rank) {
            if (is_same(all[static_cast<std::size_t>(rank)], first)) {
                continue;
            }
            if (processes.rank() == 0) {
                ClockLine line(processes, *connections, rank);
                answer(line, clock);
            } else if (processes.rank() == rank) {
                ClockLine line(processes, *connections, 0);
                reading = ask(line, clock);
            }
        }
        processes.retire(connections);
    }
    if (processes.rank() == 0 || is_same(own, first)) {
        reading = {clock.now(), Nanoseconds{own.origin_ns - first.origin_ns}, Nanoseconds{0}};
    }
    return reading;
}
}  // namespace pipescope
