#pragma once

#include <QKeyEvent>

namespace pipescope {
/// True if the event presses Return or Enter.
inline bool pressesEnter(const QEvent& event) {
    if (event.type() != QEvent::KeyPress) {
        return false;
    }
    const int key = static_cast<const QKeyEvent&>(event).key();
    return key == Qt::Key_Return || key == Qt::Key_Enter;
}
}  // namespace pipescope
