#include "gui/document/memory_loading.h"

#include "trace/sql_query.h"

#include <algorithm>
#include <string>

namespace pipescope {
namespace {
constexpr std::size_t kSamplesAtOnce = 100'000;

MemorySample sampleOf(const std::vector<SqlValue>& row) {
    constexpr std::size_t kFirstCategory = 5;
    const auto number = [&](std::size_t column) {
        const auto* value = std::get_if<std::int64_t>(&row[column]);
        return value != nullptr ? *value : 0;
    };
    MemorySample sample;
    sample.lane = LaneId{number(1)};
    sample.time = Nanoseconds{number(2)};
    sample.allocated = number(3);
    sample.peak = number(4);
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        if (std::holds_alternative<std::int64_t>(row[kFirstCategory + k])) {
            sample.composition[static_cast<MemoryCategory>(k)] = number(kFirstCategory + k);
        }
    }
    return sample;
}
}  // namespace

std::int64_t addMemorySince(const QString& path, std::int64_t after, std::vector<MemoryTrack>& tracks) {
    for (bool more = true; more;) {
        const SqlResult result = query_sql(
            path.toStdString(),
            "SELECT rowid, lane, time, allocated, peak, parameters, gradients, optimizer, boundary, saved, skip, "
            "transient, copy, output FROM PIPESCOPE_MEMORY WHERE rowid > " +
                std::to_string(after) + " ORDER BY rowid",
            {.most_rows = kSamplesAtOnce, .cancelled = {}});
        for (const std::vector<SqlValue>& row : result.rows) {
            const MemorySample sample = sampleOf(row);
            if (sample.lane.index() < tracks.size()) {
                tracks[sample.lane.index()].add(sample);
            }
            after = std::max(after, std::get<std::int64_t>(row[0]));
        }
        more = result.more && !result.rows.empty();
    }
    return after;
}
}  // namespace pipescope
