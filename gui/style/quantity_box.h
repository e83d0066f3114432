#pragma once

#include <QDoubleSpinBox>
#include <QString>

namespace pipescope {
/// Type of a quantity, and the unit of its value.
enum class Quantity {
    number,    ///< without a unit
    factor,    ///< "2×"
    bytes,     ///< GiB
    rate,      ///< GB/s
    duration,  ///< µs
};

/// Input of a quantity with its unit, in the syntax of the commands: "30 MiB", "1 kB/s". A number without a unit has
/// the unit of the value. Invalid or out-of-range input is refused with a reason, and the value is kept. Undo is that
/// of the text while it is typed, and that of the window once it took effect.
class QuantityBox : public QDoubleSpinBox {
    Q_OBJECT

public:
    /// `name` appears in messages: "Batch is 0; ..".
    QuantityBox(QString name, Quantity quantity, QWidget* parent = nullptr);

    /// Decimals of a number or a factor. Other quantities are exact to the byte or ns.
    void setPrecision(int decimals);

    QString textFromValue(double value) const override;
    double valueFromText(const QString& text) const override;
    QValidator::State validate(QString& text, int& position) const override;
    void stepBy(int steps) override;

protected:
    bool event(QEvent* event) override;

Q_SIGNALS:
    /// The message gives value, rule and remedy.
    void refused(const QString& why) const;

private:
    double parsed(const QString& text) const;
    QString shownValue() const;

    QString name_;
    Quantity quantity_;
};
}  // namespace pipescope
