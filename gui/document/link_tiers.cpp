#include "gui/document/link_tiers.h"

#include "gui/style/number_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr double kMessage = 1 << 20;  // bytes, by which links are ranked

QString speedOf(const Link& link) {
    const double ns = link.message_ns(kMessage) - link.least_ns();
    return translated("%1, %2").arg(ns > 0 ? formatRate(kMessage / ns * 1e9) : translated("any speed"),
                                    formatDuration(std::llround(link.least_ns())));
}

QString nameOf(const Link& link) {
    switch (link.place) {
        case LinkPlace::inside_node: return translated("copies inside a node");
        case LinkPlace::between_nodes: return translated("copies between nodes");
        case LinkPlace::between_racks: return translated("copies between racks");
        case LinkPlace::unknown: break;
    }
    return translated("copies at %1").arg(speedOf(link));
}

bool isOfOneTier(const Link& a, const Link& b) {
    return a.place == b.place && (a.place != LinkPlace::unknown || a == b);
}
}  // namespace

std::vector<int> LinkTiers::colors() const {
    std::vector<int> colors;
    for (const int tier : ofPartition) {
        colors.push_back(tier < 0 ? -1 : tiers[static_cast<std::size_t>(tier)].color);
    }
    return colors;
}

LinkTiers linkTiers(const PipelineOptions& options) {
    const Hardware& hardware = options.hardware;
    if (hardware.nearer.empty() && hardware.pairs.empty() && hardware.link.place == LinkPlace::unknown) {
        return {};
    }
    const auto laneOf = [&](std::size_t j) { return lane_of(options.placement, PartitionId{j}); };
    std::vector<const Link*> ofPartition;
    std::vector<const Link*> links;  // that differ
    for (std::size_t j = 0; j + 1 < options.balance.num_partitions(); ++j) {
        const bool stays = laneOf(j) == laneOf(j + 1);
        ofPartition.push_back(stays ? nullptr : &link_between(hardware, laneOf(j), laneOf(j + 1)));
        const auto same = [&](const Link* each) { return *each == *ofPartition.back(); };
        if (!stays && std::ranges::none_of(links, same)) {
            links.push_back(ofPartition.back());
        }
    }
    std::ranges::stable_sort(links, {},
                             [](const Link* link) { return std::pair(link->place, link->message_ns(kMessage)); });
    LinkTiers tiers;
    std::vector<const Link*> firstOf;  // by tier
    for (const Link* link : links) {
        if (firstOf.empty() || !isOfOneTier(*firstOf.back(), *link)) {
            const int color = link->place == LinkPlace::unknown
                                  ? static_cast<int>(firstOf.size())
                                  : static_cast<int>(link->place) - static_cast<int>(LinkPlace::inside_node);
            tiers.tiers.push_back({nameOf(*link), speedOf(*link), color});
            firstOf.push_back(link);
        } else if (!tiers.tiers.back().about.split(QLatin1Char('\n')).contains(speedOf(*link))) {
            tiers.tiers.back().about += QLatin1Char('\n') + speedOf(*link);
        }
    }
    for (const Link* link : ofPartition) {
        const auto same = [&](const Link* first) { return link != nullptr && isOfOneTier(*first, *link); };
        const auto found = std::ranges::find_if(firstOf, same);
        tiers.ofPartition.push_back(found == firstOf.end() ? -1 : static_cast<int>(found - firstOf.begin()));
    }
    return tiers;
}
}  // namespace pipescope
