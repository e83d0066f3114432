#pragma once

#include "analysis/area_sums.h"

#include <QString>
#include <QWidget>

#include <optional>
#include <vector>

namespace pipescope {
/// A histogram of how long the tasks, ranges or kernels of one name took over a whole file. The part of a bar that lies
/// in the counted range is darker. A click on a bar, or Return, picks its lengths; the arrow keys choose a bar.
class LengthChart : public QWidget {
    Q_OBJECT

public:
    explicit LengthChart(QWidget* parent = nullptr);

    /// `name`: whose lengths. No bins: the chart says what it will show.
    void setLengths(const QString& name, std::vector<LengthBin> bins);
    const std::vector<LengthBin>& bins() const { return bins_; }
    /// Why a click picks nothing; empty: it picks.
    void setWhyNoPick(const QString& why) { whyNoPick_ = why; }
    std::optional<std::size_t> chosen() const { return chosen_; }
    /// Null without bars.
    QRectF barOf(std::size_t bin) const;
    std::optional<std::size_t> binAt(const QPointF& position) const;
    /// "20 ms to 25 ms: 7, of which 2 in the counted range"
    QString describe(std::size_t bin) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

Q_SIGNALS:
    void picked(const pipescope::LengthBin& lengths);

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

private:
    QRectF plot() const;
    void choose(std::size_t bin);
    void pick(std::size_t bin);
    std::int64_t most() const;
    void paintAxis(QPainter& painter) const;

    QString name_;
    std::vector<LengthBin> bins_;
    std::optional<std::size_t> chosen_;
    QString whyNoPick_;
};
}  // namespace pipescope
