#pragma once

#include <QWidget>

namespace pipescope {
/// One line of text that ends in "…" where there is no room, with the whole of it as tooltip.
class ElidedLabel : public QWidget {
    Q_OBJECT

public:
    explicit ElidedLabel(QWidget* parent = nullptr);
    void setText(const QString& text);
    const QString& text() const { return text_; }
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString text_;
};
}  // namespace pipescope
