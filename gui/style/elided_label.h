#pragma once

#include <QWidget>

namespace pipescope {
/// One line of text, shortened with "…" if necessary. The tooltip has the full text.
class ElidedLabel : public QWidget {
    Q_OBJECT

public:
    explicit ElidedLabel(QWidget* parent = nullptr);
    void setText(const QString& text);
    const QString& text() const { return text_; }
    QSize sizeHint() const override { return {fontMetrics().horizontalAdvance(text_), fontMetrics().height()}; }
    QSize minimumSizeHint() const override { return {0, fontMetrics().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString text_;
};
}  // namespace pipescope
