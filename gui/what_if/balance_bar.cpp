#include "gui/what_if/balance_bar.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"

#include <QFocusEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
constexpr double kSideMargin = 8;
constexpr double kGrabDistance = 6;
constexpr double kLeastLabelWidth = 46;
constexpr double kLeastBorderWidth = 3;
constexpr std::int64_t kBigStep = 10;

const QColor kPartitionColors[] = {QColor::fromRgb(0x56B4E9), QColor::fromRgb(0xE69F00)};
}  // namespace

BalanceBar::BalanceBar(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAccessibleName(tr("Balance: cuts between partitions"));
}

void BalanceBar::setScene(BalanceScene scene) {
    scene_ = std::move(scene);
    places_ = layerPlaces(scene_.sums, width_);
    const std::size_t cuts = scene_.balance.num_partitions() - 1;
    focused_ = cuts > 0 ? std::min(focused_, cuts - 1) : 0;
    describe();
    update();
}

void BalanceBar::setLayerWidth(LayerWidth width) {
    width_ = width;
    places_ = layerPlaces(scene_.sums, width_);
    update();
}

std::optional<std::size_t> BalanceBar::focusedCut() const {
    return scene_.balance.num_partitions() > 1 ? std::optional(focused_) : std::nullopt;
}

QRectF BalanceBar::barRect() const {
    return QRectF(rect()).adjusted(kSideMargin, 12, -kSideMargin, -4);
}

QRectF BalanceBar::layersRect() const {
    QRectF rect = barRect();
    rect.setHeight(rect.height() * 0.3);
    return rect;
}

QRectF BalanceBar::partitionsRect() const {
    QRectF rect = barRect();
    rect.setTop(layersRect().bottom() + 2);
    return rect;
}

double BalanceBar::xOfLayer(std::size_t layer) const {
    const QRectF bar = barRect();
    return bar.left() + bar.width() * places_[std::min(layer, places_.size() - 1)];
}

double BalanceBar::cutX(std::size_t cut) const {
    return xOfLayer(scene_.balance.layers_of(PartitionId{static_cast<std::int64_t>(cut)}).end.index());
}

std::optional<double> BalanceBar::ghostX(std::size_t cut) const {
    if (!scene_.ghost || cut + 1 >= scene_.ghost->num_partitions() ||
        scene_.ghost->num_layers() != scene_.balance.num_layers()) {
        return std::nullopt;
    }
    return xOfLayer(scene_.ghost->layers_of(PartitionId{static_cast<std::int64_t>(cut)}).end.index());
}

QRectF BalanceBar::partitionRect(std::size_t partition) const {
    const LayerRange layers = scene_.balance.layers_of(PartitionId{static_cast<std::int64_t>(partition)});
    QRectF rect = partitionsRect();
    rect.setLeft(xOfLayer(layers.first.index()));
    rect.setRight(xOfLayer(layers.end.index()));
    return rect;
}

bool BalanceBar::isOverLimit(std::size_t partition) const {
    return partition < scene_.limits.size() && partition < scene_.peaks.size() &&
           scene_.peaks[partition] > scene_.limits[partition];
}

QStringList BalanceBar::partitionFacts(std::size_t partition) const {
    const LayerRange layers = scene_.balance.layers_of(PartitionId{static_cast<std::int64_t>(partition)});
    QStringList facts{formatCount(layers.size(), tr("layer"), tr("layers")),
                      formatDuration(std::llround(scene_.sums.timeOf(layers)))};
    if (partition < scene_.peaks.size()) {
        facts << (isOverLimit(partition) ? QStringLiteral("▲ ") : QString()) + formatBytes(scene_.peaks[partition]);
    }
    return facts;
}

QString BalanceBar::descriptionAt(const QPoint& position) const {
    if (!scene_.profile || position.x() < barRect().left() || position.x() > barRect().right()) {
        return {};
    }
    const double place = (position.x() - barRect().left()) / barRect().width();
    const auto behind = std::upper_bound(places_.begin(), places_.end(), place) - places_.begin();
    const auto layer = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(behind - 1, 0, static_cast<std::ptrdiff_t>((*scene_.profile)->layers.size()) - 1));
    if (position.y() <= layersRect().bottom()) {
        const LayerProfile& each = (*scene_.profile)->layers[layer];
        const LayerRange one{LayerId{static_cast<std::int64_t>(layer)}, LayerId{static_cast<std::int64_t>(layer) + 1}};
        const QString time =
            tr("layer %1: %2\n%3 for one micro-batch")
                .arg(layer)
                .arg(QString::fromStdString(each.name), formatDuration(std::llround(scene_.sums.timeOf(one))));
        return (*scene_.profile)->memory_unknown
                   ? time
                   : tr("%1, %2 of parameters").arg(time, formatBytes(each.parameter_bytes));
    }
    const PartitionId partition = scene_.balance.partition_of(LayerId{static_cast<std::int64_t>(layer)});
    const LayerRange layers = scene_.balance.layers_of(partition);
    QString text = tr("partition %1: %2\nfrom %3 to %4")
                       .arg(partition.value())
                       .arg(partitionFacts(partition.index()).join(QStringLiteral(", ")),
                            QString::fromStdString((*scene_.profile)->layers[layers.first.index()].name),
                            QString::fromStdString((*scene_.profile)->layers[layers.end.index() - 1].name));
    if (isOverLimit(partition.index())) {
        text += tr("\nabove the limit of %1").arg(formatBytes(scene_.limits[partition.index()]));
    }
    return text;
}

