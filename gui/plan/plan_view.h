#pragma once

#include "gui/document/scenario.h"
#include "gui/plan/candidates_view.h"
#include "gui/plan/plan_runner.h"
#include "simulator/plan/planner.h"

#include <memory>
#include <optional>

namespace pipescope {
struct ModelError;

class PlanFilter;
class PlanForm;
class PlanTableModel;

/// Plans what to rent and how to run it, in the background. A candidate opens as a scenario.
class PlanView : public CandidatesView {
    Q_OBJECT

public:
    /// `planner` runs in a worker.
    explicit PlanView(QWidget* parent = nullptr, PlanRunner::Planner planner = plan);
    ~PlanView() override;

    /// Null: nothing to plan. `options` are the form's initial values. `part`: the part of a step that the profile is
    /// of, as part_text(), if it is not the whole step.
    void setProfile(std::optional<CheckedProfile> profile, const PipelineOptions& options, const QString& part = {});
    /// The error of the simulation on the recorded run, which holds for the plan's steps too; empty if unknown.
    void setModelError(const std::optional<ModelError>& error);
    /// Takes changed options of the what-if panel.
    void follow(const PipelineOptions& options);
    void start();
    void cancel() { runner_->cancel(); }
    /// Exports the visible rows in their order. The suffix selects the format, .csv or .json. Throws Error.
    void exportTable(const QString& path) const;
    /// Exports as .png, .svg or .pdf. Throws Error.
    void exportChart(const QString& path) const;

    PlanForm& form() const { return *form_; }
    void openCandidate(std::size_t candidate) override;
    bool hasPlan() const;

Q_SIGNALS:
    void opened(const pipescope::Scenario& scenario);

private:
    void arrangeColumns();
    void showPlan(std::shared_ptr<const Plan> plan);
    void askForExport(bool chart);
    QString summary(const Plan& plan) const;

    std::optional<CheckedProfile> profile_;
    QString ofPart_;   // a sentence; empty for whole steps
    QString ofError_;  // a sentence; empty if the error of the simulation is not known
    PlanRunner* runner_;
    PlanTableModel* model_;
    PlanFilter* filter_;
    PlanForm* form_ = nullptr;
};
}  // namespace pipescope
