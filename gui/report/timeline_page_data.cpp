#include "base/error.h"
#include "gui/document/headlines.h"
#include "gui/document/link_tiers.h"
#include "gui/document/step_history.h"
#include "gui/report/page_tables.h"
#include "gui/report/timeline_page.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_marks.h"

#include <nlohmann/json.hpp>

#include <QBrush>
#include <QImage>
#include <QLocale>
#include <QPainter>
#include <QPalette>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Json = nlohmann::json;

std::string utf8(const QString& text) {
    return text.toStdString();
}

std::string hex(const QColor& color) {
    return utf8(color.name(QColor::HexRgb));
}

// ---- Styles

Json tileJson(const PatternTile& tile) {
    return Json(std::vector<int>(tile.begin(), tile.end()));
}

/// The viewer's colours for one theme, whatever the application's own is.
TimelineColors themeColors(bool dark) {
    QPalette palette;
    palette.setColor(QPalette::Window, QColor::fromRgb(dark ? 0x2B2E31 : 0xEFEFEF));
    palette.setColor(QPalette::Base, dark ? QColor::fromRgb(0x1B1D1F) : Qt::white);
    palette.setColor(QPalette::Text, dark ? QColor::fromRgb(0xE8E8E8) : Qt::black);
    return timelineColors(palette);
}

Json colorsJson(const TimelineColors& colors) {
    return {{"paper", hex(colors.paper)},
            {"lane", hex(colors.lane)},
            {"bubble", hex(colors.bubble)},
            {"bubbleDot", hex(colors.bubbleDot)},
            {"border", hex(colors.border)},
            {"grid", hex(colors.grid)},
            {"text", hex(colors.text)},
            {"faintText", hex(colors.faintText)},
            {"selection", hex(colors.selection)},
            {"limit", hex(colors.limit)},
            {"critical", hex(colors.critical)},
            {"slow", hex(QColor::fromRgb(okabe_ito::kVermillion))},
            {"area", hex(QColor::fromRgb(okabe_ito::kSky))},
            {"areaPeak", hex(QColor::fromRgb(okabe_ito::kBlue))}};
}

/// `drawn`: some task of the kind has a bar or a tick.
Json kindJson(TaskKind kind, bool drawn) {
    const KindStyle& style = styleOf(kind);
    return {{"name", utf8(style.name)},
            {"letter", utf8(style.letter)},
            {"color", hex(style.color)},
            {"ink", hex(inkOn(style.color))},
            {"text", hex(textOn(style.color))},
            {"tile", tileJson(tileOf(style.pattern))},
            {"copies", is_copy(kind)},
            {"drawn", drawn},
            {"ticks", !is_copy(kind) && kind != TaskKind::loss},
            {"hops", kind == TaskKind::copy_forward || kind == TaskKind::copy_backward}};
}

/// Of a simulated pipeline on a cluster: the tiers of its links.
LinkTiers linkTiersOf(const TraceDocument& document) {
    return document.simulation && document.simulated && !document.baseline ? linkTiers(document.simulation->options)
                                                                           : LinkTiers{};
}

Json tiersJson(const LinkTiers& tiers) {
    Json all = Json::array();
    for (const LinkTiers::Tier& tier : tiers.tiers) {
        all.push_back({{"name", utf8(tier.name)}, {"about", utf8(tier.about)}, {"color", hex(tierColor(tier.color))}});
    }
    return all;
}

Json causesJson(const TimelineColors& light, const TimelineColors& dark) {
    Json causes = Json::array();
    for (int i = 0; i < kNumBubbleCauses; ++i) {
        const auto cause = static_cast<BubbleCause>(i);
        const QBrush brush = brushOf(cause, light);
        causes.push_back({{"name", utf8(nameOf(cause))},
                          {"light", hex(brush.color())},
                          {"dark", hex(brushOf(cause, dark).color())},
                          {"tile", tileJson(tileOf(brush.style()))},
                          {"work", is_work(cause)}});
    }
    return causes;
}

Json latenessJson(const std::vector<TaskPair>& pairs, std::int64_t scale, bool twoRuns, const TimelineColors& light,
                  const TimelineColors& dark) {
    Json all = Json::array();
    const std::bitset<kNumLateness> occurs = latenessIn(pairs, scale);
    for (int i = 0; i < kNumLateness; ++i) {
        const auto lateness = static_cast<Lateness>(i);
        const LatenessStyle style = styleOf(lateness, light);
        const QColor onDark = styleOf(lateness, dark).color;
        const bool isUsed = occurs.test(static_cast<std::size_t>(i));
        all.push_back({{"name", isUsed ? utf8(describe(lateness, scale, twoRuns)) : std::string()},
                       {"about", utf8(explainLateness(twoRuns))},
                       {"light", hex(style.color)},
                       {"dark", hex(onDark)},
                       {"lightInk", hex(inkOn(style.color))},
                       {"darkInk", hex(inkOn(onDark))},
                       {"tile", tileJson(tileOf(style.pattern))}});
    }
    return all;
}

Json tableJson(const PageTable& table) {
    const auto texts = [](const QStringList& from) {
        Json to = Json::array();
        for (const QString& each : from) {
            to.push_back(utf8(each));
        }
        return to;
    };
    Json rows = Json::array();
    for (const QStringList& row : table.rows) {
        rows.push_back(texts(row));
    }
    return {{"title", utf8(table.title)}, {"header", texts(table.header)}, {"rows", rows}, {"note", utf8(table.note)}};
}

// ---- Tasks

std::string shortened(const std::string& name) {
    constexpr qsizetype kMostLetters = 120;  // kernels of templates have thousands
    const QString text = QString::fromStdString(name);
    return text.size() <= kMostLetters ? name : utf8(text.left(kMostLetters) + QChar(0x2026));
}

/// The names of tasks without their step, each once, in order of appearance.
class TaskNames {
public:
    std::size_t indexOf(TaskKey key) {
        key.step = -1;
        const auto [place, isNew] = index_.try_emplace(pack(key), keys_.size());
        if (isNew) {
            keys_.push_back(key);
            texts_.push_back(utf8(taskName(key)));
        }
        return place->second;
    }
    /// The index of a kernel's name. `key` is the task that launched it.
    std::size_t indexOfKernel(TaskKey key, const std::string& name) {
        key.step = -1;
        const auto [place, isNew] = kernels_.try_emplace({pack(key), name}, keys_.size());
        if (isNew) {
            keys_.push_back(key);
            texts_.push_back(shortened(name));
            brief_.resize(keys_.size());
            brief_.back() = shortened(std::string(lastPartOf(name)));
        }
        return place->second;
    }

    std::size_t size() const { return keys_.size(); }
    /// Forgets the names from this index on.
    void dropFrom(std::size_t first) {
        const auto isDropped = [first](const auto& each) { return each.second >= first; };
        std::erase_if(index_, isDropped);
        std::erase_if(kernels_, isDropped);
        keys_.resize(first);
        texts_.resize(first);
        brief_.resize(std::min(brief_.size(), first));
    }

    /// Columns of equal length. `kind` is an index into `kinds`. A text is written once: where it is again, there is
    /// the number of the name that has it.
    Json json(const std::vector<TaskKind>& kinds) const {
        std::vector<std::ptrdiff_t> kind;
        std::vector<std::int32_t> partition;
        std::vector<std::int32_t> microBatch;
        for (const TaskKey& key : keys_) {
            kind.push_back(std::find(kinds.begin(), kinds.end(), key.kind) - kinds.begin());
            partition.push_back(key.partition);
            microBatch.push_back(key.micro_batch);
        }
        return {{"kind", kind},
                {"partition", partition},
                {"microBatch", microBatch},
                {"name", eachOnce(texts_)},
                {"brief", eachOnce(brief_)}};
    }

