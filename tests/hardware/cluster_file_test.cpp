#include "base/error.h"
#include "hardware/cluster.h"
#include "tests/cluster/clusters.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string cluster_with(const std::string& nodes, const std::string& more = "") {
    return R"({"format": "pipescope.cluster", "version": 1, "name": "test", "nodes": [)" + nodes +
           R"(], "between_nodes": {"bytes_per_second": 20e9, "efficiency": 0.5, "latency_ns": 3000})" + more + "}";
}

Cluster parsed(const std::string& json) {
    return parse_cluster(json, device_catalogue());
}

TEST(ClusterFile, HoldsGroupsAndLinks) {
    const Cluster cluster = parsed(cluster_with(
        R"({"device": "a100", "count": 3, "devices": 8, "ports": 4, "price_per_hour": 20, "hours_between_failures": 1000},
           {"device": "H100", "count": 2, "devices": 4, "link": {"bytes_per_second": 1e9}})",
        R"(, "between_racks": {"nodes": 2, "bytes_per_second": 5e9})"));
    ASSERT_EQ(cluster.groups.size(), 2U);
    const NodeGroup& first = cluster.groups[0];
    EXPECT_EQ(first.device.name, "A100");
    EXPECT_EQ(first.devices(), 24);
    EXPECT_EQ(first.ports_per_node, 4);
    EXPECT_EQ(first.price_per_hour, 20);
    EXPECT_EQ(first.hours_between_failures, 1000);
    EXPECT_DOUBLE_EQ(first.link.bytes_per_second, 300e9 * 0.8);  // the catalogue's, as programs reach it
    EXPECT_EQ(cluster.groups[1].ports_per_node, 4);              // one for each device
    EXPECT_DOUBLE_EQ(cluster.groups[1].link.bytes_per_second, 1e9);
    EXPECT_DOUBLE_EQ(cluster.between_nodes.bytes_per_second, 10e9);
    EXPECT_EQ(cluster.racks->nodes, 2);
}

TEST(ClusterFile, ErrorsNameThePathOfTheFault) {
    const auto refuses = [](const std::string& json, const std::string& path) {
        EXPECT_THAT(thrown<ProfileError>([&] { parsed(json); }),
                    AllOf(StartsWith(path), Not(HasSubstr("profile again"))))
            << json;
    };
    const std::string node = R"({"device": "A100", "count": 1, "devices": 8})";
    refuses("{}", "format");
    refuses("[", "[0] is not valid JSON");
    refuses(cluster_with(""), "nodes");
    refuses(cluster_with(R"({"device": "A100", "count": 0, "devices": 8})"), "nodes[0].count");
    refuses(cluster_with(R"({"device": "A100", "count": 1.5, "devices": 8})"), "nodes[0].count");
    refuses(cluster_with(R"({"device": "A100", "count": 1})"), "nodes[0].devices");
    refuses(cluster_with(R"({"device": "A1000", "count": 1, "devices": 8})"), "nodes[0].device");
    refuses(cluster_with(node + R"(, {"device": "A100", "count": 1, "devices": 8, "prize_per_hour": 3})"),
            "nodes[1].prize_per_hour is unknown; the nearest key is price_per_hour");
    refuses(cluster_with(R"({"device": "A100", "count": 1, "devices": 8, "hours_between_failures": -1})"),
            "nodes[0].hours_between_failures");
    refuses(cluster_with(R"({"device": "A100", "count": 1, "devices": 8, "link": {}})"),
            "nodes[0].link.bytes_per_second");
    refuses(cluster_with(R"({"device": "A100", "count": 1, "devices": 8,
                             "link": {"times": [{"bytes": 10, "ns": 5}, {"bytes": 5, "ns": 6}]}})"),
            "nodes[0].link: links: times[1].bytes");
    refuses(cluster_with(R"({"device": "A100", "count": 1000000, "devices": 1000000})"), "nodes[0]");
    refuses(cluster_with(node, R"(, "between_racks": {"bytes_per_second": 1e9})"), "between_racks.nodes");
    refuses(cluster_with(node + "," + node), "nodes[1].device is A100 again");
    refuses(cluster_with(R"({"device": "A100", "count": 1, "devices": 8, "link": {"bytes_per_second": 1e-300}})"),
            "nodes[0].link.bytes_per_second");
    refuses(cluster_with(R"({"device": "A100", "count": 1, "devices": 8, "hours_between_failures": 1e-300})"),
            "nodes[0].hours_between_failures");
    refuses(cluster_with(R"({"device": "A100", "count": 1, "devices": 8, "link": {"efficiency": 0.5,
                             "times": [{"bytes": 10, "ns": 5}, {"bytes": 15, "ns": 6}]}})"),
            "nodes[0].link.efficiency is given with times");
    refuses(R"({"format": "pipescope.cluster", "version": 1, "name": "x",
                "nodes": [{"device": "A100", "count": 2, "devices": 8}]})",
            "between_nodes");
}

