#pragma once

#include "base/scratch_folder.h"
#include "gui/plan/candidates_view.h"
#include "gui/plan/cluster_plan_form.h"
#include "gui/style/work_pool.h"
#include "gui/tables/column_model.h"
#include "profiler/profile/profile.h"

#include <memory>
#include <optional>

class QTimer;

namespace pipescope {
class TableFilter;

/// The candidates of a plan for a cluster, best first, as `pipescope plan --cluster` prints them.
class ClusterPlanModel : public ColumnModel<const ClusterCandidate*> {
public:
    explicit ClusterPlanModel(QObject* parent);
    /// Null: no plan yet.
    void setPlan(std::shared_ptr<const ClusterPlan> plan);
    const ClusterPlan* plan() const { return plan_.get(); }
    int rowCount(const QModelIndex& parent = {}) const override;
    /// False for a column that says the same of every plan that does not use its kind of parallelism, if this one does
    /// not.
    bool isUsed(int column) const;

protected:
    const ClusterCandidate* rowOf(const QModelIndex& index) const override;

private:
    std::shared_ptr<const ClusterPlan> plan_;
};

/// Plans what to rent of a cluster, in the background. A candidate that is opened is simulated, and the timeline of one
/// replica written into a trace, which is deleted with the view.
class ClusterPlanView : public CandidatesView {
    Q_OBJECT

public:
    explicit ClusterPlanView(QWidget* parent = nullptr);
    ~ClusterPlanView() override;

    /// The profile to plan for while no model is named. Null: none.
    void setProfile(std::optional<CheckedProfile> profile);
    void setCluster(const QString& path);
    void start();
    /// Stops early, with what was found.
    void cancel() { planning_.cancel(); }
    /// Simulates a candidate; opened() follows, or a message.
    void openCandidate(std::size_t candidate) override;

    /// Where the traces of candidates lie.

    ClusterPlanForm& form() const { return *form_; }
    const ClusterPlan* plan() const { return candidates_->plan(); }

Q_SIGNALS:
    /// A trace with the timeline of a candidate.
    void opened(const QString& path);

private:
    void showPlan(const std::shared_ptr<const ClusterPlan>& plan, const QString& error);
    QString summary(const ClusterPlan& plan) const;

    std::optional<CheckedProfile> profile_;
    ClusterPlanInput planned_;  ///< of the plan that is shown
    std::shared_ptr<std::atomic<double>> done_;
    LatestJob planning_;
    LatestJob opening_;
    std::unique_ptr<ScratchFolder> traces_;  // made when it is needed
    QTimer* timer_;
    ClusterPlanModel* candidates_;
    TableFilter* filter_;
    ClusterPlanForm* form_;
};
}  // namespace pipescope
