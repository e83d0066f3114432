#include "gui/style/legend.h"

#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kSwatchWidth = 22;
constexpr int kSwatchTop = 4;
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

void Legend::setCopyColor(const QColor& color) {
    copyColor_ = color;
    update();
}

void Legend::setEntries(std::vector<LegendEntry> entries, bool instead) {
    if (entries != entries_ || instead != instead_) {
        entries_ = std::move(entries);
        instead_ = instead;
        fit();
    }
}

void Legend::setClickable() {
    clickable_ = true;
    setFocusPolicy(Qt::TabFocus);
    setMouseTracking(true);
}

void Legend::setMostLines(int lines) {
    if (lines != mostLines_) {
        mostLines_ = lines;
        fit();
    }
}

void Legend::setHidden(const KindSet& kinds) {
    if (kinds != hidden_) {
        hidden_ = kinds;
        fit();
    }
}

void Legend::fit() {
    QStringList names;
    for (const Item& item : items()) {
        names << (item.entry.hidden ? tr("%1 (hidden)").arg(item.entry.name) : item.entry.name);
    }
    setAccessibleDescription(names.join(QStringLiteral(", ")));
    if (const int needed = heightForWidth(width()); needed != height() || minimumHeight() != needed) {
        setFixedHeight(needed);
    }
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
            const bool differs = is_copy(kind) && copyColor_.isValid();
            items.push_back({{differs ? copyColor_ : style.color, Qt::NoBrush, name, -1, contains(hidden_, kind)},
                             style.pattern,
                             is_copy(kind) ? 6 : 12,
                             kind});
        }
    }
    const bool showsCauses = std::ranges::any_of(entries_, [](const LegendEntry& entry) { return entry.id >= 0; });
    if (!kinds_.empty() && !instead_ && !showsCauses) {
        items.push_back({{colors.bubble, Qt::NoBrush, tr("bubble")}, Pattern::dotted, 12});
    }
    for (const LegendEntry& entry : entries_) {
        items.push_back({entry, Pattern::plain, 12});
    }
    return items;
}

Legend::Item Legend::unfolding(const QString& name) const {
    Item item;
    item.entry.name = name;
    item.unfolds = true;
    return item;
}

std::vector<Legend::Item> Legend::shownItems(int width) const {
    std::vector<Item> all = items();
    if (linesOf(all, width) <= mostLines_) {
        return all;
    }
    if (unfolded_) {
        all.push_back(unfolding(tr("Less")));
        return all;
    }
    for (std::size_t left = 1; left < all.size(); ++left) {
        std::vector<Item> shown(all.begin(), all.end() - static_cast<std::ptrdiff_t>(left));
        shown.push_back(unfolding(tr("%1 more").arg(left)));
        if (linesOf(shown, width) <= mostLines_) {
            return shown;
        }
    }
    return all;
}

int Legend::swatchWidth(const Item& item) const {
    return item.unfolds ? 0 : kSwatchWidth + kTextGap;
}

int Legend::linesOf(const std::vector<Item>& items, int width) const {
    return layOut(items, width, [](const Item&, int, int) {});
}

template <class Place>
int Legend::layOut(const std::vector<Item>& items, int width, Place&& place) const {
    int x = kMargin;
    int line = 0;
    for (const Item& item : items) {
        const int needed = swatchWidth(item) + fontMetrics().horizontalAdvance(item.entry.name);
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
    return heightOfLines(linesOf(shownItems(width), width));
}

int Legend::heightOfAll(int width) const {
    return heightOfLines(linesOf(items(), width));
}

QString Legend::textIn(const Item& item, int x) const {
    return fontMetrics().elidedText(item.entry.name, Qt::ElideRight,
                                    std::max(0, width() - kMargin - x - swatchWidth(item)));
}

QRect Legend::placeOf(const Item& item, int x, int line) const {
    return {x, 2 + line * lineHeight(), swatchWidth(item) + fontMetrics().horizontalAdvance(textIn(item, x)),
            lineHeight()};
}

std::vector<std::pair<QString, QRect>> Legend::places() const {
    std::vector<std::pair<QString, QRect>> places;
    layOut(shownItems(width()), width(),
           [&](const Item& item, int x, int line) { places.emplace_back(item.entry.name, placeOf(item, x, line)); });
    return places;
}

std::optional<std::size_t> Legend::itemAt(const QPoint& position) const {
    const std::vector<std::pair<QString, QRect>> all = places();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) {
        return each.second.adjusted(-kTextGap / 2, 0, kTextGap / 2, 0).contains(position);
    });
    return found != all.end() ? std::optional(static_cast<std::size_t>(found - all.begin())) : std::nullopt;
}

std::optional<std::size_t> Legend::clickableAt(const QPoint& position) const {
    const std::optional<std::size_t> item = itemAt(position);
    return item && clickable_ && shownItems(width())[*item].isClickable() ? item : std::nullopt;
}

