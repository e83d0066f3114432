#pragma once

#include "gui/what_if/balance_cuts.h"

#include <QStringList>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// Content of a BalanceBar.
struct BalanceScene {
    std::optional<CheckedProfile> profile;  ///< for the layers' names
    LayerSums sums;
    Balance balance{{1}};
    std::optional<Balance> ghost;  ///< the best cuts, if known
    std::vector<Bytes> peaks;      ///< of each partition's lane; empty if unknown
    std::vector<Bytes> limits;     ///< of each partition's lane; empty without limits
};

/// The layers of a model as a bar above its partitions, with cuts that mouse and keys can move. Drag a cut, or focus it
/// with Tab and use the arrows (one layer), Shift + arrows (ten), Home and End (as far as possible). The best cuts
/// appear as ghosts. The bar changes nothing by itself: it emits the requested cuts.
class BalanceBar : public QWidget {
    Q_OBJECT

public:
    explicit BalanceBar(QWidget* parent = nullptr);

    void setScene(BalanceScene scene);
    void setLayerWidth(LayerWidth width);
    /// The cut moved by keys. Empty with a single partition.
    std::optional<std::size_t> focusedCut() const;
    double cutX(std::size_t cut) const;
    /// Position of a cut's ghost. Empty without ghosts.
    std::optional<double> ghostX(std::size_t cut) const;
    QRectF partitionRect(std::size_t partition) const;
    /// Texts on a partition if there is room: "25 layers, 12.3 ms, 4.2 GiB".
    QStringList partitionFacts(std::size_t partition) const;
    bool isOverLimit(std::size_t partition) const;
    /// Tooltip text of the layer or partition at a position.
    QString descriptionAt(const QPoint& position) const;
    QSize sizeHint() const override { return {600, fontMetrics().height() * 8}; }
    QSize minimumSizeHint() const override { return {200, fontMetrics().height() * 6}; }

Q_SIGNALS:
    void cutMoved(std::size_t cut, std::int64_t layer);
    /// A drag or key press starts.
    void gestureStarted();

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent*) override { grabbed_.reset(); }
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    bool focusNextPrevChild(bool next) override;
    bool event(QEvent* event) override;

private:
    QRectF barRect() const;
    QRectF layersRect() const;
    QRectF partitionsRect() const;
    double xOfLayer(std::size_t layer) const;
    std::optional<std::size_t> cutNear(double x) const;
    void paintLayers(QPainter& painter) const;
    void paintPartitions(QPainter& painter) const;
    void paintCuts(QPainter& painter) const;
    void describe();

    BalanceScene scene_;
    LayerWidth width_ = LayerWidth::time;
    std::vector<double> places_{0, 1};
    std::size_t focused_ = 0;
    std::optional<double> grabbed_;  // distance between cut and pointer while dragging
};
}  // namespace pipescope
