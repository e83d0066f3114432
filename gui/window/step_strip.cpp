#include "gui/window/step_strip.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/tool_tip.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr double kWidest = 28;     // pixels of a bar, with the gap to the next one
constexpr double kNarrowest = 2;   // below that, a bar stands for several steps
constexpr double kTallest = 2.5;   // medians; taller bars are cut, under a mark
constexpr double kGapFrom = 4;     // pixels of a bar that has a gap
constexpr int kNarrowStrip = 640;  // pixels of a strip without facts

QColor barColor(const QPalette& palette) {
    return QColor::fromRgb(isDark(palette) ? 0x7E96AC : 0x8FA6BA);
}

QColor faded(QColor color, const QColor& ground) {
    constexpr float kKept = 0.4F;
    return QColor::fromRgbF(color.redF() * kKept + ground.redF() * (1 - kKept),
                            color.greenF() * kKept + ground.greenF() * (1 - kKept),
                            color.blueF() * kKept + ground.blueF() * (1 - kKept));
}
}  // namespace

StepStrip::StepStrip(QWidget* parent) : QWidget(parent), history_(std::make_shared<StepHistory>()) {
    setAccessibleName(tr("Steps of the run"));
    setFocusPolicy(Qt::StrongFocus);
    setCursor(Qt::PointingHandCursor);
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Maximum);
    hide();
}

void StepStrip::setHistory(std::shared_ptr<const StepHistory> history) {
    const std::optional<std::int32_t> step = chosen_ ? std::optional(history_->steps[*chosen_].step) : std::nullopt;
    history_ = std::move(history);
    chosen_ = step ? history_->find(*step) : std::nullopt;
    facts_ = makeFacts();
    measureFacts();
    timeAtTop_ = timeAtTop();
    showIfWanted();
    refresh();
}

void StepStrip::setStep(std::int32_t step) {
    chosen_ = history_->find(step);
    refresh();
}

void StepStrip::setShown(bool shown) {
    shown_ = shown;
    showIfWanted();
}

void StepStrip::setRoom(bool room) {
    room_ = room;
    showIfWanted();
}

void StepStrip::showIfWanted() {
    setVisible(room_ && isWanted());
}

void StepStrip::setGutter(int width) {
    gutter_ = width;
    update();
}

void StepStrip::refresh() {
    QString text = facts().join(QStringLiteral("; "));
    if (chosen_) {
        text = tr("Chosen: %1. %2").arg(history_->describe(*chosen_), text);
    }
    setAccessibleDescription(tr("%1. The arrow keys choose a step.").arg(text));
    update();
}

QStringList StepStrip::makeFacts() const {
    if (!history_->median) {
        return {};
    }
    const auto stepAt = [&](std::size_t index) {
        const StepEntry& entry = history_->steps[index];
        return tr("%1 (step %2)").arg(formatDuration(entry.time.count())).arg(entry.step);
    };
    if (!history_->whyNoTime.isEmpty()) {
        return {tr("lengths of the recorded lanes alone:"),
                tr("%1 to %2").arg(stepAt(*history_->fastest), stepAt(*history_->slowest))};
    }
    if (history_->counted == 1) {
        return {tr("one step counts: %1").arg(stepAt(*history_->median))};
    }
    const StepEntry& middle = history_->steps[*history_->median];
    QStringList lines{(middle.time == history_->medianTime ? tr("median %1 (step %2)") : tr("median %1 (near step %2)"))
                          .arg(formatDuration(history_->medianTime.count()))
                          .arg(middle.step),
                      tr("%1 to %2").arg(stepAt(*history_->fastest), stepAt(*history_->slowest))};
    if (const std::size_t slow = history_->numSlow(); slow > 0) {
        lines[0] += tr(", %1 slow").arg(slow);
    }
    if (const QString loss = lossFact(); !loss.isEmpty()) {
        lines << loss;
    }
    return lines;
}

