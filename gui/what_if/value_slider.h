#pragma once

#include "gui/style/quantity_box.h"

#include <QString>
#include <QWidget>

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
}  // namespace pipescope
