#include "gui/window/shortcut_overlay.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"
#include "gui/window/menu_entries.h"

#include <QDialog>
#include <QDialogButtonBox>
#include <QLabel>
#include <QScrollArea>

namespace pipescope {
namespace {
QString table(const QList<ShortcutLine>& lines) {
    QString html = QStringLiteral("<table cellspacing='0' cellpadding='2'>");
    QString group;
    for (const ShortcutLine& line : lines) {
        if (line.group != group) {
            group = line.group;
            html += QStringLiteral("<tr><td colspan='2'><b>%1</b></td></tr>").arg(group.toHtmlEscaped());
        }
        html += QStringLiteral("<tr><td>&nbsp;&nbsp;%1&nbsp;&nbsp;&nbsp;</td><td>%2</td></tr>")
                    .arg(line.keys.toHtmlEscaped(), line.what.toHtmlEscaped());
    }
    return html + QStringLiteral("</table>");
}
}  // namespace

QList<ShortcutLine> shortcutLines(const QMenuBar& menus) {
    QList<ShortcutLine> lines;
    for (const MenuEntry& entry : menuEntries(menus)) {
        if (!entry.keys().isEmpty()) {
            lines.push_back({entry.menus.front(), entry.keys(), entry.text()});
        }
    }
    const QString timeline = translated("In a timeline");
    lines.push_back({timeline, translated("←, →"), translated("Move left, right; with Shift faster")});
    lines.push_back({timeline, translated("↑, ↓, Page up, Page down"), translated("Scroll the lanes")});
    lines.push_back({timeline, translated("Ctrl + wheel"), translated("Zoom at the pointer")});
    lines.push_back(
        {timeline, translated("Wheel"), translated("Scroll the lanes; with Shift move along the time axis")});
    lines.push_back(
        {timeline, translated("Ctrl + click on a lane's name"), translated("Compare the selected lane with that one")});
    lines.push_back(
        {timeline, translated("Shift + drag"), translated("Measure a range and each lane's busy share in it")});
    lines.push_back({timeline, translated("Click"), translated("Select a task and mark its twin")});
    lines.push_back({timeline, translated("Double click"), translated("Zoom to a task")});
    return lines;
}

QDialog* createShortcutOverlay(const QMenuBar& menus, QWidget* parent) {
    auto* dialog = new QDialog(parent);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setObjectName(QStringLiteral("shortcuts"));
    dialog->setWindowTitle(translated("Shortcuts"));
    const QList<ShortcutLine> lines = shortcutLines(menus);
    const qsizetype half = (lines.size() + 1) / 2;
    auto* content = new QWidget(dialog);
    auto* columns = new QHBoxLayout(content);
    columns->setSpacing(24);
    for (const QList<ShortcutLine>& part : {lines.mid(0, half), lines.mid(half)}) {
        auto* label = new QLabel(table(part), content);
        label->setTextFormat(Qt::RichText);
        columns->addWidget(label, 1, Qt::AlignTop);
    }
    auto* scroll = named(new QScrollArea(dialog), translated("Keys and what they do"));
    scroll->setWidget(content);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    auto* note = new QLabel(translated("Keys without Ctrl or Alt act everywhere except in fields for text."), dialog);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close, dialog);
    QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
    arrange(new QVBoxLayout(dialog), {{scroll, 1}, note, buttons});
    dialog->resize(content->sizeHint().boundedTo(QSize(1240, 760)) + QSize(60, 100));
    return dialog;
}
}  // namespace pipescope
