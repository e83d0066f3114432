#include "gui/document/area_statistics.h"

#include "gui/document/length_query.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <algorithm>
#include <compare>
#include <string>
#include <tuple>
#include <unordered_map>

namespace pipescope {
namespace {
constexpr std::size_t kItemsBetweenQuestions = 1 << 16;
// Names of kernels within a list of tasks come after the shown kinds.
constexpr auto kFirstKernelName = static_cast<std::uint32_t>(kNumShownKinds);

constexpr std::uint64_t kIsKernel = std::uint64_t{1} << 63;
std::uint64_t idOf(SliceRef ref, bool isKernel) {
    return (isKernel ? kIsKernel : 0) | std::uint64_t{ref.row} << 32 | ref.index;
}
SliceRef refOf(std::uint64_t id) {
    return {static_cast<std::uint32_t>((id & ~kIsKernel) >> 32), static_cast<std::uint32_t>(id)};
}

bool isOf(Counted counted, const TrackRow& row) {
    return row.on == (counted == Counted::threads ? RanOn::host : RanOn::device);
}

bool hasRows(const TrackStore& store, Counted counted) {
    return std::ranges::any_of(store.rows, [&](const TrackRow& row) { return isOf(counted, row); });
}

/// The names, places and items of what is counted.
class Area {
public:
    Area(const TraceDocument& document, Counted counted) : document_(document), counted_(counted) {
        if (counted == Counted::threads || counted == Counted::streams) {
            addThreads();
            return;
        }
        const TimelineStore* store =
            counted == Counted::kernels ? &document.kernels->slices() : document.store(sourceOf(counted));
        for (std::size_t lane = 0; lane < store->lanes().size(); ++lane) {
            const std::string& name = store->lanes()[lane].name;
            places_.push_back({QString::fromStdString(name.empty() ? store->nameOf(LaneId{lane}) : name), {}});
        }
        addRows(*store, counted == Counted::kernels);
        if (counted == Counted::measured_tasks && document.kernels) {
            addRows(document.kernels->slices(), true);
        }
    }

    std::size_t size() const { return places_.size(); }
    const QString& placeName(std::size_t place) const { return places_.at(place).name; }
    bool isKernel(std::uint32_t name) const { return !ofTracks() && name >= kFirstKernelName; }
    bool ofTracks() const { return counted_ == Counted::threads || counted_ == Counted::streams; }
    std::optional<TaskKind> kindOf(std::uint32_t name) const {
        return ofTracks() || isKernel(name) ? std::nullopt : std::optional(static_cast<TaskKind>(name));
    }
    QString nameOf(std::uint32_t name) const {
        if (ofTracks()) {
            return QString::fromStdString(document_.tracks->texts.at(name));
        }
        return isKernel(name) ? QString::fromStdString(document_.kernels->names().at(name - kFirstKernelName))
                              : styleOf(static_cast<TaskKind>(name)).name;
    }
    CountedItem item(std::uint64_t id) const {
        return {(id & kIsKernel) != 0 ? Counted::kernels : counted_, refOf(id)};
    }

    /// Calls `take(item)` with the items of a place in the range, by start, an outer one first.
    template <class Take>
    bool forEach(std::uint32_t place, const TimeRange& range, const std::function<bool()>& cancelled,
                 const Take& take) {
        std::vector<Place> items;
        std::unordered_map<std::uint64_t, std::vector<Place>> launched;  // kernels within tasks, by task
        const std::vector<Row>& rows = places_[place].rows;
        for (std::uint32_t k = 0; k < rows.size(); ++k) {
            for (const std::size_t i : rows[k].row->within(range).indices()) {
                const Place at{rows[k].row->start[i], rows[k].depth, k, static_cast<std::uint32_t>(i)};
                const bool isWithin = rows[k].isKernels && counted_ != Counted::kernels;
                (isWithin ? launched[tasksOf(rows[k]).key[i]] : items).push_back(at);
            }
        }
        if (rows.size() > 1) {
            std::ranges::sort(items);
        }
        const auto takeOne = [&](const Place& each, int depth, bool belongs) {
            const Row& row = rows[each.row];
            const SliceRef ref{row.number, each.index};
            take(AreaItem{place, depth, nameAt(row, each.index), row.row->range(each.index), idOf(ref, row.isKernels),
                          belongs});
            return ++seen_ % kItemsBetweenQuestions != 0 || !cancelled || !cancelled();
        };
        const auto takeAll = [&](std::vector<Place>& kernels, int depth) {
            std::ranges::sort(kernels);
            return std::ranges::all_of(kernels, [&](const Place& each) { return takeOne(each, depth, depth > 0); });
        };
        for (const Place& each : items) {
            if (!takeOne(each, each.depth, false)) {
                return false;
            }
            const auto own = launched.empty() ? launched.end() : launched.find(tasksOf(rows[each.row]).key[each.index]);
            if (own != launched.end()) {
                const bool whole = takeAll(own->second, 1);
                launched.erase(own);
                if (!whole) {
                    return false;
                }
            }
        }
        // Of tasks that do not share time with the range.
        std::vector<Place> others;
        for (const auto& [task, kernels] : launched) {
            others.insert(others.end(), kernels.begin(), kernels.end());
        }
        return takeAll(others, 0);
    }

