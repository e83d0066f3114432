#pragma once

#include "gui/what_if/scenario_timelines.h"

#include <QAbstractTableModel>
#include <QWidget>

#include <vector>

class QLabel;
class QPushButton;
class QTableView;

namespace pipescope {
/// Figures of pinned scenarios, one per row. The first is the reference.
class PinnedTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    using QAbstractTableModel::QAbstractTableModel;

    void setScenarios(std::vector<PinnedScenario> scenarios);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

private:
    std::vector<PinnedScenario> scenarios_;
};

/// Up to four scenarios side by side: a table of their figures, and their timelines on one axis.
class PinnedScenarios : public QWidget {
    Q_OBJECT

public:
    static constexpr std::size_t kMost = 4;

    explicit PinnedScenarios(QWidget* parent = nullptr);

    /// Pins a scenario that can run. Pins no duplicates. If four are pinned already, shows a message instead.
    void pin(const std::shared_ptr<const SimulatedScenario>& scenario, const QString& name);
    void clear();
    const std::vector<PinnedScenario>& scenarios() const { return scenarios_; }
    QTableView& table() const { return *table_; }
    ScenarioTimelines& timelines() const { return *timelines_; }
    /// Message for the user, such as that all places are taken.
    QString message() const;

Q_SIGNALS:
    /// The user wants to load a pinned scenario into the panel.
    void opened(const pipescope::Scenario& scenario);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void removeSelected();
    void openSelected();
    void refresh();

    std::vector<PinnedScenario> scenarios_;
    PinnedTableModel* model_;
    QTableView* table_;
    ScenarioTimelines* timelines_;
    QLabel* message_;
    QPushButton* remove_;
    QPushButton* open_;
};
}  // namespace pipescope