    std::vector<TaskKind> kinds() const {
        std::vector<TaskKind> kinds;
        for (const TaskKey& key : keys_) {
            kinds.push_back(key.kind);
        }
        std::sort(kinds.begin(), kinds.end());
        kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
        std::ranges::stable_sort(kinds, {}, keyKindOf);  // both halves of a backward side by side
        return kinds;
    }

private:
    static Json eachOnce(const std::vector<std::string>& texts) {
        std::unordered_map<std::string_view, std::size_t> first;
        Json column = Json::array();
        for (const std::string& text : texts) {
            const auto [place, isNew] = first.try_emplace(text, column.size());
            column.push_back(isNew || text.empty() ? Json(text) : Json(place->second));
        }
        return column;
    }

    std::unordered_map<std::uint64_t, std::size_t> index_;
    std::map<std::pair<std::uint64_t, std::string>, std::size_t> kernels_;
    std::vector<TaskKey> keys_;
    std::vector<std::string> texts_;  // as many
    std::vector<std::string> brief_;  // of kernels; empty: the text
};

constexpr TimeRange kAllTimes{std::numeric_limits<std::int64_t>::min() / 4,
                              std::numeric_limits<std::int64_t>::max() / 4};

/// A timeline's tasks, and which of them the page holds. A task's number counts those on the page, row by row.
class PageTasks {
public:
    PageTasks(const TimelineStore& store, std::int64_t shift) : store_(store), shift_(shift) {
        for (const StoredRow& row : store.rows()) {
            onPage_.emplace_back(row.start.size(), std::uint8_t{0});
        }
    }

    const TimelineStore& store() const { return store_; }
    std::int64_t shift() const { return shift_; }

    /// Adds the tasks that overlap the range on the axis. Returns how many.
    std::size_t addVisible(const TimeRange& range) {
        std::size_t count = 0;
        for (std::size_t row = 0; row < onPage_.size(); ++row) {
            const ItemSpan visible = store_.rows()[row].touching({range.start - shift_, range.end - shift_});
            std::fill_n(onPage_[row].begin() + static_cast<std::ptrdiff_t>(visible.first), visible.size(), 1);
            count += visible.size();
        }
        return count;
    }
    void add(SliceRef slice) { onPage_[slice.row][slice.index] = 1; }
    bool isOnPage(SliceRef slice) const { return onPage_[slice.row][slice.index] != 0; }

    TaskKey keyOf(SliceRef slice) const {
        return unpack(store_.rows()[slice.row].key[slice.index]).value_or(TaskKey{});
    }

    template <class Visit>
    void visit(Visit&& of) const {
        for (std::uint32_t row = 0; row < onPage_.size(); ++row) {
            for (std::uint32_t i = 0; i < onPage_[row].size(); ++i) {
                if (onPage_[row][i] != 0) {
                    of(SliceRef{row, i});
                }
            }
        }
    }

    /// Numbers the tasks; none may be added afterwards.
    void number() {
        std::size_t next = 0;
        for (const std::vector<std::uint8_t>& row : onPage_) {
            firstOfRow_.push_back(numbers_.size());
            for (const std::uint8_t each : row) {
                numbers_.push_back(each != 0 ? static_cast<std::int64_t>(next++) : -1);
            }
        }
    }
    /// -1: not on the page.
    std::int64_t numberOf(SliceRef slice) const { return numbers_[firstOfRow_[slice.row] + slice.index]; }

private:
    const TimelineStore& store_;
    std::int64_t shift_;
    std::vector<std::vector<std::uint8_t>> onPage_;  // by row and index
    std::vector<std::size_t> firstOfRow_;
    std::vector<std::int64_t> numbers_;
};

/// Finds tasks by key without its step, like TimelineStore::find(), in constant time. Holds the tasks of one step; the
/// first run of a repeated task counts.
class TwinIndex {
public:
    TwinIndex(const TimelineStore& store, std::int32_t step) {
        for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
            const StoredRow& stored = store.rows()[row];
            for (std::uint32_t i = 0; i < stored.key.size(); ++i) {
                const TaskKey key = unpack(stored.key[i]).value_or(TaskKey{});
                if (!store.isOf(key, step)) {
                    continue;
                }
                const auto [place, isNew] = slices_.try_emplace(withoutStep(key), Found{{row, i}, key.step == step});
                if (!isNew && !place->second.exact && key.step == step) {
                    place->second = {{row, i}, true};
                }
            }
        }
    }

    std::optional<SliceRef> find(const TaskKey& key) const {
        const auto found = slices_.find(withoutStep(key));
        return found == slices_.end() ? std::nullopt : std::optional(found->second.slice);
    }

private:
    struct Found {
        SliceRef slice;
        bool exact = false;  ///< its key names the step itself
    };
    static std::uint64_t withoutStep(TaskKey key) {
        key.step = 0;
        return pack(key);
    }
    std::unordered_map<std::uint64_t, Found> slices_;
};

/// Both timelines of a page and how their tasks belong together.
struct PageTimelines {
    std::optional<PageTasks> measured;
    std::optional<PageTasks> simulated;
    std::optional<TwinIndex> measuredByKey;   // of the compared step
    std::optional<TwinIndex> simulatedByKey;  // of the simulated one

    const PageTasks* tasks(Source source) const {
        const std::optional<PageTasks>& found = source == Source::measured ? measured : simulated;
        return found ? &*found : nullptr;
    }
    std::optional<SliceRef> twinOf(Source source, SliceRef slice) const {
        const std::optional<TwinIndex>& others = source == Source::measured ? simulatedByKey : measuredByKey;
        return others && measured && simulated ? others->find(tasks(source)->keyOf(slice)) : std::nullopt;
    }
};

/// `wholeSimulation`: with all simulated tasks, so that their numbers are the same for every step. Empty if `count`,
/// the number of visible tasks, is above kMostPageTasks.
std::optional<PageTimelines> findTasks(const PageScene& scene, bool wholeSimulation, std::size_t& count) {
    const TraceDocument& document = *scene.document;
    PageTimelines found;
    count = 0;
    if (document.measured) {
        found.measured.emplace(*document.measured, 0);
        count += found.measured->addVisible(scene.range);
    }
    if (document.simulated) {
        found.simulated.emplace(*document.simulated, scene.simulatedShift);
        count += found.simulated->addVisible(wholeSimulation ? kAllTimes : scene.range);
    }
    if (count > kMostPageTasks) {
        return std::nullopt;
    }
    if (found.measured && found.simulated && !document.simulated->steps().empty() && document.whyNoTwins.empty()) {
        found.measuredByKey.emplace(*document.measured, scene.step);
        found.simulatedByKey.emplace(*document.simulated, document.simulated->steps().front().step);
        // A simulated twin outside the range has a measured twin itself, of the compared step.
        for (const Source source : {Source::measured, Source::simulated}) {
            PageTasks& others = source == Source::measured ? *found.simulated : *found.measured;
            found.tasks(source)->visit([&](SliceRef slice) {
                if (const std::optional<SliceRef> twin = found.twinOf(source, slice)) {
                    others.add(*twin);
                }
            });
        }
    }
    for (std::optional<PageTasks>* each : {&found.measured, &found.simulated}) {
        if (*each) {
            (*each)->number();
        }
    }
    return found;
}

/// Throws Error if there are more than kMostPageTasks.
PageTimelines selectTasks(const PageScene& scene, bool wholeSimulation) {
    std::size_t count = 0;
    if (std::optional<PageTimelines> found = findTasks(scene, wholeSimulation, count)) {
        return *std::move(found);
    }
    const auto text = [](std::size_t number) {
        return QLocale(QLocale::English).toString(static_cast<qulonglong>(number)).toStdString();
    };
    throw Error("the visible range holds " + text(count) + " tasks, but a page holds at most " + text(kMostPageTasks) +
                ", which a browser draws smoothly; zoom in, or choose fewer with --range FROM:TO or --step K");
}

