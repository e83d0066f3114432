#pragma once

#include "gui/style/quantity_box.h"

#include <QString>
#include <QWidget>

#include <vector>

class QSlider;

namespace pipescope {
/// What a ValueSlider can stand on, in the unit of its Quantity.
struct ValueRange {
    std::vector<double> stops;  ///< what the slider can stand on, ascending; 0 first where `none` is set
    double least = 0;           ///< what can be typed
    double most = 0;
    int decimals = 0;  ///< of a number or a factor
    QString none;      ///< shown for 0, such as "free"; empty: 0 is a number like others
};

/// A number by slider and by typing: the slider for a try, the box for the exact value. The box may hold a value
/// between two stops, the slider then stands on the nearest.
class ValueSlider : public QWidget {
    Q_OBJECT

public:
    /// `name` is spoken by screen readers, and stands in no label: forms have their own.
    ValueSlider(const QString& name, Quantity quantity, ValueRange range, QWidget* parent = nullptr);

    double value() const;
    /// Shows a value; nothing is emitted.
    void setValue(double value);
    void setRange(ValueRange range);
    QSlider& slider() const { return *slider_; }
    QuantityBox& box() const { return *box_; }

Q_SIGNALS:
    /// The user's doing.
    void valueChanged(double value);
    /// A drag or a key press begins: what follows is one change.
    void gestureStarted();
    /// What was typed cannot be taken: value, rule and remedy.
    void refused(const QString& why);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    ValueRange range_;
    QSlider* slider_;
    QuantityBox* box_;
};
}  // namespace pipescope