void BalanceBar::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    if (!scene_.profile) {
        return;
    }
    paintLayers(painter);
    paintPartitions(painter);
    paintCuts(painter);
}

void BalanceBar::paintLayers(QPainter& painter) const {
    const QRectF bar = layersRect();
    const TimelineColors colors = timelineColors(palette());
    painter.fillRect(bar, colors.bubble);
    double drawn = -1;  // thousands of layers share pixels: a line for each would only draw a slow grey
    for (std::size_t l = 0; l + 1 < places_.size(); ++l) {
        const double left = xOfLayer(l);
        const double right = xOfLayer(l + 1);
        if (right - left >= kLeastBorderWidth || left - drawn >= kLeastBorderWidth) {
            painter.setPen(QPen(colors.paper, 1));
            painter.drawLine(QPointF(left, bar.top()), QPointF(left, bar.bottom()));
            drawn = left;
        }
        if (right - left >= kLeastLabelWidth) {
            painter.setPen(colors.text);
            const QString name = QString::fromStdString((*scene_.profile)->layers[l].name);
            painter.drawText(QRectF(left + 3, bar.top(), right - left - 6, bar.height()), Qt::AlignCenter,
                             fontMetrics().elidedText(name, Qt::ElideMiddle, static_cast<int>(right - left) - 6));
        }
    }
}

void BalanceBar::paintPartitions(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    for (std::size_t j = 0; j < scene_.balance.num_partitions(); ++j) {
        const QRectF rect = partitionRect(j).adjusted(0.5, 0, -0.5, 0);
        const QColor ground = kPartitionColors[j % std::size(kPartitionColors)];
        painter.fillRect(rect, ground);
        const bool over = isOverLimit(j);
        if (over) {
            painter.fillRect(rect, QBrush(colors.border, Qt::BDiagPattern));
            painter.setPen(QPen(colors.limit, 3));
            painter.drawRect(rect.adjusted(1.5, 1.5, -1.5, -1.5));
        }
        QStringList lines{tr("P%1").arg(j)};
        lines << partitionFacts(j);
        QRectF line(rect.left() + 4, rect.top() + 3, rect.width() - 8, fontMetrics().height());
        for (const QString& text : lines) {
            const double needs = fontMetrics().horizontalAdvance(text);
            if (needs > line.width() || line.bottom() > rect.bottom()) {
                continue;
            }
            if (over) {  // keeps text readable on the hatching
                painter.fillRect(QRectF(line.left() - 1, line.top(), needs + 2, line.height()), ground);
            }
            painter.setPen(textOn(ground));
            painter.drawText(line, Qt::AlignLeft | Qt::AlignVCenter, text);
            line.translate(0, line.height());
        }
    }
}

void BalanceBar::paintCuts(QPainter& painter) const {
    const TimelineColors colors = timelineColors(palette());
    const QRectF bar = barRect();
    for (std::size_t cut = 0; cut + 1 < scene_.balance.num_partitions(); ++cut) {
        if (const std::optional<double> ghost = ghostX(cut)) {
            painter.setPen(QPen(colors.faintText, 1, Qt::DashLine));
            painter.drawLine(QPointF(*ghost, bar.top() - 2), QPointF(*ghost, bar.bottom()));
            painter.setRenderHint(QPainter::Antialiasing);
            painter.setBrush(Qt::NoBrush);
            painter.setPen(QPen(colors.text, 1));
            painter.drawEllipse(QPointF(*ghost, 5), 3.5, 3.5);
            painter.setRenderHint(QPainter::Antialiasing, false);
        }
    }
    for (std::size_t cut = 0; cut + 1 < scene_.balance.num_partitions(); ++cut) {
        const bool focused = hasFocus() && focusedCut() == cut;
        const double x = cutX(cut);
        painter.setPen(QPen(colors.selection, focused ? 4 : 2));
        painter.drawLine(QPointF(x, bar.top() - 4), QPointF(x, bar.bottom()));
        if (focused) {  // a frame around the handle, visible without colour
            painter.setPen(QPen(palette().color(QPalette::Highlight), 2));
            painter.setBrush(Qt::NoBrush);
            painter.drawRect(QRectF(x - 5, bar.top() - 8, 10, bar.height() + 9));
        }
    }
}

