#include "gui/style/legend.h"

#include "gui/style/task_style.h"

#include <QPainter>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kSwatchWidth = 22;
constexpr int kGap = 16;
constexpr int kTextGap = 6;
constexpr int kMargin = 6;

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
    fit();
}

void Legend::setEntries(std::vector<LegendEntry> entries, bool instead) {
    if (entries != entries_ || instead != instead_) {
        entries_ = std::move(entries);
        instead_ = instead;
        fit();
    }
}

void Legend::fit() {
    QStringList names;
    for (const Item& item : items()) {
        names << item.entry.name;
    }
    setAccessibleDescription(names.join(QStringLiteral(", ")));
    setFixedHeight(heightForWidth(width()));
    update();
}

void Legend::resizeEvent(QResizeEvent*) {
    setFixedHeight(heightForWidth(width()));
}

std::vector<Legend::Item> Legend::items() const {
    const TimelineColors colors = timelineColors(palette());
    std::vector<Item> items;
    for (const TaskKind kind : kinds_) {
        const KindStyle& style = styleOf(kind);
        const QString name =
            style.letter.isEmpty() ? style.name : QStringLiteral("%1 %2").arg(style.letter, style.name);
        if (!instead_ || is_copy(kind)) {
            items.push_back({{style.color, Qt::NoBrush, name}, style.pattern, is_copy(kind) ? 6 : 12});
        }
    }
    if (!kinds_.empty() && entries_.empty()) {
        items.push_back({{colors.bubble, Qt::NoBrush, tr("bubble")}, Pattern::dotted, 12});
    }
    for (const LegendEntry& entry : entries_) {
        items.push_back({entry, Pattern::plain, 12});
    }
    return items;
}

template <class Place>
int Legend::layOut(int width, Place&& place) const {
    int x = kMargin;
    int line = 0;
    for (const Item& item : items()) {
        const int needed = kSwatchWidth + kTextGap + fontMetrics().horizontalAdvance(item.entry.name);
        if (x > kMargin && x + needed > width - kMargin) {
            x = kMargin;
            ++line;
        }
        place(item, x, line);
        x += needed + kGap;
    }
    return line + 1;
}

int Legend::lineHeight() const {
    return fontMetrics().height() + 4;
}

int Legend::heightForWidth(int width) const {
    return layOut(width, [](const Item&, int, int) {}) * lineHeight() + 4;
}

QSize Legend::sizeHint() const {
    return {600, heightForWidth(std::max(width(), 600))};
}

QSize Legend::minimumSizeHint() const {
    return {0, lineHeight() + 4};
}

void Legend::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    layOut(width(), [&](const Item& item, int x, int line) {
        const int top = 2 + line * lineHeight();
        const QRect box(x, top + (lineHeight() - item.height) / 2, kSwatchWidth, item.height);
        drawSwatch(painter, box, item.entry.ground, item.pattern, colors);
        if (item.entry.over.style() != Qt::NoBrush) {
            painter.fillRect(box.adjusted(1, 1, 0, 0), item.entry.over);
        }
        painter.setPen(colors.text);
        painter.drawText(QRect(x + kSwatchWidth + kTextGap, top, width(), lineHeight()),
                         Qt::AlignVCenter | Qt::AlignLeft, item.entry.name);
    });
}
}  // namespace pipescope
