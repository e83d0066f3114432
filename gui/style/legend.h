#pragma once

#include "schedule/task_key.h"

#include <QWidget>

#include <vector>

namespace pipescope {
/// What colours and patterns mean: a swatch and a name for each kind that occurs, and for the bubble.
class Legend : public QWidget {
    Q_OBJECT

public:
    explicit Legend(QWidget* parent = nullptr);
    void setKinds(std::vector<TaskKind> kinds);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<TaskKind> kinds_;
};
}  // namespace pipescope
