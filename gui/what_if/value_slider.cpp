#include "gui/what_if/value_slider.h"

#include "gui/style/arrange.h"

#include <QKeyEvent>
#include <QSignalBlocker>
#include <QSlider>

#include <algorithm>
#include <array>
#include <cmath>

namespace pipescope {
namespace {
constexpr int kBoxCharacters = 17;
constexpr int kPages = 10;  // Page Up and Page Down cross the slider in this many steps

constexpr int kLastSingleStep = 64;
// The E24 series: two-digit numbers at even steps on a logarithmic scale.
constexpr std::array kDecade{1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0,
                             3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6, 6.2, 6.8, 7.5, 8.2, 9.1};

double distance(double a, double b) {
    return a > 0 && b > 0 ? std::fabs(std::log(a / b)) : std::fabs(a - b);
}
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

std::vector<double> wholeStops(int first, int last) {
    std::vector<double> stops;
    for (int value = first; value < last;) {
        stops.push_back(value);
        if (value < kLastSingleStep) {
            ++value;
            continue;
        }
        // Sixteen steps per doubling, so that powers of two are included.
        const int doubling = 1 << static_cast<int>(std::log2(value));
        value += doubling / 16;
    }
    stops.push_back(last);
    return stops;
}

std::vector<double> decadeStops(double first, double last) {
    std::vector<double> stops;
    for (double decade = first; decade < last * 0.999; decade *= 10) {
        for (const double step : kDecade) {
            stops.push_back(decade * step);
        }
    }
    stops.push_back(last);
    return stops;
}

std::vector<double> doublingStops(double first, double last) {
    std::vector<double> stops;
    for (double start = first; start < last * 0.999; start *= 2) {
        for (const double step : {1.0, 1.25, 1.5, 1.75}) {
            stops.push_back(start * step);
        }
    }
    stops.push_back(last);
    return stops;
}

std::size_t nearestStop(const std::vector<double>& stops, double value) {
    const auto above = std::lower_bound(stops.begin(), stops.end(), value);
    if (above == stops.begin()) {
        return 0;
    }
    if (above == stops.end()) {
        return stops.size() - 1;
    }
    const auto index = static_cast<std::size_t>(above - stops.begin());
    return distance(stops[index - 1], value) <= distance(stops[index], value) ? index - 1 : index;
}
}  // namespace pipescope
