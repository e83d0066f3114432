#pragma once

#include "gui/document/step_analysis.h"

#include <QWidget>

class QCheckBox;
class QComboBox;

namespace pipescope {
/// How measured and simulated are shown: mode, alignment, and what stands on top of the bars.
class CompareBar : public QWidget {
    Q_OBJECT

public:
    explicit CompareBar(QWidget* parent = nullptr);
    /// Does not emit.
    void setChoice(const MarkChoice& choice);
    MarkChoice choice() const;
    /// Without both timelines there is nothing to compare.
    void setComparable(bool comparable);

Q_SIGNALS:
    /// The user chose.
    void choiceChanged();

private:
    QComboBox* mode_;
    QComboBox* alignment_;
    QCheckBox* causes_;
    QCheckBox* critical_;
};
}  // namespace pipescope
