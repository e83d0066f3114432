#include "gui/style/quantity_box.h"

#include "base/error.h"
#include "base/quantities.h"
#include "gui/style/number_format.h"

#include <QKeyEvent>
#include <QLineEdit>
#include <QLocale>
#include <QRegularExpression>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr int kExact = 12;  // decimals needed to distinguish bytes in GiB

/// A unit as displayed and typed, and its size in the unit of the value.
struct Unit {
    const char* name;
    double size;
};

std::span<const Unit> unitsOf(Quantity quantity) {
    static const std::vector<Unit> bytes{
        {"TiB", 1024}, {"GiB", 1}, {"MiB", 1 / 1024.0}, {"KiB", 1024 / kGiB}, {"B", 1 / kGiB}};
    static const std::vector<Unit> rates{{"TB/s", 1e3}, {"GB/s", 1}, {"MB/s", 1e-3}, {"kB/s", 1e-6}, {"B/s", 1e-9}};
    static const std::vector<Unit> times{{"s", 1e6}, {"ms", 1e3}, {"µs", 1}, {"ns", 1e-3}};
    switch (quantity) {
        case Quantity::bytes: return bytes;
        case Quantity::rate: return rates;
        case Quantity::duration: return times;
        case Quantity::number:
        case Quantity::factor: break;
    }
    return {};
}

const Unit& unitFor(std::span<const Unit> units, double value) {
    const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& unit) { return value >= unit.size; });
    return found == units.end() ? units.back() : *found;
}

/// Parses a number in the locale's notation, or with a decimal point.
double numberOf(const QString& text, bool& ok) {
    const double number = QLocale().toDouble(text, &ok);
    return ok ? number : QLocale::c().toDouble(text, &ok);
}
}  // namespace

QuantityBox::QuantityBox(QString name, Quantity quantity, QWidget* parent)
    : QDoubleSpinBox(parent), name_(std::move(name)), quantity_(quantity) {
    setAccessibleName(name_);
    setKeyboardTracking(false);  // a partially typed number must not take effect
    setPrecision(0);
    if (quantity_ != Quantity::number && quantity_ != Quantity::factor) {
        setToolTip(tr("A number with its unit, such as %1")
                       .arg(quantity_ == Quantity::bytes  ? QStringLiteral("30 MiB")
                            : quantity_ == Quantity::rate ? QStringLiteral("12.5 GB/s")
                                                          : QStringLiteral("10 µs")));
    }
}

void QuantityBox::setPrecision(int decimals) {
    setDecimals(unitsOf(quantity_).empty() ? decimals : kExact);
    setStepType(unitsOf(quantity_).empty() && decimals == 0 ? DefaultStepType : AdaptiveDecimalStepType);
}

QString QuantityBox::textFromValue(double value) const {
    const std::span<const Unit> units = unitsOf(quantity_);
    if (units.empty()) {
        const QString text = QDoubleSpinBox::textFromValue(value);
        return quantity_ == Quantity::factor ? text + QChar(QChar::Nbsp) + QChar(0xD7) : text;
    }
    const Unit& unit = unitFor(units, value);
    return QLocale().toString(value / unit.size, 'g', 6) + QChar(QChar::Nbsp) + QString::fromUtf8(unit.name);
}

double QuantityBox::parsed(const QString& typed) const {
    QString text = typed.trimmed();
    text.replace(QChar(QChar::Nbsp), QLatin1Char(' ')).replace(QChar(0x202F), QLatin1Char(' '));
    if (quantity_ == Quantity::factor) {
        text = text.remove(QChar(0xD7)).trimmed();
    }
    static const QRegularExpression kNumber(QStringLiteral("^[-+0-9.,'’]*([0-9][eE][-+]?[0-9]+)?"));
    const QString digits = kNumber.match(text).captured();
    QString unit = text.mid(digits.size()).trimmed();
    bool ok = false;
    const double number = numberOf(digits, ok);
    if (unitsOf(quantity_).empty()) {
        if (!ok || !unit.isEmpty() || !std::isfinite(number)) {
            throw UsageError(tr("%1 is “%2”; it must be a number from %3 to %4; type one of them")
                                 .arg(name_, typed, textFromValue(minimum()), textFromValue(maximum()))
                                 .toStdString());
        }
        return number;
    }
    if (ok && number == 0 && unit.isEmpty()) {
        return 0;  // the special text means 0: no limit, or an unlimited link
    }
    const auto written = [&](const char* ownUnit) {
        unit.replace(QChar(0xB5), QLatin1Char('u')).replace(QChar(0x3BC), QLatin1Char('u'));
        return ok ? (QString::number(number, 'g', 17) + (unit.isEmpty() ? QString::fromLatin1(ownUnit) : unit))
                        .toStdString()
                  : text.toStdString();
    };
    const std::string name = name_.toStdString();
    switch (quantity_) {
        case Quantity::bytes: return static_cast<double>(parse_bytes(written("GiB"), name)) / kGiB;
        case Quantity::rate: return parse_bandwidth(written("GB/s"), name) / 1e9;
        default: return parse_duration_ns(written("us"), name) / 1e3;
    }
}

QString QuantityBox::shownValue() const {
    const bool special = value() == minimum() && !specialValueText().isEmpty();
    return special ? specialValueText() : textFromValue(value());
}

double QuantityBox::valueFromText(const QString& text) const {
    if (text == textFromValue(value())) {
        return value();  // the text shows fewer digits than the value has
    }
    if (!specialValueText().isEmpty() && text == specialValueText()) {
        return minimum();
    }
    try {
        const double number = parsed(text);
        const bool whole = decimals() == 0;
        if (number < minimum() || number > maximum() || (whole && number != std::round(number))) {
            throw UsageError(
                (whole ? tr("%1 is %2; it must be a whole number from %3 to %4; it stays at %5")
                       : tr("%1 is %2; it must be from %3 to %4; it stays at %5"))
                    .arg(name_, text.trimmed(), textFromValue(minimum()), textFromValue(maximum()), shownValue())
                    .toStdString());
        }
        return number;
    } catch (const Error& error) {
        Q_EMIT refused(QString::fromUtf8(error.what()));
        return value();
    }
}

QValidator::State QuantityBox::validate(QString& /*text*/, int& /*position*/) const {
    return QValidator::Acceptable;  // accepts any text while typing; it is checked on commit
}

bool QuantityBox::event(QEvent* event) {
    if (event->type() == QEvent::ShortcutOverride) {
        const auto& key = *static_cast<QKeyEvent*>(event);
        const bool typing = lineEdit()->text() != shownValue();
        if ((key.matches(QKeySequence::Undo) || key.matches(QKeySequence::Redo)) && !typing) {
            event->ignore();  // the window undoes changes of values, the field those of its text
            return true;
        }
    }
    return QDoubleSpinBox::event(event);
}

void QuantityBox::stepBy(int steps) {
    const std::span<const Unit> units = unitsOf(quantity_);
    if (units.empty()) {
        QDoubleSpinBox::stepBy(steps);
        return;
    }
    interpretText();
    // One tenth of the displayed number's decade. At zero, a unit typical for links and memories.
    const Unit& unit = unitFor(units, value());
    const double shown = value() / unit.size;
    if (value() <= 0) {
        setValue(steps > 0 ? steps * (quantity_ == Quantity::duration ? 1.0 : 1.0 / 1024) : 0);
        return;
    }
    setValue(value() + steps * std::pow(10, std::floor(std::log10(std::max(1.0, shown))) - 1) * unit.size);
}
}  // namespace pipescope
