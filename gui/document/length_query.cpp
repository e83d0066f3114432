#include "gui/document/length_query.h"

#include <QRegularExpression>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr std::array<std::pair<const char*, std::int64_t>, 4> kUnits{
    {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}}};

std::int64_t unitOf(const QString& name) {
    for (const auto& [unit, ns] : kUnits) {
        if (name == QLatin1String(unit)) {
            return ns;
        }
    }
    return 1'000;  // of µs
}

/// In the largest unit in which three decimals are exact.
QString exactLength(std::int64_t ns) {
    for (const auto& [unit, size] : kUnits) {
        const std::int64_t smallest = std::max<std::int64_t>(1, size / 1000);
        if (ns >= size && ns % smallest == 0) {
            QString number = QString::number(ns / size);
            if (const std::int64_t rest = ns % size / smallest; size > 1 && rest > 0) {
                QString decimals = QStringLiteral("%1").arg(rest, 3, 10, QLatin1Char('0'));
                while (decimals.endsWith(QLatin1Char('0'))) {
                    decimals.chop(1);
                }
                number += QLatin1Char('.') + decimals;
            }
            return number + QLatin1String(unit);
        }
    }
    return QString::number(ns) + QStringLiteral("ns");
}

void takeMedians(const QString& sign, double value, LengthLimits& limits) {
    if (sign == QLatin1String("<")) {
        limits.mostMedians = std::min(limits.mostMedians, std::nextafter(value, 0.0));
    } else if (sign == QLatin1String("<=") || sign == QStringLiteral("≤")) {
        limits.mostMedians = std::min(limits.mostMedians, value);
    } else {
        const bool more = sign == QLatin1String(">");
        limits.leastMedians = std::max(limits.leastMedians,
                                       more ? std::nextafter(value, std::numeric_limits<double>::infinity()) : value);
    }
}
}  // namespace

LengthLimits takeLengths(QString& text) {
    static const QRegularExpression kLimit(
        QStringLiteral("(?:^|(?<=\\s))(>=|<=|>|<|≥|≤)\\s*([0-9]+(?:[.,][0-9]+)?)\\s*(ns|us|µs|μs|ms|s|x|×)(?=\\s|$)"),
        QRegularExpression::CaseInsensitiveOption);
    LengthLimits limits;
    for (QRegularExpressionMatch found = kLimit.match(text); found.hasMatch(); found = kLimit.match(text)) {
        const QString sign = found.captured(1);
        const QString unit = found.captured(3).toLower();
        const double value = QString(found.captured(2)).replace(QLatin1Char(','), QLatin1Char('.')).toDouble();
        if (unit == QLatin1String("x") || unit == QStringLiteral("×")) {
            takeMedians(sign, value, limits);
            text.remove(found.capturedStart(), found.capturedLength());
            continue;
        }
        const double exact = std::min(value * static_cast<double>(unitOf(unit)), 9.2e18);
        const auto ns = static_cast<std::int64_t>(std::llround(exact));
        if (sign == QLatin1String("<")) {
            limits.most = std::min(limits.most, ns - 1);
        } else if (sign == QLatin1String("<=") || sign == QStringLiteral("≤")) {
            limits.most = std::min(limits.most, ns);
        } else {
            limits.least = std::max(limits.least, sign == QLatin1String(">") ? ns + 1 : ns);
        }
        text.remove(found.capturedStart(), found.capturedLength());
    }
    text = text.trimmed();
    return limits;
}

QString lengthQuery(std::int64_t from, std::int64_t to) {
    return QStringLiteral(">=%1 <%2").arg(exactLength(from), exactLength(to));
}
}  // namespace pipescope
