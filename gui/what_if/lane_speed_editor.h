#pragma once

#include <QWidget>

#include <optional>
#include <vector>

class QComboBox;

namespace pipescope {
class ValueSlider;

/// Speeds of lanes relative to the profiled device: a choice of one or all lanes, and a slider. Takes one line for any
/// number of lanes.
class LaneSpeedEditor : public QWidget {
    Q_OBJECT

public:
    explicit LaneSpeedEditor(QWidget* parent = nullptr);

    /// Shows speeds without emitting a signal. Empty: all 1.
    void setSpeeds(const std::vector<double>& speeds, int lanes);
    QComboBox& choice() const { return *choice_; }
    ValueSlider& slider() const { return *slider_; }

Q_SIGNALS:
    /// One per lane; empty if all are 1.
    void speedsChanged(const std::vector<double>& speeds);
    void gestureStarted();
    void refused(const QString& why);

private:
    /// The selected lane, or empty for all lanes.
    std::optional<std::size_t> lane() const;
    void showSpeed();

    std::vector<double> speeds_{1.0};
    QComboBox* choice_;
    ValueSlider* slider_;
};
}  // namespace pipescope
