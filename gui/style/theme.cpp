#include "gui/style/theme.h"

#include "schedule/error.h"

#include <QApplication>
#include <QPalette>
#include <QString>
#include <QStyle>
#include <QStyleFactory>

namespace pipescope {
namespace {
QPalette darkPalette() {
    QPalette palette;
    const QColor window = QColor::fromRgb(0x2B2E31);
    const QColor base = QColor::fromRgb(0x1B1D1F);
    const QColor text = QColor::fromRgb(0xE8E8E8);
    const QColor faint = QColor::fromRgb(0x8A8F94);
    palette.setColor(QPalette::Window, window);
    palette.setColor(QPalette::Base, base);
    palette.setColor(QPalette::AlternateBase, QColor::fromRgb(0x24272A));
    palette.setColor(QPalette::Button, QColor::fromRgb(0x3A3E42));
    palette.setColor(QPalette::ToolTipBase, window);
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText}) {
        palette.setColor(role, text);
        palette.setColor(QPalette::Disabled, role, faint);
    }
    palette.setColor(QPalette::PlaceholderText, faint);
    palette.setColor(QPalette::Highlight, QColor::fromRgb(0x2F6EA5));
    palette.setColor(QPalette::HighlightedText, Qt::white);
    palette.setColor(QPalette::Link, QColor::fromRgb(0x6CB4F0));
    palette.setColor(QPalette::Light, QColor::fromRgb(0x4A4F54));
    palette.setColor(QPalette::Midlight, QColor::fromRgb(0x42464A));
    palette.setColor(QPalette::Mid, QColor::fromRgb(0x202326));
    palette.setColor(QPalette::Dark, QColor::fromRgb(0x17191B));
    palette.setColor(QPalette::Shadow, Qt::black);
    return palette;
}
}  // namespace

Theme parseTheme(const QString& name) {
    if (name == QLatin1String("system")) {
        return Theme::system;
    }
    if (name == QLatin1String("light")) {
        return Theme::light;
    }
    if (name == QLatin1String("dark")) {
        return Theme::dark;
    }
    throw UsageError("theme '" + name.toStdString() + "' is not known; choose system, light or dark");
}

void applyTheme(Theme theme) {
    // The desktop's settings, to restore them. The first call saves them before any change.
    static const QPalette systemPalette = QApplication::palette();
    static const QString systemStyle = QApplication::style()->name();
    if (theme == Theme::system) {
        QApplication::setStyle(QStyleFactory::create(systemStyle));
        QApplication::setPalette(systemPalette);
        return;
    }
    // Only the Fusion style takes all its colours from the palette.
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QApplication::setPalette(theme == Theme::dark ? darkPalette() : QApplication::style()->standardPalette());
}
}  // namespace pipescope