QString StepStrip::lossFact() const {
    const auto text = [](double loss) { return QLocale().toString(loss, 'g', 4); };
    std::vector<const StepEntry*> spikes;
    std::size_t noNumber = 0;
    for (const StepEntry& entry : history_->steps) {
        noNumber += entry.lossIsNoNumber() ? 1 : 0;
        if (entry.spike) {
            spikes.push_back(&entry);
        }
    }
    if (history_->leastLoss > history_->mostLoss) {
        return noNumber > 0 ? tr("no loss is a number") : QString();
    }
    QString line = tr("loss %1 to %2").arg(text(history_->leastLoss), text(history_->mostLoss));
    if (spikes.size() == 1) {
        line += tr(", %1 in step %2").arg(text(*spikes.front()->loss)).arg(spikes.front()->step);
    } else if (!spikes.empty()) {
        line += tr(", %1 spikes").arg(spikes.size());
    }
    return noNumber > 0 ? line + tr(", %1 no number").arg(noNumber) : line;
}

void StepStrip::measureFacts() {
    factsWidth_ = 0;
    for (const QString& line : facts_) {
        factsWidth_ = std::max(factsWidth_, fontMetrics().horizontalAdvance(line) + 16);
    }
}

QSize StepStrip::sizeHint() const {
    return {600, 3 * fontMetrics().height() + 6};
}

QRect StepStrip::barsRect() const {
    const int right = width() >= kNarrowStrip ? std::max(4, factsWidth_) : 4;
    return {gutter_, 3, std::max(1, width() - gutter_ - right), std::max(1, height() - 6 - axisHeight())};
}

int StepStrip::axisHeight() const {
    return height() >= sizeHint().height() ? fontMetrics().height() : 0;
}

std::vector<StepStrip::AxisLabel> StepStrip::axisLabels() const {
    std::vector<AxisLabel> labels;
    if (history_->steps.empty() || axisHeight() == 0) {
        return labels;
    }
    constexpr double kGap = 8;
    const QRect bars = barsRect();
    const QFontMetricsF metrics(font());
    const auto beside = [&](double y, const QString& text) {
        const double wide = std::ceil(metrics.horizontalAdvance(text)) + 1;
        labels.push_back({QRectF(bars.left() - 6 - wide, y, wide, metrics.height()), text});
    };
    beside(bars.top(), formatDuration(std::llround(timeAtTop_)));
    beside(bars.bottom() + 1 - metrics.height(), QStringLiteral("0"));
    double widest = 0;
    for (const std::size_t place : {std::size_t{0}, numBars() - 1}) {
        widest = std::max(widest, metrics.horizontalAdvance(QString::number(history_->steps[bar(place).first].step)));
    }
    std::size_t each = 1;  // bars from label to label: 1, 2, 5, 10, ..
    for (int k = 0; static_cast<double>(each) * bar(0).rect.width() < widest + kGap && each < numBars(); ++k) {
        each = k % 3 == 1 ? each / 2 * 5 : each * 2;
    }
    double free = bars.left() - kGap;
    for (std::size_t place = 0; place < numBars(); place += each) {
        const Bar of = bar(place);
        const QString text = QString::number(history_->steps[of.first].step);
        const double wide = std::ceil(metrics.horizontalAdvance(text)) + 1;
        const double left = std::max<double>(bars.left(), of.rect.center().x() - wide / 2);
        if (left >= free + kGap / 2 && left + wide <= bars.right() + 1) {
            labels.push_back({QRectF(left, bars.bottom() + 3, wide, metrics.height()), text, true});
            free = left + wide;
        }
    }
    return labels;
}

std::size_t StepStrip::numBars() const {
    const auto room = static_cast<std::size_t>(std::max(1.0, barsRect().width() / kNarrowest));
    return std::min(history_->steps.size(), room);
}

StepStrip::Bar StepStrip::bar(std::size_t place) const {
    const std::size_t bars = numBars();
    const std::size_t steps = history_->steps.size();
    const QRect all = barsRect();
    const double wide = std::min(kWidest, static_cast<double>(all.width()) / static_cast<double>(bars));
    return {place * steps / bars,
            (place + 1) * steps / bars,
            {all.left() + static_cast<double>(place) * wide, static_cast<double>(all.top()), wide,
             static_cast<double>(all.height())}};
}

