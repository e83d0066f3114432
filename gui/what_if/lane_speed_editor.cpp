#include "gui/what_if/lane_speed_editor.h"

#include "gui/style/arrange.h"
#include "gui/what_if/value_slider.h"

#include <QComboBox>
#include <QLocale>
#include <QSignalBlocker>

#include <algorithm>

namespace pipescope {
namespace {
constexpr double kSlowest = 0.1;
constexpr double kFastest = 10;
}  // namespace

LaneSpeedEditor::LaneSpeedEditor(QWidget* parent)
    : QWidget(parent), choice_(named(new QComboBox(this), tr("Lane whose speed is set"))) {
    slider_ = new ValueSlider(tr("Speed"), Quantity::factor, {decadeStops(kSlowest, kFastest), 0.01, 100, 2, {}}, this);
    arrange(new QHBoxLayout(this), {0, 0, 0, 0}, -1, {choice_, {slider_, 1}});
    setFocusProxy(choice_);
    connect(choice_, &QComboBox::currentIndexChanged, this, &LaneSpeedEditor::showSpeed);
    connect(slider_, &ValueSlider::gestureStarted, this, &LaneSpeedEditor::gestureStarted);
    connect(slider_, &ValueSlider::refused, this, &LaneSpeedEditor::refused);
    connect(slider_, &ValueSlider::valueChanged, this, [this](double speed) {
        if (const std::optional<std::size_t> one = lane()) {
            speeds_[*one] = speed;
        } else {
            speeds_.assign(speeds_.size(), speed);
        }
        const bool plain = std::all_of(speeds_.begin(), speeds_.end(), [](double each) { return each == 1.0; });
        Q_EMIT speedsChanged(plain ? std::vector<double>{} : speeds_);
    });
}

std::optional<std::size_t> LaneSpeedEditor::lane() const {
    const int index = choice_->currentIndex();
    return index <= 0 ? std::nullopt : std::optional(static_cast<std::size_t>(index) - 1);
}

void LaneSpeedEditor::setSpeeds(const std::vector<double>& speeds, int lanes) {
    speeds_ = speeds;
    speeds_.resize(static_cast<std::size_t>(std::max(1, lanes)), 1.0);
    const QSignalBlocker blocker(choice_);
    const int chosen = choice_->currentIndex();
    if (choice_->count() != lanes + 1) {
        choice_->clear();
        choice_->addItem(tr("all lanes"));
        for (int lane = 0; lane < lanes; ++lane) {
            choice_->addItem(QString());
        }
        choice_->setCurrentIndex(std::clamp(chosen, 0, lanes));
    }
    for (std::size_t lane = 0; lane < speeds_.size(); ++lane) {
        // Shows speeds other than 1 without the need to select each lane.
        const QString speed = QLocale().toString(speeds_[lane], 'g', 3);
        const QString text = speeds_[lane] == 1.0 ? tr("lane %1").arg(lane) : tr("lane %1 (%2×)").arg(lane).arg(speed);
        choice_->setItemText(static_cast<int>(lane) + 1, text);
    }
    showSpeed();
}

void LaneSpeedEditor::showSpeed() {
    const std::optional<std::size_t> one = lane();
    slider_->setValue(one ? speeds_[*one] : *std::max_element(speeds_.begin(), speeds_.end()));
}
}  // namespace pipescope
