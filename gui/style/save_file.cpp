#include "gui/style/save_file.h"

#include "schedule/error.h"

#include <QSaveFile>

namespace pipescope {
namespace {
/// A disk that fills up takes a part first, and says why only when it gets the rest.
bool writeAll(QSaveFile& file, const QByteArray& bytes) {
    qint64 done = 0;
    while (done < bytes.size()) {
        const qint64 written = file.write(bytes.constData() + done, bytes.size() - done);
        if (written <= 0) {
            return false;
        }
        done += written;
    }
    return true;
}
}  // namespace

void saveFile(const QString& path, const QByteArray& bytes, const char* remedy) {
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly) || !writeAll(file, bytes) || !file.commit()) {
        throw Error("cannot write '" + path.toStdString() + "': " + file.errorString().toStdString() + "; " + remedy);
    }
}
}  // namespace pipescope
