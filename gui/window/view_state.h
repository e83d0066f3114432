#pragma once

#include "gui/timeline/time_axis_model.h"

#include <QString>

#include <cstdint>
#include <optional>
#include <vector>

class QSettings;

namespace pipescope {
/// How a file was looked at last.
struct ViewState {
    std::int32_t step = 0;
    TimeRange visible;
    std::vector<TimeMark> marks;
    // How the timelines are compared; empty names: as usual.
    QString mode;
    QString alignment;
    bool causes = false;
    bool criticalPath = false;

    friend bool operator==(const ViewState&, const ViewState&) = default;
};

/// The state of a file, under a key of its path; the least recently saved ones are forgotten beyond kMostViewStates.
/// What a later version wrote is left alone and not read.
inline constexpr int kMostViewStates = 200;
void saveViewState(QSettings& settings, const QString& path, const ViewState& state);
std::optional<ViewState> loadViewState(QSettings& settings, const QString& path);
}  // namespace pipescope
