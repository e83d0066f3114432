#include "hardware/cluster.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/text_file.h"
#include "hardware/links_file.h"
#include "hardware/named_clusters.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr const char* kFormat = "pipescope.cluster";
constexpr const char* kRemedy = "correct it; see docs/cluster-format.md";
constexpr std::int64_t kMostNodes = 1'000'000;
constexpr double kMostDevices = 1e9;

constexpr JsonKind kClusterJson{"a cluster file", kRemedy, kRemedy, throw_error<ProfileError>};
using Value = JsonValue<Json>;
using Object = JsonObject<Json>;

Object object_of(const Value& value, const std::vector<std::string>& known) {
    Object object = value.object();
    object.allow(known, "cluster file");
    return object;
}

Value required(Object& object, const char* key) {
    const std::string rule = object.path().empty() ? "every cluster file has it" : object.path() + " needs it";
    return object.at(key, rule + "; " + kRemedy);
}

int count(const Value& value) {
    constexpr std::string_view kWanted = "a whole number from 1 to 1000000";
    const double number = value.number(kWanted);
    if (!(number >= 1 && number <= kMostNodes) || number != std::floor(number)) {
        value.refuse(kWanted);
    }
    return static_cast<int>(number);
}

/// `more`: further keys of the object.
Link link_of(const Value& value, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"bytes_per_second", "efficiency", "latency_ns", "times", "source"});
    Object object = object_of(value, more);
    const std::string& path = value.path();
    Link link;
    const double efficiency = object.amount("efficiency", 1);
    if (!(efficiency > 0 && efficiency <= 1)) {
        object.at("efficiency").refuse("above 0 and at most 1");
    }
    link.bytes_per_second = object.amount("bytes_per_second", 0) * efficiency;
    constexpr double kSlowest = 1000;
    if (link.bytes_per_second > 0 && link.bytes_per_second < kSlowest) {
        throw ProfileError(path + ".bytes_per_second" + (efficiency < 1 ? " times efficiency" : "") + " is " +
                           shortest(link.bytes_per_second) + "; a link moves at least 1000 bytes a second; " + kRemedy);
    }
    link.latency_ns = object.amount("latency_ns", 0);
    if (const std::optional<Value> times = object.find("times")) {
        if (object.contains("efficiency")) {
            throw ProfileError(
                path + ".efficiency is given with times; measured times are already what programs reach; " + kRemedy);
        }
        link.times = read_link_times(*times);
        if (link.times.empty()) {
            times->refuse("a list of at least two sizes");
        }
    } else if (link.bytes_per_second == 0) {
        throw ProfileError(
            path + ".bytes_per_second is missing or 0; a link has a bandwidth, or times by message size; " + kRemedy);
    }
    try {
        check_link(link);
    } catch (const UsageError& fault) {
        throw ProfileError(path + ": " + fault.what());
    }
    return link;
}

NodeGroup group_of(const Value& value, const std::vector<DeviceType>& catalogue) {
    Object object =
        object_of(value, {"device", "count", "devices", "ports", "link", "price_per_hour", "hours_between_failures"});
    NodeGroup group;
    const Value name = required(object, "device");
    try {
        group.device = find_device(catalogue, name.filled_text());
    } catch (const UsageError& fault) {
        throw ProfileError(name.path() + ": " + fault.what());
    }
    group.nodes = count(required(object, "count"));
    group.devices_per_node = count(required(object, "devices"));
    if (static_cast<double>(group.nodes) * group.devices_per_node > kMostDevices) {
        throw ProfileError(value.path() + " holds more than 1e9 devices; correct count or devices");
    }
    const std::optional<Value> ports = object.find("ports");
    group.ports_per_node = ports ? count(*ports) : group.devices_per_node;
    if (const std::optional<Value> link = object.find("link")) {
        group.link = link_of(*link);
    } else {
        group.link.bytes_per_second = group.device.link_bytes_per_second * group.device.link_efficiency;
        group.link.latency_ns = group.device.link_latency_ns;
    }
    group.price_per_hour = object.amount("price_per_hour", group.device.price_per_hour * group.devices_per_node);
    group.hours_between_failures = object.amount("hours_between_failures", 0);
    constexpr double kFewestHours = 0.01;
    if (group.hours_between_failures > 0 && group.hours_between_failures < kFewestHours) {
        object.at("hours_between_failures").refuse("0, or at least 0.01 hours");
    }
    return group;
}

