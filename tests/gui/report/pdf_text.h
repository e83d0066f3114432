#pragma once

#include <QByteArray>
#include <QHash>
#include <QMap>
#include <QRegularExpression>
#include <QString>
#include <QtEndian>

#include <utility>

namespace pipescope {
/// Text of a PDF written by Qt, line by line, and its number of pages.
struct PdfText {
    QString text;
    int pages = 0;
};

namespace pdf {
/// Decompressed content of an object's stream.
inline QByteArray streamOf(const QByteArray& object) {
    const qsizetype start = object.indexOf("stream\n");
    if (start < 0) {
        return {};
    }
    const QByteArray packed = object.mid(start + 7);
    if (!object.left(start).contains("/FlateDecode")) {
        return packed;
    }
    QByteArray withSize(4, '\0');
    qToBigEndian<quint32>(1 << 20, withSize.data());  // a guess, which qUncompress() outgrows
    return qUncompress(withSize + packed);
}

/// Maps glyphs to text: <0001> <0003> [<004D> <0065> <0064> ]
inline QHash<int, QString> glyphsOf(const QByteArray& map) {
    static const QRegularExpression kRange(QStringLiteral("<(\\w{4})> <\\w{4}> (?:\\[((?:<\\w+> ?)+)\\]|(<\\w+>))"));
    static const QRegularExpression kLetter(QStringLiteral("<(\\w+)>"));
    QHash<int, QString> glyphs;
    auto ranges = kRange.globalMatch(QString::fromLatin1(map));
    while (ranges.hasNext()) {
        const QRegularExpressionMatch range = ranges.next();
        int glyph = range.captured(1).toInt(nullptr, 16);
        auto letters = kLetter.globalMatch(range.captured(2) + range.captured(3));
        while (letters.hasNext()) {
            const QString hex = letters.next().captured(1);
            QString text;
            for (qsizetype i = 0; i + 4 <= hex.size(); i += 4) {
                text += QChar(hex.mid(i, 4).toUShort(nullptr, 16));
            }
            glyphs[glyph++] = text;
        }
    }
    return glyphs;
}
}  // namespace pdf

inline PdfText pdfText(const QByteArray& bytes) {
    static const QRegularExpression kToUnicode(QStringLiteral("/ToUnicode (\\d+) 0 R"));
    static const QRegularExpression kToken(
        QStringLiteral("/F(\\d+) [\\d.]+ Tf|(-?[\\d.]+) (-?[\\d.]+) Td|<(\\w{4})> Tj"));
    static const QRegularExpression kObject(QStringLiteral("(?:^|\n)(\\d+) 0 obj\n"));
    QMap<int, QByteArray> objects;
    for (qsizetype at = 0, end = 0; (end = bytes.indexOf("\nendobj", at)) >= 0; at = end + 7) {
        const QByteArray object = bytes.mid(at, end - at);
        objects[kObject.match(QString::fromLatin1(object)).captured(1).toInt()] = object;
    }
    QHash<int, QHash<int, QString>> fonts;
    PdfText found;
    for (auto each = objects.begin(); each != objects.end(); ++each) {
        found.pages += each->contains("/Type /Page\n") ? 1 : 0;
        const QRegularExpressionMatch font = kToUnicode.match(QString::fromLatin1(each->left(2000)));
        if (font.hasMatch()) {
            fonts[each.key()] = pdf::glyphsOf(pdf::streamOf(objects[font.captured(1).toInt()]));
        }
    }
    for (const QByteArray& object : std::as_const(objects)) {
        const QByteArray content = pdf::streamOf(object);
        if (!content.contains(" Tj")) {
            continue;
        }
        int font = 0;
        auto tokens = kToken.globalMatch(QString::fromLatin1(content));
        while (tokens.hasNext()) {
            const QRegularExpressionMatch token = tokens.next();
            if (!token.captured(1).isEmpty()) {
                font = token.captured(1).toInt();
                found.text += QLatin1Char('\n');  // each piece of text begins by naming its font
            } else if (!token.captured(4).isEmpty()) {
                found.text += fonts[font][token.captured(4).toInt(nullptr, 16)];
            } else if (token.captured(3).toDouble() != 0) {
                found.text += QLatin1Char('\n');
            }
        }
    }
    found.text = found.text.normalized(QString::NormalizationForm_KC);  // a ligature is its letters
    return found;
}
}  // namespace pipescope
