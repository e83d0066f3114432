#include "gui/window/step_box.h"

#include "gui/style/number_format.h"

#include <QSignalBlocker>

#include <algorithm>
#include <cstdlib>

namespace pipescope {
namespace {
/// The number that the text begins with; empty without one.
std::optional<std::int64_t> leadingNumber(const QString& text) {
    const QString trimmed = text.trimmed();
    const auto end = std::find_if_not(trimmed.begin(), trimmed.end(), [](QChar each) { return each.isDigit(); });
    bool ok = false;
    const qlonglong number = trimmed.left(end - trimmed.begin()).toLongLong(&ok);
    return ok ? std::optional<std::int64_t>(number) : std::nullopt;
}
}  // namespace

StepBox::StepBox(QWidget* parent) : QSpinBox(parent), history_(std::make_shared<StepHistory>()) {
    setAccessibleName(tr("Measured step to compare"));
    setKeyboardTracking(false);
    setToolTip(tr("The measured step to compare. Type the number of another one."));
    connect(this, &QSpinBox::valueChanged, this, [this](int index) {
        if (index < std::ssize(history_->steps)) {
            Q_EMIT picked(history_->steps[static_cast<std::size_t>(index)].step);
        }
    });
}

void StepBox::setHistory(std::shared_ptr<const StepHistory> history) {
    const QSignalBlocker blocker(this);
    history_ = std::move(history);
    setRange(0, std::max(0, static_cast<int>(history_->steps.size()) - 1));
    setEnabled(history_->steps.size() > 1);
    setValue(value());
    updateGeometry();
}

void StepBox::setStep(std::int32_t step) {
    const QSignalBlocker blocker(this);
    if (const std::optional<std::size_t> index = history_->find(step)) {
        setValue(static_cast<int>(*index));
    }
}

QString StepBox::textFromValue(int index) const {
    if (index < 0 || index >= std::ssize(history_->steps)) {
        return {};
    }
    const StepEntry& entry = history_->steps[static_cast<std::size_t>(index)];
    return !history_->whyNoTime.isEmpty() ? QString::number(entry.step)
                                          : tr("%1 (%2)").arg(entry.step).arg(formatDuration(entry.time.count()));
}

int StepBox::valueFromText(const QString& text) const {
    const std::optional<std::int64_t> number = leadingNumber(text);
    if (!number || history_->steps.empty()) {
        return value();
    }
    const auto distance = [&](const StepEntry& entry) { return std::abs(*number - entry.step); };
    const auto nearest =
        std::min_element(history_->steps.begin(), history_->steps.end(),
                         [&](const StepEntry& a, const StepEntry& b) { return distance(a) < distance(b); });
    return static_cast<int>(nearest - history_->steps.begin());
}

QValidator::State StepBox::validate(QString& text, int& /*position*/) const {
    if (text.trimmed().isEmpty()) {
        return QValidator::Intermediate;
    }
    return leadingNumber(text) ? QValidator::Acceptable : QValidator::Invalid;
}
}  // namespace pipescope