/// Tasks in columns of equal length, row after row. A start is relative to the end of the previous task of its row, the
/// first one of a row to the origin.
struct TaskColumns {
    std::vector<std::int64_t> start;
    std::vector<std::int64_t> length;
    std::vector<std::size_t> name;
    std::vector<std::int32_t> step;
    std::vector<std::int64_t> bytes;
    std::vector<std::int64_t> twin;
    bool anyBytes = false;
};

Json rowsOf(const PageTasks& tasks, Source source, const PageScene& scene, const PageTimelines& all, TaskNames& names,
            TaskColumns& columns) {
    const std::vector<StoredRow>& rows = tasks.store().rows();
    std::vector<std::size_t> counts(rows.size(), 0);
    std::int64_t before = 0;
    std::uint32_t row = 0;
    const PageTasks* others = all.tasks(otherThan(source));
    tasks.visit([&](SliceRef slice) {
        const StoredRow& stored = rows[slice.row];
        const TaskKey key = tasks.keyOf(slice);
        if (slice.row != row || counts[row] == 0) {
            row = slice.row;
            before = 0;
        }
        const std::int64_t shift = tasks.shift() - scene.origin;
        columns.start.push_back(stored.start[slice.index] + shift - before);
        columns.length.push_back(stored.end[slice.index] - stored.start[slice.index]);
        columns.name.push_back(names.indexOf(tasks.store().shownKey(slice)));
        columns.step.push_back(key.step);
        columns.bytes.push_back(stored.bytes.empty() ? 0 : stored.bytes[slice.index]);
        columns.anyBytes = columns.anyBytes || columns.bytes.back() != 0;
        const std::optional<SliceRef> twin = all.twinOf(source, slice);
        columns.twin.push_back(twin ? others->numberOf(*twin) : -1);
        before = stored.end[slice.index] + shift;
        ++counts[row];
    });
    Json result = Json::array();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        result.push_back({{"lane", rows[i].lane.value()}, {"copies", rows[i].copies}, {"tasks", counts[i]}});
    }
    return result;
}

/// The items of some rows that a page holds. If more overlap its range, the longest are taken.
class PageItems {
public:
    template <class Rows>
    PageItems(const Rows& rows, const TimeRange& range, std::size_t most) : rows_(rows.size()) {
        std::vector<std::int64_t> lengths;
        for (std::size_t row = 0; row < rows.size(); ++row) {
            rows_[row] = {&rows[row], rows[row].touching(range)};
            for (const std::size_t i : rows_[row].second.indices()) {
                lengths.push_back(rows[row].range(i).length());
            }
        }
        count_ = lengths.size();
        if (count_ > most) {  // leaves out all items of a length rather than exceed the limit
            const auto place = lengths.begin() + static_cast<std::ptrdiff_t>(count_ - most);
            std::nth_element(lengths.begin(), place, lengths.end());
            least_ = *place + 1;
        }
    }

    std::size_t count() const { return count_; }
    /// Shorter items are left out; 0: none is.
    std::int64_t least() const { return least_; }
    template <class Take>
    void visitTaken(std::size_t row, const Take& take) const {
        for (const std::size_t i : rows_[row].second.indices()) {
            if (rows_[row].first->range(i).length() >= least_) {
                take(i);
            }
        }
    }

private:
    std::vector<std::pair<const ItemRow*, ItemSpan>> rows_;  // with what overlaps the page's range
    std::size_t count_ = 0;
    std::int64_t least_ = 0;
};

/// The ranges or kernels that a page leaves out.
struct LeftOut {
    std::size_t count = 0;
    std::int64_t least = 0;  ///< shorter ones are left out
};

QString leftOutText(const LeftOut& left, const QString& one, const QString& many) {
    return translated("%1 of less than %2 are not on this page, which is kept small. Choose a shorter range for them.")
        .arg(formatCount(left.count, one, many), formatDuration(left.least));
}

/// Adds the kernels in the scene's range, at most `most`: rows below their lanes, whose tasks have the kind of the
/// launching task.
LeftOut addKernels(const PageScene& scene, std::size_t most, TaskNames& names, TaskColumns& columns, Json& rows) {
    const KernelStore& kernels = *scene.document->kernels;
    const TimelineStore& store = kernels.slices();
    const PageItems items(store.rows(), scene.range, most);
    LeftOut left{items.count(), items.least()};
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& stored = store.rows()[row];
        std::size_t count = 0;
        std::int64_t before = scene.origin;
        items.visitTaken(row, [&](std::size_t i) {
            const Kernel kernel = kernels.kernel({row, static_cast<std::uint32_t>(i)});
            TaskKey key = kernel.task;
            key.kind = static_cast<TaskKind>(stored.kind[i]);
            columns.start.push_back(kernel.start - before);
            columns.length.push_back(kernel.end - kernel.start);
            columns.name.push_back(names.indexOfKernel(key, kernel.name));
            columns.step.push_back(key.step);
            columns.bytes.push_back(0);
            columns.twin.push_back(-1);
            before = kernel.end;
            ++count;
        });
        if (count > 0) {
            rows.push_back({{"lane", stored.lane.value()}, {"copies", false}, {"kernels", true}, {"tasks", count}});
        }
        left.count -= count;
    }
    return left;
}

Json bubblesJson(const PageScene& scene, const PageTasks& tasks, Source source) {
    Json columns{{"lane", Json::array()},  {"start", Json::array()},   {"length", Json::array()},
                 {"cause", Json::array()}, {"culprit", Json::array()}, {"next", Json::array()},
                 {"root", Json::array()}};
    if (scene.analysis == nullptr || scene.analysis->tasks(source) == nullptr) {
        return columns;
    }
    for (const Bubble& bubble : scene.analysis->bubbles(source)) {
        const std::int64_t start = bubble.start + tasks.shift();
        if (bubble.end + tasks.shift() < scene.range.start || start > scene.range.end || is_work(bubble.cause)) {
            continue;
        }
        columns["lane"].push_back(bubble.lane.value());
        columns["start"].push_back(start - scene.origin);
        columns["length"].push_back(bubble.length());
        columns["cause"].push_back(static_cast<int>(bubble.cause));
        const auto numberOf = [&](StepTaskIndex task) {
            return task == kNoTask ? -1 : tasks.numberOf(scene.analysis->tasks(source)->task(task).slice);
        };
        columns["culprit"].push_back(numberOf(scene.analysis->culpritOf(source, bubble)));
        columns["next"].push_back(numberOf(bubble.next));
        const std::optional<RootCause> root = scene.analysis->rootOf(source, bubble);
        columns["root"].push_back(root ? static_cast<int>(*root) : -1);
    }
    return columns;
}

/// The task numbers of the critical path, in order.
Json criticalJson(const PageScene& scene, const PageTasks& tasks, Source source) {
    Json path = Json::array();
    if (scene.analysis != nullptr && scene.analysis->tasks(source) != nullptr) {
        for (const StepTaskIndex each : scene.analysis->critical(source).tasks) {
            const std::int64_t number = tasks.numberOf(scene.analysis->tasks(source)->task(each).slice);
            if (number >= 0) {
                path.push_back(number);
            }
        }
    }
    return path;
}

/// Arrows from one task or range to another. `to` has gaps between numbers that ascend; `from` is relative to `to`.
class PageArrows {
public:
    void add(std::int64_t from, std::int64_t to) { arrows_.emplace_back(to, from); }
    Json json() {
        std::sort(arrows_.begin(), arrows_.end());
        std::vector<std::int64_t> gaps;
        std::vector<std::int64_t> from;
        std::int64_t before = 0;
        for (const auto& [to, source] : arrows_) {
            gaps.push_back(to - before);
            from.push_back(to - source);
            before = to;
        }
        return {{"to", gaps}, {"from", from}};
    }

private:
    std::vector<std::pair<std::int64_t, std::int64_t>> arrows_;
};

