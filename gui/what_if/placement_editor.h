#pragma once

#include "gui/document/scenario.h"

#include <QObject>

#include <functional>

class QComboBox;
class QFormLayout;
class QLineEdit;

namespace pipescope {
class QuantityBox;

/// Rows of a form about what partitions and lanes share: the lane of each partition, the device of each lane, the cores
/// that "cpu" lanes share, and the links. Lists are written as for `pipescope simulate`.
class PlacementEditor : public QObject {
    Q_OBJECT

public:
    using Change = std::function<void(Scenario&)>;

    /// Adds its rows to `form`, whose widget becomes the parent of their fields.
    explicit PlacementEditor(QFormLayout& form, QWidget& parent);

    /// Shows what the options say; nothing is emitted.
    void setOptions(const PipelineOptions& options);
    QLineEdit& placement() const { return *placement_; }
    QLineEdit& devices() const { return *devices_; }
    QuantityBox& cores() const { return *cores_; }
    QComboBox& linkSharing() const { return *linkSharing_; }

Q_SIGNALS:
    /// The user wants the scenario changed; `what` names the change for undo.
    void changed(const QString& what, const pipescope::PlacementEditor::Change& change);
    /// What was typed means nothing.
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
