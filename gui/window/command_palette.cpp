#include "gui/window/command_palette.h"

#include "gui/style/arrange.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>

#include <algorithm>

namespace pipescope {
namespace {
/// True if the text contains every word.
bool hasWords(const QString& text, const QString& words) {
    const QStringList all = words.split(QLatin1Char(' '), Qt::SkipEmptyParts);
    return std::all_of(all.begin(), all.end(),
                       [&](const QString& word) { return text.contains(word, Qt::CaseInsensitive); });
}

QString lineOf(const MenuEntry& entry) {
    const QString check = entry.action->isCheckable() && entry.action->isChecked() ? QStringLiteral("✓ ") : QString();
    const QString keys = entry.keys().isEmpty() ? QString() : QStringLiteral("    (%1)").arg(entry.keys());
    return check + entry.text() + QStringLiteral("    ") + entry.menus.join(QStringLiteral(" ▸ ")) + keys;
}
}  // namespace

CommandPalette::CommandPalette(const QMenuBar& menus, QWidget* parent)
    : QDialog(parent), words_(named(new QLineEdit(this), tr("Words of the command"))), list_(new QListWidget(this)) {
    setAttribute(Qt::WA_DeleteOnClose);
    setObjectName(QStringLiteral("palette"));
    setWindowTitle(tr("Commands"));
    list_->setAccessibleName(tr("Commands that contain the words"));
    list_->setFocusPolicy(Qt::NoFocus);
    words_->setPlaceholderText(tr("Type words of a command, such as: slowest step"));
    words_->installEventFilter(this);
    arrange(new QVBoxLayout(this), {words_, {list_, 1}});
    for (const MenuEntry& entry : menuEntries(menus)) {
        if (entry.action->isEnabled()) {
            entries_ << entry;
        }
    }
    connect(words_, &QLineEdit::textChanged, this, &CommandPalette::fill);
    connect(words_, &QLineEdit::returnPressed, this, &CommandPalette::runCurrent);
    connect(list_, &QListWidget::itemActivated, this, &CommandPalette::runCurrent);
    connect(list_, &QListWidget::itemClicked, this, &CommandPalette::runCurrent);
    fill();
    resize(560, 420);
}

void CommandPalette::fill() {
    list_->clear();
    // Words of an entry's own name count before those of its menus.
    for (const bool own : {true, false}) {
        for (qsizetype index = 0; index < entries_.size(); ++index) {
            const MenuEntry& entry = entries_[index];
            const bool named = hasWords(entry.text(), words_->text());
            if (named == own && hasWords(lineOf(entry), words_->text())) {
                auto* item = new QListWidgetItem(lineOf(entry), list_);
                item->setData(Qt::UserRole, index);
            }
        }
    }
    list_->setCurrentRow(0);
}

void CommandPalette::runCurrent() {
    const QListWidgetItem* item = list_->currentItem();
    if (item == nullptr) {
        return;
    }
    const QPointer<QAction> action = entries_[item->data(Qt::UserRole).toLongLong()].action;
    accept();
    // Once the window has the focus again, because actions may depend on it.
    QMetaObject::invokeMethod(
        QCoreApplication::instance(),
        [action] {
            if (action != nullptr) {
                action->trigger();
            }
        },
        Qt::QueuedConnection);
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::KeyPress) {
        const int key = static_cast<const QKeyEvent*>(event)->key();
        if (key == Qt::Key_Up || key == Qt::Key_Down || key == Qt::Key_PageUp || key == Qt::Key_PageDown) {
            QCoreApplication::sendEvent(list_, event);
            return true;
        }
    }
    return QDialog::eventFilter(watched, event);
}
}  // namespace pipescope
