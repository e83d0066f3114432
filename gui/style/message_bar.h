#pragma once

#include <QFrame>

class QLabel;

namespace pipescope {
/// A line above the content that says what went wrong or is missing; stays until closed.
class MessageBar : public QFrame {
    Q_OBJECT

public:
    enum class Kind { note, error };

    explicit MessageBar(QWidget* parent = nullptr);
    void showMessage(Kind kind, const QString& text);
    QString text() const;

private:
    QLabel* icon_;
    QLabel* text_;
};
}  // namespace pipescope
