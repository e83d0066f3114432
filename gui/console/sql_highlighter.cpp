#include "gui/console/sql_highlighter.h"

#include <QFont>
#include <QRegularExpression>
#include <QSet>

namespace pipescope {
namespace {
const QSet<QString>& words() {
    static const QSet<QString> all = [] {
        const QString list = QStringLiteral(
            "ALL AND AS ASC BETWEEN BY CASE CAST COLLATE CROSS DESC DISTINCT ELSE END ESCAPE EXCEPT EXISTS EXPLAIN "
            "FILTER "
            "FROM GLOB GROUP HAVING IN INNER INTERSECT IS ISNULL JOIN LEFT LIKE LIMIT MATCH NATURAL NOT NOTNULL NULL "
            "NULLS "
            "OFFSET ON OR ORDER OUTER OVER PARTITION PLAN PRAGMA QUERY RANGE RECURSIVE ROWS SELECT THEN UNION USING "
            "VALUES "
            "WHEN WHERE WINDOW WITH");
        const QStringList each = list.split(QLatin1Char(' '));
        return QSet<QString>(each.begin(), each.end());
    }();
    return all;
}

// Matches a quoted text (with doubled quotes inside), a comment, a number, or a name.
const QRegularExpression& token() {
    static const QRegularExpression pattern(
        QStringLiteral("(?<text>'(?:[^']|'')*'?)|(?<remark>--.*)|(?<number>\\b\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\b)|(?"
                       "<name>[A-Za-z_]\\w*)"));
    return pattern;
}
}  // namespace

SqlHighlighter::SqlHighlighter(QTextDocument* document) : QSyntaxHighlighter(document) {
    word_.setFontWeight(QFont::Bold);
    remark_.setFontItalic(true);
    setDark(false);
}

void SqlHighlighter::setDark(bool dark) {
    word_.setForeground(QColor::fromRgb(dark ? 0x6CB4F0 : 0x005A92));
    table_.setForeground(QColor::fromRgb(dark ? 0x4FCFA5 : 0x00704F));
    literal_.setForeground(QColor::fromRgb(dark ? 0xF0A868 : 0xA34700));
    remark_.setForeground(QColor::fromRgb(dark ? 0x9AA0A6 : 0x5F6368));
    rehighlight();
}

void SqlHighlighter::highlightBlock(const QString& text) {
    auto match = token().globalMatch(text);
    while (match.hasNext()) {
        const QRegularExpressionMatch each = match.next();
        const QTextCharFormat* format = nullptr;
        if (each.hasCaptured(QStringLiteral("remark"))) {
            format = &remark_;
        } else if (each.hasCaptured(QStringLiteral("text")) || each.hasCaptured(QStringLiteral("number"))) {
            format = &literal_;
        } else if (words().contains(each.captured().toUpper())) {
            format = &word_;
        } else if (each.captured() == each.captured().toUpper() && each.capturedLength() > 2) {
            format = &table_;  // table names of a trace are upper case
        }
        if (format != nullptr) {
            setFormat(static_cast<int>(each.capturedStart()), static_cast<int>(each.capturedLength()), *format);
        }
    }
}
}  // namespace pipescope
