#include "gui/timeline/track_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kPointsPerBlock = 64;

void widen(CounterColumn& column, double low, double high) {
    column.low = column.known ? std::min(column.low, low) : low;
    column.high = column.known ? std::max(column.high, high) : high;
    column.known = true;
}

std::vector<SliceRef> targetsOf(const std::vector<TrackArrow>& arrows, const SliceRef& range, std::size_t most) {
    std::vector<SliceRef> targets;
    auto arrow = std::lower_bound(arrows.begin(), arrows.end(), TrackArrow{range, {}});
    for (; arrow != arrows.end() && arrow->from == range && targets.size() < most; ++arrow) {
        targets.push_back(arrow->to);
    }
    return targets;
}
}  // namespace

CounterRow::CounterRow(std::string group, std::string name) : group_(std::move(group)), name_(std::move(name)) {}

void CounterRow::add(std::int64_t time, double value) {
    lowest_ = time_.empty() ? value : std::min(lowest_, value);
    highest_ = time_.empty() ? value : std::max(highest_, value);
    if (time_.size() % kPointsPerBlock == 0) {
        blocks_.emplace_back();
    }
    widen(blocks_.back(), value, value);
    time_.push_back(time);
    value_.push_back(value);
}

std::size_t CounterRow::firstFrom(std::int64_t time) const {
    return static_cast<std::size_t>(std::lower_bound(time_.begin(), time_.end(), time) - time_.begin());
}

std::optional<double> CounterRow::valueAt(std::int64_t time) const {
    const auto next = std::upper_bound(time_.begin(), time_.end(), time) - time_.begin();
    return next == 0 ? std::nullopt : std::optional(value_[static_cast<std::size_t>(next) - 1]);
}

CounterColumn CounterRow::extremesOf(std::size_t first, std::size_t end) const {
    CounterColumn extremes;
    while (first < end) {
        if (first % kPointsPerBlock == 0 && first + kPointsPerBlock <= end) {
            widen(extremes, blocks_[first / kPointsPerBlock].low, blocks_[first / kPointsPerBlock].high);
            first += kPointsPerBlock;
        } else {
            widen(extremes, value_[first], value_[first]);
            ++first;
        }
    }
    return extremes;
}

std::vector<CounterColumn> CounterRow::columns(const TimeWindow& window, int columns) const {
    std::vector<CounterColumn> result(static_cast<std::size_t>(std::max(0, columns)));
    std::size_t next = firstFrom(timeAt(window, columns, 0));
    for (std::size_t x = 0; x < result.size() && !time_.empty(); ++x) {
        const std::size_t first = next;
        next = firstFrom(timeAt(window, columns, static_cast<double>(x + 1)));
        result[x] = extremesOf(first, next);
        if (first > 0) {  // the value at the left edge
            widen(result[x], value_[first - 1], value_[first - 1]);
        }
    }
    return result;
}

void TrackStore::setArrows(std::vector<TrackArrow> all) {
    arrows = std::move(all);
    std::sort(arrows.begin(), arrows.end());
    arrows.erase(std::unique(arrows.begin(), arrows.end()), arrows.end());
    arrivals.clear();
    arrivals.reserve(arrows.size());
    for (const TrackArrow& arrow : arrows) {
        arrivals.push_back({arrow.to, arrow.from});
    }
    std::sort(arrivals.begin(), arrivals.end());
}

std::vector<SliceRef> TrackStore::arrowsFrom(const SliceRef& range, std::size_t most) const {
    return targetsOf(arrows, range, most);
}

std::vector<SliceRef> TrackStore::arrowsTo(const SliceRef& range, std::size_t most) const {
    return targetsOf(arrivals, range, most);
}

bool CounterRow::isBytes() const {
    std::string lower(name_);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return name_.starts_with("memory of ") || lower.ends_with("bytes") || lower.find("(bytes)") != std::string::npos;
}

TimeRange TrackStore::range() const {
    std::optional<TimeRange> all;
    const auto add = [&](std::int64_t start, std::int64_t end) {
        all = all ? TimeRange{std::min(all->start, start), std::max(all->end, end)} : TimeRange{start, end};
    };
    for (const TrackRow& row : rows) {
        if (!row.start.empty()) {
            add(row.start.front(), row.end.back());
        }
    }
    for (const CounterRow& counter : counters) {
        if (counter.size() > 0) {
            add(counter.range().start, counter.range().end);
        }
    }
    return all.value_or(TimeRange{0, 0});
}

