#include "gui/style/theme.h"

#include "base/error.h"
#include "gui/style/task_style.h"

#include <QApplication>
#include <QPalette>
#include <QProxyStyle>
#include <QString>
#include <QWidget>

namespace pipescope {
namespace {
/// Colours of a theme. Text has a contrast of 4.5 or more on each ground, faint text too.
struct ThemeColors {
    QRgb surface;  ///< of window, bars and panels alike
    QRgb paper;    ///< of timelines, tables and fields
    QRgb stripe;   ///< every other row of a table
    QRgb raised;   ///< buttons
    QRgb line;     ///< separators and frames
    QRgb text;
    QRgb faint;
    QRgb disabled;
    QRgb accent;  ///< selections
    QRgb link;    ///< what is on, on the surface
};
constexpr ThemeColors kLight{0xFFF5F6F8, 0xFFFFFFFF, 0xFFF7F8FA, 0xFFFFFFFF, 0xFFD5D9DE,
                             0xFF1C2024, 0xFF5A626B, 0xFF8D949C, 0xFF0B5CAD, 0xFF0B5CAD};
constexpr ThemeColors kDark{0xFF1F2226, 0xFF16181B, 0xFF1B1E21, 0xFF2B2F34, 0xFF363B41,
                            0xFFE6E8EB, 0xFFA3ABB3, 0xFF737A82, 0xFF2B6CB0, 0xFF6CB4F0};

QPalette paletteOf(const ThemeColors& colors) {
    QPalette palette;
    const auto set = [&](QPalette::ColorRole role, QRgb color) { palette.setColor(role, QColor::fromRgb(color)); };
    set(QPalette::Window, colors.surface);
    set(QPalette::Base, colors.paper);
    set(QPalette::AlternateBase, colors.stripe);
    set(QPalette::Button, colors.raised);
    set(QPalette::ToolTipBase, colors.raised);
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText}) {
        set(role, colors.text);
        palette.setColor(QPalette::Disabled, role, QColor::fromRgb(colors.disabled));
    }
    set(QPalette::PlaceholderText, colors.faint);
    set(QPalette::Highlight, colors.accent);
    palette.setColor(QPalette::HighlightedText, Qt::white);
    set(QPalette::Link, colors.link);
    set(QPalette::LinkVisited, colors.link);
    const QColor line = QColor::fromRgb(colors.line);
    set(QPalette::Light, colors.raised);
    set(QPalette::Midlight, colors.line);
    palette.setColor(QPalette::Mid, line);
    palette.setColor(QPalette::Dark, line.darker(120));
    palette.setColor(QPalette::Shadow, Qt::black);
    return palette;
}

