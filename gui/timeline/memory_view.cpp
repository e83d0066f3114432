#include "gui/timeline/memory_view.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>

#include <algorithm>
#include <array>
#include <cmath>

namespace pipescope {
namespace {
constexpr int kLowestLane = 14;
constexpr int kTallestLane = 80;
constexpr int kMemoryLaneGap = 3;
constexpr int kCompactMemoryLane = 6;  // lower lanes scroll
constexpr int kFewLanes = 8;           // scroll rather than become unreadable in a low window
const QColor kMeasured = QColor::fromRgb(okabe_ito::kSky);
const QColor kMeasuredDark = QColor::fromRgb(okabe_ito::kBlue);

const MemoryTrack* trackOf(const std::vector<MemoryTrack>* tracks, std::size_t lane) {
    return tracks != nullptr && lane < tracks->size() && !(*tracks)[lane].empty() ? &(*tracks)[lane] : nullptr;
}
}  // namespace

MemoryStyle styleOf(MemoryCategory category) {
    struct Style {
        QRgb color;
        Qt::BrushStyle pattern;
    };
    // Patterns are unique. Neighbours in the stack also differ in brightness.
    static constexpr std::array<Style, kNumMemoryCategories> kStyles{{{okabe_ito::kBlue, Qt::NoBrush},
                                                                      {okabe_ito::kSky, Qt::BDiagPattern},
                                                                      {okabe_ito::kGrey, Qt::Dense6Pattern},
                                                                      {okabe_ito::kOrange, Qt::HorPattern},
                                                                      {okabe_ito::kGreen, Qt::FDiagPattern},
                                                                      {okabe_ito::kYellow, Qt::VerPattern},
                                                                      {okabe_ito::kPurple, Qt::DiagCrossPattern},
                                                                      {okabe_ito::kVermillion, Qt::CrossPattern},
                                                                      {okabe_ito::kLightGreen, Qt::Dense4Pattern}}};
    const Style& style = kStyles.at(static_cast<std::size_t>(category));
    const QColor color = QColor::fromRgb(style.color);
    return {color, QBrush(inkOn(color), style.pattern)};
}

QString nameOf(MemoryCategory category) {
    switch (category) {
        case MemoryCategory::parameters: return MemoryView::tr("parameters");
        case MemoryCategory::gradients: return MemoryView::tr("gradients");
        case MemoryCategory::optimizer: return MemoryView::tr("optimizer state");
        case MemoryCategory::boundary: return MemoryView::tr("kept inputs");
        case MemoryCategory::saved: return MemoryView::tr("saved for backward");
        case MemoryCategory::skip: return MemoryView::tr("skips");
        case MemoryCategory::transient: return MemoryView::tr("while a task runs");
        case MemoryCategory::copy: return MemoryView::tr("copies in flight");
        case MemoryCategory::output: return MemoryView::tr("output");
    }
    return {};
}

MemoryView::MemoryView(TimeAxisModel& axis, QWidget* parent) : AxisView(axis, parent) {
    setAccessibleName(tr("Memory of each lane"));
    setAccessibleDescription(tr("Bytes held over time: measured as an area, simulated as a line."));
}

void MemoryView::setScene(MemoryScene scene) {
    scene_ = std::move(scene);
    highest_ = findHighest();
    updateGeometry();
    relayout();
}

bool MemoryView::empty() const {
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        if (trackOf(scene_.measured, lane) != nullptr || trackOf(scene_.simulated, lane) != nullptr) {
            return false;
        }
    }
    return true;
}

bool MemoryView::composed() const {
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        for (const auto* tracks : {scene_.measured, scene_.simulated}) {
            const MemoryTrack* track = trackOf(tracks, lane);
            if (track != nullptr && track->composed()) {
                return true;
            }
        }
    }
    return false;
}

void MemoryView::setStacked(bool stacked) {
    stacked_ = stacked;
    viewport()->update();
}

QSize MemoryView::sizeHint() const {
    return {800, std::clamp(static_cast<int>(scene_.lanes.size()), 2, 12) * (kLowestLane + kMemoryLaneGap)};
}

QSize MemoryView::minimumSizeHint() const {
    // Two whole rows, whose halves would tell nothing.
    const int rows = std::clamp(static_cast<int>(scene_.lanes.size()), 1, 2);
    return {300, rows * (std::max(kLowestLane, fontMetrics().height()) + kMemoryLaneGap) + kMemoryLaneGap};
}