std::vector<TrackRows> threadsOf(const TrackStore& store) {
    std::vector<TrackRows> threads;
    for (std::size_t row = 0; row < store.rows.size(); ++row) {
        if (threads.empty() || store.rows[row].depth == 0) {
            threads.push_back({row, row});
        }
        threads.back().end = row + 1;
    }
    return threads;
}

std::int64_t busyIn(const TrackStore& store, const TrackRows& rows, const TimeRange& within,
                    const std::vector<bool>& leftOut) {
    std::vector<const ItemRow*> of;
    for (std::size_t row = rows.first; row < rows.end; ++row) {
        of.push_back(&store.rows[row]);
    }
    return coveredIn(of, within, [&](std::size_t row, std::size_t range) {
        return leftOut.empty() || !leftOut[store.rows[rows.first + row].text[range]];
    });
}

std::optional<SliceRef> nextOfText(const TrackStore& store, const SliceRef& from, int by) {
    const std::uint32_t text = store.rows.at(from.row).text.at(from.index);
    const auto place = [&](const SliceRef& ref) { return std::pair(store.rows[ref.row].start[ref.index], ref); };
    std::optional<SliceRef> best;
    for (std::uint32_t row = 0; row < store.rows.size(); ++row) {
        const std::vector<std::uint32_t>& texts = store.rows[row].text;
        for (std::uint32_t i = 0; i < texts.size(); ++i) {
            const SliceRef here{row, i};
            if (texts[i] != text || (by > 0 ? place(here) <= place(from) : place(here) >= place(from))) {
                continue;
            }
            if (!best || (by > 0 ? place(here) < place(*best) : place(here) > place(*best))) {
                best = here;
            }
        }
    }
    return best;
}

namespace {
constexpr double kNarrow = 2;       // pixels
constexpr double kCell = 4;         // pixels
constexpr double kRounding = 1e-6;  // pixels, by which a range may seem to begin in the cell before

constexpr auto kAll = [](std::size_t) { return true; };
}  // namespace

std::vector<TrackRun> visibleRuns(const TrackRow& row, const TimeWindow& window, int width) {
    std::vector<TrackRun> runs;
    const auto pixel = [&](std::int64_t time) { return pixelOf(window, width, time); };
    auto i = static_cast<std::size_t>(std::upper_bound(row.end.begin(), row.end.end(), window.start) - row.end.begin());
    double free = -kCell;
    while (i < row.start.size()) {
        TrackRun run{pixel(row.start[i]), pixel(row.end[i]), i};
        if (run.left >= width) {
            break;
        }
        std::size_t next = i + 1;
        if (run.right - run.left < kNarrow) {
            const double cell = std::floor((run.left + kRounding) / kCell) * kCell;
            const std::int64_t edge = timeAt(window, width, cell + kCell);
            next = std::max(
                next, static_cast<std::size_t>(
                          std::upper_bound(row.end.begin() + static_cast<std::ptrdiff_t>(i), row.end.end(), edge) -
                          row.end.begin()));
            // One that begins in the cell and ends beyond it belongs to it too, or there would be one at every edge.
            if (next < row.start.size() && row.start[next] < edge &&
                pixel(row.end[next]) - pixel(row.start[next]) < kNarrow) {
                ++next;
            }
            if (next > i + 1) {
                run.folded = true;
                run.left = std::max(cell, free);
                run.right = std::max(cell + kCell, pixel(row.end[next - 1]));
                const auto length =
                    static_cast<double>(std::max(edge, row.end[next - 1]) - timeAt(window, width, run.left));
                run.share =
                    std::clamp(static_cast<double>(busyOf(row, {i, next}, kAll)) / std::max(1.0, length), 0.0, 1.0);
            } else if (run.right - run.left < 1) {
                run.left = std::floor(run.left);
                run.right = run.left + 1;
            }
        }
        free = run.right;
        runs.push_back(run);
        i = next;
    }
    return runs;
}
}  // namespace pipescope
