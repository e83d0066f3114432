#pragma once

#include <QLatin1String>

namespace pipescope {
// Keys of the viewer's settings. If the meaning of a key changes, it gets a new number.

inline constexpr QLatin1String kWindowGeometryKey("window/geometry");
/// Layout of the docks. QMainWindow rejects one of another version.
inline constexpr QLatin1String kWindowStateKey("window/state");
inline constexpr int kWindowStateVersion = 2;
/// Absolute paths, most recent first.
inline constexpr QLatin1String kRecentFilesKey("files/recent");
inline constexpr int kMostRecentFiles = 10;
/// The tabs in order, and the current one.
inline constexpr QLatin1String kOpenFilesKey("files/open");
inline constexpr QLatin1String kCurrentFileKey("files/current");
/// system, light or dark.
inline constexpr QLatin1String kThemeKey("window/theme");
/// Queries of the SQL console, most recent first.
inline constexpr QLatin1String kQueriesKey("console/queries");
}  // namespace pipescope
