#pragma once

#include "gui/tables/selection_facts.h"

#include <QWidget>

class QLabel;
class QTreeWidget;

namespace pipescope {
/// The inspector: shows facts about what is selected, or how to select something. Ctrl+C, and an entry of the context
/// menu, copy all of it as text.
class SelectionPanel : public QWidget {
    Q_OBJECT

public:
    explicit SelectionPanel(QWidget* parent = nullptr);

    /// Empty facts: nothing is selected.
    void setFacts(SelectionFacts facts);
    const SelectionFacts& facts() const { return facts_; }
    QTreeWidget& table() const { return *table_; }
    void copy() const;

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void fitColumns();
    void shortenNames();
    SelectionFacts facts_;
    QLabel* title_;
    QLabel* where_;
    QLabel* text_;
    QTreeWidget* table_;
};
}  // namespace pipescope
