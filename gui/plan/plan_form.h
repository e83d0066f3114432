#pragma once

#include "profiler/profile/profile.h"
#include "simulator/plan/planner.h"

#include <QWidget>

#include <vector>

class QComboBox;
class QLineEdit;
class QListWidget;

namespace pipescope {
class QuantityBox;

/// Form for a plan request: ranges of partitions and micro-batches, modes, schedules, device types, batch, memory
/// limit. Link, speeds and optimizer come from the initial options.
class PlanForm : public QWidget {
    Q_OBJECT

public:
    explicit PlanForm(QWidget* parent = nullptr);

    void setOptions(const PipelineOptions& options);
    /// Takes options that changed in the what-if panel. Updates the fields of batch and memory limit if those changed;
    /// other user input is kept.
    void follow(const PipelineOptions& options);
    /// Adds the schedule of this CSV file, to be tried. Says why if it cannot.
    void addSchedule(const QString& path);
    /// Throws UsageError for an invalid range or an empty selection.
    PlanRequest request(const Profile& profile) const;

    QLineEdit& partitions() const { return *partitions_; }
    QLineEdit& chunks() const { return *chunks_; }
    QuantityBox& batch() const { return *batch_; }
    QuantityBox& memoryLimit() const { return *memoryLimit_; }
    QListWidget& checkpoints() const { return *checkpoints_; }
    QListWidget& schedules() const { return *schedules_; }
    QListWidget& devices() const { return *devices_; }

Q_SIGNALS:
    /// Rejects input. The message gives value, rule and remedy.
    void refused(const QString& why);

private:
    void showBatch();
    void showMemoryLimit();
    QWidget* createScheduleChoice();

    PipelineOptions options_;
    QLineEdit* partitions_;
    QLineEdit* chunks_;
    QuantityBox* batch_;
    QuantityBox* memoryLimit_;
    QComboBox* algorithm_;
    QListWidget* checkpoints_;
    QListWidget* schedules_;
    std::vector<Schedule> listed_;  // row by row of the list
    QListWidget* devices_;
};
}  // namespace pipescope