std::optional<StepStrip::Bar> StepStrip::barOf(std::int32_t step) const {
    const std::optional<std::size_t> index = history_->find(step);
    if (!index) {
        return std::nullopt;
    }
    std::size_t place = *index * numBars() / history_->steps.size();
    while (bar(place).end <= *index) {
        ++place;
    }
    return bar(place);
}

std::optional<StepStrip::Bar> StepStrip::barAt(double x) const {
    if (history_->steps.empty() || x < barsRect().left()) {
        return std::nullopt;
    }
    const double place = (x - barsRect().left()) / bar(0).rect.width();
    return place < static_cast<double>(numBars()) ? std::optional(bar(static_cast<std::size_t>(place))) : std::nullopt;
}

std::size_t StepStrip::slowestOf(const Bar& bar) const {
    std::size_t slowest = bar.first;
    for (std::size_t index = bar.first; index < bar.end; ++index) {
        slowest = history_->steps[index].time > history_->steps[slowest].time ? index : slowest;
    }
    return slowest;
}

std::size_t StepStrip::fastestOf(const Bar& bar) const {
    std::size_t fastest = bar.first;
    for (std::size_t index = bar.first; index < bar.end; ++index) {
        fastest = history_->steps[index].time < history_->steps[fastest].time ? index : fastest;
    }
    return fastest;
}

double StepStrip::timeAtTop() const {
    if (!history_->median) {
        return 1;
    }
    Nanoseconds longest{1};
    for (const StepEntry& entry : history_->steps) {
        longest = std::max(longest, entry.time);
    }
    const auto median = static_cast<double>(history_->steps[*history_->median].time.count());
    return std::max(1.0, std::min(static_cast<double>(longest.count()), kTallest * median));
}

void StepStrip::pickAt(const QMouseEvent& event) {
    const std::optional<Bar> bar = barAt(event.position().x());
    if (bar && (event.buttons() & Qt::LeftButton) != 0) {
        goTo(slowestOf(*bar));
    }
}

void StepStrip::move(std::int64_t by) {
    const auto last = std::ssize(history_->steps) - 1;
    const auto from = static_cast<std::int64_t>(chosen_.value_or(0));
    if (last >= 0) {
        goTo(static_cast<std::size_t>(std::clamp<std::int64_t>(from + by, 0, last)));
    }
}

void StepStrip::goTo(std::optional<std::size_t> index) {
    if (index) {
        Q_EMIT picked(history_->steps.at(*index).step);
    }
}

void StepStrip::keyPressEvent(QKeyEvent* event) {
    const auto all = std::ssize(history_->steps);
    switch (event->key()) {
        case Qt::Key_Left: move(-1); break;
        case Qt::Key_Right: move(1); break;
        case Qt::Key_Home: move(-all); break;
        case Qt::Key_End: move(all); break;
        default: QWidget::keyPressEvent(event);
    }
}

bool StepStrip::event(QEvent* event) {
    if (event->type() == QEvent::ShortcutOverride) {  // otherwise Home shows the whole trace
        const int key = static_cast<const QKeyEvent*>(event)->key();
        if (key == Qt::Key_Home || key == Qt::Key_End) {
            event->accept();
        }
    }
    return answerToolTip(*event, *this, [this](const QPoint& at) { return toolTipAt(at); }) || QWidget::event(event);
}

void StepStrip::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::FontChange || event->type() == QEvent::StyleChange) {
        measureFacts();
    }
}

QString StepStrip::toolTipAt(const QPoint& position) const {
    const std::optional<Bar> bar = barAt(position.x());
    if (!bar) {
        return facts().join(QLatin1Char('\n'));
    }
    if (bar->end - bar->first == 1) {
        return history_->describe(bar->first);
    }
    return tr("steps %1 to %2: %3 to %4\nA click chooses the slowest, %5")
        .arg(history_->steps[bar->first].step)
        .arg(history_->steps[bar->end - 1].step)
        .arg(formatDuration(history_->steps[fastestOf(*bar)].time.count()),
             formatDuration(history_->steps[slowestOf(*bar)].time.count()), history_->describe(slowestOf(*bar)));
}

