#pragma once

#include <QKeyEvent>
#include <QLineEdit>
#include <QObject>

namespace pipescope {
/// Leaves Ctrl+Z and Ctrl+Y in a field to the window, which undoes changes of values, unless the field holds text that
/// was typed and not taken yet. Call QLineEdit::setModified(false) once it is taken.
class UndoKeys : public QObject {
public:
    /// `field` has the focus, and `line` the text: the same widget, or the line of an editable combo box.
    UndoKeys(QWidget& field, QLineEdit& line) : QObject(&field), line_(line) { field.installEventFilter(this); }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override {
        if (event->type() == QEvent::ShortcutOverride && !line_.isModified()) {
            const auto& key = *static_cast<QKeyEvent*>(event);
            if (key.matches(QKeySequence::Undo) || key.matches(QKeySequence::Redo)) {
                event->ignore();
                return true;
            }
        }
        return QObject::eventFilter(watched, event);
    }

private:
    QLineEdit& line_;
};
}  // namespace pipescope
