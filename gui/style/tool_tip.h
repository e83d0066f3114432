#pragma once

#include <QHelpEvent>
#include <QToolTip>
#include <QWidget>

namespace pipescope {
/// Answers a tool tip event with the text at its position; no text hides the tip. Returns false for other events.
template <class TextAt>
bool answerToolTip(const QEvent& event, QWidget& widget, TextAt textAt) {
    if (event.type() != QEvent::ToolTip) {
        return false;
    }
    const auto& help = static_cast<const QHelpEvent&>(event);
    QToolTip::showText(help.globalPos(), textAt(help.pos()), &widget);
    return true;
}
}  // namespace pipescope
