#pragma once

#include <QString>

#include <functional>

class QAbstractItemModel;
class QWidget;

namespace pipescope {
/// A chart or table of the window that can be exported. Each function refers to the current tab at the time of the
/// call.
struct WindowExport {
    QString text;                                      ///< of its menu entry
    QString file;                                      ///< the proposed name without suffix; unique
    QString remedy;                                    ///< what to do if there is nothing to export
    std::function<QWidget*()> widget;                  ///< the chart, or the widget of the table; null: does not exist
    std::function<const QAbstractItemModel*()> model;  ///< a table's rows; empty for a chart
    std::function<bool()> holds;                       ///< true if there is something to export; empty: always

    bool isTable() const { return model != nullptr; }
    bool isThere() const { return widget() != nullptr && (!holds || holds()); }
    /// Proposed name, and filter of the file dialog.
    QString fileName() const { return file + (isTable() ? QStringLiteral(".csv") : QStringLiteral(".png")); }
    QString fileFilter() const;
};

/// Exports a chart as .png, .svg or .pdf, as on screen, or at its preferred size if it is hidden behind another panel.
/// Exports a table as .csv or .json. Throws Error, with the remedy if there is nothing to export.
void saveExport(const WindowExport& what, const QString& path);
}  // namespace pipescope
