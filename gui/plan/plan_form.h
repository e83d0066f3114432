#pragma once

#include "balance/profile.h"
#include "simulator/planner.h"

#include <QWidget>

class QComboBox;
class QDoubleSpinBox;
class QLineEdit;
class QListWidget;
class QSpinBox;

namespace pipescope {
/// What to plan: ranges of partitions and micro-batches, modes, schedules, device types, batch, memory limit. Link,
/// speeds and optimizer are those of the options it starts from.
class PlanForm : public QWidget {
    Q_OBJECT

public:
    explicit PlanForm(QWidget* parent = nullptr);

    void setOptions(const PipelineOptions& options);
    /// Throws UsageError for a range that is none, or nothing ticked.
    PlanRequest request(const Profile& profile) const;

    QLineEdit& partitions() const { return *partitions_; }
    QLineEdit& chunks() const { return *chunks_; }
    QSpinBox& batch() const { return *batch_; }
    QDoubleSpinBox& memoryLimit() const { return *memoryLimit_; }
    QListWidget& checkpoints() const { return *checkpoints_; }
    QListWidget& schedules() const { return *schedules_; }
    QListWidget& devices() const { return *devices_; }

private:
    PipelineOptions options_;
    QLineEdit* partitions_;
    QLineEdit* chunks_;
    QSpinBox* batch_;
    QDoubleSpinBox* memoryLimit_;
    QComboBox* algorithm_;
    QListWidget* checkpoints_;
    QListWidget* schedules_;
    QListWidget* devices_;
};
}  // namespace pipescope
