#include "simulator/clock/port_shares.h"

#include <algorithm>
#include <utility>

namespace pipescope {
PortShares::PortShares(std::vector<PortRoute> route_of_channel) : routes_(std::move(route_of_channel)) {
    std::size_t hosts = 0;
    for (const PortRoute& route : routes_) {
        hosts = std::max({hosts, route.from + 1, route.to + 1});
    }
    ports_.resize(2 * hosts);
}

const std::vector<double>& PortShares::speeds(std::span<const std::size_t> channels) {
    speeds_.assign(channels.size(), 0);
    std::ranges::fill(ports_, Port{});
    for (const std::size_t channel : channels) {
        ++sending(channel).open;
        ++receiving(channel).open;
    }
    // Each round gives the copies of the tightest port their final speed, so there are at most as many rounds as ports.
    for (std::size_t open = channels.size(); open > 0;) {
        double part = 1;
        Port* tightest = nullptr;
        for (Port& port : ports_) {
            const double each = port.open > 0 ? port.left / static_cast<double>(port.open) : 1;
            if (port.open > 0 && (tightest == nullptr || each < part)) {
                part = each;
                tightest = &port;
            }
        }
        for (std::size_t k = 0; k < channels.size(); ++k) {
            Port& from = sending(channels[k]);
            Port& to = receiving(channels[k]);
            if (speeds_[k] == 0 && (&from == tightest || &to == tightest)) {
                speeds_[k] = part;
                --open;
                for (Port* port : {&from, &to}) {
                    port->left = std::max(port->left - part, 0.0);
                    --port->open;
                }
            }
        }
    }
    return speeds_;
}
}  // namespace pipescope
