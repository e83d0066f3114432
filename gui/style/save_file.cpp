#include "gui/style/save_file.h"

#include "base/error.h"
#include "gui/style/file_name.h"

#include <QFileInfo>
#include <QSaveFile>

#include <unistd.h>

#include <filesystem>
#include <system_error>

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
    pathOf(path);  // a dialog shows names that are not UTF-8 too
    const auto refuse = [&](const std::string& why) {
        throw Error("cannot write '" + path.toStdString() + "': " + why + "; " + remedy);
    };
    // QSaveFile writes what a link leads to, which nobody named.
    const bool isLink = QFileInfo(path).isSymLink();
    const QString written = isLink ? path + QStringLiteral(".%1.partial").arg(getpid()) : path;
    QSaveFile file(written);
    if (!file.open(QIODevice::WriteOnly) || !writeAll(file, bytes) || !file.commit()) {
        refuse(file.errorString().toStdString());
    }
    if (isLink) {
        std::error_code failure;
        std::filesystem::rename(written.toStdString(), path.toStdString(), failure);
        if (failure) {
            std::error_code ignored;
            std::filesystem::remove(written.toStdString(), ignored);
            refuse(failure.message());
        }
    }
}

QByteArray wellFormed(const QByteArray& markup) {
    QByteArray text;
    text.reserve(markup.size());
    for (qsizetype k = 0; k < markup.size(); ++k) {
        const auto byte = static_cast<unsigned char>(markup[k]);
        const bool isControl = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
        const bool isNoCharacter = byte == 0xef && k + 2 < markup.size() && markup[k + 1] == '\xbf' &&
                                   (markup[k + 2] == '\xbe' || markup[k + 2] == '\xbf');  // U+FFFE, U+FFFF
        if (isControl || isNoCharacter) {
            text += "\xef\xbf\xbd";
            k += isNoCharacter ? 2 : 0;
        } else {
            text += markup[k];
        }
    }
    return text;
}
}  // namespace pipescope
