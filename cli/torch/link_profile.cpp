#include "cli/torch/link_profile.h"

#include "base/error.h"
#include "base/sample_statistics.h"
#include "engine/processes/transport.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

constexpr Bytes kSmallest = 1 << 10;
constexpr Bytes kLargest = 1 << 24;
constexpr double kBudgetNs = 3e8;  // for messages of one size, unless the minimum count takes longer
constexpr std::int64_t kFewest = 5;
constexpr std::int64_t kMost = 200;
constexpr std::int64_t kWarmUp = 3;
constexpr int kOrders = 1;  // tags
constexpr int kMessages = 2;

enum class Pattern : std::int64_t {
    end,  ///< the other rank stops waiting for orders
    there_and_back,
    exchange,  ///< both send at once
};

/// A request by rank 0 to exchange messages with another rank.
struct Order {
    Pattern pattern = Pattern::end;
    std::int64_t bytes = 0;
    std::int64_t rounds = 0;
};

/// One side of the messages between two ranks.
class Peer {
public:
    Peer(Processes& processes, Connections& connections, int rank)
        : processes_(processes),
          connections_(connections),
          rank_(rank),
          out_(static_cast<std::size_t>(kLargest)),
          in_(static_cast<std::size_t>(kLargest)) {}

    void tell(Order order) {
        processes_.exchange(
            rank_, [&] { return connections_.send(std::as_bytes(std::span(&order, 1)), rank_, kOrders).wait(); });
    }
    Order listen() {
        Order order;
        processes_.exchange(rank_, [&] {
            return connections_.receive(std::as_writable_bytes(std::span(&order, 1)), rank_, kOrders).wait();
        });
        return order;
    }

    /// Times of the rounds in ns. `starts`: this side sends first if messages go there and back.
    std::vector<double> run(const Order& order, bool starts) {
        const auto bytes = static_cast<std::size_t>(order.bytes);
        const bool sends_first = starts || order.pattern == Pattern::exchange;
        std::vector<double> times;
        processes_.exchange(rank_, [&] {
            std::optional<Transfer> coming = receive(bytes);
            for (std::int64_t round = 1; round <= order.rounds; ++round) {
                const auto start = Clock::now();
                std::optional<Transfer> going;
                if (sends_first) {
                    going = send(bytes);
                }
                if (!coming->wait()) {
                    return false;
                }
                if (round < order.rounds) {
                    coming = receive(bytes);  // posted before the other side can send again
                }
                if (!sends_first) {
                    going = send(bytes);
                }
                if (!going->wait()) {
                    return false;
                }
                times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
            }
            return true;
        });
        return times;
    }

private:
    Transfer send(std::size_t bytes) { return connections_.send(std::span(out_).first(bytes), rank_, kMessages); }
    Transfer receive(std::size_t bytes) { return connections_.receive(std::span(in_).first(bytes), rank_, kMessages); }

    Processes& processes_;
    Connections& connections_;
    int rank_;
    std::vector<std::byte> out_, in_;
};

/// Times of as many rounds as the budget allows.
std::vector<double> measure(Peer& peer, Order order) {
    order.rounds = kWarmUp;
    peer.tell(order);
    const double each = peer.run(order, true).back();
    order.rounds = std::clamp(static_cast<std::int64_t>(kBudgetNs / std::max(each, 1.0)), kFewest, kMost);
    peer.tell(order);
    std::vector<double> times = peer.run(order, true);
    times.erase(times.begin());  // perhaps before the other side had posted its receive
    return times;
}

LinkSample sample_of(Peer& peer, Bytes bytes) {
    const std::vector<double> there_and_back = measure(peer, {Pattern::there_and_back, bytes, 0});
    const double exchange = median(measure(peer, {Pattern::exchange, bytes, 0}));
    return {{bytes, median(there_and_back) / 2, exchange}, *std::ranges::min_element(there_and_back) / 2};
}

void follow(Peer& peer) {
    for (Order order = peer.listen(); order.pattern != Pattern::end; order = peer.listen()) {
        peer.run(order, false);
    }
}
}  // namespace

std::vector<LinkSample> profile_links(const std::shared_ptr<Processes>& processes) {
    const std::shared_ptr<Connections> connections = processes->connect();
    std::vector<LinkSample> samples;
    if (processes->rank() != 0) {
        Peer first(*processes, *connections, 0);
        follow(first);
    }
    for (int rank = 1; processes->rank() == 0 && rank < processes->size(); ++rank) {
        Peer peer(*processes, *connections, rank);
        std::size_t k = 0;
        for (Bytes bytes = kSmallest; bytes <= kLargest; bytes *= 4, ++k) {
            const LinkSample sample = sample_of(peer, bytes);
            if (rank == 1) {
                samples.push_back(sample);
            } else if (samples[k].time.ns < sample.time.ns) {
                samples[k] = sample;
            }
        }
        peer.tell({});
    }
    for (std::size_t k = 0; k < samples.size(); ++k) {
        LinkTime& time = samples[k].time;
        if (k > 0) {
            time.ns = std::max(time.ns, samples[k - 1].time.ns);
            time.exchange_ns = std::max(time.exchange_ns, samples[k - 1].time.exchange_ns);
        }
        time.exchange_ns = std::max(time.exchange_ns, time.ns);
    }
    processes->retire(connections);
    return samples;
}
}  // namespace pipescope
