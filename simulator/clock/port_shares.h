#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pipescope {
/// The hosts of a copy, numbered from 0: it passes the sending port of one and the receiving port of the other.
struct PortRoute {
    std::size_t from = 0;
    std::size_t to = 0;
};

/// Shares ports of bandwidth 1 among copies, as TCP does in the long run: max-min fair. No copy can be faster without
/// slowing down one that is not faster than itself. Source: progressive filling (Bertsekas and Gallager, Data Networks,
/// section 6.5.2).
/// Threading: one thread at a time; it keeps its arrays.
class PortShares {
public:
    explicit PortShares(std::vector<PortRoute> route_of_channel);
    /// The speed of one copy on each of the channels, 1 being that of a copy alone, in their order. Valid until the
    /// next call.
    const std::vector<double>& speeds(std::span<const std::size_t> channels);

private:
    struct Port {
        double left = 1;       ///< bandwidth
        std::size_t open = 0;  ///< copies without a speed yet
    };
    Port& sending(std::size_t channel) { return ports_[2 * routes_[channel].from]; }
    Port& receiving(std::size_t channel) { return ports_[2 * routes_[channel].to + 1]; }

    std::vector<PortRoute> routes_;
    std::vector<Port> ports_;  ///< sending and receiving, by host
    std::vector<double> speeds_;
};
}  // namespace pipescope
