#pragma once

#include "gui/document/scenario.h"

#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// Peak memory of each lane as a bar, with the limit as a red line. A lane over its limit is hatched and marked, so
/// that colour is not the only cue.
class PeakBars : public QWidget {
    Q_OBJECT

public:
    explicit PeakBars(QWidget* parent = nullptr);
    /// Null: nothing to show.
    void setScenario(std::shared_ptr<const SimulatedScenario> scenario);
    /// Position of a lane's limit in pixels. Empty without a limit, or if it is outside the scale.
    std::optional<double> limitX(std::size_t lane = 0) const;
    QRectF barOf(std::size_t lane) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {120, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

private:
    std::size_t numLanes() const;
    int rowHeight() const { return fontMetrics().height() + 2; }
    QRectF scaleRect() const;
    Bytes mostShown() const;

    std::shared_ptr<const SimulatedScenario> scenario_;
    std::vector<Bytes> limits_;  // of each lane; empty without limits
};
}  // namespace pipescope