TEST(ClusterFile, ExamplesOfTheRepositoryLoad) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(PIPESCOPE_SOURCE_DIR "/examples/clusters")) {
        EXPECT_NO_THROW(load_cluster(entry.path(), device_catalogue())) << entry.path();
        ++count;
    }
    EXPECT_GE(count, 3U);
}

TEST(ClusterFile, AnExampleIsKnownByItsNameUnlessAFileHasThatName) {
    const Cluster named = load_cluster("dgx-a100", device_catalogue());
    EXPECT_EQ(named, load_cluster(PIPESCOPE_SOURCE_DIR "/examples/clusters/dgx-a100.json", device_catalogue()));
    const TemporaryFolder folder;
    std::ofstream(folder.path() / "dgx-a100") << cluster_with(R"({"device": "A100", "count": 1, "devices": 2})");
    EXPECT_NE(load_cluster(folder.path() / "dgx-a100", device_catalogue()), named);
}

TEST(ClusterFile, ThatIsMissingIsRefusedWithTheNamesThatAreBuiltIn) {
    const std::string said = thrown<UsageError>([] { load_cluster("my-cluster", device_catalogue()); });
    EXPECT_THAT(said, HasSubstr("my-cluster"));
    EXPECT_THAT(said, HasSubstr("dgx-a100, dgx-h100"));
    EXPECT_THAT(said, Not(HasSubstr("nearest")));
    for (const char* mistyped : {"dgx-h10", "DGX-H100", "dgx-h100.json"}) {
        EXPECT_THAT(thrown<UsageError>([&] { load_cluster(mistyped, device_catalogue()); }),
                    HasSubstr("the nearest one is dgx-h100"))
            << mistyped;
    }
}

// Three of a node's four hops stay inside. A link that gets faster slows no ring down.
TEST(ClusterLinks, ARingHasTheMeanLatencyOfItsHops) {
    Cluster cluster = plain_cluster(2);
    NodeGroup& group = cluster.groups.front();
    group.link.latency_ns = 40;
    cluster.between_nodes.latency_ns = 400;
    EXPECT_EQ(ring_link(cluster, group, {8, 1}).latency_ns, 130);
    EXPECT_EQ(ring_link(cluster, group, {2, 4}).latency_ns, 400);
    EXPECT_EQ(ring_link(cluster, group, {4, 1}).latency_ns, 40);
    double before = all_reduce_ns(ring_link(cluster, group, {8, 1}), 8, 800);
    for (const double rate : {1.9e9, 2e9, 2.1e9, 1e10}) {  // the ports of a node move 2 bytes a ns
        group.link.bytes_per_second = rate;
        const double now = all_reduce_ns(ring_link(cluster, group, {8, 1}), 8, 800);
        EXPECT_LE(now, before) << rate;
        before = now;
    }
    group.link = {};
    EXPECT_EQ(ring_link(cluster, group, {8, 1}).bytes_per_second, 2e9);
}

