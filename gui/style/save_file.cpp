#include "gui/style/save_file.h"

#include "schedule/error.h"

#include <QSaveFile>

namespace pipescope {
void saveFile(const QString& path, const QByteArray& bytes, const char* remedy) {
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit()) {
        throw Error("cannot write '" + path.toStdString() + "': " + file.errorString().toStdString() + "; " + remedy);
    }
}
}  // namespace pipescope
