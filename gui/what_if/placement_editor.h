#pragma once

#include "gui/document/scenario.h"

#include <QObject>

#include <functional>

class QComboBox;
class QFormLayout;
class QLineEdit;

namespace pipescope {
class QuantityBox;

/// Form rows for shared resources: the lane of each partition, the device of each lane, the cores shared by "cpu"
/// lanes, and the links. Lists use the syntax of `pipescope simulate`.
class PlacementEditor : public QObject {
    Q_OBJECT

public:
    using Change = std::function<void(Scenario&)>;

    /// Adds its rows to `form`. `parent` becomes the parent of the fields.
    explicit PlacementEditor(QFormLayout& form, QWidget& parent);

    /// Shows options without emitting a signal. Cores can be changed if a lane is on the device cpu.
    void setOptions(const PipelineOptions& options);
    QLineEdit& placement() const { return *placement_; }
    QLineEdit& devices() const { return *devices_; }
    QuantityBox& cores() const { return *cores_; }

Q_SIGNALS:
    /// The user changes the scenario. `what` names the change for undo. The change throws UsageError for a list that
    /// the scenario's lanes cannot have.
    void changed(const QString& what, const pipescope::PlacementEditor::Change& change);
    /// The input is invalid.
    void failed(const QString& text);

private:
    void takePlacement();
    void takeDevices();

    QLineEdit* placement_;
    QLineEdit* devices_;
    QuantityBox* cores_;
    QComboBox* linkSharing_;
};
}  // namespace pipescope
