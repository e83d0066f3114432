#pragma once

#include <QString>

#include <functional>

class QAbstractItemModel;
class QWidget;

namespace pipescope {
/// A chart or a table of the window that can be written into a file. Each function looks at the current tab when it is
/// called.
struct WindowExport {
    QString text;                                      ///< of its entry in the menu
    QString file;                                      ///< the proposed name without an ending; no other has it
    QString remedy;                                    ///< what to do while there is nothing to write
    std::function<QWidget*()> widget;                  ///< the chart, or what shows the table; null: it is not there
    std::function<const QAbstractItemModel*()> model;  ///< a table's rows; empty for a chart
    std::function<bool()> holds;                       ///< whether there is something to write; empty: always

    bool isTable() const { return model != nullptr; }
    bool isThere() const { return widget() != nullptr && (!holds || holds()); }
    /// The proposed name, and what the file dialog offers.
    QString fileName() const { return file + (isTable() ? QStringLiteral(".csv") : QStringLiteral(".png")); }
    QString fileFilter() const;
};

/// A chart as .png, .svg or .pdf, as it stands on screen, or at the size it would like behind another panel; a table as
/// .csv or .json. Throws Error, with the remedy where there is nothing to write.
void saveExport(const WindowExport& what, const QString& path);
}  // namespace pipescope