/// From what a task of the step waits for to the task, if both are on the page.
Json arrowsJson(const PageScene& scene, const PageTasks& tasks, Source source) {
    PageArrows arrows;
    const StepGraph* graph = scene.analysis != nullptr ? scene.analysis->tasks(source) : nullptr;
    for (StepTaskIndex to = 0; graph != nullptr && to < graph->tasks().size(); ++to) {
        const std::int64_t number = tasks.numberOf(graph->task(to).slice);
        for (const StepTaskIndex from : number >= 0 ? graph->dependencies(to) : std::vector<StepTaskIndex>()) {
            if (const std::int64_t before = tasks.numberOf(graph->task(from).slice); before >= 0) {
                arrows.add(before, number);
            }
        }
    }
    return arrows.json();
}

/// By task number: the lateness of measured tasks of the compared step with a twin, else -1.
Json lateJson(const std::vector<TaskPair>& pairs, const PageTasks& tasks, std::size_t count, std::int64_t scale) {
    std::vector<int> late(count, -1);
    for (const TaskPair& pair : pairs) {
        const std::int64_t number = tasks.numberOf(pair.measured);
        if (number >= 0) {
            late[static_cast<std::size_t>(number)] = static_cast<int>(latenessOf(pair.end_change, scale));
        }
    }
    return Json(late);
}

enum class Kernels { shown, left_out };

/// The header's facts with those of the critical path; empty without one.
QString withPath(const PageScene& scene, Source source, const QString& facts) {
    const QString path = scene.analysis != nullptr ? scene.analysis->criticalPathText(source) : QString();
    return path.isEmpty() ? QString() : withPartAfter(facts, translated("step time"), path);
}

Json timelineJson(const PageScene& scene, const PageTimelines& all, Source source, TaskNames& names, LeftOut& left,
                  Kernels kernels) {
    const PageTasks& tasks = *all.tasks(source);
    const TimelineStore& store = tasks.store();
    TaskColumns columns;
    Json timeline;
    const PageScene::Header& header = source == Source::measured ? scene.measured : scene.simulated;
    timeline["source"] = to_string(source);
    timeline["title"] = utf8(header.title);
    timeline["facts"] = utf8(header.facts);
    if (const QString facts = withPath(scene, source, header.facts); !facts.isEmpty()) {
        timeline["factsWithPath"] = utf8(facts);
    }
    timeline["noTwin"] = utf8(whyNoTwin(*scene.document, source));
    timeline["lanes"] = Json::array();
    for (const LaneInfo& lane : store.lanes()) {
        timeline["lanes"].push_back({{"name", lane.name}, {"device", lane.device}});
        const LaneId id{static_cast<std::int64_t>(timeline["lanes"].size()) - 1};
        for (const std::int32_t partition : store.partitionsOf(id)) {
            if (const std::optional<double> place = store.placeOf(id, partition)) {
                timeline["lanes"].back()["places"].push_back({partition, *place});
            }
        }
    }
    timeline["rows"] = rowsOf(tasks, source, scene, all, names, columns);
    if (source == Source::measured && scene.document->kernels && kernels == Kernels::shown) {
        left = addKernels(scene, kMostPageKernels, names, columns, timeline["rows"]);
    }
    if (store.overlaps()) {
        timeline["only"] = source == Source::measured ? scene.step : store.steps().front().step;
    }
    const std::int64_t shift = tasks.shift() - scene.origin;
    timeline["steps"] = Json::array();
    for (const StepSpan& span : store.steps()) {
        const bool wanted = std::find(columns.step.begin(), columns.step.end(), span.step) != columns.step.end();
        const bool visible = span.range().end + tasks.shift() >= scene.range.start &&
                             span.range().start + tasks.shift() <= scene.range.end;
        if (wanted || visible) {
            timeline["steps"].push_back({span.step, span.range().start + shift, span.range().end + shift});
        }
    }
    timeline["start"] = columns.start;
    timeline["length"] = columns.length;
    timeline["name"] = columns.name;
    timeline["twin"] = columns.twin;
    const bool oneStep =
        std::adjacent_find(columns.step.begin(), columns.step.end(), std::not_equal_to<>()) == columns.step.end();
    timeline["step"] = oneStep && !columns.step.empty() ? Json(columns.step.front()) : Json(columns.step);
    if (columns.anyBytes) {
        timeline["bytes"] = columns.bytes;
    }
    if (const std::optional<Nanoseconds> bound = scene.document->lowerBound();
        bound && source == Source::simulated && !scene.document->baseline) {
        const StepSpan* own = store.overlaps() ? &store.steps().front() : nullptr;
        const std::int64_t start = own != nullptr ? own->range().start : store.range().start;
        timeline["bound"] = {start + bound->count() + shift, bound->count()};
    }
    timeline["bubbles"] = bubblesJson(scene, tasks, source);
    timeline["critical"] = criticalJson(scene, tasks, source);
    timeline["arrows"] = arrowsJson(scene, tasks, source);
    return timeline;
}

// ---- Memory

/// The highest values of equal parts of the range.
std::vector<MemoryPoint> thinnedPoints(const MemoryTrack& track, const TimeRange& range) {
    const TimeWindow window = windowOf(range);
    const std::vector<MemoryColumn> parts = track.columns(window, kMostPageSamples);
    std::vector<MemoryPoint> points;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].known) {
            points.push_back(
                {timeAt(window, kMostPageSamples, static_cast<double>(i)), parts[i].allocated, parts[i].peak});
        }
    }
    return points;
}

/// By category that occurs: the samples at which its bytes change, as gaps between their numbers, and the changes.
Json heldJson(const MemoryTrack& track, const std::vector<MemoryPoint>& points) {
    std::vector<MemoryBreakdown> held;
    for (const MemoryPoint& point : points) {
        held.push_back(track.compositionAt(point.time));
    }
    Json all = Json::array();
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        std::vector<std::size_t> gaps;
        std::vector<Bytes> changes;
        std::size_t place = 0;
        Bytes bytes = 0;
        for (std::size_t i = 0; i < held.size(); ++i) {
            const Bytes now = held[i].known() ? std::max<Bytes>(0, held[i][static_cast<MemoryCategory>(k)]) : 0;
            if (now != bytes) {
                gaps.push_back(i - place);
                changes.push_back(now - bytes);
                place = i;
                bytes = now;
            }
        }
        if (!gaps.empty()) {
            all.push_back({{"category", k}, {"at", gaps}, {"change", changes}});
        }
    }
    return all;
}

Json categoriesJson() {
    Json all = Json::array();
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const MemoryStyle style = styleOf(static_cast<MemoryCategory>(k));
        all.push_back({{"name", utf8(nameOf(static_cast<MemoryCategory>(k)))},
                       {"color", hex(style.color)},
                       {"ink", hex(style.over.color())},
                       {"tile", tileJson(tileOf(style.over.style()))}});
    }
    return all;
}

/// The parts that long memory curves lack on a page.
struct Thinned {
    bool any = false;
    bool composition = false;
};

Json curveJson(const MemoryTrack& track, const PageScene& scene, std::int64_t shift, Thinned& thinned) {
    const TimeRange range{scene.range.start - shift, scene.range.end - shift};
    std::vector<MemoryPoint> points = track.pointsIn(range);
    bool isThinned = false;
    if (points.size() > static_cast<std::size_t>(kMostPageSamples)) {
        points = thinnedPoints(track, range);
        thinned.any = true;
        thinned.composition = thinned.composition || track.composed();
        isThinned = true;
    }
    std::vector<std::int64_t> time;
    std::vector<Bytes> allocated;
    std::vector<Bytes> peak;
    std::int64_t before = scene.origin - shift;
    for (const MemoryPoint& point : points) {
        time.push_back(point.time - before);
        allocated.push_back(point.allocated);
        peak.push_back(point.peak);
        before = point.time;
    }
    Json parts = Json::array();
    const MemoryBreakdown composition = track.compositionAt(track.highestTime());
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        if (composition[category] > 0) {
            parts.push_back({utf8(nameOf(category)), composition[category]});
        }
    }
    Json curve{
        {"time", time}, {"allocated", allocated}, {"peak", peak}, {"highest", track.highest()}, {"parts", parts}};
    if (track.composed() && !isThinned) {
        curve["held"] = heldJson(track, points);
    }
    return curve;
}

