#include "gui/timeline/track_view.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/timeline/bar_labels.h"

#include <QFontMetrics>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

namespace pipescope {
namespace {
constexpr int kTrackGap = 5;
constexpr double kLeastBorder = 4;
constexpr std::int64_t kReachPixels = 3;
constexpr double kFaintestRun = 0.3;  // of ranges that fill little of their pixels
constexpr double kFar = 1e5;          // pixels; painters draw no farther

QColor blended(const QColor& ground, const QColor& color, double share) {
    const auto part = [share](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
    return {part(ground.red(), color.red()), part(ground.green(), color.green()), part(ground.blue(), color.blue())};
}
}  // namespace

TrackView::TrackView(TimeAxisModel& axis, QWidget* parent) : AxisView(axis, parent) {
    setAccessibleName(tr("Threads and streams"));
    setAccessibleDescription(tr("Ranges, calls, kernels and counters of each thread and stream over time."));
}

void TrackView::setStore(std::shared_ptr<const TrackStore> store) {
    store_ = std::move(store);
    colorOfText_ = store_ ? rangeColorsOf(store_->texts) : std::vector<std::uint8_t>();
    relayout();
    updateGeometry();
}

void TrackView::setRulerShown(bool shown) {
    rulerShown_ = shown;
    relayout();
}

int TrackView::gutterForNames() const {
    std::vector<LaneInfo> names;
    if (store_) {
        for (const TrackRow& row : store_->rows) {
            if (row.depth == 0) {
                names.push_back({row.name, {}});
            }
        }
        for (std::size_t k = 0; k < store_->counters.size(); ++k) {
            names.push_back({store_->counters[k].name(), {}});
            names.push_back({extentText(k).toStdString(), {}});
        }
    }
    return gutterFor(names);
}

QSize TrackView::sizeHint() const {
    const int height = bands_.empty() ? 0 : bands_.back().top + bands_.back().height + kTrackGap;
    return {800, topMargin() + std::clamp(height, 2 * rowHeight(), 8 * rowHeight())};
}

void TrackView::relayout() {
    bands_.clear();
    if (!store_) {
        setContentHeight(0);
        return;
    }
    struct Group {
        std::string name;
        std::vector<std::size_t> rows;
        std::vector<std::size_t> counters;
    };
    std::vector<Group> groups;  // a trace may have as many as rows
    std::unordered_map<std::string, std::size_t> places;
    const auto groupOf = [&](const std::string& name) -> Group& {
        const auto [place, isNew] = places.emplace(name, groups.size());
        if (isNew) {
            groups.push_back({name, {}, {}});
        }
        return groups[place->second];
    };
    for (std::size_t row = 0; row < store_->rows.size(); ++row) {
        groupOf(store_->rows[row].group).rows.push_back(row);
    }
    for (std::size_t counter = 0; counter < store_->counters.size(); ++counter) {
        groupOf(store_->counters[counter].group()).counters.push_back(counter);
    }
    int y = kTrackGap;
    const auto add = [&](Band::Kind kind, std::size_t index, int height, const std::string& group) {
        bands_.push_back({kind, index, y, height, group});
        y += height;
    };
    for (const Group& group : groups) {
        if (groups.size() > 1 && !group.name.empty()) {
            add(Band::Kind::group, 0, rowHeight() + 2, group.name);
        }
        if (!collapsed_.contains(group.name)) {
            for (const std::size_t row : group.rows) {
                const bool follows = row != group.rows.front();
                y += follows && store_->rows[row].depth == 0 ? kTrackGap : 0;
                add(Band::Kind::row, row, rowHeight(), group.name);
            }
            for (const std::size_t counter : group.counters) {
                y += kTrackGap;
                add(Band::Kind::counter, counter, counterHeight(), group.name);
            }
        }
        y += kTrackGap;
    }
    setContentHeight(y);
}

const TrackView::Band* TrackView::bandOf(Band::Kind kind, std::size_t index) const {
    const auto found = std::find_if(bands_.begin(), bands_.end(),
                                    [&](const Band& band) { return band.kind == kind && band.index == index; });
    return found != bands_.end() ? &*found : nullptr;
}

QRect TrackView::rectOf(const Band& band) const {
    const QRect lanes = lanesRect();
    return {lanes.left(), lanes.top() + band.top - verticalScrollBar()->value(), lanes.width(), band.height - 1};
}

QRect TrackView::rowRect(std::size_t row) const {
    const Band* band = bandOf(Band::Kind::row, row);
    return band != nullptr ? rectOf(*band) : QRect();
}

QRect TrackView::counterRect(std::size_t counter) const {
    const Band* band = bandOf(Band::Kind::counter, counter);
    return band != nullptr ? rectOf(*band) : QRect();
}

QRect TrackView::groupRect(const std::string& group) const {
    const auto found = std::find_if(bands_.begin(), bands_.end(), [&](const Band& band) {
        return band.kind == Band::Kind::group && band.group == group;
    });
    return found != bands_.end() ? rectOf(*found) : QRect();
}

const TrackView::Band* TrackView::bandAt(const QPoint& position) const {
    const QRect lanes = lanesRect();
    if (position.y() < lanes.top() || position.y() > lanes.bottom()) {
        return nullptr;
    }
    const auto found = std::find_if(bands_.begin(), bands_.end(), [&](const Band& band) {
        const QRect box = rectOf(band);
        return position.y() >= box.top() && position.y() <= box.bottom();
    });
    return found != bands_.end() ? &*found : nullptr;
}

void TrackView::toggleGroup(const std::string& group) {
    if (!collapsed_.erase(group)) {
        collapsed_.insert(group);
    }
    relayout();
}

std::optional<TrackRef> TrackView::selected() const {
    const std::optional<PartSelection>& part = axis().part();
    const bool is = part && part->kind == PartSelection::Kind::range && store_ && store_->has(part->range);
    return is ? std::optional(part->range) : std::nullopt;
}

QString TrackView::extentText(std::size_t counter) const {
    const CounterRow& row = store_->counters.at(counter);
    const QString lowest = valueText(counter, row.lowest());
    return row.lowest() == row.highest() ? lowest : tr("%1 to %2").arg(lowest, valueText(counter, row.highest()));
}

QString TrackView::onlyGroup() const {
    const std::string* only = nullptr;
    const auto differs = [&](const std::string& group) { return only != nullptr && *only != group; };
    for (std::size_t k = 0; store_ && k < store_->rows.size(); ++k) {
        if (differs(store_->rows[k].group)) {
            return {};
        }
        only = &store_->rows[k].group;
    }
    for (std::size_t k = 0; store_ && k < store_->counters.size(); ++k) {
        if (differs(store_->counters[k].group())) {
            return {};
        }
        only = &store_->counters[k].group();
    }
    return only != nullptr ? QString::fromStdString(*only) : QString();
}

QString TrackView::valueText(std::size_t counter, double value) const {
    if (std::abs(value) >= 9e15) {
        return QLocale().toString(value, 'g', 3);
    }
    if (store_->counters.at(counter).isBytes()) {
        return formatBytes(std::llround(value));
    }
    const bool isWhole = value == std::round(value) || std::abs(value) >= 1000;
    return isWhole ? QLocale().toString(std::llround(value)) : QLocale().toString(value, 'g', 4);
}

void TrackView::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    painter.setFont(font());
    painter.fillRect(viewport()->rect(), colors().paper);
    const QRect lanes = lanesRect();
    painter.fillRect(QRect(0, lanes.top(), lanes.left(), lanes.height()), palette().color(QPalette::Window));
    for (const Band& band : bands_) {
        if (!rectOf(band).intersects(lanes)) {
            continue;
        }
        if (band.kind == Band::Kind::row) {
            paintRow(painter, band);
        } else if (band.kind == Band::Kind::counter) {
            paintCounter(painter, band);
        }
        paintName(painter, band);
    }
    paintSelected(painter);
    if (rulerShown_) {
        paintRuler(painter);
    }
    paintRange(painter, rulerShown_);
    paintCursor(painter);
    if (rulerShown_) {
        paintCursorTime(painter);
    }
}

void TrackView::paintRow(QPainter& painter, const Band& band) const {
    const QRect box = rectOf(band);
    const TrackRow& track = store_->rows[band.index];
    painter.save();
    painter.setClipRect(box.intersected(lanesRect()), Qt::IntersectClip);
    painter.fillRect(box, colors().lane);
    const QFontMetricsF metrics(painter.font());
    std::vector<std::pair<int, QColor>> ticks;
    for (const TrackRun& run : visibleRuns(track, axis().window(), box.width())) {
        const double left = std::max(-2.0, run.left);
        const double right = std::min(box.width() + 2.0, run.right);
        const QRectF bar(box.left() + left, box.top(), std::max(1.0, right - left), box.height());
        const QColor color = run.folded ? blended(colors().lane, colors().faintText, std::max(kFaintestRun, run.share))
                                        : QColor::fromRgb(kRangeColors.at(colorOfText_.at(track.text[run.index])));
        painter.fillRect(bar, color);
        if (!run.folded && track.start[run.index] == track.end[run.index]) {
            ticks.emplace_back(box.left() + static_cast<int>(std::floor(run.left)), color);
        }
        if (bar.width() < kLeastBorder || run.folded) {
            continue;
        }
        painter.setPen(QPen(colors().border, 0));
        painter.drawLine(bar.topLeft(), bar.bottomLeft() - QPointF(0, 1));
        if (bar.width() > 3 * metrics.averageCharWidth()) {
            painter.setPen(textOn(color));
            painter.drawText(bar.adjusted(3, 0, -2, 0), Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
                             rangeNameIn(metrics, store_->texts.at(track.text[run.index]), bar.width() - 5));
        }
    }
    for (const auto& [x, color] : ticks) {  // of ranges without duration, as in lanes, over what begins there
        painter.fillRect(x - 1, box.top(), 3, box.height(), colors().border);
        painter.fillRect(x, box.top(), 1, box.height(), color);
    }
    painter.restore();
}

void TrackView::paintCounter(QPainter& painter, const Band& band) const {
    const QRect box = rectOf(band);
    const CounterRow& counter = store_->counters[band.index];
    const double least = std::min(0.0, counter.lowest());
    const double most = std::max(0.0, counter.highest());
    const double scale = most > least ? (box.height() - 2) / (most - least) : 0;
    const auto y = [&](double value) { return box.bottom() - (value - least) * scale; };
    painter.save();
    painter.setClipRect(box.intersected(lanesRect()), Qt::IntersectClip);
    painter.fillRect(box, colors().lane);
    QColor area = QColor::fromRgb(okabe_ito::kBlue);
    area.setAlpha(70);
    const QColor line = QColor::fromRgb(isDark(palette()) ? okabe_ito::kSky : okabe_ito::kBlue);
    const std::vector<CounterColumn> columns = counter.columns(axis().window(), box.width());
    for (std::size_t x = 0; x < columns.size(); ++x) {
        const CounterColumn& column = columns[x];
        if (!column.known) {
            continue;
        }
        const double left = box.left() + static_cast<double>(x);
        const double far = std::abs(column.high) >= std::abs(column.low) ? column.high : column.low;
        painter.fillRect(QRectF(QPointF(left, y(0)), QPointF(left + 1, y(far))).normalized(), area);
        painter.fillRect(QRectF(left, y(column.high), 1, std::max(1.0, y(column.low) - y(column.high))), line);
    }
    painter.restore();
}

void TrackView::paintName(QPainter& painter, const Band& band) const {
    const QRect box(4, rectOf(band).top(), lanesRect().left() - 10, band.height);
    painter.save();
    painter.setClipRect(QRect(0, lanesRect().top(), viewport()->width(), lanesRect().height()), Qt::IntersectClip);
    painter.setPen(colors().text);
    const auto draw = [&](const QRect& place, const QString& text, Qt::TextElideMode mode) {
        painter.drawText(place, Qt::AlignVCenter | Qt::AlignRight | Qt::TextSingleLine,
                         painter.fontMetrics().elidedText(text, mode, place.width()));
    };
    if (band.kind == Band::Kind::group) {
        const QRect line(0, box.top(), viewport()->width(), band.height);
        painter.fillRect(line, palette().color(QPalette::Window));
        QFont bold = font();
        bold.setBold(true);
        painter.setFont(bold);
        const QString text = (isCollapsed(band.group) ? QStringLiteral("▸ ") : QStringLiteral("▾ ")) +
                             QString::fromStdString(band.group);
        painter.drawText(line.adjusted(6, 0, -6, 0), Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
                         painter.fontMetrics().elidedText(text, Qt::ElideRight, line.width() - 12));
    } else if (band.kind == Band::Kind::counter) {
        const CounterRow& counter = store_->counters[band.index];
        const QRect upper(box.left(), box.top(), box.width(), band.height / 2);
        draw(upper, QString::fromStdString(counter.name()), Qt::ElideMiddle);
        const std::optional<double> value = axis().cursor() ? counter.valueAt(*axis().cursor()) : std::nullopt;
        painter.setPen(value ? colors().text : colors().faintText);
        draw(upper.translated(0, band.height / 2), value ? valueText(band.index, *value) : extentText(band.index),
             Qt::ElideRight);
    } else if (store_->rows[band.index].depth == 0) {
        draw(box, QString::fromStdString(store_->rows[band.index].name), Qt::ElideMiddle);
    }
    painter.restore();
}

void TrackView::paintSelected(QPainter& painter) const {
    const std::optional<TrackRef> ref = selected();
    if (!ref) {
        return;
    }
    painter.save();
    painter.setClipRect(lanesRect(), Qt::IntersectClip);
    painter.setRenderHint(QPainter::Antialiasing);
    for (const TrackRef& to : store_->arrowsFrom(*ref, kMostRangeArrows)) {
        paintArrow(painter, *ref, to);
    }
    for (const TrackRef& from : store_->arrowsTo(*ref, kMostRangeArrows)) {
        paintArrow(painter, from, *ref);
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
    const QRect row = rowRect(ref->row);
    if (!row.isEmpty()) {
        const TimeRange range = store_->rangeOf(*ref);
        const double left = std::clamp(pixelAtTime(range.start), -kFar, kFar);
        const double right = std::clamp(pixelAtTime(range.end), -kFar, kFar);
        painter.setBrush(Qt::NoBrush);
        const QRectF frame(left, row.top(), std::max(2.0, right - left), row.height() - 1);
        painter.setPen(QPen(colors().paper, 3));
        painter.drawRect(frame);
        painter.setPen(QPen(colors().selection, 2));
        painter.drawRect(frame);
    }
    painter.restore();
}

void TrackView::paintArrow(QPainter& painter, const TrackRef& from, const TrackRef& to) const {
    const QRect upper = rowRect(from.row);
    const QRect lower = rowRect(to.row);
    if (upper.isEmpty() || lower.isEmpty()) {
        return;  // of a collapsed group
    }
    const TimeRange source = store_->rangeOf(from);
    const std::int64_t arrival = store_->rangeOf(to).start;
    // An arrow leaves at the end, or before if the other range starts earlier, as that of an asynchronous launch does.
    const std::int64_t departure = std::clamp(arrival, source.start, source.end);
    constexpr double kBesideName = 3.5;  // pixels from the edge of a row, so that names stay readable
    const auto edge = [](const QRect& row, bool below) {
        return below ? row.bottom() + 1 - kBesideName : row.top() + kBesideName;
    };
    const bool up = lower.top() < upper.top();
    const QPointF start(std::clamp(pixelAtTime(departure), -kFar, kFar), edge(upper, !up));
    const QPointF end(std::clamp(pixelAtTime(arrival), -kFar, kFar), edge(lower, up || lower.top() == upper.top()));
    const double reach = std::max(20.0, std::abs(end.x() - start.x()) / 2);
    QPainterPath path(start);
    path.cubicTo(start + QPointF(reach, 0), end - QPointF(reach, 0), end);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(colors().paper, 3));
    painter.drawPath(path);
    painter.setPen(QPen(colors().selection, 1.5));
    painter.drawPath(path);
    painter.setPen(Qt::NoPen);
    painter.setBrush(colors().selection);
    painter.drawPolygon(QPolygonF({end, end + QPointF(-7, -4), end + QPointF(-7, 4)}));
}

std::optional<TrackRef> TrackView::rangeAtPixel(const QPoint& position) const {
    const QRect lanes = lanesRect();
    const Band* band = lanes.contains(position) ? bandAt(position) : nullptr;
    if (band == nullptr || band->kind != Band::Kind::row) {
        return std::nullopt;
    }
    const auto reach = static_cast<std::int64_t>(kReachPixels * axis().window().length / lanes.width());
    return rangeAt(*store_, band->index, timeAtPixel(position.x() + 0.5), reach);
}

std::optional<std::size_t> TrackView::counterAtPixel(const QPoint& position) const {
    const Band* band = bandAt(position);
    return band != nullptr && band->kind == Band::Kind::counter ? std::optional(band->index) : std::nullopt;
}

std::int64_t TrackView::placeAt(const QPoint& position) const {
    constexpr double kSnap = 5;
    const std::optional<TrackRef> found = rangeAtPixel(position);
    std::int64_t place = timeAtPixel(position.x());
    if (!found) {
        return place;
    }
    const TimeRange range = store_->rangeOf(*found);
    for (const std::int64_t edge : {range.start, range.end}) {
        if (std::abs(pixelAtTime(edge) - position.x()) <= kSnap) {
            place = edge;
        }
    }
    return place;
}

void TrackView::click(const QPoint& position) {
    const Band* band = bandAt(position);
    if (band != nullptr && band->kind == Band::Kind::group) {
        toggleGroup(std::string(band->group));
    } else if (lanesRect().contains(position)) {
        Q_EMIT picked(rangeAtPixel(position));
    }
}

void TrackView::rightClick(const QPoint& position) {
    const Band* band = bandAt(position);
    if (band == nullptr || band->kind != Band::Kind::group) {  // which a click would collapse
        click(position);
    }
}

void TrackView::moveSelection(int by) {
    if (!store_) {
        return;
    }
    if (const std::optional<TrackRef> ref = selected()) {
        const std::int64_t next = std::int64_t{ref->index} + by;
        if (next >= 0 && next < std::ssize(store_->rows[ref->row].start)) {
            Q_EMIT picked(TrackRef{ref->row, static_cast<std::uint32_t>(next)});
        }
        return;
    }
    for (const Band& band : bands_) {
        if (band.kind != Band::Kind::row) {
            continue;
        }
        const std::vector<std::int64_t>& ends = store_->rows[band.index].end;
        const auto first = std::upper_bound(ends.begin(), ends.end(), axis().window().start);
        if (first != ends.end()) {
            Q_EMIT picked(
                TrackRef{static_cast<std::uint32_t>(band.index), static_cast<std::uint32_t>(first - ends.begin())});
            return;
        }
    }
}

void TrackView::reveal(Band::Kind kind, std::size_t index, const std::string& group) {
    if (collapsed_.erase(group) > 0) {
        relayout();
    }
    const Band* band = bandOf(kind, index);
    if (band == nullptr) {
        return;
    }
    QScrollBar* bar = verticalScrollBar();
    const int lowest = band->top + band->height - lanesRect().height();
    bar->setValue(std::clamp(bar->value(), std::min(lowest, band->top), band->top));
}

void TrackView::revealRow(std::size_t row) {
    if (store_ && row < store_->rows.size()) {
        reveal(Band::Kind::row, row, store_->rows[row].group);
    }
}

void TrackView::revealCounter(std::size_t counter) {
    if (store_ && counter < store_->counters.size()) {
        reveal(Band::Kind::counter, counter, store_->counters[counter].group());
    }
}

QString TrackView::toolTipAt(const QPoint& position) const {
    if (const std::optional<TrackRef> found = rangeAtPixel(position)) {
        const TrackRow& track = store_->rows[found->row];
        const TimeRange range = store_->rangeOf(*found);
        return tr("<b>%1</b><br>%2, %3<br>%4, from %5")
            .arg(QString::fromStdString(store_->textOf(*found)).toHtmlEscaped(),
                 QString::fromStdString(track.name).toHtmlEscaped(),
                 QString::fromStdString(track.group).toHtmlEscaped(), formatDuration(range.length()),
                 formatInstant(range.start - axis().origin(), range.length()));
    }
    const std::optional<std::size_t> index = counterAtPixel(position);
    if (!index) {
        return {};
    }
    const CounterRow& counter = store_->counters[*index];
    QStringList lines{tr("<b>%1</b>").arg(QString::fromStdString(counter.name()).toHtmlEscaped())};
    if (!counter.group().empty()) {
        lines << QString::fromStdString(counter.group()).toHtmlEscaped();
    }
    const std::int64_t time = timeAtPixel(position.x() + 0.5);
    const std::optional<double> value = lanesRect().contains(position) ? counter.valueAt(time) : std::nullopt;
    if (value) {
        lines << tr("%1 at %2").arg(valueText(*index, *value), formatDuration(time - axis().origin()));
    }
    lines << extentText(*index);
    return lines.join(QStringLiteral("<br>"));
}

void TrackView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (const std::optional<TrackRef> found = rangeAtPixel(event->position().toPoint())) {
        const TimeRange range = store_->rangeOf(*found);
        const std::int64_t margin = range.length();
        axis().show({range.start - margin, range.end + margin});
    }
}
}  // namespace pipescope