    /// Calls `take(range)` with the items of a name at a place, in no order. False if `cancelled` returned true.
    template <class Take>
    bool forEachOf(std::uint32_t name, std::uint32_t place, const std::function<bool()>& cancelled, const Take& take) {
        for (const Row& row : places_.at(place).rows) {
            if (row.isKernels && counted_ != Counted::kernels && !isKernel(name)) {
                continue;
            }
            for (std::uint32_t i = 0; i < row.row->size(); ++i) {
                if (i % kItemsBetweenQuestions == 0 && cancelled && cancelled()) {
                    return false;
                }
                if (nameAt(row, i) == name) {
                    take(row.row->range(i));
                }
            }
        }
        return true;
    }

private:
    struct Row {
        const ItemRow* row;
        std::uint32_t number;  // in the store
        int depth;
        bool isKernels;
    };
    struct Place {
        std::int64_t start;
        int depth;
        std::uint32_t row;  // among those of the place
        std::uint32_t index;

        friend auto operator<=>(const Place&, const Place&) = default;
    };
    struct PlaceRows {
        QString name;
        std::vector<Row> rows;
    };

    static const StoredRow& tasksOf(const Row& row) { return *static_cast<const StoredRow*>(row.row); }
    static Source sourceOf(Counted counted) {
        return counted == Counted::simulated_tasks ? Source::simulated : Source::measured;
    }

    void addRows(const TimelineStore& store, bool areKernels) {
        for (std::uint32_t number = 0; number < store.rows().size(); ++number) {
            const StoredRow& row = store.rows()[number];
            if (row.lane.index() < places_.size()) {
                places_[row.lane.index()].rows.push_back({&row, number, 0, areKernels});
            }
        }
    }

    void addThreads() {
        const TrackStore& store = *document_.tracks;
        for (const TrackRows& thread : threadsOf(store)) {
            const TrackRow& first = store.rows[thread.first];
            if (!isOf(counted_, first)) {
                continue;
            }
            const QString name = QString::fromStdString(first.name);
            PlaceRows place{
                first.group.empty() ? name : QStringLiteral("%1 · %2").arg(QString::fromStdString(first.group), name),
                {}};
            for (std::size_t row = thread.first; row < thread.end; ++row) {
                place.rows.push_back({&store.rows[row], static_cast<std::uint32_t>(row), store.rows[row].depth, false});
            }
            places_.push_back(std::move(place));
        }
    }

    std::uint32_t nameAt(const Row& row, std::uint32_t index) {
        if (ofTracks()) {
            return static_cast<const TrackRow*>(row.row)->text[index];
        }
        if (!row.isKernels) {
            return static_cast<const StoredRow*>(row.row)->kind[index];
        }
        return kFirstKernelName + document_.kernels->nameNumber({row.number, index});
    }