bool hasMemory(const TraceDocument& document, std::size_t lane) {
    return lane < document.measuredMemory->size() && !(*document.measuredMemory)[lane].empty();
}

/// The measured curves in the scene's range, by lane; null for a lane without.
Json measuredMemoryJson(const PageScene& scene, Thinned& thinned) {
    Json lanes = Json::array();
    for (std::size_t lane = 0; lane < scene.document->measuredMemory->size(); ++lane) {
        lanes.push_back(hasMemory(*scene.document, lane)
                            ? curveJson((*scene.document->measuredMemory)[lane], scene, 0, thinned)
                            : Json());
    }
    return lanes;
}

Json memoryJson(const PageScene& scene, Thinned& thinned) {
    const TraceDocument& document = *scene.document;
    const TimelineStore* names = storeOfMostLanes(document);
    Json lanes = Json::array();
    for (std::size_t lane = 0; names != nullptr && lane < names->lanes().size(); ++lane) {
        Json each{{"name", names->lanes()[lane].name}};
        if (hasMemory(document, lane)) {
            each["measured"] = curveJson((*document.measuredMemory)[lane], scene, 0, thinned);
        }
        if (lane < document.simulatedMemory.size() && !document.simulatedMemory[lane].empty()) {
            each["simulated"] = curveJson(document.simulatedMemory[lane], scene, scene.simulatedShift, thinned);
            if (document.simulation && lane < document.simulation->lanes.size()) {  // it may lie before the drawn step
                Json& highest = each["simulated"]["highest"];
                highest = std::max(highest.get<Bytes>(), document.simulation->lanes[lane].peak_bytes);
            }
        }
        if (lane < document.memoryLimits.size()) {
            each["limit"] = document.memoryLimits[lane];
        }
        lanes.push_back(std::move(each));
    }
    return lanes;
}

// ---- The steps of the run

/// A bar for each step, or for several of a long run: then the slowest one, and the time of the fastest. A bar's number
/// is that of the shown step if it is one of them.
Json stepsJson(const TraceDocument& document, const StepHistory& history, std::int32_t shown) {
    constexpr std::size_t kMostBars = 500;
    if ((!document.measured && !hasOnlyTracks(document)) || history.steps.size() < 2) {
        return nullptr;
    }
    const std::size_t ofBar = (history.steps.size() + kMostBars - 1) / kMostBars;
    Json bars = Json::array();
    for (std::size_t first = 0; first < history.steps.size(); first += ofBar) {
        const auto begin = history.steps.begin() + static_cast<std::ptrdiff_t>(first);
        const auto end = begin + static_cast<std::ptrdiff_t>(std::min(ofBar, history.steps.size() - first));
        const auto [fastest, slowest] =
            std::minmax_element(begin, end, [](const StepEntry& a, const StepEntry& b) { return a.time < b.time; });
        const StepEntry& step = *slowest;
        const bool hasShown = std::any_of(begin, end, [shown](const StepEntry& each) { return each.step == shown; });
        bars.push_back({{"step", hasShown ? shown : step.step},
                        {"time", step.time.count()},
                        {"least", fastest->time.count()},
                        {"counts", !step.warmup && !step.cutOff && !step.faulty},
                        {"slow", step.slow},
                        {"text", utf8(history.describe(static_cast<std::size_t>(slowest - history.steps.begin())))}});
        if (step.bubble) {
            bars.back()["bubble"] = std::round(*step.bubble * 1e4) / 1e4;
        }
        const auto index = static_cast<std::size_t>(begin - history.steps.begin());
        const StepEntry& ofLoss = history.lossStepOf(index, index + static_cast<std::size_t>(end - begin));
        if (ofLoss.lossIsNoNumber()) {
            bars.back()["noLoss"] = true;
        } else if (ofLoss.loss) {
            bars.back()["loss"] = *ofLoss.loss;
            bars.back()["spike"] = ofLoss.spike;
        }
    }
    Json steps{{"bars", bars}, {"median", history.medianTime.count()}};
    if (history.leastLoss <= history.mostLoss) {
        steps["losses"] = {history.leastLoss, history.mostLoss};
    }
    return steps;
}

// ---- The page

/// The part of the scene's range in which something is, without the margins at its ends.
TimeRange filledRange(const PageScene& scene, const TimeRange& content) {
    const TimeRange both{std::max(scene.range.start, content.start), std::min(scene.range.end, content.end)};
    return both.length() > 0 ? both : scene.range;
}

QString scopeText(const PageScene& scene, const PageTimelines& all) {
    QStringList parts;
    std::optional<TimeRange> content;
    for (const Source source : {Source::measured, Source::simulated}) {
        if (const PageTasks* tasks = all.tasks(source)) {
            std::int64_t count = 0;
            tasks->visit([&](SliceRef) { ++count; });
            const TimeRange own = tasks->store().range();
            const TimeRange range{own.start + tasks->shift(), own.end + tasks->shift()};
            content =
                content ? TimeRange{std::min(content->start, range.start), std::max(content->end, range.end)} : range;
            const bool isMeasured = source == Source::measured;
            parts << (scene.document->baseline ? formatCount(count, translated("task"), translated("tasks")) +
                                                     QLatin1Char(' ') + nameOf(*scene.document, source)
                      : isMeasured ? formatCount(count, translated("measured task"), translated("measured tasks"))
                                   : formatCount(count, translated("simulated task"), translated("simulated tasks")));
        }
    }
    const auto time = [&](std::int64_t at) {
        return formatDuration(at - scene.origin).replace(QLatin1Char('-'), QChar(0x2212));
    };
    const TimeRange filled = filledRange(scene, content.value_or(scene.range));
    return translated("This page holds %1, from %2 to %3 since the start of step %4.")
        .arg(parts.join(translated(" and ")), time(filled.start), time(filled.end))
        .arg(scene.step);
}

/// Texts that a reader must know before trusting the page, and what the window shows but the page does not.
Json notesJson(const PageScene& scene, const Thinned& thinned, const LeftOut& kernels, const QStringList& more) {
    const TraceDocument& document = *scene.document;
    QStringList notes = document.messages();
    if (!scene.noteTrouble.isEmpty()) {
        notes.prepend(scene.noteTrouble);
    }
    if (!document.complete || document.loaded < 1) {
        notes << translated("The trace was still being read when this page was written.");
    }
    if (kernels.count > 0) {
        notes << leftOutText(kernels, translated("kernel"), translated("kernels"));
    }
    notes << more;
    if (thinned.any) {
        notes << translated("Memory curves are thinned to the highest values of %1 parts.").arg(kMostPageSamples);
    }
    if (thinned.composition) {
        notes << translated(
            "The composition of thinned memory curves over time is not on this page. Choose a shorter "
            "range for it.");
    }
    Json lines = Json::array();
    for (const QString& note : notes) {
        lines.push_back(utf8(note));
    }
    return lines;
}

const char* nameOf(Theme theme) {
    return theme == Theme::dark ? "dark" : theme == Theme::light ? "light" : "system";
}

// ---- Threads and counters of a file without tasks

