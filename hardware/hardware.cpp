#include "hardware/hardware.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/parse_name.h"
#include "base/printable.h"
#include "base/quantities.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipescope {
namespace {
void check_speed(double speed, std::size_t lane) {
    if (!(speed > 0) || !std::isfinite(speed)) {
        throw UsageError(option_name("speed") + ": the speed of lane " + std::to_string(lane) + " is " +
                         shortest(speed) + "; a speed is a number above 0, 1 being the profiled device; correct it");
    }
}

void check_link_value(const char* name, double value) {
    if (!(value >= 0) || !std::isfinite(value)) {
        throw UsageError(std::string(name) + " is " + shortest(value) +
                         "; it must be finite and not negative; use 0 for a free link");
    }
}

double exchange_of(const LinkTime& time) {
    return time.exchange_ns > 0 ? time.exchange_ns : time.ns;
}

void check_times(const Link& link) {
    if (link.times.empty()) {
        return;
    }
    if (link.bytes_per_second != 0 || link.latency_ns != 0) {
        throw UsageError(
            option_name("links") +
            ": measured times of messages are given with a link bandwidth or latency; the times hold both; "
            "leave out one or the other");
    }
    if (link.times.size() == 1) {
        throw UsageError(option_name("links") +
                         ": the time of one size is given; at least two give a bandwidth; measure another size");
    }
    for (std::size_t k = 0; k < link.times.size(); ++k) {
        const auto& [bytes, ns, exchange_ns] = link.times[k];
        constexpr const char* kRule = "0 or more and not below that of a smaller message; measure again";
        const auto refuse = [k](const std::string& key, const std::string& value, const std::string& rule) {
            throw UsageError(option_name("links") + ": times[" + std::to_string(k) + "]." + key + " is " + value +
                             "; it must be " + rule);
        };
        if (bytes < 0 || (k > 0 && bytes <= link.times[k - 1].bytes)) {
            refuse("bytes", std::to_string(bytes), "0 or more and above the size before; sort the sizes");
        }
        if (!(ns >= 0) || !std::isfinite(ns) || (k > 0 && ns < link.times[k - 1].ns)) {
            refuse("ns", shortest(ns), kRule);
        }
        const bool is_time = exchange_ns >= 0 && std::isfinite(exchange_ns);
        if (!is_time || (k > 0 && exchange_of(link.times[k]) < exchange_of(link.times[k - 1]))) {
            refuse("exchange_ns", shortest(exchange_ns), kRule);
        }
    }
}

void check_limit(const std::string& name, Bytes limit) {
    if (limit < 1) {
        throw UsageError(name + " is " + counted(limit, "byte", "bytes") +
                         "; a lane needs at least 1; leave the limit out for none");
    }
}

void check_links(const Hardware& hardware) {
    check_link(hardware.link);
    check_link(hardware.replica_link.value_or(Link{}));
    int before = 0;
    for (const LinkTier& tier : hardware.nearer) {
        check_link(tier.link);
        if (tier.lanes <= before) {
            throw UsageError("a link tier holds " + counted(tier.lanes, "lane", "lanes") +
                             "; each holds more than the one before, the first at least 1; sort them");
        }
        before = tier.lanes;
        if (tier.link.sharing != LinkSharing::none || hardware.link.sharing != LinkSharing::none) {
            throw UsageError("link sharing is " + to_string(hardware.link.sharing) +
                             " with link tiers; their links share with no other; use none");
        }
    }
    for (const PairLink& pair : hardware.pairs) {
        check_link(pair.link);
        if (pair.a < 0 || pair.b < 0 || pair.link.sharing != LinkSharing::none ||
            hardware.link.sharing != LinkSharing::none) {
            throw UsageError("the link of lanes " + std::to_string(pair.a) + " and " + std::to_string(pair.b) +
                             " is of no lane, or link sharing is " + to_string(hardware.link.sharing) +
                             "; such links share with no other; correct it, or use none");
        }
    }
}

const Link* pair_link(const Hardware& hardware, LaneId a, LaneId b) {
    for (const PairLink& pair : hardware.pairs) {
        if ((pair.a == a.value() && pair.b == b.value()) || (pair.a == b.value() && pair.b == a.value())) {
            return &pair.link;
        }
    }
    return nullptr;
}

/// Calls each(option, values) for every list by lane.
template <class Given, class Each>
void for_each_list(Given& hardware, Each each) {
    each("devices", hardware.devices);
    each("speed", hardware.speeds);
    each("memory-limit", hardware.memory_limits);
}
}  // namespace

std::string to_string(LinkSharing sharing) {
    switch (sharing) {
        case LinkSharing::none: return "none";
        case LinkSharing::sender: return "sender";
        case LinkSharing::host: return "host";
        case LinkSharing::all: return "all";
    }
    return "unknown";
}

LinkSharing parse_link_sharing(std::string_view name) {
    return parse_name<LinkSharing>(name, {LinkSharing::none, LinkSharing::sender, LinkSharing::host, LinkSharing::all},
                                   "link sharing is '" + std::string(name) + "'", "leave it out for none");
}