TEST(ClusterLinks, ARingUsesTheLinkThatItsRanksLieOn) {
    const Cluster cluster = plain_cluster(8);
    const NodeGroup& group = cluster.groups.front();
    EXPECT_EQ(ring_link(cluster, group, {4, 1}).bytes_per_second, 1e9);    // a node
    EXPECT_EQ(ring_link(cluster, group, {2, 2}).bytes_per_second, 1e9);    // two of its devices
    EXPECT_EQ(ring_link(cluster, group, {2, 4}).bytes_per_second, 0.5e9);  // one device of each of two nodes
    // Two ranks in each node: the ring has the ports of both, 1 byte a ns, as fast as the link inside.
    EXPECT_EQ(ring_link(cluster, group, {4, 2}).bytes_per_second, 1e9);
    // Four in each: the ports of the whole node would be faster than the link inside.
    EXPECT_EQ(ring_link(cluster, group, {8, 1}).bytes_per_second, 1e9);
    // Four in a node and one in the next, which has one share.
    EXPECT_EQ(ring_link(cluster, group, {5, 1}).bytes_per_second, 0.5e9);
    // The second group of three has one in the first node; likewise the second block of three pairs.
    EXPECT_EQ(ring_link(cluster, group, {3, 1, 3}).bytes_per_second, 1e9);
    EXPECT_EQ(ring_link(cluster, group, {3, 1, 6}).bytes_per_second, 0.5e9);
    EXPECT_EQ(ring_link(cluster, group, {3, 2, 12}).bytes_per_second, 0.5e9);
    // Groups that fill nodes lie in them, however many there are. So do the ends of lanes that all lie in one node.
    EXPECT_EQ(ring_link(cluster, group, {2, 2, 32}).bytes_per_second, 1e9);
    EXPECT_EQ(ring_link(cluster, group, {2, 3, 4}).bytes_per_second, 1e9);
}

