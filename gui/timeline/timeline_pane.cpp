#include "gui/timeline/timeline_pane.h"

#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"

#include <QEvent>
#include <QLabel>

namespace pipescope {
TimelinePane::TimelinePane(Source source, TimeAxisModel& axis, QWidget* parent)
    : QWidget(parent),
      source_(source),
      header_(new QWidget(this)),
      title_(new QLabel(ownTitle(), header_)),
      facts_(new ElidedLabel(header_)),
      view_(new TimelineView(source, axis, this)) {
    QFont bold = title_->font();
    bold.setBold(true);
    title_->setFont(bold);
    arrange(new QHBoxLayout(header_), {8, 3, 8, 3}, 12, {title_, {facts_, 1}});
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, 0, {header_, {view_, 1}});
    tint();
}

QString TimelinePane::ownTitle() const {
    return source_ == Source::measured ? tr("MEASURED") : tr("SIMULATED");
}

void TimelinePane::setTitle(const QString& title) {
    title_->setText(title.isEmpty() ? ownTitle() : title);
}

QString TimelinePane::title() const {
    return title_->text();
}

void TimelinePane::setFacts(const QString& facts, const QString& path) {
    const QString step = tr("step time");
    if (path.isEmpty()) {
        facts_->setText(facts, withPart(facts, step, 1));  // and the bubble
        return;
    }
    const QString line = withPartAfter(facts, step, path);
    facts_->setText(line, withPart(line, path));
}

void TimelinePane::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        tint();
    }
}

void TimelinePane::tint() {
    const bool dark = isDark(palette());
    const QRgb measured = dark ? 0xF0B840 : 0x7A4F00;
    const QRgb simulated = dark ? 0x6CB4F0 : 0x0B5CAD;
    QPalette colors = palette();
    colors.setColor(QPalette::WindowText, QColor::fromRgb(source_ == Source::measured ? measured : simulated));
    title_->setPalette(colors);
}
}  // namespace pipescope
