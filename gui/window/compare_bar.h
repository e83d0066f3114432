#pragma once

#include "gui/document/step_analysis.h"

#include <QWidget>

class QCheckBox;
class QComboBox;

namespace pipescope {
/// Controls for the comparison of measured and simulated: mode, alignment, and marks on top of the bars.
class CompareBar : public QWidget {
    Q_OBJECT

public:
    explicit CompareBar(QWidget* parent = nullptr);
    /// Sets the choice without emitting a signal.
    void setChoice(const MarkChoice& choice);
    MarkChoice choice() const;
    /// A comparison needs both timelines.
    void setComparable(bool comparable);

Q_SIGNALS:
    /// The user made a choice.
    void choiceChanged();

private:
    QComboBox* mode_;
    QComboBox* alignment_;
    QCheckBox* causes_;
    QCheckBox* critical_;
};
}  // namespace pipescope