// Against a walk over all groups.
TEST(ClusterLinks, TheSlowestRingIsThatOfTheGroupWithTheFewestRanksInANode) {
    std::mt19937 random(3);
    const auto draw = [&random](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
    for (int round = 0; round < 2000; ++round) {
        Cluster cluster = plain_cluster(100);
        NodeGroup& group = cluster.groups.front();
        group.devices_per_node = draw(1, 9);
        group.link.bytes_per_second = 1e18;  // the ports are always slower
        const int ranks = draw(2, 12);
        const int stride = draw(1, 9);
        const int devices = ranks * stride * draw(1, 9);
        int fewest = ranks;
        for (int first = 0; first < devices; first += first % stride == stride - 1 ? (ranks - 1) * stride + 1 : 1) {
            std::map<int, int> in_node;
            for (int k = 0; k < ranks; ++k) {
                ++in_node[(first + k * stride) / group.devices_per_node];
            }
            for (const auto& [node, count] : in_node) {
                fewest = std::min(fewest, count);
            }
        }
        const double share = node_link(cluster, group).bytes_per_second;
        EXPECT_NEAR(ring_link(cluster, group, {ranks, stride, devices}).bytes_per_second,
                    fewest == ranks ? 1e18 : fewest * share, 1e-6 * share)
            << ranks << " ranks, " << stride << " apart, of " << devices << ", in nodes of " << group.devices_per_node;
    }
}

TEST(ClusterLinks, DevicesShareTheirNodesPorts) {
    Cluster cluster = plain_cluster(2);
    cluster.groups.front().ports_per_node = 1;
    EXPECT_EQ(node_link(cluster, cluster.groups.front()).bytes_per_second, 0.125e9);
    cluster.between_nodes = {};
    cluster.between_nodes.times = {{1000, 100}, {2000, 300}};
    const Link share = node_link(cluster, cluster.groups.front());
    EXPECT_EQ(share.message_ns(1000), 100);            // the latency is each message's own
    EXPECT_EQ(share.message_ns(2000), 100 + 4 * 200);  // the rest takes four times as long
}

TEST(ClusterLinks, RingsBetweenRacksUseTheirLink) {
    Cluster cluster = plain_cluster(8);
    cluster.racks = Racks{2, {}};
    cluster.racks->link.bytes_per_second = 0.1e9;
    const NodeGroup& group = cluster.groups.front();
    EXPECT_EQ(ring_link(cluster, group, {2, 4}).bytes_per_second, 0.5e9);  // both nodes of a rack
    EXPECT_EQ(ring_link(cluster, group, {3, 4}).bytes_per_second, 0.1e9);
}

TEST(ClusterLinks, AnAllReduceIsARing) {
    Link link;
    link.bytes_per_second = 1e9;
    link.latency_ns = 10;
    EXPECT_EQ(all_reduce_ns(link, 1, 4000), 0);
    EXPECT_EQ(all_reduce_ns(link, 4, 4000), 6 * (1000 + 10));
    EXPECT_EQ(all_gather_ns(link, 4, 4000), 3 * (1000 + 10));
}
// Two hops of a ring over a node of eight devices and one of another leave a node.
TEST(ClusterLinks, ARingOverUnevenlyFilledNodesHasTheMeanLatencyOfItsHops) {
    Cluster cluster = plain_cluster(4);
    NodeGroup& group = cluster.groups.front();
    group.devices_per_node = group.ports_per_node = 8;
    group.link.latency_ns = 1000;
    cluster.between_nodes.latency_ns = 50'000;
    const auto latency_of = [&](int ranks) { return ring_link(cluster, group, {ranks, 1, ranks}).latency_ns; };
    EXPECT_DOUBLE_EQ(latency_of(8), 1000);
    EXPECT_DOUBLE_EQ(latency_of(9), (2 * 50'000 + 7 * 1000) / 9.0);
    EXPECT_DOUBLE_EQ(latency_of(12), (2 * 50'000 + 10 * 1000) / 12.0);
    EXPECT_DOUBLE_EQ(latency_of(16), (2 * 50'000 + 14 * 1000) / 16.0);
}

// Small messages take as long as on the link that is slower for them, large ones likewise.
TEST(ClusterLinks, ARingOfMeasuredLinksIsTheSlowerOneForEachSize) {
    Cluster cluster = plain_cluster(2);
    NodeGroup& group = cluster.groups.front();
    group.link = {};
    group.link.times = {{1000, 5000, 0}, {1'000'000, 60'000, 0}, {64'000'000, 3e6, 0}};
    cluster.between_nodes.bytes_per_second = 50e9;
    cluster.between_nodes.latency_ns = 1e6;
    const RankGroup ring{8, 1, 8};
    const Link slow = ring_link(cluster, group, ring);
    Link between = node_link(cluster, group);
    between.bytes_per_second *= 4;  // the shares of the four ranks of a node
    for (const double bytes : {0.0, 10.0, 1e3, 1e5, 1e6, 3e7, 1e9, 1e11}) {
        const double most = std::max(group.link.exchange_ns(bytes), between.exchange_ns(bytes));
        EXPECT_GE(slow.exchange_ns(bytes), most * (1 - 1e-9)) << bytes;
        EXPECT_LE(slow.exchange_ns(bytes), 1.5 * most) << bytes;
    }
    for (LinkTime& time : group.link.times) {
        time.ns /= 4;
    }
    const Link faster = ring_link(cluster, group, ring);
    for (const double bytes : {0.0, 10.0, 1e3, 1e5, 1e6, 3e7, 1e9, 1e11}) {
        EXPECT_LE(faster.exchange_ns(bytes), slow.exchange_ns(bytes) * (1 + 1e-9)) << bytes;
    }
}
}  // namespace
}  // namespace pipescope