/// Flat bars, tabs and headers with thin separators. Controls keep Fusion's shapes.
QString sheetOf(const ThemeColors& colors) {
    const auto name = [](QRgb color) { return QColor::fromRgb(color).name(); };
    QString sheet = QStringLiteral(R"(
QMainWindow::separator { background: %surface; width: 5px; height: 5px; }
QMainWindow::separator:hover { background: %link; }
QSplitter::handle { background: %surface; }
QSplitter::handle:vertical { height: 4px; border-top: 1px solid %line; }
QSplitter::handle:horizontal { width: 4px; border-left: 1px solid %line; }
QSplitter::handle:hover { background: %link; }
QMenuBar { background: %surface; border: none; }
QMenuBar::item { padding: 4px 9px; background: transparent; }
QMenuBar::item:selected { background: %line; border-radius: 4px; }
QToolBar { background: %surface; border: none; border-bottom: 1px solid %line; padding: 0px 6px; spacing: 0px; }
QToolBar::separator { background: %line; width: 1px; margin: 5px 6px; }
QToolBar QToolButton, QToolButton[flat="true"] { border: none; border-radius: 5px; padding: 3px; }
QToolBar QToolButton:hover, QToolButton[flat="true"]:hover { background: %line; }
QToolBar QToolButton:checked, QToolButton[flat="true"]:checked { background: %checked; }
QToolBar QToolButton:focus, QToolButton[flat="true"]:focus { border: 1px solid %link; padding: 2px; }
QDockWidget::title { background: %surface; padding: 6px 8px; border-top: 1px solid %line; }
QTabWidget::pane { border: none; }
QCheckBox::indicator { width: 12px; height: 12px; border: 1px solid %faint; border-radius: 3px; background: %paper; }
QCheckBox::indicator:checked { background: %accent; border-color: %accent; image: url(:/pipescope/icons/check.svg); }
QCheckBox::indicator:disabled { border-color: %line; }
QCheckBox::indicator:focus { border-color: %link; }
QTabBar { qproperty-drawBase: 0; background: %surface; }
QMainWindow > QTabBar { qproperty-elideMode: ElideNone; }
QTabBar::tab { background: transparent; color: %faint; border: none; border-bottom: 2px solid transparent; padding: 5px 7px; }
QTabBar::tab:bottom, QTabBar::tab:south { border-bottom: none; border-top: 2px solid transparent; }
QTabBar::tab:selected { color: %text; border-color: %link; }
QTabBar::tab:hover { color: %text; }
QTabBar::tab:focus { color: %link; }
QHeaderView { background: %paper; border: none; }
QHeaderView::section { background: %paper; color: %faint; border: none; border-bottom: 1px solid %line; padding: 3px 5px; }
QScrollBar { background: %paper; border: none; margin: 0px; }
QScrollBar:vertical { width: 12px; }
QScrollBar:horizontal { height: 12px; }
QScrollBar::handle { background: %disabled; border: 3px solid %paper; border-radius: 6px; }
QScrollBar::handle:hover, QScrollBar::handle:pressed { background: %faint; }
QScrollBar::handle:vertical { min-height: 24px; }
QScrollBar::handle:horizontal { min-width: 24px; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0px; height: 0px; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QToolTip { color: %text; background: %raised; border: 1px solid %line; padding: 3px; }
)");
    const bool dark = colors.paper == kDark.paper;
    for (const auto& [key, color] : {std::pair{"surface", colors.surface},
                                     {"paper", colors.paper},
                                     {"raised", colors.raised},
                                     {"line", colors.line},
                                     {"text", colors.text},
                                     {"disabled", colors.disabled},
                                     {"faint", colors.faint},
                                     {"link", colors.link},
                                     {"accent", colors.accent},
                                     {"checked", dark ? 0xFF22405CU : 0xFFD9E8F7U}}) {
        sheet.replace(QLatin1Char('%') + QLatin1String(key), name(color));
    }
    return sheet;
}
/// Only the Fusion style takes all its colours from the palette.
class ViewerStyle : public QProxyStyle {
public:
    ViewerStyle() : QProxyStyle(QStringLiteral("Fusion")) {}

    int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                  QStyleHintReturn* result) const override {
        // Nobody presses keys in a picture, and an SVG would hold a word in parts, before and after the underlined
        // letter.
        const bool inPicture = widget != nullptr && widget->window()->property(kInPicture).toBool();
        return hint == SH_UnderlineShortcut && inPicture ? 0 : QProxyStyle::styleHint(hint, option, widget, result);
    }

    int pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const override {
        // Beside the text of a table's cell, less one pixel: figures of two columns stay apart.
        constexpr int kCellMargin = 4;
        return metric == PM_FocusFrameHMargin ? kCellMargin : QProxyStyle::pixelMetric(metric, option, widget);
    }
};
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
    // The desktop's choice. The first call saves it before any change.
    static const bool systemIsDark = isDark(QApplication::palette());
    const bool dark = theme == Theme::system ? systemIsDark : theme == Theme::dark;
    const ThemeColors& colors = dark ? kDark : kLight;
    static const bool once = (QApplication::setStyle(new ViewerStyle), true);
    static_cast<void>(once);
    QApplication::setPalette(paletteOf(colors));
    qApp->setStyleSheet(sheetOf(colors));
}
}  // namespace pipescope