/// The link for one user of a shared link, who gets `share` of its bandwidth. A share above 1 stands for several links.
Link shared(Link link, double share) {
    link.bytes_per_second *= share;
    const double least = link.times.empty() ? 0 : link.times.front().ns;
    const double least_exchange = link.times.empty() ? 0 : link.times.front().exchange_ns;
    for (LinkTime& time : link.times) {
        time.ns = least + (time.ns - least) / share;
        time.exchange_ns = time.exchange_ns > 0 ? least_exchange + (time.exchange_ns - least_exchange) / share : 0;
    }
    return link;
}

/// A link that takes, for each message size, the longer of the two links' times.
Link slower_for_each_size(const Link& one, const Link& other) {
    std::set<Bytes> sizes{0};
    for (const Link* link : {&one, &other}) {
        for (const LinkTime& time : link->times) {
            sizes.insert(time.bytes);
        }
    }
    constexpr Bytes kLargest = Bytes{1} << 40;  // beyond, one of the links is the slower one
    for (Bytes size = std::max<Bytes>(1, *sizes.rbegin()); size < kLargest; size *= 2) {
        sizes.insert(2 * size);
    }
    Link link;
    for (const Bytes size : sizes) {
        const auto bytes = static_cast<double>(size);
        link.times.push_back({size, std::max(one.message_ns(bytes), other.message_ns(bytes)),
                              std::max(one.exchange_ns(bytes), other.exchange_ns(bytes))});
    }
    return link;
}

/// The mean hop of a ring in which `leaving` hops leave a node. Hops run at the same time, so the lowest bandwidth and
/// the mean latency count. With measured times, the slower link for each size counts.
Link hop_of_ring(const Link& inside, const Link& between, int leaving, int ranks) {
    if (!inside.times.empty() || !between.times.empty()) {
        return slower_for_each_size(inside, between);
    }
    Link hop = between;
    const bool is_slower = inside.bytes_per_second > 0 &&
                           (between.bytes_per_second == 0 || inside.bytes_per_second < between.bytes_per_second);
    hop.bytes_per_second = is_slower ? inside.bytes_per_second : between.bytes_per_second;  // 0: takes no time
    hop.latency_ns = ((ranks - leaving) * inside.latency_ns + leaving * between.latency_ns) / ranks;
    return hop;
}
}  // namespace

Cluster parse_cluster(std::string_view json, const std::vector<DeviceType>& catalogue) {
    const Json document = parse_json(json, kClusterJson);
    if (!document.is_object()) {
        Value(document, "the file", kClusterJson).refuse("an object");
    }
    for (const auto& [key, expected] : {std::pair<const char*, Json>{"format", kFormat}, {"version", 1}}) {
        const Json found = document.value(key, Json());
        if (found != expected) {
            throw ProfileError(std::string(key) + " is " + (found.is_null() ? "missing" : printable(found.dump())) +
                               "; every cluster file has " + expected.dump() + "; " + kRemedy);
        }
    }
    Object object = object_of(Value(document, "", kClusterJson),
                              {"format", "version", "name", "source", "nodes", "between_nodes", "between_racks"});
    Cluster cluster;
    cluster.name = required(object, "name").filled_text();
    if (const std::optional<Value> source = object.find("source")) {
        source->filled_text();
    }
    const Value groups = required(object, "nodes");
    cluster.groups =
        groups.list("a list of groups of nodes", [&](const Value& each) { return group_of(each, catalogue); });
    if (cluster.groups.empty()) {
        groups.refuse("a list of one group or more");
    }
    double nodes = 0;
    double devices = 0;
    for (std::size_t k = 0; k < cluster.groups.size(); ++k) {
        const NodeGroup& group = cluster.groups[k];
        for (std::size_t other = 0; other < k; ++other) {
            if (cluster.groups[other].device.name == group.device.name) {
                throw ProfileError("nodes[" + std::to_string(k) + "].device is " + group.device.name +
                                   " again; layouts name nodes by their type; join both groups, or give one of them "
                                   "another name in a device catalogue of yours");
            }
        }
        nodes += group.nodes;
        devices += group.devices();
    }
    if (devices > kMostDevices) {
        throw ProfileError("nodes hold more than 1e9 devices; correct their counts");
    }
    if (nodes > 1) {
        object.at("between_nodes", std::string("with several nodes there is a link between them; ") + kRemedy);
    }
    if (const std::optional<Value> between = object.find("between_nodes")) {
        cluster.between_nodes = link_of(*between);
    }
    if (const std::optional<Value> racks = object.find("between_racks")) {
        cluster.racks = {1, link_of(*racks, {"nodes"})};
        Object of_racks = racks->object();
        cluster.racks->nodes = count(required(of_racks, "nodes"));
    }
    return cluster;
}

