#pragma once

#include <QFrame>

class QLabel;

namespace pipescope {
/// A message line above the content. It stays until closed.
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
