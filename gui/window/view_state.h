#pragma once

#include "gui/timeline/time_axis_model.h"

#include <QString>

#include <cstdint>
#include <optional>
#include <vector>

class QSettings;

namespace pipescope {
/// The last view of a file.
struct ViewState {
    std::int32_t step = 0;
    TimeRange visible;
    std::vector<TimeMark> marks;
    // Comparison of the timelines. Empty names: the default.
    QString mode;
    QString alignment;
    bool causes = false;
    bool criticalPath = false;

    friend bool operator==(const ViewState&, const ViewState&) = default;
};

/// Saves and loads the view of a file, under a key derived from its path. Beyond kMostViewStates, the least recently
/// saved ones are deleted. States of a later version are neither changed nor read.
inline constexpr int kMostViewStates = 200;
void saveViewState(QSettings& settings, const QString& path, const ViewState& state);
std::optional<ViewState> loadViewState(QSettings& settings, const QString& path);
}  // namespace pipescope