namespace {
/// The text of the file, or of the built-in cluster with that name if there is no such file.
std::string text_of_cluster(const std::filesystem::path& path) {
    std::error_code fault;
    if (std::filesystem::status(path, fault).type() != std::filesystem::file_type::not_found) {
        return read_text_as<ProfileError>(path, {"a cluster file", kRemedy});
    }
    std::vector<std::string> names;
    for (const NamedCluster& known : named_clusters()) {
        if (known.name == path.string()) {
            return std::string(known.json);
        }
        names.emplace_back(known.name);
    }
    const bool is_json = path.extension() == ".json";  // the extension of the built-in clusters' files
    const std::optional<std::string> nearest = nearest_name(is_json ? path.stem().string() : path.string(), names);
    throw UsageError("there is no cluster file " + path.string() +
                     "; name a file (docs/cluster-format.md), or one of the built-in clusters: " +
                     joined_text(named_clusters(), ", ", &NamedCluster::name) +
                     (nearest ? "; the nearest one is " + *nearest : ""));
}
}  // namespace

Cluster load_cluster(const std::filesystem::path& path, const std::vector<DeviceType>& catalogue) {
    const std::string text = text_of_cluster(path);
    try {
        return parse_cluster(text, catalogue);
    } catch (const Error& fault) {
        throw ProfileError(path.string() + ": " + fault.what());
    }
}

Link node_link(const Cluster& cluster, const NodeGroup& group) {
    return shared(cluster.between_nodes, static_cast<double>(group.ports_per_node) / group.devices_per_node);
}

Link rack_link(const Cluster& cluster, const NodeGroup& group) {
    return shared(cluster.racks.value().link, static_cast<double>(group.ports_per_node) / group.devices_per_node);
}

namespace {
std::int64_t block_of(const RankGroup& group) {
    return static_cast<std::int64_t>(group.ranks) * group.stride;
}
std::int64_t devices_of(const RankGroup& group) {
    return std::max(group.devices, static_cast<std::int64_t>(group.ranks - 1) * group.stride + 1);
}

/// True if some group lies in more than one box. Boxes, such as nodes, hold `box` devices and are filled in order.
bool straddles(const RankGroup& group, std::int64_t box) {
    return devices_of(group) > box && box % block_of(group) != 0;
}

/// Calls call(place) for the first device of each group, with its place in its box.
void for_each_first(const RankGroup& group, std::int64_t box, const auto& call) {
    // Blocks begin at `places` positions in a box. The groups of a block begin at its first `stride` devices.
    const std::int64_t block = block_of(group);
    const std::int64_t places =
        std::min(std::max<std::int64_t>(1, devices_of(group) / block), box / std::gcd(block, box));
    const std::int64_t groups = std::min<std::int64_t>(
        group.stride, devices_of(group) - (group.ranks - 1) * static_cast<std::int64_t>(group.stride));
    for (std::int64_t k = 0; k < places; ++k) {
        for (std::int64_t offset = 0; offset < groups; ++offset) {
            call((k * block + offset) % box);
        }
    }
}

/// The smallest number of ranks that a group has in any box that it touches.
int fewest_in(const RankGroup& group, std::int64_t box) {
    const std::int64_t ranks = group.ranks;
    const std::int64_t stride = group.stride;
    if (!straddles(group, box)) {
        return group.ranks;
    }
    if (stride >= box) {
        return 1;
    }
    std::int64_t fewest = ranks;
    for_each_first(group, box, [&](std::int64_t first) {
        const std::int64_t in_first = std::min(ranks, (box - first + stride - 1) / stride);
        if (in_first < ranks) {
            const std::int64_t in_last = (first + (ranks - 1) * stride) % box / stride + 1;
            const std::int64_t in_others = ranks > in_first + in_last ? box / stride : ranks;
            fewest = std::min({fewest, in_first, in_last, in_others});
        }
    });
    return static_cast<int>(fewest);
}

/// The largest number of boxes that a group touches. Precondition: the group straddles boxes and has several ranks in
/// one of them.
int most_boxes(const RankGroup& group, std::int64_t box) {
    std::int64_t most = 1;
    for_each_first(group, box, [&](std::int64_t first) {
        most = std::max(most, (first + (group.ranks - 1) * static_cast<std::int64_t>(group.stride)) / box + 1);
    });
    return static_cast<int>(most);
}

/// Devices per rack; empty if the cluster has no racks.
std::optional<std::int64_t> rack_devices(const Cluster& cluster, const NodeGroup& group) {
    return cluster.racks ? std::optional(static_cast<std::int64_t>(cluster.racks->nodes) * group.devices_per_node)
                         : std::nullopt;
}
}  // namespace

