#include "gui/window/compare_bar.h"

#include "gui/style/arrange.h"
#include "gui/style/icons.h"

#include <QButtonGroup>
#include <QComboBox>
#include <QLabel>
#include <QSignalBlocker>
#include <QToolButton>

namespace pipescope {
CompareBar::CompareBar(QWidget* parent)
    : QWidget(parent),
      comparison_(new QWidget(this)),
      mode_(new QButtonGroup(this)),
      alignment_(named(new QComboBox(comparison_), tr("What to align"),
                       tr("Which points of the simulated and the measured step are aligned"))),
      causes_(iconButton("causes", tr("Causes of bubbles: what the lane waited for (B)"), this)),
      critical_(iconButton("path", tr("Critical path: the tasks that determine the step time (C)"), this)) {
    const auto addMode = [this](CompareMode mode, const char* icon, const QString& text) {
        QToolButton* button = iconButton(icon, text, comparison_);
        button->setCheckable(true);
        mode_->addButton(button, static_cast<int>(mode));
        return button;
    };
    QToolButton* beside =
        addMode(CompareMode::side_by_side, "side-by-side", tr("Side by side: one above the other (1)"));
    QToolButton* overlay =
        addMode(CompareMode::overlay, "overlay", tr("Overlay: simulated tasks as outlines over the measured ones (2)"));
    QToolButton* difference = addMode(CompareMode::difference, "difference",
                                      tr("Difference: measured tasks coloured by how late they ended (3)"));
    alignment_->addItem(tr("first task"), static_cast<int>(Alignment::first_task));
    alignment_->addItem(tr("step"), static_cast<int>(Alignment::step));
    alignment_->addItem(tr("selected task"), static_cast<int>(Alignment::task));
    causes_->setCheckable(true);
    critical_->setCheckable(true);
    auto* alignLabel = new QLabel(tr("Align by"), comparison_);
    alignLabel->setBuddy(alignment_);
    QBoxLayout* line =
        arrange(new QHBoxLayout(comparison_), {0, 0, 8, 0}, 2, {beside, overlay, difference, alignLabel, alignment_});
    line->insertSpacing(3, 8);
    arrange(new QHBoxLayout(this), {0, 0, 0, 0}, 2, {comparison_, causes_, critical_});
    connect(mode_, &QButtonGroup::idClicked, this, &CompareBar::choiceChanged);
    connect(alignment_, &QComboBox::currentIndexChanged, this, &CompareBar::choiceChanged);
    connect(causes_, &QToolButton::toggled, this, &CompareBar::choiceChanged);
    connect(critical_, &QToolButton::toggled, this, &CompareBar::choiceChanged);
    setChoice({});
}

void CompareBar::setChoice(const MarkChoice& choice) {
    const QSignalBlocker blocker(this);
    mode_->button(static_cast<int>(choice.mode))->setChecked(true);
    alignment_->setCurrentIndex(alignment_->findData(static_cast<int>(choice.alignment)));
    causes_->setChecked(choice.causes);
    critical_->setChecked(choice.criticalPath);
}

MarkChoice CompareBar::choice() const {
    return {static_cast<CompareMode>(mode_->checkedId()), static_cast<Alignment>(alignment_->currentData().toInt()),
            causes_->isChecked(), critical_->isChecked()};
}

void CompareBar::setComparable(bool comparable) {
    for (QAbstractButton* button : mode_->buttons()) {
        button->setEnabled(comparable);
    }
    alignment_->setEnabled(comparable);
    comparison_->setVisible(comparable);
}
}  // namespace pipescope