void Legend::choose(std::size_t index, bool only) {
    const std::vector<Item> all = shownItems(width());
    if (index >= all.size() || !all[index].isClickable()) {
        return;
    }
    current_ = index;
    if (all[index].unfolds) {
        unfolded_ = !unfolded_;
        fit();
        current_ = std::min(current_, shownItems(width()).size() - 1);
    } else if (all[index].kind) {
        Q_EMIT kindClicked(*all[index].kind, only);
    } else {
        Q_EMIT entryClicked(all[index].entry.id, only);
    }
}

void Legend::mousePressEvent(QMouseEvent* event) {
    const std::optional<std::size_t> item = clickableAt(event->position().toPoint());
    if (item && event->button() == Qt::LeftButton) {
        choose(*item, (event->modifiers() & Qt::ShiftModifier) != 0);
    }
}

void Legend::keyPressEvent(QKeyEvent* event) {
    const auto all = static_cast<int>(shownItems(width()).size());
    const bool moves = event->key() == Qt::Key_Left || event->key() == Qt::Key_Right;
    if (!clickable_ || all == 0) {
        QWidget::keyPressEvent(event);
    } else if (moves) {
        const int by = event->key() == Qt::Key_Right ? 1 : -1;
        current_ = static_cast<std::size_t>(std::clamp(static_cast<int>(current_) + by, 0, all - 1));
        update();
    } else if (event->key() == Qt::Key_Space) {
        choose(current_, (event->modifiers() & Qt::ShiftModifier) != 0);
    } else {
        QWidget::keyPressEvent(event);
    }
}

void Legend::focusInEvent(QFocusEvent* event) {
    QWidget::focusInEvent(event);
    update();
}

void Legend::focusOutEvent(QFocusEvent* event) {
    QWidget::focusOutEvent(event);
    update();
}

bool Legend::event(QEvent* event) {
    if (clickable_ && event->type() == QEvent::MouseMove) {
        const auto& mouse = static_cast<const QMouseEvent&>(*event);
        setCursor(clickableAt(mouse.position().toPoint()) ? Qt::PointingHandCursor : Qt::ArrowCursor);
    }
    return answerToolTip(*event, *this, [this](const QPoint& at) { return toolTipAt(at); }) || QWidget::event(event);
}

QString Legend::toolTipAt(const QPoint& position) const {
    const std::optional<std::size_t> item = itemAt(position);
    if (!item) {
        return {};
    }
    const Item shown = shownItems(width())[*item];
    const LegendEntry& entry = shown.entry;
    if (shown.unfolds) {
        return unfolded_ ? tr("Show fewer lines") : tr("Show the whole legend");
    }
    if (!clickableAt(position)) {
        const bool isCut = textIn(shown, kMargin) != entry.name;  // then it has a line of its own
        const QStringList parts{isCut ? entry.name : QString(), entry.about};
        return parts.join(QLatin1Char('\n')).trimmed();
    }
    return (entry.hidden ? tr("Click to show: %1\nShift + click to show nothing else")
                         : tr("Click to hide: %1\nShift + click to show nothing else"))
        .arg(entry.name);
}

QSize Legend::sizeHint() const {
    return {600, heightForWidth(std::max(width(), 600))};
}

void Legend::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const TimelineColors colors = timelineColors(palette());
    std::size_t index = 0;
    layOut(shownItems(width()), width(), [&](const Item& item, int x, int line) {
        const int top = 2 + line * lineHeight();
        const QRect box(x, top + (lineHeight() - item.height) / 2, kSwatchWidth, item.height);
        if (item.entry.hidden) {
            drawSwatch(painter, box, colors.lane, Pattern::plain, colors);
        } else if (!item.unfolds) {
            drawSwatch(painter, box, item.entry.ground, item.pattern, colors);
        }
        if (item.entry.over.style() != Qt::NoBrush && !item.entry.hidden) {
            painter.fillRect(box.adjusted(1, 1, 0, 0), item.entry.over);
        }
        if (item.entry.top.isValid()) {
            painter.fillRect(QRect(box.left() + 1, box.top() + 2, box.width() - 1, kSwatchTop), item.entry.top);
        }
        QFont font = this->font();
        font.setStrikeOut(item.entry.hidden);
        painter.setFont(font);
        painter.setPen(item.unfolds        ? palette().color(QPalette::Link)
                       : item.entry.hidden ? colors.faintText
                                           : colors.text);
        painter.drawText(QRect(x + swatchWidth(item), top, width(), lineHeight()), Qt::AlignVCenter | Qt::AlignLeft,
                         textIn(item, x));
        if (hasFocus() && clickable_ && index == current_) {
            painter.setPen(QPen(palette().color(QPalette::Highlight), 2));
            painter.setBrush(Qt::NoBrush);
            painter.drawRect(placeOf(item, x, line).adjusted(-3, 1, 3, -1));
        }
        ++index;
    });
}
}  // namespace pipescope
