#include "gui/style/elided_label.h"

#include <QPainter>

#include <algorithm>

namespace pipescope {
QStringList withoutLastParts(const QString& line) {
    QStringList parts = line.split(kPartSeparator);
    QStringList shorter;
    while (parts.size() > 1) {
        parts.removeLast();
        shorter << parts.join(kPartSeparator);
    }
    return shorter;
}

QStringList withPart(const QString& line, const QString& word, qsizetype after) {
    QStringList parts = line.split(kPartSeparator);
    const auto isIt = [&](const QString& part) { return part.contains(word); };
    if (std::none_of(parts.begin(), parts.end(), isIt)) {
        return withoutLastParts(line);
    }
    QStringList shorter;
    while (parts.size() > 1) {
        const auto place = std::find_if(parts.begin(), parts.end(), isIt) - parts.begin();
        if (place > 0 && parts.size() - 1 <= place + after) {
            parts.removeFirst();
        } else {
            parts.removeLast();
        }
        shorter << parts.join(kPartSeparator);
    }
    return shorter;
}

QString withPartAfter(const QString& line, const QString& word, const QString& added) {
    QStringList parts = line.split(kPartSeparator);
    const auto found = std::ranges::find_if(parts, [&](const QString& part) { return part.contains(word); });
    parts.insert(found == parts.end() ? found : found + 1, added);
    return parts.join(kPartSeparator);
}

ElidedLabel::ElidedLabel(QWidget* parent) : QWidget(parent) {
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
}

void ElidedLabel::setText(const QString& text, const QStringList& shorter) {
    text_ = text;
    shorter_ = shorter;
    setToolTip(text);
    setAccessibleName(text);
    update();
}

void ElidedLabel::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.setPen(palette().color(QPalette::WindowText));
    painter.drawText(rect(), Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, shownText());
}

QString ElidedLabel::shownText() const {
    for (const QString& each : QStringList{text_} + shorter_) {
        if (fontMetrics().horizontalAdvance(each) <= width()) {
            return each;
        }
    }
    return fontMetrics().elidedText(shorter_.isEmpty() ? text_ : shorter_.back(), Qt::ElideRight, width());
}
}  // namespace pipescope
