#pragma once

#include <QCoreApplication>
#include <QString>

namespace pipescope {
/// A text for people, translated, where there is no QObject whose tr() could do it.
inline QString translated(const char* source) {
    return QCoreApplication::translate("PipeScope", source);
}

/// Stands for a value that is not known, in tables and figures.
inline QString unknownValue() {
    return QStringLiteral("–");
}
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
}  // namespace pipescope
