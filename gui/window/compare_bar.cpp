#include "gui/window/compare_bar.h"

#include "gui/style/arrange.h"

#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QSignalBlocker>

namespace pipescope {
CompareBar::CompareBar(QWidget* parent)
    : QWidget(parent),
      mode_(named(new QComboBox(this), tr("How to compare"))),
      alignment_(named(new QComboBox(this), tr("What to align"),
                       tr("Which points of the simulated and the measured step are aligned"))),
      causes_(new QCheckBox(tr("C&auses"), this)),
      critical_(new QCheckBox(tr("Critical &path"), this)) {
    mode_->addItem(tr("side by side"), static_cast<int>(CompareMode::side_by_side));
    mode_->addItem(tr("overlay"), static_cast<int>(CompareMode::overlay));
    mode_->addItem(tr("difference"), static_cast<int>(CompareMode::difference));
    mode_->setToolTip(
        tr("One above the other, the simulated tasks as outlines over the measured ones, or the measured "
           "tasks coloured by how late they ended (1, 2, 3)"));
    alignment_->addItem(tr("first task"), static_cast<int>(Alignment::first_task));
    alignment_->addItem(tr("step"), static_cast<int>(Alignment::step));
    alignment_->addItem(tr("selected task"), static_cast<int>(Alignment::task));
    causes_->setToolTip(tr("Shade bubbles by what the lane waited for (B)"));
    critical_->setToolTip(tr("Mark the tasks that determine the step time (C)"));
    auto* alignLabel = new QLabel(tr("align by"), this);
    alignLabel->setBuddy(alignment_);
    arrange(new QHBoxLayout(this), {0, 0, 0, 0}, 6, {mode_, alignLabel, alignment_, causes_, critical_});
    connect(mode_, &QComboBox::currentIndexChanged, this, &CompareBar::choiceChanged);
    connect(alignment_, &QComboBox::currentIndexChanged, this, &CompareBar::choiceChanged);
    connect(causes_, &QCheckBox::toggled, this, &CompareBar::choiceChanged);
    connect(critical_, &QCheckBox::toggled, this, &CompareBar::choiceChanged);
    setChoice({});
}

void CompareBar::setChoice(const MarkChoice& choice) {
    const QSignalBlocker blocker(this);
    mode_->setCurrentIndex(mode_->findData(static_cast<int>(choice.mode)));
    alignment_->setCurrentIndex(alignment_->findData(static_cast<int>(choice.alignment)));
    causes_->setChecked(choice.causes);
    critical_->setChecked(choice.criticalPath);
}

MarkChoice CompareBar::choice() const {
    return {static_cast<CompareMode>(mode_->currentData().toInt()),
            static_cast<Alignment>(alignment_->currentData().toInt()), causes_->isChecked(), critical_->isChecked()};
}

void CompareBar::setComparable(bool comparable) {
    mode_->setEnabled(comparable);
    alignment_->setEnabled(comparable);
}
}  // namespace pipescope