/// One timeline whose lanes are threads and whose tasks are ranges.
Json threadsJson(const PageScene& scene, const PageItems& ranges, PageTable& table) {
    const TrackStore& store = *scene.document->tracks;
    Json rows = Json::array();
    Json lanes = Json::array();
    std::vector<std::int64_t> start;
    std::vector<std::int64_t> length;
    std::vector<std::size_t> name;
    std::unordered_map<std::uint32_t, std::size_t> numbers;
    std::vector<std::string> texts;
    std::vector<std::string> brief;  // empty: the text
    std::vector<int> kinds;
    std::map<SliceRef, std::int64_t> held;
    const std::vector<std::uint8_t> colors = rangeColorsOf(store.texts);
    const std::vector<bool> marks = stepMarks(store);
    const auto whole = static_cast<double>(scene.range.length());
    for (const TrackRows& thread : threadsOf(store)) {
        std::size_t ofThread = 0;
        for (std::size_t r = thread.first; r < thread.end; ++r) {
            const TrackRow& row = store.rows[r];
            std::size_t tasks = 0;
            std::int64_t before = scene.origin;
            ranges.visitTaken(r, [&](std::size_t i) {
                const auto [number, isNew] = numbers.try_emplace(row.text[i], texts.size());
                if (isNew) {
                    const std::string& text = store.texts.at(row.text[i]);
                    texts.push_back(shortened(text));
                    const std::string_view last = lastPartOf(text);
                    brief.push_back(last == text ? std::string() : shortened(std::string(last)));
                    kinds.push_back(colors.at(row.text[i]));
                }
                held.emplace_hint(held.end(), SliceRef{static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(i)},
                                  std::ssize(start));
                start.push_back(row.start[i] - before);
                length.push_back(row.end[i] - row.start[i]);
                name.push_back(number->second);
                before = row.end[i];
                ++tasks;
            });
            rows.push_back({{"lane", lanes.size()}, {"copies", false}, {"tasks", tasks}});
            ofThread += tasks;
        }
        const TrackRow& first = store.rows[thread.first];
        const std::optional<std::int64_t> busy = workIn(store, thread, scene.range, marks);
        lanes.push_back({{"name", first.name}, {"device", first.group}});
        table.rows.push_back({QString::fromStdString(first.name), QString::fromStdString(first.group),
                              QLocale().toString(static_cast<qlonglong>(ofThread)),
                              busy ? formatDuration(*busy) : QString(),
                              busy ? formatShare(static_cast<double>(*busy) / whole) : QString()});
    }
    PageArrows arrows;
    for (const auto& [from, number] : held) {
        for (const SliceRef& to : store.arrowsFrom(from, kMostRangeArrows)) {
            if (const auto found = held.find(to); found != held.end()) {
                arrows.add(number, found->second);
            }
        }
    }
    const Json none = Json::array();
    return {{"source", "threads"},
            {"names", {{"name", texts}, {"brief", brief}, {"kind", kinds}}},
            {"title", utf8(translated("THREADS AND STREAMS"))},
            {"facts", ""},
            {"noTwin", ""},
            {"lanes", lanes},
            {"rows", rows},
            {"steps", none},
            {"start", start},
            {"length", length},
            {"name", name},
            {"step", scene.step},
            {"bubbles",
             {{"lane", none}, {"start", none}, {"length", none}, {"cause", none}, {"culprit", none}, {"next", none}}},
            {"critical", none},
            {"arrows", arrows.json()}};
}

/// Curves of the counters, by pixel columns, since a page may be zoomed only so far.
Json countersJson(const PageScene& scene, std::size_t& omitted) {
    constexpr std::size_t kMostCounters = 100;
    constexpr int kMostPoints = 20'000;  // of all counters together
    const std::vector<CounterRow>& counters = scene.document->tracks->counters;
    const std::size_t taken = std::min(counters.size(), kMostCounters);
    omitted = counters.size() - taken;
    Json list = Json::array();
    for (std::size_t k = 0; k < taken; ++k) {
        const CounterRow& counter = counters[k];
        const int columns = std::min(2000, kMostPoints / static_cast<int>(taken));
        const TimeWindow window = windowOf(scene.range);
        const std::vector<CounterColumn> values = counter.columns(window, columns);
        std::vector<std::int64_t> time;
        std::vector<double> low;
        std::vector<double> high;
        for (int x = 0; x < columns; ++x) {
            const CounterColumn& column = values[static_cast<std::size_t>(x)];
            const bool changes =
                column.known && (high.empty() || column.low != low.back() || column.high != high.back());
            if (changes) {
                time.push_back(timeAt(window, columns, x) - scene.origin);
                low.push_back(column.low);
                high.push_back(column.high);
            }
        }
        list.push_back({{"name", counter.name()},
                        {"group", counter.group()},
                        {"time", time},
                        {"low", low},
                        {"high", high},
                        {"bytes", counter.isBytes()},
                        {"lowest", counter.lowest()},
                        {"highest", counter.highest()}});
    }
    return list;
}

Json pageHead(const PageScene& scene);

Json rangeColorsJson() {
    Json colors = Json::array();
    for (const QRgb color : kRangeColors) {
        colors.push_back(hex(QColor::fromRgb(color)));
    }
    return colors;
}

/// Threads, streams and counters of a page with tasks.
void addThreads(const PageScene& scene, Json& data, QStringList& notes) {
    const PageItems ranges(scene.document->tracks->rows, scene.range, kMostPageRangesBesideTasks);
    PageTable unused;
    Json timeline = threadsJson(scene, ranges, unused);
    if (const std::size_t held = timeline["start"].size(); held < ranges.count()) {
        notes << leftOutText({ranges.count() - held, ranges.least()}, translated("range"), translated("ranges"));
    }
    if (!timeline["start"].empty()) {
        data["timelines"].push_back(std::move(timeline));
        data["rangeColors"] = rangeColorsJson();
    }
    std::size_t omitted = 0;
    if (Json counters = countersJson(scene, omitted); !counters.empty()) {
        data["counters"] = std::move(counters);
    }
    if (omitted > 0) {
        notes << translated("%1 not on this page.")
                     .arg(formatCount(omitted, translated("counter is"), translated("counters are")));
    }
}

Json threadsPage(const PageScene& scene) {
    const TraceDocument& document = *scene.document;
    const PageItems ranges(document.tracks->rows, scene.range, kMostPageRanges);
    PageTable table{translated("Threads and streams"),
                    {translated("Thread or stream"), translated("Process or device"), translated("Ranges"),
                     translated("Busy"), translated("Share")},
                    {},
                    {}};
    Json timeline = threadsJson(scene, ranges, table);
    const std::size_t held = timeline["start"].size();
    std::size_t omitted = 0;
    Json counters = countersJson(scene, omitted);
    Json data = pageHead(scene);
    data["threads"] = true;
    data["kinds"] = Json::array();
    data["rangeColors"] = rangeColorsJson();
    data["timelines"] = Json::array();
    if (!timeline["rows"].empty()) {
        data["timelines"].push_back(std::move(timeline));
    }
    if (!counters.empty()) {
        data["counters"] = std::move(counters);
    }
    if (Json steps = stepsJson(document, stepHistory(document), scene.step); !steps.is_null()) {
        data["steps"] = std::move(steps);
    }
    data["summary"] = "";
    const TimeRange filled = filledRange(scene, document.tracks->range());
    data["scope"] =
        utf8(translated("This page holds %1 of %2, from %3 to %4.")
                 .arg(formatCount(held, translated("range"), translated("ranges")),
                      formatCount(table.rows.size(), translated("thread or stream"), translated("threads and streams")),
                      formatDuration(filled.start - scene.origin), formatDuration(filled.end - scene.origin)));
    data["figures"] = tableJson({translated("Ranges"), {}, {}, {}});
    data["lanes"] = tableJson(table);
    Json notes = Json::array();  // without the reason why nothing is compared
    if (!scene.noteTrouble.isEmpty()) {
        notes.push_back(utf8(scene.noteTrouble));
    }
    for (const TraceWarning& warning : document.warnings) {
        notes.push_back(warning.text);
    }
    if (held < ranges.count()) {
        notes.push_back(
            utf8(leftOutText({ranges.count() - held, ranges.least()}, translated("range"), translated("ranges"))));
    }
    if (omitted > 0) {
        notes.push_back(utf8(translated("%1 not on this page.")
                                 .arg(formatCount(omitted, translated("counter is"), translated("counters are")))));
    }
    data["notes"] = std::move(notes);
    return data;
}

