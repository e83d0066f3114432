#pragma once

#include "gui/document/scenario.h"
#include "gui/timeline/timeline_painter.h"

#include <QWidget>

#include <memory>
#include <vector>

namespace pipescope {
/// A scenario that is kept, with the name it goes by.
struct PinnedScenario {
    QString name;
    std::shared_ptr<const SimulatedScenario> simulated;
};

/// Small timelines of scenarios below one another, on one time axis, so that the longer step is the longer picture.
class ScenarioTimelines : public QWidget {
    Q_OBJECT

public:
    explicit ScenarioTimelines(QWidget* parent = nullptr);
    /// Of scenarios that run.
    void setScenarios(std::vector<PinnedScenario> scenarios);
    /// Where the k-th one's lanes are drawn; its right end is the longest step's.
    QRect lanesRect(std::size_t k) const;
    /// In pixels, on every timeline alike.
    double pixelAtTime(std::int64_t ns) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    int titleHeight() const;
    int slotHeight() const;
    std::int64_t longest() const;

    std::vector<PinnedScenario> scenarios_;
    std::vector<TimelinePainter> painters_;
};
}  // namespace pipescope