std::string MemoryView::peakOf(std::size_t lane) const {
    const MemoryTrack* measured = trackOf(scene_.measured, lane);
    if (measured != nullptr) {
        // The mark that the header explains: tables have the peak of a step instead.
        return QStringLiteral("▼ %1").arg(formatBytes(measured->highest())).toStdString();
    }
    const MemoryTrack* track = trackOf(scene_.simulated, lane);
    return track != nullptr ? formatBytes(simulatedPeak(*track, lane)).toStdString() : std::string();
}

Bytes MemoryView::simulatedPeak(const MemoryTrack& track, std::size_t lane) const {
    return lane < scene_.simulatedPeaks.size() ? std::max(scene_.simulatedPeaks[lane], track.highest())
                                               : track.highest();
}

void MemoryView::setArrangement(const LaneArrangement& arrangement) {
    arrangement_ = arrangement;
    relayout();
}

void MemoryView::relayout() {
    const int lanes = std::max(1, static_cast<int>(scene_.lanes.size()));
    const int lowest = std::max(kLowestLane, fontMetrics().height());
    const int available = lanesRect().height();
    const bool compact = lanes > kFewLanes && lanes * (lowest + kMemoryLaneGap) + kMemoryLaneGap > available;
    gap_ = compact ? 1 : kMemoryLaneGap;
    laneHeight_ = std::clamp((available - gap_) / lanes - gap_, compact ? kCompactMemoryLane : lowest,
                             std::max({lowest, kTallestLane, available / 2}));
    places_.assign(scene_.lanes.size(), 0);
    int place = 0;
    for (const ArrangedLane& lane : arrangedLanes(arrangement_, scene_.lanes)) {
        places_[lane.lane.index()] = place++;
    }
    setContentHeight(lanes * (laneHeight_ + gap_) + gap_);
}

QRect MemoryView::laneBox(std::size_t lane) const {
    const QRect lanes = lanesRect();
    const int top = gap_ + places_.at(lane) * (laneHeight_ + gap_) - verticalScrollBar()->value();
    return {lanes.left(), lanes.top() + top, lanes.width(), laneHeight_};
}

double MemoryView::Scale::y(Bytes bytes) const {
    return box.bottom() + 1 - static_cast<double>(bytes) / static_cast<double>(most) * (box.height() - 1);
}

Bytes MemoryView::findHighest() const {
    Bytes most = 1;
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        if (const MemoryTrack* track = trackOf(scene_.measured, lane)) {
            most = std::max(most, track->highest());
        }
        if (const MemoryTrack* track = trackOf(scene_.simulated, lane)) {
            most = std::max(most, simulatedPeak(*track, lane));
        }
    }
    return most;
}

bool MemoryView::showsLimit(std::size_t lane) const {
    return lane < scene_.limits.size() && scene_.limits[lane] <= highest_ + highest_ / 2;
}

Bytes MemoryView::bytesAtTop() const {
    // All lanes share one scale, so that heights are comparable.
    Bytes most = highest_;
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        if (showsLimit(lane)) {
            most = std::max(most, scene_.limits[lane]);
        }
    }
    return most + most / 16;
}

void MemoryView::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    painter.setFont(font());
    painter.fillRect(viewport()->rect(), colors().paper);
    const QRect lanes = lanesRect();
    painter.fillRect(QRect(0, lanes.top(), lanes.left(), lanes.height()), palette().color(QPalette::Window));
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        const QRect box = laneBox(lane);
        if (box.bottom() < lanes.top() || box.top() > lanes.bottom()) {
            continue;
        }
        paintLane(painter, lane);
        if (gap_ == kMemoryLaneGap) {
            paintNameLine(painter, box.bottom() + kMemoryLaneGap);
        }
    }
    paintNames(painter, drawnNames());
    paintRange(painter, false);
    paintCursor(painter);
}

