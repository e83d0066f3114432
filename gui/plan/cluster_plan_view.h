#pragma once

#include "balance/profile.h"
#include "cluster/cluster_plan.h"
#include "gui/style/work_pool.h"
#include "gui/tables/column_model.h"

#include <QTemporaryDir>
#include <QWidget>

#include <memory>
#include <optional>

class QComboBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;
class QTableView;
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

protected:
    const ClusterCandidate* rowOf(const QModelIndex& index) const override;

private:
    std::shared_ptr<const ClusterPlan> plan_;
};

/// What to plan on a cluster, as typed.
struct ClusterPlanInput {
    std::shared_ptr<const Profile> profile;  ///< of the open file
    QString model;                           ///< "gpt:.."; empty: the profile
    QString cluster;                         ///< path
    QString batch;
    QString devices;  ///< range; empty: all
    QString tokens;   ///< empty: one step
    ClusterGoal goal = ClusterGoal::step;
};

/// Plans what to rent of a cluster: a form, a background run and the table of candidates. A double click or Enter
/// simulates a candidate and writes the timeline of one replica into a trace, which is deleted with the view.
class ClusterPlanView : public QWidget {
    Q_OBJECT

public:
    explicit ClusterPlanView(QWidget* parent = nullptr);
    ~ClusterPlanView() override;

    /// The profile to plan for while no model is named. Null: none.
    void setProfile(std::shared_ptr<const Profile> profile);
    void setCluster(const QString& path);
    void start();
    /// Stops early, with what was found.
    void cancel() { planning_.cancel(); }
    /// Simulates a candidate; opened() follows, or a message.
    void openCandidate(std::size_t candidate);

    /// Where the traces of candidates lie.
    QString traceFolder() const { return traces_.path(); }

    QLineEdit& model() const { return *model_; }
    QLineEdit& batch() const { return *batch_; }
    QLineEdit& devices() const { return *devices_; }
    QLineEdit& tokens() const { return *tokens_; }
    QComboBox& goal() const { return *goal_; }
    QTableView& table() const { return *table_; }
    QPushButton& button() const { return *run_; }
    QProgressBar& progress() const { return *progress_; }
    QString message() const;
    const ClusterPlan* plan() const { return candidates_->plan(); }

Q_SIGNALS:
    /// A trace with the timeline of a candidate.
    void opened(const QString& path);
    void finished();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createSide();
    void createTable();
    void chooseCluster();
    void showRunning(bool running);
    void showPlan(const std::shared_ptr<const ClusterPlan>& plan, const QString& error);
    void openRow(const QModelIndex& row);

    std::shared_ptr<const Profile> profile_;
    ClusterPlanInput planned_;  ///< of the plan that is shown
    std::shared_ptr<std::atomic<double>> done_;
    LatestJob planning_;
    LatestJob opening_;
    QTemporaryDir traces_;
    QTimer* timer_;
    ClusterPlanModel* candidates_;
    TableFilter* filter_;
    QLineEdit* model_ = nullptr;
    QLineEdit* cluster_ = nullptr;
    QLineEdit* batch_ = nullptr;
    QLineEdit* devices_ = nullptr;
    QLineEdit* tokens_ = nullptr;
    QComboBox* goal_ = nullptr;
    QPushButton* run_ = nullptr;
    QProgressBar* progress_ = nullptr;
    QLabel* message_ = nullptr;
    QTableView* table_ = nullptr;
};
}  // namespace pipescope
