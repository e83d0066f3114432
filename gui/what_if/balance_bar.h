#pragma once

#include "gui/what_if/balance_cuts.h"

#include <QStringList>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// What a BalanceBar shows.
struct BalanceScene {
    std::shared_ptr<const Profile> profile;  ///< for the layers' names
    LayerSums sums;
    Balance balance{{1}};
    std::optional<Balance> ghost;  ///< where the best cuts are, if known
    std::vector<Bytes> peaks;      ///< of each partition's lane; empty if not known
    std::vector<Bytes> limits;     ///< of each partition's lane; empty without
};

/// The layers of a model as a bar, above its partitions, with cuts that mouse and keys move: drag a cut, or focus it
/// with Tab and move it with the arrows (a layer), Shift + arrows (ten), Home and End (as far as it goes). The best
/// cuts stand as ghosts. It changes nothing by itself: it says which cut should go where.
class BalanceBar : public QWidget {
    Q_OBJECT

public:
    explicit BalanceBar(QWidget* parent = nullptr);

    void setScene(BalanceScene scene);
    void setLayerWidth(LayerWidth width);
    /// The cut that keys move; nothing with one partition.
    std::optional<std::size_t> focusedCut() const;
    double cutX(std::size_t cut) const;
    /// Where the ghost of a cut stands; nothing without ghosts.
    std::optional<double> ghostX(std::size_t cut) const;
    QRectF partitionRect(std::size_t partition) const;
    /// "25 layers, 12.3 ms, 4.2 GiB": what stands on a partition if there is room.
    QStringList partitionFacts(std::size_t partition) const;
    bool isOverLimit(std::size_t partition) const;
    /// Of the layer, or the partition, at a place: what the tooltip says.
    QString descriptionAt(const QPoint& position) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

Q_SIGNALS:
    void cutMoved(std::size_t cut, std::int64_t layer);
    /// A drag or a key press begins.
    void gestureStarted();

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
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
    std::optional<double> grabbed_;  // how far from the cut the pointer holds it
};
}  // namespace pipescope
