#include "gui/what_if/value_slider.h"

#include "gui/style/arrange.h"
#include "gui/what_if/slider_stops.h"

#include <QKeyEvent>
#include <QSignalBlocker>
#include <QSlider>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kBoxCharacters = 17;
constexpr int kPages = 10;  // Page Up and Page Down cross the slider in this many steps
}  // namespace

ValueSlider::ValueSlider(const QString& name, Quantity quantity, ValueRange range, QWidget* parent)
    : QWidget(parent),
      slider_(named(new QSlider(Qt::Horizontal, this), name)),
      box_(named(new QuantityBox(name, quantity, this), tr("%1, exactly").arg(name))) {
    slider_->setFocusPolicy(Qt::StrongFocus);
    slider_->setMinimumWidth(70);
    slider_->installEventFilter(this);
    box_->setAlignment(Qt::AlignRight);
    box_->setFixedWidth(fontMetrics().averageCharWidth() * kBoxCharacters);  // aligns the sliders of a form
    box_->installEventFilter(this);
    arrange(new QHBoxLayout(this), {0, 0, 0, 0}, -1, {{slider_, 1}, box_});
    setFocusProxy(slider_);
    setRange(std::move(range));
    connect(slider_, &QSlider::sliderPressed, this, &ValueSlider::gestureStarted);
    connect(slider_, &QSlider::valueChanged, this, [this](int position) {
        const double value = range_.stops[static_cast<std::size_t>(position)];
        const QSignalBlocker blocker(box_);
        box_->setValue(value);
        Q_EMIT valueChanged(value);
    });
    connect(box_, &QuantityBox::refused, this, &ValueSlider::refused);
    connect(box_, &QDoubleSpinBox::valueChanged, this, [this](double value) {
        const QSignalBlocker blocker(slider_);
        slider_->setValue(static_cast<int>(nearestStop(range_.stops, value)));
        Q_EMIT valueChanged(value);
    });
}

void ValueSlider::setValue(double value) {
    const QSignalBlocker quietSlider(slider_);
    const QSignalBlocker quietBox(box_);
    if (!slider_->isSliderDown()) {  // does not move a handle that is being dragged
        slider_->setValue(static_cast<int>(nearestStop(range_.stops, value)));
    }
    box_->setValue(value);
}

void ValueSlider::setRange(ValueRange range) {
    const QSignalBlocker quietSlider(slider_);
    const QSignalBlocker quietBox(box_);
    const double value = box_->value();
    range_ = std::move(range);
    slider_->setRange(0, static_cast<int>(range_.stops.size()) - 1);
    slider_->setPageStep(std::max(1, static_cast<int>(range_.stops.size()) / kPages));
    box_->setPrecision(range_.decimals);
    box_->setRange(range_.least, range_.most);
    box_->setSpecialValueText(range_.none);
    setValue(value);
}

bool ValueSlider::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::KeyPress && !static_cast<const QKeyEvent*>(event)->isAutoRepeat()) {
        Q_EMIT gestureStarted();
    } else if (event->type() == QEvent::Wheel && !static_cast<QWidget*>(watched)->hasFocus()) {
        event->ignore();  // scrolls the panel instead: a value under the pointer must not change by accident
        return true;
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
