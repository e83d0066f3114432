#pragma once

#include <QString>

#include <filesystem>
#include <string>

namespace pipescope {
// Names of files are bytes. Qt shows the bytes of a name that is not UTF-8 as U+FFFD, and such a text names no file, or
// another one.

/// The path as text. Throws Error if it is not UTF-8.
QString textOfPath(const std::string& path);
/// The path that a text from a dialog, a dropped address or textOfPath() names. Throws Error if a file whose name is
/// not UTF-8 looks the same: it may be the one that was chosen.
std::filesystem::path pathOf(const QString& text);
}  // namespace pipescope
