#pragma once

#include <QSyntaxHighlighter>
#include <QTextCharFormat>

namespace pipescope {
/// Colours SQLite's words, texts, numbers, remarks and the tables of a trace; light or dark like the palette.
class SqlHighlighter : public QSyntaxHighlighter {
    Q_OBJECT

public:
    /// The document owns it.
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
