#include "gui/document/link_tiers.h"

#include "gui/style/number_format.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>

namespace pipescope {
LinkTiers linkTiers(const PipelineOptions& options) {
    const Hardware& hardware = options.hardware;
    if (hardware.nearer.empty() && hardware.pairs.empty()) {
        return {};
    }
    constexpr double kMessage = 1 << 20;  // bytes, by which links are ranked
    const std::size_t partitions = options.balance.num_partitions();
    const auto laneOf = [&](std::size_t j) {
        return options.placement.empty() ? LaneId{static_cast<std::int64_t>(j)} : options.placement[j];
    };
    std::vector<const Link*> ofPartition;
    std::vector<const Link*> links;
    for (std::size_t j = 0; j + 1 < partitions; ++j) {
        const bool stays = laneOf(j) == laneOf(j + 1);
        ofPartition.push_back(stays ? nullptr : &link_between(hardware, laneOf(j), laneOf(j + 1)));
        const auto same = [&](const Link* each) { return *each == *ofPartition.back(); };
        if (!stays && std::ranges::none_of(links, same)) {
            links.push_back(ofPartition.back());
        }
    }
    std::ranges::stable_sort(links, {}, [](const Link* link) { return link->message_ns(kMessage); });
    LinkTiers tiers;
    for (const Link* link : links) {
        const double ns = link->message_ns(kMessage) - link->least_ns();
        tiers.names.push_back(QCoreApplication::translate("pipescope", "copies at %1, %2")
                                  .arg(ns > 0 ? formatRate(kMessage / ns * 1e9) : QStringLiteral("any speed"),
                                       formatDuration(std::llround(link->least_ns()))));
    }
    for (const Link* link : ofPartition) {
        const auto same = [&](const Link* each) { return link != nullptr && *each == *link; };
        const auto found = std::ranges::find_if(links, same);
        tiers.ofPartition.push_back(found == links.end() ? -1 : static_cast<int>(found - links.begin()));
    }
    return tiers;
}
}  // namespace pipescope
