#include "tests/gui/sample_trace.h"

#include <QTemporaryDir>

namespace pipescope {
std::filesystem::path temporaryPath(const std::string& name) {
    static const QTemporaryDir folder;
    return std::filesystem::path(folder.path().toStdString()) / name;
}
}  // namespace pipescope
