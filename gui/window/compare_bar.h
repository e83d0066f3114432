#pragma once

#include "gui/document/step_analysis.h"

#include <QWidget>

class QButtonGroup;
class QComboBox;
class QToolButton;

namespace pipescope {
/// Controls for the comparison of measured and simulated: mode, alignment, and marks on top of the bars.
class CompareBar : public QWidget {
    Q_OBJECT

public:
    explicit CompareBar(QWidget* parent = nullptr);
    /// Sets the choice without emitting a signal.
    void setChoice(const MarkChoice& choice);
    MarkChoice choice() const;
    /// A comparison needs both timelines. Without them, its controls are hidden.
    void setComparable(bool comparable);

Q_SIGNALS:
    /// The user made a choice.
    void choiceChanged();

private:
    QWidget* comparison_;  // holds mode and alignment
    QButtonGroup* mode_;   // ids are modes
    QComboBox* alignment_;
    QToolButton* causes_;
    QToolButton* critical_;
};
}  // namespace pipescope
