#pragma once

#include "base/ids.h"
#include "hardware/device_catalogue.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The device of lanes that run on the cores of a host.
inline constexpr const char* kHost = "cpu";

/// Which copies share bandwidth. Copies that share it get equal parts.
enum class LinkSharing {
    none,    ///< every ordered pair of lanes has its own link
    sender,  ///< all copies that leave one device share its port
    host,    ///< copies that leave a host share its port's sending direction, those that arrive the receiving one
    all,     ///< all copies share one bus
};
std::string to_string(LinkSharing sharing);
/// Throws UsageError that lists the names.
LinkSharing parse_link_sharing(std::string_view name);

/// How a message starts, in MPI's terms.
enum class LinkProtocol {
    eager,       ///< the receive is posted ahead, as the engine does: data leave at once
    rendezvous,  ///< the sender first announces the message and waits for the answer: one more round trip
    blocking,    ///< the receive is posted right before the task that needs it; data leave only then
};
std::string to_string(LinkProtocol protocol);
/// Throws UsageError that lists the names.
LinkProtocol parse_link_protocol(std::string_view name);

/// Which lanes a copy keeps from computing.
enum class Sends {
    overlapped,  ///< none
    blocking,    ///< the sender's, until the copy has ended
    serial,      ///< the sender's, then the receiver's for as long: each lane handles one message after the other
};
std::string to_string(Sends sends);
/// Throws UsageError that lists the names.
Sends parse_sends(std::string_view name);

/// Where on a cluster a link lies. Links that differ only in this are equally fast.
enum class LinkPlace { unknown, inside_node, between_nodes, between_racks };
std::string to_string(LinkPlace place);
/// Throws UsageError that lists the names.
LinkPlace parse_link_place(std::string_view name);

/// The measured time of one message over a link.
struct LinkTime {
    Bytes bytes = 0;
    double ns = 0;  ///< from the start of the send until the receiver has the message
    /// Time of two such messages that cross, each in one direction; 0: as long as one alone.
    double exchange_ns = 0;

    friend bool operator==(const LinkTime&, const LinkTime&) = default;
};

/// The link between each ordered pair of lanes on different devices: a bandwidth and a latency, or measured times. Free
/// if it has none of these.
struct Link {
    double bytes_per_second = 0;  ///< 0: infinite
    double latency_ns = 0;
    LinkSharing sharing = LinkSharing::none;
    /// Two or more by ascending size, none shorter than the previous one. Linear in between; beyond the last, the line
    /// through the last two. A message smaller than the first takes as long as the first.
    std::vector<LinkTime> times = {};
    LinkProtocol protocol = LinkProtocol::eager;
    Sends sends = Sends::overlapped;  ///< others only for pipelines whose lanes share nothing
    LinkPlace place = LinkPlace::unknown;

    bool is_free() const { return bytes_per_second == 0 && latency_ns == 0 && times.empty(); }
    /// Time of one message that has the link to itself and whose receive is posted.
    double message_ns(double bytes) const;
    /// Time of two such messages that cross, as in an all-reduce.
    double exchange_ns(double bytes) const;
    /// The latency, or the time of the smallest measured message.
    double least_ns() const { return times.empty() ? latency_ns : times.front().ns; }
    /// Part of each copy's time that takes nothing from other copies: one latency, or three under rendezvous.
    double startup_ns() const { return protocol == LinkProtocol::rendezvous ? 3 * least_ns() : least_ns(); }
    /// Time of one copy of that many bytes that has the link to itself.
    double copy_ns(double bytes) const { return message_ns(bytes) + (startup_ns() - least_ns()); }
    friend bool operator==(const Link&, const Link&) = default;
};

/// The link between lanes that are near each other: of every `lanes` consecutive lanes, counted from lane 0.
struct LinkTier {
    int lanes = 1;
    Link link;

    friend bool operator==(const LinkTier&, const LinkTier&) = default;
};

/// The link between two lanes, in both directions. If a == b: between the replicas of that lane.
struct PairLink {
    int a = 0;
    int b = 0;
    Link link;

