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
    /// What the panel says while there are no facts.
    void setEmptyText(const QString& title, const QString& text);
    const SelectionFacts& facts() const { return facts_; }
    QTreeWidget& table() const { return *table_; }
    void copy() const;

    /// The link to the changes that would make a bubble shorter; hidden for other selections.
    QLabel& link() const { return *link_; }

Q_SIGNALS:
    /// The user asks what would make bubbles of this root cause shorter.
    void adviceAsked(pipescope::RootCause root);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void fitColumns();
    void shortenNames();
    SelectionFacts facts_;
    QString emptyTitle_;
    QString emptyText_;
    QLabel* title_;
    QLabel* where_;
    QLabel* text_;
    QLabel* link_;
    QTreeWidget* table_;
};
}  // namespace pipescope