std::string to_string(LinkProtocol protocol) {
    switch (protocol) {
        case LinkProtocol::eager: return "eager";
        case LinkProtocol::rendezvous: return "rendezvous";
        case LinkProtocol::blocking: return "blocking";
        case LinkProtocol::in_turn: return "in-turn";
    }
    return "unknown";
}

bool waits_for_receiver(LinkProtocol protocol) {
    return protocol == LinkProtocol::blocking || protocol == LinkProtocol::in_turn;
}

std::string to_string(LinkPlace place) {
    switch (place) {
        case LinkPlace::unknown: return "unknown";
        case LinkPlace::inside_node: return "inside_node";
        case LinkPlace::between_nodes: return "between_nodes";
        case LinkPlace::between_racks: return "between_racks";
    }
    return "unknown";
}

LinkPlace parse_link_place(std::string_view name) {
    return parse_name<LinkPlace>(
        name, {LinkPlace::unknown, LinkPlace::inside_node, LinkPlace::between_nodes, LinkPlace::between_racks},
        "a link's place is '" + std::string(name) + "'", "leave it out if it is not known");
}

LinkProtocol parse_link_protocol(std::string_view name) {
    return parse_name<LinkProtocol>(
        name, {LinkProtocol::eager, LinkProtocol::rendezvous, LinkProtocol::blocking, LinkProtocol::in_turn},
        "link protocol is '" + std::string(name) + "'", "leave it out for eager");
}

std::string to_string(Sends sends) {
    switch (sends) {
        case Sends::overlapped: return "overlapped";
        case Sends::blocking: return "blocking";
        case Sends::serial: return "serial";
    }
    return "unknown";
}

Sends parse_sends(std::string_view name) {
    return parse_name<Sends>(name, {Sends::overlapped, Sends::blocking, Sends::serial},
                             "sends is '" + std::string(name) + "'", "correct it");
}

void check_link(const Link& link) {
    check_link_value("the link bandwidth", link.bytes_per_second);
    constexpr double kSlowest = 1;  // keeps every time within a double
    if (link.bytes_per_second > 0 && link.bytes_per_second < kSlowest) {
        throw UsageError("the link bandwidth is " + shortest(link.bytes_per_second) +
                         " bytes a second; a link moves at least 1; correct it, or use 0 for a free link");
    }
    check_link_value("the link latency", link.latency_ns);
    check_times(link);
}

namespace {
/// `time_of` gives the time of an entry of the link's table.
template <class TimeOf>
double time_over(const Link& link, double bytes, TimeOf time_of) {
    const std::vector<LinkTime>& times = link.times;
    if (times.empty()) {
        return link.latency_ns + (link.bytes_per_second > 0 ? bytes * (1e9 / link.bytes_per_second) : 0);
    }
    if (times.size() == 1 || bytes <= static_cast<double>(times.front().bytes)) {
        return time_of(times.front());
    }
    const auto larger = std::find_if(times.begin() + 1, times.end() - 1, [bytes](const LinkTime& each) {
        return bytes <= static_cast<double>(each.bytes);
    });
    const LinkTime& before = *(larger - 1);
    const double slope = (time_of(*larger) - time_of(before)) / static_cast<double>(larger->bytes - before.bytes);
    return time_of(before) + (bytes - static_cast<double>(before.bytes)) * slope;
}
}  // namespace

double Link::message_ns(double bytes) const {
    return time_over(*this, bytes, [](const LinkTime& time) { return time.ns; });
}

double Link::exchange_ns(double bytes) const {
    return time_over(*this, bytes, exchange_of);
}

void check_hardware(const Hardware& hardware, int lanes) {
    for_each_list(hardware, [lanes](const char* option, const auto& values) {
        if (!values.empty() && values.size() != static_cast<std::size_t>(lanes)) {
            throw UsageError(option_name(option) + " names " + counted(values.size(), "lane", "lanes") +
                             "; the pipeline has " + std::to_string(lanes) + "; give one for each lane, or none");
        }
    });
    for (std::size_t lane = 0; lane < hardware.speeds.size(); ++lane) {
        check_speed(hardware.speeds[lane], lane);
    }
    check_links(hardware);
    check_limit("the memory limit", hardware.memory_limit.value_or(1));
    for (std::size_t lane = 0; lane < hardware.memory_limits.size(); ++lane) {
        check_limit("the memory limit of lane " + std::to_string(lane), hardware.memory_limits[lane]);
    }
    check_cores(hardware.host_cores);
    check_processes(hardware.processes);
}

void check_processes(int processes) {
    if (processes < 1) {
        throw UsageError(option_name("processes") + " is " + std::to_string(processes) +
                         "; at least one process runs the lanes; leave it out for one");
    }
}

void check_cores(int cores) {
    if (cores < 0) {
        throw UsageError(option_name("cores") + " is " + std::to_string(cores) +
                         "; it counts cores; use 0 for one for each lane on the host");
    }
}

std::string device_of(const Hardware& hardware, LaneId lane) {
    return hardware.devices.empty() ? "device " + std::to_string(lane.value()) : hardware.devices.at(lane.index());
}

