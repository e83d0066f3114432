#pragma once

#include <QWidget>

#include <optional>
#include <vector>

class QComboBox;

namespace pipescope {
class ValueSlider;

/// Speeds of lanes against the profiled device: a choice of the lane, or all of them, and a slider. One line, however
/// many lanes there are.
class LaneSpeedEditor : public QWidget {
    Q_OBJECT

public:
    explicit LaneSpeedEditor(QWidget* parent = nullptr);

    /// Shows speeds; nothing is emitted. Empty: all 1.
    void setSpeeds(const std::vector<double>& speeds, int lanes);
    QComboBox& choice() const { return *choice_; }
    ValueSlider& slider() const { return *slider_; }

Q_SIGNALS:
    /// One for each lane; empty if all are 1.
    void speedsChanged(const std::vector<double>& speeds);
    void gestureStarted();
    void refused(const QString& why);

private:
    /// Nothing: all lanes.
    std::optional<std::size_t> lane() const;
    void showSpeed();

    std::vector<double> speeds_{1.0};
    QComboBox* choice_;
    ValueSlider* slider_;
};
}  // namespace pipescope
