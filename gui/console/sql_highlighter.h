#pragma once

#include <QSyntaxHighlighter>
#include <QTextCharFormat>

namespace pipescope {
/// Colours SQLite keywords, strings, numbers, comments and the tables of a trace, for a light or dark palette.
class SqlHighlighter : public QSyntaxHighlighter {
    Q_OBJECT

public:
    explicit SqlHighlighter(QTextDocument* document);
    void setDark(bool dark);

protected:
    void highlightBlock(const QString& text) override;

private:
    QTextCharFormat word_;
    QTextCharFormat table_;
    QTextCharFormat literal_;
    QTextCharFormat remark_;
};
}  // namespace pipescope
