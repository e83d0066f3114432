#include "gui/document/task_loading.h"

#include "gui/style/work_pool.h"

#include <algorithm>

namespace pipescope {
namespace {
// More scans than this are limited by memory bandwidth rather than cores.
constexpr int kMostScans = 8;
// Fewer rows than this are read faster than another file handle opens.
constexpr std::int64_t kRowsWorthAScan = 50'000;

struct Part {
    RowIds ids;
    TimelineStoreBuilder builder;
};
}  // namespace

TaskLoading::TaskLoading(std::filesystem::path path, Source source, std::vector<LaneInfo> lanes)
    : path_(std::move(path)),
      source_(source),
      lanes_(std::move(lanes)),
      ids_(TraceReader(path_).task_ids()),
      next_(ids_.first),
      builder_(source_, lanes_) {}

double TaskLoading::part() const {
    return finished() ? 1 : static_cast<double>(next_ - ids_.first) / static_cast<double>(ids_.size());
}

void TaskLoading::readFor(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    const std::int64_t last =
        TraceReader(path_).read_tasks(source_, {next_, ids_.last}, [&](std::span<const Slice> slices) {
            builder_.add(slices);
            return std::chrono::steady_clock::now() < end;
        });
    next_ = last + 1;
}

void TaskLoading::readMore(const std::stop_token& stop) {
    const RowIds now = TraceReader(path_).task_ids();
    if (ids_.size() == 0) {
        ids_ = now;
        next_ = now.first;
    }
    ids_.last = std::max(ids_.last, now.last);
    if (!finished()) {
        readRest(stop);
    }
}

void TaskLoading::readRest(const std::stop_token& stop) {
    const RowIds rest{next_, ids_.last};
    const auto scans = std::clamp<std::int64_t>(rest.size() / kRowsWorthAScan, 1,
                                                std::min(static_cast<int>(mostWorkers()), kMostScans));
    std::vector<Part> parts;
    for (std::int64_t i = 0; i < scans; ++i) {
        parts.push_back({{rest.first + rest.size() * i / scans, rest.first + rest.size() * (i + 1) / scans - 1},
                         TimelineStoreBuilder(source_, lanes_)});
    }
    parallelFor(parts.size(), [&](std::size_t i, std::size_t) {
        Part& part = parts[i];
        TraceReader(path_).read_tasks(source_, part.ids, [&](std::span<const Slice> slices) {
            part.builder.add(slices);
            return !stop.stop_requested();
        });
    });
    for (Part& part : parts) {
        builder_.join(std::move(part.builder));
    }
    next_ = ids_.last + 1;
}
}  // namespace pipescope