int process_of(const Hardware& hardware, LaneId lane, int lanes) {
    return lanes <= hardware.processes ? lane.value()
                                       : static_cast<int>(std::int64_t{lane.value()} * hardware.processes / lanes);
}

bool share_device(const Hardware& hardware, LaneId a, LaneId b, int lanes) {
    const bool share_process =
        hardware.processes == 1 || process_of(hardware, a, lanes) == process_of(hardware, b, lanes);
    const std::vector<std::string>& devices = hardware.devices;
    return share_process && (devices.empty() ? a == b : devices.at(a.index()) == devices.at(b.index()));
}

bool runs_on_host(const Hardware& hardware, LaneId lane) {
    return !hardware.devices.empty() && hardware.devices.at(lane.index()) == kHost;
}

double speed_of(const Hardware& hardware, LaneId lane) {
    return hardware.speeds.empty() ? 1.0 : hardware.speeds.at(lane.index());
}

const Link& replica_link_of(const Hardware& hardware, LaneId lane) {
    const Link* own = pair_link(hardware, lane, lane);
    return own != nullptr ? *own : hardware.replica_link ? *hardware.replica_link : hardware.link;
}

const Link& link_between(const Hardware& hardware, LaneId a, LaneId b) {
    if (const Link* own = pair_link(hardware, a, b)) {
        return *own;
    }
    for (const LinkTier& tier : hardware.nearer) {
        if (a.value() / tier.lanes == b.value() / tier.lanes) {
            return tier.link;
        }
    }
    return hardware.link;
}

Hardware with_links(Hardware hardware, const std::function<Link(const Link&)>& change) {
    hardware.link = change(hardware.link);
    for (LinkTier& tier : hardware.nearer) {
        tier.link = change(tier.link);
    }
    for (PairLink& pair : hardware.pairs) {
        pair.link = pair.a == pair.b ? pair.link : change(pair.link);
    }
    return hardware;
}

std::vector<Bytes> memory_limits_of(const Hardware& hardware, int lanes) {
    constexpr Bytes kAny = std::numeric_limits<Bytes>::max();
    if (!hardware.memory_limit && hardware.memory_limits.empty()) {
        return {};
    }
    std::vector<Bytes> limits = hardware.memory_limits;
    limits.resize(static_cast<std::size_t>(lanes), kAny);
    for (Bytes& limit : limits) {
        limit = std::min(limit, hardware.memory_limit.value_or(kAny));
    }
    return limits;
}

std::string memory_limit_text(const Hardware& hardware) {
    if (hardware.memory_limits.empty()) {
        return format_bytes(*hardware.memory_limit);
    }
    std::string text;
    for (const Bytes limit : memory_limits_of(hardware, static_cast<int>(hardware.memory_limits.size()))) {
        text += (text.empty() ? "" : ", ") + format_bytes(limit);
    }
    return text;
}

void check_memory_known(const Profile& profile, const Hardware& hardware) {
    if (profile.memory_unknown && (hardware.memory_limit || !hardware.memory_limits.empty())) {
        throw UsageError(option_name("memory-limit") + " is " + memory_limit_text(hardware) +
                         ", but the profile was measured from a trace that does not say what the layers hold; leave "
                         "the limit out, or profile the model with 'pipescope profile MODEL'");
    }
}

std::optional<int> described_lanes(const Hardware& hardware) {
    std::optional<int> lanes;
    for_each_list(hardware, [&lanes](const char*, const auto& values) {
        if (!values.empty()) {
            const int described = static_cast<int>(values.size());
            lanes = std::min(lanes.value_or(described), described);
        }
    });
    return lanes;
}

Hardware with_lanes(Hardware hardware, int lanes) {
    for_each_list(hardware, [lanes](const char*, auto& values) {
        if (!values.empty()) {
            const auto last = values.back();
            values.resize(static_cast<std::size_t>(lanes), last);
        }
    });
    return hardware;
}

Hardware hardware_on(const DeviceType& type, Hardware hardware) {
    if (Link& link = hardware.link; link.is_free()) {
        link.bytes_per_second = type.link_bytes_per_second * type.link_efficiency;
        link.latency_ns = type.link_latency_ns;
    }
    hardware.memory_limit = std::min(hardware.memory_limit.value_or(type.tensor_bytes()), type.tensor_bytes());
    return hardware;
}

std::vector<double> parse_speeds(const std::string& text, const std::string& option) {
    std::vector<double> speeds;
    for (const std::string& item : parse_list(text, option)) {
        speeds.push_back(parse_number<double>(text, item, option, "1,1,.5"));
        check_speed(speeds.back(), speeds.size() - 1);
    }
    return speeds;
}

void parse_memory_limits(const std::string& text, const std::string& option, Hardware& hardware) {
    std::vector<Bytes> limits;
    for (const std::string& item : parse_list(text, option)) {
        limits.push_back(parse_bytes(item, option));
    }
    hardware.memory_limit = limits.size() == 1 ? std::optional(limits.front()) : std::nullopt;
    hardware.memory_limits = limits.size() == 1 ? std::vector<Bytes>{} : std::move(limits);
}
}  // namespace pipescope
