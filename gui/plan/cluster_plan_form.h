#pragma once

#include "answers/option_table.h"
#include "cluster/cluster_plan.h"
#include "profiler/profile/profile.h"

#include <QString>
#include <QWidget>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

class QComboBox;
class QLineEdit;
class QListWidget;

namespace pipescope {
inline constexpr double kSecondsPerHour = 3600;

/// The inputs of a plan on a cluster.
struct ClusterPlanInput {
    std::optional<CheckedProfile> profile;  ///< of the open file
    QString model;                          ///< "gpt:.."; empty: the profile
    std::vector<OptionValue> values;        ///< as typed, by the names of the options of plan

    bool has(std::string_view option) const;
};
/// Reads the file and plans. Throws Error for input that is none. `progress` as in ClusterPlanRequest. Threading: any.
ClusterPlan clusterPlanOf(const ClusterPlanInput& input, const std::function<bool(double)>& progress);
/// Simulates a layout on lanes of `device`, as a candidate of such a plan names both. Threading: any.
LayoutStep simulatedCandidate(const ClusterPlanInput& input, const Layout& layout, const std::string& device);

/// Form for a plan for a cluster: the options of `pipescope plan --cluster`.
class ClusterPlanForm : public QWidget {
    Q_OBJECT

public:
    explicit ClusterPlanForm(QWidget* parent = nullptr);

    /// Without a profile. Throws UsageError if no schedule is ticked.
    ClusterPlanInput input() const;
    void setCluster(const QString& path);

    QLineEdit& model() const { return *model_; }
    QLineEdit& catalogue() const { return *catalogue_; }
    QLineEdit& batch() const { return *batch_; }
    QLineEdit& devices() const { return *devices_; }
    QLineEdit& deviceTypes() const { return *deviceTypes_; }
    QLineEdit& headroom() const { return *headroom_; }
    QLineEdit& tokens() const { return *tokens_; }
    QComboBox& dtype() const { return *dtype_; }
    QLineEdit& optimizer() const { return *optimizer_; }
    QLineEdit& program() const { return *program_; }
    QLineEdit& measured() const { return *measured_; }
    QListWidget& schedules() const { return *schedules_; }
    QComboBox& sends() const { return *sends_; }
    QComboBox& tokenDispatch() const { return *tokenDispatch_; }
    QComboBox& gradientBytes() const { return *gradientBytes_; }
    QLineEdit& gradientBucket() const { return *gradientBucket_; }
    QLineEdit& checkpointTime() const { return *checkpointTime_; }
    QLineEdit& restartTime() const { return *restartTime_; }
    QLineEdit& repairTime() const { return *repairTime_; }
    QComboBox& goal() const { return *goal_; }

Q_SIGNALS:
    /// The Enter key was pressed in a line.
    void submitted();

private:
    QLineEdit* createLine(const QString& name, const QString& hint, const QString& about);
    void createLines();
    void createChoices();
    /// The line of a file, with a button that asks for one.
    QWidget* withChoice(QLineEdit* line, const QString& title, const QString& filter);

    QLineEdit* model_ = nullptr;
    QLineEdit* cluster_ = nullptr;
    QLineEdit* catalogue_ = nullptr;
    QLineEdit* batch_ = nullptr;
    QLineEdit* devices_ = nullptr;
    QLineEdit* deviceTypes_ = nullptr;
    QLineEdit* headroom_ = nullptr;
    QLineEdit* tokens_ = nullptr;
    QComboBox* dtype_ = nullptr;
    QLineEdit* optimizer_ = nullptr;
    QLineEdit* program_ = nullptr;
    QLineEdit* measured_ = nullptr;
    QListWidget* schedules_ = nullptr;
    QComboBox* sends_ = nullptr;
    QComboBox* tokenDispatch_ = nullptr;
    QComboBox* gradientBytes_ = nullptr;
    QLineEdit* gradientBucket_ = nullptr;
    QLineEdit* checkpointTime_ = nullptr;
    QLineEdit* restartTime_ = nullptr;
    QLineEdit* repairTime_ = nullptr;
    QComboBox* goal_ = nullptr;
};
}  // namespace pipescope