std::optional<std::size_t> BalanceBar::cutNear(double x) const {
    std::optional<std::size_t> nearest;
    for (std::size_t cut = 0; cut + 1 < scene_.balance.num_partitions(); ++cut) {
        const double distance = std::fabs(cutX(cut) - x);
        if (distance <= kGrabDistance && (!nearest || distance < std::fabs(cutX(*nearest) - x))) {
            nearest = cut;
        }
    }
    return nearest;
}

void BalanceBar::mousePressEvent(QMouseEvent* event) {
    const std::optional<std::size_t> cut = cutNear(event->position().x());
    if (event->button() != Qt::LeftButton || !cut) {
        return;
    }
    focused_ = *cut;
    grabbed_ = event->position().x() - cutX(*cut);
    describe();
    update();
    Q_EMIT gestureStarted();
}

void BalanceBar::mouseMoveEvent(QMouseEvent* event) {
    const double x = event->position().x();
    if (!grabbed_) {
        setCursor(cutNear(x) ? Qt::SplitHCursor : Qt::ArrowCursor);
        return;
    }
    const double place = (x - *grabbed_ - barRect().left()) / std::max(1.0, barRect().width());
    Q_EMIT cutMoved(focused_, layerAtPlace(places_, place));
}

void BalanceBar::keyPressEvent(QKeyEvent* event) {
    if (!focusedCut()) {
        QWidget::keyPressEvent(event);
        return;
    }
    const auto at = static_cast<std::int64_t>(cutsOf(scene_.balance)[focused_]);
    const std::int64_t step = event->modifiers().testFlag(Qt::ShiftModifier) ? kBigStep : 1;
    std::int64_t to = at;
    switch (event->key()) {
        case Qt::Key_Left: to = at - step; break;
        case Qt::Key_Right: to = at + step; break;
        case Qt::Key_PageUp: to = at - kBigStep; break;
        case Qt::Key_PageDown: to = at + kBigStep; break;
        case Qt::Key_Home: to = 0; break;
        case Qt::Key_End: to = static_cast<std::int64_t>(scene_.balance.num_layers()); break;
        default: QWidget::keyPressEvent(event); return;
    }
    if (!event->isAutoRepeat()) {
        Q_EMIT gestureStarted();
    }
    Q_EMIT cutMoved(focused_, to);
}

void BalanceBar::focusInEvent(QFocusEvent* event) {
    const std::size_t cuts = scene_.balance.num_partitions() - 1;
    if (cuts > 0 && event->reason() == Qt::TabFocusReason) {
        focused_ = 0;
    } else if (cuts > 0 && event->reason() == Qt::BacktabFocusReason) {
        focused_ = cuts - 1;
    }
    describe();
    update();
    QWidget::focusInEvent(event);
}

bool BalanceBar::focusNextPrevChild(bool next) {
    const std::size_t cuts = scene_.balance.num_partitions() - 1;
    if (next ? focused_ + 1 < cuts : focused_ > 0 && cuts > 0) {
        focused_ += next ? 1 : static_cast<std::size_t>(-1);
        describe();
        update();
        return true;
    }
    return QWidget::focusNextPrevChild(next);
}

bool BalanceBar::event(QEvent* event) {
    return answerToolTip(*event, *this, [this](const QPoint& position) { return descriptionAt(position); }) ||
           QWidget::event(event);
}

void BalanceBar::describe() {
    const std::optional<std::size_t> cut = focusedCut();
    if (!cut || !scene_.profile) {
        setAccessibleDescription(tr("one partition, no cut"));
        return;
    }
    const std::size_t layer = cutsOf(scene_.balance)[*cut];
    setAccessibleDescription(tr("cut %1 of %2, after layer %3 %4; left part %5; right part %6")
                                 .arg(*cut + 1)
                                 .arg(scene_.balance.num_partitions() - 1)
                                 .arg(layer - 1)
                                 .arg(QString::fromStdString((*scene_.profile)->layers[layer - 1].name),
                                      partitionFacts(*cut).join(QStringLiteral(", ")),
                                      partitionFacts(*cut + 1).join(QStringLiteral(", "))));
}
}  // namespace pipescope
