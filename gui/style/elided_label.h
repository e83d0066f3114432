#pragma once

#include <QStringList>
#include <QWidget>

namespace pipescope {
/// Stands between the parts of a line.
inline const QString kPartSeparator = QStringLiteral("  ·  ");
/// The line without its last part, without its last two parts, and so on.
QStringList withoutLastParts(const QString& line);
/// Likewise, but the part that contains `word` stays, with `after` parts after it, as long as there are others: once
/// they are the last, the first parts are left out.
QStringList withPart(const QString& line, const QString& word, qsizetype after = 0);
/// The line with `added` after the first part that contains `word`, or at the end if none does.
QString withPartAfter(const QString& line, const QString& word, const QString& added);

/// One line of text. Without room for it, the first shorter text that fits, or the last one shortened with "…". The
/// tooltip has the full text.
class ElidedLabel : public QWidget {
    Q_OBJECT

public:
    explicit ElidedLabel(QWidget* parent = nullptr);
    /// `shorter`: longest first.
    void setText(const QString& text, const QStringList& shorter = {});
    const QString& text() const { return text_; }
    QString shownText() const;
    QSize sizeHint() const override { return {fontMetrics().horizontalAdvance(text_), fontMetrics().height()}; }
    QSize minimumSizeHint() const override { return {0, fontMetrics().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString text_;
    QStringList shorter_;
};
}  // namespace pipescope