void StepStrip::paintBar(QPainter& painter, const Bar& bar) const {
    const StepEntry& slowest = history_->steps[slowestOf(bar)];
    const StepEntry& fastest = history_->steps[fastestOf(bar)];
    const TimelineColors colors = timelineColors(palette());
    const auto rectOf = [&](double from, double to) {
        const double gap = bar.rect.width() >= kGapFrom ? 1 : 0;
        const double bottom = bar.rect.bottom() - from / timeAtTop_ * bar.rect.height();
        const double end = bar.rect.bottom() - std::min(1.0, to / timeAtTop_) * bar.rect.height();
        return QRectF(bar.rect.left(), end, bar.rect.width() - gap, std::max(0.0, bottom - end));
    };
    QColor color = slowest.slow ? QColor::fromRgb(okabe_ito::kVermillion) : barColor(palette());
    const bool counts = !slowest.warmup && !slowest.cutOff && !slowest.faulty;
    if (!counts) {
        color = faded(color, colors.paper);
    }
    const auto shortest = static_cast<double>(fastest.time.count());
    const auto longest = static_cast<double>(slowest.time.count());
    painter.fillRect(rectOf(0, longest), faded(color, colors.paper));
    const double busy = bar.end - bar.first == 1 && slowest.bubble ? 1 - *slowest.bubble : 1;
    painter.fillRect(rectOf(0, shortest * busy), color);
    if (slowest.slow) {  // colour is not the only sign
        const double size = std::clamp(bar.rect.width(), 4.0, 7.0);
        const double x = bar.rect.center().x() - 0.5;
        const double y = std::max(bar.rect.top() - 1, rectOf(0, longest).top() - size);
        QPainterPath mark;
        mark.moveTo(x, y);
        mark.lineTo(x - size / 2, y + size);
        mark.lineTo(x + size / 2, y + size);
        painter.fillPath(mark, colors.text);
    }
    if (!counts && bar.rect.width() >= kGapFrom) {
        painter.setPen(colors.faintText);
        paintPattern(painter, rectOf(0, longest), Pattern::hatched, colors.faintText);
    }
}

const StepEntry& StepStrip::lossStep(const Bar& bar) const {
    return history_->lossStepOf(bar.first, bar.end);
}

StepStrip::LossMark StepStrip::lossMark(std::size_t place) const {
    const StepEntry& entry = lossStep(bar(place));
    return entry.lossIsNoNumber() ? LossMark::no_number : entry.spike ? LossMark::spike : LossMark::none;
}

std::optional<QPointF> StepStrip::lossPoint(std::size_t place) const {
    const Bar each = bar(place);
    const std::optional<double>& loss = lossStep(each).loss;
    if (!loss || !std::isfinite(*loss)) {
        return std::nullopt;
    }
    const double range = history_->mostLoss - history_->leastLoss;
    const double height = range > 0                     ? std::clamp((*loss - history_->leastLoss) / range, 0.0, 1.0)
                          : *loss > history_->mostLoss  ? 1
                          : *loss < history_->leastLoss ? 0
                                                        : 0.5;
    return QPointF(each.rect.center().x(), each.rect.bottom() - 2 - height * (each.rect.height() - 4));
}

void StepStrip::paintLossMark(QPainter& painter, const QPointF& at, LossMark mark) const {
    constexpr double kHalf = 3.5;
    QPainterPath path;
    if (mark == LossMark::spike) {
        path.addPolygon(QPolygonF({at + QPointF(0, -kHalf), at + QPointF(kHalf, 0), at + QPointF(0, kHalf),
                                   at + QPointF(-kHalf, 0), at + QPointF(0, -kHalf)}));
    } else {
        path.moveTo(at + QPointF(-kHalf, -kHalf));
        path.lineTo(at + QPointF(kHalf, kHalf));
        path.moveTo(at + QPointF(-kHalf, kHalf));
        path.lineTo(at + QPointF(kHalf, -kHalf));
    }
    painter.setPen(QPen(timelineColors(palette()).paper, 4));
    painter.drawPath(path);
    painter.setPen(QPen(timelineColors(palette()).text, 1.5));
    painter.setBrush(mark == LossMark::spike ? QBrush(timelineColors(palette()).text) : QBrush(Qt::NoBrush));
    painter.drawPath(path);
    painter.setBrush(Qt::NoBrush);
}