    const TraceDocument& document_;
    Counted counted_;
    std::vector<PlaceRows> places_;
    std::size_t seen_ = 0;
};

StatisticsRow rowOf(const Area& area, const NameInArea& sum, std::int64_t length) {
    StatisticsRow row;
    row.name = area.nameOf(sum.name);
    row.kind = area.kindOf(sum.name);
    row.number = sum.name;
    row.place = sum.place;
    row.placeName = sum.place ? area.placeName(*sum.place) : QString();
    row.lengths = sum.lengths;
    row.inside = sum.inside;
    row.self = sum.self;
    row.longest = area.item(sum.longest);
    const double available = static_cast<double>(length) * (sum.place ? 1 : static_cast<double>(area.size()));
    row.share = available > 0 ? static_cast<double>(sum.inside) / available : 0;
    return row;
}

/// The names with the most time first; the rows of a name stay together.
void sortBySum(std::vector<StatisticsRow>& rows) {
    std::unordered_map<std::uint32_t, std::int64_t> sums;
    for (const StatisticsRow& row : rows) {
        if (!row.place) {
            sums[row.number] = row.inside;
        }
    }
    std::ranges::stable_sort(rows, [&](const StatisticsRow& a, const StatisticsRow& b) {
        return std::pair(-sums[a.number], a.number) < std::pair(-sums[b.number], b.number);
    });
}
}  // namespace

std::vector<Counted> countable(const TraceDocument& document) {
    std::vector<Counted> found;
    const auto add = [&found](Counted counted, bool has) {
        if (has) {
            found.push_back(counted);
        }
    };
    add(Counted::measured_tasks, document.measured != nullptr);
    add(Counted::simulated_tasks, document.simulated != nullptr);
    add(Counted::kernels, document.kernels != nullptr);
    add(Counted::threads, document.tracks && hasRows(*document.tracks, Counted::threads));
    add(Counted::streams, document.tracks && hasRows(*document.tracks, Counted::streams));
    return found;
}

AreaStatistics areaStatistics(const TraceDocument& document, Counted counted, const TimeRange& range,
                              const std::function<bool()>& cancelled) {
    Area area(document, counted);
    AreaSumming summing(range);
    for (std::uint32_t place = 0; place < area.size(); ++place) {
        if (!area.forEach(place, range, cancelled, [&](const AreaItem& item) { summing.add(item); })) {
            return {};
        }
    }
    const AreaSums sums = summing.sums();
    AreaStatistics statistics;
    for (const NameInArea& sum : sums.names) {
        if (counted == Counted::kernels || !area.isKernel(sum.name)) {
            statistics.rows.push_back(rowOf(area, sum, range.length()));
        }
    }
    if (!statistics.rows.empty() && !statistics.rows.front().kind) {
        sortBySum(statistics.rows);
    }
    for (const CallInArea& call : sums.calls) {
        CallRow row;
        row.name = call.outer ? area.nameOf(call.name) : area.placeName(call.name);
        row.kind = call.outer ? area.kindOf(call.name) : std::nullopt;
        row.outer = call.outer;
        row.count = call.count;
        row.inside = call.inside;
        row.self = call.self;
        row.share = range.length() > 0 ? static_cast<double>(call.inside) / static_cast<double>(range.length()) : 0;
        row.longest = area.item(call.longest);
        if (call.outer) {
            statistics.calls[*call.outer].inner.push_back(statistics.calls.size());
        }
        statistics.calls.push_back(std::move(row));
    }
    for (CallRow& row : statistics.calls) {
        std::ranges::stable_sort(row.inner, std::greater<>(),
                                 [&](std::size_t inner) { return statistics.calls[inner].inside; });
    }
    return statistics;
}

std::vector<TimeRange> itemsOf(const TraceDocument& document, Counted counted, std::uint32_t name,
                               std::optional<std::uint32_t> place, const std::function<bool()>& cancelled) {
    Area area(document, counted);
    std::vector<TimeRange> items;
    for (std::uint32_t each = place.value_or(0); each < (place ? *place + 1 : area.size()); ++each) {
        if (!area.forEachOf(name, each, cancelled, [&](const TimeRange& range) { items.push_back(range); })) {
            return {};
        }
    }
    return items;
}

std::vector<LengthBin> lengthsOf(const std::vector<TimeRange>& items, const TimeRange& range) {
    std::vector<MeasuredLength> lengths;
    lengths.reserve(items.size());
    for (const TimeRange& item : items) {
        lengths.push_back({item.length(), item.start < range.end && item.end > range.start});
    }
    return length_bins(lengths);
}

QString queryOf(const StatisticsRow& row, Counted counted, const LengthBin& lengths) {
    QString text = QLatin1Char('"') + row.name + QLatin1Char('"');
    if (counted == Counted::measured_tasks || counted == Counted::simulated_tasks) {
        text = QString::fromUtf8(to_string(keyKindOf(*row.kind)).data());
        text += row.place ? QStringLiteral(" lane %1").arg(*row.place) : QString();
    }
    return text + QLatin1Char(' ') + lengthQuery(lengths.from, lengths.to);
}
}  // namespace pipescope
