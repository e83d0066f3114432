#include "gui/document/task_statistics.h"

#include "base/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace pipescope {
namespace {
constexpr std::size_t kTasksBetweenQuestions = 1 << 16;

struct Durations {
    std::vector<std::int64_t> all;
    std::int64_t inside = 0;  // ns within the range
    std::int64_t most = -1;
    SliceRef longest;
};

std::int64_t roundedQuantile(std::vector<std::int64_t>& values, double share) {
    return std::llround(quantile(values.size(), share, [&values](std::size_t place) {
        const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
        std::nth_element(values.begin(), at, values.end());
        return static_cast<double>(*at);
    }));
}

KindStatistics summary(TaskKind kind, std::optional<LaneId> lane, Durations& durations, double available) {
    KindStatistics statistics;
    statistics.kind = kind;
    statistics.lane = lane;
    statistics.count = static_cast<std::int64_t>(durations.all.size());
    for (const std::int64_t each : durations.all) {
        statistics.total += each;
    }
    statistics.longest = durations.longest;
    statistics.median = roundedQuantile(durations.all, 0.5);
    statistics.p95 = roundedQuantile(durations.all, 0.95);
    statistics.busyShare = available > 0 ? static_cast<double>(durations.inside) / available : 0;
    return statistics;
}
}  // namespace

std::vector<KindStatistics> taskStatistics(const TimelineStore& store, const TimeRange& range,
                                           const std::function<bool()>& cancelled) {
    std::map<std::pair<TaskKind, std::int64_t>, Durations> byLane;
    std::size_t seen = 0;
    for (std::uint32_t number = 0; number < store.rows().size(); ++number) {
        const StoredRow& row = store.rows()[number];
        for (const std::size_t i : row.within(range).indices()) {
            if (++seen % kTasksBetweenQuestions == 0 && cancelled && cancelled()) {
                return {};
            }
            Durations& durations = byLane[{static_cast<TaskKind>(row.kind[i]), row.lane.value()}];
            durations.all.push_back(row.end[i] - row.start[i]);
            durations.inside += std::min(row.end[i], range.end) - std::max(row.start[i], range.start);
            if (durations.all.back() > durations.most) {
                durations.most = durations.all.back();
                durations.longest = {number, static_cast<std::uint32_t>(i)};
            }
        }
    }
    const auto length = static_cast<double>(range.length());
    const double lanes = std::max<double>(1, static_cast<double>(store.lanes().size()));
    std::vector<KindStatistics> statistics;
    for (auto each = byLane.begin(); each != byLane.end();) {
        const TaskKind kind = each->first.first;
        Durations together;
        std::vector<KindStatistics> ofLanes;
        for (; each != byLane.end() && each->first.first == kind; ++each) {
            together.all.insert(together.all.end(), each->second.all.begin(), each->second.all.end());
            together.inside += each->second.inside;
            if (each->second.most > together.most) {
                together.most = each->second.most;
                together.longest = each->second.longest;
            }
            ofLanes.push_back(summary(kind, LaneId{each->first.second}, each->second, length));
            ofLanes.back().inside = each->second.inside;
        }
        statistics.push_back(summary(kind, std::nullopt, together, length * lanes));
        statistics.back().inside = together.inside;
        statistics.insert(statistics.end(), ofLanes.begin(), ofLanes.end());
    }
    return statistics;
}
}  // namespace pipescope
