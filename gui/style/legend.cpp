#include "gui/style/legend.h"

#include "gui/style/task_style.h"

#include <QEvent>
#include <QPainter>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kSwatchWidth = 22;
constexpr int kEntryGap = 16;
constexpr int kTextGap = 6;
constexpr int kMargin = 6;

void drawSwatch(QPainter& painter, const QRect& box, const QColor& color, Pattern pattern,
                const TimelineColors& colors) {
    painter.fillRect(box, color);
    paintPattern(painter, box, pattern, color == colors.bubble ? colors.bubbleDot : inkOn(color));
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

void Legend::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::FontChange) {
        fit();
    }
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
        x += needed + kEntryGap;
    }
    return line + 1;
}

int Legend::heightForWidth(int width) const {
    return layOut(width, [](const Item&, int, int) {}) * lineHeight() + 4;
}

QSize Legend::sizeHint() const {
    return {600, heightForWidth(std::max(width(), 600))};
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
