#pragma once

#include <QLatin1String>

namespace pipescope {
// Keys of the viewer's settings. A key whose meaning changes gets a new number.

inline constexpr QLatin1String kWindowGeometryKey("window/geometry");
/// Where the docks stand; QMainWindow refuses one of another version.
inline constexpr QLatin1String kWindowStateKey("window/state");
inline constexpr int kWindowStateVersion = 2;
/// Absolute paths, the latest first.
inline constexpr QLatin1String kRecentFilesKey("files/recent");
inline constexpr int kMostRecentFiles = 10;
/// The tabs, in their order, and which one is the current.
inline constexpr QLatin1String kOpenFilesKey("files/open");
inline constexpr QLatin1String kCurrentFileKey("files/current");
/// system, light or dark.
inline constexpr QLatin1String kThemeKey("window/theme");
/// Queries of the SQL console, the latest first.
inline constexpr QLatin1String kQueriesKey("console/queries");
}  // namespace pipescope
