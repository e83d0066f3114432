#include "gui/window/command_palette.h"

#include "gui/style/arrange.h"

#include <QApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QPainter>
#include <QRegularExpression>
#include <QStyledItemDelegate>

#include <algorithm>
#include <array>

namespace pipescope {
namespace {
/// A pattern for each word, which takes the place of %1.
QList<QRegularExpression> patternsOf(const QStringList& words, const QString& pattern) {
    QList<QRegularExpression> patterns;
    for (const QString& word : words) {
        patterns.emplace_back(pattern.arg(QRegularExpression::escape(word)), QRegularExpression::CaseInsensitiveOption);
    }
    return patterns;
}

bool hasAll(const QString& text, const QList<QRegularExpression>& patterns) {
    return std::ranges::all_of(patterns, [&](const QRegularExpression& each) { return text.contains(each); });
}

QString lineOf(const MenuEntry& entry) {
    const QString check = entry.action->isCheckable() && entry.action->isChecked() ? QStringLiteral("✓ ") : QString();
    const QString keys = entry.keys().isEmpty() ? QString() : QStringLiteral("    (%1)").arg(entry.keys());
    return check + entry.text() + QStringLiteral("    ") + entry.menus.join(QStringLiteral(" ▸ ")) + keys;
}

/// Draws a command's name, its menus beside it, and its keys at the right edge.
class CommandDelegate : public QStyledItemDelegate {
public:
    CommandDelegate(const QList<MenuEntry>& entries, QObject* parent)
        : QStyledItemDelegate(parent), entries_(entries) {}

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QStyleOptionViewItem item = option;
        initStyleOption(&item, index);
        item.text.clear();
        const QStyle& style = item.widget != nullptr ? *item.widget->style() : *QApplication::style();
        style.drawControl(QStyle::CE_ItemViewItem, &item, painter, item.widget);
        const MenuEntry& entry = entries_[index.data(Qt::UserRole).toLongLong()];
        const bool isSelected = (option.state & QStyle::State_Selected) != 0;
        const auto colorOf = [&](QPalette::ColorRole role) {
            return option.palette.color(isSelected ? QPalette::HighlightedText : role);
        };
        const QRect line = option.rect.adjusted(kMargin, 0, -kMargin, 0);
        const auto draw = [&](QPalette::ColorRole role, const QRect& place, Qt::Alignment side, const QString& text) {
            painter->setPen(colorOf(role));
            painter->drawText(place, static_cast<int>(side | Qt::AlignVCenter | Qt::TextSingleLine),
                              option.fontMetrics.elidedText(text, Qt::ElideRight, place.width()));
            return option.fontMetrics.horizontalAdvance(text);
        };
        const bool isOn = entry.action != nullptr && entry.action->isCheckable() && entry.action->isChecked();
        const QString name = (isOn ? QStringLiteral("✓ ") : QString()) + entry.text();
        const int keys = draw(QPalette::PlaceholderText, line, Qt::AlignRight, entry.keys());
        const QRect rest = line.adjusted(0, 0, -keys - kMargin, 0);
        const int wide = draw(QPalette::Text, rest, Qt::AlignLeft, name);
        draw(QPalette::PlaceholderText, rest.adjusted(std::min(rest.width(), wide + 2 * kMargin), 0, 0, 0),
             Qt::AlignLeft, entry.menus.join(QStringLiteral(" ▸ ")));
    }
    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        return {QStyledItemDelegate::sizeHint(option, index).width(), option.fontMetrics.height() + kMargin};
    }

private:
    static constexpr int kMargin = 8;
    const QList<MenuEntry>& entries_;  // of the dialog, which owns this
};
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
    list_->setItemDelegate(new CommandDelegate(entries_, list_));
    list_->setFrameShape(QFrame::NoFrame);
    list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    arrange(new QVBoxLayout(this), {words_, {list_, 1}});
    for (const MenuEntry& entry : menuEntries(menus)) {
        if (entry.action->isEnabled()) {
            entries_ << entry;
        }
    }
    connect(words_, &QLineEdit::textChanged, this, &CommandPalette::fill);
    connect(words_, &QLineEdit::returnPressed, this, &CommandPalette::runCurrent);
    connect(list_, &QListWidget::itemClicked, this, &CommandPalette::runCurrent);
    fill();
    resize(560, 420);
}

void CommandPalette::fill() {
    list_->clear();
    // The entry of that name comes first, then names with these words, with words that contain them, and menus.
    const QString typed = words_->text().trimmed();
    const QStringList words = typed.split(QLatin1Char(' '), Qt::SkipEmptyParts);
    const QList<QRegularExpression> anywhere = patternsOf(words, QStringLiteral("%1"));
    const QList<QRegularExpression> whole = patternsOf(words, QStringLiteral("(?<!\\w)%1(?!\\w)"));
    std::array<QList<qsizetype>, 4> ranked;
    for (qsizetype index = 0; index < entries_.size(); ++index) {
        const QString name = entries_[index].text();
        if (hasAll(lineOf(entries_[index]), anywhere)) {
            const std::size_t rank = name.compare(typed, Qt::CaseInsensitive) == 0 ? 0
                                     : hasAll(name, whole)                         ? 1
                                     : hasAll(name, anywhere)                      ? 2
                                                                                   : 3;
            ranked[rank] << index;
        }
    }
    for (const QList<qsizetype>& equals : ranked) {
        for (const qsizetype index : equals) {
            auto* item = new QListWidgetItem(lineOf(entries_[index]), list_);
            item->setData(Qt::UserRole, index);
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