std::vector<AxisView::DrawnName> MemoryView::drawnNames() const {
    std::vector<NamedBand> bands;
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        const QRect box = laneBox(lane);
        if (box.bottom() >= lanesRect().top() && box.top() <= lanesRect().bottom()) {
            const std::string& name = scene_.lanes[lane].name;
            const QString title = titleOf({name.substr(0, name.find(" (rank ")), ""}, lane);
            bands.push_back({title, title, box.top(), box.height(), static_cast<int>(lane), NamedBand::Rank::lane,
                             QString::fromStdString(peakOf(lane))});
        }
    }
    return namesOf(std::move(bands));
}

void MemoryView::paintLane(QPainter& painter, std::size_t lane) const {
    const Scale scale = scaleOf(lane);
    painter.save();
    painter.setClipRect(scale.box.intersected(lanesRect()).adjusted(0, -1, 0, 1), Qt::IntersectClip);
    painter.fillRect(scale.box, colors().lane);
    const MemoryTrack* measured = trackOf(scene_.measured, lane);
    const MemoryTrack* simulated = trackOf(scene_.simulated, lane);
    const bool stacksMeasured = stacked_ && measured != nullptr && measured->composed();
    if (stacksMeasured) {
        paintStack(painter, *measured, 0, scale);
    } else if (measured != nullptr) {
        paintArea(painter, *measured, scale);
    } else if (stacked_ && simulated != nullptr && simulated->composed()) {
        paintStack(painter, *simulated, scene_.simulatedShift, scale);
    }
    if (simulated != nullptr) {
        paintLine(painter, *simulated, scale);
    }
    if (showsLimit(lane)) {
        const double y = std::round(scale.y(scene_.limits[lane])) + 0.5;
        painter.setPen(QPen(colors().limit, 1, Qt::DashLine));
        painter.drawLine(QPointF(scale.box.left(), y), QPointF(scale.box.right(), y));
    }
    if (const MemoryTrack* track = trackOf(scene_.measured, lane)) {
        paintPeak(painter, *track, 0, scale, false);
    }
    if (const MemoryTrack* track = trackOf(scene_.simulated, lane);
        track != nullptr && simulatedPeak(*track, lane) == track->highest()) {
        paintPeak(painter, *track, scene_.simulatedShift, scale, true);
    }
    painter.restore();
}

void MemoryView::paintArea(QPainter& painter, const MemoryTrack& track, const Scale& scale) const {
    const std::vector<MemoryColumn> columns = track.columns(axis().window(), scale.box.width());
    QColor light = kMeasured;
    light.setAlphaF(0.35F);
    for (std::size_t x = 0; x < columns.size();) {
        std::size_t end = x + 1;  // merges equal columns into one rectangle
        while (end < columns.size() && columns[end].allocated == columns[x].allocated &&
               columns[end].peak == columns[x].peak) {
            ++end;
        }
        const double left = scale.box.left() + static_cast<double>(x);
        const double width = static_cast<double>(end - x);
        const double floor = scale.box.bottom() + 1;
        painter.fillRect(QRectF(left, scale.y(columns[x].peak), width, floor - scale.y(columns[x].peak)), light);
        painter.fillRect(QRectF(left, scale.y(columns[x].allocated), width, floor - scale.y(columns[x].allocated)),
                         kMeasured);
        x = end;
    }
}

void MemoryView::paintStack(QPainter& painter, const MemoryTrack& track, std::int64_t shift, const Scale& scale) const {
    // Draws each column with its last value. Merges equal columns into one rectangle.
    const double floor = scale.box.bottom() + 1;
    const auto compositionOf = [&](int x) {
        const std::int64_t end = timeAtPixel(scale.box.left() + x + 1) - shift;
        return end < track.range().start || timeAtPixel(scale.box.left() + x) - shift > track.range().end
                   ? MemoryBreakdown{}
                   : track.compositionAt(end);
    };
    for (int x = 0; x < scale.box.width();) {
        const MemoryBreakdown composition = compositionOf(x);
        int end = x + 1;
        while (end < scale.box.width() && compositionOf(end) == composition) {
            ++end;
        }
        Bytes below = 0;
        for (std::size_t k = 0; k < kNumMemoryCategories && composition.known(); ++k) {
            const auto category = static_cast<MemoryCategory>(k);
            const Bytes bytes = std::max<Bytes>(0, composition[category]);
            const double top = scale.y(below + bytes);
            const QRectF rect(scale.box.left() + x, top, end - x, (below == 0 ? floor : scale.y(below)) - top);
            if (bytes > 0) {
                const MemoryStyle style = styleOf(category);
                painter.fillRect(rect, style.color);
                painter.fillRect(rect, style.over);
            }
            below += bytes;
        }
        x = end;
    }
}

