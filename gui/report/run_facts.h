#pragma once

#include <QString>
#include <QStringList>

#include <vector>

namespace pipescope {
/// What a trace says of its run that no view shows. Rows of texts; empty where the file is no trace of ours.
struct RunFacts {
    std::vector<QStringList> environment;  ///< property, value
    std::vector<QStringList> losses;       ///< source, recorded, dropped, truncated, open at exit
    std::vector<QStringList> diagnostics;  ///< severity, source, text
};

RunFacts readRunFacts(const QString& path);
}  // namespace pipescope
