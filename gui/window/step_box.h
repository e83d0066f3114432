#pragma once

#include "gui/document/step_history.h"

#include <QSpinBox>

#include <memory>

namespace pipescope {
/// Shows the chosen step of a run, and takes the number of another one: typed, or by the arrow keys.
class StepBox : public QSpinBox {
    Q_OBJECT

public:
    explicit StepBox(QWidget* parent = nullptr);

    void setHistory(std::shared_ptr<const StepHistory> history);
    /// Emits nothing.
    void setStep(std::int32_t step);

Q_SIGNALS:
    void picked(std::int32_t step);

protected:
    /// The value is the index of the step, since steps may have any numbers.
    QString textFromValue(int index) const override;
    /// The index of the step nearest to the typed number.
    int valueFromText(const QString& text) const override;
    QValidator::State validate(QString& text, int& position) const override;

private:
    std::shared_ptr<const StepHistory> history_;
};
}  // namespace pipescope