void MemoryView::paintLine(QPainter& painter, const MemoryTrack& track, const Scale& scale) const {
    const TimeWindow window = shifted(axis().window(), -scene_.simulatedShift);
    const std::vector<MemoryColumn> columns = track.columns(window, scale.box.width());
    QPainterPath path;
    bool drawing = false;
    for (std::size_t x = 0; x < columns.size();) {
        std::size_t end = x + 1;  // merges equal columns into one line: a path of thousands of points is slow
        while (end < columns.size() && columns[end].known == columns[x].known && columns[end].peak == columns[x].peak) {
            ++end;
        }
        if (columns[x].known) {
            const double left = scale.box.left() + static_cast<double>(x);
            const double y = std::round(scale.y(columns[x].peak)) + 0.5;
            if (drawing) {
                path.lineTo(left, y);
            } else {
                path.moveTo(left, y);
            }
            path.lineTo(left + static_cast<double>(end - x), y);
        }
        drawing = columns[x].known;
        x = end;
    }
    painter.setPen(QPen(colors().text, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawPath(path);
}

void MemoryView::paintPeak(QPainter& painter, const MemoryTrack& track, std::int64_t shift, const Scale& scale,
                           bool below) const {
    // The first time in view at which the track is as high as ever.
    const TimeRange shown{timeAtPixel(scale.box.left()) - shift, timeAtPixel(scale.box.right()) - shift};
    const bool reaches = track.highestIn(shown) == track.highest();
    const double x = pixelAtTime((reaches ? *track.highestTimeIn(shown) : track.highestTime()) + shift);
    if (x < scale.box.left() || x > scale.box.right()) {
        return;
    }
    const double y = scale.y(track.highest());
    const QColor color = below ? colors().text : kMeasuredDark;
    painter.setPen(QPen(colors().paper, 1));
    painter.setBrush(color);
    painter.drawPolygon(QPolygonF({QPointF(x - 4, y), QPointF(x + 4, y), QPointF(x, y + 6)}));
}

QString MemoryView::toolTipAt(const QPoint& position) const {
    QString text;
    for (std::size_t lane = 0; lane < scene_.lanes.size(); ++lane) {
        if (!laneBox(lane).contains(position)) {
            continue;
        }
        const auto add = [&](const QString& name, const MemoryTrack* track, std::int64_t shift, Bytes peak) {
            if (track != nullptr) {
                const TimeWindow pixel{timeAtPixel(position.x()) - shift, 0,
                                       axis().window().length / lanesRect().width()};
                text += tr("<br>%1: %2 here, peak %3")
                            .arg(name, formatBytes(track->columns(pixel, 1).front().allocated), formatBytes(peak));
            }
        };
        text = QString::fromStdString(scene_.lanes[lane].name).toHtmlEscaped();
        const MemoryTrack* const measured = trackOf(scene_.measured, lane);
        const MemoryTrack* const simulated = trackOf(scene_.simulated, lane);
        add(scene_.measuredName, measured, 0, measured != nullptr ? measured->highest() : 0);
        add(scene_.simulatedName, simulated, scene_.simulatedShift,
            simulated != nullptr ? simulatedPeak(*simulated, lane) : 0);
        const auto consists = [&](const QString& name, const MemoryTrack* track, std::int64_t shift) {
            const MemoryBreakdown composition =
                track != nullptr ? track->compositionAt(timeAtPixel(position.x()) - shift) : MemoryBreakdown{};
            for (std::size_t k = 0; k < kNumMemoryCategories && composition.known(); ++k) {
                const auto category = static_cast<MemoryCategory>(k);
                if (composition[category] > 0) {
                    text += tr("<br>%1, %2: %3").arg(name, nameOf(category), formatBytes(composition[category]));
                }
            }
        };
        consists(scene_.measuredName, trackOf(scene_.measured, lane), 0);
        consists(scene_.simulatedName, trackOf(scene_.simulated, lane), scene_.simulatedShift);
        if (lane < scene_.limits.size()) {
            text += tr("<br>limit: %1").arg(formatBytes(scene_.limits[lane]));
        }
    }
    return text;
}
}  // namespace pipescope