void StepStrip::paintLoss(QPainter& painter) const {
    QPainterPath path;
    std::vector<std::pair<QPointF, LossMark>> marks;
    bool drawing = false;
    bool isLine = false;
    double last = 0;
    for (std::size_t place = 0; place < numBars(); ++place) {
        const std::optional<QPointF> at = lossPoint(place);
        if (const LossMark mark = lossMark(place); mark != LossMark::none) {
            const QRectF column = bar(place).rect;
            marks.emplace_back(at.value_or(QPointF(column.center().x(), column.top() + 2)), mark);
        }
        if (!at) {
            drawing = false;  // a gap
            continue;
        }
        last = *lossStep(bar(place)).loss;
        if (drawing) {
            isLine = true;
            path.lineTo(*at);
        } else {
            path.moveTo(*at);
        }
        drawing = true;
    }
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(timelineColors(palette()).paper, 3));
    painter.drawPath(path);
    painter.setPen(QPen(timelineColors(palette()).text, 1.2));
    painter.drawPath(path);
    for (const auto& [at, mark] : marks) {
        paintLossMark(painter, {at.x(), std::clamp(at.y(), barsRect().top() + 3.5, barsRect().bottom() - 3.5)}, mark);
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
    const QString label = tr("loss %1").arg(QLocale().toString(last, 'g', 4));
    const QPointF end = path.currentPosition();
    const double left = bar(numBars() - 1).rect.right() + 4;
    if (isLine && left + fontMetrics().horizontalAdvance(label) < barsRect().right()) {
        painter.drawText(
            QRectF(left, end.y() - fontMetrics().height() / 2.0, barsRect().right() - left, fontMetrics().height()),
            Qt::AlignVCenter | Qt::AlignLeft, label);
    }
}

void StepStrip::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setFont(font());
    const TimelineColors colors = timelineColors(palette());
    const QRect all = barsRect();
    painter.fillRect(rect(), palette().color(QPalette::Window));
    painter.setPen(colors.faintText);
    const int ofName = axisHeight() > 0 ? all.bottom() + 3 : 0;
    painter.drawText(QRect(4, ofName, all.left() - 10, axisHeight() > 0 ? axisHeight() : height()),
                     Qt::AlignVCenter | Qt::AlignRight, tr("steps"));
    if (history_->steps.empty()) {
        return;
    }
    for (const AxisLabel& label : axisLabels()) {
        painter.drawText(label.rect, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, label.text);
    }
    painter.fillRect(QRectF(all.left(), all.top(), bar(numBars() - 1).rect.right() - all.left(), all.height()),
                     colors.paper);
    for (std::size_t place = 0; place < numBars(); ++place) {
        paintBar(painter, bar(place));
    }
    paintLoss(painter);
    if (chosen_) {
        const QRectF column = barOf(history_->steps[*chosen_].step)->rect;
        const double more = std::max(0.0, 5 - column.width()) / 2;
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(hasFocus() ? palette().color(QPalette::Highlight) : colors.selection, 2));
        painter.drawRect(column.adjusted(-more, 0, more - 1, 0));
    }
    if (width() >= kNarrowStrip) {
        painter.setPen(colors.faintText);
        for (int line = 0; line < facts_.size(); ++line) {
            const int top = 3 + line * fontMetrics().height();
            painter.drawText(QRect(0, top, width() - 8, fontMetrics().height()), Qt::AlignRight | Qt::AlignVCenter,
                             facts_[line]);
        }
    }
}
}  // namespace pipescope
