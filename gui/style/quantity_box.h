#pragma once

#include <QDoubleSpinBox>
#include <QString>

namespace pipescope {
/// What a QuantityBox holds, and the unit of its value.
enum class Quantity {
    number,    ///< without a unit
    factor,    ///< "2×"
    bytes,     ///< GiB
    rate,      ///< GB/s
    duration,  ///< µs
};

/// A quantity that is typed with its unit, as the commands read it: "30 MiB", "1 kB/s". A number without a unit is in
/// the unit of the value. What is no quantity, or out of range, is refused with a reason, and the value stays.
class QuantityBox : public QDoubleSpinBox {
    Q_OBJECT

public:
    /// `name` stands in messages: "Batch is 0; ..".
    QuantityBox(QString name, Quantity quantity, QWidget* parent = nullptr);

    /// Of the values of a number or a factor; other quantities are as exact as bytes and ns are.
    void setPrecision(int decimals);

    QString textFromValue(double value) const override;
    double valueFromText(const QString& text) const override;
    QValidator::State validate(QString& text, int& position) const override;
    void stepBy(int steps) override;

Q_SIGNALS:
    /// Value, rule and remedy.
    void refused(const QString& why) const;

private:
    double parsed(const QString& text) const;
    QString shownValue() const;

    QString name_;
    Quantity quantity_;
};
}  // namespace pipescope