    friend bool operator==(const PairLink&, const PairLink&) = default;
};

/// The machine that a pipeline runs on: devices, speeds, links and memory of its lanes.
struct Hardware {
    std::vector<std::string> devices;  ///< by lane; empty: all different ("device 0", ..)
    std::vector<double> speeds;        ///< by lane, 1 being the profiled device; empty: all 1
    Link link;
    /// Ascending by lanes; the first that holds both ends of a copy replaces `link`. Its links share with no other.
    std::vector<LinkTier> nearer;
    std::vector<PairLink> pairs;        ///< replace `nearer` and `link`, and `replica_link`; they share with no other
    std::optional<Link> replica_link;   ///< between the replicas' lanes of one partition; empty: `link`
    std::optional<Bytes> memory_limit;  ///< for every lane
    std::vector<Bytes> memory_limits;   ///< by lane, if they differ; the smaller of both applies
    int host_cores = 0;                 ///< cores that "cpu" lanes of a process share; 0: one per such lane
    int processes = 1;                  ///< that run the lanes, each on a host of its own
    bool expandable_segments = false;   ///< setting of an accelerator's caching allocator

    friend bool operator==(const Hardware&, const Hardware&) = default;
};

/// Throws UsageError for the first value that no pipeline of `lanes` lanes could run with.
void check_hardware(const Hardware& hardware, int lanes);
/// Throws UsageError for a memory limit if the profile does not know the layers' bytes.
void check_memory_known(const Profile& profile, const Hardware& hardware);
/// Like check_hardware(), for Hardware::link alone.
void check_link(const Link& link);
/// Like the above, for Hardware::host_cores alone.
void check_cores(int cores);
/// Like the above, for Hardware::processes alone.
void check_processes(int processes);

std::string device_of(const Hardware& hardware, LaneId lane);
/// The process that runs a lane: lane k of L belongs to process k * processes / L, or to process k if there are fewer
/// lanes than processes.
int process_of(const Hardware& hardware, LaneId lane, int lanes);
/// True if two of that many lanes run on one device of one process, where copies are free.
bool share_device(const Hardware& hardware, LaneId a, LaneId b, int lanes);
/// True if the lane runs on the cores of a host: on the device "cpu".
bool runs_on_host(const Hardware& hardware, LaneId lane);
double speed_of(const Hardware& hardware, LaneId lane);
const Link& link_between(const Hardware& hardware, LaneId a, LaneId b);
/// Changes `link`, and those of `nearer` and `pairs`: every link between lanes.
Hardware with_links(Hardware hardware, const std::function<Link(const Link&)>& change);
/// The link between the replicas of a lane.
const Link& replica_link_of(const Hardware& hardware, LaneId lane);
/// Limits of the first `lanes` lanes; empty if there is no limit.
std::vector<Bytes> memory_limits_of(const Hardware& hardware, int lanes);
/// "16.00 GiB", or "16.00 GiB, 8.00 GiB" of lanes that differ, for messages. Precondition: there is a limit.
std::string memory_limit_text(const Hardware& hardware);
/// The number of lanes that the hardware describes one by one; empty if all lanes are alike. If lists differ in length,
/// the shortest counts.
std::optional<int> described_lanes(const Hardware& hardware);
/// The hardware of the first `lanes` lanes. Further lanes copy the last one.
Hardware with_lanes(Hardware hardware, int lanes);
/// The hardware for lanes of that type: its link unless it has one, and what the type's tensors may take as limit
/// unless it has a smaller one.
Hardware hardware_on(const DeviceType& type, Hardware hardware);

// Texts as on the command line. `option` is its name in messages. Throw UsageError.

/// "1,1,.5"
std::vector<double> parse_speeds(const std::string& text, const std::string& option);
/// "16GiB" for every lane, or "16GiB,24GiB" for each; replaces the hardware's limits.
void parse_memory_limits(const std::string& text, const std::string& option, Hardware& hardware);
}  // namespace pipescope