Link ring_link(const Cluster& cluster, const NodeGroup& group, const RankGroup& ring) {
    if (ring.ranks < 2 || !straddles(ring, group.devices_per_node)) {
        return group.link;
    }
    const std::optional<std::int64_t> rack = rack_devices(cluster, group);
    const bool leaves_rack = rack && straddles(ring, *rack);
    const int in_node = fewest_in(ring, group.devices_per_node);
    const Link between = shared(leaves_rack ? rack_link(cluster, group) : node_link(cluster, group), in_node);
    if (ring.stride >= group.devices_per_node) {
        return between;
    }
    return hop_of_ring(group.link, between, most_boxes(ring, group.devices_per_node), ring.ranks);
}

double all_reduce_ns(const Link& link, int ranks, double bytes) {
    return ranks < 2 ? 0 : 2 * (ranks - 1) * link.exchange_ns(bytes / ranks);
}

double all_to_all_ns(const Cluster& cluster, const NodeGroup& group, const RankGroup& ranks, double bytes) {
    const double part = bytes / ranks.ranks;
    const auto over = [&](const Link& link, int peers) { return peers > 0 ? link.exchange_ns(part * peers) : 0; };
    const int in_node = fewest_in(ranks, group.devices_per_node);
    const std::optional<std::int64_t> rack = rack_devices(cluster, group);
    const int in_rack = rack ? fewest_in(ranks, *rack) : ranks.ranks;
    const double outside = (in_rack > in_node ? over(node_link(cluster, group), in_rack - in_node) : 0) +
                           (ranks.ranks > in_rack ? over(rack_link(cluster, group), ranks.ranks - in_rack) : 0);
    return std::max(over(group.link, in_node - 1), outside);
}

double node_dispatch_ns(const Cluster& cluster, const NodeGroup& group, const RankGroup& ranks, double bytes,
                        double experts, double top_k) {
    // Chance that some of a token's experts are on a given set of `devices` devices.
    const auto reached = [&](int devices) {
        const double here = experts * devices / ranks.ranks;
        double none = 1;
        for (int k = 0; k < top_k; ++k) {
            none *= std::max(0.0, experts - here - k) / (experts - k);
        }
        return 1 - none;
    };
    const auto over = [&](const Link& link, double copies) {
        return copies > 0 ? link.exchange_ns(bytes * copies) : 0;
    };
    const int in_node = fewest_in(ranks, group.devices_per_node);
    const std::optional<std::int64_t> rack = rack_devices(cluster, group);
    const int in_rack = rack ? fewest_in(ranks, *rack) : ranks.ranks;
    const auto nodes = [&](int devices) { return static_cast<double>(devices) / in_node; };
    const double outside =
        (in_rack > in_node ? over(node_link(cluster, group), nodes(in_rack - in_node) * reached(in_node)) : 0) +
        (ranks.ranks > in_rack ? over(rack_link(cluster, group), nodes(ranks.ranks - in_rack) * reached(in_node)) : 0);
    const double others = static_cast<double>(in_node - 1) / in_node;  // share of a node's devices
    return std::max(over(group.link, others * ranks.ranks * reached(1)), outside);
}

double all_gather_ns(const Link& link, int ranks, double bytes) {
    return ranks < 2 ? 0 : (ranks - 1) * link.exchange_ns(bytes / ranks);
}
}  // namespace pipescope
