#include "gui/document/query_tracks.h"

#include "base/error.h"
#include "gui/style/number_format.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace pipescope {
namespace {
constexpr double kMostTime = 0x1p62;     // ns, as times of traces; a length is then representable
constexpr std::size_t kMostDepth = 100;  // ranges that overlap more often share the last row

std::string groupOfTracks() {
    return translated("tracks of your own").toStdString();
}

std::optional<std::size_t> placeOfColumn(const std::vector<SqlColumn>& columns, const char* name) {
    const auto found = std::ranges::find_if(columns, [name](const SqlColumn& each) {
        return QString::fromStdString(each.name).compare(QLatin1String(name), Qt::CaseInsensitive) == 0;
    });
    return found == columns.end() ? std::nullopt : std::optional<std::size_t>(found - columns.begin());
}

std::optional<double> cellNumber(const SqlValue& value) {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        return static_cast<double>(*whole);
    }
    const auto* real = std::get_if<double>(&value);
    return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

std::optional<std::int64_t> cellTime(const SqlValue& value) {
    const std::optional<double> number = cellNumber(value);
    if (number && std::abs(*number) >= kMostTime) {
        throw Error("a time is beyond 2^62 ns, which is 146 years; give times in ns of the recording");
    }
    const auto* whole = std::get_if<std::int64_t>(&value);
    return whole != nullptr ? std::optional(*whole)
           : number         ? std::optional<std::int64_t>(std::llround(*number))
                            : std::nullopt;
}

std::string cellText(const SqlValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        return *text;
    }
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        return std::to_string(*whole);
    }
    const auto* real = std::get_if<double>(&value);
    return real != nullptr ? QString::number(*real).toStdString() : std::string();
}

struct OwnRange {
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::uint32_t text = 0;
};

/// Puts each range into the first row that is free.
std::vector<TrackRow> inRows(std::vector<OwnRange> ranges, const std::string& name) {
    std::ranges::stable_sort(ranges, {}, [](const OwnRange& each) { return std::tuple(each.start, -each.end); });
    std::vector<TrackRow> rows;
    for (const OwnRange& range : ranges) {
        auto row = std::ranges::find_if(rows, [&](const TrackRow& each) { return each.end.back() <= range.start; });
        if (row == rows.end() && rows.size() < kMostDepth) {
            TrackRow& added = rows.emplace_back();
            added.group = groupOfTracks();
            added.name = name;
            added.depth = static_cast<int>(rows.size()) - 1;
            row = rows.end() - 1;
        }
        TrackRow& into = row == rows.end() ? rows.back() : *row;
        const std::int64_t start = into.end.empty() ? range.start : std::max(range.start, into.end.back());
        into.start.push_back(start);
        into.end.push_back(std::max(start, range.end));
        into.text.push_back(range.text);
    }
    for (TrackRow& row : rows) {
        sumBusy(row, [](std::size_t) { return true; });
    }
    return rows;
}
}  // namespace

QString whyNoTrack(const std::vector<SqlColumn>& columns) {
    const auto has = [&columns](const char* name) { return placeOfColumn(columns, name).has_value(); };
    return (has("start") && has("end") && has("name")) || (has("time") && has("value"))
               ? QString()
               : translated(
                     "A track needs the columns start, end and name (and lane, if there are several), or time and "
                     "value; times are in ns.");
}

TrackStore trackOf(const QueryTrack& track, const SqlResult& result) {
    const std::string name = track.name.toStdString();
    if (const QString why = whyNoTrack(result.columns); !why.isEmpty()) {
        throw Error("the track '" + name + "' cannot be drawn: " + why.toStdString());
    }
    if (result.more) {
        throw Error("the track '" + name + "' has more than " + std::to_string(kMostQueryRows) +
                    " rows; ask for less, for instance with WHERE or LIMIT");
    }
    TrackStore store;
    const std::optional<std::size_t> start = placeOfColumn(result.columns, "start");
    const std::optional<std::size_t> end = placeOfColumn(result.columns, "end");
    const std::optional<std::size_t> text = placeOfColumn(result.columns, "name");
    if (!start || !end || !text) {
        std::vector<std::pair<std::int64_t, double>> points;
        for (const std::vector<SqlValue>& row : result.rows) {
            const std::optional<std::int64_t> time = cellTime(row[*placeOfColumn(result.columns, "time")]);
            const std::optional<double> value = cellNumber(row[*placeOfColumn(result.columns, "value")]);
            if (time && value) {
                points.emplace_back(*time, *value);
            }
        }
        std::ranges::stable_sort(points, {}, &std::pair<std::int64_t, double>::first);
        CounterRow counter(groupOfTracks(), name);
        for (const auto& [time, value] : points) {
            counter.add(time, value);
        }
        if (counter.size() > 0) {
            store.counters.push_back(std::move(counter));
        }
        return store;
    }
    const std::optional<std::size_t> lane = placeOfColumn(result.columns, "lane");
    std::unordered_map<std::string, std::uint32_t> texts;
    std::map<SqlValue, std::vector<OwnRange>> lanes;  // numbers before texts
    for (const std::vector<SqlValue>& row : result.rows) {
        const std::optional<std::int64_t> from = cellTime(row[*start]);
        const std::optional<std::int64_t> to = cellTime(row[*end]);
        if (!from || !to) {
            continue;
        }
        if (*to < *from) {
            throw Error("the track '" + name + "' cannot be drawn: a range starts at " + std::to_string(*from) +
                        " ns, but ends at " + std::to_string(*to) + " ns");
        }
        const auto [number, isNew] =
            texts.try_emplace(cellText(row[*text]), static_cast<std::uint32_t>(store.texts.size()));
        if (isNew) {
            store.texts.push_back(number->first);
        }
        lanes[lane ? row[*lane] : SqlValue()].push_back({*from, *to, number->second});
    }
    for (auto& [key, ranges] : lanes) {
        const std::string of = cellText(key);
        const bool isNumber = std::holds_alternative<std::int64_t>(key);
        const std::string title = of.empty() ? name : name + ", " + (isNumber ? "lane " + of : of);
        for (TrackRow& row : inRows(std::move(ranges), title)) {
            store.rows.push_back(std::move(row));
        }
    }
    return store;
}

void addTracks(TrackStore& store, const TrackStore& more) {
    const auto first = static_cast<std::uint32_t>(store.texts.size());
    store.texts.insert(store.texts.end(), more.texts.begin(), more.texts.end());
    for (TrackRow row : more.rows) {
        for (std::uint32_t& text : row.text) {
            text += first;
        }
        store.rows.push_back(std::move(row));
    }
    store.counters.insert(store.counters.end(), more.counters.begin(), more.counters.end());
}
}  // namespace pipescope
