#pragma once

#include "base/ids.h"
#include "hardware/device_catalogue.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The device name of lanes that run on a host's cores.
inline constexpr const char* kHost = "cpu";

/// Which copies share bandwidth. Copies that share it get equal parts.
enum class LinkSharing {
    none,    ///< every ordered pair of lanes has its own link
    sender,  ///< all copies that leave a device share its port
    host,    ///< copies that leave a host share its port's sending direction; arriving copies share the receiving one
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
    in_turn,     ///< each lane handles one message after the other, in the order of its tasks, as a stream of NCCL does
};
std::string to_string(LinkProtocol protocol);
/// Throws UsageError that lists the names.
LinkProtocol parse_link_protocol(std::string_view name);

/// True if messages may wait until the receiver has done something else.
bool waits_for_receiver(LinkProtocol protocol);

/// Which lanes cannot compute during a copy.
enum class Sends {
    overlapped,  ///< none
    blocking,    ///< the sender's, until the copy ends
    serial,      ///< the sender's, then the receiver's for as long: each lane handles one message after the other
};
std::string to_string(Sends sends);
/// Throws UsageError that lists the names.
Sends parse_sends(std::string_view name);

/// Where a link lies in a cluster. Has no effect on its speed.
enum class LinkPlace { unknown, inside_node, between_nodes, between_racks };
std::string to_string(LinkPlace place);
/// Throws UsageError that lists the names.
LinkPlace parse_link_place(std::string_view name);

/// The measured time of one message over a link.
struct LinkTime {
    Bytes bytes = 0;
    double ns = 0;  ///< from the start of the send until the receiver has the message
    /// Time of two such messages that cross in opposite directions; 0: as long as one alone.
    double exchange_ns = 0;

    friend bool operator==(const LinkTime&, const LinkTime&) = default;
};

/// The link between each ordered pair of lanes on different devices: a bandwidth and a latency, or measured times.
/// Without these, copies are free.
struct Link {
    double bytes_per_second = 0;  ///< 0: infinite
    double latency_ns = 0;
    LinkSharing sharing = LinkSharing::none;
    /// Two or more by ascending size; times must not decrease. Linear in between; beyond the last, the line through the
    /// last two. A message smaller than the first takes as long as the first.
    std::vector<LinkTime> times = {};
    LinkProtocol protocol = LinkProtocol::eager;
    Sends sends = Sends::overlapped;  ///< anything else only for pipelines whose lanes share nothing
    LinkPlace place = LinkPlace::unknown;

    bool is_free() const { return bytes_per_second == 0 && latency_ns == 0 && times.empty(); }
    /// Time of one message that has the link to itself, with the receive already posted.
    double message_ns(double bytes) const;
    /// Time of two such messages that cross, as in an all-reduce.
    double exchange_ns(double bytes) const;
    /// The latency, or the time of the smallest measured message.
    double least_ns() const { return times.empty() ? latency_ns : times.front().ns; }
    /// The part of each copy's time that uses no bandwidth: one latency, or three under rendezvous.
    double startup_ns() const { return protocol == LinkProtocol::rendezvous ? 3 * least_ns() : least_ns(); }
    /// Time of one copy of that many bytes that has the link to itself.
    double copy_ns(double bytes) const { return message_ns(bytes) + (startup_ns() - least_ns()); }
    friend bool operator==(const Link&, const Link&) = default;
};

/// The link between nearby lanes: within each group of `lanes` consecutive lanes, counted from lane 0.
struct LinkTier {
    int lanes = 1;
    Link link;

    friend bool operator==(const LinkTier&, const LinkTier&) = default;
};

/// The link between two lanes, in both directions. If a == b: between that lane's replicas.
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
    /// Ascending by lanes; the first tier that holds both ends of a copy replaces `link`. Its links share with no
    /// other.
    std::vector<LinkTier> nearer;
    std::vector<PairLink> pairs;        ///< replace `nearer`, `link` and `replica_link`; they share with no other
    std::optional<Link> replica_link;   ///< between the replicas' lanes of one partition; empty: `link`
    std::optional<Bytes> memory_limit;  ///< for every lane
    std::vector<Bytes> memory_limits;   ///< by lane, if they differ; the smaller of `memory_limit` and this applies
    int host_cores = 0;                 ///< cores that "cpu" lanes of a process share; 0: one per such lane
    int processes = 1;                  ///< that run the lanes, each on a separate host
    bool expandable_segments = false;   ///< setting of an accelerator's caching allocator

    friend bool operator==(const Hardware&, const Hardware&) = default;
};

/// Throws UsageError for the first value that cannot work in a pipeline of `lanes` lanes.
void check_hardware(const Hardware& hardware, int lanes);
/// Throws UsageError if there is a memory limit but the profile lacks the layers' bytes.
void check_memory_known(const Profile& profile, const Hardware& hardware);
/// check_hardware() for Hardware::link alone.
void check_link(const Link& link);
/// check_hardware() for Hardware::host_cores alone.
void check_cores(int cores);
/// check_hardware() for Hardware::processes alone.
void check_processes(int processes);

std::string device_of(const Hardware& hardware, LaneId lane);
/// The process that runs a lane: process k * processes / L for lane k of L, or process k if lanes are fewer than
/// processes.
int process_of(const Hardware& hardware, LaneId lane, int lanes);
/// True if both lanes run on one device of one process, where copies are free.
bool share_device(const Hardware& hardware, LaneId a, LaneId b, int lanes);
/// True if the lane runs on a host's cores (device "cpu").
bool runs_on_host(const Hardware& hardware, LaneId lane);
double speed_of(const Hardware& hardware, LaneId lane);
const Link& link_between(const Hardware& hardware, LaneId a, LaneId b);
/// Applies `change` to every link between lanes: `link`, and the links in `nearer` and `pairs`.
Hardware with_links(Hardware hardware, const std::function<Link(const Link&)>& change);
/// The link between the replicas of a lane.
const Link& replica_link_of(const Hardware& hardware, LaneId lane);
/// Limits of the first `lanes` lanes; empty if there is no limit.
std::vector<Bytes> memory_limits_of(const Hardware& hardware, int lanes);
/// "16.00 GiB", or "16.00 GiB, 8.00 GiB" if lanes differ, for messages. Precondition: there is a limit.
std::string memory_limit_text(const Hardware& hardware);
/// The number of lanes for which the hardware has per-lane values, the shortest list counting. Empty if all lanes are
/// alike.
std::optional<int> described_lanes(const Hardware& hardware);
/// The hardware of the first `lanes` lanes. Further lanes copy the last one.
Hardware with_lanes(Hardware hardware, int lanes);
/// The hardware for lanes of that type. Sets the type's link if the hardware has none, and limits memory to the type's
/// tensor_bytes() unless a smaller limit is set.
Hardware hardware_on(const DeviceType& type, Hardware hardware);

// These parse texts as on the command line. `option` names the value in messages. Throw UsageError.

/// "1,1,.5"
std::vector<double> parse_speeds(const std::string& text, const std::string& option);
/// "16GiB" for every lane, or "16GiB,24GiB" for each; replaces the hardware's limits.
void parse_memory_limits(const std::string& text, const std::string& option, Hardware& hardware);
}  // namespace pipescope
