#pragma once

#include <QString>
#include <QStringList>

#include <vector>

namespace pipescope {
/// Facts in a trace that no view shows. Rows of texts; empty if the file is not a PipeScope trace.
struct RunFacts {
    std::vector<QStringList> environment;  ///< property, value
    std::vector<QStringList> losses;       ///< source, recorded, dropped, truncated, open at exit
    std::vector<QStringList> diagnostics;  ///< severity, source, text
};

RunFacts readRunFacts(const QString& path);
}  // namespace pipescope
