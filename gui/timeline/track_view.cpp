#include "gui/timeline/track_view.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/timeline/bar_labels.h"

#include <QFontMetrics>
#include <QLocale>
#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr double kLeastBorder = 4;
constexpr std::int64_t kReadLength = 1'000'000;  // a point is read to the microsecond
constexpr double kFaintestRun = 0.3;             // of ranges that fill little of their pixels
constexpr double kFar = 1e5;                     // pixels; painters draw no farther

QColor blended(const QColor& ground, const QColor& color, double share) {
    const auto part = [share](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
    return {part(ground.red(), color.red()), part(ground.green(), color.green()), part(ground.blue(), color.blue())};
}
}  // namespace

TrackView::TrackView(TimeAxisModel& axis, QWidget* parent) : RowsView(axis, parent) {
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
    return {800, topMargin() + std::clamp(wholeLayout().height, 2 * rowHeight(), 8 * rowHeight())};
}

void TrackView::relayout() {
    setLayout(store_ ? layoutTracks(*store_, rowHeight(), collapsed_) : TimelineLayout{});
}

QRect TrackView::groupRect(const std::string& group) const {
    const std::vector<GroupBand>& groups = visibleLayout().groups;
    const auto found = std::ranges::find(groups, group, &GroupBand::name);
    return found != groups.end() ? rectOf(found->header) : QRect();
}

void TrackView::clickGroup(const std::string& group) {
    if (!collapsed_.erase(group)) {
        collapsed_.insert(group);
    }
    relayout();
}

