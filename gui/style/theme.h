#pragma once

#include <QString>

namespace pipescope {
enum class Theme { system, light, dark };
/// Property of a window that is true while it is drawn into a file.
inline constexpr const char* kInPicture = "pipescopeInPicture";

/// Throws UsageError for an unknown name.
Theme parseTheme(const QString& name);
/// Sets the application's palette and style sheet. `system` is dark if the desktop's palette was at the first call.
void applyTheme(Theme theme);
}  // namespace pipescope
