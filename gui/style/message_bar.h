#pragma once

#include <QFrame>

class QLabel;
class QToolButton;

namespace pipescope {
/// A message above the content. It stays until closed. Of a long one, two lines are shown until the rest is asked for.
class MessageBar : public QFrame {
    Q_OBJECT

public:
    enum class Kind { note, error };

    explicit MessageBar(QWidget* parent = nullptr);
    void showMessage(Kind kind, const QString& text);
    QString text() const;
    /// Shows the rest of a long message, and hides it again.
    QToolButton& more() const { return *more_; }

Q_SIGNALS:
    /// The user closed the message.
    void closed();

protected:
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void fit();

    QLabel* icon_;
    QLabel* text_;
    QToolButton* more_;
    QToolButton* close_;
};
}  // namespace pipescope