std::optional<SliceRef> TrackView::selectedItem() const {
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
    std::set<std::string> groups;
    for (const TrackRow& row : store_ ? std::span(store_->rows) : std::span<const TrackRow>()) {
        groups.insert(row.group);
    }
    for (const CounterRow& counter : store_ ? std::span(store_->counters) : std::span<const CounterRow>()) {
        groups.insert(counter.group());
    }
    return groups.size() == 1 ? QString::fromStdString(*groups.begin()) : QString();
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
    const auto isSeen = [&](const Band& band) { return rectOf(band).intersects(lanes); };
    for (const GroupBand& group : visibleLayout().groups) {
        if (isSeen(group.header)) {
            paintGroup(painter, group);
        }
    }
    for (const LaneBand& lane : visibleLayout().lanes) {
        for (const RowBand& row : lane.rows) {
            if (isSeen(row.band)) {
                paintRow(painter, row);
            }
        }
        for (const RowBand& counter : lane.below) {
            if (isSeen(counter.band)) {
                paintCounter(painter, counter);
            }
        }
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

void TrackView::paintRow(QPainter& painter, const RowBand& row) const {
    const QRect box = rectOf(row.band);
    const TrackRow& track = store_->rows[row.row];
    if (track.depth == 0) {
        paintName(painter, box, QString::fromStdString(track.name), Qt::ElideMiddle, colors().text);
    }
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

void TrackView::paintCounter(QPainter& painter, const RowBand& row) const {
    const QRect box = rectOf(row.band);
    const CounterRow& counter = store_->counters[row.row];
    const std::optional<double> now = axis().cursor() ? counter.valueAt(*axis().cursor()) : std::nullopt;
    const QRect upper(box.left(), box.top(), box.width(), (box.height() + 1) / 2 - 1);
    paintName(painter, upper, QString::fromStdString(counter.name()), Qt::ElideMiddle, colors().text);
    paintName(painter, upper.translated(0, upper.height() + 1), now ? valueText(row.row, *now) : extentText(row.row),
              Qt::ElideRight, now ? colors().text : colors().faintText);
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

void TrackView::paintName(QPainter& painter, const QRect& row, const QString& text, Qt::TextElideMode mode,
                          const QColor& color) const {
    const QRect lanes = lanesRect();
    const QRect place(4, row.top(), lanes.left() - 10, row.height() + 1);
    painter.save();
    painter.setClipRect(QRect(0, lanes.top(), viewport()->width(), lanes.height()), Qt::IntersectClip);
    painter.setPen(color);
    painter.drawText(place, Qt::AlignVCenter | Qt::AlignRight | Qt::TextSingleLine,
                     painter.fontMetrics().elidedText(text, mode, place.width()));
    painter.restore();
}

void TrackView::paintGroup(QPainter& painter, const GroupBand& group) const {
    const QRect header = rectOf(group.header);
    const QRect line(0, header.top(), viewport()->width(), header.height() + 1);
    painter.save();
    painter.setClipRect(QRect(0, lanesRect().top(), viewport()->width(), lanesRect().height()), Qt::IntersectClip);
    painter.fillRect(line, palette().color(QPalette::Window));
    painter.setPen(colors().text);
    QFont bold = font();
    bold.setBold(true);
    painter.setFont(bold);
    const QString text =
        (group.collapsed ? QStringLiteral("▸ ") : QStringLiteral("▾ ")) + QString::fromStdString(group.name);
    painter.drawText(line.adjusted(6, 0, -6, 0), Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
                     painter.fontMetrics().elidedText(text, Qt::ElideRight, line.width() - 12));
    painter.restore();
}

void TrackView::paintSelected(QPainter& painter) const {
    const std::optional<SliceRef> ref = selectedItem();
    if (!ref) {
        return;
    }
    painter.save();
    painter.setClipRect(lanesRect(), Qt::IntersectClip);
    painter.setRenderHint(QPainter::Antialiasing);
    for (const SliceRef& to : store_->arrowsFrom(*ref, kMostRangeArrows)) {
        paintArrow(painter, *ref, to);
    }
    for (const SliceRef& from : store_->arrowsTo(*ref, kMostRangeArrows)) {
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

void TrackView::paintArrow(QPainter& painter, const SliceRef& from, const SliceRef& to) const {
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

std::optional<std::size_t> TrackView::counterAtPixel(const QPoint& position) const {
    const std::optional<RowBand> at = visibleLayout().rowBelowAt(layoutY(position));
    return at ? std::optional<std::size_t>(at->row) : std::nullopt;
}

std::optional<TimeRange> TrackView::rangeAt(const QPoint& position) const {
    const std::optional<SliceRef> found = itemAt(position);
    return found ? std::optional(store_->rangeOf(*found)) : std::nullopt;
}

void TrackView::click(const QPoint& position, Qt::KeyboardModifiers) {
    if (const GroupBand* group = headerAt(position)) {
        clickGroup(std::string(group->name));  // the layout will be made anew
    } else if (lanesRect().contains(position)) {
        Q_EMIT picked(itemAt(position));
    }
}

void TrackView::open(const std::string& group) {
    if (collapsed_.erase(group) > 0) {
        relayout();
    }
}

void TrackView::revealRow(std::uint32_t row) {
    if (store_ && row < store_->rows.size()) {
        open(store_->rows[row].group);
        revealBand(wholeLayout().bandOf(row));
    }
}

void TrackView::revealCounter(std::uint32_t counter) {
    if (store_ && counter < store_->counters.size()) {
        open(store_->counters[counter].group());
        revealBand(wholeLayout().bandBelowOf(counter));
    }
}

QString TrackView::toolTipAt(const QPoint& position) const {
    if (const std::optional<SliceRef> found = rangeAtPixel(position)) {
        const TrackRow& track = store_->rows[found->row];
        const TimeRange range = store_->rangeOf(*found);
        return tr("<b>%1</b><br>%2, %3<br>%4, from %5")
            .arg(QString::fromStdString(store_->textOf(*found)).toHtmlEscaped(),
                 QString::fromStdString(track.name).toHtmlEscaped(),
                 QString::fromStdString(track.group).toHtmlEscaped(), formatDuration(range.length()),
                 axis().instantText(range.start, range.length()));
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
        lines << tr("%1 at %2")
                     .arg(valueText(*index, *value), axis().timeStyle() == TimeStyle::clock
                                                         ? axis().instantText(time, kReadLength)
                                                         : formatDuration(time - axis().zero()));
    }
    lines << extentText(*index);
    return lines.join(QStringLiteral("<br>"));
}
}  // namespace pipescope
