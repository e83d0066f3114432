#include "gui/tables/filter_line.h"

#include <QKeyEvent>
#include <QTableView>

namespace pipescope {
FilterLine::FilterLine(QTableView& table, const QString& name, QWidget* parent) : QLineEdit(parent), table_(table) {
    setAccessibleName(name);
    setPlaceholderText(tr("filter ( / )"));
    setToolTip(tr("Lists the rows that contain every word"));
    setClearButtonEnabled(true);
    table_.installEventFilter(this);
}

bool FilterLine::eventFilter(QObject* watched, QEvent* event) {
    if (watched == &table_ && event->type() == QEvent::KeyPress &&
        static_cast<const QKeyEvent*>(event)->text() == QLatin1String("/")) {
        setFocus(Qt::ShortcutFocusReason);
        selectAll();
        return true;
    }
    return QLineEdit::eventFilter(watched, event);
}

void FilterLine::keyPressEvent(QKeyEvent* event) {
    switch (event->key()) {
        case Qt::Key_Escape:
            if (text().isEmpty()) {
                goToTable();
            } else {
                clear();
            }
            break;
        case Qt::Key_Return:
        case Qt::Key_Enter:
        case Qt::Key_Down: goToTable(); break;
        default: QLineEdit::keyPressEvent(event);
    }
}

void FilterLine::goToTable() {
    table_.setFocus(Qt::ShortcutFocusReason);
}
}  // namespace pipescope
