#pragma once

#include "gui/style/quantity_box.h"

#include <QString>
#include <QWidget>

#include <cstddef>
#include <vector>

class QSlider;

namespace pipescope {
/// Valid values of a ValueSlider, in the unit of its Quantity.
struct ValueRange {
    std::vector<double> stops;  ///< values of the slider, ascending; starts with 0 if `none` is set
    double least = 0;           ///< smallest value that can be typed
    double most = 0;
    int decimals = 0;  ///< for a number or a factor
    QString none;      ///< text for 0, such as "free"; empty: 0 is shown as a number
};

/// Input of a number with a slider for quick tries and a box for exact values. If the box has a value between two
/// stops, the slider shows the nearest.
class ValueSlider : public QWidget {
    Q_OBJECT

public:
    /// `name` is for screen readers only: forms have their own labels.
    ValueSlider(const QString& name, Quantity quantity, ValueRange range, QWidget* parent = nullptr);

    double value() const { return box_->value(); }
    /// Shows a value without emitting a signal.
    void setValue(double value);
    void setRange(ValueRange range);
    QSlider& slider() const { return *slider_; }
    QuantityBox& box() const { return *box_; }

Q_SIGNALS:
    /// Emitted for changes by the user only.
    void valueChanged(double value);
    /// A drag or key press starts: the following changes count as one.
    void gestureStarted();
    /// Typed input is invalid. The message gives value, rule and remedy.
    void refused(const QString& why);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    ValueRange range_;
    QSlider* slider_;
    QuantityBox* box_;
};

// Values of a slider, in ascending order. The slider moves over their indices, so the values determine its scale:
// logarithmic for rates, linear for counts.

/// Every whole number from `first` to 64, then steps of 3 to 6 % up to `last`, which is included.
std::vector<double> wholeStops(int first, int last);
/// 1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, ..: 24 per decade. `first` and `last` are powers of ten.
std::vector<double> decadeStops(double first, double last);
/// Four per doubling: 1, 1.25, 1.5, 1.75, 2, ... `first` and `last` are powers of two.
std::vector<double> doublingStops(double first, double last);

/// Index of the stop nearest to `value`, by ratio if both are positive. `stops` must not be empty.
std::size_t nearestStop(const std::vector<double>& stops, double value);
}  // namespace pipescope
