#pragma once

#include <QString>

namespace pipescope {
enum class Theme { system, light, dark };

/// Throws UsageError for another name.
Theme parseTheme(const QString& name);
/// Sets the application's palette; `system` is the desktop's as it was at the first call.
void applyTheme(Theme theme);
}  // namespace pipescope