/// The notes on ranges that are in view.
Json rangeNotesJson(const PageScene& scene) {
    Json notes = Json::array();
    for (const TimeMark& mark : scene.marks) {
        if (mark.length > 0 && mark.range().start < scene.range.end && mark.range().end > scene.range.start) {
            notes.push_back(
                Json::array({mark.range().start - scene.origin, mark.range().end - scene.origin, utf8(mark.note)}));
        }
    }
    return notes;
}

/// Parts of the answer, each with its role, and with what it rests on if the page shows that.
Json answerJson(const std::vector<VerdictPart>& parts) {
    Json answer = Json::array();
    for (const VerdictPart& part : parts) {
        Json& each = answer.emplace_back(Json{{"text", part.text}, {"role", to_string(part.role)}});
        if (part.evidence != Evidence::none) {
            each["evidence"] = to_string(part.evidence);
        }
        if (part.cause) {
            each["cause"] = utf8(nameOf(*part.cause));
        }
        if (part.lane) {
            each["lane"] = part.lane->value();
        }
    }
    return answer;
}

/// The data that pages of both kinds have.
Json pageHead(const PageScene& scene) {
    const TimelineColors light = themeColors(false);
    const TimelineColors dark = themeColors(true);
    Json data;
    data["format"] = 1;
    const QLocale language;
    data["language"] = language.language() == QLocale::C ? "en" : utf8(language.bcp47Name());
    data["grouping"] = !(language.numberOptions() & QLocale::OmitGroupSeparator);
    data["title"] = utf8(pageTitle(*scene.document));
    if (!scene.answer.empty()) {
        data["answer"] = answerJson(scene.answer);
    }
    data["theme"] = nameOf(scene.theme);
    data["mode"] = utf8(nameOf(scene.choice.mode));
    data["causes"] = scene.choice.causes;
    data["criticalPath"] = scene.choice.criticalPath;
    data["range"] = {scene.range.start - scene.origin, scene.range.end - scene.origin};
    data["rangeNotes"] = rangeNotesJson(scene);
    data["step"] = scene.step;
    data["twoRuns"] = scene.document->baseline != nullptr;
    data["colors"] = {{"light", colorsJson(light)}, {"dark", colorsJson(dark)}};
    data["bubbleCauses"] = causesJson(light, dark);
    data["rootCauses"] = Json::array();
    for (int i = 0; i < kNumRootCauses; ++i) {
        data["rootCauses"].push_back(describe(static_cast<RootCause>(i)));
    }
    data["tables"] = Json::array();
    if (scene.advice && !scene.advice->moves.empty()) {
        data["tables"].push_back(tableJson(adviceTable(*scene.advice)));
    }
    for (const PageTable& table : runTables(*scene.document)) {
        data["tables"].push_back(tableJson(table));
    }
    return data;
}

// ---- Other steps

/// The measured steps besides the shown one: slow ones first, then the others, from all parts of the run.
std::vector<std::int32_t> otherSteps(const TraceDocument& document, const StepHistory& history, std::int32_t shown) {
    std::vector<StepEntry> slow;
    std::vector<std::int32_t> others;
    for (const StepEntry& each : history.steps) {
        if (each.step != shown && document.measured->step(each.step) != nullptr) {
            if (each.slow) {
                slow.push_back(each);
            } else {
                others.push_back(each.step);
            }
        }
    }
    std::ranges::stable_sort(slow, std::ranges::greater(), &StepEntry::time);
    std::vector<std::int32_t> steps;
    std::ranges::transform(slow, std::back_inserter(steps), &StepEntry::step);
    for (std::size_t stride = std::bit_floor(std::max<std::size_t>(1, others.size())); stride > 0; stride /= 2) {
        const bool isFirst = stride == std::bit_floor(std::max<std::size_t>(1, others.size()));
        for (std::size_t i = isFirst ? 0 : stride; i < others.size(); i += isFirst ? stride : 2 * stride) {
            steps.push_back(others[i]);
        }
    }
    return steps;
}

/// The scene with another step in view, without an analysis of it.
PageScene sceneOf(const PageScene& shown, std::int32_t step) {
    PageScene scene = shown;
    scene.analysis = nullptr;
    scene.selection = std::nullopt;
    scene.step = step;
    scene.origin = shown.document->measured->step(step)->range().start;
    scene.range = stepRange(*shown.document, step);
    return scene;
}

/// What the page shows instead of the scene's step, for another step. Times are since that step's start. The simulated
/// timeline stays, `by` later. Empty if the step has too many tasks for a page.
std::optional<Json> otherStepJson(const PageScene& shown, std::int32_t step, TaskNames& names) {
    const TraceDocument& document = *shown.document;
    PageScene scene = sceneOf(shown, step);
    scene.analysis = std::make_shared<const StepAnalysis>(shown.document, step);
    const StepAnalysis& analysis = *scene.analysis;
    scene.simulatedShift = document.simulated ? analysis.shift(scene.choice.alignment, std::nullopt) : 0;
    scene.measured.facts = measuredHeadline(document, step);
    scene.simulated.facts = simulatedHeadline(document, step);
    std::size_t count = 0;
    const std::optional<PageTimelines> found = findTasks(scene, true, count);
    if (!found) {
        return std::nullopt;
    }
    const PageTimelines& all = *found;
    LeftOut ofOtherSteps;
    Json measured = timelineJson(scene, all, Source::measured, names, ofOtherSteps, Kernels::left_out);
    for (const char* same : {"source", "title", "lanes", "noTwin"}) {
        measured.erase(same);
    }
    Json other{{"step", step},
               {"range", {scene.range.start - scene.origin, scene.range.end - scene.origin}},
               {"rangeNotes", rangeNotesJson(scene)},
               {"scope", utf8(scopeText(scene, all))},
               {"figures", tableJson(figuresTable(document, step))},
               {"lanes", tableJson(lanesTable(document, step))}};
    if (!analysis.matching().pairs.empty()) {
        const std::vector<TaskPair> pairs = analysis.pairsAt(scene.simulatedShift);
        const std::int64_t scale = differenceScaleOf(pairs, onTimeWithin(document, step));
        other["lateness"] =
            latenessJson(pairs, scale, document.baseline != nullptr, themeColors(false), themeColors(true));
        measured["late"] = lateJson(pairs, *all.measured, measured["start"].size(), scale);
    }
    other["measured"] = std::move(measured);
    if (all.simulated) {
        std::vector<std::int64_t> twins;
        all.simulated->visit([&](SliceRef slice) {
            const std::optional<SliceRef> twin = all.twinOf(Source::simulated, slice);
            twins.push_back(twin ? all.measured->numberOf(*twin) : -1);
        });
        other["simulated"] = {{"twin", twins},
                              {"facts", utf8(scene.simulated.facts)},
                              {"by", scene.simulatedShift - scene.origin - (shown.simulatedShift - shown.origin)}};
        other["simulated"]["factsWithPath"] = utf8(withPath(scene, Source::simulated, scene.simulated.facts));
    }
    return other;
}

