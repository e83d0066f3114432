#include "gui/style/legend.h"

#include "gui/style/task_style.h"

#include <QPainter>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kSwatchWidth = 22;
constexpr int kGap = 16;

void drawSwatch(QPainter& painter, const QRect& box, const QColor& color, Pattern pattern,
                const TimelineColors& colors) {
    painter.fillRect(box, color);
    painter.save();
    painter.setClipRect(box, Qt::IntersectClip);
    if (pattern == Pattern::hatched) {
        painter.setPen(QPen(colors.hatch, 1.5));
        for (int x = box.left() - box.height(); x < box.right(); x += 6) {
            painter.drawLine(x, box.bottom() + 1, x + box.height(), box.top());
        }
    } else if (pattern == Pattern::dotted) {
        painter.setPen(QPen(color == colors.bubble ? colors.bubbleDot : colors.border, 1));
        for (int y = box.top() + 2; y < box.bottom(); y += 4) {
            for (int x = box.left() + 2; x < box.right(); x += 4) {
                painter.drawPoint(x, y);
            }
        }
    }
    painter.restore();
    painter.setPen(QPen(colors.border, 0));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box);
}
}  // namespace

Legend::Legend(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Legend"));
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void Legend::setKinds(std::vector<TaskKind> kinds) {
    kinds_ = std::move(kinds);
    QStringList names;
    for (const TaskKind kind : kinds_) {
        names << styleOf(kind).name;
    }
    setAccessibleDescription(names.join(QStringLiteral(", ")));
    update();
}

QSize Legend::sizeHint() const {
    return {600, fontMetrics().height() + 8};
}

QSize Legend::minimumSizeHint() const {
    return {0, sizeHint().height()};
}

void Legend::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    int x = 6;
    const auto entry = [&](const QColor& color, Pattern pattern, int height, const QString& name) {
        const QRect box(x, (rect().height() - height) / 2, kSwatchWidth, height);
        drawSwatch(painter, box, color, pattern, colors);
        x += kSwatchWidth + 6;
        painter.setPen(colors.text);
        const int width = painter.fontMetrics().horizontalAdvance(name);
        painter.drawText(QRect(x, 0, width + 2, rect().height()), Qt::AlignVCenter | Qt::AlignLeft, name);
        x += width + kGap;
    };
    for (const TaskKind kind : kinds_) {
        const KindStyle& style = styleOf(kind);
        const QString name =
            style.letter.isEmpty() ? style.name : QStringLiteral("%1 %2").arg(style.letter, style.name);
        entry(style.color, style.pattern, is_copy(kind) ? 6 : 12, name);
    }
    if (!kinds_.empty()) {
        entry(colors.bubble, Pattern::dotted, 12, tr("bubble"));
    }
}
}  // namespace pipescope
