#pragma once

#include "balance/profile.h"
#include "simulator/planner.h"

#include <QWidget>

class QComboBox;
class QLineEdit;
class QListWidget;

namespace pipescope {
class QuantityBox;

/// What to plan: ranges of partitions and micro-batches, modes, schedules, device types, batch, memory limit. Link,
/// speeds and optimizer are those of the options it starts from.
class PlanForm : public QWidget {
    Q_OBJECT

public:
    explicit PlanForm(QWidget* parent = nullptr);

    void setOptions(const PipelineOptions& options);
    /// The options changed in the what-if panel: they are planned with, and their batch and memory limit are shown
    /// where they changed. What was typed or ticked here stays otherwise.
    void follow(const PipelineOptions& options);
    /// Throws UsageError for a range that is none, or nothing ticked.
    PlanRequest request(const Profile& profile) const;

    QLineEdit& partitions() const { return *partitions_; }
    QLineEdit& chunks() const { return *chunks_; }
    QuantityBox& batch() const { return *batch_; }
    QuantityBox& memoryLimit() const { return *memoryLimit_; }
    QListWidget& checkpoints() const { return *checkpoints_; }
    QListWidget& schedules() const { return *schedules_; }
    QListWidget& devices() const { return *devices_; }

Q_SIGNALS:
    /// What was typed cannot be taken: value, rule and remedy.
    void refused(const QString& why);

private:
    void showBatch();
    void showMemoryLimit();

    PipelineOptions options_;
    QLineEdit* partitions_;
    QLineEdit* chunks_;
    QuantityBox* batch_;
    QuantityBox* memoryLimit_;
    QComboBox* algorithm_;
    QListWidget* checkpoints_;
    QListWidget* schedules_;
    QListWidget* devices_;
};
}  // namespace pipescope
