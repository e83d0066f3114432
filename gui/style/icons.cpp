#include "gui/style/icons.h"

#include "base/error.h"
#include "gui/style/number_format.h"

#include <QAction>
#include <QFile>
#include <QPainter>
#include <QPalette>
#include <QSvgRenderer>
#include <QToolButton>

#include <algorithm>
#include <array>

static void loadIcons() {
    Q_INIT_RESOURCE(icons);  // a static library's resources are dropped otherwise; must stand outside namespaces
}

namespace pipescope {
namespace {
constexpr char kIconName[] = "lineIcon";  // property of actions and buttons
constexpr char kTool[] = "tool";          // property of actions
/// By Tool.
constexpr std::array kToolIcons{"open", "reload",   "compare", "share",    "back",   "forward",
                                "fit",  "all",      "zoom-in", "zoom-out", "lanes",  "find",
                                "mark", "annotate", "what-if", "advice",   "command"};
constexpr std::array kFirstOfGroup{Tool::back, Tool::find, Tool::what_if};
constexpr std::array kIconSizes{16, 20, 24, 32, 40, 48};

QByteArray drawingOf(const QString& name) {
    loadIcons();
    QFile file(QStringLiteral(":/pipescope/icons/%1.svg").arg(name));
    if (!file.open(QIODevice::ReadOnly)) {
        throw Error("'" + name.toStdString() + "' is no icon of gui/style/icons");
    }
    return file.readAll();
}

QPixmap drawn(QByteArray drawing, const QColor& color, int size) {
    drawing.replace("currentColor", color.name().toLatin1());
    QPixmap pixmap(size, size);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    QSvgRenderer(drawing).render(&painter);
    return pixmap;
}
}  // namespace

QIcon lineIcon(const QString& name, const QPalette& palette) {
    const QByteArray drawing = drawingOf(name);
    QIcon icon;
    for (const int size : kIconSizes) {
        icon.addPixmap(drawn(drawing, palette.color(QPalette::WindowText), size));
        icon.addPixmap(drawn(drawing, palette.color(QPalette::Disabled, QPalette::WindowText), size), QIcon::Disabled);
        icon.addPixmap(drawn(drawing, palette.color(QPalette::Link), size), QIcon::Normal, QIcon::On);
    }
    return icon;
}

QAction& asTool(QAction& action, Tool tool) {
    action.setProperty(kTool, static_cast<int>(tool));
    action.setProperty(kIconName, QString::fromLatin1(kToolIcons.at(static_cast<std::size_t>(tool))));
    action.setIconVisibleInMenu(false);
    return action;
}

QString wordOf(const QAction& tool) {
    const QVariant which = tool.property(kTool);
    switch (which.isValid() ? static_cast<Tool>(which.toInt()) : Tool::all) {
        case Tool::open: return translated("Open");
        case Tool::compare: return translated("Compare");
        case Tool::find: return translated("Find");
        case Tool::what_if: return translated("What if");
        case Tool::advice: return translated("What to change");
        default: return {};
    }
}

QList<QAction*> toolsOf(const QWidget& window) {
    std::array<QAction*, kToolIcons.size()> tools{};
    for (QAction* action : window.findChildren<QAction*>()) {
        if (const QVariant tool = action->property(kTool); tool.isValid()) {
            tools.at(tool.toUInt()) = action;
        }
    }
    QList<QAction*> ordered;
    for (std::size_t tool = 0; tool < tools.size(); ++tool) {
        if (std::ranges::find(kFirstOfGroup, static_cast<Tool>(tool)) != kFirstOfGroup.end()) {
            ordered << nullptr;
        }
        if (tools[tool] != nullptr) {
            ordered << tools[tool];
        }
    }
    return ordered;
}

void refreshIcons(QWidget& window) {
    const auto refresh = [&](auto* each) {
        const QString name = each->property(kIconName).toString();
        if (!name.isEmpty()) {
            each->setIcon(lineIcon(name, window.palette()));
        }
    };
    for (QAction* action : window.findChildren<QAction*>()) {
        refresh(action);
    }
    for (QToolButton* button : window.findChildren<QToolButton*>()) {
        refresh(button);
    }
}

QToolButton* iconButton(const char* icon, const QString& text, QWidget* parent) {
    auto* button = new QToolButton(parent);
    button->setProperty("flat", true);
    button->setProperty(kIconName, QString::fromLatin1(icon));
    button->setIcon(lineIcon(QString::fromLatin1(icon), parent->palette()));
    button->setToolTip(text);
    button->setAccessibleName(text);
    button->setAutoRaise(true);
    button->setFocusPolicy(Qt::TabFocus);
    return button;
}
}  // namespace pipescope
