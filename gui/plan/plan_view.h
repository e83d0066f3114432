#pragma once

#include "gui/document/scenario.h"
#include "gui/plan/plan_runner.h"
#include "simulator/planner.h"

#include <QWidget>

#include <memory>
#include <optional>

class QCheckBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;
class QTableView;

namespace pipescope {
class ParetoChart;
class PlanFilter;
class PlanForm;
class PlanTableModel;

/// Plans what to rent and how to run it: a form, a background run, the table of candidates and their chart. A double
/// click or Enter opens a candidate as a scenario.
class PlanView : public QWidget {
    Q_OBJECT

public:
    /// `planner` runs in a worker.
    explicit PlanView(QWidget* parent = nullptr, PlanRunner::Planner planner = plan);
    ~PlanView() override;

    /// Null: nothing to plan. `options` are the form's initial values.
    void setProfile(std::shared_ptr<const Profile> profile, const PipelineOptions& options);
    /// Takes changed options of the what-if panel.
    void follow(const PipelineOptions& options);
    void start();
    void cancel() { runner_->cancel(); }
    /// Exports the visible rows in their order. The suffix selects the format, .csv or .json. Throws Error.
    void exportTable(const QString& path) const;
    /// Exports as .png, .svg or .pdf. Throws Error.
    void exportChart(const QString& path) const;

    PlanForm& form() const { return *form_; }
    QTableView& table() const { return *table_; }
    ParetoChart& chart() const { return *chart_; }
    /// Starts the plan, or cancels a running one.
    QPushButton& button() const { return *run_; }
    QProgressBar& progress() const { return *progress_; }
    QString message() const;
    bool hasPlan() const;

Q_SIGNALS:
    void opened(const pipescope::Scenario& scenario);
    void finished();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createSide();
    QWidget* createTop();
    void createTable();
    void connectAll();
    void showPlan(std::shared_ptr<const Plan> plan);
    void showRunning(bool running);
    void openCandidate(std::size_t candidate);
    void openRow(const QModelIndex& row);
    std::optional<std::size_t> candidateOf(const QModelIndex& row) const;
    void selectCandidate(std::size_t candidate);
    void askForExport(bool chart);
    QString summary(const Plan& plan) const;

    std::shared_ptr<const Profile> profile_;
    PlanRunner* runner_;
    PlanTableModel* model_;
    PlanFilter* filter_;
    PlanForm* form_ = nullptr;
    QPushButton* run_ = nullptr;
    QProgressBar* progress_ = nullptr;
    QLabel* message_ = nullptr;
    QLineEdit* filterText_ = nullptr;
    QTableView* table_ = nullptr;
    ParetoChart* chart_ = nullptr;
};
}  // namespace pipescope