/// Adds the longest kernels of another step behind its tasks, as timelineJson() does.
LeftOut addKernelsOfStep(const PageScene& scene, std::size_t most, TaskNames& names, Json& measured) {
    TaskColumns columns;
    const LeftOut left = addKernels(scene, most, names, columns, measured["rows"]);
    const std::size_t tasks = measured["start"].size();
    const auto append = [&measured](const char* column, const auto& values) {
        for (const auto& value : values) {
            measured[column].push_back(value);
        }
    };
    if (!measured["step"].is_array() &&
        std::ranges::any_of(columns.step, [&](std::int32_t step) { return measured["step"] != step; })) {
        measured["step"] = std::vector<Json>(tasks, measured["step"]);
    }
    if (measured["step"].is_array()) {
        append("step", columns.step);
    }
    append("start", columns.start);
    append("length", columns.length);
    append("name", columns.name);
    append("twin", columns.twin);
    if (measured.contains("bytes")) {
        append("bytes", columns.bytes);
    }
    if (measured.contains("late")) {
        append("late", columns.twin);  // -1, too
    }
    return left;
}

constexpr int kMostMisses = 8;            // steps that were tried and do not fit; others are likely to be as large
constexpr std::size_t kKernelBytes = 32;  // of a kernel on a page, with its share of names

/// As many other steps as fit into `most` bytes, by number, then the memory of as many of them, then the longest
/// kernels of each. Says in `notes` what does not fit.
Json otherStepsJson(const PageScene& scene, const StepHistory& history, std::size_t most, TaskNames& names,
                    Thinned& thinned, QStringList& notes) {
    const bool hasKernels = scene.document->kernels != nullptr;
    const std::size_t room = hasKernels ? most / 4 * 3 : most;  // kernels have the rest
    std::map<std::int32_t, Json> held;
    std::size_t bytes = 0;
    const std::vector<std::int32_t> steps = otherSteps(*scene.document, history, scene.step);
    int misses = 0;
    for (auto step = steps.begin(); step != steps.end() && misses < kMostMisses; ++step) {
        const std::size_t known = names.size();
        std::optional<Json> other = otherStepJson(scene, *step, names);
        const std::size_t length = other ? other->dump().size() : 0;
        if (!other || bytes + length > room) {
            names.dropFrom(known);
            ++misses;
            continue;
        }
        bytes += length;
        held.emplace(*step, *std::move(other));
    }
    if (held.size() < steps.size()) {
        notes << translated("%1 not on this page, which is kept small. Choose one with --step for a page of its own.")
                     .arg(formatCount(steps.size() - held.size(), translated("other step is"),
                                      translated("other steps are")));
    }
    misses = 0;
    for (auto step = steps.begin(); scene.memory && step != steps.end() && misses < kMostMisses; ++step) {
        if (const auto other = held.find(*step); other != held.end()) {
            Json memory = measuredMemoryJson(sceneOf(scene, *step), thinned);
            const std::size_t length = memory.dump().size();
            if (bytes + length > room) {
                ++misses;
                continue;
            }
            bytes += length;
            other->second["memory"] = std::move(memory);
        }
    }
    std::size_t kernels = 0;
    for (auto& [step, other] : held) {
        if (hasKernels) {
            const std::size_t fit = (most - bytes) / held.size() / kKernelBytes;
            kernels +=
                addKernelsOfStep(sceneOf(scene, step), std::min(fit, kMostPageKernels), names, other["measured"]).count;
        }
    }
    if (kernels > 0) {
        notes << translated("%1 not on this page, which is kept small. Choose one with --step for a page of its own.")
                     .arg(formatCount(kernels, translated("short kernel of other steps is"),
                                      translated("short kernels of other steps are")));
    }
    Json all = Json::array();
    for (auto& [step, other] : held) {
        all.push_back(std::move(other));
    }
    return all;
}

QByteArray packed(const Json& data) {
    const QByteArray text = QByteArray::fromStdString(data.dump(-1, ' ', true, Json::error_handler_t::replace));
    return QByteArray(text).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
}
}  // namespace

QByteArray timelinePageData(const PageScene& scene) {
    const TraceDocument& document = *scene.document;
    if (hasOnlyTracks(document) && !document.tracks) {
        throw Error("'" + utf8(document.path) + "' has neither tasks nor threads, so there is no timeline for a page");
    }
    if (hasOnlyTracks(document)) {
        return packed(threadsPage(scene));
    }
    const PageTimelines all = selectTasks(scene, scene.allSteps);
    const TimelineColors light = themeColors(false);
    const TimelineColors dark = themeColors(true);
    TaskNames names;
    LeftOut kernels;
    Json data = pageHead(scene);
    data["summary"] = utf8(comparisonHeadline(document));
    data["scope"] = utf8(scopeText(scene, all));
    data["figures"] = tableJson(figuresTable(document, scene.step));
    data["lanes"] = tableJson(lanesTable(document, scene.step));
    data["timelines"] = Json::array();
    for (const Source source : {Source::measured, Source::simulated}) {
        if (all.tasks(source) != nullptr) {
            data["timelines"].push_back(timelineJson(scene, all, source, names, kernels, Kernels::shown));
        }
    }
    data["nothingIsLate"] = !whyNothingIsLate(document).isEmpty();
    if (scene.analysis != nullptr && !scene.analysis->matching().pairs.empty()) {
        const std::vector<TaskPair> pairs = scene.analysis->pairsAt(scene.simulatedShift);
        const std::int64_t scale = differenceScaleOf(pairs, onTimeWithin(document, scene.step));
        data["lateness"] = latenessJson(pairs, scale, document.baseline != nullptr, light, dark);
        Json& measured = data["timelines"][0];
        measured["late"] = lateJson(pairs, *all.measured, measured["start"].size(), scale);
    }
    if (const QString partitions = partitionLegend(document); !partitions.isEmpty()) {
        data["partitionLegend"] = utf8(partitions);
        data["darkestShade"] = kDarkestShade;
    }
    if (const LinkTiers tiers = linkTiersOf(document); !tiers.empty()) {
        data["tiers"] = tiersJson(tiers);
        data["timelines"].back()["tiers"] = tiers.ofPartition;  // threads follow below
    }
    const StepHistory history = stepHistory(document);
    Thinned thinned;
    if (scene.memory) {
        data["memory"] = memoryJson(scene, thinned);
        data["memoryCategories"] = categoriesJson();
        data["composition"] = scene.memoryStacked;
    }
    if (Json steps = stepsJson(document, history, scene.step); !steps.is_null()) {
        data["steps"] = std::move(steps);
    }
    QStringList ofOthers;
    if (document.tracks) {
        addThreads(scene, data, ofOthers);
    }
    if (scene.allSteps && document.measured) {
        const std::size_t held = data.dump().size() + names.json(names.kinds()).dump().size();
        const std::size_t most = std::min(kMostStepBytes, kMostPageBytes - std::min(kMostPageBytes, held));
        if (Json others = otherStepsJson(scene, history, most, names, thinned, ofOthers); !others.empty()) {
            data["others"] = std::move(others);
        }
    }
    const std::vector<TaskKind> kinds = names.kinds();
    data["names"] = names.json(kinds);
    data["kinds"] = Json::array();
    KindSet drawn;
    for (const Source source : {Source::measured, Source::simulated}) {
        for (const StoredRow& row : all.tasks(source) != nullptr ? std::span(all.tasks(source)->store().rows())
                                                                 : std::span<const StoredRow>()) {
            drawn |= row.drawn;
        }
    }
    for (const TaskKind kind : kinds) {
        data["kinds"].push_back(kindJson(kind, contains(drawn, kind)));
    }
    data["notes"] = notesJson(scene, thinned, kernels, ofOthers);
    if (scene.selection && all.tasks(scene.selection->source) != nullptr) {
        const std::int64_t number = all.tasks(scene.selection->source)->numberOf(scene.selection->slice);
        if (number >= 0) {
            data["selected"] = {to_string(scene.selection->source), number};
        }
    }
    return packed(data);
}
}  // namespace pipescope
